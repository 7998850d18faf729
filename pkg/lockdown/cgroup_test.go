package lockdown_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/lockdown"
	"mcp-server-suite/pkg/stage"
)

const cgroupRoot = "/sys/fs/cgroup"

// limit is a file of a control group and what to write to it, for each version of the hierarchy.
type limit struct {
	controller string
	v1, v2     [2]string // name and text
}

// group makes control groups with these limits, one for each controller in version 1 and one for all in version 2, and
// returns their folders. They are removed when the test ends, so that their processes must end before.
func group(t *testing.T, limits ...limit) (folders []string) {
	t.Helper()
	needRoot(t)
	name := fmt.Sprintf("mcp-lockdown-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))
	enter := func(folder string) {
		if slices.Contains(folders, folder) {
			return
		}
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Skipf("needs control groups that can be made: %v", err)
		}
		folders = append(folders, folder)
		t.Cleanup(func() { removeGroup(t, folder) })
	}
	set := func(folder string, file [2]string) {
		if err := os.WriteFile(filepath.Join(folder, file[0]), []byte(file[1]), 0o200); err != nil {
			t.Skipf("needs control groups that take limits: %v", err)
		}
	}
	if unified, err := os.ReadFile(cgroupRoot + "/cgroup.controllers"); err == nil {
		for _, l := range limits {
			if !slices.Contains(strings.Fields(string(unified)), l.controller) {
				t.Skipf("needs the controller %s in %s", l.controller, cgroupRoot)
			}
			passOn(t, l.controller)
		}
		folder := filepath.Join(cgroupRoot, name)
		enter(folder)
		for _, l := range limits {
			set(folder, l.v2)
		}
		return folders
	}
	for _, l := range limits {
		above := filepath.Join(cgroupRoot, l.controller)
		if _, err := os.Stat(filepath.Join(above, "cgroup.procs")); err != nil {
			t.Skipf("needs control groups: %v", err)
		}
		folder := filepath.Join(above, name)
		enter(folder)
		set(folder, l.v1)
	}
	return folders
}

// passOn lets groups below the root of version 2 have a controller, for as long as the test runs.
func passOn(t *testing.T, controller string) {
	t.Helper()
	const control = cgroupRoot + "/cgroup.subtree_control"
	has, err := os.ReadFile(control)
	if err != nil {
		t.Skipf("needs control groups: %v", err)
	}
	if slices.Contains(strings.Fields(string(has)), controller) {
		return
	}
	if err := os.WriteFile(control, []byte("+"+controller), 0o200); err != nil {
		t.Skipf("needs a root of control groups that passes on %s: %v", controller, err)
	}
	t.Cleanup(func() { _ = os.WriteFile(control, []byte("-"+controller), 0o200) }) // somebody else may use it by now
}

// removeGroup waits for the kernel to take the last process, which has been waited for, out of the group.
func removeGroup(t *testing.T, folder string) {
	var err error
	for range 100 {
		if err = os.Remove(folder); !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		t.Errorf("remove a control group: %v", err)
	}
}

// inGroup is the daemon inside of control groups.
func inGroup(t *testing.T, folders, args []string, env ...string) *exec.Cmd {
	t.Helper()
	p := passage{UID: stage.UserID, Program: stage.Binary(t, ""), Args: args, Environ: env}
	for _, folder := range folders {
		p.Steps = append(p.Steps, []string{"enter", folder})
	}
	return p.command(t)
}

var postureArgs = []string{"posture", "--json", "--probes"}

// Stage 2 can read the group's limits, but the runtime begins before anything is granted that it could find them by:
// stage 1 hands them on.
func TestTheLimitsOfTheControlGroupReachTheRuntime(t *testing.T) {
	t.Parallel()
	const memory = 64 << 20
	folders := group(
		t,
		limit{"memory", [2]string{"memory.limit_in_bytes", fmt.Sprint(memory)}, [2]string{"memory.max", fmt.Sprint(memory)}},
		limit{"cpu", [2]string{"cpu.cfs_quota_us", "100000"}, [2]string{"cpu.max", "100000 100000"}},
	)
	r := reportOf(t, inGroup(t, folders, postureArgs))
	if want := (lockdown.Cgroup{MemoryBytes: memory, CPUCores: 1}); r.Cgroup != want {
		t.Errorf("%+v, want %+v", r.Cgroup, want)
	}
	if want := int64(memory / 10 * 9); r.Process.MemoryLimit != want {
		t.Errorf("Go memory limit %d, want %d: nine tenths", r.Process.MemoryLimit, want)
	}
	// runtime.GOMAXPROCS: a quota is rounded up, and never to less than 2 where there are 2 cores.
	if want := min(runtime.NumCPU(), 2); r.Process.GOMAXPROCS != want {
		t.Errorf("GOMAXPROCS %d, want %d", r.Process.GOMAXPROCS, want)
	}
	stands := reportOf(t, inGroup(t, folders, postureArgs, "GOMAXPROCS=1", "GOMEMLIMIT=40MiB")).Process
	if stands.GOMAXPROCS != 1 || stands.MemoryLimit != 40<<20 {
		t.Errorf("the operator's own: %+v", stands)
	}
	dir := sandboxTree(t)
	c := converse(t, inGroup(t, folders, nil, "MCP_SAFE_DATA_DIR="+dir))
	c.readsInside()
	if text, _ := c.tool(metricsParams); !strings.Contains(text, fmt.Sprint(memory)) {
		t.Errorf("the metrics lack the limit: %s", text)
	}
	// The control: outside of the group there are no such limits.
	if free := postureIn(t); free.Cgroup.MemoryBytes == memory || free.Process.MemoryLimit != 128<<20 {
		t.Errorf("outside of the group: %+v, Go memory limit %d", free.Cgroup, free.Process.MemoryLimit)
	}
}

// A limit far above what the daemon means to use does not raise what it means to use.
func TestALargeControlGroupDoesNotRaiseTheMemoryLimit(t *testing.T) {
	t.Parallel()
	const memory = 1 << 30
	folders := group(
		t,
		limit{"memory", [2]string{"memory.limit_in_bytes", fmt.Sprint(memory)}, [2]string{"memory.max", fmt.Sprint(memory)}},
	)
	r := reportOf(t, inGroup(t, folders, postureArgs))
	if r.Cgroup.MemoryBytes != memory || r.Process.MemoryLimit != 128<<20 {
		t.Errorf("%+v, Go memory limit %d", r.Cgroup, r.Process.MemoryLimit)
	}
}

// pidsLimit is docker run --pids-limit 16.
var pidsLimit = limitOfTasks(16)

func limitOfTasks(n int) limit {
	file := [2]string{"pids.max", strconv.Itoa(n)}
	return limit{"pids", file, file}
}

// With fewer threads than the Go runtime needs the daemon would die in the middle of the work.
func TestFewerThanTwelveThreadsStopTheStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tasks  int
		serves bool
	}{{11, false}, {12, true}} {
		t.Run(strconv.Itoa(c.tasks), func(t *testing.T) {
			t.Parallel()
			cmd := inGroup(t, group(t, limitOfTasks(c.tasks)), nil, "GOMAXPROCS=2")
			cmd.Env = append(cmd.Env, "GOMAXPROCS=1") // the way there has to fit, too
			if e := toTheEnd(t, cmd); c.serves {
				e.serves(t)
			} else {
				e.refusesToServe(t, "limits: the control group allows 11 threads; allow 12 or more (docker run ")
			}
		})
	}
}

// Sixteen processes and threads are enough with as many calls at once as there may be.
func TestSixteenThreadsAreEnough(t *testing.T) {
	t.Parallel()
	folders := group(t, pidsLimit)
	dir := sandboxTree(t)
	stage.File(t, dir, "large.txt", bytes.Repeat([]byte("It is text.\n"), 1<<16))
	c := converse(t, inGroup(
		// An operator who asks for more processors than the group has threads for gets fewer.
		t, folders, nil, "GOMAXPROCS=64", "MCP_SAFE_DATA_DIR="+dir, "MCP_METRICS_CPU_SAMPLE_SECONDS=0.02",
		"MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS=60",
	))
	for range 4 {
		c.flood(repeated(2*calls, readParams("large.txt"), metricsParams, readParams("sub/a.txt"), metricsParams)...)()
	}
	t.Logf("%d threads at the end; %s", len(threadsOf(t, c.PID())), events(folders[0]))
	if err := c.CloseInput(); err != nil {
		t.Fatal(err)
	}
	if e, err := c.Wait(); err != nil || e.Code != 0 {
		t.Errorf("%+v, %v; stderr: %s", e, err, c.Stderr())
	}
	// The control: in the same group a program gets as many processes, and not one more.
	if said, err := family(t, folders, 15); err != nil {
		t.Errorf("a shell with 15 children: %v: %s", err, said)
	}
	if said, err := family(t, folders, 16); err == nil || !strings.Contains(strings.ToLower(said), "fork") {
		t.Errorf("a shell with 16 children: %v: %s", err, said)
	}
}

// family is a shell in control groups that has so many children at once.
func family(t *testing.T, folders []string, children int) (said string, err error) {
	t.Helper()
	// Each child reads until its input ends, which it does when the shell has closed the other end, or is gone.
	script := fmt.Sprintf(
		"i=0; while [ $i -lt %d ]; do cat <&3 4>&- >/dev/null 2>&1 & i=$((i+1)); done; exec 4>&-; wait", children,
	)
	p := passage{Program: "/bin/sh", Args: []string{"-c", script}, Environ: []string{"PATH=/usr/bin:/bin"}}
	for _, folder := range folders {
		p.Steps = append(p.Steps, []string{"enter", folder})
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := p.command(t)
	cmd.ExtraFiles = []*os.File{r, w}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := errors.Join(cmd.Start(), w.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	return out.String(), err
}

// Each read that waits for a disk keeps a thread (16 reads took 26 from a disk throttled to 100 kB/s), and a Go process
// that cannot make one aborts. So where the control group bounds the threads, the reads that wait are bounded, too.
func TestSixteenThreadsAreEnoughForASlowDisk(t *testing.T) {
	t.Parallel()
	dir := stage.Dir(t)
	var on unix.Stat_t
	if err := unix.Stat(dir, &on); err != nil {
		t.Fatal(err)
	}
	disk := fmt.Sprintf("%d:%d", unix.Major(on.Dev), unix.Minor(on.Dev))
	const perSecond = 100_000
	throttle := limit{
		"blkio",
		[2]string{"blkio.throttle.read_bps_device", fmt.Sprintf("%s %d", disk, perSecond)},
		[2]string{"io.max", fmt.Sprintf("%s rbps=%d", disk, perSecond)},
	}
	if _, err := os.Stat(cgroupRoot + "/cgroup.controllers"); err == nil {
		throttle.controller = "io"
	}
	folders := group(t, pidsLimit, throttle)
	// begin starts a daemon and asks it for files that nobody has read since they were written.
	begin := func(set string, environ ...string) (c client, params []string) {
		for i := range calls {
			name := fmt.Sprintf("%s-%d.txt", set, i)
			forget(t, stage.File(t, dir, name, bytes.Repeat([]byte("It is text.\n"), 2000)))
			// Without max_bytes: more would be more than the budget of reply bytes has room for at once.
			params = append(params, fmt.Sprintf(`{"name":"sandbox_fs_read","arguments":{"relative_path":%q}}`, name))
		}
		p := passage{
			UID: stage.UserID, Program: stage.Binary(t, withHoles),
			Environ: append(environ, "MCP_SAFE_DATA_DIR="+dir, "MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS=60"),
		}
		for _, folder := range folders {
			p.Steps = append(p.Steps, []string{"enter", folder})
		}
		return converse(t, p.command(t)), params
	}
	c, params := begin("bounded")
	begun := time.Now()
	c.flood(params...)()
	if took := time.Since(begun); took < time.Second {
		t.Skipf("needs a disk that can be made slow: %d reads took %v", calls, took)
	}
	if err := c.CloseInput(); err != nil {
		t.Fatal(err)
	}
	if e, err := c.Wait(); err != nil || e.Code != 0 {
		t.Errorf("%+v, %v; stderr: %s", e, err, c.Stderr())
	}
	c, params = begin("unbounded", "MCP_TEST_HOLE=lockdown:tasks") // the control: it does not know of the limit
	for i, p := range params {
		_ = c.Request(fmt.Sprint(i+1000), "tools/call", p) // it is about to die
	}
	if e, err := c.Wait(); err != nil || e.Code != 2 || !strings.Contains(c.Stderr(), "pthread_create failed") {
		t.Errorf("the control ended with %+v, %v, %s; stderr: %s", e, err, events(folders[0]), c.Stderr())
	}
}

// forget makes the kernel drop a file from the page cache.
func forget(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // read only
	if err := errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)); err != nil {
		t.Fatal(err)
	}
}

// events says how often the limit was met, and the most that there was at once.
func events(folder string) string {
	var all []string
	for _, name := range []string{"pids.events", "pids.peak"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		all = append(all, fmt.Sprintf("%s %q %v", name, text, err))
	}
	return strings.Join(all, ", ")
}

// The budget for answers follows the memory that there is. Control bytes are the worst: six times as long on the wire,
// and twice in an answer.
func TestALegalClientDoesNotExhaustASmallControlGroup(t *testing.T) {
	if os.Getenv(stage.CoverVariable) != "" {
		t.Skip("needs a daemon at its own speed: one that counts is slower than its deadlines here")
	}
	t.Parallel()
	const memory = 64 << 20
	folders := group(
		t,
		limit{"memory", [2]string{"memory.limit_in_bytes", fmt.Sprint(memory)}, [2]string{"memory.max", fmt.Sprint(memory)}},
	)
	dir := sandboxTree(t)
	stage.File(t, dir, "control.txt", bytes.Repeat([]byte{1}, 1<<20))
	c := converse(t, inGroup(t, folders, nil, "MCP_SAFE_DATA_DIR="+dir, "MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS=60"))
	for range 3 {
		c.flood(repeated(calls, readParams("control.txt"))...)()
	}
	if err := c.CloseInput(); err != nil {
		t.Fatal(err)
	}
	if e, err := c.Wait(); err != nil || e.Code != 0 {
		t.Errorf("%+v, %v; stderr: %s", e, err, c.Stderr())
	}
}
