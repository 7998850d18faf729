package lockdown

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

func isGone(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) }

// checkPrivileges refuses what a read-only server never needs. The bounding set does not count: it cannot be emptied
// without a capability, and with no_new_privs and none in the other sets nothing comes out of it. Nor does the
// inheritable set, which Docker filled for every process before 20.10.14 (CVE-2022-24769): only executing a file that has
// capabilities itself makes something of it, and no_new_privs forbids that (capabilities(7)). The posture shows both.
func checkPrivileges(s status) error {
	switch {
	case slices.Contains(s.uid[:], 0):
		return fmt.Errorf("runs with uid 0 (real, effective, saved, file system: %v)", s.uid)
	case s.uid[0] != s.uid[1] || s.uid[0] != s.uid[2] || s.gid[0] != s.gid[1] || s.gid[0] != s.gid[2]:
		return fmt.Errorf("runs set-uid or set-gid: uid %v, gid %v", s.uid, s.gid)
	case s.effective|s.permitted|s.ambient != 0:
		return fmt.Errorf("has capabilities: effective %#x, permitted %#x, ambient %#x", s.effective, s.permitted, s.ambient)
	}
	return nil
}

// limits bounds descriptors and forbids core dumps, which would hold what was read. RLIMIT_AS is not used: the Go
// runtime reserves address space that it never touches (256 and 512 MiB failed at start, measured). RLIMIT_NPROC would
// count the user's threads in other containers.
func limits(openFiles uint64) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		return fmt.Errorf("read RLIMIT_NOFILE: %w", err)
	}
	if now.Max < minOpenFiles {
		return fmt.Errorf("%d files may be open at once (ulimit -n), and %d are needed", now.Max, minOpenFiles)
	}
	n := min(openFiles, now.Max)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}); err != nil {
		return fmt.Errorf("set RLIMIT_NOFILE: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("set RLIMIT_CORE: %w", err)
	}
	for resource, most := range map[int]uint64{unix.RLIMIT_NOFILE: n, unix.RLIMIT_CORE: 0} {
		if err := unix.Getrlimit(resource, &now); err != nil || now.Max > most {
			return fmt.Errorf("limit %d is %d after it was set to %d: %v", resource, now.Max, most, err)
		}
	}
	return nil
}

// ownProc finds a /proc of another PID namespace, where the numbers of our threads mean those of others.
func ownProc() error {
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return fmt.Errorf("read /proc/self: %w", err)
	}
	if self != strconv.Itoa(os.Getpid()) {
		return fmt.Errorf("/proc is that of another PID namespace: there this process is %s, and here %d", self, os.Getpid())
	}
	return nil
}

// Of personality(2): ADDR_NO_RANDOMIZE, and the argument that only asks.
const (
	addrNoRandomize  = 0x0040000
	queryPersonality = 0xffffffff
)

// randomise switches random addresses on for the program that begins anew, where whoever started us has switched them
// off: exec keeps the personality.
func randomise() error {
	now, _, errno := unix.Syscall(unix.SYS_PERSONALITY, queryPersonality, 0, 0)
	if errno != 0 { // a runtime that lets nobody ask lets nobody set it either; its own start is what counts then
		return nil
	}
	if now&addrNoRandomize == 0 {
		return nil
	}
	_, _, errno = unix.Syscall(unix.SYS_PERSONALITY, now&^addrNoRandomize, 0, 0)
	if now, _, _ = unix.Syscall(unix.SYS_PERSONALITY, queryPersonality, 0, 0); errno != 0 || now&addrNoRandomize != 0 {
		return fmt.Errorf("random addresses are switched off and cannot be switched on (errno %d)", errno)
	}
	return nil
}

// mask is for files that a later part may create (the audit file).
const mask = 0o077
