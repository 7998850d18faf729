package sandboxfs

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Settings say which directory is served.
type Settings struct {
	// Dir is an absolute path of an existing directory. It may be a symlink, or lead over some.
	Dir string
	// ForceWalk opens by openat with O_NOFOLLOW per component even where openat2 exists. Without it the walk is used
	// only when openat2 answers ENOSYS, which a seccomp profile may make it do later, and never because of another
	// error: one file that answers EPERM says nothing about the kernel (oven-sh/bun#36156).
	ForceWalk bool
	// Readers is how many reads may be in the kernel at once; the others wait their turn. Each holds a thread for as long
	// as the storage takes (measured: 25 threads for 16 reads from a slow disk, 12 from the page cache), and where there
	// are no more threads to be had the Go runtime gives up. 0 is no bound.
	Readers int
}

// Root is the directory that is served, resolved once and held open: when its path later comes to mean another
// directory, the old one stays served. Any number of goroutines may read from it.
type Root struct {
	kernel   kernel
	walkOnly bool
	names    []string      // what means the root: its canonical path and the operator's spelling; "" is /
	scratch  sync.Pool     // of *scratch
	turns    chan struct{} // as many as may be in the kernel; nil is no bound

	mu  sync.RWMutex // read-locked while a read uses dir, so that Close cannot pull it away
	dir int          // O_PATH descriptor, -1 after Close
}

// Open resolves the directory and holds it. Its errors are faults of the configuration and may name the directory,
// which is the operator's own. On error no descriptor stays open.
func Open(s Settings) (*Root, error) {
	if !filepath.IsAbs(s.Dir) {
		return nil, fmt.Errorf("open sandbox: %q is not an absolute path", s.Dir)
	}
	if s.Readers < 0 {
		return nil, fmt.Errorf("open sandbox: %d readers", s.Readers)
	}
	canonical, err := filepath.EvalSymlinks(s.Dir)
	if err != nil {
		return nil, fmt.Errorf("resolve sandbox: %w", err)
	}
	dir, err := unix.Open(canonical, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open sandbox %q: %w", canonical, err)
	}
	names := []string{strings.TrimSuffix(canonical, "/")}
	if !climbs(s.Dir) {
		names = append(names, strings.TrimSuffix(filepath.Clean(s.Dir), "/"))
	}
	r := &Root{
		kernel:   linux(),
		walkOnly: s.ForceWalk,
		names:    names,
		dir:      dir,
		scratch:  sync.Pool{New: func() any { return new(scratch) }},
	}
	if s.Readers > 0 {
		r.turns = make(chan struct{}, s.Readers)
	}
	return r, nil
}

// Enterable is false when the process's user may not enter the directory: then every read will be refused.
func (r *Root) Enterable() bool {
	_, err := r.kernel.statat(r.dir, "?")
	return err != unix.EACCES
}

// Close lets the directory go, after the reads that are under way have ended. A later Read is a fault. Closing twice
// does nothing.
func (r *Root) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dir < 0 {
		return nil
	}
	dir := r.dir
	r.dir = -1
	if err := unix.Close(dir); err != nil {
		return fmt.Errorf("close sandbox: %w", err)
	}
	return nil
}
