package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Profile is a group of rows that is chosen as a whole.
type Profile string

// The profiles. Base is always in.
const (
	Base   Profile = "base"   // stdio, files and figures that are read, the Go runtime, glibc
	SQL    Profile = "sql"    // outgoing connections to a database
	Audit  Profile = "audit"  // an audit file that was opened before
	Socket Profile = "socket" // sessions over a listening unix socket that was opened before
)

// Option is a setting that a row depends on beside its profile; see [Settings].
type Option string

// The options.
const (
	WithOpenat2    Option = "openat2"
	WithoutOpenat2 Option = "no openat2"
	WithINET       Option = "inet"
	WithUnix       Option = "unix"
	WithDNS        Option = "dns"
)

// Condition holds for a call when its argument number Arg (0..5), reduced to the bits of Mask, is Value. All 64 bits
// of the register are compared where Mask has them: an int argument with garbage above is then refused, which no
// caller of ours passes and which costs nothing. PID stands for the process's own id in place of Value.
type Condition struct {
	Arg         uint
	Mask, Value uint64
	PID         bool
}

// Row says what happens to one system call. All of Args must hold; a call that no row covers gets the default.
type Row struct {
	ID      string // unique, the system call and what is special: "fcntl F_GETFL"
	Syscall string // the kernel's name
	Action  Action
	Args    []Condition
	Profile Profile
	If      Option   // empty: always
	Archs   []string // "amd64", "arm64"; empty: both
	Why     string
}

// Table returns every row, in the order of the source.
func Table() []Row {
	return slices.Concat(base(), sql(), audit(), socket(), loud())
}

// of completes rows: the profile, the name where there is nothing special, the action where a row has none of its
// own.
func of(p Profile, otherwise Action, rows []Row) []Row {
	for i := range rows {
		rows[i].Profile = p
		if rows[i].ID == "" {
			rows[i].ID = rows[i].Syscall
		}
		if rows[i].Action == 0 {
			rows[i].Action = otherwise
		}
	}
	return rows
}

// equal holds when the whole argument is v.
func equal(arg uint, v uint64) Condition { return Condition{Arg: arg, Mask: ^uint64(0), Value: v} }

// only holds when an int argument has no bits but those of bits. The upper half of the register is ignored, as the
// kernel ignores it.
func only(arg uint, bits uint64) Condition {
	return Condition{Arg: arg, Mask: 0xffffffff &^ bits}
}

// kind holds for socket(2)'s type, whatever SOCK_NONBLOCK and SOCK_CLOEXEC say.
func kind(v uint64) Condition {
	return Condition{Arg: 1, Mask: 0xffffffff &^ (unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC), Value: v}
}

func args(c ...Condition) []Condition { return c }

const (
	// readFlags are the bits of open(2)'s flags that opening for reading can have, on both architectures: O_NOCTTY,
	// O_NONBLOCK, O_CLOEXEC, O_PATH, and O_DIRECT, O_LARGEFILE, O_DIRECTORY and O_NOFOLLOW, which are the same four
	// bits 0x3c000 in another order on arm64. Not in it: O_WRONLY, O_RDWR, O_CREAT, O_EXCL, O_TRUNC, O_APPEND,
	// O_SYNC, FASYNC, O_NOATIME, __O_TMPFILE, and what a later kernel may add.
	readFlags = 0x100 | 0x800 | 0x3c000 | 0x80000 | 0x200000

	// threadFlags are what pthread_create of glibc 2.36 passes to clone(2): VM, FS, FILES, SIGHAND, THREAD, SYSVSEM,
	// SETTLS, PARENT_SETTID, CHILD_CLEARTID. No namespace, no exit signal, no vfork.
	threadFlags = 0x3d0f00
	// detachedFlags is the same with CLONE_DETACHED, which the kernel ignores and musl sets.
	detachedFlags = 0x7d0f00

	prSetVMA         = 0x53564d41
	prSetVMAAnonName = 0
)

// base is what a session over stdio needs. "observed" means: seen by strace between the session's begin and its end
// (Go 1.26, glibc 2.36), with tools/call of every tool.
func base() []Row {
	return of(Base, Allow, []Row{
		// Files that are open, and files that are opened to be read.
		{Syscall: "read", Why: "observed: stdin, files, figures"},
		{Syscall: "write", Why: "observed: stdout, stderr, the runtime's eventfd"},
		{
			Syscall: "writev",
			Why:     "glibc writes its last words with it (malloc corruption, smashed stack); a C abort would be mute",
		},
		{
			Syscall: "pread64",
			Why:     "observed: the runtime reads its cgroup CPU limit again and again (Go 1.25), figures",
		},
		{Syscall: "close", Why: "observed"},
		{Syscall: "fstat", Why: "observed: sizes of files"},
		{Syscall: "newfstatat", Why: "observed: the walk without openat2, os.Stat"},
		{Syscall: "statfs", Why: "observed: disk figure"},
		{Syscall: "readlinkat", Why: "observed: links in the sandbox, /proc/self"},
		{Syscall: "getdents64", Why: "the caller of Load lists /proc/self/task to prove that every thread is filtered"},
		{
			ID: "openat read-only", Syscall: "openat", Args: args(only(2, readFlags)),
			Why: "observed: files of the sandbox, figures; nothing is written or made",
		},
		{
			Syscall: "openat2", If: WithOpenat2,
			Why: "observed: files of the sandbox. Its flags are in memory: only with Landlock to deny writing",
		},
		{
			ID: "openat2 absent", Syscall: "openat2", If: WithoutOpenat2, Action: ENOSYS,
			Why: "its flags cannot be seen; callers fall back to a walk with openat",
		},
		{
			ID: "fcntl F_GETFL", Syscall: "fcntl", Args: args(equal(1, unix.F_GETFL)),
			Why: "observed: os.Open and os.NewFile ask for O_NONBLOCK",
		},
		{
			ID: "fcntl F_SETFL", Syscall: "fcntl", Args: args(equal(1, unix.F_SETFL)), Action: EPERM,
			Why: "observed: os.Open tries to make a file non-blocking, and reads it blocking when it may not. Refused: it " +
				"would clear O_APPEND of the audit file, and a filter cannot tell that descriptor from another",
		},

		// Waiting.
		{
			Syscall: "epoll_create1",
			Why:     "observed: Go makes its poller at the first timer, which may come late; it cannot go on without",
		},
		{Syscall: "epoll_ctl", Why: "observed"},
		{Syscall: "epoll_pwait", Why: "observed"},
		{Syscall: "eventfd2", Why: "observed: with epoll_create1"},
		{
			Syscall: "ppoll",
			Why:     "observed: one goroutine waits for stdout to be hung up; unix.Poll is ppoll on both architectures",
		},
		{Syscall: "futex", Why: "observed: every lock"},
		{Syscall: "nanosleep", Why: "observed: the runtime's own waits"},
		{
			Syscall: "clock_nanosleep",
			Why:     "glibc's nanosleep; runtime/cgo sleeps so when a thread cannot be made at once",
		},
		{
			Syscall: "clock_gettime",
			Why:     "the vDSO calls it where the clock source cannot be read from user space (hpet, acpi_pm, some VMs)",
		},
		{
			Syscall: "restart_syscall",
			Why:     "made by the kernel in place of a sleep that SIGSTOP and SIGCONT interrupted",
		},

		// Memory. No page is ever executable that was not before.
		{
			ID: "mmap anonymous", Syscall: "mmap",
			Args: args(only(2, unix.PROT_READ|unix.PROT_WRITE),
				Condition{Arg: 3, Mask: unix.MAP_ANONYMOUS | unix.MAP_HUGETLB, Value: unix.MAP_ANONYMOUS}),
			Why: "observed: heap, stacks; no file is mapped, and no huge page, which the control group's memory does not count",
		},
		{
			ID: "mprotect no exec", Syscall: "mprotect", Args: args(only(2, unix.PROT_READ|unix.PROT_WRITE)),
			Why: "observed: glibc's arenas and guard pages",
		},
		{Syscall: "munmap", Why: "observed"},
		{
			Syscall: "brk",
			Why:     "glibc takes -EPERM for a high address, so for success, and writes there (malloc: SIGSEGV, measured)",
		},
		{
			ID: "madvise DONTNEED", Syscall: "madvise", Args: args(equal(2, unix.MADV_DONTNEED)),
			Why: "observed: memory goes back",
		},
		{
			ID: "madvise HUGEPAGE", Syscall: "madvise", Args: args(equal(2, unix.MADV_HUGEPAGE)),
			Why: "Go's heap on some kernels",
		},
		{
			ID: "madvise NOHUGEPAGE", Syscall: "madvise", Args: args(equal(2, unix.MADV_NOHUGEPAGE)),
			Why: "Go's heap metadata",
		},
		{
			ID: "prctl PR_SET_VMA_ANON_NAME", Syscall: "prctl",
			Args: args(equal(0, prSetVMA), equal(1, prSetVMAAnonName)),
			Why:  "Go 1.25 names its memory in /proc/self/maps",
		},
		{Syscall: "getrandom", Why: "crypto/rand; the vDSO spares the call only since Linux 6.11"},

		// Threads and signals.
		{
			ID: "clone thread", Syscall: "clone", Args: args(equal(0, threadFlags)),
			Why: "pthread_create of glibc when clone3 is absent",
		},
		{
			ID: "clone thread detached", Syscall: "clone", Args: args(equal(0, detachedFlags)),
			Why: "pthread_create of musl",
		},
		{
			ID: "clone3 absent", Syscall: "clone3", Action: ENOSYS,
			Why: "observed; its flags are in memory. glibc then takes clone, whose flags are seen",
		},
		{Syscall: "set_robust_list", Why: "observed: each new thread"},
		{Syscall: "rseq", Why: "observed: each new thread"},
		{Syscall: "sched_yield", Why: "observed"},
		{
			Syscall: "sched_getaffinity",
			Why:     "observed: Go counts its CPUs again and again; refused, it would count one",
		},
		{Syscall: "gettid", Why: "observed"},
		{Syscall: "getpid", Why: "observed: before tgkill"},
		{
			ID: "tgkill own process", Syscall: "tgkill", Args: args(Condition{Arg: 0, Mask: ^uint64(0), PID: true}),
			Why: "observed: preemption of goroutines, dying of the right signal. Without the condition it would be kill(2)",
		},
		{
			Syscall: "rt_sigaction",
			Why:     "signal.Notify; and a panic, an abort or SIGPIPE resets the handler to die of the signal",
		},
		{Syscall: "rt_sigprocmask", Why: "observed: each new thread"},
		{Syscall: "rt_sigreturn", Why: "observed: the end of every signal handler"},
		{Syscall: "sigaltstack", Why: "observed: each new thread"},
		{Syscall: "exit", Why: "a thread ends"},
		{Syscall: "exit_group", Why: "observed: the process ends"},
	})
}

// sql is what pgx and Go's resolver need to reach a database. Here "observed" means that the test of a database client
// fails without the row. Data is read and written with read and write: no send, no recv.
func sql() []Row {
	return of(SQL, Allow, []Row{
		{
			ID: "socket INET stream", Syscall: "socket", If: WithINET,
			Args: args(equal(0, unix.AF_INET), kind(unix.SOCK_STREAM), equal(2, 0)),
			Why:  "observed: TCP to the database",
		},
		{
			ID: "socket INET6 stream", Syscall: "socket", If: WithINET,
			Args: args(equal(0, unix.AF_INET6), kind(unix.SOCK_STREAM), equal(2, 0)), Why: "observed: the same over IPv6",
		},
		{
			ID: "socket INET datagram", Syscall: "socket", If: WithDNS,
			Args: args(equal(0, unix.AF_INET), kind(unix.SOCK_DGRAM), equal(2, 0)), Why: "observed: Go's resolver",
		},
		{
			ID: "socket INET6 datagram", Syscall: "socket", If: WithDNS,
			Args: args(equal(0, unix.AF_INET6), kind(unix.SOCK_DGRAM), equal(2, 0)), Why: "Go's resolver over IPv6",
		},
		{
			ID: "socket UNIX stream", Syscall: "socket", If: WithUnix,
			Args: args(equal(0, unix.AF_UNIX), kind(unix.SOCK_STREAM), equal(2, 0)),
			Why:  "observed: a database on this host",
		},
		{Syscall: "connect", Why: "observed"},
		{ID: "getsockname sql", Syscall: "getsockname", Why: "observed: net.Dial"},
		{ID: "getpeername sql", Syscall: "getpeername", Why: "observed: net.Dial"},
		{
			ID: "getsockopt SO_ERROR", Syscall: "getsockopt",
			Args: args(equal(1, unix.SOL_SOCKET), equal(2, unix.SO_ERROR)),
			Why:  "observed: how a connect ended",
		},
		option("SO_KEEPALIVE", WithINET, unix.SOL_SOCKET, unix.SO_KEEPALIVE, "observed: net.Dial"),
		option("TCP_NODELAY", WithINET, unix.IPPROTO_TCP, unix.TCP_NODELAY, "observed: net.Dial"),
		option("TCP_KEEPIDLE", WithINET, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, "observed: net.Dial"),
		option("TCP_KEEPINTVL", WithINET, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, "observed: net.Dial"),
		option("TCP_KEEPCNT", WithINET, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, "observed: net.Dial"),
		option("IPV6_V6ONLY", WithINET, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, "observed: every IPv6 socket of net"),
		option("SO_BROADCAST", WithDNS, unix.SOL_SOCKET, unix.SO_BROADCAST, "observed: every datagram socket of net"),
		{Syscall: "uname", Why: "observed: net looks at the kernel's version"},
	})
}

// option is a row for one socket option that may be set.
func option(name string, when Option, level, number uint64, why string) Row {
	return Row{
		ID: "setsockopt " + name, Syscall: "setsockopt", If: when,
		Args: args(equal(1, level), equal(2, number)), Why: why,
	}
}

func audit() []Row {
	return of(Audit, Allow, []Row{
		{Syscall: "fsync", Why: "a record is on the disk before the call is answered"},
		{Syscall: "fdatasync", Why: "the same without the times of the file"},
	})
}

func socket() []Row {
	return of(Socket, Allow, []Row{
		{Syscall: "accept4", Why: "one connection, one session"},
		{ID: "getsockname socket", Syscall: "getsockname", Why: "net asks for it at each accept"},
		{
			ID: "getsockopt SO_PEERCRED", Syscall: "getsockopt",
			Args: args(equal(1, unix.SOL_SOCKET), equal(2, unix.SO_PEERCRED)),
			Why:  "who has connected",
		},
		{Syscall: "shutdown", Why: "a session ends its own direction first, so that the last answer is read"},
	})
}

// loud are calls that no part of the daemon makes and that only somebody makes who has taken it over: the process
// ends. The rest of the kernel's calls just fail with EPERM, because a new Go or glibc that tries one would else be
// an outage.
func loud() []Row {
	groups := []struct {
		why   string
		archs []string
		names []string
	}{
		{"another program", nil, []string{"execve", "execveat"}},
		{"another process; there is only clone on arm64", []string{"amd64"}, []string{"fork", "vfork"}},
		{"the memory or descriptors of another process", nil, []string{
			"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp",
		}},
		{"programs in the kernel, and the ways in that break most often", nil, []string{
			"bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register",
		}},
		{"another kernel or a part of it", nil, []string{
			"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot",
		}},
		{"mounts and namespaces", nil, []string{
			"mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "open_tree", "move_mount", "fsopen", "fsconfig",
			"fsmount", "fspick", "mount_setattr",
		}},
		{"files by number, past every path rule", nil, []string{"open_by_handle_at", "name_to_handle_at"}},
		{"keys of the kernel", nil, []string{"add_key", "request_key", "keyctl"}},
		{"settings of the whole machine", nil, []string{
			"swapon", "swapoff", "acct", "quotactl", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime",
			"sethostname", "setdomainname", "syslog", "vhangup",
		}},
		{"the machine's ports", []string{"amd64"}, []string{"iopl", "ioperm"}},
	}
	var rows []Row
	for _, g := range groups {
		for _, name := range g.names {
			rows = append(rows, Row{Syscall: name, Archs: g.archs, Why: g.why})
		}
	}
	return of(Base, Kill, rows)
}

// outerGroup are system calls that the outer wall allows beside those of the profiles.
type outerGroup struct {
	why   string
	names []string
}

// outer is what happens behind the runtime's filter and before ours: the end of the runtime's own work, the start of
// the program, stage one, the re-exec, and the probes that prove Landlock. "observed" as in [base].
func outer() []outerGroup {
	return []outerGroup{
		{
			"runc with no_new_privs loads the filter, then reports through a FIFO, closes what it has open and executes the " +
				"program (libcontainer/standard_init_linux.go); the daemon executes itself once more, inside Landlock",
			[]string{"execve", "fstatfs", "getppid", "lseek", "close_range"},
		},
		{
			"observed: the start of a static program of glibc and of the Go runtime",
			[]string{
				"arch_prctl", "set_tid_address", "prlimit64", "getrlimit", "setrlimit", "readlink", "uname", "sysinfo",
				"faccessat2",
			},
		},
		{
			"stage one: what it takes away from itself, and what it looks at before",
			[]string{
				"prctl", "umask", "getuid", "geteuid", "getgid", "getegid", "getgroups", "capget",
				"getcwd", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp",
			},
		},
		{
			"compiling the filter, and probes that have to get as far as Landlock or our own filter",
			[]string{"pipe2", "memfd_create", "bind", "listen", "accept4", "kill", "truncate", "ftruncate"},
		},
	}
}
