package workflows_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const digest = "GO_IMAGE=golang:1.26-bookworm@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n"

// tree makes a repository with one workflow and one builder image.
func tree(t *testing.T, workflow, builder string) string {
	t.Helper()
	dir := t.TempDir()
	for path, text := range map[string]string{".github/workflows/a.yml": workflow, "images/digests.env": builder} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// pin runs the script and returns its exit code and all that it printed.
func pin(t *testing.T, env []string, args ...string) (int, string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), filepath.Join(root, "scripts/pin-actions.sh"), args...)
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

func TestOnlyWhatIsPinnedPassesTheCheck(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	for _, c := range []struct {
		name, workflow, builder string
		code                    int
		why                     string
	}{
		{"all pinned", "      - uses: actions/checkout@" + commit + " # v6\n", digest, 0, "the form it asks for"},
		{"a workflow of ours", "    uses: ./.github/workflows/ci.yml\n", digest, 0, "it is in the same commit"},
		{"a path in a repository", "    uses: a/b/c@" + commit + " # v1.2.3\n", digest, 0, "the commit covers it"},
		{"a tag", "      - uses: actions/checkout@v6\n", digest, 1, "a tag can be moved"},
		{"a branch", "      - uses: actions/checkout@main\n", digest, 1, "a branch moves"},
		{"a short commit", "      - uses: actions/checkout@0123456 # v6\n", digest, 1, "another commit may begin so"},
		{"no comment", "      - uses: actions/checkout@" + commit + "\n", digest, 1, "nobody can tell what it is"},
		{"a tag in a comment's clothes", "      - uses: actions/checkout@v6 # " + commit + "\n", digest, 1, "only @ counts"},
		{"an image", "      - uses: docker://alpine:3\n", digest, 1, "a tag as well"},
		{"no dash", "        uses: actions/checkout@v6\n", digest, 1, "name: stands in front"},
		{"no digest", "", "GO_IMAGE=\n", 1, "the builder makes the program"},
		{"a tag for the builder", "", "GO_IMAGE=golang:1.26-bookworm\n", 1, "a tag can be moved"},
		{"half a digest", "", "GO_IMAGE=golang@sha256:0123\n", 1, "not one"},
	} {
		code, out := pin(t, nil, "--check", tree(t, c.workflow, c.builder))
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d (%s): %s", c.name, code, c.code, c.why, out)
		}
	}
	if code, _ := pin(t, nil, "--check", t.TempDir()); code != 2 {
		t.Errorf("a folder without workflows: exit code %d, want 2", code)
	}
}

// A real repository with a plain and an annotated tag stands where git is told that GitHub is.
func TestTagsBecomeTheCommitsTheyAre(t *testing.T) {
	away := t.TempDir()
	repo := filepath.Join(away, "actions/checkout")
	git := func(args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "git", append([]string{
			"-C", repo, "-c", "user.name=t", "-c", "user.email=t@example.org",
			"-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false",
		}, args...)...)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if err := os.MkdirAll(repo, 0o755); err != nil {
		t.Fatal(err)
	}
	git("init", "-q", "-b", "main")
	git("commit", "-q", "--allow-empty", "-m", "one")
	one := git("rev-parse", "HEAD")
	git("tag", "v6")
	git("commit", "-q", "--allow-empty", "-m", "two")
	two := git("rev-parse", "HEAD")
	git("tag", "-a", "v7.1", "-m", "annotated")
	git("commit", "-q", "--allow-empty", "-m", "three")
	git("branch", "v6") // a branch of the same name, which must not be what is taken
	env := []string{
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://" + away + "/.insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/",
	}

	pinned := "      - uses: a/b@" + strings.Repeat("1", 40) + " # v3\n"
	dir := tree(t, "steps:\n      - uses: actions/checkout@v6\n      - uses: actions/checkout@v7.1\n"+pinned+
		"        with: {ref: actions/checkout@v6}\n", digest)
	if code, out := pin(t, env, dir); code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	got, err := os.ReadFile(filepath.Join(dir, ".github/workflows/a.yml"))
	if err != nil {
		t.Fatal(err)
	}
	want := "steps:\n      - uses: actions/checkout@" + one + " # v6\n" +
		"      - uses: actions/checkout@" + two + " # v7.1\n" + pinned +
		"        with: {ref: actions/checkout@v6}\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if code, out := pin(t, env, "--check", dir); code != 0 {
		t.Errorf("what it pinned does not pass its own check: %s", out)
	}

	for name, line := range map[string]string{
		"no such tag":        "uses: actions/checkout@v9",
		"a branch":           "uses: actions/checkout@main",
		"no such repository": "uses: a/b@v1",
	} {
		dir := tree(t, line+"\n", digest)
		if code, out := pin(t, env, dir); code != 2 || !strings.Contains("\n"+out, "\npin-actions: ") {
			t.Errorf("%s: exit code %d: %s", name, code, out)
		}
		if text, err := os.ReadFile(filepath.Join(dir, ".github/workflows/a.yml")); err != nil || string(text) != line+"\n" {
			t.Errorf("%s: the file was changed to %q, %v", name, text, err)
		}
	}
}
