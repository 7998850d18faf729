package stage

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) { Main(m) }

func TestTheDaemonIsBuiltOnceAndStatic(t *testing.T) {
	t.Parallel()
	path := Binary(t, "")
	if again := Binary(t, ""); again != path {
		t.Errorf("built twice: %s and %s", path, again)
	}
	binary, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = binary.Close() }()
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the binary needs a dynamic loader")
		}
	}
}

func TestTagsGiveAnotherBinary(t *testing.T) {
	t.Parallel()
	const list = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"t","version":"1"}}}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/list"}` + "\n"
	for tags, want := range map[string]bool{"": false, "wiretest": true} {
		cmd := Daemon(t, Options{Tags: tags})
		cmd.Stdin = strings.NewReader(list)
		out, err := cmd.Output()
		if err != nil || strings.Contains(string(out), `"name":"rows"`) != want || !strings.Contains(string(out), Version) {
			t.Errorf("tags %q: %v, %s", tags, err, out)
		}
	}
}

func TestTheDaemonGetsNothingFromOurEnvironment(t *testing.T) {
	const fault = "MCP_MAX_CONCURRENT_TOOLS=nonsense"
	name, value, _ := strings.Cut(fault, "=")
	t.Setenv(name, value)
	if out, err := Daemon(t, Options{}).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := Daemon(t, Options{Env: []string{fault}}).CombinedOutput(); err == nil { // the control
		t.Errorf("the given environment does not reach it: %s", out)
	}
}

func TestABuiltDaemonIsTakenWhereAFolderOfThemIsNamed(t *testing.T) {
	built, dir := Binary(t, ""), Dir(t)
	t.Setenv(BinariesVariable, dir)
	for tags, name := range map[string]string{
		"": "mcp-server-suite", "wiretest": "mcp-server-suite-wiretest", "a,b": "mcp-server-suite-a-b",
	} {
		if path, err := prebuilt(dir, tags); err == nil { // not built instead: that would be another daemon
			t.Errorf("%q: %s is said to be there", tags, path)
		}
		if err := os.Symlink(built, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if path := Binary(t, tags); path != filepath.Join(dir, name) {
			t.Errorf("%q: %s", tags, path)
		}
		if out, err := Daemon(t, Options{Tags: tags, Args: []string{"version"}}).Output(); err != nil ||
			!strings.Contains(string(out), Version) {
			t.Errorf("%q: %v, %s", tags, err, out)
		}
	}
}

func TestTheStagesOwnEnvironmentComesFirst(t *testing.T) {
	const fault, more, sound = "MCP_MAX_CONCURRENT_TOOLS=nonsense", "MCP_ERROR_ECHO=nonsense", "MCP_MAX_CONCURRENT_TOOLS=1"
	t.Setenv(EnvironmentVariable, " "+fault+"  "+more)
	out, err := Daemon(t, Options{}).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "MCP_MAX_CONCURRENT_TOOLS") || !strings.Contains(string(out), "MCP_ERROR_ECHO") {
		t.Errorf("%v: %s", err, out)
	}
	t.Setenv(EnvironmentVariable, fault)
	if out, err := Daemon(t, Options{Env: []string{sound}}).CombinedOutput(); err != nil {
		t.Errorf("the test's own value did not win: %v, %s", err, out)
	}
}

func TestAnotherUserReadsWhatIsStaged(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root can become another user")
	}
	dir := Dir(t)
	path := File(t, dir, "a/b/c.txt", []byte("hello"))
	as := func(args ...string) (string, error) {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: UserID, Gid: UserID}}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := as("/bin/cat", path); err != nil || out != "hello" {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := as("/bin/ls", filepath.Join(dir, "a")); err != nil || out != "b\n" {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := as(Binary(t, ""), "version"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	private := filepath.Join(t.TempDir(), "x") // the control
	if err := os.WriteFile(private, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := as("/bin/cat", private); err == nil {
		t.Errorf("t.TempDir would have done: %s", out)
	}
}

func TestAFolderGoesWithItsTest(t *testing.T) {
	t.Parallel()
	var dir string
	t.Run("with a folder", func(t *testing.T) { dir = Dir(t) })
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", dir, err)
	}
}

func TestATemporaryFolderThatOthersMayNotPassIsReported(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: without it nobody else is meant to pass")
	}
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", closed)
	if dir, err := worldReadable("x"); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("%s, %v", dir, err)
	}
}
