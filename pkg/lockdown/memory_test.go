package lockdown_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"mcp-server-suite/pkg/rawclient"
	"mcp-server-suite/pkg/stage"
)

// dropCaches makes the kernel forget names and inodes that nobody holds, as it does when memory runs short.
func dropCaches(t *testing.T) {
	t.Helper()
	for range 3 {
		if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0o200); err != nil {
			t.Skipf("needs /proc/sys/vm/drop_caches: %v", err)
		}
	}
}

// figuresAfterPressure asks a daemon for the host's figures before and after the caches are dropped, and returns the
// figures of /proc that were missing each time.
func figuresAfterPressure(t *testing.T, hole string) (before, after []string) {
	t.Helper()
	// A mount of /proc of its own: every daemon that runs beside this one pins the inodes of the common one.
	cmd := exec.Command("unshare", "--mount", "sh", "-c", `mount -t proc proc /proc && exec setpriv --reuid "$1" --regid "$1" `+
		`--clear-groups --inh-caps=-all "$2"`, "sh", strconv.Itoa(stage.UserID), stage.Binary(t, withHoles))
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "MCP_TEST_HOLE=" + hole, "MCP_METRICS_CPU_SAMPLE_SECONDS=0.02"}
	c, err := rawclient.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, err := c.Handshake("2025-11-25"); err != nil {
		t.Fatalf("%v: %s", err, c.Stderr())
	}
	missing := func() (names []string) {
		answer, err := c.Call("tools/call", `{"name":"system_metrics","arguments":{}}`)
		if err != nil {
			t.Fatal(err)
		}
		var result struct {
			StructuredContent struct {
				Unavailable []struct{ Figure, Reason string }
			}
		}
		if err := json.Unmarshal(answer.Result, &result); err != nil {
			t.Fatal(err)
		}
		for _, u := range result.StructuredContent.Unavailable {
			if strings.HasPrefix(u.Figure, "cpu.") || strings.HasPrefix(u.Figure, "memory.") {
				names = append(names, u.Figure+": "+u.Reason)
			}
		}
		return names
	}
	before = missing()
	dropCaches(t)
	return before, missing()
}

// A rule on a file of /proc is tied to an inode that the kernel makes anew when it has dropped the old one.
func TestFiguresSurviveMemoryPressure(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: to mount, and to make the kernel drop its caches")
	}
	before, after := figuresAfterPressure(t, "none")
	if len(before)+len(after) > 0 {
		t.Errorf("missing before: %v, after: %v", before, after)
	}
	before, after = figuresAfterPressure(t, "lockdown:pins")
	if len(before) > 0 {
		t.Errorf("the control misses %v from the start", before)
	}
	if len(after) == 0 {
		t.Error("the control: without the pinned descriptors every figure is still there, so nothing was put under pressure")
	}
}
