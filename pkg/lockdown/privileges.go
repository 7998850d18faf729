package lockdown

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

func isGone(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) }

// checkPrivileges refuses what a read-only server never needs. The bounding set does not count: it cannot be emptied
// without a capability, and with no_new_privs and none in the other sets nothing comes out of it.
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

// mask is for files that a later part may create (the audit file).
const mask = 0o077
