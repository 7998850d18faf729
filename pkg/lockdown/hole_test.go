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

// More threads than a daemon will have try every door and every denial at once.
func TestEightyThreadsAreAllDenied(t *testing.T) {
	t.Parallel()
	const threads = 80
	run := func(hole string) (int, string, string) {
		return plant(t, hole, "MCP_TEST_THREADS="+strconv.Itoa(threads))
	}
	code, stdout, stderr := run("none")
	if code != 0 || !strings.Contains(stdout, `"result"`) {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	for _, hole := range []string{"lockdown:domain", "lockdown:filter"} { // the controls
		if code, stdout, stderr := run(hole); code != 3 || stdout != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", hole, code, stdout, stderr)
		}
	}
}
