package lockdown_test

import (
	"bytes"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mcp-server-suite/pkg/landlock"
	"mcp-server-suite/pkg/seccomp"
	"mcp-server-suite/pkg/stage"
)

// withHoles is the build in which a hole can be planted (hole.go here, in landlock and in seccomp).
const withHoles = "lockdownhole"

// plant starts the daemon with one hole, and one request on its stdin.
func plant(t *testing.T, hole string, environ ...string) (code int, stdout, stderr string) {
	t.Helper()
	return finish(t, stage.Daemon(t, stage.Options{Tags: withHoles, Env: append(environ, "MCP_TEST_HOLE="+hole)}))
}

func finish(t *testing.T, cmd *exec.Cmd) (code int, stdout, stderr string) {
	t.Helper()
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), log.String()
}

// Every row of the two tables, and every step, is left out once. The daemon must notice by itself and not serve.
func TestEveryHoleThatIsPlantedIsFoundAtTheStart(t *testing.T) {
	abi, err := landlock.ABI()
	if err != nil {
		t.Skipf("needs Landlock: %v", err)
	}
	var holes []string
	for _, right := range landlock.Handled(min(abi, landlock.KnownABI)) {
		holes = append(holes, "landlock:"+right.Name)
	}
	for _, row := range seccomp.Table() {
		if row.Profile != seccomp.Base || len(row.Archs) > 0 && !slices.Contains(row.Archs, runtime.GOARCH) ||
			row.If != "" && row.If != seccomp.WithOpenat2 || // not in the filter of this run
			row.Action == seccomp.EPERM { // says why the default stands; without it the default stands
			continue
		}
		holes = append(holes, "seccomp:"+row.ID)
		if len(row.Args) > 0 {
			holes = append(holes, "seccomp-args:"+row.ID)
		}
	}
	holes = append(holes, "lockdown:domain", "lockdown:filter", "lockdown:dumpable")
	if len(holes) < 130 {
		t.Errorf("only %d holes: the tables have more rows", len(holes))
	}

	// Somebody whom the daemon could signal, without whom that right cannot be tried.
	somebody := stage.Daemon(t, stage.Options{})
	input, err := somebody.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := somebody.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = somebody.Wait() // it is not what is tested
	})

	t.Run("no hole", func(t *testing.T) { // the control
		if code, stdout, stderr := plant(t, "none"); code != 0 || !strings.Contains(stdout, `"result"`) {
			t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
		}
	})
	for _, hole := range holes {
		t.Run(hole, func(t *testing.T) {
			code, stdout, stderr := plant(t, hole)
			if code != 3 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "mcp-server-suite: hardening: ") {
				t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
			}
		})
	}
	t.Run("seccomp:openat2 absent", func(t *testing.T) {
		code, stdout, stderr := plant(t, "seccomp:openat2 absent", "MCP_LANDLOCK=off")
		if code != 3 || stdout != "" {
			t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
		}
	})
}

// Two guards that back each other up, and one thread among many: each is missed when it is the only one that can see the
// hole. What is found is asserted, and not only that something was.
func TestEachGuardFindsWhatOnlyItCanSee(t *testing.T) {
	t.Parallel()
	abi := needLandlock(t)
	for _, c := range []struct{ hole, says, why string }{
		{"none", "", "the control"},
		{"lockdown:filter", "seccomp: thread ", "the threads are counted before anything is tried"},
		{"lockdown:tsync", " filters, not ", "only the comparison of all threads is sure to see the others"},
		{"lockdown:hollow", " want EPERM from seccomp, got ", "every thread has a filter more; only trying shows it"},
		{"lockdown:hollow, probes", "", "the control: with nothing to try it, it passes"},
		{
			"lockdown:door elsewhere",
			"landlock: the domain does not hold after the re-exec: connect_tcp: want permission denied, got success",
			"the thread that asks would be content",
		},
		{"lockdown:denial elsewhere", "seccomp: planted on another thread", "the thread that asks would be content"},
	} {
		t.Run(c.hole, func(t *testing.T) {
			t.Parallel()
			if c.hole == "lockdown:door elsewhere" && abi < 4 {
				t.Skip("needs a Landlock that denies connections (ABI 4)")
			}
			e := toTheEnd(t, stage.Daemon(t, stage.Options{Tags: withHoles, Env: []string{"MCP_TEST_HOLE=" + c.hole}}))
			if c.says == "" {
				e.serves(t)
			} else {
				e.refusesToServe(t, c.says)
			}
		})
	}
}

// More threads than a daemon will have try every door and every denial at once, and what is open on one of them only is
// open: in the controls it is the eightieth.
func TestEightyThreadsAreAllDenied(t *testing.T) {
	t.Parallel()
	abi := needLandlock(t)
	const threads = 80
	run := func(hole string) ending {
		return toTheEnd(t, stage.Daemon(t, stage.Options{
			Tags: withHoles, Env: []string{"MCP_TEST_HOLE=" + hole, "MCP_TEST_THREADS=" + strconv.Itoa(threads)},
		}))
	}
	run("none").serves(t)
	run("lockdown:denial elsewhere").refusesToServe(t, "planted on another thread")
	if abi >= 4 {
		run("lockdown:door elsewhere").refusesToServe(t, "connect_tcp: want permission denied, got success")
	}
}
