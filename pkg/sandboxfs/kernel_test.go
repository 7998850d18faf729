package sandboxfs

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/problem"
)

// What the kernel does not do on request is done here by a kernel with one call replaced.

// faults is a root with a file a.txt, a file d/a.txt and a link to it.
func faults(t *testing.T, walk bool) (*stage, *Root) {
	s := newStage(t)
	s.dir("root/d")
	s.inside("a.txt", "d/a.txt")
	s.links(map[string]string{"link": "d/a.txt"})
	return s, s.open(walk)
}

func read(r *Root, path string) (Text, error) { return r.Read(context.Background(), request(path)) }

func TestErrorsOfTheKernelAreAnswered(t *testing.T) {
	tests := []struct {
		name    string
		path    string
		replace func(k *kernel)
		want    problem.Reason
		why     string
	}{
		{"openat2 EAGAIN for ever", "d/a.txt", func(k *kernel) {
			k.openTree = func(int, string) (int, error) { return -1, unix.EAGAIN }
		}, problem.Busy, "fs-017: not proven is neither denied nor missing"},
		{"openat2 EXDEV for ever", "d/a.txt", func(k *kernel) {
			k.openTree = func(int, string) (int, error) { return -1, unix.EXDEV }
		}, problem.Busy, "a directory is moved out of the root while it is walked"},
		{"openat2 EPERM", "d/a.txt", func(k *kernel) {
			k.openTree = func(int, string) (int, error) { return -1, unix.EPERM }
		}, problem.NotReadable, "fs-016"},
		{"openat EIO while resolving", "link", func(k *kernel) {
			k.openat = func(int, string, int) (int, error) { return -1, unix.EIO }
		}, "fault", "the disk's fault is no answer"},
		{"openat EMFILE while resolving", "nothere", func(k *kernel) {
			k.openat = func(int, string, int) (int, error) { return -1, unix.EMFILE }
		}, "fault", "must not pass for a missing file"},
		{"fstat EIO while resolving", "link", func(k *kernel) {
			k.stat = func(int) (meta, error) { return meta{}, unix.EIO }
		}, "fault", "the link's descriptor is closed"},
		{"readlink EIO", "link", func(k *kernel) {
			k.readlink = func(int) (string, error) { return "", unix.EIO }
		}, "fault", "the link's descriptor is closed"},
		{"readlink EACCES", "link", func(k *kernel) {
			k.readlink = func(int) (string, error) { return "", unix.EACCES }
		}, problem.NotReadable, "a link of procfs that belongs to somebody else"},
		{"statat EIO", "a.txt", func(k *kernel) {
			k.statat = func(int, string) (meta, error) { return meta{}, unix.EIO }
		}, "fault", "before the opening"},
		{"fstat EIO", "a.txt", func(k *kernel) {
			k.stat = func(int) (meta, error) { return meta{}, unix.EIO }
		}, "fault", "the file's descriptor is closed"},
		{"file becomes a FIFO", "a.txt", func(k *kernel) {
			k.stat = func(int) (meta, error) { return meta{kind: unix.S_IFIFO}, nil }
		}, problem.SpecialFile, "the second look; the descriptor is closed"},
		{"open ENXIO", "a.txt", leafError(unix.ENXIO), problem.SpecialFile, "became a socket"},
		{"open ENODEV", "a.txt", leafError(unix.ENODEV), problem.SpecialFile, "became a device without a driver"},
		{"open EWOULDBLOCK", "a.txt", leafError(unix.EWOULDBLOCK), problem.Busy, "somebody holds a lease (fcntl(2))"},
		{"open ESTALE", "a.txt", leafError(unix.ESTALE), "fault", "NFS"},
		{"open ENOENT for ever", "a.txt", leafError(unix.ENOENT), problem.NotFound, "seen 16 times, never opened"},
		{"open ELOOP for ever", "a.txt", leafError(unix.ELOOP), problem.Busy, "seen 16 times, never opened"},
		{"open ENOTDIR for ever", "a.txt", leafError(unix.ENOTDIR), problem.Busy, "what the walk says of a link"},
		{"pread EIO", "a.txt", func(k *kernel) {
			k.pread = func(int, []byte, int64) (int, error) { return 0, unix.EIO }
		}, "fault", "the file's descriptor is closed"},
		{"pread EAGAIN for ever", "a.txt", func(k *kernel) {
			k.pread = func(int, []byte, int64) (int, error) { return 0, unix.EAGAIN }
		}, problem.Busy, "trace_pipe and the like are regular files that would wait"},
		{"pread ESPIPE", "a.txt", func(k *kernel) {
			k.pread = func(int, []byte, int64) (int, error) { return 0, unix.ESPIPE }
		}, problem.SpecialFile, "the same without O_NONBLOCK"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, r := faults(t, false)
			test.replace(&r.kernel)
			before := descriptors(t)
			text, err := read(r, test.path)
			if reason(err) != test.want || text != (Text{}) {
				t.Errorf("%s: %v, want %s", test.why, err, test.want)
			}
			if strings.Contains(err.Error(), s.base) {
				t.Errorf("it names a host path: %v", err)
			}
			if after := descriptors(t); after != before {
				t.Errorf("%d descriptors stay open", after-before)
			}
		})
	}
}

// A sparse file on tmpfs can have the largest size there is.
func TestTheLargestSizeOverflowsNothing(t *testing.T) {
	_, r := faults(t, false)
	stat := r.kernel.stat
	r.kernel.stat = func(fd int) (meta, error) {
		m, err := stat(fd)
		m.size = math.MaxInt64
		return m, err
	}
	if text, err := read(r, "a.txt"); err != nil || text.SizeBytes != math.MaxInt64 || text.Content == "" {
		t.Errorf("%+v, %v", text, err)
	}
}

// leafError makes the opening for reading fail, and leaves the resolution alone.
func leafError(errno unix.Errno) func(k *kernel) {
	return func(k *kernel) {
		openat := k.openat
		k.openat = func(dir int, name string, flags int) (int, error) {
			if flags&unix.O_PATH == 0 {
				return -1, errno
			}
			return openat(dir, name, flags)
		}
	}
}

func TestInterruptedCallsAreRepeated(t *testing.T) {
	for _, errno := range []error{unix.EAGAIN, unix.EINTR} {
		_, r := faults(t, false)
		calls := 0
		openTree := r.kernel.openTree
		r.kernel.openTree = func(dir int, name string) (int, error) {
			if calls++; calls < maxTries {
				return -1, errno
			}
			return openTree(dir, name)
		}
		if _, err := read(r, "d/a.txt"); err != nil || calls != maxTries {
			t.Errorf("%v: %v after %d calls", errno, err, calls)
		}
	}
}

// A seccomp profile may take openat2 away after Open; what another errno says concerns one file only (fs-016).
func TestOnlyENOSYSMakesItWalk(t *testing.T) {
	for errno, walks := range map[unix.Errno]bool{unix.ENOSYS: true, unix.EPERM: false, unix.EACCES: false, unix.EINVAL: false} {
		_, r := faults(t, false)
		openTree, calls := r.kernel.openTree, 0
		r.kernel.openTree = func(int, string) (int, error) { calls++; return -1, errno }
		if _, err := read(r, "d/a.txt"); (err == nil) != walks {
			t.Errorf("%v: %v", errno, err)
		}
		r.kernel.openTree = func(dir int, name string) (int, error) { calls = 0; return openTree(dir, name) }
		if _, err := read(r, "d/a.txt"); err != nil || calls != 0 {
			t.Errorf("after %v openat2 is not used any more: %v", errno, err)
		}
	}
}

func TestForceWalkNeverCallsOpenat2(t *testing.T) {
	_, r := faults(t, true)
	r.kernel.openTree = func(int, string) (int, error) { t.Error("openat2 is called"); return -1, unix.EIO }
	for _, path := range []string{"d/a.txt", "link", "a.txt"} {
		if _, err := read(r, path); err != nil {
			t.Error(err)
		}
	}
}

// Swaps at the worst moment. Each is done once with the guard, and once without, when it must leak.
func TestSwapsAreStoppedByTheGuardThatIsThereForThem(t *testing.T) {
	outward := func(s *stage, name string) func() {
		return func() {
			s.must(os.Rename(s.path("root/"+name), s.path("old")))
			s.must(os.Symlink(s.path("out"), s.path("root/"+name)))
		}
	}
	tests := []struct {
		name  string
		path  string
		walk  bool
		guard func(k *kernel, swap func())
		open  func(k *kernel, swap func())
	}{
		{
			"directory, openat2", "d/secret", false,
			func(k *kernel, swap func()) {
				openTree := k.openTree
				k.openTree = func(dir int, name string) (int, error) { swap(); return openTree(dir, name) }
			},
			func(k *kernel, swap func()) {
				k.openTree = func(dir int, name string) (int, error) {
					swap()
					return unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY, 0)
				}
			},
		},
		{
			"directory, walk", "d/secret", true,
			func(k *kernel, swap func()) { k.openat = swapping(swap, unix.O_DIRECTORY, 0) },
			func(k *kernel, swap func()) { k.openat = swapping(swap, unix.O_DIRECTORY, unix.O_NOFOLLOW) },
		},
	}
	for _, test := range tests {
		for _, guarded := range []bool{true, false} {
			s := newStage(t)
			s.inside("a.txt")
			s.dir("root/d")
			s.inside("d/secret")
			r := s.open(test.walk)
			done := false
			swap := func() {
				if !done {
					done = true
					outward(s, "d")()
				}
			}
			if guarded {
				test.guard(&r.kernel, swap)
			} else {
				test.open(&r.kernel, swap)
			}
			text, err := read(r, test.path)
			if leaked := text.Content == secret; leaked == guarded || guarded && reason(err) != problem.OutsideSandbox {
				t.Errorf("%s, guarded %v: leaks %v, %v", test.name, guarded, leaked, err)
			}
		}
	}
}

// swapping is openat that swaps before a call with the flag, and forgets other flags.
func swapping(swap func(), at, without int) func(int, string, int) (int, error) {
	return func(dir int, name string, flags int) (int, error) {
		if flags&at != 0 {
			swap()
		}
		return unix.Openat(dir, name, flags&^without, 0)
	}
}

func TestALeafThatBecomesALinkIsNotFollowed(t *testing.T) {
	for _, guarded := range []bool{true, false} {
		s, r := faults(t, false)
		statat := r.kernel.statat
		r.kernel.statat = func(dir int, name string) (meta, error) {
			seen, err := statat(dir, name)
			s.must(os.Remove(s.path("root/a.txt")))
			s.must(os.Symlink("../out/secret", s.path("root/a.txt")))
			return seen, err
		}
		if !guarded {
			r.kernel.openat = func(dir int, name string, flags int) (int, error) {
				return unix.Openat(dir, name, flags&^unix.O_NOFOLLOW, 0)
			}
		}
		text, err := read(r, "a.txt")
		if leaked := text.Content == secret; leaked == guarded || guarded && reason(err) != problem.OutsideSandbox {
			t.Errorf("guarded %v: leaks %v, %v", guarded, leaked, err)
		}
	}
}

// A FIFO that comes after the first look is opened, but neither waited for nor read: that is the second look. Without it
// a read of the FIFO still does not wait, because of O_NONBLOCK.
func TestALeafThatBecomesAFIFOIsNotReadAndNotWaitedFor(t *testing.T) {
	for _, looks := range []bool{true, false} {
		s, r := faults(t, false)
		k := linux()
		r.kernel.statat = func(dir int, name string) (meta, error) {
			seen, err := k.statat(dir, name)
			_ = os.Remove(s.path("root/a.txt"))
			s.must(unix.Mkfifo(s.path("root/a.txt"), 0o644))
			return seen, err
		}
		if !looks {
			r.kernel.stat = func(int) (meta, error) { return meta{kind: unix.S_IFREG}, nil }
		}
		soon(t, func() {
			if _, err := read(r, "a.txt"); reason(err) != problem.SpecialFile {
				t.Errorf("second look %v: %v", looks, err)
			}
		})
	}
}

// soon fails the test when the function takes ten seconds.
func soon(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("it hangs")
	}
}

// fs-028 at the worst moment: the version that was resolved is gone when it is opened.
func TestAVersionThatVanishesIsResolvedAgain(t *testing.T) {
	for mechanism, walk := range mechanisms {
		s := newStage(t)
		s.must(s.publish(0))
		s.links(map[string]string{"key": "..data/key"})
		r := s.open(walk)
		n := 0
		swap := func() {
			if n < maxResolutions-1 {
				n++
				s.must(s.publish(n))
			}
		}
		openTree, openat := r.kernel.openTree, r.kernel.openat
		r.kernel.openTree = func(dir int, name string) (int, error) { swap(); return openTree(dir, name) }
		r.kernel.openat = func(dir int, name string, flags int) (int, error) {
			if flags&unix.O_DIRECTORY != 0 {
				swap()
			}
			return openat(dir, name, flags)
		}
		text, err := read(r, "key")
		if err != nil || text.Content != version(maxResolutions-1) {
			t.Errorf("%s: %v %.20q", mechanism, err, text.Content)
		}
	}
}

// Somebody writes the file anew without an atomic rename: it is there for each look and gone for each opening.
func TestAFileThatFlickersIsLookedForAgain(t *testing.T) {
	for _, errno := range []unix.Errno{unix.ENOENT, unix.ELOOP, unix.ENOTDIR} {
		_, r := faults(t, false)
		openat, calls := r.kernel.openat, 0
		fails := linux()
		leafError(errno)(&fails)
		r.kernel.openat = func(dir int, name string, flags int) (int, error) {
			if flags&unix.O_PATH == 0 {
				if calls++; calls <= maxResolutions {
					return fails.openat(dir, name, flags)
				}
			}
			return openat(dir, name, flags)
		}
		if _, err := read(r, "a.txt"); err != nil || calls != maxResolutions+1 { // the first opening needs no resolution
			t.Errorf("%v: %v after %d openings", errno, err, calls)
		}
	}
}

func TestTheContextEndsAResolution(t *testing.T) {
	_, r := faults(t, false)
	ctx, cancel := context.WithCancel(context.Background())
	statat := r.kernel.statat
	r.kernel.statat = func(dir int, name string) (meta, error) { cancel(); return statat(dir, name) }
	if _, err := r.Read(ctx, request("link")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// So many reads and no more wait for the storage at once; who waits for a turn can be cancelled.
func TestReadersTakeTurns(t *testing.T) {
	const readers, reads = 3, 12
	s, _ := faults(t, false)
	r, err := Open(Settings{Dir: s.path("root"), Readers: readers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() }) // nothing was written
	entered, leave := make(chan struct{}, reads), make(chan struct{})
	pread := r.kernel.pread
	r.kernel.pread = func(fd int, p []byte, at int64) (int, error) {
		entered <- struct{}{}
		<-leave
		return pread(fd, p, at)
	}
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, reads)
	for range reads {
		go func() {
			_, err := r.Read(ctx, request("a.txt"))
			results <- err
		}()
	}
	for range readers {
		<-entered
	}
	select {
	case <-entered:
		t.Error("one more is in the kernel")
	case <-time.After(50 * time.Millisecond):
	}
	cancel()
	for range reads - readers { // those that wait for a turn; the others cannot be reached
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	close(leave)
	for range readers {
		<-results
	}
	if _, err := Open(Settings{Dir: s.path("root"), Readers: -1}); err == nil {
		t.Error("a negative number of readers is accepted")
	}
}
