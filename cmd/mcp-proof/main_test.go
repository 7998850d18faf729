package main

import (
	"bytes"
	"strings"
	"testing"
)

func start(args ...string) (code int, stdout, stderr string) {
	var out, complaints bytes.Buffer
	code = run(process{args: args, stdin: strings.NewReader(""), stdout: &out, stderr: &complaints})
	return code, out.String(), complaints.String()
}

func TestHelpNamesEverySubcommand(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"help"}, {"-h"}, {"--help"}} {
		code, stdout, stderr := start(args...)
		if code != 0 || stderr != "" {
			t.Errorf("%v: exit %d, stderr %q", args, code, stderr)
		}
		for _, c := range subcommands() {
			if !strings.Contains(stdout, "\n  "+c.name) {
				t.Errorf("%v: %s is missing", args, c.name)
			}
		}
		for line := range strings.Lines(stdout) {
			if len(line) > 101 {
				t.Errorf("%d columns: %q", len(line)-1, line)
			}
		}
	}
}

func TestWrongCommandLineIsUsageAndIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"secret"}, {"--secret"}, {"version", "secret"}, {""}} {
		code, stdout, stderr := start(args...)
		if code != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "secret") {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestEverySubcommandIsReachedAndExplainsItself(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"demo": "mcp-proof demo drives", "latency": "mcp-proof latency measures",
	} {
		if code, stdout, stderr := start(name, "--help"); code != 0 || !strings.HasPrefix(stdout, want) || stderr != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", name, code, stdout, stderr)
		}
		if code, _, stderr := start(name, "--no-such-option"); code != 2 || !strings.HasPrefix(stderr, "mcp-proof "+name+": ") {
			t.Errorf("%s: exit %d, stderr %q", name, code, stderr)
		}
	}
	if code, stdout, _ := start("version"); code != 0 || !strings.HasPrefix(stdout, "mcp-proof dev (go") {
		t.Errorf("version: exit %d, %q", code, stdout)
	}
}

func TestBareProgramsAreStartedThroughTheirSubcommand(t *testing.T) {
	t.Parallel()
	var out, complaints bytes.Buffer
	code := run(process{
		args:  []string{"latency", "--peer", "echo", "--answer-bytes", "80"},
		stdin: strings.NewReader(`{"jsonrpc":"2.0","id":1234567}` + "\n"), stdout: &out, stderr: &complaints,
	})
	if code != 0 || out.Len() != 80 || !strings.HasPrefix(out.String(), `{"jsonrpc":"2.0","id":1234567,`) {
		t.Errorf("exit %d, stdout %q, stderr %q", code, out.String(), complaints.String())
	}
}
