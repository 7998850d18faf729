package landlock

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrUnavailable says that this kernel has no Landlock: it was built without (ENOSYS, before 5.13 for instance, and in
// gVisor) or started without (EOPNOTSUPP: not in lsm=). A seccomp filter around us that answers ENOSYS for what it does
// not know looks the same. Every other errno is another error; EPERM comes from such a filter, too.
var ErrUnavailable = errors.New("landlock is not available")

// ABI returns the Landlock ABI of the kernel, 1 or more, also when it is above [KnownABI]. An error wraps the kernel's
// errno, and [ErrUnavailable] where that means that there is none.
func ABI() (int, error) {
	abi, err := kernelABI()
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
		return 0, fmt.Errorf("ask for the landlock abi: %w: %w", ErrUnavailable, err)
	case err != nil:
		return 0, fmt.Errorf("ask for the landlock abi: %w", err)
	case abi < 1:
		// No kernel says so. A seccomp filter that does nothing and reports success does.
		return 0, fmt.Errorf("ask for the landlock abi: the answer is %d", abi)
	}
	return abi, nil
}

// masks are the three fields of a ruleset.
type masks struct{ fs, net, scope uint64 }

// Ruleset is a kernel object that names rights to take away, and the exceptions. It is for one goroutine at a time and
// must be closed.
type Ruleset struct {
	fd      int
	abi     int
	without func(Right) bool
	handled masks
}

// New makes a ruleset that handles every right of the table up to this ABI, from 1 to [KnownABI], and allows nothing
// yet. An error wraps the kernel's errno: EINVAL or E2BIG when the kernel's ABI is lower.
func New(abi int) (*Ruleset, error) { return newRuleset(abi, leftOut) }

// newRuleset leaves the rights out that without says.
func newRuleset(abi int, without func(Right) bool) (*Ruleset, error) {
	if abi < 1 || abi > KnownABI {
		return nil, fmt.Errorf("make landlock ruleset: abi %d is none of 1 to %d", abi, KnownABI)
	}
	r := &Ruleset{abi: abi, without: without}
	for _, right := range Handled(abi) {
		if without(right) {
			continue
		}
		switch right.Kind {
		case KindFile:
			r.handled.fs |= right.Bit
		case KindNet:
			r.handled.net |= right.Bit
		case KindScope:
			r.handled.scope |= right.Bit
		}
	}
	fd, err := createRuleset(r.handled)
	if err != nil {
		return nil, fmt.Errorf("make landlock ruleset for abi %d: %w", abi, err)
	}
	r.fd = fd
	return r, nil
}

// AllowPath leaves these file rights, for everything beneath the directory that fd is open on, or for the one file that
// it is open on. O_PATH is enough; so that the rule lives, fd must stay open where the file system makes its inodes
// anew (on 6.18 a rule for /proc/loadavg was gone after the caches were dropped).
//
// Rights that the ruleset's ABI does not handle are dropped: nobody takes them away, so they need no rule. Refer on
// ABI 1 is dropped, too, but stays denied: no rule can give it there. No right at all, a right that the table does not
// know, and a right of directories for something else are errors, whatever the ABI; other errors wrap an errno.
func (r *Ruleset) AllowPath(fd int, rights FS) error {
	if rights == 0 || rights&^ofAll != 0 {
		return fmt.Errorf("allow rights beneath descriptor %d: %v is no set of file rights", fd, rights)
	}
	if extra := rights &^ ofFiles; extra != 0 {
		var s unix.Stat_t
		if err := unix.Fstat(fd, &s); err != nil {
			return fmt.Errorf("allow %v beneath descriptor %d: look at it: %w", rights, fd, err)
		}
		// The kernel would say EINVAL, which says nothing.
		if s.Mode&unix.S_IFMT != unix.S_IFDIR {
			return fmt.Errorf("allow %v at descriptor %d: %v is for directories and this is none", rights, fd, extra)
		}
	}
	rights &= FS(r.handled.fs)
	if rights == 0 {
		return nil
	}
	if err := addPathRule(r.fd, uint64(rights), fd); err != nil {
		return fmt.Errorf("allow %v beneath descriptor %d: %w", rights, fd, err)
	}
	return nil
}

// AllowConnectTCP leaves the right to connect a TCP socket to this port, of any host. Below ABI 4 nobody takes it away
// and nothing is done. Port 0 is an error, since nothing listens there; other errors wrap an errno.
func (r *Ruleset) AllowConnectTCP(port uint16) error {
	if port == 0 {
		return errors.New("allow to connect: port 0 is no port")
	}
	const right = unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	if r.handled.net&right == 0 {
		return nil
	}
	if err := addPortRule(r.fd, right, port); err != nil {
		return fmt.Errorf("allow to connect to port %d: %w", port, err)
	}
	return nil
}

// AllowUDP leaves the rights to send UDP to this port, of any host, and to have the kernel choose a local port for it,
// without which nothing can be sent. Below ABI 10 nobody takes them away and nothing is done. Errors are as those of
// AllowConnectTCP.
func (r *Ruleset) AllowUDP(port uint16) error {
	if port == 0 {
		return errors.New("allow to send: port 0 is no port")
	}
	const send, bind = unix.LANDLOCK_ACCESS_NET_CONNECT_SEND_UDP, unix.LANDLOCK_ACCESS_NET_BIND_UDP
	if r.handled.net&send == 0 {
		return nil
	}
	if err := addPortRule(r.fd, send, port); err != nil {
		return fmt.Errorf("allow to send to UDP port %d: %w", port, err)
	}
	// coverage: by chance: this needs a kernel with ABI 10
	if err := addPortRule(r.fd, bind, 0); err != nil {
		// coverage: the rule for the other port has just been taken, with the same rights and descriptor
		return fmt.Errorf("allow to take any UDP port: %w", err)
	}
	return nil // coverage: by chance: as above
}

// RestrictThread makes the ruleset hold for the calling thread, and for threads and processes that it starts from now
// on, for good. The caller has locked the goroutine to the thread and set no_new_privs for it (EPERM without, unless it
// has CAP_SYS_ADMIN). Every other thread of the process goes on as before: of 81 threads of a Go program 80 still did
// everything. The thread is to execute a new program, or to end. An error wraps an errno: E2BIG beneath 16 others.
func (r *Ruleset) RestrictThread() error {
	if err := restrictSelf(r.fd); err != nil {
		return fmt.Errorf("restrict the thread: %w", err)
	}
	return nil
}

// Close lets go of the ruleset; threads that it restricts stay restricted.
func (r *Ruleset) Close() error {
	fd := r.fd
	r.fd = -1
	if err := unix.Close(fd); err != nil {
		return fmt.Errorf("close landlock ruleset: %w", err)
	}
	return nil
}
