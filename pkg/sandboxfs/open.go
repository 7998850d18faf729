package sandboxfs

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// kernel is the few system calls that this package makes on behalf of a caller. It is a value so that a test can make
// one of them fail in a way that real files do not fail on request. The wrappers keep the structs on the stack.
type kernel struct {
	openTree func(dir int, name string) (int, error)            // openat2(2): a directory, no symlink, no way up
	openat   func(dir int, name string, flags int) (int, error) // openat(2)
	statat   func(dir int, name string) (meta, error)           // newfstatat(2), the link itself where it is one
	stat     func(fd int) (meta, error)                         // fstat(2)
	readlink func(fd int) (string, error)                       // readlinkat(2) on the link's own O_PATH descriptor
	pread    func(fd int, p []byte, at int64) (int, error)      // pread64(2)
}

// meta is what we want to know of a file.
type meta struct {
	kind uint32 // S_IFREG and its like
	size int64  // bytes; 0 for most files of procfs, whatever they hold
}

func linux() kernel {
	return kernel{
		openTree: func(dir int, name string) (int, error) {
			return unix.Openat2(dir, name, &unix.OpenHow{
				Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
				Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
			})
		},
		openat: func(dir int, name string, flags int) (int, error) { return unix.Openat(dir, name, flags, 0) },
		statat: func(dir int, name string) (meta, error) {
			var st unix.Stat_t
			err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
			return meta{st.Mode & unix.S_IFMT, st.Size}, err
		},
		stat: func(fd int) (meta, error) {
			var st unix.Stat_t
			err := unix.Fstat(fd, &st)
			return meta{st.Mode & unix.S_IFMT, st.Size}, err
		},
		readlink: func(fd int) (string, error) {
			// The kernel keeps targets below PathMax. A longer one would come cut, and be followed like any other text.
			var target [unix.PathMax]byte
			n, err := unix.Readlinkat(fd, "", target[:])
			return string(target[:max(n, 0)]), err
		},
		pread: unix.Pread,
	}
}

// errNotRegular says that the path leads to a directory, FIFO, socket or device.
var errNotRegular = errors.New("not a regular file")

// maxTries is how often a system call is repeated that says EAGAIN or EINTR. openat2 says EAGAIN when a rename storm
// keeps it from proving containment; with "..", which we never pass to it, at most 1 in a row was measured.
const maxTries = 64

func again[T any](call func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		v, err := call()
		if try == maxTries || err != unix.EAGAIN && err != unix.EINTR {
			return v, err
		}
	}
}

// openDirectory opens the directory that a canonical path below the root names, by one of two openers: no symlink on it
// is followed, the last component included. On error no descriptor stays open.
func (r *Root) openDirectory(dir string) (int, error) {
	if !r.walkOnly {
		fd, err := r.openAtOnce(dir)
		if err != unix.ENOSYS {
			return fd, err
		}
	}
	return r.openByWalk(dir)
}

// openAtOnce is the opener for kernels with openat2 (Linux 5.6).
func (r *Root) openAtOnce(dir string) (int, error) {
	return again(func() (int, error) { return r.kernel.openTree(r.dir, dir) })
}

// openByWalk is the opener for everywhere else. O_PATH and O_NOFOLLOW together open a symlink itself, magic links of
// procfs too, and O_DIRECTORY then says ENOTDIR.
func (r *Root) openByWalk(dir string) (int, error) {
	at := r.dir
	for name := range strings.SplitSeq(dir, "/") {
		next, err := r.open(at, name, unix.O_PATH|unix.O_DIRECTORY)
		if at != r.dir {
			shut(at)
		}
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

// open opens one component, never over a symlink.
func (r *Root) open(dir int, name string, flags int) (int, error) {
	return again(func() (int, error) {
		return r.kernel.openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	})
}

// file is an open regular file.
type file struct {
	fd   int
	size int64 // bytes, as of the opening
}

// openCanonical opens the regular file that a canonical path below the root names. It follows no symlink: success
// proves that the path is canonical. Its errors are errNotRegular and errnos, where ELOOP and ENOTDIR mean that a
// symlink is, or may be, on the path. On error no descriptor stays open.
func (r *Root) openCanonical(path string) (file, error) {
	if path == "." {
		return file{}, errNotRegular
	}
	if len(path) >= unix.PathMax {
		return file{}, unix.ENAMETOOLONG // by openat2 it would be; the walk must not differ
	}
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return r.openLeaf(r.dir, path)
	}
	dir, err := r.openDirectory(path[:i])
	if err != nil {
		return file{}, err
	}
	defer shut(dir)
	return r.openLeaf(dir, path[i+1:])
}

// openLeaf opens the regular file of that name in the directory. Opening a device can act (a watchdog starts, a tape
// rewinds) and opening a FIFO lets its writer go on, so the name is looked at first and nothing but a regular file is
// opened. Between look and opening something else can be swapped in: O_NONBLOCK then keeps us from waiting and
// O_NOCTTY from gaining a terminal, and the second look, at the descriptor, from reading. What such a swap can still do
// is have us open and close a device node, if it can put one below the root (our container has no CAP_MKNOD).
//
// The two looks are not compared by inode: the descriptor is proven on its own, and a difference would only mean that
// somebody replaced one regular file by another, as editors do.
func (r *Root) openLeaf(dir int, name string) (file, error) {
	seen, err := again(func() (meta, error) { return r.kernel.statat(dir, name) })
	switch {
	case err != nil:
		return file{}, err
	case seen.kind == unix.S_IFLNK:
		return file{}, unix.ELOOP
	case seen.kind != unix.S_IFREG:
		return file{}, errNotRegular
	}
	fd, err := r.open(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return file{}, err
	}
	opened, err := again(func() (meta, error) { return r.kernel.stat(fd) })
	if err == nil && opened.kind != unix.S_IFREG {
		err = errNotRegular
	}
	if err != nil {
		shut(fd)
		return file{}, err
	}
	return file{fd: fd, size: opened.size}, nil
}

// shut closes a descriptor that nothing was written to: close cannot lose data, and on Linux the descriptor is gone
// whatever it answers.
func shut(fd int) { _ = unix.Close(fd) }
