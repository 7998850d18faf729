package lockdown_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"mcp-server-suite/pkg/stage"
)

// Both stages leave their counts behind, and the second does so from inside the lock-down.
func TestALockedProcessWritesItsCoverage(t *testing.T) {
	t.Parallel()
	dir := stage.Dir(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := finish(t, stage.Daemon(t, stage.Options{Tags: "lockdowncover", Env: []string{"GOCOVERDIR=" + dir}}))
	if code != 0 || !strings.Contains(stdout, `"result"`) {
		t.Fatalf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	report, err := exec.Command("go", "tool", "covdata", "func", "-i="+dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, report)
	}
	for _, of := range []string{`enter.go:\d+:\s+Plan.stage1`, `enter.go:\d+:\s+\*Confined.Seal`, `stdio.go:\d+:\s+\*Daemon.ServeStdio`} { // stage 1, stage 2, the session
		line := regexp.MustCompile(of + `\s+([0-9.]+)%`).FindSubmatch(report)
		if line == nil || string(line[1]) == "0.0" {
			t.Errorf("%s is not covered: %s", of, line)
		}
	}
}
