package lockdown

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// readableByAll are files that exist and that every user may read. The first is there in every mount of /proc, and for
// every process, so that a missing domain shows (unless it is within what is granted).
var readableByAll = []string{"/proc/self/status", "/proc/version", "/proc/uptime", "/etc/passwd"}

// door is one thing that a Landlock domain takes away, tried without leaving a trace.
type door struct {
	right string     // as package landlock names it
	abi   int        // the first that takes it away
	shut  unix.Errno // what the kernel says then
	once  bool       // only to be tried in stage 1, where what it needs can still be made
	try   func() error
}

// errNotTried says that there is nothing on this system to try it on. It proves nothing either way.
var errNotTried = errors.New("nothing to try it on")

// doors lists what the domain of this ABI must have closed. The rights that cannot be tried without changing somebody's
// files are asked from the kernel before (landlock.Ruleset.Confirm) and tried for real in the tests of that package.
// other is a process that could be signalled before there was a domain, or 0.
func (p Plan) doors(abi, other int) []door {
	all := []door{
		{"read_dir", 1, unix.EACCES, false, p.outside(unix.O_RDONLY|unix.O_DIRECTORY, "/", "/proc", "/dev")},
		{"read_file", 1, unix.EACCES, false, p.outside(unix.O_RDONLY, readableByAll...)},
		{"write_file", 1, unix.EACCES, false, p.outside(unix.O_WRONLY, "/dev/null")},
		// A name that the kernel keeps for the thread: it ignores the truncation.
		{"truncate", 3, unix.EACCES, true, func() error { return unix.Truncate("/proc/self/comm", 0) }},
		{"bind_tcp", 4, unix.EACCES, false, func() error { return withSocket(unix.AF_INET, unix.SOCK_STREAM, bindAny) }},
		{"connect_tcp", 4, unix.EACCES, false, func() error { return withSocket(unix.AF_INET, unix.SOCK_STREAM, connectNobody) }},
		{"connect_tcp", 4, unix.EACCES, false, func() error {
			return withSocket(unix.AF_INET, unix.SOCK_STREAM, p.connectUnlisted)
		}},
		{"abstract_unix_socket", 6, unix.EPERM, true, abstract()},
		{"signal", 6, unix.EPERM, false, func() error {
			if other == 0 {
				return errNotTried
			}
			err := unix.Kill(other, 0)
			if err == unix.ESRCH { // it has ended
				return errNotTried
			}
			return err
		}},
		{"bind_udp", 10, unix.EACCES, false, func() error {
			if len(p.SendUDP) > 0 {
				return errNotTried // a port that the kernel chooses is what a sender needs
			}
			return withSocket(unix.AF_INET, unix.SOCK_DGRAM, bindAny)
		}},
		{"connect_send_udp", 10, unix.EACCES, false, func() error {
			return withSocket(unix.AF_INET, unix.SOCK_DGRAM, connectNobody)
		}},
	}
	in := all[:0]
	for _, d := range append(all, p.besideGrants()...) {
		if d.abi <= abi {
			in = append(in, d)
		}
	}
	return in
}

// outside opens the first of the paths that exists and is not granted.
func (p Plan) outside(flags int, paths ...string) func() error {
	return func() error {
		for _, path := range paths {
			if p.granted(path, flags&unix.O_DIRECTORY != 0) {
				continue
			}
			fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
			if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.EISDIR {
				continue
			}
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		}
		return errNotTried
	}
}

// granted says whether path may be read, or listed. It compares canonical names: a rule holds for a folder and what is
// below, whatever name was used.
func (p Plan) granted(path string, list bool) bool {
	if canonical, err := filepath.EvalSymlinks(path); err == nil {
		path = canonical
	}
	for _, g := range p.Grants {
		if list && !g.List || g.Sockets {
			continue
		}
		under, err := filepath.EvalSymlinks(g.Path)
		if err != nil {
			continue
		}
		if path == under || strings.HasPrefix(path, strings.TrimSuffix(under, "/")+"/") {
			return true
		}
	}
	return false
}

func withSocket(family, kind int, use func(fd int) error) error {
	// Without SOCK_NONBLOCK a stranger could hold up the start: by filling the queue of a listener that he has found in
	// /proc/net/unix (the kernel looks at the queue before it asks the domain), or by dropping packets on lo.
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return errNotTried // the runtime's filter or a kernel without networking: there is no way to the door
	}
	err = use(fd)
	_ = unix.Close(fd) // nothing was sent
	return err
}

// Nobody listens on port 0: a connection to it is refused, or not routed, before anything leaves the machine.
func connectNobody(fd int) error {
	err := unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	switch err {
	case unix.EINPROGRESS, unix.ECONNREFUSED, unix.ENETUNREACH, unix.EADDRNOTAVAIL, unix.EINVAL, unix.ETIMEDOUT:
		return nil // not stopped by the domain
	}
	return err
}

// uncallable is the group of all hosts (RFC 1112). TCP has no groups: the kernel refuses to connect before it makes a
// packet, and has asked the domain before that. So any port can be tried, and nobody notices.
var uncallable = [4]byte{224, 0, 0, 1}

// usualPorts are those by which others would be called: SSH, mail, names, HTTP, MySQL, PostgreSQL, Redis, HTTP again.
var usualPorts = []uint16{22, 25, 53, 80, 443, 3306, 5432, 6379, 8080}

// connectUnlisted tries the usual ports and the neighbours of those of the plan. One that the plan does not list and the
// domain lets through is enough.
func (p Plan) connectUnlisted(fd int) error {
	ports := slices.Clone(usualPorts)
	for _, port := range p.ConnectTCP {
		ports = append(ports, port-1, port+1)
	}
	last := errNotTried
	for _, port := range ports {
		if port == 0 || slices.Contains(p.ConnectTCP, port) {
			continue
		}
		last = unix.Connect(fd, &unix.SockaddrInet4{Addr: uncallable, Port: int(port)})
		if last == unix.ENETUNREACH {
			return nil // not stopped by the domain
		}
	}
	return last
}

// besideGrants are doors at the edges of what is granted: a rule that is wider than was meant shows nowhere else. They
// leave no trace but that somebody has looked, and a file without a name goes when it is closed. Where this user may not
// write anyway, or nothing lies beside a grant, they are not tried.
func (p Plan) besideGrants() (all []door) {
	var folders []string
	for _, g := range p.Grants {
		all = append(all, door{"write_file", 1, unix.EACCES, true, func() error {
			return orNotTried(openAndClose(g.Path, unix.O_WRONLY|unix.O_TMPFILE))
		}})
		at, err := filepath.EvalSymlinks(g.Path)
		if at = filepath.Dir(at); err != nil || slices.Contains(folders, at) || p.underRule(at) {
			continue
		}
		if strings.HasPrefix(at+"/", procFolder+"/") || strings.HasPrefix(at+"/", "/sys/") {
			continue // no files, but ways to ask and to do
		}
		folders = append(folders, at)
		all = append(
			all,
			door{"read_dir", 1, unix.EACCES, true, p.outside(unix.O_RDONLY|unix.O_DIRECTORY, at)},
			door{"read_file", 1, unix.EACCES, true, p.neighbour(at)},
		)
	}
	return all
}

// maxNeighbours is how many names of a folder are looked at for a file that is not granted.
const maxNeighbours = 256

// neighbour opens a file in the folder that every user may read and that is not granted, the same one each time.
func (p Plan) neighbour(folder string) func() error {
	try := func(path string) error {
		return orNotTried(openAndClose(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW))
	}
	found := sync.OnceValue(func() string {
		f, err := os.Open(folder) // #nosec G304 -- the operator's grants say which
		if err != nil {
			return ""
		}
		defer func() { _ = f.Close() }()       // only read from
		entries, _ := f.ReadDir(maxNeighbours) // those that there are
		for _, e := range entries {
			path := filepath.Join(folder, e.Name())
			// Regular by what the folder says: to open a pipe or a device is to do something.
			if !e.Type().IsRegular() || p.granted(path, false) || p.hasRule(path) {
				continue
			}
			if info, err := e.Info(); err == nil && info.Mode().Perm()&0o004 != 0 && try(path) == nil {
				return path
			}
		}
		return ""
	})
	return func() error {
		if path := found(); path != "" {
			return try(path)
		}
		return errNotTried
	}
}

// hasRule says whether a path is the program or another name of something granted, a hard link or a bind mount: a rule is
// for the file, whatever its name.
func (p Plan) hasRule(path string) bool {
	info, err := os.Stat(path)
	same := func(g Grant) bool {
		granted, err := os.Stat(g.Path)
		return err == nil && os.SameFile(info, granted)
	}
	return err == nil && (same(Grant{Path: ownProgram}) || slices.ContainsFunc(p.Grants, same))
}

// underRule says whether a folder, or one above it, is so.
func (p Plan) underRule(folder string) bool {
	for ; folder != "/"; folder = filepath.Dir(folder) {
		if p.hasRule(folder) {
			return true
		}
	}
	return p.hasRule("/")
}

// orNotTried is for files that are not ours: what else can happen to them, that they are gone or that the disk is full,
// says nothing about the domain.
func orNotTried(err error) error {
	if err == nil || err == unix.EACCES {
		return err
	}
	return errNotTried
}

func bindAny(fd int) error { return unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}) }

// abstract calls a listener outside of the domain, under a name that the kernel chooses. The first call makes it; it
// goes with the re-exec.
func abstract() func() error {
	listener := sync.OnceValues(func() (unix.Sockaddr, error) {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		if err := unix.Bind(fd, &unix.SockaddrUnix{}); err != nil {
			return nil, err
		}
		if err := unix.Listen(fd, 2); err != nil { // one call before, one after
			return nil, err
		}
		return unix.Getsockname(fd)
	})
	return func() error {
		at, err := listener()
		if err != nil {
			return errNotTried
		}
		return withSocket(unix.AF_UNIX, unix.SOCK_STREAM, func(caller int) error {
			if err := unix.Connect(caller, at); err != unix.EAGAIN {
				return err
			}
			return errNotTried // somebody else has filled the queue
		})
	}
}

// maxProcesses is how many processes are looked at for one that we may signal.
const maxProcesses = 256

// somebody returns a process outside of this one that it may signal, or 0. Most containers have none.
func somebody() int {
	ids := []int{os.Getppid()}
	if entries, err := os.ReadDir(procFolder); err == nil {
		for _, e := range entries[:min(len(entries), maxProcesses)] {
			if id, err := strconv.Atoi(e.Name()); err == nil {
				ids = append(ids, id)
			}
		}
	}
	for _, id := range ids {
		if id > 0 && id != os.Getpid() && unix.Kill(id, 0) == nil { // signal 0 is not delivered, kill(2)
			return id
		}
	}
	return 0
}

// observation is what the doors were like before the domain.
type observation struct {
	doors  []door
	before []error
}

func observe(doors []door) observation {
	o := observation{doors: doors}
	for _, d := range doors {
		o.before = append(o.before, d.try())
	}
	return o
}

// closed tries the doors again. Its error says which one that was open is not shut, or that there was no door at all to
// see it by.
func (o observation) closed() error {
	seen := 0
	for i, d := range o.doors {
		if o.before[i] != nil {
			continue // shut by something else, or nothing to try it on
		}
		after := d.try()
		if after == errNotTried {
			continue
		}
		if after != d.shut {
			return fmt.Errorf("%s: want %v, got %v", d.right, d.shut, after)
		}
		seen++
	}
	if seen == 0 {
		return errors.New("nothing was open before, so nothing shows that it is shut")
	}
	return nil
}

// shut tries the doors in stage 2. There is no before, so another answer than success is enough, but one at least must
// be the domain's own.
func (p Plan) shut(f facts) error {
	seen := 0
	for _, d := range p.doors(f.ABI, f.Other) {
		if d.once {
			continue
		}
		switch err := d.try(); err {
		case nil:
			return fmt.Errorf("%s: want %v, got success", d.right, d.shut)
		case d.shut:
			seen++
		}
	}
	if seen == 0 {
		return errors.New("no door answers as a domain would")
	}
	return nil
}
