package lockdown_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcp-server-suite/pkg/landlock"
	"mcp-server-suite/pkg/rawclient"
	"mcp-server-suite/pkg/stage"
)

// Each ABI that this kernel can play: what it lacks is named, and the filter covers all of it. Files are read either way,
// with openat2 from ABI 3 on and by the walk before. That the kernels of these ABIs do the same is smoke-kernels' to show.
func TestEveryOlderABIIsCoveredByTheFilter(t *testing.T) {
	t.Parallel()
	kernel, err := landlock.ABI()
	if err != nil {
		t.Skipf("needs Landlock: %v", err)
	}
	dir := stage.Dir(t)
	stage.File(t, dir, "a.txt", []byte("hello"))
	for abi := 1; abi <= min(kernel, landlock.KnownABI); abi++ {
		t.Run(fmt.Sprint(abi), func(t *testing.T) {
			t.Parallel()
			c, err := rawclient.Start(stage.Daemon(t, stage.Options{
				Tags: withHoles, Env: []string{"MCP_SAFE_DATA_DIR=" + dir, fmt.Sprintf("MCP_TEST_ABI=%d", abi)},
			}))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			if _, err := c.Handshake("2025-11-25"); err != nil {
				t.Fatalf("%v: %s", err, c.Stderr())
			}
			for path, want := range map[string]string{"a.txt": `"content":"hello"`, "../a.txt": "OUTSIDE_SANDBOX"} {
				answer, err := c.Call("tools/call", `{"name":"sandbox_fs_read","arguments":{"relative_path":"`+path+`"}}`)
				if err != nil || !strings.Contains(strings.ReplaceAll(string(answer.Result), `\`, ""), want) {
					t.Errorf("%s: %v, %s", path, err, answer.Result)
				}
			}
			line := firstLine(t, c)
			var said struct {
				Posture struct {
					Level    string
					Landlock struct {
						ABI     int
						Missing []struct {
							Right     string
							CoveredBy string `json:"covered_by"`
						}
					}
					Seccomp struct{ Openat2 bool }
				}
			}
			if err := json.Unmarshal([]byte(line), &said); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			p := said.Posture
			if p.Level != "full" || p.Landlock.ABI != abi || p.Seccomp.Openat2 != (abi >= 3) {
				t.Errorf("%+v", p)
			}
			if len(p.Landlock.Missing) != len(landlock.Missing(abi)) || len(p.Landlock.Missing) == 0 {
				t.Errorf("%d rights are missing, %d are listed", len(landlock.Missing(abi)), len(p.Landlock.Missing))
			}
			for _, m := range p.Landlock.Missing {
				if m.CoveredBy != "seccomp" {
					t.Errorf("%s is covered by %s", m.Right, m.CoveredBy)
				}
			}
		})
	}
	// The control: without the filter the same rights are covered by nothing, and the level says so.
	code, stdout, stderr := finish(t, stage.Daemon(t, stage.Options{
		Tags: withHoles, Env: []string{"MCP_SECCOMP=off", "MCP_TEST_ABI=2"},
	}))
	if code != 0 || !strings.Contains(stderr, `{"right":"truncate","first_abi":3,"covered_by":"nothing"}`) ||
		!strings.Contains(stderr, `"level":"reduced"`) {
		t.Errorf("exit %d, %s, %s", code, stdout, stderr)
	}
}

// firstLine is the posture: the log is written beside the answers, so it may come a moment later.
func firstLine(t *testing.T, c *rawclient.Client) string {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(time.Millisecond) {
		if line, _, whole := strings.Cut(c.Stderr(), "\n"); whole {
			return line
		}
	}
	t.Fatal("it has logged nothing")
	return ""
}
