package latency

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// full is a report with every measure; the daemon takes ratio times what the bare programs take, and is called that much
// less often.
func full(ratio, rate float64) *report {
	r := &report{Program: "bin/mcp-server-suite", Version: "1.2.3", Rounds: 2, Seconds: 3}
	add := func(measure string, programs map[string]float64) {
		for program, times := range programs {
			s := &series{Measure: measure, Program: program, AnswerBytes: 371, InFlight: 1}
			for round := range 2 {
				s.Blocks = append(s.Blocks, block{
					Round: round + 1, Calls: 10, P50: 10 * times, P95: 20 * times, P99: 30 * times,
					CallsPerSecond: rate / times, ServerCPU: 5 * times, ClientCPU: 1,
				})
			}
			r.Series = append(r.Series, s)
		}
	}
	for _, measure := range []string{measureCall, measureTight, measureUsual, measureSmall, measureInFlight} {
		add(measure, map[string]float64{bare: 1, daemon: ratio})
	}
	add(measureLocks, map[string]float64{unlocked: 1, locked: 1 + ratio/20, filterOnly: ratio})
	r.Starts = []start{{Program: locked, CPU: 10 * ratio, Wall: 5}, {Program: unlocked, CPU: 5 * ratio, Wall: 4}}
	r.Idle = []memory{{RSS: 9 * ratio, Peak: 9}}
	r.Large = []memory{{RSS: 60, Peak: 90 * ratio}}
	r.Threads = []threads{{Rest: 30, InFlight: int(5 * ratio)}}
	for _, measure := range []string{measureOne, measureFifty} {
		add(measure, map[string]float64{bare: 1, daemon: ratio})
	}
	add(measureSum, map[string]float64{bare: 1, daemon: 1 + ratio/20, serial: 2})
	add(measureText, map[string]float64{bare: 1, daemon: ratio, fresh: 6})
	add(measureFlight, map[string]float64{bare: 1, daemon: ratio / 2, narrow: 2 * ratio})
	r.Mixed = []growth{{Calls: 100, RSS: []float64{20, 20, 20 + ratio}, Peak: 30, Rate: 5}}
	r.Value, r.Rows10M = []memory{{RSS: 20, Peak: 10 * ratio}}, []memory{{RSS: 20, Peak: 11 * ratio}}
	return r
}

func TestVerdictComparesTheMedianWithTheBound(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name        string
		ratio, rate float64
		missed      []string
	}{
		{"all fine", 1.2, 50_000, nil},
		{"slow reads", 1.4, 50_000, []string{"64 KiB file"}},
		{"few calls, but half of what the echo gets", 1.2, 10_000, nil},
		{"slow locks", 2.5, 90_000, []string{"64 KiB", "1 KiB file: p50 against", "locked against", "until initialize", "idle", "16 answers", "SELECT 1: p50", "50 rows", "mixed"}},
		{"enough calls, though the echo gets many more", 3, 100_000, []string{
			"64 KiB", "1 KiB file: p50 against", "locked against", "until initialize", "idle", "16 answers",
			"SELECT 1: p50", "50 rows", "mixed",
		}},
		{"everything", 7, 50_000, []string{
			"p50 against an echo", "CPU against", "64 KiB", "1 KiB file: p50 against", "locked against unlocked", "64 calls in flight",
			"until initialize", "locked over the unlocked", "idle RSS", "16 answers", "reads in flight",
			"SELECT 1: p50", "50 rows", "sums of 600,000", "16 SELECT 1", "2,000 characters", "mixed", "300 MB", "10 million",
		}},
	}
	for _, c := range cases {
		r := full(c.ratio, c.rate)
		if err := r.judge(everything); err != nil {
			t.Fatal(err)
		}
		if len(r.Figures) != 25 {
			t.Errorf("%s: %d figures", c.name, len(r.Figures))
		}
		count := 0
		for _, f := range r.Figures {
			if f.Verdict == missed {
				count++
				if !containsAny(f.Name, c.missed) {
					t.Errorf("%s: %s is missed with %v", c.name, f.Name, f.Median)
				}
			}
		}
		if count != len(c.missed) {
			t.Errorf("%s: %d are missed, want %v", c.name, count, c.missed)
		}
	}
}

func everything(string) bool { return true }

func containsAny(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

func TestAFigureThatWasNotMeasuredIsAnError(t *testing.T) {
	t.Parallel()
	spoil := map[string]func(*report){
		"a bare program without a time": func(r *report) { r.of(measureCall, bare).Blocks[1].P50 = 0 },
		"a block too few":               func(r *report) { s := r.of(measureUsual, daemon); s.Blocks = s.Blocks[:1] },
		"no start":                      func(r *report) { r.Starts = nil },
		"no start of the unlocked":      func(r *report) { r.Starts = r.Starts[:1] },
		"no start of the locked":        func(r *report) { r.Starts = r.Starts[1:] },
		"no block":                      func(r *report) { r.of(measureInFlight, daemon).Blocks = nil },
		"no block of the locked":        func(r *report) { r.of(measureLocks, locked).Blocks = nil },
		"no unlocked daemon":            func(r *report) { r.of(measureLocks, unlocked).Program = daemon },
		"no thread":                     func(r *report) { r.Threads = nil },
		"no serial program":             func(r *report) { r.of(measureSum, serial).Blocks = nil },
		"no new text":                   func(r *report) { r.of(measureText, fresh).Blocks[0].ServerCPU = 0 },
		"no mixed query":                func(r *report) { r.Mixed = nil },
		"no large value":                func(r *report) { r.Value = nil },
		"no rows":                       func(r *report) { r.Rows10M = nil },
	}
	for name, f := range spoil {
		r := full(1, 50_000)
		f(r)
		if err := r.judge(everything); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestReportIsATableOfAHundredColumns(t *testing.T) {
	t.Parallel()
	r := full(7, 1_234_567)
	if err := r.judge(everything); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r.print(&out)
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	for _, want := range []string{
		"100 B call: p50 against an echo of a line          at most 3.50 x     7.00       7.00..7.00  missed\n",
		"64 calls in flight: rate                   at least 20000 calls/s   176367   176367..176367  met\n",
		"1 KiB file: p50 locked against unlocked            at most 1.10 x     1.35       1.35..1.35  missed\n",
		"  p50 with seccomp only (by the walk)                           -     7.00       7.00..7.00  none\n",
		"start: CPU of the locked over the unlocked        at most 30.0 ms     35.0       35.0..35.0  missed\n",
		"threads with 16 cached reads in flight         at most 16 threads       35           35..35  missed\n",
		"sums of 600,000 rows: p50 against bare pgx         at most 1.15 x     1.35       1.35..1.35  missed\n",
		"  without parallel workers there, either                        -     0.68       0.68..0.68  none\n",
		"100 mixed queries: RSS after each tenth [20.0 20.0 27.0] MiB, peak 30.0 MiB, 5 calls/s\n",
		"no database (--dsn-file), so read_only_sql is not measured\n",
		"bin/mcp-server-suite 1.2.3, 2 rounds",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
}

// Every bound has a report that misses it, and only the figures that are there to explain others have none.
func TestEveryPromiseCanBeMissed(t *testing.T) {
	t.Parallel()
	bad, good := full(7, 50_000), full(1, 50_000)
	for _, r := range []*report{bad, good} {
		if err := r.judge(everything); err != nil {
			t.Fatal(err)
		}
	}
	for i, f := range bad.Figures {
		explains := strings.HasPrefix(f.Name, "  ") || f.Name == "threads at rest"
		switch {
		case explains && f.Verdict == free && good.Figures[i].Verdict == free:
		case !explains && f.Verdict == missed && good.Figures[i].Verdict == met:
		default:
			t.Errorf("%s: %s of the bad, %s of the good", f.Name, f.Verdict, good.Figures[i].Verdict)
		}
	}
}

func TestReportOfOneMeasureHasOnlyThat(t *testing.T) {
	t.Parallel()
	r := &report{Idle: []memory{{RSS: 9, Peak: 9}}}
	idle := func(measure string) bool { return measure == measureIdle }
	if err := r.judge(idle); err != nil || len(r.Figures) != 1 {
		t.Fatalf("%v, %v", r.Figures, err)
	}
	var out bytes.Buffer
	r.print(&out)
	if strings.Contains(out.String(), "p50") || strings.Contains(out.String(), "start") {
		t.Errorf("it shows what was not measured:\n%s", out.String())
	}
}
