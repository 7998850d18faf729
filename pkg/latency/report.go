package latency

import (
	"fmt"
	"io"
	"strings"
)

// The names of the measures, for --only and in the report.
const (
	measureCall     = "call"
	measureTight    = "call-tight"
	measureInFlight = "in-flight"
	measureSmall    = "file-1k"
	measureUsual    = "file-64k"
	measureStart    = "start"
	measureIdle     = "idle"
	measureLarge    = "large"
	measureLocks    = "lock-down"
	measureThreads  = "threads"

	// These need a database.
	measureOne    = "sql-1"
	measureFifty  = "sql-50"
	measureSum    = "sql-sum"
	measureText   = "sql-text"
	measureFlight = "sql-flight"
	measureMixed  = "sql-mixed"
	measureValue  = "sql-value"
	measureRows   = "sql-rows"
)

// measures is all of them, in the order of the report.
var measures = []string{
	measureCall, measureTight, measureUsual, measureSmall, measureLocks, measureInFlight,
	measureStart, measureIdle, measureLarge, measureThreads,
	measureOne, measureFifty, measureSum, measureText, measureFlight, measureMixed, measureValue, measureRows,
}

// isQuery says whether a measure needs a database.
func isQuery(measure string) bool { return strings.HasPrefix(measure, "sql-") }

// figure is one number that the project promises, as it was measured.
type figure struct {
	Measure string  `json:"measure"`
	Name    string  `json:"name"`
	Bound   float64 `json:"bound"`    // 0 if nothing is promised
	AtLeast bool    `json:"at_least"` // the bound is a lower one
	Unit    string  `json:"unit"`
	spread
	Verdict string `json:"verdict"` // met, missed, or none without a bound
	// Or is a second figure that may be met instead.
	Or *figure `json:"or,omitempty"`
}

const (
	met    = "met"
	missed = "missed"
	free   = "none"
)

// report is everything that was measured.
type report struct {
	Program string    `json:"program"` // the daemon's path as it was given
	Version string    `json:"version"` // what the daemon says it is
	Machine machine   `json:"machine"`
	Rounds  int       `json:"rounds"`
	Pause   float64   `json:"pause_us"` // of the client between two calls
	Seconds float64   `json:"seconds"`  // the whole run took
	Figures []*figure `json:"figures"`
	Series  []*series `json:"series"`
	Starts  []start   `json:"starts,omitempty"`
	Idle    []memory  `json:"idle,omitempty"`
	Large   []memory  `json:"large,omitempty"`
	Threads []threads `json:"threads,omitempty"`

	Database string   `json:"database"` // "" if there was none
	Mixed    []growth `json:"mixed,omitempty"`
	Value    []memory `json:"value_300_mb,omitempty"`
	Rows10M  []memory `json:"rows_10_million,omitempty"`
}

// machine is what helps to judge the figures.
type machine struct {
	Kernel     string  `json:"kernel"`
	CPUs       int     `json:"cpus"`
	Go         string  `json:"go"`
	LoadBefore float64 `json:"load_average_before"` // of the last minute
	LoadAfter  float64 `json:"load_average_after"`
}

// promise is a figure before it is measured; values takes it from a report, nil if its measure was not wanted. or is a
// promise that may be kept instead.
type promise struct {
	figure
	values func(*report) (spread, error)
	or     *promise
}

func p50Of(b block) float64  { return b.P50 }
func cpuOf(b block) float64  { return b.ServerCPU }
func rateOf(b block) float64 { return b.CallsPerSecond }

func cpuOfStart(s start) float64  { return s.CPU }
func wallOfStart(s start) float64 { return s.Wall }

// promises is what the project promises, in the order of the report. Each bound is one of the project's own issues, but
// for two that put a word of theirs into a number: memory is "flat" when it grows by a tenth at most, and a text that is
// known "costs no parse" when it takes half of the CPU that a new one takes, or less. A figure without a bound is there to
// judge the one above it (see defaultPause).
var promises = []promise{
	{
		figure: figure{Measure: measureCall, Name: "100 B call: p50 against an echo of a line", Bound: 3.5, Unit: "x"},
		values: ratioOf(measureCall, daemon, bare, p50Of),
	},
	{
		figure: figure{Measure: measureTight, Name: "  p50 when the client never pauses", Unit: "x"},
		values: ratioOf(measureTight, daemon, bare, p50Of),
	},
	{
		figure: figure{Measure: measureCall, Name: "100 B call: server CPU against the echo", Bound: 6, Unit: "x"},
		values: ratioOf(measureCall, daemon, bare, cpuOf),
	},
	{
		figure: figure{Measure: measureUsual, Name: "64 KiB file: p50 against a bare program", Bound: 1.3, Unit: "x"},
		values: ratioOf(measureUsual, daemon, bare, p50Of),
	},
	{
		figure: figure{Measure: measureSmall, Name: "1 KiB file: p50 against a bare program", Bound: 1.5, Unit: "x"},
		values: ratioOf(measureSmall, daemon, bare, p50Of),
	},
	{
		figure: figure{Measure: measureLocks, Name: "1 KiB file: p50 locked against unlocked", Bound: 1.1, Unit: "x"},
		values: ratioOf(measureLocks, locked, unlocked, p50Of),
	},
	{
		figure: figure{Measure: measureLocks, Name: "  p50 with seccomp only (by the walk)", Unit: "x"},
		values: ratioOf(measureLocks, filterOnly, unlocked, p50Of),
	},
	{
		figure: figure{Measure: measureInFlight, Name: "64 calls in flight: rate", Bound: 20_000, AtLeast: true, Unit: "calls/s"},
		values: func(r *report) (spread, error) { return spreadOf(r.of(measureInFlight, daemon).each(rateOf)) },
		or: &promise{
			figure: figure{Measure: measureInFlight, Name: "  or (one suffices) against the echo", Bound: 0.5, AtLeast: true, Unit: "x"},
			values: ratioOf(measureInFlight, daemon, bare, rateOf),
		},
	},
	{
		figure: figure{Measure: measureStart, Name: "start: CPU until initialize is answered", Bound: 15, Unit: "ms"},
		values: func(r *report) (spread, error) { return spreadOf(r.startsOf(locked, cpuOfStart)) },
	},
	{
		figure: figure{Measure: measureStart, Name: "start: CPU of the locked over the unlocked", Bound: 30, Unit: "ms"},
		values: func(r *report) (spread, error) {
			return excess(r.startsOf(locked, cpuOfStart), r.startsOf(unlocked, cpuOfStart))
		},
	},
	{
		figure: figure{Measure: measureIdle, Name: "idle RSS after initialize and one call", Bound: 16, Unit: "MiB"},
		values: func(r *report) (spread, error) {
			return spreadOf(each(r.Idle, func(m memory) float64 { return m.RSS }))
		},
	},
	{
		figure: figure{Measure: measureLarge, Name: "16 answers of 1 MiB at once: peak RSS", Bound: 160, Unit: "MiB"},
		values: func(r *report) (spread, error) {
			return spreadOf(each(r.Large, func(m memory) float64 { return m.Peak }))
		},
	},
	{
		figure: figure{Measure: measureThreads, Name: "threads at rest", Unit: "threads"},
		values: func(r *report) (spread, error) {
			return spreadOf(each(r.Threads, func(t threads) float64 { return float64(t.Rest) }))
		},
	},
	{
		figure: figure{Measure: measureThreads, Name: "threads with 16 cached reads in flight", Bound: 16, Unit: "threads"},
		values: func(r *report) (spread, error) {
			return spreadOf(each(r.Threads, func(t threads) float64 { return float64(t.InFlight) }))
		},
	},
	{
		figure: figure{Measure: measureOne, Name: "SELECT 1: p50 against bare pgx", Bound: 1.5, Unit: "x"},
		values: ratioOf(measureOne, daemon, bare, p50Of),
	},
	{
		figure: figure{Measure: measureFifty, Name: "50 rows of 6 columns: p50 against bare pgx", Bound: 1.5, Unit: "x"},
		values: ratioOf(measureFifty, daemon, bare, p50Of),
	},
	{
		figure: figure{Measure: measureSum, Name: "sums of 600,000 rows: p50 against bare pgx", Bound: 1.15, Unit: "x"},
		values: ratioOf(measureSum, daemon, bare, p50Of),
	},
	{
		figure: figure{Measure: measureSum, Name: "  without parallel workers there, either", Unit: "x"},
		values: ratioOf(measureSum, daemon, serial, p50Of),
	},
	{
		figure: figure{Measure: measureFlight, Name: "16 SELECT 1 in flight: rate against bare", Bound: 0.5, AtLeast: true, Unit: "x"},
		values: ratioOf(measureFlight, daemon, bare, rateOf),
	},
	{
		figure: figure{Measure: measureFlight, Name: "  on the 4 connections of the default", Unit: "x"},
		values: ratioOf(measureFlight, narrow, bare, rateOf),
	},
	{
		figure: figure{Measure: measureText, Name: "2,000 characters: CPU of a known by a new", Bound: 0.5, Unit: "x"},
		values: ratioOf(measureText, daemon, fresh, cpuOf),
	},
	{
		figure: figure{Measure: measureText, Name: "  p50 of a known text against bare pgx", Unit: "x"},
		values: ratioOf(measureText, daemon, bare, p50Of),
	},
	{
		figure: figure{Measure: measureMixed, Name: "mixed queries: RSS of all by one tenth", Bound: 1.1, Unit: "x"},
		values: func(r *report) (spread, error) {
			return spreadOf(each(r.Mixed, func(g growth) float64 { return g.RSS[len(g.RSS)-1] / g.RSS[0] }))
		},
	},
	{
		figure: figure{Measure: measureValue, Name: "query for a value of 300 MB: peak RSS", Bound: 64, Unit: "MiB"},
		values: func(r *report) (spread, error) {
			return spreadOf(each(r.Value, func(m memory) float64 { return m.Peak }))
		},
	},
	{
		figure: figure{Measure: measureRows, Name: "query for 10 million rows: peak RSS", Bound: 64, Unit: "MiB"},
		values: func(r *report) (spread, error) {
			return spreadOf(each(r.Rows10M, func(m memory) float64 { return m.Peak }))
		},
	},
}

// ratioOf is one program's number by another's, round by round.
func ratioOf(measure, over, under string, number func(block) float64) func(*report) (spread, error) {
	return func(r *report) (spread, error) {
		values, err := ratios(r.of(measure, over).each(number), r.of(measure, under).each(number))
		if err != nil {
			return spread{}, err
		}
		return spreadOf(values)
	}
}

// judge makes the figures of the measures that were wanted. It is an error if one of them has no value.
func (r *report) judge(wanted func(measure string) bool) error {
	for _, p := range promises {
		if !wanted(p.Measure) {
			continue
		}
		f, err := p.judge(r)
		if err != nil {
			return err
		}
		if p.or != nil {
			if f.Or, err = p.or.judge(r); err != nil {
				return err
			}
			if f.Or.Verdict == met {
				f.Verdict = met
			}
		}
		r.Figures = append(r.Figures, f)
	}
	return nil
}

func (p promise) judge(r *report) (*figure, error) {
	f := p.figure
	var err error
	if f.spread, err = p.values(r); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	switch {
	case f.Bound == 0:
		f.Verdict = free
	case f.AtLeast && f.Median >= f.Bound, !f.AtLeast && f.Median <= f.Bound:
		f.Verdict = met
	default:
		f.Verdict = missed
	}
	return &f, nil
}

func each[T any](values []T, number func(T) float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = number(v)
	}
	return out
}

// of finds a series; an empty one if it was not measured.
func (r *report) of(measure, program string) *series {
	for _, s := range r.Series {
		if s.Measure == measure && s.Program == program {
			return s
		}
	}
	return &series{}
}

// number writes a value with as many decimals as its unit is read with.
func number(v float64, unit string) string {
	switch unit {
	case "x":
		return fmt.Sprintf("%.2f", v)
	case "calls/s", "threads":
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// print writes the report for people, at most 100 columns wide.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "mcp-proof latency: %s %s, %d rounds in %.0f s\n", r.Program, r.Version, r.Rounds, r.Seconds)
	fmt.Fprintf(w, "%d CPUs, Linux %s, %s; load average %.1f before and %.1f after\n",
		r.Machine.CPUs, r.Machine.Kernel, r.Machine.Go, r.Machine.LoadBefore, r.Machine.LoadAfter)

	if r.Database == "" {
		fmt.Fprintf(w, "no database (--dsn-file), so read_only_sql is not measured\n\n")
	} else {
		fmt.Fprintf(w, "%s\n\n", r.Database)
	}
	row := func(name, bound, median, rounds, verdict string) {
		line := fmt.Sprintf("%-42s %22s %8s %16s  %s", name, bound, median, rounds, verdict)
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	row("promise", "bound", "median", "lowest..highest", "verdict")
	for _, f := range r.Figures {
		f.print(row)
		if f.Or != nil {
			f.Or.print(row)
		}
	}
	r.printSeries(w)
	r.printSingles(w)
}

func (f *figure) print(row func(name, bound, median, rounds, verdict string)) {
	direction := "at most "
	if f.AtLeast {
		direction = "at least "
	}
	bound := direction + number(f.Bound, f.Unit) + " " + f.Unit
	if f.Verdict == free {
		bound = "-"
	}
	row(f.Name, bound, number(f.Median, f.Unit),
		number(f.Low, f.Unit)+".."+number(f.High, f.Unit), f.Verdict)
}

func (r *report) printSeries(w io.Writer) {
	if len(r.Series) == 0 {
		return
	}
	fmt.Fprintf(w, "\nmedian over the rounds of\n%-10s %-15s %12s %9s %9s %9s %9s %9s %9s\n",
		"measure", "program", "answer bytes", "p50 us", "p95 us", "p99 us", "CPU us", "client us", "calls/s")
	for _, s := range r.Series {
		cell := func(number func(block) float64) string {
			middle, err := spreadOf(s.each(number))
			if err != nil || middle.High == 0 { // no percentiles with many in flight
				return "-"
			}
			return fmt.Sprintf("%.1f", middle.Median)
		}
		fmt.Fprintf(w, "%-10s %-15s %12d %9s %9s %9s %9s %9s %9s\n", s.Measure, s.Program, s.AnswerBytes,
			cell(func(b block) float64 { return b.P50 }), cell(func(b block) float64 { return b.P95 }),
			cell(func(b block) float64 { return b.P99 }), cell(func(b block) float64 { return b.ServerCPU }),
			cell(func(b block) float64 { return b.ClientCPU }), cell(func(b block) float64 { return b.CallsPerSecond }))
	}
	fmt.Fprintf(w, "CPU us: the program's CPU time for one call; client us: this client's. Between two calls it is busy\n"+
		"with itself for %.0f us, which is not timed (in flight and call-tight: not at all).\n", r.Pause)
}

func (r *report) printSingles(w io.Writer) {
	line := func(what string, values []float64, unit string) {
		if s, err := spreadOf(values); err == nil {
			fmt.Fprintf(w, "%-48s %7s %s (%s..%s, %d times)\n", what, number(s.Median, unit), unit,
				number(s.Low, unit), number(s.High, unit), len(values))
		}
	}
	fmt.Fprintln(w)
	line("start: time from spawn to the answer of initialize", r.startsOf(locked, wallOfStart), "ms")
	line("  the same of the unlocked daemon", r.startsOf(unlocked, wallOfStart), "ms")
	line("  CPU of the unlocked daemon", r.startsOf(unlocked, cpuOfStart), "ms")
	line("idle: peak RSS so far", each(r.Idle, func(m memory) float64 { return m.Peak }), "MiB")
	line("16 answers of 1 MiB: RSS when they are delivered", each(r.Large, func(m memory) float64 { return m.RSS }), "MiB")
	line("300 MB value: RSS behind it", each(r.Value, func(m memory) float64 { return m.RSS }), "MiB")
	for _, g := range r.Mixed {
		fmt.Fprintf(w, "%d mixed queries: RSS after each tenth %.1f MiB, peak %.1f MiB, %.0f calls/s\n", g.Calls, g.RSS, g.Peak, g.Rate)
	}
}
