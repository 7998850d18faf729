package seccomp

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A filter cannot be taken off again, so whatever loads one runs in a child: this test binary, started with childVar.
const (
	childVar = "SECCOMP_TEST_CHILD" // name of the child's function
	argVar   = "SECCOMP_TEST_ARG"   // what it is told
	loadVar  = "SECCOMP_TEST_LOAD"  // "no" for the control, which does the same without a filter

	daemonUID = 10001
)

func TestMain(m *testing.M) {
	name := os.Getenv(childVar)
	if name == "" {
		os.Exit(m.Run())
	}
	f, ok := children()[name]
	if !ok {
		panic("no child " + name)
	}
	if err := f(os.Getenv(argVar)); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func children() map[string]func(string) error {
	return map[string]func(string) error{
		"denied":  childDenied,
		"raw":     childRaw,
		"threads": childThreads,
		"work":    childWork,
		"sleep":   childSleep,
		"crash":   childCrash,
		"sql":     childSQL,
		"socket":  childSocket,
		"audit":   childAudit,
		"outer":   childOuter,
		"load":    childLoad,
		"twice":   childTwice,
		"wall":    childWall,
	}
}

// load loads a filter, unless this is a control. strict is the filter of a kernel without Landlock.
func load(s Settings) error {
	s.PID = os.Getpid()
	if os.Getenv(loadVar) == "no" {
		return nil
	}
	f, err := Compile(s)
	if err != nil {
		return err
	}
	return f.Load()
}

// child is one run of a child.
type child struct {
	name, arg string
	control   bool
	env       []string
	files     []*os.File // 3, 4, ...
	stdin     *os.File   // instead of nothing
	stdout    *os.File   // instead of a buffer
	started   func(*os.Process)
}

// result is how a child ended.
type result struct {
	stdout, stderr string
	code           int
	signal         syscall.Signal
}

// run starts a child as the user of the daemon when we are root, and waits for it.
func (c child) run(t testing.TB) result {
	t.Helper()
	// Not by its path: the directory of a test binary is shut for other users.
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childVar+"="+c.name, argVar+"="+c.arg)
	if c.control {
		cmd.Env = append(cmd.Env, loadVar+"=no")
	}
	cmd.Env = append(cmd.Env, c.env...)
	cmd.ExtraFiles = c.files
	if c.stdin != nil {
		cmd.Stdin = c.stdin
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if c.stdout != nil {
		cmd.Stdout = c.stdout
	}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: daemonUID, Gid: daemonUID}}
	}
	must(t, cmd.Start())
	if c.started != nil {
		c.started(cmd.Process)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	r := result{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
	if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		r.signal = w.Signal()
	}
	return r
}

// good runs a child that has to end well, and returns what it printed.
func (c child) good(t testing.TB) string {
	t.Helper()
	r := c.run(t)
	if r.code != 0 || r.signal != 0 {
		t.Fatalf("child %s %s: exit code %d, signal %v\n%s%s", c.name, c.arg, r.code, r.signal, r.stdout, r.stderr)
	}
	return r.stdout
}

// openDir is a directory that the child's user may write to.
func openDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "seccomp") // t.TempDir is below a directory that other users may not search
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func lines(s string) []string { return strings.Split(strings.TrimSpace(s), "\n") }
