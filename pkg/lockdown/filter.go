package lockdown

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/seccomp"
)

const withoutSeccomp = "the runtime must allow seccomp (with KILL_PROCESS), prctl and pipe2, or set " + seccompSetting + "=off"

// filter says which filter this process gets. Without a Landlock domain that takes away writing and truncating (ABI 3),
// openat2 must go: its flags are in memory, where a filter cannot see them, and O_RDONLY|O_TRUNC empties a file that is
// only granted for reading. Files are then opened by a walk.
func (c *Confined) filter() seccomp.Settings {
	settings := c.plan.Filter
	settings.Openat2, settings.PID, settings.KillByDefault = c.facts.ABI >= truncateABI, os.Getpid(), killByDefault
	return settings
}

// truncateABI is the first that can take O_TRUNC away (landlock(7)).
const truncateABI = 3

// sameFilters returns how many filters every thread has; beside an error the number is 0.
func sameFilters(all map[int]status) (int, error) {
	count, first := 0, true
	for id, s := range all {
		if s.filters < 0 {
			return 0, errors.New("the kernel does not say how many filters a thread has (Linux 5.9 does)")
		}
		if !first && s.filters != count {
			return 0, fmt.Errorf("thread %d has %d filters, another one %d", id, s.filters, count)
		}
		count, first = s.filters, false
	}
	if first {
		return 0, errors.New("no thread is listed")
	}
	return count, nil
}

// settled returns the threads when all of them have what all must have. A thread that is on its way out is passed over
// when a filter is put on all threads (kernel/seccomp.c, seen on Linux 7.0), and is still listed for a moment: what
// does not fit must be gone soon.
func settled(filters int) (all map[int]status, err error) {
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		if all, err = tasks(); err != nil {
			// coverage: Seal has listed them before, and the filter allows it
			return nil, err
		}
		if err = compare(all, filters); err == nil {
			return all, nil
		}
		if time.Since(begun) > exitTime {
			return nil, err
		}
	}
}

// exitTime is how long a thread may take to disappear.
const exitTime = 2 * time.Second

// compare holds every thread against what all must have. Under a container runtime's own filter "Seccomp: 2" alone would
// be true without ours.
func compare(all map[int]status, filters int) error {
	for id, s := range all {
		switch {
		case s.filters != filters:
			return fmt.Errorf("thread %d has %d filters, not %d", id, s.filters, filters)
		case s.seccomp != unix.SECCOMP_MODE_FILTER:
			return fmt.Errorf("thread %d is in seccomp mode %d", id, s.seccomp)
		case s.noNewPrivs != 1:
			return fmt.Errorf("thread %d may gain privileges", id)
		}
	}
	if len(all) == 0 {
		return errors.New("no thread is listed")
	}
	return nil
}
