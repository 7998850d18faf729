package lockdown

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/seccomp"
)

// denial is one thing that must be refused once the process is sealed. Each is tried at every start, on more than one
// thread. Tried where nothing refuses it, it does no harm and its answer is another one, which is how tests show that a
// denial is ours: hence the odd arguments.
type denial struct {
	name  string
	layer string     // landlock, seccomp, or kernel: what owes the refusal
	want  unix.Errno // the refusal
	// under says with which filters the thing is part of the work, so that nothing is owed; nil is never.
	under func(seccomp.Settings) bool
	try   func() error
}

// Outcome is a denial and what happened.
type Outcome struct {
	Name   string `json:"name"`
	Layer  string `json:"layer"`
	Want   string `json:"want"`
	Got    string `json:"got"`    // name of the errno; "allowed"; "not tried"
	Denied bool   `json:"denied"` // got what was wanted
	Owed   bool   `json:"owed"`   // the layer is in force, so that anything else is a fault
}

const (
	byLandlock = "landlock"
	bySeccomp  = "seccomp"
	byKernel   = "kernel" // owed by no layer of ours
)

// What Outcome.Got says beside the names of errnos.
const (
	allowed  = "allowed"
	notTried = "not tried"
)

// Filters that have sockets of one kind, or of any.
func inet(s seccomp.Settings) bool      { return s.INET }
func datagrams(s seccomp.Settings) bool { return s.DNS }
func local(s seccomp.Settings) bool     { return s.Unix }
func network(s seccomp.Settings) bool   { return s.INET || s.Unix }
func listening(s seccomp.Settings) bool { return slices.Contains(s.Profiles, seccomp.Socket) }

func (p Plan) denials(f facts) []denial {
	sys := func(name string, number uintptr, args ...uintptr) denial {
		return denial{name, bySeccomp, unix.EPERM, nil, func() error { return rawCall(number, args...) }}
	}
	open := func(name string, path string, flags int) denial {
		return denial{name, bySeccomp, unix.EPERM, nil, func() error { return openAndClose(path, flags) }}
	}
	socket := func(name string, family, kind, protocol int, under func(seccomp.Settings) bool) denial {
		return denial{name, bySeccomp, unix.EPERM, under, func() error {
			fd, err := unix.Socket(family, kind, protocol)
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		}}
	}
	openat2 := denial{"openat2 with O_WRONLY", byLandlock, unix.EACCES, nil, func() error {
		err := closeIf(unix.Openat2(unix.AT_FDCWD, "/dev/null", &unix.OpenHow{Flags: unix.O_WRONLY | unix.O_CLOEXEC}))
		if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.EISDIR { // a container without devices
			return errNotTried
		}
		return err
	}}
	creator, refusal := byLandlock, unix.EACCES
	if f.ABI < truncateABI {
		openat2.name, openat2.layer, openat2.want = "openat2 at all", bySeccomp, unix.ENOSYS
		creator, refusal = openat2.layer, openat2.want
	}
	noName := pointer(&empty[0])
	const nobody = 1 << 22 // above the largest process id (PID_MAX_LIMIT, proc(5))
	const noFD = ^uintptr(0)

	return append(archDenials(sys), []denial{
		// Files.
		{"open a file outside of the grants", byLandlock, unix.EACCES, nil, p.outside(unix.O_RDONLY, readableByAll...)},
		{"list a folder outside of the grants", byLandlock, unix.EACCES, nil, p.outside(unix.O_RDONLY|unix.O_DIRECTORY, "/", "/proc", "/dev")},
		{"open /proc/1/environ", byLandlock, unix.EACCES, nil, p.outside(unix.O_RDONLY, "/proc/1/environ")},
		openat2,
		open("create a file in /", "", unix.O_RDWR|unix.O_CREAT),
		open("create a file in /tmp", "", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL),
		creation("create a file in "+sharedMemory, bySeccomp, unix.EPERM, sharedMemory, unix.Open),
		creation("create a file in "+messageQueues, bySeccomp, unix.EPERM, messageQueues, unix.Open),
		creation("openat2 to create in "+sharedMemory, creator, refusal, sharedMemory, create2),
		creation("openat2 to create in "+messageQueues, creator, refusal, messageQueues, create2),
		open("make a nameless file", "", unix.O_RDWR|unix.O_TMPFILE),
		open("open a file for appending", "", unix.O_WRONLY|unix.O_APPEND),
		open("open a file to empty it", "", unix.O_RDONLY|unix.O_TRUNC),
		open("open a device for writing", "/dev/null", unix.O_WRONLY),
		open("open our memory for writing", "/proc/self/mem", unix.O_RDWR),
		sys("mkdirat", unix.SYS_MKDIRAT, at, noName, 0),
		sys("unlinkat", unix.SYS_UNLINKAT, at, noName, 0),
		sys("renameat2", unix.SYS_RENAMEAT2, at, noName, at, noName, 0),
		sys("symlinkat", unix.SYS_SYMLINKAT, noName, at, noName),
		sys("linkat", unix.SYS_LINKAT, at, noName, at, noName, 0),
		sys("mknodat", unix.SYS_MKNODAT, at, noName, 0, 0),
		sys("fchmodat", unix.SYS_FCHMODAT, at, noName, 0),
		sys("fchmod", unix.SYS_FCHMOD, noFD, 0),
		sys("fchownat", unix.SYS_FCHOWNAT, at, noName, 0, 0, 0),
		sys("utimensat", unix.SYS_UTIMENSAT, at, noName, 0, 0),
		sys("truncate", unix.SYS_TRUNCATE, noName, 0),
		sys("ftruncate", unix.SYS_FTRUNCATE, noFD, 0),
		sys("fallocate", unix.SYS_FALLOCATE, noFD, 0, 0, 0),
		sys("setxattr", unix.SYS_SETXATTR, noName, noName, 0, 0, 0),
		sys("getxattr", unix.SYS_GETXATTR, noName, noName, 0, 0),
		sys("chdir", unix.SYS_CHDIR, noName),
		sys("umask", unix.SYS_UMASK, mask),
		sys("inotify_init1", unix.SYS_INOTIFY_INIT1, noFD),
		sys("fanotify_init", unix.SYS_FANOTIFY_INIT, noFD, 0),
		sys("splice", unix.SYS_SPLICE, noFD, 0, noFD, 0, 0, 0),
		sys("sendfile", unix.SYS_SENDFILE, noFD, noFD, 0, 0),
		sys("ioctl TIOCSTI", unix.SYS_IOCTL, noFD, unix.TIOCSTI, noName),
		sys("fcntl F_SETOWN", unix.SYS_FCNTL, noFD, unix.F_SETOWN, 0),
		sys("fcntl F_SETLK", unix.SYS_FCNTL, noFD, unix.F_SETLK, 0),
		sys("fcntl F_SETPIPE_SZ", unix.SYS_FCNTL, noFD, unix.F_SETPIPE_SZ, 0),
		// Who we are.
		sys("setuid", unix.SYS_SETUID, noFD),
		sys("setgid", unix.SYS_SETGID, noFD),
		sys("setresuid", unix.SYS_SETRESUID, noFD, noFD, noFD),
		sys("setgroups", unix.SYS_SETGROUPS, 1<<20, 0),
		sys("capset", unix.SYS_CAPSET, 0, 0),
		sys("setrlimit by prlimit64", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, 0, 0),
		sys("setpriority", unix.SYS_SETPRIORITY, noFD, 0, 0),
		sys("personality", unix.SYS_PERSONALITY, 0xffffffff),
		sys("prctl PR_SET_DUMPABLE", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 7),
		sys("prctl PR_SET_SECCOMP", unix.SYS_PRCTL, unix.PR_SET_SECCOMP, 99),
		sys("prctl PR_SET_PDEATHSIG", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, 99),
		sys("seccomp", unix.SYS_SECCOMP, 99, 0, 0),
		sys("landlock_create_ruleset", unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION),
		// Others.
		sys("kill", unix.SYS_KILL, uintptr(os.Getpid()), 0),
		sys("tgkill of another process", unix.SYS_TGKILL, nobody, nobody, 0),
		sys("tkill", unix.SYS_TKILL, nobody, 0),
		sys("rt_sigqueueinfo", unix.SYS_RT_SIGQUEUEINFO, nobody, 0, 0),
		sys("rt_tgsigqueueinfo", unix.SYS_RT_TGSIGQUEUEINFO, nobody, nobody, 0, 0),
		sys("pidfd_open", unix.SYS_PIDFD_OPEN, nobody, 0),
		sys("pidfd_send_signal", unix.SYS_PIDFD_SEND_SIGNAL, noFD, 0, 0, 0),
		sys("pidfd_getfd", unix.SYS_PIDFD_GETFD, noFD, 0, 0),
		sys("clone into a new user namespace", unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_FS),
		{"clone3", bySeccomp, unix.ENOSYS, nil, func() error { return rawCall(unix.SYS_CLONE3, 0, 0) }},
		sys("shmget", unix.SYS_SHMGET, 0, 0, 0),
		sys("msgget", unix.SYS_MSGGET, nobody, 0),
		sys("semget", unix.SYS_SEMGET, nobody, 0, 0),
		sys("mq_open", unix.SYS_MQ_OPEN, noName, 0, 0, 0),
		// Memory.
		sys("mmap of writable and executable memory", unix.SYS_MMAP, 0, page, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC,
			unix.MAP_PRIVATE|unix.MAP_ANON, noFD, 0),
		sys("mmap of huge pages", unix.SYS_MMAP, 0, page, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_HUGETLB, noFD, 0),
		sys("mprotect to executable", unix.SYS_MPROTECT, 0, 0, unix.PROT_READ|unix.PROT_EXEC),
		sys("pkey_mprotect", unix.SYS_PKEY_MPROTECT, 0, 0, unix.PROT_EXEC, noFD),
		sys("memfd_create", unix.SYS_MEMFD_CREATE, noName, 0xffff),
		sys("memfd_secret", unix.SYS_MEMFD_SECRET, noFD),
		sys("remap_file_pages", unix.SYS_REMAP_FILE_PAGES, 0, 0, 0, 0, 0),
		// The network.
		socket("socket AF_INET, stream", unix.AF_INET, unix.SOCK_STREAM, 0, inet),
		socket("socket AF_INET6, stream", unix.AF_INET6, unix.SOCK_STREAM, 0, inet),
		socket("socket AF_INET, datagram", unix.AF_INET, unix.SOCK_DGRAM, 0, datagrams),
		socket("socket AF_UNIX, stream", unix.AF_UNIX, unix.SOCK_STREAM, 0, local),
		socket("socket AF_UNIX, datagram", unix.AF_UNIX, unix.SOCK_DGRAM, 0, nil),
		socket("socket AF_INET, raw", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP, nil),
		socket("socket AF_NETLINK", unix.AF_NETLINK, unix.SOCK_RAW, 0, nil),
		socket("socket AF_ALG", unix.AF_ALG, unix.SOCK_SEQPACKET, 0, nil),
		socket("socket AF_VSOCK", unix.AF_VSOCK, unix.SOCK_STREAM, 0, nil),
		socket("socket AF_PACKET", unix.AF_PACKET, unix.SOCK_RAW, 0, nil),
		sys("socketpair", unix.SYS_SOCKETPAIR, noFD, 0, 0, 0),
		sys("bind", unix.SYS_BIND, noFD, 0, 0),
		sys("listen", unix.SYS_LISTEN, noFD, 0),
		{"connect", bySeccomp, unix.EPERM, network, func() error { return rawCall(unix.SYS_CONNECT, noFD, 0, 0) }},
		{"accept4", bySeccomp, unix.EPERM, listening, func() error {
			return rawCall(unix.SYS_ACCEPT4, noFD, 0, 0, 0)
		}},
		// What nobody has thought of.
		sys("a system call that does not exist", 9999),
	}...)
}

// empty is the name "": ENOENT where the call is allowed. It is a variable of the package so that its address stays.
var empty [1]byte

const page = 4096

// tryDenials tries everything. sealed says that the filter is loaded.
func (p Plan) tryDenials(f facts, sealed bool) []Outcome {
	all := p.denials(f)
	out := make([]Outcome, 0, len(all))
	for _, d := range all {
		o := Outcome{Name: d.name, Layer: d.layer, Want: unix.ErrnoName(d.want)}
		o.Owed = d.layer == byLandlock && f.ABI > 0 || d.layer == bySeccomp && sealed
		if d.under != nil && d.under(p.Filter) {
			o.Owed = false
		}
		err := errNotTried
		if d.layer != bySeccomp || !sealed || !killByDefault { // there it would be the end
			err = d.try()
		}
		var errno unix.Errno
		switch {
		case errors.Is(err, errNotTried):
			o.Got, o.Owed = notTried, false
		case errors.Is(err, errNowhere) && errors.As(err, &errno):
			o.Got, o.Denied = unix.ErrnoName(errno), true
			o.Layer, o.Want, o.Owed = byKernel, o.Got, false
		case err == nil:
			o.Got = allowed
		case errors.As(err, &errno):
			o.Got = unix.ErrnoName(errno)
			o.Denied = errno == d.want
		default:
			// coverage: every try ends with an errno; what would not shall be seen
			o.Got = err.Error()
		}
		out = append(out, o)
	}
	return out
}

// firstOpen returns an error that names the first thing that was owed and not denied.
func firstOpen(all []Outcome) error {
	for _, o := range all {
		if o.Owed && !o.Denied {
			return fmt.Errorf("%s: want %s from %s, got %s", o.Name, o.Want, o.Layer, o.Got)
		}
	}
	return nil
}

// Where every user may make files although the root is read-only: container runtimes mount both, with mode 1777.
const (
	sharedMemory  = "/dev/shm"
	messageQueues = "/dev/mqueue"
)

// errNowhere says that nobody could make a file there: the folder is absent, or mounted read-only. Beside it stands the
// kernel's answer. That is a refusal as good as ours, and no reason to call a host without message queues less safe.
var errNowhere = errors.New("nowhere to make a file")

// creation makes a file with a name that nobody can foresee, so that none can be lying there (a pipe that nobody reads
// would hold up the start), and removes it again.
func creation(
	name, layer string, want unix.Errno, folder string, open func(path string, flags int, mode uint32) (int, error),
) denial {
	path := folder + "/mcp-server-suite-" + rand.Text()
	return denial{name, layer, want, nil, func() error {
		err := closeIf(open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600))
		switch err {
		case nil:
			_ = unix.Unlink(path) // it has been made, and that is the answer, whether or not it can be removed
		case unix.ENOENT, unix.ENOTDIR, unix.EROFS:
			return fmt.Errorf("%w: %w", errNowhere, err)
		}
		return err
	}}
}

// create2 is unix.Open by way of openat2, whose flags no filter can see.
func create2(path string, flags int, mode uint32) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags), Mode: uint64(mode)} // #nosec G115 -- flags are positive
	return unix.Openat2(unix.AT_FDCWD, path, &how)
}

func openAndClose(path string, flags int) error {
	return closeIf(unix.Open(path, flags|unix.O_CLOEXEC, 0))
}

func closeIf(fd int, err error) error {
	if err != nil {
		return err
	}
	return unix.Close(fd)
}
