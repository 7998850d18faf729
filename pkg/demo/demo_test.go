package demo_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"mcp-server-suite/pkg/demo"
	"mcp-server-suite/pkg/stage"
)

func TestMain(m *testing.M) { stage.Main(m) }

// play runs the demonstration and returns its exit code and what it wrote.
func play(args ...string) (code int, stdout, stderr string) {
	var out, complaints bytes.Buffer
	code = demo.Main(args, nil, &out, &complaints)
	return code, out.String(), complaints.String()
}

// record is one line of --json.
type record struct {
	Step     int
	Name     string
	Claim    string
	Held     bool
	Failure  string
	Evidence []struct{ Kind, Text string }
}

func records(t *testing.T, stdout string) []record {
	t.Helper()
	var all []record
	for line := range strings.Lines(stdout) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%q is no record: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

func TestEveryClaimHoldsForTheDaemon(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := play("--daemon", stage.Binary(t, ""), "--json")
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d, stderr %q, stdout:\n%s", code, stderr, stdout)
	}
	all := records(t, stdout)
	if len(all) < 10 {
		t.Fatalf("only %d steps", len(all))
	}
	for i, r := range all {
		kinds := map[string]bool{}
		for _, e := range r.Evidence {
			kinds[e.Kind] = e.Text != ""
		}
		if r.Step != i+1 || !r.Held || r.Failure != "" || !kinds["asked"] || !kinds["answered"] || !kinds["checked"] {
			t.Errorf("record %d does not show a claim that held: %+v", i+1, r)
		}
	}
}

func TestTranscriptIsPlainTextOfAHundredColumns(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := play("--daemon", stage.Binary(t, ""))
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d, stderr %q, stdout:\n%s", code, stderr, stdout)
	}
	for line := range strings.Lines(stdout) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > 100 || strings.ContainsRune(line, '\x1b') || strings.TrimRight(line, " ") != line {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	for _, want := range []string{
		"\"reason\": \"OUTSIDE_SANDBOX\"", "-32700", "GiB in all", "exit code 0", "All 14 claims held",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the transcript lacks %q", want)
		}
	}
}

func TestNothingIsLeftBehind(t *testing.T) { // not parallel: it sets TMPDIR
	folder := stage.Dir(t)
	binary := stage.Binary(t, "")
	t.Setenv("TMPDIR", folder)
	if code, _, stderr := play("--daemon", binary); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The daemon's answers come, line by line, in the order of the steps; each lie changes one of them.
func TestALieFailsItsStep(t *testing.T) {
	t.Parallel()
	lies := []struct {
		step, why string
		script    string // of sed, on the daemon's output
	}{
		{"handshake", "another protocol version", `1s/"protocolVersion":"[0-9-]*"/"protocolVersion":"2024-11-05"/`},
		{"handshake", "a capability that is not there", `1s/"tools":{}/"tools":{},"logging":{}/`},
		{"tools", "a tool that writes", `2s/"readOnlyHint":true/"readOnlyHint":false/`},
		{"tools", "a tool that takes anything", `2s/"additionalProperties":false/"additionalProperties":true/`},
		{"tools", "a tool that is missing", `2s/"name":"system_metrics"/"name":"shell"/`},
		{"file", "a changed word", `3s/white feather/black feather/g`},
		{"file", "a changed word in one of the two copies", `3s/white feather/black feather/`},
		{"file", "text that is not ASCII", `3s/white/whit\xc3\xa9/g`},
		{"parts", "a part that ends where it may not", `4s/"next_offset\(\\*\)":1210/"next_offset\1":1213/g`},
		{"parts", "a part that is not the last", `5s/"truncated\(\\*\)":false/"truncated\1":true/g`},
		{"link inside", "a link that is not resolved", `6s/field-notes.txt/today/g`},
		{"link outside", "another reason", `7s/OUTSIDE_SANDBOX/NOT_FOUND/`},
		{"link outside", "what is outside", `7s/the path/marzipan-lighthouse/`},
		{"link outside", "a refusal that is marked as a success", `7s/"isError":true/"isError":false/`},
		{"traversal", "an oracle", `9s/resolves outside/does not exist outside/`},
		{"traversal", "an answer that repeats the path", `8,10s/the path/diary.txt/`},
		{"metrics", "another amount of memory", `11s/total_bytes\(\\*\)":[0-9]/total_bytes\1":99/g`},
		{"metrics", "a figure that is missing without a reason", `11s/load_average_1m\(\\*\)":[0-9.]*/load_average_1m\1":null/g`},
		{"concurrency", "answers in the order of the questions", `12{h;d};13{G}`},
		{"bad calls", "another reason", `14s/BAD_PARAM/NOT_FOUND/`},
		{"bad calls", "an answer that repeats what was sent", `16s/an argument/tamarind/`},
		{"bad calls", "no word about what to change", `15s/max_bytes/offset/g`},
		{"bad lines", "another code", `17s/-32700/-32600/`},
		{"bad lines", "a session that ended", `18q`},
		{"cancel", "an answer to the cancelled call", `20i {"jsonrpc":"2.0","id":4,"result":{}}`},
		{"end", "an answer that was dropped", `21d`},
		{"end", "one line too many", `21a {"jsonrpc":"2.0","id":7,"result":{}}`},
	}
	binary := stage.Binary(t, "")
	for _, lie := range lies {
		t.Run(lie.step+"/"+lie.why, func(t *testing.T) {
			t.Parallel()
			liar := program(t, fmt.Sprintf("%s | sed -u '%s'\n", binary, lie.script))
			failsAt(t, liar, lie.step)
		})
	}
	t.Run("end/another exit code", func(t *testing.T) {
		t.Parallel()
		failsAt(t, program(t, binary+"; exit 3\n"), "end")
	})
	t.Run("end/a word on stderr", func(t *testing.T) {
		t.Parallel()
		failsAt(t, program(t, binary+"; echo 'goodbye' >&2\n"), "end")
	})
	for why, script := range map[string]string{
		"a layer that is missing":   `s/"level":"full"/"level":"reduced"/`,
		"a probe that got through":  `s/"denied":[0-9]*/"denied":1/`,
		"a filter that is not ours": `s/"filters_before":0/"filters_before":1/`,
		"a right to write":          `s/"rights":."read_file".}/"rights":["write_file"]}/`,
		"silence":                   `d`,
	} {
		t.Run("locked/"+why, func(t *testing.T) {
			t.Parallel()
			failsAt(t, program(t, fmt.Sprintf("{ %s 2>&1 1>&3 | sed -u '%s' >&2; } 3>&1\n", binary, script)), "locked")
		})
	}
	t.Run("no lie", func(t *testing.T) { // that what fails above fails because of its lie
		t.Parallel()
		code, _, stderr := play("--daemon", program(t, binary+" | sed -u ''\n"))
		if code != 0 {
			t.Errorf("exit %d: %s", code, stderr)
		}
	})
}

func failsAt(t *testing.T, daemon, step string, options ...string) {
	t.Helper()
	code, stdout, stderr := play(append([]string{"--daemon", daemon, "--json"}, options...)...)
	all := records(t, stdout)
	if code != 1 || len(all) == 0 || !strings.Contains(stderr, "failed ("+step+")") {
		t.Fatalf("exit %d where step %q should fail; stderr %q", code, step, stderr)
	}
	for i, r := range all {
		if last := i == len(all)-1; r.Held == last || last != (r.Name == step) || last != (r.Failure != "") {
			t.Errorf("record %d: %+v", i+1, r)
		}
	}
}

// program writes a shell script in place of the daemon.
func program(t *testing.T, script string) string {
	t.Helper()
	syscall.ForkLock.RLock() // no other test may start a program while this one is open for writing (ETXTBSY)
	defer syscall.ForkLock.RUnlock()
	path := stage.File(t, stage.Dir(t), "daemon", []byte("#!/bin/sh\nPATH=/usr/bin:/bin\n"+script))
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestADaemonThatDoesNotServeFailsTheDemonstration(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, daemon, want string }{
		{"ends at once", program(t, "echo 'MCP_X: \x1b[31mwrong' >&2; exit 2\n"), `stderr: MCP_X: \x1b[31mwrong`},
		{"writes no JSON", program(t, "echo hello\n"), "step 1"},
		{"is not there", "/nonexistent/daemon", "make build"},
		{"is a folder", "/", "no program"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if code, _, stderr := play("--daemon", c.daemon); code != 1 || !strings.Contains(stderr, c.want) {
				t.Errorf("exit %d, stderr %q, want %q", code, stderr, c.want)
			}
		})
	}
}

func TestWrongUsageIsSaidInOneLine(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--nonsense"}, {"extra"}, {"--daemon"}} {
		if code, stdout, stderr := play(args...); code != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	if code, stdout, _ := play("--help"); code != 0 || !strings.Contains(stdout, "NO_COLOR") {
		t.Errorf("--help: exit %d, %q", code, stdout)
	}
}
