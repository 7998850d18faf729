package lockdown_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/landlock"
	"mcp-server-suite/pkg/lockdown"
	"mcp-server-suite/pkg/rawclient"
	"mcp-server-suite/pkg/stage"
)

// This file has what the tests of the live daemon share: how it is asked, how it is spoken to, and how it gets to where
// it is started.

// needRoot skips without root, who alone can start the daemon as the user of the image and look at it from outside.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: to start the daemon as another user and to look into its /proc")
	}
}

// needLandlock skips where the kernel has none, and returns the ABI that the daemon will use.
func needLandlock(t *testing.T) int {
	t.Helper()
	abi, err := landlock.ABI()
	if err != nil {
		t.Skipf("needs a kernel with Landlock: %v", err)
	}
	return min(abi, landlock.KnownABI)
}

// asRoot takes back that the daemon becomes another user.
func asRoot(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = nil
	return cmd
}

// ending is how a program has ended, and what it has said.
type ending struct {
	code           int // -1 when a signal has ended it
	signal         syscall.Signal
	stdout, stderr string
}

func (e ending) String() string {
	return fmt.Sprintf("exit %d, signal %d, stdout %.2000q, stderr %.2000q", e.code, e.signal, e.stdout, e.stderr)
}

// refusesToServe requires the end of a daemon that will not serve: 3, nothing on stdout, and one line that holds says.
func (e ending) refusesToServe(t *testing.T, says string) {
	t.Helper()
	if e.code != 3 || e.stdout != "" || strings.Count(e.stderr, "\n") != 1 ||
		!strings.HasPrefix(e.stderr, "mcp-server-suite: hardening: ") || !strings.Contains(e.stderr, says) {
		t.Errorf("want exit 3 and one line with %q: %v", says, e)
	}
}

// serves requires the end of a daemon that has answered the ping of toTheEnd.
func (e ending) serves(t *testing.T) {
	t.Helper()
	if e.code != 0 || e.stdout != `{"jsonrpc":"2.0","id":1,"result":{}}`+"\n" {
		t.Errorf("want exit 0 and the answer to ping: %v", e)
	}
}

// toTheEnd runs a program that gets one ping, and kills it when it overruns.
func toTheEnd(t *testing.T, cmd *exec.Cmd) ending {
	t.Helper()
	var out, log bytes.Buffer
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
	cmd.Stdout, cmd.Stderr = &out, &log
	cmd.WaitDelay = rawclient.Patience
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	overrun := time.AfterFunc(rawclient.Patience, func() { _ = cmd.Process.Kill() }) // ended already: nothing to kill
	_ = cmd.Wait()                                                                   // ProcessState says it better
	overrun.Stop()
	e := ending{cmd.ProcessState.ExitCode(), 0, out.String(), log.String()}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.signal = status.Signal()
	}
	return e
}

// report is what `posture --json --probes` prints.
type report struct {
	lockdown.Posture
	denials []lockdown.Outcome
}

// got is the answer to a probe by its name, and whether there is such a probe.
func (r report) got(name string) (string, bool) {
	i := slices.IndexFunc(r.denials, func(o lockdown.Outcome) bool { return o.Name == name })
	if i < 0 {
		return "", false
	}
	return r.denials[i].Got, true
}

// postureIn asks the shipped daemon with these settings, as the user of the image.
func postureIn(t *testing.T, env ...string) report {
	t.Helper()
	return reportOf(t, stage.Daemon(t, stage.Options{Args: []string{"posture", "--json", "--probes"}, Env: env}))
}

// reportOf runs a posture command to its end and reads what it says. A member that the type lacks is a mistake.
func reportOf(t *testing.T, cmd *exec.Cmd) report {
	t.Helper()
	e := toTheEnd(t, cmd)
	if e.code != 0 || e.stderr != "" {
		t.Fatal(e)
	}
	var r report
	for i, line := range slices.Collect(strings.Lines(e.stdout)) {
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		var err error
		if i == 0 {
			err = d.Decode(&r.Posture)
		} else {
			var o lockdown.Outcome
			err = d.Decode(&o)
			r.denials = append(r.denials, o)
		}
		if err != nil {
			t.Fatalf("line %d: %v: %s", i+1, err, line)
		}
	}
	if len(r.denials) == 0 || len(r.denials) != r.Probes.Tried+len(r.Probes.NotTried) {
		t.Fatalf("%d lines of probes, the posture says %d and %v", len(r.denials), r.Probes.Tried, r.Probes.NotTried)
	}
	return r
}

// client is a session with a daemon, with the handshake done.
type client struct {
	*rawclient.Client
	t *testing.T
}

// converse begins a session with the daemon that cmd starts. It ends with the test.
func converse(t *testing.T, cmd *exec.Cmd) client {
	t.Helper()
	c, err := rawclient.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, err := c.Handshake("2025-11-25"); err != nil {
		t.Fatalf("handshake: %v; stderr: %s", err, c.Stderr())
	}
	return client{c, t}
}

// daemonWith is the shipped daemon, to be started as the user of the image.
func daemonWith(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	return stage.Daemon(t, stage.Options{Env: env})
}

func readParams(path string) string {
	return fmt.Sprintf(`{"name":"sandbox_fs_read","arguments":{"relative_path":%q,"max_bytes":1048576}}`, path)
}

const metricsParams = `{"name":"system_metrics","arguments":{}}`

// tool calls a tool and returns the text of its result, and whether it is a refusal.
func (c client) tool(params string) (text string, refused bool) {
	c.t.Helper()
	a, err := c.Call("tools/call", params)
	if err != nil {
		c.t.Fatalf("%s: %v; stderr: %s", params, err, c.Stderr())
	}
	return resultOf(c.t, a)
}

func resultOf(t *testing.T, a rawclient.Answer) (text string, refused bool) {
	t.Helper()
	var result struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(a.Result, &result); err != nil || len(result.Content) != 1 {
		t.Fatalf("no result: %v: %+v %.500s", err, a.Error, a.Result)
	}
	return result.Content[0].Text, result.IsError
}

// readsInside requires that the tools work as they should: a file is read, also through a link that stays inside, and a
// link that leads out is refused. dir is made by sandboxTree.
func (c client) readsInside() {
	c.t.Helper()
	for _, path := range []string{"sub/a.txt", "link.txt"} {
		if text, refused := c.tool(readParams(path)); refused || !strings.Contains(text, "inside text") {
			c.t.Errorf("%s: %s", path, text)
		}
	}
	for _, path := range []string{"out", "up/secret.txt", "../secret.txt"} {
		if text, refused := c.tool(readParams(path)); !refused || !strings.Contains(text, "MCP_ACCESS_DENIED") ||
			strings.Contains(text, "outside text") {
			c.t.Errorf("%s leads out: %s", path, text)
		}
	}
	text, refused := c.tool(metricsParams)
	if refused || !strings.Contains(text, `"total_bytes":`) || strings.Contains(text, `"total_bytes":null`) {
		c.t.Errorf("metrics: %s", text)
	}
}

// sandboxTree makes a folder with a file, and beside it one that must not be read though everybody may.
func sandboxTree(t *testing.T) (dir string) {
	t.Helper()
	above := stage.Dir(t)
	stage.File(t, above, "secret.txt", []byte("outside text"))
	stage.File(t, above, "data/sub/a.txt", []byte("inside text"))
	dir = filepath.Join(above, "data")
	for link, to := range map[string]string{"link.txt": "sub/a.txt", "out": "../secret.txt", "up": ".."} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// ownFilters is how many seccomp filters this process has, which every child inherits: a container runtime's.
func ownFilters(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(field(string(text), "Seccomp_filters"))
	if err != nil {
		t.Skipf("needs a kernel that counts filters (Linux 5.9): %v", err)
	}
	return n
}

// field is what a file like /proc/PID/status says after "name:", with single spaces; "" if there is no such line.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if head, value, _ := strings.Cut(line, ":"); head == name {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

// passageVariable makes this test binary a way to the daemon instead: it holds a passage, see TestMain.
const passageVariable = "LOCKDOWN_PASSAGE"

// passage is a way to the daemon that cannot be gone back: a process that does the steps, becomes the user, and then
// the program. Mounts happen in a mount namespace of their own.
type passage struct {
	Steps   [][]string
	UID     int
	Program string
	Args    []string // after the program's name
	Environ []string
	flags   uintptr // further namespaces
}

func (p passage) command(t *testing.T) *exec.Cmd {
	t.Helper()
	if !slices.ContainsFunc(p.Steps, func(s []string) bool { return slices.Equal(s, []string{"read-only", "/"}) }) {
		p.Environ = slices.Concat(stage.Coverage(), p.Environ)
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Dir = "/"
	cmd.Env = []string{passageVariable + "=" + string(text), "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | p.flags}
	return cmd
}

// inContainer makes the program process 1 of a PID namespace, as in a container.
func inContainer(p passage) passage {
	p.flags |= unix.CLONE_NEWPID
	return p
}

// take goes the way. It returns only if it cannot.
func (p passage) take() error {
	// Without it a mount in here would show outside.
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, s := range p.Steps {
		var err error
		switch s[0] {
		case "tmpfs":
			err = unix.Mount("tmpfs", s[1], "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755")
		case "read-only":
			err = unix.Mount("none", s[1], "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
		case "proc":
			err = unix.Mount("proc", s[1], "proc", 0, "")
		case "mqueue": // every user may write to it, as the kernel makes it
			err = unix.Mount("mqueue", s[1], "mqueue", 0, "")
		case "folder": // that every user may write to
			err = errors.Join(os.Mkdir(s[1], 0o700), os.Chmod(s[1], 0o777|os.ModeSticky))
		case "bind":
			err = unix.Mount(s[1], s[2], "", unix.MS_BIND|unix.MS_REC, "")
		case "unmount": // with all that is mounted below
			err = unix.Unmount(s[1], unix.MNT_DETACH)
		case "write":
			err = os.WriteFile(s[1], []byte(s[2]), 0o644)
		case "files": // may be open at once
			n, _ := strconv.ParseUint(s[1], 10, 64)
			err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n})
		case "personality":
			n, _ := strconv.ParseUint(s[1], 16, 32)
			if _, _, errno := unix.Syscall(unix.SYS_PERSONALITY, uintptr(n), 0, 0); errno != 0 {
				err = errno
			}
		case "enter":
			// Anew for each thread would be wrong: cgroup.procs takes the whole process.
			err = os.WriteFile(filepath.Join(s[1], "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o200)
		default:
			err = errors.New("no such step")
		}
		if err != nil {
			return fmt.Errorf("step %v: %w", s, err)
		}
	}
	if p.UID != 0 {
		if err := errors.Join(
			syscall.Setgroups(nil), syscall.Setresgid(p.UID, p.UID, p.UID), syscall.Setresuid(p.UID, p.UID, p.UID),
		); err != nil {
			return fmt.Errorf("become user %d: %w", p.UID, err)
		}
	}
	err := syscall.Exec(p.Program, append([]string{p.Program}, p.Args...), p.Environ)
	return fmt.Errorf("execute the program: %w", err)
}
