package latency

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-server-suite/pkg/stage"
)

func run(args ...string) (code int, stdout, stderr string) {
	var out, complaints bytes.Buffer
	code = Main(args, strings.NewReader(""), &out, &complaints)
	return code, out.String(), complaints.String()
}

// It asserts that everything is measured, never how long anything takes.
func TestQuickRunMeasuresEveryFigure(t *testing.T) { // not parallel: it sets TMPDIR
	daemon, wiretest := stage.Binary(t, ""), stage.Binary(t, "wiretest")
	folder := stage.Dir(t)
	t.Setenv("TMPDIR", folder)
	code, stdout, stderr := run("--quick", "--rounds", "2", "--block", "50ms", "--json", "--daemon", daemon, "--wiretest", wiretest)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	t.Logf("what took how long:\n%s", stderr)
	var r report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, f := range r.Figures {
		got[f.Measure]++
		if f.Median <= 0 || f.Low > f.Median || f.High < f.Median || len(f.Each) == 0 || (f.Verdict == free) != (f.Bound == 0) {
			t.Errorf("%s: %+v", f.Name, f)
		}
		if f.Measure == measureInFlight && (f.Or == nil || f.Or.Median <= 0) {
			t.Errorf("%s has not both of its figures: %+v", f.Name, f)
		}
	}
	if r.Database != "" {
		t.Errorf("it has a database: %q", r.Database)
	}
	for _, measure := range measures {
		if isQuery(measure) {
			if got[measure] != 0 {
				t.Errorf("figures of %s without a database", measure)
			}
			continue
		}
		want := map[string]int{measureCall: 2, measureLocks: 2, measureStart: 2, measureThreads: 2}[measure]
		if got[measure] != max(want, 1) {
			t.Errorf("%d figures of %s", got[measure], measure)
		}
	}
	if len(r.Series) != 13 || r.Version != stage.Version {
		t.Errorf("%d series of the daemon %q", len(r.Series), r.Version)
	}
	for _, s := range r.Series {
		if len(s.Blocks) != 2 {
			t.Errorf("%s %s: %d blocks", s.Measure, s.Program, len(s.Blocks))
		}
		for _, b := range s.Blocks {
			timed := b.P50 > 0 && b.P95 >= b.P50 && b.P99 >= b.P95
			if b.Calls < 1 || b.CallsPerSecond <= 0 || b.ServerCPU <= 0 || b.ClientCPU <= 0 || timed != (s.InFlight == 1) {
				t.Errorf("%s %s: %+v", s.Measure, s.Program, b)
			}
		}
	}
	if n := len(r.startsOf(locked, cpuOfStart)); n != 4 || len(r.startsOf(unlocked, cpuOfStart)) != n || len(r.Starts) != 2*n {
		t.Errorf("starts: %+v", r.Starts)
	}
	if len(r.Starts) == 8 && (r.Starts[0].Program != locked || r.Starts[2].Program != unlocked) {
		t.Errorf("the starts do not take turns: %+v", r.Starts)
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestOnlyWhatIsAskedForIsMeasured(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := run("--only", "idle,start", "--rounds", "1", "--daemon", stage.Binary(t, ""))
	if code != 0 || !strings.Contains(stdout, "idle RSS") || !strings.Contains(stdout, "start: CPU") ||
		!strings.Contains(stdout, "no database (--dsn-file), so read_only_sql is not measured") ||
		strings.Contains(stdout, "KiB file") || strings.Contains(stderr, "round") || strings.Contains(stdout, "threads") {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
}

func TestAllProgramsTakeTurnsAtBeingFirst(t *testing.T) {
	t.Parallel()
	programs := []string{unlocked, locked, filterOnly}
	first := map[string]int{}
	for round := range 6 {
		order := turn(programs, round)
		first[order[0]]++
		if slices.Sort(order); len(slices.Compact(order)) != len(programs) {
			t.Errorf("round %d: %v", round, order)
		}
	}
	for _, program := range programs {
		if first[program] != 2 {
			t.Errorf("first: %v", first)
		}
	}
}

// A daemon that only seems to be locked, or unlocked, would be compared with itself.
func TestADaemonThatIsNotWhatItsNameSaysIsNotMeasured(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, log, want string }{
		{"older than its lock-down", `{"msg":"started"}` + "\nnot JSON\n", "no posture"},
		{"silent", "", "no posture"},
		{"unlocked", `{"posture":{"landlock":{"enforced":false},"seccomp":{"enforced":false}}}`, "Landlock false and seccomp false"},
		{"locked", `{"posture":{"landlock":{"enforced":true},"seccomp":{"enforced":true}}}`, "Landlock true and seccomp true"},
		{"half locked", `{"posture":{"landlock":{"enforced":true},"seccomp":{"enforced":false}}}`, "Landlock true and seccomp false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// Its conversation is the daemon's, its log is not.
			path := script(t, "cat >&2 <<'END'\n"+c.log+"\nEND\nexec 2>/dev/null "+stage.Binary(t, "")+"\n")
			for _, measure := range []string{measureLocks, measureStart} {
				code, stdout, stderr := run("--only", measure, "--rounds", "1", "--block", "20ms", "--daemon", path)
				if code != 1 || stdout != "" || !strings.Contains(stderr, c.want) {
					t.Errorf("%s: exit %d, stdout %q, stderr %q", measure, code, stdout, stderr)
				}
			}
		})
	}
}

// script stands in the daemon's place.
func script(t *testing.T, text string) (path string) {
	t.Helper()
	syscall.ForkLock.RLock() // no other test may start a program while this one is open for writing (ETXTBSY)
	defer syscall.ForkLock.RUnlock()
	path = stage.File(t, stage.Dir(t), "daemon", []byte("#!/bin/sh\nPATH=/usr/bin:/bin\n"+text))
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhatCannotBeMeasuredIsNoFigure(t *testing.T) {
	t.Parallel()
	script := func(text string) string { return script(t, text) }
	daemon := stage.Binary(t, "")
	// changed is the daemon with its output changed from the first answer behind the handshake on.
	changed := func(sed string) string { return script(daemon + " | sed -u '1!{" + sed + "}'\n") }
	cases := []struct {
		name   string
		daemon string
		only   string
		want   string
	}{
		{"no daemon", "/nonexistent/daemon", "start", "make build"},
		{"one that does not start", script("echo 'MCP_X: wrong' >&2; exit 2\n"), "start", "MCP_X: wrong"},
		{"one that ends at the first call", changed("q"), "file-1k", "ended"},
		{"one that refuses", changed(`s/"isError":false/"isError":true/`), "file-1k", "refused"},
		{"one whose answers differ when it is unlocked", script("case $MCP_SECCOMP in off) cut='1!{s/heron/Heron/}';; esac\n" +
			daemon + ` | sed -u "$cut"` + "\n"), "lock-down", "does not answer the bytes"},
		{"one that refuses the large reads", changed(`1!s/"isError":false/"isError":true/`), "threads", "refused"},
		{"one that refuses the idle call", changed(`s/"isError":false/"isError":true/`), "idle", "refused"},
		{"one that answers other bytes", changed("s/heron/Heron/"), "file-1k", "does not answer the bytes"},
		{"one that begins to answer other lengths", script(daemon + " | sed -u '1,3!s/heron/herons/'\n"), "file-1k", "bytes where"},
		{"one that answers another question", script(daemon + ` | sed -u '1,3!s/"id":1/"id":2/'` + "\n"), "file-1k", "bytes where"},
		{"the shipped one in place of the test build", daemon, "call", "refused"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := run("--only", c.only, "--rounds", "1", "--block", "20ms", "--daemon", c.daemon, "--wiretest", c.daemon)
			if code != 1 || stdout != "" || !strings.Contains(stderr, "could not measure: ") || !strings.Contains(stderr, c.want) {
				t.Errorf("exit %d, stdout %q, stderr %q; want %q", code, stdout, stderr, c.want)
			}
		})
	}
}

func TestAProgramThatDoesNotAnswerIsKilled(t *testing.T) {
	t.Parallel()
	p, err := open("sleeper", "/bin/sh", []string{"PATH=/usr/bin:/bin"}, "-c", "exec sleep 60")
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	began := time.Now()
	err = p.watched(20*time.Millisecond, func() error {
		_, err := p.line()
		return err
	})
	if err == nil || time.Since(began) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

func TestIDsOfAPipeKeepTheirSevenDigits(t *testing.T) {
	t.Parallel()
	c := newCall(&pipe{id: lastID - 1}, "rows", "{}")
	if err := c.next(); err != nil || !bytes.Contains(c.request, []byte(`"id":9999999,`)) || !bytes.HasSuffix(c.head, []byte("9999999")) {
		t.Errorf("%s, %s, %v", c.request, c.head, err)
	}
	if err := c.next(); err == nil {
		t.Error("an id of eight digits")
	}
}

func TestWrongUsageIsSaidInOneLine(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--nonsense"},
		{"extra"},
		{"--rounds", "0"},
		{"--rounds", "1001"},
		{"--block", "0s"},
		{"--block", "2h"},
		{"--only", "nothing"},
		{"--only", "call,"},
		{"--pause", "-1ms"},
		{"--pause", "1s"},
		{"--peer", "other"},
		{"--only", "sql-1"},
		{"--calls", "9"},
		{"--calls", "1000001"},
		{"--connections", "0"},
		{"--connections", "65"},
	} {
		if code, stdout, stderr := run(args...); code != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestHelpNamesEveryMeasureAndFitsAHundredColumns(t *testing.T) {
	t.Parallel()
	code, stdout, _ := run("--help")
	if words := strings.Join(strings.Fields(stdout), " "); code != 0 || !strings.Contains(words, strings.Join(measures, ", ")) {
		t.Errorf("exit %d, it lacks the measures %v", code, measures)
	}
	for line := range strings.Lines(stdout) {
		if len(line) > 101 {
			t.Errorf("%d columns: %q", len(line)-1, line)
		}
	}
}
