package lockdown_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-server-suite/pkg/stage"
)

// unlocked turns both layers off, for the other side of a comparison.
var unlocked = []string{"MCP_LANDLOCK=off", "MCP_SECCOMP=off"}

// A crash must end as it would without a filter: with the runtime's own words and code, not in silence by SIGSYS, and not
// hanging because a call that the runtime needs on its way out was denied.
func TestACrashEndsAsItWouldUnlocked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		crash, traceback, says string
		code                   int
	}{
		{"panic", "", "panic: planted", 2},
		{"nil", "", "SIGSEGV", 2},
		{"stack", "", "stack overflow", 2},
		{"map", "", "concurrent map writes", 2},
		{"panic", "crash", "panic: planted", -int(syscall.SIGABRT)},
		{"nil", "crash", "SIGSEGV", -int(syscall.SIGABRT)},
		{"signal ABRT", "", "SIGABRT", 2},
		{"signal SEGV", "", "SIGSEGV", 2},
		{"signal QUIT", "", "SIGQUIT", 2},
		{"signal FPE", "", "SIGFPE", 2},
		{"signal TERM", "", "", 0},
	} {
		t.Run(c.crash+" "+c.traceback, func(t *testing.T) {
			t.Parallel()
			locked, said := crash(t, c.crash, c.traceback)
			free, saidFree := crash(t, c.crash, c.traceback, unlocked...)
			if locked != free || locked != c.code {
				t.Errorf("locked it ends with %d, unlocked with %d, want %d", locked, free, c.code)
			}
			if !strings.Contains(said, c.says) || !strings.Contains(saidFree, c.says) {
				t.Errorf("locked it says %.600q, unlocked %.600q, want %q", said, saidFree, c.says)
			}
		})
	}
}

// crash returns the exit code, or the negative signal that ended the process, and what it said after its posture.
func crash(t *testing.T, way, traceback string, environ ...string) (code int, said string) {
	t.Helper()
	environ = append(environ, "MCP_TEST_CRASH="+way)
	if traceback != "" {
		environ = append(environ, "GOTRACEBACK="+traceback)
	}
	cmd := stage.Daemon(t, stage.Options{Tags: withHoles, Env: environ})
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = input.Close() }() // open until the process has ended by itself
	log, err := os.CreateTemp(t.TempDir(), "stderr")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if name, is := strings.CutPrefix(way, "signal "); is {
		awaitText(t, log.Name(), `"msg":"posture"`)
		signals := map[string]syscall.Signal{
			"ABRT": syscall.SIGABRT, "SEGV": syscall.SIGSEGV, "QUIT": syscall.SIGQUIT, "FPE": syscall.SIGFPE, "TERM": syscall.SIGTERM,
		}
		if err := cmd.Process.Signal(signals[name]); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		<-ended
		t.Errorf("%s: still there after a minute", way)
	}
	text, err := os.ReadFile(log.Name())
	if err != nil {
		t.Fatal(err)
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		t.Fatal("no wait status")
	}
	if status.Signaled() {
		return -int(status.Signal()), string(text)
	}
	return status.ExitStatus(), string(text)
}

func awaitText(t *testing.T, path, text string) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(5 * time.Millisecond) {
		if got, err := os.ReadFile(path); err == nil && strings.Contains(string(got), text) {
			return
		}
	}
	t.Fatalf("%s does not say %q", path, text)
}

// What ends a process for real is seen as what it is: a shell, and a container runtime, show 159.
func TestAFatalCallShowsAs159(t *testing.T) {
	t.Parallel()
	cmd := stage.Daemon(t, stage.Options{Args: []string{"posture", "--kill", "execve"}})
	script := exec.Command("sh", "-c", fmt.Sprintf("%s posture --kill execve; echo $?", cmd.Path))
	script.Env, script.Dir, script.SysProcAttr = cmd.Env, cmd.Dir, cmd.SysProcAttr
	out, err := script.Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasSuffix(bytes.TrimSpace(out), []byte("159")) {
		t.Errorf("%q", out)
	}
}
