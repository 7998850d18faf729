package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"mcp-server-suite/pkg/rawclient"
	"mcp-server-suite/pkg/visible"
)

// The exit codes.
const (
	exitHeld  = 0
	exitNot   = 1 // a claim did not hold, or the daemon could not be started
	exitUsage = 2
)

const help = `mcp-proof demo drives the daemon through one MCP session, shows what was asked and what came back, and
checks every answer. It stops at the first claim that does not hold.

Usage: mcp-proof demo [options]

  --daemon PATH     the daemon; default: mcp-server-suite beside this program
  --dsn-file PATH   a file with the DSN of a database like that of scripts/with-postgres.sh, to show
                    read_only_sql on; without it the database is left out
  --json            one JSON object a step, each on its line, instead of the transcript

It serves a small folder that it makes for itself and removes. Run by root, the daemon becomes user
10001. Colours are used on a terminal, unless NO_COLOR is set.

Exit codes: 0 every claim held; 1 one did not, or the daemon could not be started; 2 wrong usage.
`

// sample is how long the daemon watches the CPU counters for one system_metrics call: long enough for the steps that
// need a call which is still running.
const sample = 300 * time.Millisecond

// patience is how long the daemon may take for anything.
const patience = 10 * time.Second

// Main runs the subcommand: args are the arguments behind its name, environ as os.Environ gives it. It returns the exit
// code: 0 when every claim held, 1 when one did not or the daemon could not be started, 2 for a wrong command line.
func Main(args, environ []string, stdout, stderr io.Writer) int {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.SetOutput(io.Discard) // said below, on one line
	daemon := set.String("daemon", "", "")
	dsnFile := set.String("dsn-file", "", "")
	asJSON := set.Bool("json", false, "")
	err := set.Parse(args)
	if err == nil && set.NArg() > 0 {
		err = errors.New("it takes options only")
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		if _, err := io.WriteString(stdout, help); err != nil {
			return exitNot
		}
		return exitHeld
	case err != nil:
		fmt.Fprintf(stderr, "mcp-proof demo: %v (see --help)\n", err)
		return exitUsage
	}
	var view viewer = &transcript{out: stdout, colour: wantsColour(stdout, environ)}
	if *asJSON {
		view = &lines{out: stdout}
	}
	if err := run(*daemon, *dsnFile, view); err != nil {
		fmt.Fprintln(stderr, "mcp-proof demo:", err)
		return exitNot
	}
	return exitHeld
}

// run plays all steps on a fresh daemon, those about a database where there is a DSN. The error says which step failed and
// why.
func run(daemon, dsnFile string, view viewer) error {
	if daemon == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program's own file: %w", err)
		}
		daemon = filepath.Join(filepath.Dir(self), "mcp-server-suite")
	}
	scene, err := build(daemon, dsnFile)
	if err != nil {
		return fmt.Errorf("prepare the demonstration: %w", err)
	}
	defer scene.remove()
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A reader of the transcript that goes away (head) must not end this process before it has removed its folder.
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGPIPE)
	defer signal.Stop(unread)
	began := time.Now()
	client, err := rawclient.Start(rawclient.Command(scene.daemon, scene.environ()))
	if err != nil {
		return err
	}
	defer func() {
		_ = client.CloseInput() // what a script in the daemon's place has started ends by it; Close kills only the script
		client.Close()
	}()
	defer context.AfterFunc(interrupted, client.Kill)()
	s := &session{Client: client.Within(patience), scene: scene}
	view.open(opening{daemon, scene.environ(), client.PID()})
	plan := steps(scene.database != nil)
	for i, step := range plan {
		s.step = record{Number: i + 1, Name: step.name, Claim: step.claim}
		s.show = view.evidence
		view.begin(s.step)
		stepBegan := time.Now()
		err := step.run(s)
		s.step.Held, s.step.Milliseconds = err == nil, time.Since(stepBegan).Milliseconds()
		if err != nil {
			s.step.Failure = visible.Text(err.Error())
		}
		view.end(s.step)
		if interrupted.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil {
			return fmt.Errorf("step %d of %d failed (%s): %s%s", i+1, len(plan), step.name, s.step.Failure, lastWords(client))
		}
	}
	view.close(closing{len(plan), s.sent, time.Since(began)})
	return nil
}

// lastWords is the end of what the daemon has written to stderr, for a failure. A daemon that ends says why there, and its
// end shows on stdout first, so that it is waited for a moment.
func lastWords(c *rawclient.Client) string {
	const most, moment = 400, time.Second
	_ = c.CloseInput()             // it has failed: there is nothing more to ask
	_, _ = c.Within(moment).Wait() // one that does not end is killed
	text := visible.Text(strings.TrimSpace(c.Stderr()))
	if text == "" {
		return ""
	}
	return "; the daemon's stderr: " + text[max(0, len(text)-most):]
}
