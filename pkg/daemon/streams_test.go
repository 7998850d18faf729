package daemon_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/rawclient"
	"mcp-server-suite/pkg/stage"
)

// One stray line on stdout breaks a client for good, and one argument in a log is a leak. So everything that makes the
// daemon speak is done at every level of the log.
func TestStdoutCarriesOnlyAnswersAndStderrNoArgument(t *testing.T) {
	t.Parallel()
	const secret = "XYZZY"
	dir := stage.Dir(t)
	stage.File(t, dir, "bad.txt", []byte("\xff"+secret))
	for _, level := range []string{"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "debug"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			s := open(t, "MCP_SAFE_DATA_DIR="+dir, "MCP_SERVER_SUITE_LOG_LEVEL="+level, "MCP_TOOL_TIMEOUT_SECONDS=0.1")
			s.send(strings.ReplaceAll(`{not json ~
{"jsonrpc":"2.0","id":"~","method":"~"}
{"jsonrpc":"2.0","id":1,"method":"ping","~":1}
{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"~"}}
{"jsonrpc":"2.0","method":"notifications/~"}
{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"~"}}
{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"cursor":"~"}}
{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"~","arguments":{"~":1}}}
{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"rows","arguments":{"~":1}}}
{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"rows","arguments":{"size":"~"}}}
{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"rows","arguments":{"sleep_ms":60000}}}
{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"sandbox_fs_read","arguments":{"relative_path":"~"}}}
{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"sandbox_fs_read","arguments":{"relative_path":"../~"}}}
{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"sandbox_fs_read","arguments":{"relative_path":"a","encoding":"~"}}}
{"jsonrpc":"2.0","id":11,"method":"tools/call","params":{"name":"sandbox_fs_read","arguments":{"relative_path":"bad.txt"}}}
`, "~", secret))
			if err := s.CloseInput(); err != nil {
				t.Fatal(err)
			}
			lines := s.rest()
			if len(lines) != 13 {
				t.Errorf("%d answers, want 13", len(lines))
			}
			for _, line := range lines {
				a := decode(t, line)
				if bytes.Contains(line, []byte(secret)) && string(a.ID) != `"`+secret+`"` {
					t.Errorf("the answer repeats what was sent: %s", line)
				}
			}
			s.wait()
			checkLog(t, s.Stderr(), secret)
		})
	}
}

// checkLog requires a log of JSON lines that holds no secret.
func checkLog(t *testing.T, log, secret string) {
	t.Helper()
	for line := range strings.Lines(log) {
		var entry struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Time == "" || entry.Level == "" || entry.Msg == "" {
			t.Errorf("not a log line: %q", line)
		}
	}
	if secret != "" && strings.Contains(log, secret) {
		t.Errorf("the log repeats what was sent: %s", log)
	}
}

// The control of the test above: there is a log, its level is obeyed, and what it says is JSON.
func TestTheLogSpeaksAtItsLevel(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]string{"WARNING": `"level":"WARN"`, "ERROR": ""} {
		s := startAs(t, stage.Options{Env: []string{"MCP_METRICS_ENABLED=false", "MCP_SERVER_SUITE_LOG_LEVEL=" + level}})
		s.handshake(newest)
		if err := s.CloseInput(); err != nil {
			t.Fatal(err)
		}
		s.wait()
		checkLog(t, s.Stderr(), "")
		log := withoutPosture(t, s.Stderr())
		if (want == "") != (log == "") || !strings.Contains(log, want) {
			t.Errorf("%s: %q", level, log)
		}
	}
}

// What the runtime itself writes goes to stderr too.
func TestTheRuntimesOwnWordsStayOffStdout(t *testing.T) {
	t.Parallel()
	s := launch(t, stage.Daemon(t, stage.Options{Tags: wiretest, Env: []string{"GODEBUG=gctrace=1,inittrace=1"}}))
	s.handshake(newest)
	for range 20 {
		into[any](t, s.call("rows", `{"size":100000}`))
	}
	if !strings.Contains(s.Stderr(), "gc ") { // the control
		t.Error("the garbage collector wrote no trace")
	}
	if err := s.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	for _, line := range s.rest() {
		t.Errorf("on stdout: %s", line)
	}
	if e := s.wait(); e.Code != 2 || !strings.Contains(s.Stderr(), "SIGQUIT") {
		t.Errorf("exit %d: %.300s", e.Code, s.Stderr())
	}
}

func TestAStderrThatNobodyReadsHoldsUpNothing(t *testing.T) {
	t.Parallel()
	cmd := stage.Daemon(t, stage.Options{Env: []string{"MCP_METRICS_ENABLED=false"}}) // no tool: that is logged
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := read.Close(); err != nil { // every write of the daemon to stderr fails, and would raise SIGPIPE
		t.Fatal(err)
	}
	cmd.Stderr = write
	s := launch(t, cmd)
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	s.handshake(newest)
	s.ping()
	if err := s.CloseInput(); err != nil {
		t.Fatal(err)
	}
	if e := s.wait(); e.Code != 0 {
		t.Errorf("exit %d, signal %v", e.Code, e.Signal)
	}
}

// Whoever starts the daemon by hand, or with docker run -t, is told what it is; the stream is served all the same.
func TestATerminalIsToldWhatThisIs(t *testing.T) {
	t.Parallel()
	master, slave := openTerminal(t)
	cmd := stage.Daemon(t, stage.Options{Tags: wiretest})
	var out, log bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, &out, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	const ping, controlD = `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n", "\x04"
	if _, err := io.WriteString(master, ping+controlD); err != nil {
		t.Fatal(err)
	}
	if err := waitFor(cmd); err != nil {
		t.Errorf("%v: %s", err, log.String())
	}
	if want := `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"; out.String() != want {
		t.Errorf("stdout %q", out.String())
	}
	if got := withoutPosture(t, log.String()); strings.Count(got, "\n") != 1 || !strings.Contains(got, "stdin is a terminal") {
		t.Errorf("stderr %q", got)
	}
}

// The control: a pipe gets no such line.
func TestAPipeIsToldNothing(t *testing.T) {
	t.Parallel()
	s := open(t)
	if err := s.CloseInput(); err != nil {
		t.Fatal(err)
	}
	s.wait()
	if got := withoutPosture(t, s.Stderr()); got != "" {
		t.Errorf("stderr %q", got)
	}
}

// withoutPosture takes out the one line that every start logs, whatever the level of the log.
func withoutPosture(t *testing.T, log string) string {
	t.Helper()
	var rest string
	found := 0
	for line := range strings.Lines(log) {
		if strings.Contains(line, `"msg":"posture","posture":{"level":"full",`) {
			found++
		} else {
			rest += line
		}
	}
	if found != 1 {
		t.Errorf("%d lines with the posture: %.1000s", found, log)
	}
	return rest
}

// waitFor waits for a program that was started without rawclient, and kills it when it overruns.
func waitFor(cmd *exec.Cmd) error {
	overrun := time.AfterFunc(rawclient.Patience, func() { _ = cmd.Process.Kill() })
	defer overrun.Stop()
	return cmd.Wait()
}

// openTerminal returns both ends of a pseudo terminal (pts(4)).
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("needs /dev/ptmx to make a terminal: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	return master, slave
}

// A read of such a stream fails, or is the end of the input, and the session would seem to be over.
func TestAStreamThatIsNoneStopsTheStart(t *testing.T) {
	t.Parallel()
	open := func(path string, flags int) *os.File {
		f, err := os.OpenFile(path, flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() }) // nothing is written
		return f
	}
	for _, c := range []struct {
		name    string
		in, out *os.File
		says    string // "" is served
	}{
		{"the control", open(os.DevNull, os.O_RDONLY), open(os.DevNull, os.O_WRONLY), ""},
		{"a folder", open("/", os.O_RDONLY), open(os.DevNull, os.O_WRONLY), "standard input cannot be read"},
		{"only to be written", open(os.DevNull, os.O_WRONLY), open(os.DevNull, os.O_WRONLY), "standard input cannot be read"},
		{"only a path", open(os.DevNull, unix.O_PATH), open(os.DevNull, os.O_WRONLY), "standard input cannot be read"},
		{"only to be read", open(os.DevNull, os.O_RDONLY), open(os.DevNull, os.O_RDONLY), "standard output cannot be written"},
	} {
		cmd := stage.Daemon(t, stage.Options{})
		var log bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = c.in, c.out, &log
		err := cmd.Run()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		code := cmd.ProcessState.ExitCode()
		if c.says == "" && code != 0 || c.says != "" && (code != 2 || !strings.Contains(log.String(), c.says)) {
			t.Errorf("%s: exit %d, stderr %q", c.name, code, log.String())
		}
	}
}
