package latency

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The exit codes.
const (
	exitMeasured = 0 // whatever the figures say
	exitNot      = 1 // something could not be measured
	exitUsage    = 2
)

// options is the command line.
type options struct {
	Daemon, Wiretest string        // paths
	Rounds           int           // blocks of each program
	Block            time.Duration // length of one block
	Pause            time.Duration // of the client between two calls
	Only             []string      // measures; nil is all
	DSNFile          string        // path; "" if there is no database
	Calls            int           // mixed calls of read_only_sql
	JSON             bool

	peer        string // echo, file or sql: be a bare program
	answerBytes int
	file        string
	connections int
	serial      bool
}

// Bounds of the command line, so that a run ends.
const (
	maxRounds = 1000
	maxBlock  = time.Minute
	maxPause  = 10 * time.Millisecond
	maxCalls  = 1_000_000

	maxConnections = 64 // of a bare program
)

// defaultPause is how long the client is busy with itself between two calls, outside of what is timed. It decides how the
// kernel places the two processes: a client that comes back at once takes turns with an echo on one core, which no client
// that looks at its answers does. The promised ratios were set with a client in Python that uses 22 us of CPU a call,
// nearly all of it outside of what it times. Measured on two nearly quiet cores, p50 of the 100 B call, echo and daemon:
// 8 and 31 us without a pause, 37 and 64 us with that Python client, whose own system calls cost more.
const defaultPause = 20 * time.Microsecond

// measurement is one run.
type measurement struct {
	options
	report   report
	progress func(format string, args ...any) // one line for whoever waits
}

func (m *measurement) wants(measure string) bool {
	if isQuery(measure) && m.DSNFile == "" {
		return false
	}
	return m.Only == nil || slices.Contains(m.Only, measure)
}

// wantsRows says that the test tool rows is needed.
func (m *measurement) wantsRows() bool {
	return m.wants(measureCall) || m.wants(measureTight) || m.wants(measureInFlight)
}

// Main runs the subcommand: args are the arguments behind its name. The report goes to stdout, progress and faults to
// stderr; stdin is read only as a bare program. It returns the exit code: 0 when everything was measured, whatever the
// figures say, 1 when something could not be measured, 2 for a wrong command line.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, err = io.WriteString(stdout, help)
	case err != nil:
		fmt.Fprintf(stderr, "mcp-proof latency: %v (see --help)\n", err)
		return exitUsage
	case o.peer != "":
		err = bePeer(o, stdin, stdout)
	default:
		err = measure(o, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "mcp-proof latency: could not measure:", err)
		return exitNot
	}
	return exitMeasured
}

func parse(args []string) (o options, err error) {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.SetOutput(io.Discard) // Main says it, on one line
	quick, only := false, ""
	set.StringVar(&o.Daemon, "daemon", "", "")
	set.StringVar(&o.Wiretest, "wiretest", "", "")
	set.BoolVar(&quick, "quick", false, "")
	set.IntVar(&o.Rounds, "rounds", 0, "")
	set.DurationVar(&o.Block, "block", 0, "")
	set.DurationVar(&o.Pause, "pause", defaultPause, "")
	set.StringVar(&only, "only", "", "")
	set.BoolVar(&o.JSON, "json", false, "")
	set.StringVar(&o.peer, "peer", "", "")
	set.IntVar(&o.answerBytes, "answer-bytes", 0, "")
	set.StringVar(&o.file, "file", "", "")
	set.StringVar(&o.DSNFile, "dsn-file", "", "")
	set.IntVar(&o.Calls, "calls", 0, "")
	set.IntVar(&o.connections, "connections", 1, "")
	set.BoolVar(&o.serial, "serial", false, "")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	given := map[string]bool{}
	set.Visit(func(f *flag.Flag) { given[f.Name] = true })
	rounds, block, calls := 12, 350*time.Millisecond, 100_000
	if quick {
		rounds, block, calls = 3, 150*time.Millisecond, 5000
	}
	if !given["rounds"] {
		o.Rounds = rounds
	}
	if !given["block"] {
		o.Block = block
	}
	if !given["calls"] {
		o.Calls = calls
	}
	switch {
	case set.NArg() > 0:
		return o, errors.New("it takes options only")
	case o.peer != "" && o.peer != "echo" && o.peer != "file" && o.peer != "sql":
		return o, errors.New("--peer is echo, file or sql")
	case o.connections < 1 || o.connections > maxConnections:
		return o, fmt.Errorf("--connections is 1 to %d", maxConnections)
	case o.Calls < 10 || o.Calls > maxCalls:
		return o, fmt.Errorf("--calls is 10 to %d", maxCalls)
	case o.Rounds < 1 || o.Rounds > maxRounds:
		return o, fmt.Errorf("--rounds is 1 to %d", maxRounds)
	case o.Block < time.Millisecond || o.Block > maxBlock:
		return o, fmt.Errorf("--block is 1ms to %v", maxBlock)
	case o.Pause < 0 || o.Pause > maxPause:
		return o, fmt.Errorf("--pause is 0s to %v", maxPause)
	}
	if only != "" {
		o.Only = strings.Split(only, ",")
	}
	for _, name := range o.Only {
		if !slices.Contains(measures, name) {
			return o, fmt.Errorf("--only takes %s", strings.Join(measures, ", "))
		}
		if isQuery(name) && o.DSNFile == "" {
			return o, fmt.Errorf("%s needs --dsn-file", name)
		}
	}
	return o, nil
}

func bePeer(o options, stdin io.Reader, stdout io.Writer) error {
	switch o.peer {
	case "file":
		return serveFile(stdin, stdout, o.file)
	case "sql":
		var settings []string
		if o.serial {
			settings = []string{"max_parallel_workers_per_gather", "0"}
		}
		return serveSQL(stdin, stdout, o.DSNFile, o.connections, settings...)
	}
	return echo(stdin, stdout, o.answerBytes)
}

func measure(o options, stdout, stderr io.Writer) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	m := &measurement{options: o}
	m.progress = func(format string, args ...any) {
		fmt.Fprintf(stderr, "%5.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	if err := m.beside(&m.Daemon, "mcp-server-suite"); err != nil {
		return err
	}
	if m.wantsRows() {
		if err := m.beside(&m.Wiretest, "mcp-server-suite-wiretest"); err != nil {
			return err
		}
	}
	m.report = report{
		Program: m.Daemon, Rounds: m.Rounds, Pause: microseconds(m.Pause),
		Machine: machine{Kernel: kernelRelease(), CPUs: runtime.NumCPU(), Go: runtime.Version(), LoadBefore: loadAverage()},
	}
	if err := m.take(ctx); err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		return err
	}
	m.report.Machine.LoadAfter = loadAverage()
	m.report.Seconds = time.Since(began).Seconds()
	if err := m.report.judge(m.wants); err != nil {
		return err
	}
	if !m.JSON {
		m.report.print(stdout)
		return nil
	}
	text, err := json.MarshalIndent(m.report, "", " ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	_, err = fmt.Fprintf(stdout, "%s\n", text)
	return err
}

// beside makes the default of a program's path: in the folder of this program.
func (m *measurement) beside(path *string, name string) error {
	if *path != "" {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program's own file: %w", err)
	}
	*path = filepath.Join(filepath.Dir(self), name)
	return nil
}

// take measures everything that is wanted.
func (m *measurement) take(ctx context.Context) error {
	f, err := layOut(m.Daemon, m.Wiretest, m.DSNFile)
	if err != nil {
		return err
	}
	defer f.remove()
	if m.report.Version, err = versionOf(f); err != nil {
		return err
	}
	if f.dsn != "" {
		if m.report.Database, err = databaseOf(ctx, f.dsn); err != nil {
			return err
		}
	}
	if err := m.singles(ctx, f); err != nil {
		return err
	}
	all, closeAll, err := m.contests(f)
	defer closeAll()
	if err != nil {
		return err
	}
	return m.rounds(ctx, all)
}

// versionOf asks the daemon what it is.
func versionOf(f *files) (string, error) {
	c, opening, _, err := begin(f, daemon)
	if err != nil {
		return "", err
	}
	defer end(c)
	var result struct {
		ServerInfo struct{ Version string }
	}
	if err := json.Unmarshal(opening.Result, &result); err != nil {
		return "", fmt.Errorf("decode the answer of initialize: %w", err)
	}
	return result.ServerInfo.Version, nil
}
