package seccomp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// allowances are all that a process of ours may still do, in numbers of the kernel and not of the table: a row that
// is added, or a condition that is widened, has to be written here a second time, by hand. (The golden files follow the
// table by themselves.) After the name stands ARGUMENT=VALUE or ARGUMENT&MASK=VALUE; what is not allowed but has a row of
// its own ends with its answer.
const allowances = `
base:
	read
	write
	writev
	pread64
	close
	fstat
	newfstatat
	statfs
	readlinkat
	getdents64
	openat 2&0xffd436ff=0x0
	fcntl 1=0x3
	fcntl 1=0x4 errno EPERM
	epoll_create1
	epoll_ctl
	epoll_pwait
	eventfd2
	ppoll
	futex
	nanosleep
	clock_nanosleep
	clock_gettime
	restart_syscall
	mmap 2&0xfffffffc=0x0 3&0x40020=0x20
	mprotect 2&0xfffffffc=0x0
	munmap
	brk
	madvise 2=0x4
	madvise 2=0xe
	madvise 2=0xf
	prctl 0=0x53564d41 1=0x0
	getrandom
	clone 0=0x3d0f00
	clone 0=0x7d0f00
	clone3 errno ENOSYS
	set_robust_list
	rseq
	sched_yield
	sched_getaffinity
	gettid
	getpid
	tgkill 0=itself
	rt_sigaction
	rt_sigprocmask
	rt_sigreturn
	sigaltstack
	exit
	exit_group
base, openat2:
	openat2
base, no openat2:
	openat2 errno ENOSYS
sql:
	connect
	getsockname
	getpeername
	getsockopt 1=0x1 2=0x4
	uname
sql, inet:
	socket 0=0x2 1&0xfff7f7ff=0x1 2=0x0
	socket 0=0xa 1&0xfff7f7ff=0x1 2=0x0
	setsockopt 1=0x1 2=0x9
	setsockopt 1=0x6 2=0x1
	setsockopt 1=0x6 2=0x4
	setsockopt 1=0x6 2=0x5
	setsockopt 1=0x6 2=0x6
	setsockopt 1=0x29 2=0x1a
sql, dns:
	socket 0=0x2 1&0xfff7f7ff=0x2 2=0x0
	socket 0=0xa 1&0xfff7f7ff=0x2 2=0x0
	setsockopt 1=0x1 2=0x6
sql, unix:
	socket 0=0x1 1&0xfff7f7ff=0x1 2=0x0
audit:
	fsync
	fdatasync
socket:
	accept4
	getsockname
	getsockopt 1=0x1 2=0x11
	shutdown
`

func TestNothingIsAllowedThatIsNotWrittenHere(t *testing.T) {
	t.Parallel()
	var want, got []string
	group := ""
	for line := range strings.Lines(allowances) {
		line = strings.TrimSpace(line)
		if name, is := strings.CutSuffix(line, ":"); is {
			group = name
		} else if line != "" {
			want = append(want, group+": "+line)
		}
	}
	for _, row := range Table() {
		if row.Action != Kill {
			got = append(got, spelled(row))
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("the table has a row that is not written here: %s", line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("the table has no such row: %s", line)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d rows, and %d are written", len(got), len(want))
	}
}

func spelled(row Row) string {
	text := string(row.Profile)
	if row.If != "" {
		text += ", " + string(row.If)
	}
	for _, arch := range row.Archs {
		text += ", " + arch
	}
	text += ": " + row.Syscall
	for _, c := range row.Args {
		text += fmt.Sprintf(" %d", c.Arg)
		if c.Mask != ^uint64(0) {
			text += fmt.Sprintf("&%#x", c.Mask)
		}
		if c.PID {
			text += "=itself"
		} else {
			text += fmt.Sprintf("=%#x", c.Value)
		}
	}
	if row.Action != Allow {
		text += " " + row.Action.String()
	}
	return text
}
