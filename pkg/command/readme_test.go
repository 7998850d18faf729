package command_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"mcp-server-suite/pkg/stage"
)

// The lines that the README tells a newcomer to type, typed: as another user, in a folder of that user's, with the
// program that is built already.
func TestTheReadmesExampleWorks(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	const fence = "```"
	_, rest, found := strings.Cut(string(readme), fence+"sh\nmake build\n")
	block, _, closed := strings.Cut(rest, fence)
	if !found || !closed || strings.Count(block, "bin/mcp-server-suite") != 1 {
		t.Fatal("README.md has no block that begins with make build and starts the daemon once")
	}
	dir := stage.Dir(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	script := "cd " + dir + "\n" + strings.ReplaceAll(block, "bin/mcp-server-suite", stage.Binary(t, ""))
	cmd := exec.Command("bash", "-euc", script)
	user := stage.Daemon(t, stage.Options{})
	cmd.Env, cmd.Dir, cmd.SysProcAttr = user.Env, user.Dir, user.SysProcAttr
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, log.String())
	}
	if strings.Count(out.String(), "\n") != 2 || !strings.Contains(out.String(), `"content":"hello from the sandbox\n"`) {
		t.Errorf("stdout %s, stderr %s", out.String(), log.String())
	}
}
