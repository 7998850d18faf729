package stage

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheTagForCoverageIsAddedOnce(t *testing.T) {
	t.Parallel()
	for tags, want := range map[string]string{
		"": coverTag, "wiretest": "wiretest," + coverTag, coverTag: coverTag, coverTag + ",wiretest": coverTag + ",wiretest",
		"wiretest,lockdownhole": "wiretest,lockdownhole," + coverTag,
	} {
		if got := covering(tags); got != want {
			t.Errorf("%q: %q, want %q", tags, got, want)
		}
	}
}

// Both stages write, and a session says on stderr what it says without coverage.
func TestADaemonForCoverageCountsAndSaysNothingOfIt(t *testing.T) {
	dir := Dir(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv(CoverVariable, dir)
	path := filepath.Join(Dir(t), "daemon")
	if err := goBuild(path, ""); err != nil {
		t.Fatal(err)
	}
	ask := func(environ ...string) {
		t.Helper()
		cmd := Daemon(t, Options{Tags: "for its environment and user"})
		cmd.Path, cmd.Args = path, []string{path}
		cmd.Env = append(cmd.Env, environ...)
		cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		var log strings.Builder
		cmd.Stderr = &log
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), `"result"`) || strings.Contains(log.String(), "coverage") ||
			strings.Contains(log.String(), "GOCOVERDIR") {
			t.Errorf("%v, %s, %s", err, out, log.String())
		}
	}
	count := func() int {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(dir, "covcounters.*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	t.Setenv(BinariesVariable, Dir(t)) // so that Daemon does not build one
	folder := os.Getenv(BinariesVariable)
	if err := os.Symlink(path, filepath.Join(folder, "mcp-server-suite-for its environment and user")); err != nil {
		t.Fatal(err)
	}
	ask()
	if n := count(); n != 2 {
		t.Errorf("%d files of counters, want one for each stage", n)
	}
	report, err := exec.Command("go", "tool", "covdata", "percent", "-i="+dir).CombinedOutput()
	if err != nil || !strings.Contains(string(report), "mcp-server-suite/pkg/mcpserve") {
		t.Errorf("%v: %s", err, report)
	}
	ask("GOCOVERDIR=") // nothing to write to is nothing to complain of
	if n := count(); n != 2 {
		t.Errorf("%d files of counters without a folder for them", n)
	}
}

func TestWithoutTheVariableNothingIsCounted(t *testing.T) {
	t.Setenv(CoverVariable, "")
	if got := Coverage(); got != nil {
		t.Error(got)
	}
	t.Setenv(CoverVariable, "/folder")
	if got := Coverage(); len(got) != 1 || got[0] != "GOCOVERDIR=/folder" {
		t.Error(got)
	}
}

// A Go release with other words must not end in tests of stderr that fail for no visible reason.
func TestWordsOfGoThatAreNotThereAreReported(t *testing.T) {
	if overlay, err := silence(t.TempDir()); overlay != "" || !errors.Is(err, fs.ErrExist) {
		t.Errorf("a folder that is there: %q, %v", overlay, err)
	}
	root := t.TempDir()
	t.Setenv("GOROOT", root)
	t.Setenv("GOTOOLCHAIN", "local")
	overlay, err := silence(filepath.Join(t.TempDir(), "a"))
	if overlay != "" || err == nil || !strings.HasPrefix(err.Error(), "read the source") {
		t.Errorf("no source: %q, %v", overlay, err)
	}
	File(t, root, complaintsFile, []byte("package cfile\n\nfunc init() { println(`warning: other words`) }\n"))
	overlay, err = silence(filepath.Join(t.TempDir(), "a"))
	if overlay != "" || err == nil || !strings.Contains(err.Error(), "in other words") {
		t.Errorf("other words: %q, %v", overlay, err)
	}
	File(t, root, complaintsFile, []byte(strings.Join(complaints(), "\n"))) // the control
	if overlay, err := silence(filepath.Join(t.TempDir(), "a")); overlay == "" || err != nil {
		t.Errorf("the words: %q, %v", overlay, err)
	}
}

func TestABuildThatFailsShowsWhatTheCompilerSaid(t *testing.T) {
	t.Setenv("GO", "/no/such/go")
	if err := goBuild(filepath.Join(t.TempDir(), "x"), ""); err == nil || !strings.Contains(err.Error(), "/no/such/go") {
		t.Error(err)
	}
}
