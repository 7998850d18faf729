//go:build lockdownhole

package lockdown

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// attempt is one thing that a test has the sealed process try, whether it may or not. What it makes stays.
type attempt struct {
	Do    string `json:"do"`
	Path  string `json:"path"`
	To    string `json:"to"`    // the second path of rename and link
	Flags int    `json:"flags"` // of open and openat2
	Port  uint16 `json:"port"`
}

// attempts tries what stdin lists when MCP_TEST_TRY is set, prints what each was answered ("allowed", or the name of the
// errno) in the same order, and ends the process.
func attempts() {
	if os.Getenv("MCP_TEST_TRY") == "" {
		return
	}
	var list []attempt
	if err := json.NewDecoder(os.Stdin).Decode(&list); err != nil {
		panic(err)
	}
	answers := []string{}
	for _, a := range list {
		answers = append(answers, a.answer())
	}
	text, err := json.Marshal(answers)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
	os.Exit(0)
}

func (a attempt) answer() string {
	if a.Do == "ports" {
		return ports()
	}
	return named(a.try())
}

func named(err error) string {
	var errno unix.Errno
	switch {
	case err == nil:
		return allowed
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

func (a attempt) try() error {
	switch a.Do {
	case "open":
		return openAndClose(a.Path, a.Flags)
	case "openat2":
		how := unix.OpenHow{Flags: uint64(a.Flags | unix.O_CLOEXEC)} // #nosec G115 -- a test gives flags
		if a.Flags&unix.O_CREAT != 0 || a.Flags&unix.O_TMPFILE == unix.O_TMPFILE {
			how.Mode = 0o600 // else it is EINVAL
		}
		return closeIf(unix.Openat2(unix.AT_FDCWD, a.Path, &how))
	case "unlink":
		return unix.Unlink(a.Path)
	case "rmdir":
		return unix.Rmdir(a.Path)
	case "mkdir":
		return unix.Mkdir(a.Path, 0o700)
	case "rename":
		return unix.Rename(a.Path, a.To)
	case "link":
		return unix.Link(a.Path, a.To)
	case "symlink":
		return unix.Symlink(a.To, a.Path)
	case "mkfifo":
		return unix.Mkfifo(a.Path, 0o600)
	case "mknod":
		return unix.Mknod(a.Path, unix.S_IFSOCK|0o600, 0)
	case "truncate":
		return unix.Truncate(a.Path, 0)
	case "execute": // a daemon; fatal where there is a filter
		// #nosec G204 -- a test says which
		child, err := syscall.ForkExec(a.Path, []string{a.Path, "--version"}, nil)
		if err == nil {
			_, err = unix.Wait4(child, nil, 0, nil)
		}
		return err
	case "tcp":
		return dial(unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: loopback, Port: int(a.Port)})
	case "udp": // nothing is sent
		return dial(unix.SOCK_DGRAM, &unix.SockaddrInet4{Addr: loopback, Port: int(a.Port)})
	case "unix":
		return dial(unix.SOCK_STREAM, &unix.SockaddrUnix{Name: a.Path})
	case "kill the parent":
		return unix.Kill(os.Getppid(), unix.SIGKILL)
	case "ptrace": // a process that cannot be; fatal where there is a filter
		return rawCall(unix.SYS_PTRACE, unix.PTRACE_CONT, 1<<22)
	}
	return fmt.Errorf("nobody knows how to %q", a.Do)
}

var loopback = [4]byte{127, 0, 0, 1}

func dial(kind int, to unix.Sockaddr) error {
	family := unix.AF_INET
	if _, is := to.(*unix.SockaddrUnix); is {
		family = unix.AF_UNIX
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Connect(fd, to)
}

// ports lists the TCP ports that the domain lets through, of all that there are. Nobody is called: see uncallable.
func ports() string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return named(err)
	}
	defer func() { _ = unix.Close(fd) }()
	const all = 1<<16 - 1
	var open []string
	for port := 1; port <= all; port++ {
		if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: uncallable, Port: port}); err != unix.EACCES {
			open = append(open, strconv.Itoa(port))
		}
	}
	if len(open) == all {
		return "all"
	}
	return strings.Join(open, ",")
}
