package seccomp

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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
		{"copy_file_range", "", raw(unix.SYS_COPY_FILE_RANGE, none, 0, none), eperm},
		{"splice", "", raw(unix.SYS_SPLICE, none), eperm},
		{"dup", "", raw(unix.SYS_DUP, none), eperm},
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
		{"madvise MADV_WILLNEED", "not in the list", raw(unix.SYS_MADVISE, 0, 0, unix.MADV_WILLNEED), eperm},
		{"mlock", "", raw(unix.SYS_MLOCK), eperm},

		{"prctl PR_SET_DUMPABLE", "ptrace by others", raw(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1), eperm},
		{"prctl PR_SET_NAME", "", raw(unix.SYS_PRCTL, unix.PR_SET_NAME, 1), eperm},
		{"prctl PR_GET_SECCOMP", "", raw(unix.SYS_PRCTL, unix.PR_GET_SECCOMP), eperm},
		{"prctl PR_SET_VMA other", "", raw(unix.SYS_PRCTL, unix.PR_SET_VMA, 1), eperm},
		{"seccomp", "", raw(unix.SYS_SECCOMP, none), eperm},
		{"landlock_create_ruleset", "", raw(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1), eperm},
		{"prlimit64", "reads only, and would also set", raw(unix.SYS_PRLIMIT64), eperm},
		{"setuid", "", raw(unix.SYS_SETUID, none), eperm},
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

		{"socket INET", "", raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM), eperm},
		{"socket UNIX", "docker.sock", raw(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM), eperm},
		{"socket NETLINK", "", raw(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW), eperm},
		{"socketpair", "", raw(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM), eperm},
		{"connect", "", raw(unix.SYS_CONNECT, none), eperm},
		{"bind", "", raw(unix.SYS_BIND, none), eperm},
		{"listen", "", raw(unix.SYS_LISTEN, none), eperm},
		{"accept4", "", raw(unix.SYS_ACCEPT4, none), eperm},
		{"sendto", "", raw(unix.SYS_SENDTO, none), eperm},
		{"sendmsg", "", raw(unix.SYS_SENDMSG, none), eperm},
		{"shmget", "", raw(unix.SYS_SHMGET, 0x1234567, 0), eperm},
		{"mq_open", "", raw(unix.SYS_MQ_OPEN), eperm},
		{"fsync", "of the profile audit", raw(unix.SYS_FSYNC, none), eperm},
		{"number 1000", "not yet a system call", raw(1000), eperm},
		{"number 9999", "beyond every table", raw(9999), eperm},
	}
}

// childDenied makes every probe and prints its number and what it answered.
func childDenied(dir string) error {
	if err := load(Settings{}); err != nil {
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
	answers := func(control bool) map[int]syscall.Errno {
		must(t, os.WriteFile(file, []byte("kept"), 0o666))
		if os.Getuid() == 0 {
			must(t, os.Chown(file, daemonUID, daemonUID)) // O_NOATIME is for owners
		}
		got := map[int]syscall.Errno{}
		for _, line := range lines(child{name: "denied", arg: dir, control: control}.good(t)) {
			var i, errno int
			if _, err := fmt.Sscan(line, &i, &errno); err != nil {
				t.Fatal(err)
			}
			got[i] = syscall.Errno(errno)
		}
		return got
	}
	filtered := answers(false)
	if text, err := os.ReadFile(file); err != nil || string(text) != "kept" {
		t.Errorf("the file is now %q, %v", text, err)
	}
	control := answers(true)
	f, err := Compile(Settings{PID: nobody - 1})
	must(t, err)
	for i, p := range probes() {
		if got := filtered[i]; got != p.want {
			t.Errorf("%s (%s): %v, not %v", p.name, p.why, got, p.want)
		}
		if control[i] == p.want {
			t.Errorf("%s: %v without the filter too, so it shows nothing", p.name, p.want)
		}
		nr, a := p.call(dir)
		c := Call{Number: uint32(nr)}
		for i := range a {
			c.Args[i] = uint64(a[i])
		}
		if got := f.Decide(c).Errno(); got != p.want {
			t.Errorf("%s: the interpreter says %v, the kernel %v", p.name, got, p.want)
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
