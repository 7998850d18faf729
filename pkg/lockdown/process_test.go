package lockdown_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/stage"
)

// ofProcess reads a file in /proc/PID. The process must still run.
func ofProcess(t *testing.T, pid int, name string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// threadsOf reads the status of every thread from outside. A thread that ends meanwhile is left out.
func threadsOf(t *testing.T, pid int) map[string]string {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(filepath.Dir(file))] = string(text)
	}
	if len(all) == 0 {
		t.Fatalf("process %d has no threads", pid)
	}
	return all
}

const calls = 16 // as many as run at once by default

// flood sends calls that take a while and some that do not, and returns how to wait for all of their answers.
func (c client) flood(params ...string) (wait func()) {
	c.t.Helper()
	id := func(i int) string { return strconv.Itoa(i + 1000) }
	for i, p := range params {
		if err := c.Request(id(i), "tools/call", p); err != nil {
			c.t.Fatal(err)
		}
	}
	return func() {
		c.t.Helper()
		for i, p := range params {
			line, err := c.Await(id(i))
			if err != nil || !bytes.Contains(line, []byte(`"isError":false`)) {
				c.t.Fatalf("%s: %v: %.300s; stderr: %s", p, err, line, c.Stderr())
			}
		}
	}
}

func repeated(n int, params ...string) (all []string) {
	for i := range n {
		all = append(all, params[i%len(params)])
	}
	return all
}

// What the process says about itself proves little; this is what the kernel says about a daemon that is serving.
func TestEveryThreadOfAServingDaemonIsLocked(t *testing.T) {
	t.Parallel()
	needRoot(t)
	needLandlock(t)
	filters := ownFilters(t) + 1
	dir := sandboxTree(t)
	stage.File(t, dir, "large.txt", bytes.Repeat([]byte("It is text.\n"), 1<<16))
	c := converse(t, daemonWith(
		t, "MCP_SAFE_DATA_DIR="+dir, "MCP_METRICS_CPU_SAMPLE_SECONDS=2", "GOGC=10", // the collector never rests
		"MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS=60",
	))
	want := map[string]string{
		"Seccomp": "2", "Seccomp_filters": strconv.Itoa(filters), "NoNewPrivs": "1", "Groups": "", "Umask": "0077",
		"Uid": "10001 10001 10001 10001", "Gid": "10001 10001 10001 10001",
		"CapInh": none, "CapPrm": none, "CapEff": none, "CapAmb": none,
	}
	check := func(when string) int {
		all := threadsOf(t, c.PID())
		for id, text := range all {
			for name, value := range want {
				if got := field(text, name); got != value {
					t.Errorf("%s, thread %s of %d: %s %q, want %q", when, id, len(all), name, got, value)
				}
			}
		}
		return len(all)
	}
	idle := check("idle")
	c.flood(repeated(4*calls, readParams("large.txt"))...)()
	loaded := check("after load")
	wait := c.flood(repeated(calls, metricsParams)...) // each sleeps two seconds
	busy := check("in flight")
	wait()
	t.Logf("threads: %d idle, %d after load, %d with %d calls in flight", idle, loaded, busy, calls)
	if most := max(loaded, busy); idle > maxIdleThreads || most > maxThreads {
		t.Errorf("%d threads idle and %d later, want at most %d and %d", idle, most, maxIdleThreads, maxThreads)
	}
}

const (
	none = "0000000000000000" // an empty set of capabilities

	// Measured on two cores: 5 to 8 threads idle, 10 to 13 under this load, 26 when all 16 calls wait for a slow disk. A
	// read takes a thread while the disk works, so that the second bound is the first and one for each call.
	maxIdleThreads = 12
	maxThreads     = maxIdleThreads + calls
)

// The control of the test above: a process that is not locked is told from one that is.
func TestAnOrdinaryProcessIsSeenAsSuch(t *testing.T) {
	t.Parallel()
	filters := strconv.Itoa(ownFilters(t))
	sleep := startSleep(t)
	for id, text := range threadsOf(t, sleep.Process.Pid) {
		if got := field(text, "Seccomp_filters"); got != filters {
			t.Errorf("thread %s: %s filters, want %s", id, got, filters)
		}
		if os.Geteuid() == 0 && field(text, "CapEff") == none {
			t.Errorf("thread %s of root has no capabilities", id)
		}
	}
}

// startSleep starts a program that does nothing, with what add gives it.
func startSleep(t *testing.T, add ...func(*exec.Cmd)) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	for _, f := range add {
		f(cmd)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("needs the program sleep: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it cannot have ended
		_ = cmd.Wait()         // by the signal
	})
	return cmd
}

// limitsOf are the limits of a process, "soft hard unit" by their names in /proc/PID/limits.
func limitsOf(t *testing.T, pid int) map[string]string {
	t.Helper()
	limits := map[string]string{}
	for line := range strings.Lines(ofProcess(t, pid, "limits")) {
		// The name has single spaces in it; two or more separate the columns.
		if name, rest, found := strings.Cut(line, "  "); found {
			limits[name] = strings.Join(strings.Fields(rest), " ")
		}
	}
	return limits
}

func TestAServingDaemonLeavesNoDumpAndHasFewDescriptors(t *testing.T) {
	t.Parallel()
	needRoot(t)
	const most = 64 + 2056 // a call may hold the folders of a path of 4096 characters, and here there is one at a time
	var hard unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &hard); err != nil {
		t.Fatal(err)
	}
	if hard.Max <= most {
		t.Skipf("needs a limit of open files (ulimit -Hn) that can be lowered to %d; it is %d", most, hard.Max)
	}
	c := converse(t, daemonWith(t, "MCP_MAX_CONCURRENT_TOOLS=1"))
	limits := limitsOf(t, c.PID())
	for name, want := range map[string]string{
		"Max core file size": "0 0 bytes",
		"Max open files":     fmt.Sprintf("%d %d files", most, most),
	} {
		if limits[name] != want {
			t.Errorf("%s: %q, want %q", name, limits[name], want)
		}
	}
	// Not dumpable: nobody of the same user may look at its memory or trace it (ptrace(2)), and its files are root's.
	info, err := os.Stat(fmt.Sprintf("/proc/%d/environ", c.PID()))
	if err != nil {
		t.Fatal(err)
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || owner.Uid != 0 {
		t.Errorf("environ belongs to %+v", info.Sys())
	}
	cmd := exec.Command("cat", fmt.Sprintf("/proc/%d/environ", c.PID()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stage.UserID, Gid: stage.UserID}}
	if out, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("Permission denied")) {
		t.Errorf("the same user reads its environment: %v: %s", err, out)
	}
}

func TestAServingDaemonIsFoundByItsName(t *testing.T) {
	t.Parallel()
	needRoot(t)
	c := converse(t, daemonWith(t))
	if comm := ofProcess(t, c.PID(), "comm"); comm != "mcp-server-suit\n" { // 15 bytes is all there is room for
		t.Errorf("comm %q", comm)
	}
	if line := ofProcess(t, c.PID(), "cmdline"); !strings.HasPrefix(line, "mcp-server-suite\x00") {
		t.Errorf("cmdline %q", line)
	}
}

// What a container runtime sends to end it.
func TestASignalToEndIsHeardWhenLocked(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		c := converse(t, daemonWith(t))
		if err := c.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if e, err := c.Wait(); err != nil || e.Code != 0 {
			t.Errorf("%v: %+v, %v; stderr: %s", signal, e, err, c.Stderr())
		}
	}
}
