package lockdown_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/stage"
)

// Which threads of stage 2 a tracer keeps.
const (
	noThread = iota
	allThreads
	allButMain
)

// traced runs a command that gets one ping, under ptrace(2), and calls between when its program has begun for the second
// time, as stage 2, and has not run yet.
func traced(t *testing.T, cmd *exec.Cmd, keep int, between func()) ending {
	t.Helper()
	runtime.LockOSThread() // the thread is the tracer, and the parent
	defer runtime.UnlockOSThread()
	file := func(text string) *os.File { // no pipe: nobody would read it meanwhile
		name := filepath.Join(t.TempDir(), "stream")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() }) // it is read by then
		return f
	}
	out, log := file(""), file("")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = file(`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"), out, log
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	main, begun := cmd.Process.Pid, 0
	must := func(err error) {
		if err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: it has been killed meanwhile
			t.Fatal(err)
		}
	}
	for {
		var s unix.WaitStatus
		id, err := unix.Wait4(-1, &s, unix.WALL|unix.WNOTHREAD, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case !s.Stopped() && id != main: // a thread
			continue
		case !s.Stopped():
			e := ending{code: s.ExitStatus()}
			if s.Signaled() {
				e.signal = syscall.Signal(s.Signal())
			}
			for to, from := range map[*string]*os.File{&e.stdout: out, &e.stderr: log} {
				text, err := os.ReadFile(from.Name())
				if err != nil {
					t.Fatal(err)
				}
				*to = string(text)
			}
			return e
		case s.TrapCause() == unix.PTRACE_EVENT_CLONE:
			if keep == allButMain {
				must(unix.PtraceDetach(id))
				continue
			}
		case s.StopSignal() == unix.SIGTRAP && id == main: // it has executed a program
			if begun++; begun < 2 {
				break
			}
			between()
			if keep == noThread {
				must(unix.PtraceDetach(id))
				continue
			}
			must(unix.PtraceSetOptions(id, unix.PTRACE_O_TRACECLONE))
		case s.StopSignal() != unix.SIGSTOP: // SIGSTOP is the first word of a new thread
			must(unix.PtraceCont(id, int(s.StopSignal())))
			continue
		}
		must(unix.PtraceCont(id, 0))
	}
}

func TestATracerOfAnyThreadIsNamed(t *testing.T) {
	t.Parallel()
	needRoot(t)
	const says = " traces this one and can do with it what it likes"
	for _, c := range []struct {
		keep  int
		named bool
	}{
		{allThreads, true},
		{allButMain, true},
		{noThread, false}, // the control
	} {
		e := traced(t, stage.Daemon(t, stage.Options{Args: []string{"posture", "--json"}}), c.keep, func() {})
		if e.code != 0 || strings.Contains(e.stdout, says) != c.named || strings.Contains(e.stdout, `"level":"full"`) == c.named {
			t.Errorf("traced %d: %v", c.keep, e)
		}
	}
}

// The domain is made from the DSN that stage 1 has read, and the connections from the one that stage 2 reads.
func TestADSNThatChangesBetweenTheStagesStopsTheStart(t *testing.T) {
	t.Parallel()
	needRoot(t)
	const first = "postgres://u:p@127.0.0.1:55466/d"
	for _, c := range []struct {
		second string
		serves bool
	}{
		{first, true},
		{"postgres://u:another@127.0.0.1:55466/d", true}, // a rotated password is no other plan
		{"postgres://u:p@127.0.0.1:443/d", false},
		{"postgres://u:p@localhost:55466/d", false},
		{"postgres://u:p@/d?host=/tmp", false},
	} {
		dir := stage.Dir(t)
		file := filepath.Join(dir, "dsn")
		write := func(text string) {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Error(err)
			}
		}
		write(first)
		cmd := daemonWith(t, "MCP_SQL_DSN_FILE="+file)
		e := traced(t, cmd, noThread, func() { write(c.second) })
		if c.serves {
			e.serves(t)
		} else {
			e.refusesToServe(t, "the plan of stage 1 was another one")
		}
	}
}
