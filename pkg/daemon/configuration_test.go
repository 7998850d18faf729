package daemon_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"mcp-server-suite/pkg/stage"
)

// run runs the shipped daemon with a closed input to its end.
func run(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := stage.Daemon(t, stage.Options{Env: env, Args: args})
	var out, log strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = waitFor(cmd) // a code other than 0 is an error too
	return cmd.ProcessState.ExitCode(), out.String(), log.String()
}

func TestEveryFaultOfTheConfigurationIsListedAtOnce(t *testing.T) {
	t.Parallel()
	faulty := []string{
		"MCP_SQL_DSN=mysql://u:secret@h/d",
		"MCP_SQL_DSN_FILE=relative/path",
		"MCP_SQL_CONNECT_TIMEOUT=0",
		"MCP_SQL_QUERY_TIMEOUT=10s",
		"MCP_SQL_POOL_MAX_SIZE=33",
		"MCP_SQL_APPLICATION_NAME=has space",
		"MCP_SQL_SEARCH_PATH=a,,b",
		"MCP_SQL_POOLER=session",
		"MCP_SQL_MAX_RESULT_BYTES=999",
		"MCP_SQL_MAX_COST=-1",
		"MCP_SQL_RECURSIVE=maybe",
		"MCP_SQL_ALLOW_FUNCTIONS=a(",
		"MCP_SQL_ALLOW_TYPES=,",
		"MCP_SQL_ALLOW_RELATIONS=a.t(b",
		"MCP_SQL_ALLOW_PLAINTEXT=,",
		"MCP_SQL_ALLOW_UNSAFE_ROLE=maybe",
		"MCP_SAFE_DATA_DIR=relative/path",
		"MCP_METRICS_ENABLED=maybe",
		"MCP_METRICS_CPU_SAMPLE_SECONDS=2.5",
		"MCP_METRICS_DISK_PATH=disk",
		"MCP_MAX_CONCURRENT_TOOLS=0",
		"MCP_MAX_WAITING_CALLS=-1",
		"MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS=10s",
		"MCP_TOOL_TIMEOUT_SECONDS=1e9",
		"MCP_MAX_ARGUMENT_DEPTH=10 ",
		"MCP_MAX_ARGUMENT_ITEMS=1000000000",
		"MCP_ERROR_ECHO=full",
		"MCP_SERVER_NAME=has space",
		"MCP_SERVER_SUITE_LOG_LEVEL=LOUD",
		"MCP_LANDLOCK=on",
		"MCP_LANDLOCK_MIN_ABI=0",
		"MCP_SECCOMP=if-available", // there is no such thing
		"MCP_ALLOW_PRIVILEGED=maybe",
		"MCP_SAFE_DATADIR=/tmp", // misspelt
	}
	code, stdout, stderr := run(t, faulty)
	if code != 2 || stdout != "" {
		t.Errorf("exit %d, stdout %q", code, stdout)
	}
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	if len(lines) != len(faulty) {
		t.Errorf("%d lines for %d faults:\n%s", len(lines), len(faulty), stderr)
	}
	for _, setting := range faulty {
		name, _, _ := strings.Cut(setting, "=")
		at := 0
		for at < len(lines) && !strings.Contains(lines[at], " "+name+":") {
			at++
		}
		switch {
		case at == len(lines):
			t.Errorf("%s is not listed", name)
		case name == "MCP_SAFE_DATADIR":
			if !strings.Contains(lines[at], "MCP_SAFE_DATA_DIR") {
				t.Errorf("no hint: %s", lines[at])
			}
		case !strings.Contains(lines[at], "allowed: ") || !strings.Contains(lines[at], "for example: "):
			t.Errorf("no bound, or no example: %s", lines[at])
		}
	}
}

// The control, and one fault after the other: each alone stops the start.
func TestOneFaultIsEnoughToStopTheStart(t *testing.T) {
	t.Parallel()
	dir := stage.Dir(t)
	file := stage.File(t, dir, "a.txt", nil)
	closed := stage.Dir(t)
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]int{
		"":                                      0,
		"MCP_SAFE_DATA_DIR=" + dir:              0,
		"MCP_SAFE_DATA_DIR=":                    0,
		"MCP_SAFE_DATA_DIR=" + file:             2,
		"MCP_SAFE_DATA_DIR=" + dir + "/missing": 2,
		"MCP_METRICS_DISK_PATH=" + dir + "/missing":                  0, // it may be mounted later; each answer says so
		"MCP_MAX_CONCURRENT_TOOLS=":                                  2,
		"MCP_TOOL_TIMEOUT_SECONDS=0":                                 2,
		"MCP_TOOL_TIMEOUT_SECONDS=600.000000001":                     2,
		"MCP_TOOL_TIMEOUT_SECONDS=600":                               0,
		"MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS=0":                         0,
		"MCP_MAX_CONCURENT_TOOLS=4":                                  2, // a misspelt bound must not be no bound
		"MCP_SQL_DSN=postgres://u:secret@localhost/":                 0, // nobody is there yet
		"MCP_SQL_DSN=postgres://u:secret@h/?options=secret":          2,
		"MCP_SQL_DSN=postgres://u:secret@h/?sslmode=disable":         2,
		"MCP_SQL_DSN=postgres://u:secret@h/?sslrootcert=/secret":     2,
		"MCP_SQL_DSN=postgres://u:secret@/?host=" + dir:              0,
		"MCP_SQL_DSN=postgres://u:secret@/?host=" + dir + "/missing": 2,
		"MCP_SQL_DSN_FILE=" + dir + "/missing":                       2,
		"MCP_SQL_DSN_FILE=" + file:                                   2,
		"MCP_SQL_ALLOW_FUNCTIONS=f":                                  0, // without a database it does not count
		"mcp_safe_data_dir=" + dir:                                   2,
		"MCPX_SOMETHING=1":                                           0,
		"OTHER_MCP_SAFE_DATA_DIR=" + dir:                             0,
	} {
		code, stdout, stderr := run(t, []string{setting})
		if code != want || stdout != "" || (want == 2) != strings.HasPrefix(stderr, "mcp-server-suite: ") {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", setting, code, stdout, stderr)
		}
		if strings.Contains(stderr, "secret") {
			t.Errorf("%q: stderr %q", setting, stderr)
		}
	}
}

func TestWhatSubcommandsPromise(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args           string
		code           int
		stdout, stderr string // parts; "" means that nothing is written there
	}{
		{"--help", 0, "Usage: mcp-server-suite", ""},
		{"-h", 0, "MCP_SAFE_DATA_DIR", ""},
		{"help", 0, "Usage: mcp-server-suite", ""},
		{"serve --help", 0, "Usage: mcp-server-suite", ""},
		{"--version", 0, "mcp-server-suite " + stage.Version, ""},
		{"version", 0, "mcp-server-suite " + stage.Version, ""},
		{"version --json", 0, `"version":"` + stage.Version + `"`, ""},
		{"serve", 0, "", `"msg":"posture"`},
		{"posture", 0, `{"level":"full",`, ""},
		{"posture --json", 0, `{"level":"full",`, ""},
		{"posture --text", 0, "level        full", ""},
		{"posture --help", 0, "Usage: mcp-server-suite posture", ""},
		{"posture --EVIL", 2, "", "posture takes"},
		{"posture --kill", 2, "", "execve"},
		{"posture --kill EVIL", 2, "", "execve"},
		{"version --xml", 2, "", "version takes"},
		{"serve /etc/passwd", 2, "", "serve takes no arguments"},
		{"no-such-EVIL", 2, "", "unknown subcommand"},
		{"--EVIL", 2, "", "unknown subcommand"},
	} {
		code, stdout, stderr := run(t, nil, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) ||
			(c.stdout == "") != (stdout == "") || (c.stderr == "") != (stderr == "") {
			t.Errorf("%s: exit %d, stdout %.200q, stderr %.200q", c.args, code, stdout, stderr)
		}
		if strings.Contains(stderr, "EVIL") || strings.Contains(stderr, "passwd") {
			t.Errorf("%s: stderr repeats the argument: %s", c.args, stderr)
		}
		if c.args == "version --json" {
			var v map[string]string
			if err := json.Unmarshal([]byte(stdout), &v); err != nil || v["name"] != "mcp-server-suite" || v["go"] == "" {
				t.Errorf("%v: %s", err, stdout)
			}
		}
	}
}
