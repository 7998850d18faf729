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
	for _, measure := range []string{measureCall, measureTight, measureUsual, measureSmall, measureInFlight} {
		for program, times := range map[string]float64{"bare": 1, "daemon": ratio} {
			s := &series{Measure: measure, Program: program, AnswerBytes: 371, InFlight: 1}
			for round := range 2 {
				s.Blocks = append(s.Blocks, block{
					Round: round + 1, Calls: 10, P50: 10 * times, P95: 20 * times, P99: 30 * times,
					CallsPerSecond: rate / times, ServerCPU: 5 * times, ClientCPU: 1, CPUFrom: fromSchedstat,
				})
			}
			r.Series = append(r.Series, s)
		}
	}
	r.Starts = []start{{CPU: 10 * ratio, Wall: 5}}
	r.Idle = []memory{{RSS: 9 * ratio, Peak: 9}}
	r.Large = []memory{{RSS: 60, Peak: 90 * ratio}}
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
		{"enough calls, though the echo gets many more", 3, 90_000, []string{"64 KiB", "1 KiB", "start", "idle", "16 answers"}},
		{"everything", 7, 50_000, []string{"p50 against an echo", "CPU against", "64 KiB", "1 KiB", "in flight", "start", "idle", "16 answers"}},
	}
	for _, c := range cases {
		r := full(c.ratio, c.rate)
		if err := r.judge(everything); err != nil {
			t.Fatal(err)
		}
		if len(r.Figures) != 9 {
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
		"a bare program without a time": func(r *report) { r.of(measureCall, "bare").Blocks[1].P50 = 0 },
		"a block too few":               func(r *report) { s := r.of(measureUsual, "daemon"); s.Blocks = s.Blocks[:1] },
		"no start":                      func(r *report) { r.Starts = nil },
		"no block":                      func(r *report) { r.of(measureInFlight, "daemon").Blocks = nil },
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
		"bin/mcp-server-suite 1.2.3, 2 rounds",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
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
