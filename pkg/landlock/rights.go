package landlock

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// KnownABI is the highest ABI whose rights the table has. A newer kernel is used as this one: what it could take away
// beyond that may be something that the program needs (ABI 9 did so to unix sockets).
const KnownABI = 11

// FS is a set of file rights, the bits of LANDLOCK_ACCESS_FS_*.
type FS uint64

// The file rights. A rule for something that is no directory can hold Execute, WriteFile, ReadFile, Truncate, IoctlDev
// and ResolveUnix only.
const (
	Execute     FS = unix.LANDLOCK_ACCESS_FS_EXECUTE
	WriteFile   FS = unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	ReadFile    FS = unix.LANDLOCK_ACCESS_FS_READ_FILE
	ReadDir     FS = unix.LANDLOCK_ACCESS_FS_READ_DIR
	RemoveDir   FS = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR
	RemoveFile  FS = unix.LANDLOCK_ACCESS_FS_REMOVE_FILE
	MakeChar    FS = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR
	MakeDir     FS = unix.LANDLOCK_ACCESS_FS_MAKE_DIR
	MakeReg     FS = unix.LANDLOCK_ACCESS_FS_MAKE_REG
	MakeSock    FS = unix.LANDLOCK_ACCESS_FS_MAKE_SOCK
	MakeFIFO    FS = unix.LANDLOCK_ACCESS_FS_MAKE_FIFO
	MakeBlock   FS = unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	MakeSym     FS = unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	Refer       FS = unix.LANDLOCK_ACCESS_FS_REFER
	Truncate    FS = unix.LANDLOCK_ACCESS_FS_TRUNCATE
	IoctlDev    FS = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	ResolveUnix FS = unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
)

// ofFiles are the rights that mean something for a single file (ACCESS_FILE in the kernel's security/landlock/fs.c).
const ofFiles = Execute | WriteFile | ReadFile | Truncate | IoctlDev | ResolveUnix

// ofAll are all file rights of KnownABI.
const ofAll = ResolveUnix<<1 - 1

// String names the rights of the set, as "read_file|read_dir"; bits that the table has no name for as one hexadecimal
// number, and an empty set as "none".
func (f FS) String() string {
	var names []string
	for _, r := range Rights() {
		if r.Kind == KindFile && uint64(f)&r.Bit != 0 {
			names = append(names, r.Name)
			f &^= FS(r.Bit)
		}
	}
	if f != 0 || len(names) == 0 {
		if f == 0 {
			return "none"
		}
		names = append(names, fmt.Sprintf("%#x", uint64(f)))
	}
	return strings.Join(names, "|")
}

// Kind says in which of the three fields of a ruleset a right has its bit.
type Kind string

// The kinds. File and net rights can be given back by rules, for a path or a port; scopes cannot.
const (
	KindFile  Kind = "file"
	KindNet   Kind = "net"
	KindScope Kind = "scope"
)

// Right is something that Landlock can take away from a process.
type Right struct {
	Name string // of the kernel's constant, in small letters: "write_file"
	Kind Kind
	Bit  uint64 // one bit, in the field of the kind
	ABI  int    // the first ABI that can take it away
	// Unasked says that every ruleset takes the right away, from ABI 1 on and whether it handles it or not; ABI is then
	// the first with which a rule can give it back. Only refer is so (landlock(7)).
	Unasked bool
	Takes   string // what is taken away, in words that follow "may not"
	// Needs are the system calls that exercise the right: who cannot make any of them cannot use it. See [Call].
	Needs []Call
}

// Handled returns the rights that a ruleset for this ABI names: none for 0 (no Landlock), all for KnownABI and above.
func Handled(abi int) []Right {
	return slices.DeleteFunc(Rights(), func(r Right) bool { return r.ABI > abi })
}

// Missing returns the rights that a process keeps under a ruleset for this ABI: all for 0 (no Landlock). Handled and
// Missing are together the whole table, but for refer on ABI 1, which is in neither: see [Right].Unasked.
func Missing(abi int) []Right {
	return slices.DeleteFunc(Rights(), func(r Right) bool { return r.ABI <= abi || r.Unasked && abi >= 1 })
}

// Rights returns the table, a copy, ordered by ABI, kind and bit. Bits and ABIs are those of
// include/uapi/linux/landlock.h and of landlock(7); ABI 7, 8 and 11 brought flags only.
func Rights() []Right {
	file := func(abi int, name string, bit FS, takes string, needs ...[]Call) Right {
		return Right{Name: name, Kind: KindFile, Bit: uint64(bit), ABI: abi, Takes: takes, Needs: slices.Concat(needs...)}
	}
	net := func(abi int, name string, bit uint64, takes string, needs ...[]Call) Right {
		return Right{Name: name, Kind: KindNet, Bit: bit, ABI: abi, Takes: takes, Needs: slices.Concat(needs...)}
	}
	scope := func(abi int, name string, bit uint64, takes string, needs ...[]Call) Right {
		return Right{Name: name, Kind: KindScope, Bit: bit, ABI: abi, Takes: takes, Needs: slices.Concat(needs...)}
	}
	refer := file(2, "refer", Refer, "move or link a file into another directory", renames(), links(), uring())
	refer.Unasked = true
	return []Right{
		file(1, "execute", Execute, "execute a file", execs()),
		file(1, "write_file", WriteFile, "open a file for writing", opens(forWriting()...), creates(), uring()),
		file(1, "read_file", ReadFile, "open a file for reading", opens(unix.O_RDONLY, unix.O_RDWR), uring()),
		file(1, "read_dir", ReadDir, "list a directory", opens(unix.O_RDONLY, unix.O_RDONLY|unix.O_DIRECTORY), uring()),
		file(1, "remove_dir", RemoveDir, "remove or move a directory", rmdirs(), renames(), uring()),
		file(1, "remove_file", RemoveFile, "remove or move a file", unlinks(), renames(), uring()),
		file(1, "make_char", MakeChar, "make a character device", mknods(unix.S_IFCHR), renames(), links(), uring()),
		file(1, "make_dir", MakeDir, "make a directory", mkdirs(), renames(), uring()),
		file(
			1, "make_reg", MakeReg, "make a file",
			// S_IFCHR with device 0 is a whiteout, for which 6.12.117 and 7.3.4 want make_reg, and 6.18.44 make_char.
			opens(forMaking()...), creates(), mknods(0, unix.S_IFREG, unix.S_IFCHR), renames(), links(), uring(),
		),
		file(
			1, "make_sock", MakeSock, "make a socket in a directory",
			binds(), mknods(unix.S_IFSOCK), renames(), links(), uring(),
		),
		file(1, "make_fifo", MakeFIFO, "make a named pipe", mknods(unix.S_IFIFO), renames(), links(), uring()),
		file(1, "make_block", MakeBlock, "make a block device", mknods(unix.S_IFBLK), renames(), links(), uring()),
		file(1, "make_sym", MakeSym, "make a symbolic link", symlinks(), renames(), links(), uring()),

		refer,

		file(3, "truncate", Truncate, "shorten a file", truncates(), opens(forEmptying()...), creates(), uring()),

		net(
			4, "bind_tcp", unix.LANDLOCK_ACCESS_NET_BIND_TCP, "bind a TCP socket to a port",
			sockets(unix.SOCK_STREAM, unix.IPPROTO_TCP), uring(),
		),
		net(
			4, "connect_tcp", unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, "connect a TCP socket to a port",
			sockets(unix.SOCK_STREAM, unix.IPPROTO_TCP), uring(),
		),

		file(5, "ioctl_dev", IoctlDev, "control a device that it opens", ioctls()),

		scope(
			6, "abstract_unix_socket", unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET,
			"reach an abstract unix socket of others", unixSockets(), uring(),
		),
		scope(6, "signal", unix.LANDLOCK_SCOPE_SIGNAL, "signal a process of others", signals()),

		file(9, "resolve_unix", ResolveUnix, "reach a unix socket of others by its path", unixSockets(), uring()),

		net(
			10, "bind_udp", unix.LANDLOCK_ACCESS_NET_BIND_UDP, "bind a UDP socket to a port",
			sockets(unix.SOCK_DGRAM, unix.IPPROTO_UDP), uring(),
		),
		net(
			10, "connect_send_udp", unix.LANDLOCK_ACCESS_NET_CONNECT_SEND_UDP, "send to a UDP port",
			sockets(unix.SOCK_DGRAM, unix.IPPROTO_UDP), uring(),
		),
	}
}
