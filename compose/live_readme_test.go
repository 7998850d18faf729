package compose_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The lines of the README that start a container, typed, but for the one that builds the image.
func TestLiveReadmeBlock(t *testing.T) {
	cli := docker(t)
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), blockBegin)
	block, _, _ := strings.Cut(rest, blockEnd)
	block = strings.NewReplacer("```sh\n", "", "```", "", "docker run", "'"+cli+"' run").Replace(block)
	build, rest, found := strings.Cut(strings.TrimSpace(block), "\n")
	if !found || build != "scripts/image.sh --tag "+image+" --load" {
		t.Fatalf("the block does not begin with the line that builds the image: %s", build)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euc", "umask 022\n"+rest)
	cmd.Dir = t.TempDir()
	for _, dir := range []string{cmd.Dir, cmd.Dir + "/.."} { // uid 10001 must be able to reach the data
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil || strings.Count(out.String(), "\n") != 2 ||
		!strings.Contains(out.String(), `"content":"hello from the sandbox\n"`) {
		t.Errorf("%v: stdout %q, stderr %s", err, out.String(), log.String())
	}
}
