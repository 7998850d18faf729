package seccomp

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// probe is one system call that the filter has to refuse.
type probe struct {
	name, why string
	call      func(dir string) (nr uintptr, args [6]uintptr)
	want      syscall.Errno
}

func text(s string) uintptr {
	p, err := unix.BytePtrFromString(s)
	if err != nil {
		panic(err)
	}
	pinned.Store(p, true)
	return uintptr(unsafe.Pointer(p))
}

// pinned keeps what system calls point to alive; Go's heap does not move.
var pinned sync.Map

func raw(nr uintptr, args ...uintptr) func(string) (uintptr, [6]uintptr) {
	return func(string) (uintptr, [6]uintptr) {
		return nr, [6]uintptr(append(args, make([]uintptr, 6-len(args))...))
	}
}

func atFile(nr uintptr, args ...uintptr) func(string) (uintptr, [6]uintptr) {
	return func(dir string) (uintptr, [6]uintptr) {
		cwd := unix.AT_FDCWD
		all := append([]uintptr{uintptr(cwd), text(filepath.Join(dir, "file"))}, args...)
		return nr, [6]uintptr(append(all, make([]uintptr, 6-len(all))...))
	}
}

const (
	none    = ^uintptr(0)       // a descriptor that is none
	nobody  = 1<<22 - 1         // a process that is none
	noClone = unix.CLONE_THREAD // EINVAL without CLONE_SIGHAND: nothing is made even where it is allowed
)

func probes() []probe {
	const eperm, enosys = unix.EPERM, unix.ENOSYS
	return []probe{
		{"openat O_WRONLY", "writing", atFile(unix.SYS_OPENAT, unix.O_WRONLY), eperm},
		{"openat O_RDWR", "writing", atFile(unix.SYS_OPENAT, unix.O_RDWR), eperm},
		{"openat O_CREAT", "a new file without writing", atFile(unix.SYS_OPENAT, unix.O_CREAT, 0o600), eperm},
		{"openat O_TRUNC", "truncates even when opened for reading", atFile(unix.SYS_OPENAT, unix.O_TRUNC), eperm},
		{"openat O_APPEND", "no reader needs it", atFile(unix.SYS_OPENAT, unix.O_APPEND), eperm},
		{"openat O_NOATIME", "leaves no trace", atFile(unix.SYS_OPENAT, unix.O_NOATIME), eperm},
		{"openat access mode 3", "ioctl only, an old oddity", atFile(unix.SYS_OPENAT, 3), eperm},
		{"openat2", "its flags cannot be seen", raw(unix.SYS_OPENAT2), enosys},
		{"mkdirat", "", atFile(unix.SYS_MKDIRAT, 0o700), eperm},
		{"unlinkat", "", atFile(unix.SYS_UNLINKAT, 0), eperm},
		{"fchmodat", "", atFile(unix.SYS_FCHMODAT, 0o777), eperm},
		{"utimensat", "", atFile(unix.SYS_UTIMENSAT), eperm},
		{"faccessat", "", atFile(unix.SYS_FACCESSAT, 0), eperm},
		{"statx", "", atFile(unix.SYS_STATX), eperm},
		{"chdir", "", func(dir string) (uintptr, [6]uintptr) { return unix.SYS_CHDIR, [6]uintptr{text(dir)} }, eperm},
		{"umask", "", raw(unix.SYS_UMASK, 0o22), eperm},
		{"getxattr", "", raw(unix.SYS_GETXATTR), eperm},
		{"ftruncate", "a file that is open", raw(unix.SYS_FTRUNCATE, none), eperm},
		{"lseek", "", raw(unix.SYS_LSEEK, none), eperm},
		{"pwrite64", "an append-only file has one end", raw(unix.SYS_PWRITE64, none), eperm},
		{"readv", "", raw(unix.SYS_READV, none), eperm},
		{"preadv", "", raw(unix.SYS_PREADV, none), eperm},
		{"pwritev", "the same", raw(unix.SYS_PWRITEV, none), eperm},
		{"pwritev2", "the same", raw(unix.SYS_PWRITEV2, none), eperm},
		{"fallocate", "", raw(unix.SYS_FALLOCATE, none), eperm},
		{"sync_file_range", "", raw(unix.SYS_SYNC_FILE_RANGE, none), eperm},
		{"fchown", "", raw(unix.SYS_FCHOWN, none, none, none), eperm},
		{"fchmod", "", raw(unix.SYS_FCHMOD, none), eperm},
		{"fsetxattr", "", raw(unix.SYS_FSETXATTR, none), eperm},
		{"fchdir", "", raw(unix.SYS_FCHDIR, none), eperm},
		{"flock", "locks the files of others", raw(unix.SYS_FLOCK, none), eperm},
		{"tee", "", raw(unix.SYS_TEE, none, none, 1), eperm},
		{"vmsplice", "", raw(unix.SYS_VMSPLICE, none, 0, 1), eperm},
		{"copy_file_range", "", raw(unix.SYS_COPY_FILE_RANGE, none, 0, none), eperm},
		{"splice", "", raw(unix.SYS_SPLICE, none), eperm},
		{"dup", "", raw(unix.SYS_DUP, none), eperm},
		{"dup3", "onto the audit file", raw(unix.SYS_DUP3, none, 100), eperm},
		{"close_range", "", raw(unix.SYS_CLOSE_RANGE, none, 0), eperm},
		{"inotify_init1", "", raw(unix.SYS_INOTIFY_INIT1, unix.IN_CLOEXEC), eperm},
		{"memfd_create", "a file to execute", raw(unix.SYS_MEMFD_CREATE), eperm},
		{"pipe2", "", raw(unix.SYS_PIPE2), eperm},
		{"ioctl TIOCSTI", "types into the terminal", raw(unix.SYS_IOCTL, none, unix.TIOCSTI), eperm},
		{"ioctl TCGETS", "no ioctl at all", raw(unix.SYS_IOCTL, none, unix.TCGETS), eperm},

		{"fcntl F_SETFL", "O_APPEND of the audit file", raw(unix.SYS_FCNTL, 1, unix.F_SETFL, 0), eperm},
		{"fcntl F_SETOWN", "signals by way of a descriptor", raw(unix.SYS_FCNTL, none, unix.F_SETOWN, 1), eperm},
		{"fcntl F_SETLK", "locks the files of others", raw(unix.SYS_FCNTL, none, unix.F_SETLK), eperm},
		{"fcntl F_DUPFD_CLOEXEC", "", raw(unix.SYS_FCNTL, none, unix.F_DUPFD_CLOEXEC), eperm},
		{"fcntl F_SETFD", "", raw(unix.SYS_FCNTL, none, unix.F_SETFD), eperm},
		{"fcntl F_ADD_SEALS", "", raw(unix.SYS_FCNTL, none, unix.F_ADD_SEALS), eperm},

		{"mmap executable", "shell code", raw(unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_EXEC,
			unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, none), eperm},
		{"mmap of huge pages", "the control group does not count them", raw(unix.SYS_MMAP, 0, 2<<20, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_HUGETLB, none), eperm},
		{"mmap of a file", "", raw(unix.SYS_MMAP, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE, none), eperm},
		{"mprotect executable", "shell code", raw(unix.SYS_MPROTECT, 0, 0, unix.PROT_EXEC), eperm},
		{"pkey_mprotect", "mprotect by another name", raw(unix.SYS_PKEY_MPROTECT, 0, 0, unix.PROT_EXEC, none), eperm},
		{"mremap", "", raw(unix.SYS_MREMAP, 1), eperm},
		{"remap_file_pages", "", raw(unix.SYS_REMAP_FILE_PAGES, 1), eperm},
		{"madvise MADV_NORMAL", "not in the list", raw(unix.SYS_MADVISE, 0, 0, unix.MADV_NORMAL), eperm},
		{"madvise MADV_RANDOM", "not in the list", raw(unix.SYS_MADVISE, 0, 0, unix.MADV_RANDOM), eperm},
		{"madvise MADV_WILLNEED", "not in the list", raw(unix.SYS_MADVISE, 0, 0, unix.MADV_WILLNEED), eperm},
		{"madvise MADV_FREE", "not in the list", raw(unix.SYS_MADVISE, 0, 0, unix.MADV_FREE), eperm},
		{"madvise MADV_DONTFORK", "not in the list", raw(unix.SYS_MADVISE, 0, 0, unix.MADV_DONTFORK), eperm},
		{
			"madvise MADV_MERGEABLE", "tells others what is in it",
			raw(unix.SYS_MADVISE, 0, 0, unix.MADV_MERGEABLE), eperm,
		},
		{"madvise MADV_DONTDUMP", "not in the list", raw(unix.SYS_MADVISE, 0, 0, unix.MADV_DONTDUMP), eperm},
		{"madvise MADV_DODUMP", "not in the list", raw(unix.SYS_MADVISE, 0, 0, unix.MADV_DODUMP), eperm},
		{"madvise MADV_COLD", "not in the list", raw(unix.SYS_MADVISE, 0, 0, unix.MADV_COLD), eperm},
		{"madvise MADV_PAGEOUT", "not in the list", raw(unix.SYS_MADVISE, 0, 0, unix.MADV_PAGEOUT), eperm},
		{"mlock", "", raw(unix.SYS_MLOCK), eperm},

		{"prctl PR_SET_DUMPABLE", "ptrace by others", raw(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1), eperm},
		{"prctl PR_SET_NAME", "", raw(unix.SYS_PRCTL, unix.PR_SET_NAME, 1), eperm},
		{"prctl PR_GET_SECCOMP", "", raw(unix.SYS_PRCTL, unix.PR_GET_SECCOMP), eperm},
		{"prctl PR_SET_VMA other", "", raw(unix.SYS_PRCTL, unix.PR_SET_VMA, 1), eperm},
		{"seccomp", "", raw(unix.SYS_SECCOMP, none), eperm},
		{"landlock_create_ruleset", "", raw(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1), eperm},
		{"prlimit64", "reads only, and would also set", raw(unix.SYS_PRLIMIT64), eperm},
		{"setuid", "", raw(unix.SYS_SETUID, none), eperm},
		{"setfsuid", "", raw(unix.SYS_SETFSUID, none), eperm},
		{"getuid", "", raw(unix.SYS_GETUID), eperm},
		{"personality", "no address randomisation, executable reading", raw(unix.SYS_PERSONALITY, 0xffffffff), eperm},

		{"kill", "itself, so that the control may", func(string) (uintptr, [6]uintptr) {
			return unix.SYS_KILL, [6]uintptr{uintptr(os.Getpid()), 0}
		}, eperm},
		{"tkill", "", raw(unix.SYS_TKILL, nobody), eperm},
		{"tgkill another process", "kill by another name", raw(unix.SYS_TGKILL, nobody, nobody), eperm},
		{"rt_sigqueueinfo", "", raw(unix.SYS_RT_SIGQUEUEINFO, nobody), eperm},
		{"pidfd_open", "", raw(unix.SYS_PIDFD_OPEN, nobody), eperm},
		{"wait4", "", raw(unix.SYS_WAIT4, none), eperm},
		{"clone with other flags", "a process", raw(unix.SYS_CLONE, noClone), eperm},
		{"clone3", "glibc takes clone then", raw(unix.SYS_CLONE3), enosys},
		{"timer_create", "", raw(unix.SYS_TIMER_CREATE, none), eperm},
		{"sched_setaffinity", "", raw(unix.SYS_SCHED_SETAFFINITY), eperm},
		{"sched_setscheduler", "", raw(unix.SYS_SCHED_SETSCHEDULER, 0, none), eperm},
		{"ioprio_set", "", raw(unix.SYS_IOPRIO_SET, none), eperm},

		{"socket INET", "", raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM), eperm},
		{"socket INET6", "", raw(unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_STREAM), eperm},
		{
			"socket INET by protocol", "MPTCP, SCTP, or TCP by its number",
			raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP), eperm,
		},
		{"socket INET datagram", "", raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM), eperm},
		{
			"socket INET datagram by protocol", "ICMP",
			raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDP), eperm,
		},
		{"socket UNIX", "docker.sock", raw(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM), eperm},
		{"socket UNIX datagram", "/dev/log", raw(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_DGRAM), eperm},
		{"socket UNIX seqpacket", "", raw(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_SEQPACKET), eperm},
		{"socket NETLINK", "", raw(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW), eperm},
		{"socketpair", "", raw(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM), eperm},
		{"connect", "", raw(unix.SYS_CONNECT, none), eperm},
		{"bind", "", raw(unix.SYS_BIND, none), eperm},
		{"listen", "", raw(unix.SYS_LISTEN, none), eperm},
		{"accept4", "", raw(unix.SYS_ACCEPT4, none), eperm},
		{"sendto", "", raw(unix.SYS_SENDTO, none), eperm},
		{"sendmsg", "", raw(unix.SYS_SENDMSG, none), eperm},
		{"sendmmsg", "", raw(unix.SYS_SENDMMSG, none), eperm},
		{"recvfrom", "", raw(unix.SYS_RECVFROM, none), eperm},
		{"recvmsg", "brings descriptors", raw(unix.SYS_RECVMSG, none), eperm},
		{"recvmmsg", "", raw(unix.SYS_RECVMMSG, none), eperm},
		{"shutdown", "of the profile socket", raw(unix.SYS_SHUTDOWN, none), eperm},
		{"getsockname", "of the profiles sql and socket", raw(unix.SYS_GETSOCKNAME, none), eperm},
		{"getpeername", "of the profile sql", raw(unix.SYS_GETPEERNAME, none), eperm},
		{
			"getsockopt SO_ERROR", "of the profile sql",
			raw(unix.SYS_GETSOCKOPT, none, unix.SOL_SOCKET, unix.SO_ERROR), eperm,
		},
		{
			"getsockopt SO_PEERCRED", "of the profile socket",
			raw(unix.SYS_GETSOCKOPT, none, unix.SOL_SOCKET, unix.SO_PEERCRED), eperm,
		},
		{"getsockopt SO_TYPE", "", raw(unix.SYS_GETSOCKOPT, none, unix.SOL_SOCKET, unix.SO_TYPE), eperm},
		{
			"setsockopt SO_KEEPALIVE", "of the profile sql",
			raw(unix.SYS_SETSOCKOPT, none, unix.SOL_SOCKET, unix.SO_KEEPALIVE), eperm,
		},
		{
			"setsockopt TCP_NODELAY", "of the profile sql",
			raw(unix.SYS_SETSOCKOPT, none, unix.IPPROTO_TCP, unix.TCP_NODELAY), eperm,
		},
		{
			"setsockopt SO_BROADCAST", "of the profile sql",
			raw(unix.SYS_SETSOCKOPT, none, unix.SOL_SOCKET, unix.SO_BROADCAST), eperm,
		},
		{"setsockopt SO_REUSEADDR", "", raw(unix.SYS_SETSOCKOPT, none, unix.SOL_SOCKET, unix.SO_REUSEADDR), eperm},
		{"setsockopt TCP_REPAIR", "", raw(unix.SYS_SETSOCKOPT, none, unix.IPPROTO_TCP, unix.TCP_REPAIR), eperm},
		{"setsockopt by level 0", "", raw(unix.SYS_SETSOCKOPT, none, unix.IPPROTO_IP, unix.SO_KEEPALIVE), eperm},
		{"uname", "of the profile sql", raw(unix.SYS_UNAME), eperm},
		{"shmget", "", raw(unix.SYS_SHMGET, 0x1234567, 0), eperm},
		{"shmat", "", raw(unix.SYS_SHMAT, none), eperm},
		{"msgsnd", "", raw(unix.SYS_MSGSND, none), eperm},
		{"mq_open", "", raw(unix.SYS_MQ_OPEN), eperm},
		{"mq_timedsend", "", raw(unix.SYS_MQ_TIMEDSEND, none), eperm},
		{"fsync", "of the profile audit", raw(unix.SYS_FSYNC, none), eperm},
		{"fdatasync", "of the profile audit", raw(unix.SYS_FDATASYNC, none), eperm},
		{"number 1000", "not yet a system call", raw(1000), eperm},
		{"number 9999", "beyond every table", raw(9999), eperm},
	}
}

// suit is a filter, and the probes that are part of its work.
type suit struct {
	Settings
	work []string
}

func suits() map[string]suit {
	sql, inet := []string{
		"connect", "getsockname", "getpeername", "getsockopt SO_ERROR", "uname",
	}, []string{"socket INET", "socket INET6", "setsockopt SO_KEEPALIVE", "setsockopt TCP_NODELAY"}
	names := []string{"socket INET datagram", "setsockopt SO_BROADCAST"}
	profile := func(p Profile) Settings { return Settings{Profiles: []Profile{p}} }
	byAddress, byName, byFolder := profile(SQL), profile(SQL), profile(SQL)
	byAddress.INET, byName.INET, byName.DNS, byFolder.Unix = true, true, true, true
	return map[string]suit{
		"base":   {},
		"inet":   {byAddress, slices.Concat(sql, inet)},
		"dns":    {byName, slices.Concat(sql, inet, names)},
		"unix":   {byFolder, append(slices.Clone(sql), "socket UNIX")},
		"audit":  {profile(Audit), []string{"fsync", "fdatasync"}},
		"socket": {profile(Socket), []string{"accept4", "getsockname", "getsockopt SO_PEERCRED", "shutdown"}},
	}
}

// childDenied makes every probe and prints its number and what it answered. arg is a suit and a folder.
func childDenied(arg string) error {
	name, dir, _ := strings.Cut(arg, " ")
	if err := load(suits()[name].Settings); err != nil {
		return err
	}
	for i, p := range probes() {
		nr, a := p.call(dir)
		_, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		fmt.Println(i, int(errno))
	}
	return nil
}

func TestWhatIsNotInTheTableIsRefused(t *testing.T) {
	dir := openDir(t)
	file := filepath.Join(dir, "file")
	answers := func(suit string, control bool) map[int]syscall.Errno {
		must(t, os.WriteFile(file, []byte("kept"), 0o666))
		if os.Getuid() == 0 {
			must(t, os.Chown(file, daemonUID, daemonUID)) // O_NOATIME is for owners
		}
		got := map[int]syscall.Errno{}
		for _, line := range lines(child{name: "denied", arg: suit + " " + dir, control: control}.good(t)) {
			var i, errno int
			if _, err := fmt.Sscan(line, &i, &errno); err != nil {
				t.Fatal(err)
			}
			got[i] = syscall.Errno(errno)
		}
		return got
	}
	control := answers("base", true)
	for name, suit := range suits() {
		filtered := answers(name, false)
		if text, err := os.ReadFile(file); err != nil || string(text) != "kept" {
			t.Errorf("%s: the file is now %q, %v", name, text, err)
		}
		settings := suit.Settings
		settings.PID = nobody - 1
		f, err := Compile(settings)
		must(t, err)
		work := slices.Clone(suit.work)
		for i, p := range probes() {
			want := p.want
			if at := slices.Index(work, p.name); at >= 0 {
				work, want = slices.Delete(work, at, at+1), control[i]
			}
			if got := filtered[i]; got != want {
				t.Errorf("%s, %s (%s): %v, not %v", name, p.name, p.why, got, want)
			}
			if control[i] == p.want {
				t.Errorf("%s: %v without the filter too, so it shows nothing", p.name, p.want)
			}
			nr, a := p.call(dir)
			c := Call{Number: uint32(nr)}
			for i := range a {
				c.Args[i] = uint64(a[i])
			}
			said := p.want
			if want != p.want {
				said = 0
			}
			if got := f.Decide(c).Errno(); got != said {
				t.Errorf("%s, %s: the interpreter says %v, the kernel %v", name, p.name, got, filtered[i])
			}
		}
		if len(work) > 0 {
			t.Errorf("%s: there are no probes %q", name, work)
		}
	}
}

// childRaw makes system calls with zero arguments, given by their numbers.
func childRaw(numbers string) error {
	if err := load(Settings{Openat2: true}); err != nil {
		return err
	}
	for word := range strings.FieldsSeq(numbers) {
		n, err := strconv.ParseUint(word, 0, 64)
		if err != nil {
			return err
		}
		_, _, errno := unix.RawSyscall6(uintptr(n), 0, 0, 0, 0, 0, 0)
		fmt.Println(n, int(errno))
	}
	return nil
}

func TestEachLoudCallEndsTheProcess(t *testing.T) {
	type fatal struct{ name, number string }
	var calls []fatal
	for _, row := range Table() {
		if n, ok := Number(row.Syscall, ""); ok && row.Action == Kill {
			calls = append(calls, fatal{row.ID, strconv.Itoa(int(n))})
		}
	}
	if len(calls) < 50 {
		t.Fatalf("only %d loud calls", len(calls))
	}
	if runtime.GOARCH == "amd64" {
		// A program of x32; int 0x80 needs assembly, which a test file cannot have: pkg/lockdown does it.
		calls = append(calls, fatal{"getpid of x32", "0x40000027"}, fatal{"execve of x32", "0x40000208"})
	}
	var harmless []string
	for _, c := range calls {
		r := child{name: "raw", arg: c.number}.run(t)
		if r.signal != syscall.SIGSYS {
			t.Errorf("%s: exit code %d, signal %v\n%s%s", c.name, r.code, r.signal, r.stdout, r.stderr)
		}
		// fork and vfork would make a second child, PTRACE_TRACEME would stop it.
		if !strings.Contains(" fork vfork ptrace ", " "+c.name+" ") {
			harmless = append(harmless, c.number)
		}
	}
	if os.Getuid() != 0 {
		t.Log("the control runs only when the tests are root, who can become someone else")
		return
	}
	control := child{name: "raw", arg: strings.Join(harmless, " "), control: true}
	if got := lines(control.good(t)); len(got) != len(harmless) {
		t.Errorf("%d of %d calls came back without the filter", len(got), len(harmless))
	}
}

// childThreads prints Seccomp_filters and NoNewPrivs of every thread before and after, with threads that were there
// before and cannot be the one that loads.
func childThreads(string) error {
	const old = 10
	var ready sync.WaitGroup
	ready.Add(old)
	for range old {
		go func() {
			runtime.LockOSThread()
			ready.Done()
			select {}
		}()
	}
	ready.Wait()
	before, err := statuses()
	if err != nil {
		return err
	}
	if err := load(Settings{}); err != nil {
		return err
	}
	after, err := statuses()
	if err != nil {
		return err
	}
	fmt.Println(len(before), len(after))
	for _, s := range before {
		fmt.Println("before", s)
	}
	for _, s := range after {
		fmt.Println("after", s)
	}
	return nil
}

func statuses() ([]string, error) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, task := range tasks {
		status, err := os.ReadFile("/proc/self/task/" + task.Name() + "/status")
		if err != nil {
			return nil, err
		}
		var s string
		for line := range strings.Lines(string(status)) {
			for _, key := range []string{"NoNewPrivs:", "Seccomp:", "Seccomp_filters:"} {
				if value, ok := strings.CutPrefix(line, key); ok {
					s += key + strings.TrimSpace(value) + " "
				}
			}
		}
		out = append(out, s)
	}
	return out, nil
}

func TestEveryThreadIsFiltered(t *testing.T) {
	outside, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, rest, ok := strings.Cut(string(outside), "Seccomp_filters:")
	if !ok {
		t.Fatal("this kernel does not count filters (Linux 5.9)")
	}
	filters, err := strconv.Atoi(strings.Fields(rest)[0])
	must(t, err)
	got := lines(child{name: "threads"}.good(t))
	var before, after int
	if _, err := fmt.Sscan(got[0], &before, &after); err != nil || before < 12 || after < before {
		t.Fatalf("%d threads before, %d after, %v", before, after, err)
	}
	for _, line := range got[1:] {
		want := fmt.Sprintf("Seccomp_filters:%d ", filters)
		if strings.HasPrefix(line, "after") {
			want = fmt.Sprintf("after NoNewPrivs:1 Seccomp:2 Seccomp_filters:%d ", filters+1)
		}
		if !strings.Contains(line+" ", want) {
			t.Errorf("%q, not %q", line, want)
		}
	}
}

func childTwice(string) error {
	f, err := Compile(Settings{PID: os.Getpid()})
	if err != nil {
		return err
	}
	if err := f.Load(); err != nil {
		return err
	}
	fmt.Println(f.Load())
	_, err = f.PFC()
	fmt.Println(err, f.Decide(Call{Number: unix.SYS_EXECVE}), len(f.Program()) == f.Instructions)
	return nil
}

func TestALoadedFilterCanBeAskedButNotLoadedAgain(t *testing.T) {
	const want = "load filter: it was loaded before\nexport filter: it is loaded kill process true\n"
	if got := (child{name: "twice"}).good(t); got != want {
		t.Errorf("%q, not %q", got, want)
	}
}
