package command_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"mcp-server-suite/pkg/command"
	"mcp-server-suite/pkg/config"
	"mcp-server-suite/pkg/stage"
)

func TestMain(m *testing.M) { stage.Main(m) }

// locked runs the shipped daemon: serving takes rights away from the process, for good, so it has to be another one.
func locked(t *testing.T, stdin string, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := stage.Daemon(t, stage.Options{Args: args, Env: environ})
	var out, log bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &log
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), log.String()
}

// run calls what main calls, with streams that are kept. Not for what serves.
func run(stdin string, environ []string, args ...string) (code int, stdout, stderr string) {
	var out, log bytes.Buffer
	code = command.Main(command.Process{
		Args: args, Environ: environ, Version: `1.2.3-"x"`, Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &log,
	})
	return code, out.String(), log.String()
}

func TestWithoutASubcommandASessionIsServed(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"serve"}} {
		code, stdout, stderr := locked(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, nil, args...)
		if code != command.ExitDone || stdout != `{"jsonrpc":"2.0","id":1,"result":{}}`+"\n" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestAWrongCommandLineIsOneLineAndExitTwo(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"EVIL", "--EVIL", "-v", "SERVE", "serve EVIL", "serve --", "version EVIL", "version --json EVIL", ""} {
		args := strings.Fields(line)
		if line == "" {
			args = []string{""}
		}
		code, stdout, stderr := run("", nil, args...)
		if code != command.ExitConfig || stdout != "" || strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "EVIL") ||
			!strings.HasPrefix(stderr, "mcp-server-suite: ") {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", line, code, stdout, stderr)
		}
	}
}

func TestFaultsOfTheConfigurationAreListedOnStderr(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := run(`{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		[]string{"MCP_ERROR_ECHO=x", "MCP_SAFE_DATA_DIR=x", "MCP_MAX_CONCURENT_TOOLS=1"})
	if code != command.ExitConfig || stdout != "" || strings.Count(stderr, "\n") != 3 {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "mcp-server-suite: MCP_") {
			t.Errorf("%q", line)
		}
	}
}

func TestVersionIsReadByPrograms(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := run("", nil, "version", "--json")
	var v struct{ Name, Version, Go string }
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != 0 || stderr != "" ||
		v.Name != "mcp-server-suite" || v.Version != `1.2.3-"x"` || !strings.HasPrefix(v.Go, "go1.") {
		t.Errorf("exit %d, %v, %+v: %s%s", code, err, v, stdout, stderr)
	}
	for _, arg := range []string{"version", "--version"} {
		if code, stdout, _ := run("", nil, arg); code != 0 || !strings.Contains(stdout, `1.2.3-"x"`) || strings.Count(stdout, "\n") != 1 {
			t.Errorf("%s: exit %d, %q", arg, code, stdout)
		}
	}
}

func TestHelpNamesEverySettingAndFitsATerminal(t *testing.T) {
	t.Parallel()
	want := ""
	for _, args := range [][]string{{"help"}, {"--help"}, {"-h"}, {"serve", "--help"}, {"version", "-h"}, {"help", "--help"}} {
		code, stdout, stderr := run("", nil, args...)
		if want == "" {
			want = stdout
		}
		if code != 0 || stderr != "" || stdout != want {
			t.Errorf("%v: exit %d, stderr %q, %d bytes", args, code, stderr, len(stdout))
		}
	}
	for _, s := range config.Settings() {
		if !strings.Contains(want, s.Name) {
			t.Errorf("%s is missing", s.Name)
		}
	}
	for _, word := range []string{"serve", "posture", "version", "help", "Exit codes"} {
		if !strings.Contains(want, word) {
			t.Errorf("%q is missing", word)
		}
	}
	for line := range strings.Lines(want) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) > 110 {
			t.Errorf("%d columns: %s", len(line), line)
		}
		for _, r := range line {
			if r < ' ' || r > '~' {
				t.Errorf("%q in: %s", r, line)
			}
		}
	}
}

// The one-liner that the help shows must do what it says.
func TestTheExampleInTheHelpWorks(t *testing.T) {
	t.Parallel()
	_, help, _ := run("", nil, "help")
	_, rest, found := strings.Cut(help, `printf '%s\n' '`)
	request, rest, closed := strings.Cut(rest, `'`)
	if !found || !closed || !strings.HasPrefix(rest, " | mcp-server-suite\n") {
		t.Fatalf("no example in: %s", help)
	}
	if code, stdout, _ := locked(t, request+"\n", nil); code != 0 || !strings.Contains(stdout, `"result"`) {
		t.Errorf("exit %d, %s", code, stdout)
	}
}

// What the check of the settings saw may be gone when it is opened.
func TestADirectoryThatCannotBeOpenedNamesItsVariable(t *testing.T) {
	t.Parallel()
	dir := stage.Dir(t)
	if code, _, stderr := locked(t, "", []string{"MCP_SAFE_DATA_DIR=" + dir}); code != 0 { // the control
		t.Errorf("exit %d, %s", code, stderr)
	}
	code, stdout, stderr := locked(t, "", []string{"MCP_SAFE_DATA_DIR=" + dir + "/gone"})
	if code != command.ExitConfig || stdout != "" || !strings.Contains(stderr, "MCP_SAFE_DATA_DIR") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestANameThatIsNoSettingIsSaidOnceAndItsValueNever(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"posture"}} {
		code, _, stderr := locked(t, "", []string{"MCP_SQL_ALLOW_TABLES=SECRET"}, args...)
		if code != 0 || strings.Count(stderr, "MCP_SQL_ALLOW_TABLES") != 1 || strings.Contains(stderr, "SECRET") {
			t.Errorf("%v: exit %d, stderr %s", args, code, stderr)
		}
	}
}

func TestALevelCanBeRequired(t *testing.T) {
	t.Parallel()
	off := []string{"MCP_LANDLOCK=off", "MCP_SECCOMP=off"}
	for _, c := range []struct {
		environ []string
		level   string
		code    int
	}{
		{nil, "full", 0},
		{nil, "reduced", 0},
		{off[:1], "full", 1},
		{off[:1], "reduced", 0},
		{off, "reduced", 1},
		{nil, "none", 2},
	} {
		code, stdout, stderr := locked(t, "", c.environ, "posture", "--require", c.level)
		if code != c.code || (code == 2) != (stdout == "") || (code != 0) != (stderr != "") {
			t.Errorf("%v, %s: exit %d, stdout %s, stderr %s", c.environ, c.level, code, stdout, stderr)
		}
	}
}
