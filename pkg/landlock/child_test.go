package landlock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/stage"
)

// taskVariable holds the name of a task and its arguments: the test binary then does that one thing, prints what came
// of it and ends. What a task takes away is gone for good, so each has a process of its own.
const taskVariable = "LANDLOCK_TASK"

func TestMain(m *testing.M) {
	words := strings.Fields(os.Getenv(taskVariable))
	if len(words) == 0 {
		os.Exit(m.Run())
	}
	// The restriction is for one thread, and all that follows must happen on it.
	runtime.LockOSThread()
	tasks := map[string]func(args []string) (string, error){
		"probe":  probeTask,
		"grant":  grantTask,
		"thread": threadTask,
		"naked":  nakedTask,
		"filter": filterTask,
		"wait":   waitTask,
	}
	answer, err := tasks[words[0]](words[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(answer)
	os.Exit(0)
}

// otherUser is who the daemon runs as. Root is not told apart from others by Landlock, but by everything around it.
const otherUser = 10001

func taskCommand(task string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = "/"
	// Under the race detector every process would wait for a second before it ends: 135 s instead of 3 for this package.
	cmd.Env = append(os.Environ(), taskVariable+"="+task, "GORACE=atexit_sleep_ms=0")
	cmd.Env = append(cmd.Env, stage.Coverage()...)
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
	}
	return cmd
}

// do has a task done by another process, which is not root, and returns its answer.
func do(t *testing.T, words ...string) string {
	t.Helper()
	cmd := taskCommand(strings.Join(words, " "))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("task %v: %v: %s", words, err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// needABI skips the test where the kernel has no Landlock, or less than it takes; it returns the highest usable ABI.
func needABI(t *testing.T, least int) int {
	t.Helper()
	abi, err := ABI()
	if err != nil {
		t.Skipf("needs a kernel with Landlock: %v", err)
	}
	if abi < least {
		t.Skipf("needs Landlock ABI %d, the kernel has %d", least, abi)
	}
	return min(abi, KnownABI)
}

// openFolder makes a folder that the other user can write to. t.TempDir would be closed to it.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "landlock-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// outcome is the name of the errno, or "ok". What is no errno is a broken test.
func outcome(err error) (string, error) {
	var errno unix.Errno
	switch {
	case err == nil:
		return "ok", nil
	case errors.As(err, &errno):
		return unix.ErrnoName(errno), nil
	}
	return "", err
}

// lose restricts the thread.
func lose(r *Ruleset) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := r.RestrictThread(); err != nil {
		return err
	}
	return r.Close()
}

func allow(r *Ruleset, path string, rights FS) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // only the rule counts
	return r.AllowPath(fd, rights)
}

// scene is what the operations work on. All of it exists before the restriction, outside of the restricted domain.
type scene struct {
	dir      string
	tcp, udp int    // ports
	bound    int    // a UDP socket
	abstract string // name of an abstract socket
	pid      int    // a process of the same user
}

func (s scene) path(name string) string { return s.dir + "/" + name }

// newScene fills the folder: dir/{one/file, two/, empty/, junk, server}, and starts the listeners and the process.
func newScene(dir string) (scene, error) {
	s := scene{dir: dir, abstract: "@landlock-test-" + strconv.Itoa(os.Getpid())}
	server := func(kind int, address unix.Sockaddr) (fd, port int, err error) {
		family := unix.AF_INET
		if _, ok := address.(*unix.SockaddrUnix); ok {
			family = unix.AF_UNIX
		}
		fd, err = unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return
		}
		if err = unix.Bind(fd, address); err != nil {
			return
		}
		if kind == unix.SOCK_STREAM {
			if err = unix.Listen(fd, 8); err != nil {
				return
			}
		}
		if in, ok := must(unix.Getsockname(fd)).(*unix.SockaddrInet4); ok {
			port = in.Port
		}
		return
	}
	var err [12]error
	for i, name := range []string{"one", "two", "empty"} {
		err[i] = os.Mkdir(s.path(name), 0o700)
	}
	err[3] = os.WriteFile(s.path("one/file"), []byte("text"), 0o600)
	err[4] = os.WriteFile(s.path("junk"), []byte("\x00no program"), 0o700)
	_, s.tcp, err[5] = server(unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: loopback})
	_, s.udp, err[6] = server(unix.SOCK_DGRAM, &unix.SockaddrInet4{Addr: loopback})
	s.bound, _, err[7] = server(unix.SOCK_DGRAM, &unix.SockaddrInet4{Addr: loopback})
	_, _, err[8] = server(unix.SOCK_STREAM, &unix.SockaddrUnix{Name: s.abstract})
	_, _, err[9] = server(unix.SOCK_STREAM, &unix.SockaddrUnix{Name: s.path("server")})
	other := taskCommand("wait")
	// It ends when this process does, and with it the other end of the pipe.
	_, err[10] = other.StdinPipe()
	err[11] = other.Start()
	if err := errors.Join(err[:]...); err != nil {
		return s, err
	}
	s.pid = other.Process.Pid
	return s, nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func waitTask([]string) (string, error) {
	_, err := io.Copy(io.Discard, os.Stdin)
	return "", err
}

var loopback = [4]byte{127, 0, 0, 1}

func open(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func withSocket(family, kind int, use func(fd int) error) error {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %v", err) // %v: this errno is not the one in question
	}
	defer func() { _ = unix.Close(fd) }() // the process ends soon
	return use(fd)
}

func connect(family, kind int, to unix.Sockaddr) error {
	return withSocket(family, kind, func(fd int) error { return unix.Connect(fd, to) })
}

func bind(family, kind int, to unix.Sockaddr) error {
	return withSocket(family, kind, func(fd int) error { return unix.Bind(fd, to) })
}

// probe is one right, and the one operation that needs it and no other right that is denied.
type probe struct {
	name string
	// from is the first ABI that can take it away, from landlock(7) and not from the table under test.
	from int
	// denied and free are the outcomes with the right taken away and without.
	denied, free string
	do           func(scene) error
	why          string
}

// probes is a function, since nobody may change it.
func probes() []probe {
	return []probe{
		{"execute", 1, "EACCES", "ENOEXEC", func(s scene) error {
			return unix.Exec(s.path("junk"), []string{"junk"}, nil)
		}, "only a file that may be executed is looked at and found to be none"},
		{"write_file", 1, "EACCES", "ok", func(s scene) error { return open(s.path("one/file"), unix.O_WRONLY) }, ""},
		{"read_file", 1, "EACCES", "ok", func(s scene) error { return open(s.path("one/file"), unix.O_RDONLY) }, ""},
		{"read_dir", 1, "EACCES", "ok", func(s scene) error {
			return open(s.path("one"), unix.O_RDONLY|unix.O_DIRECTORY)
		}, ""},
		{"remove_dir", 1, "EACCES", "ok", func(s scene) error { return unix.Rmdir(s.path("empty")) }, ""},
		{"remove_file", 1, "EACCES", "ok", func(s scene) error { return unix.Unlink(s.path("one/file")) }, ""},
		{"make_char", 1, "EACCES", "EPERM", func(s scene) error {
			return unix.Mknod(s.path("new"), unix.S_IFCHR|0o600, int(unix.Mkdev(7, 99)))
		}, "CAP_MKNOD is missing, and is asked for after Landlock; 0:0 is a whiteout, see make_reg in Rights"},
		{"make_dir", 1, "EACCES", "ok", func(s scene) error { return unix.Mkdir(s.path("new"), 0o700) }, ""},
		{"make_reg", 1, "EACCES", "ok", func(s scene) error {
			return open(s.path("new"), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
		}, ""},
		{"make_sock", 1, "EACCES", "ok", func(s scene) error {
			return bind(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: s.path("new")})
		}, ""},
		{"make_fifo", 1, "EACCES", "ok", func(s scene) error { return unix.Mkfifo(s.path("new"), 0o600) }, ""},
		{"make_block", 1, "EACCES", "EPERM", func(s scene) error {
			return unix.Mknod(s.path("new"), unix.S_IFBLK|0o600, int(unix.Mkdev(7, 99)))
		}, "CAP_MKNOD is missing, and is asked for after Landlock"},
		{"make_sym", 1, "EACCES", "ok", func(s scene) error { return unix.Symlink("one", s.path("new")) }, ""},
		{"refer", 2, "EXDEV", "ok", func(s scene) error {
			return unix.Rename(s.path("one/file"), s.path("two/file"))
		}, ""},
		{"truncate", 3, "EACCES", "ok", func(s scene) error { return unix.Truncate(s.path("one/file"), 1) }, ""},
		{"bind_tcp", 4, "EACCES", "ok", func(scene) error {
			return bind(unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: loopback})
		}, ""},
		{"connect_tcp", 4, "EACCES", "ok", func(s scene) error {
			return connect(unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: loopback, Port: s.tcp})
		}, ""},
		{"ioctl_dev", 5, "EACCES", "ENOTTY", func(scene) error {
			fd, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				return fmt.Errorf("open: %v", err) // %v: this errno is not the one in question
			}
			_, err = unix.IoctlGetTermios(fd, unix.TCGETS)
			return err
		}, "the device is asked, and is no terminal"},
		{"abstract_unix_socket", 6, "EPERM", "ok", func(s scene) error {
			return connect(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: s.abstract})
		}, ""},
		{"signal", 6, "EPERM", "ok", func(s scene) error { return unix.Kill(s.pid, 0) }, ""},
		{"resolve_unix", 9, "EACCES", "ok", func(s scene) error {
			return connect(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: s.path("server")})
		}, ""},
		{"bind_udp", 10, "EACCES", "ok", func(scene) error {
			return bind(unix.AF_INET, unix.SOCK_DGRAM, &unix.SockaddrInet4{Addr: loopback})
		}, ""},
		{"connect_send_udp", 10, "EACCES", "ok", func(s scene) error {
			return unix.Connect(s.bound, &unix.SockaddrInet4{Addr: loopback, Port: s.udp})
		}, "the socket is bound already, or connect would need bind_udp as well"},
	}
}

// The last argument of the task probe.
const (
	others = "others" // rules give back all that can be given but the right in question
	all    = "all"    // and that one, too
	hole   = "hole"   // as others, but the ruleset does not handle the right
)

// probeTask restricts itself by the rights of an ABI (0: not at all) and tries the operation of one right.
// Arguments: folder, right, ABI, and others, all or hole.
func probeTask(args []string) (string, error) {
	dir, name, rules := args[0], args[1], args[3]
	abi, err := strconv.Atoi(args[2])
	if err != nil {
		return "", err
	}
	list := probes()
	p := list[slices.IndexFunc(list, func(p probe) bool { return p.name == name })]
	s, err := newScene(dir)
	if err != nil {
		return "", err
	}
	if abi > 0 {
		r, err := newRuleset(abi, func(right Right) bool { return rules == hole && right.Name == name })
		if err != nil {
			return "", err
		}
		give := FS(ofAll)
		for _, right := range Rights() {
			if right.Kind == KindFile && right.Name == name && rules != all {
				give &^= FS(right.Bit)
			}
		}
		if name != "connect_tcp" || rules == all {
			if err := r.AllowConnectTCP(uint16(s.tcp)); err != nil {
				return "", err
			}
		}
		if err := errors.Join(allow(r, dir, give), allow(r, "/dev/null", give&ofFiles), lose(r)); err != nil {
			return "", err
		}
	}
	return outcome(p.do(s))
}

// grantTask tries a file operation under a ruleset of the kernel's ABI that allows something for one path.
// Arguments: folder, path of the rule, set of rights, operation, its path.
func grantTask(args []string) (string, error) {
	dir, rule, op, target := args[0], args[1], args[3], args[4]
	rights, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return "", err
	}
	abi, err := ABI()
	if err != nil {
		return "", err
	}
	r, err := New(min(abi, KnownABI))
	if err != nil {
		return "", err
	}
	if err := errors.Join(allow(r, dir+"/"+rule, FS(rights)), lose(r)); err != nil {
		return "", err
	}
	flags := map[string]int{
		"read":   unix.O_RDONLY,
		"write":  unix.O_WRONLY,
		"empty":  unix.O_WRONLY | unix.O_TRUNC,
		"create": unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL,
		"list":   unix.O_RDONLY | unix.O_DIRECTORY,
	}
	return outcome(open(dir+"/"+target, flags[op]))
}

// threadTask restricts the thread, and opens the root from it and from a thread that was there before.
func threadTask([]string) (string, error) {
	ask, answers := make(chan bool), make(chan error)
	ready := make(chan bool)
	go func() {
		runtime.LockOSThread()
		ready <- true
		<-ask
		answers <- open("/", unix.O_RDONLY)
	}()
	<-ready
	r, err := New(1)
	if err != nil {
		return "", err
	}
	if err := lose(r); err != nil {
		return "", err
	}
	here, err := outcome(open("/", unix.O_RDONLY))
	if err != nil {
		return "", err
	}
	ask <- true
	there, err := outcome(<-answers)
	return here + " " + there, err
}

// nakedTask forgets no_new_privs.
func nakedTask([]string) (string, error) {
	r, err := New(1)
	if err != nil {
		return "", err
	}
	return outcome(r.RestrictThread())
}
