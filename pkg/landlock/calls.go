package landlock

import "golang.org/x/sys/unix"

// Call is a system call with arguments that would exercise a right, for somebody who asks a system call filter whether
// it lets this call through. A right is out of reach when the filter refuses every call that the right needs.
//
// The lists name each way in once, not each spelling: a filter that refuses O_WRONLY but lets O_WRONLY|O_NOATIME
// through would look tight. What a filter cannot see (a path, the flags of openat2, the family of an address) is 0.
// io_uring does most of these things without making the system call, so io_uring_setup stands wherever it can.
type Call struct {
	// Name is libseccomp's, of amd64 or of every architecture. Where an architecture lacks one (open, creat, mkdir and
	// other elders on arm64), the call cannot be made there and needs no refusing.
	Name string
	Args [6]uint64 // as in the registers: integers sign-extended to 64 bits, pointers 0, descriptors 3
}

const (
	someDescriptor = 3
	// nobody is a process id that is never given out: the kernel's highest is one less (PID_MAX_LIMIT).
	nobody = 1 << 22
	// fromHere is AT_FDCWD (-100) in a register.
	fromHere = ^uint64(99)
	mode     = 0o600

	// Not in x/sys; the same on all architectures but for FIOSETOWN on mips, sparc and their like.
	fSetOwnEx = 15
	fioSetOwn = 0x8901
)

func call(name string, args ...uint64) Call {
	c := Call{Name: name}
	copy(c.Args[:], args)
	return c
}

// opens are the ways to open a file with one of these sets of flags. openat2 has its flags in memory.
func opens(flags ...uint64) []Call {
	list := []Call{call("openat2", fromHere, 0, 0, 24)}
	for _, f := range flags {
		list = append(
			list,
			call("open", 0, f, mode),
			call("openat", fromHere, 0, f, mode),
			call("open_by_handle_at", someDescriptor, 0, f),
		)
	}
	return list
}

func forWriting() []uint64 {
	return []uint64{
		unix.O_WRONLY, unix.O_RDWR, unix.O_WRONLY | unix.O_APPEND, unix.O_WRONLY | unix.O_TRUNC,
		unix.O_WRONLY | unix.O_CREAT, unix.O_RDWR | unix.O_CREAT, unix.O_WRONLY | unix.O_TMPFILE,
	}
}

// forMaking: O_RDONLY|O_CREAT makes a file as well as any other.
func forMaking() []uint64 {
	return []uint64{
		unix.O_RDONLY | unix.O_CREAT, unix.O_WRONLY | unix.O_CREAT, unix.O_RDWR | unix.O_CREAT,
		unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL, unix.O_WRONLY | unix.O_TMPFILE,
	}
}

// forEmptying: Linux truncates on O_RDONLY|O_TRUNC, too (open(2) calls it unspecified).
func forEmptying() []uint64 {
	return []uint64{unix.O_RDONLY | unix.O_TRUNC, unix.O_WRONLY | unix.O_TRUNC, unix.O_RDWR | unix.O_TRUNC}
}

func creates() []Call { return []Call{call("creat", 0, mode)} }

func truncates() []Call {
	return []Call{call("truncate", 0, 0), call("ftruncate", someDescriptor, 0)}
}

func execs() []Call {
	return []Call{
		call("execve"),
		call("execveat", fromHere),
		call("execveat", someDescriptor, 0, 0, 0, unix.AT_EMPTY_PATH),
	}
}

func mkdirs() []Call { return []Call{call("mkdir", 0, mode), call("mkdirat", fromHere, 0, mode)} }

func rmdirs() []Call {
	return []Call{call("rmdir"), call("unlinkat", fromHere, 0, unix.AT_REMOVEDIR)}
}

func unlinks() []Call { return []Call{call("unlink"), call("unlinkat", fromHere, 0, 0)} }

func symlinks() []Call { return []Call{call("symlink"), call("symlinkat", 0, fromHere)} }

func mknods(types ...uint64) []Call {
	var list []Call
	for _, t := range types {
		list = append(list, call("mknod", 0, t|mode), call("mknodat", fromHere, 0, t|mode))
	}
	return list
}

// renames take from one directory and make in another (or in the same one), and so need the rights to do both.
func renames() []Call {
	return []Call{
		call("rename"),
		call("renameat", fromHere, 0, fromHere),
		call("renameat2", fromHere, 0, fromHere),
		call("renameat2", fromHere, 0, fromHere, 0, unix.RENAME_EXCHANGE),
	}
}

func links() []Call {
	return []Call{
		call("link"),
		call("linkat", fromHere, 0, fromHere),
		call("linkat", someDescriptor, 0, fromHere, 0, unix.AT_EMPTY_PATH),
	}
}

// binds: the family is in memory and in the socket, which may be inherited.
func binds() []Call { return []Call{call("bind", someDescriptor, 0, 110)} }

// sockets of both internet families, by default protocol and by number. Type flags (SOCK_CLOEXEC, SOCK_NONBLOCK)
// share the argument with the type.
func sockets(kind, protocol uint64) []Call {
	const flags = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	var list []Call
	for _, family := range []uint64{unix.AF_INET, unix.AF_INET6} {
		list = append(
			list,
			call("socket", family, kind, 0),
			call("socket", family, kind, protocol),
			call("socket", family, kind|flags, 0),
			call("socket", family, kind|flags, protocol),
		)
	}
	return list
}

// unixSockets: one half of a pair of datagram sockets can still name another receiver in sendto (unix(7)).
func unixSockets() []Call {
	var list []Call
	for _, kind := range []uint64{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET} {
		list = append(
			list,
			call("socket", unix.AF_UNIX, kind),
			call("socket", unix.AF_UNIX, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK),
		)
	}
	return append(list, call("socketpair", unix.AF_UNIX, unix.SOCK_DGRAM))
}

// signals: F_SETOWN and its kin make the kernel send SIGIO, or any signal chosen with F_SETSIG, to another process.
func signals() []Call {
	const sig = uint64(unix.SIGTERM)
	return []Call{
		call("kill", nobody, sig),
		call("kill", nobody, 0),
		call("tkill", nobody, sig),
		call("tgkill", nobody, nobody, sig),
		call("rt_sigqueueinfo", nobody, sig),
		call("rt_tgsigqueueinfo", nobody, nobody, sig),
		call("pidfd_send_signal", someDescriptor, sig),
		call("fcntl", someDescriptor, unix.F_SETOWN, nobody),
		call("fcntl", someDescriptor, fSetOwnEx),
		call("ioctl", someDescriptor, fioSetOwn),
		call("ioctl", someDescriptor, unix.SIOCSPGRP),
	}
}

// ioctls stand for the thousands: a question to a terminal, two well-known ways out of one, one to a disk, and a number
// that no driver has.
func ioctls() []Call {
	var list []Call
	for _, request := range []uint64{unix.TCGETS, unix.TIOCSTI, unix.TIOCLINUX, unix.BLKGETSIZE64, 0xffff_ffff} {
		list = append(list, call("ioctl", someDescriptor, request))
	}
	return list
}

func uring() []Call { return []Call{call("io_uring_setup", 1)} }
