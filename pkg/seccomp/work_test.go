package seccomp

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	libseccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// What works here works with KillByDefault: a call that is missing in the table ends the child.

// childWork is a program of Go that reads files: what the daemon is made of, without the daemon.
func childWork(arg string) error {
	how, dir, _ := strings.Cut(arg, " ")
	if err := load(Settings{Openat2: how == "openat2", KillByDefault: true}); err != nil {
		return err
	}
	debug.SetGCPercent(5)
	debug.SetMemoryLimit(64 << 20)
	var all sync.WaitGroup
	work := func(name string, times int, f func() error) {
		for range times {
			all.Go(func() {
				if err := f(); err != nil {
					fmt.Printf("%s: %v\n", name, err)
				}
			})
		}
	}
	work("threads that end", 40, func() error {
		runtime.LockOSThread() // and not unlocked: the thread goes with the goroutine
		unix.Gettid()
		time.Sleep(time.Millisecond)
		return nil
	})
	work("busy", 4, func() error {
		for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
			runtime.KeepAlive(make([]byte, 1<<20))
		}
		debug.FreeOSMemory()
		return nil
	})
	work("files", 4, func() error { return readFiles(dir, how == "openat2") })
	work("figures", 2, readFigures)
	work("signals", 1, signals)
	work("faults", 1, faults)
	work("C", 1, allocateInC)
	work("poll", 1, func() error {
		_, err := unix.Poll([]unix.PollFd{{Fd: 1}}, 1)
		return err
	})
	work("time", 4, func() error {
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer stop()
		<-ctx.Done()
		return nil
	})
	work("random", 1, func() error {
		_, err := rand.Read(make([]byte, 1<<16))
		return err
	})
	all.Wait()
	runtime.GOMAXPROCS(1)
	fmt.Println("done")
	return nil
}

func readFiles(dir string, withOpenat2 bool) error {
	if text, err := os.ReadFile(filepath.Join(dir, "link")); err != nil || string(text) != "text" {
		return fmt.Errorf("%q, %w", text, err)
	}
	if _, err := os.ReadFile(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		return fmt.Errorf("%v, %w", entries, err)
	}
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	if _, err := os.Lstat(dir); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if text, err := root.ReadFile("link"); err != nil || string(text) != "text" {
		return fmt.Errorf("%q, %w", text, err)
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	switch {
	case err == nil && withOpenat2:
		return unix.Close(fd)
	case errors.Is(err, unix.ENOSYS) && !withOpenat2:
		return nil
	}
	return fmt.Errorf("openat2: %w", err)
}

func readFigures() error {
	for _, name := range []string{"/proc/stat", "/proc/meminfo", "/proc/self/status", "/proc/self/mountinfo"} {
		if _, err := os.ReadFile(name); err != nil {
			return err
		}
	}
	if _, err := os.Readlink("/proc/self"); err != nil {
		return err
	}
	var s unix.Statfs_t
	return unix.Statfs("/", &s)
}

func signals() error {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGUSR1)
	if err := unix.Tgkill(os.Getpid(), os.Getpid(), unix.SIGUSR1); err != nil {
		return err
	}
	<-c
	signal.Ignore(unix.SIGUSR1)
	return nil
}

// faults recovers from what the processor reports and from a panic.
func faults() (err error) {
	defer func() {
		if recover() == nil {
			err = errors.New("no panic")
		}
	}()
	var nothing *struct{ big [1 << 10]byte }
	return fmt.Errorf("read %d", nothing.big[9])
}

// allocateInC makes glibc take memory, small and large, with the C code that is at hand.
func allocateInC() error {
	for range 20 {
		f, err := libseccomp.NewFilter(libseccomp.ActAllow)
		if err != nil {
			return err
		}
		for n := range libseccomp.ScmpSyscall(300) {
			if err := f.AddRule(n, libseccomp.ActKillProcess); err != nil {
				return err
			}
		}
		defer f.Release()
	}
	return nil
}

func TestARunOfGoNeedsNoMoreThanBase(t *testing.T) {
	dir := openDir(t)
	must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o644))
	must(t, os.Symlink("file", filepath.Join(dir, "link")))
	for _, how := range []string{"openat2", "strict"} {
		if got := (child{name: "work", arg: how + " " + dir}).good(t); got != "done\n" {
			t.Errorf("%s: %s", how, got)
		}
	}
}

// childSleep sleeps in the kernel until it was stopped and continued.
func childSleep(string) error {
	if err := load(Settings{KillByDefault: true}); err != nil {
		return err
	}
	fmt.Println("sleeping")
	end := time.Now().Add(600 * time.Millisecond)
	for time.Now().Before(end) {
		if err := unix.Nanosleep(&unix.Timespec{Nsec: 200e6}, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	fmt.Println("awake")
	return nil
}

func TestASleepOutlivesStopAndContinue(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	c := child{name: "sleep", stdout: w}
	c.started = func(p *os.Process) {
		must(t, w.Close())
		_, _ = r.Read(make([]byte, 64)) // it sleeps
		for range 3 {
			_ = p.Signal(unix.SIGSTOP)
			time.Sleep(50 * time.Millisecond)
			_ = p.Signal(unix.SIGCONT)
			time.Sleep(50 * time.Millisecond)
		}
	}
	c.good(t)
	if text, err := io.ReadAll(r); err != nil || string(text) != "awake\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// childCrash dies in one of the ways that a program can.
func childCrash(how string) error {
	if err := load(Settings{}); err != nil {
		return err
	}
	switch how {
	case "panic":
		panic("on purpose")
	case "nil":
		var nothing *int
		fmt.Println(*nothing)
	case "exit":
		os.Exit(7)
	case "deadlock":
		var f func(int) int
		f = func(n int) int { return f(n) + 1 }
		debug.SetMaxStack(1 << 16)
		f(0)
	case "hangup":
		_ = unix.Tgkill(os.Getpid(), os.Getpid(), unix.SIGHUP)
		time.Sleep(10 * time.Second)
	case "broken pipe":
		for {
			fmt.Println("to nobody")
		}
	}
	return errors.New("alive")
}

func TestDyingIsTheSameWithAndWithoutTheFilter(t *testing.T) {
	// nohup ignores the signal, and so would everything that is started. What has a handler here has none there.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, unix.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
	closed := func() *os.File {
		r, w, err := os.Pipe()
		must(t, err)
		must(t, r.Close())
		t.Cleanup(func() { _ = w.Close() })
		return w
	}
	tests := []struct {
		name      string
		traceback string
		code      int
		signal    syscall.Signal
		why       string
	}{
		{"panic", "single", 2, 0, "the ordinary end of a fault"},
		{"nil", "single", 2, 0, "a signal turned into a panic"},
		{"deadlock", "single", 2, 0, "a stack overflow ends without unwinding"},
		{"panic", "crash", -1, syscall.SIGABRT, "resets the handler and sends itself the signal"},
		{"nil", "crash", -1, syscall.SIGABRT, "the same from a signal"},
		{"exit", "single", 7, 0, "nothing to say"},
		{"hangup", "single", -1, syscall.SIGHUP, "a signal that Go passes on to the default action"},
		{"broken pipe", "single", -1, syscall.SIGPIPE, "os writes to a closed stdout"},
	}
	for _, test := range tests {
		c := child{name: "crash", arg: test.name, env: []string{"GOTRACEBACK=" + test.traceback}}
		if test.name == "broken pipe" {
			c.stdout = closed()
		}
		filtered := c.run(t)
		c.control = true
		control := c.run(t)
		for _, r := range []result{filtered, control} {
			if r.code != test.code || r.signal != test.signal {
				t.Errorf("%s, %s (%s): exit code %d, signal %v, not %d, %v\n%s", test.name, test.traceback, test.why, r.code,
					r.signal, test.code, test.signal, r.stderr)
			}
		}
		first := func(s string) string { return strings.SplitN(s, "\n", 2)[0] }
		if first(filtered.stderr) != first(control.stderr) {
			t.Errorf("%s: says %q, without the filter %q", test.name, first(filtered.stderr), first(control.stderr))
		}
	}
}

// childSQL makes the connections of a database client: addresses are tcp4, tcp6, unix, dns, separated by spaces.
func childSQL(arg string) error {
	all := strings.Split(arg, " ")
	tcp4, tcp6, local, dns := all[0], all[1], all[2], all[3]
	s := Settings{Profiles: []Profile{SQL}, INET: true, Unix: true, DNS: true, KillByDefault: true}
	if err := load(s); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", dns)
	}}
	dialer := &net.Dialer{
		Resolver:        resolver,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: time.Minute, Count: 3},
	}
	_, port, err := net.SplitHostPort(tcp4)
	if err != nil {
		return err
	}
	named := net.JoinHostPort("db.test", port)
	for _, a := range [][2]string{{"tcp", tcp4}, {"tcp", tcp6}, {"unix", local}, {"tcp", named}} {
		if a[1] == "-" {
			continue
		}
		c, err := dialer.DialContext(ctx, a[0], a[1])
		if err != nil {
			return err
		}
		if _, err := c.Write([]byte("ping")); err != nil {
			return err
		}
		if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return err
		}
		if text, err := io.ReadAll(io.LimitReader(c, 4)); err != nil || string(text) != "ping" {
			return fmt.Errorf("%q, %w", text, err)
		}
		if err := c.Close(); err != nil {
			return err
		}
		fmt.Println(a[0])
	}
	if _, err := dialer.DialContext(ctx, "tcp", "127.0.0.1:1"); !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("a closed port: %w", err)
	}
	return nil
}

func TestADatabaseClientNeedsNoMoreThanSQL(t *testing.T) {
	echo := func(network, address string) string {
		l, err := net.Listen(network, address)
		if err != nil && network == "tcp6" {
			t.Logf("no IPv6 here: %v", err)
			return "-"
		}
		must(t, err)
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
			}
		}()
		return l.Addr().String()
	}
	dir := openDir(t)
	local := echo("unix", filepath.Join(dir, "s"))
	must(t, os.Chmod(local, 0o777))
	tcp6 := echo("tcp6", "[::1]:0")
	want := "tcp\ntcp\nunix\ntcp\n"
	if tcp6 == "-" {
		want = "tcp\nunix\ntcp\n"
	}
	arg := strings.Join([]string{echo("tcp", "127.0.0.1:0"), tcp6, local, nameServer(t)}, " ")
	if got := (child{name: "sql", arg: arg}).good(t); got != want {
		t.Errorf("connected to %q, not %q", got, want)
	}
}

// nameServer answers every question for an address with 127.0.0.1, every other one with nothing.
func nameServer(t *testing.T) string {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = pc.Close() })
	go func() {
		buf := make([]byte, 512)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			end := 12
			for end < n && buf[end] != 0 {
				end += int(buf[end]) + 1
			}
			end += 5                                      // the root label, type, class
			reply := append([]byte(nil), buf[:end]...)    // header and question, without what EDNS adds
			binary.BigEndian.PutUint16(reply[2:], 0x8180) // a response, recursion available
			binary.BigEndian.PutUint16(reply[10:], 0)
			if binary.BigEndian.Uint16(reply[end-4:]) == 1 {
				binary.BigEndian.PutUint16(reply[6:], 1)
				reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1)
			}
			_, _ = pc.WriteTo(reply, from)
		}
	}()
	return pc.LocalAddr().String()
}

// childSocket serves one connection of the listener that is descriptor 3.
func childSocket(string) error {
	f := os.NewFile(3, "listener")
	l, err := net.FileListener(f)
	if err != nil {
		return err
	}
	_ = f.Close()
	if err := load(Settings{Profiles: []Profile{Socket}, KillByDefault: true}); err != nil {
		return err
	}
	c, err := l.Accept()
	if err != nil {
		return err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("a %T", c)
	}
	rc, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	err2 := rc.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "%s from %d", text, peer.Pid); err != nil {
		return err
	}
	if err := conn.CloseWrite(); err != nil {
		return err
	}
	return errors.Join(conn.Close(), l.Close())
}

func TestASessionOverASocketNeedsNoMoreThanSocket(t *testing.T) {
	path := filepath.Join(openDir(t), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	defer l.Close()
	f, err := l.File()
	must(t, err)
	defer f.Close()
	answer := make(chan string, 1)
	go func() {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			answer <- err.Error()
			return
		}
		defer c.Close()
		_, _ = c.Write([]byte("hello"))
		_ = c.CloseWrite()
		text, err := io.ReadAll(c)
		answer <- fmt.Sprintf("%s %v", text, err)
	}()
	child{name: "socket", files: []*os.File{f}}.good(t)
	if got, want := <-answer, fmt.Sprintf("hello from %d <nil>", os.Getpid()); got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

// childAudit appends to descriptor 3 and waits for the disk.
func childAudit(string) error {
	f := os.NewFile(3, "audit")
	if err := load(Settings{Profiles: []Profile{Audit}, KillByDefault: true}); err != nil {
		return err
	}
	if _, err := f.WriteString("record\n"); err != nil {
		return err
	}
	return errors.Join(f.Sync(), unix.Fdatasync(3), f.Close())
}

func TestAnAuditFileNeedsNoMoreThanAudit(t *testing.T) {
	f, err := os.OpenFile(filepath.Join(openDir(t), "audit"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(t, err)
	defer f.Close()
	child{name: "audit", files: []*os.File{f}}.good(t)
	if text, err := os.ReadFile(f.Name()); err != nil || string(text) != "record\n" {
		t.Errorf("%q, %v", text, err)
	}
}
