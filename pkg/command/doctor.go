package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/signal"
	"syscall"

	"mcp-server-suite/pkg/daemon"
	"mcp-server-suite/pkg/problem"
)

// doctor connects as the server would and reports what its database role may do, and what it should not.
func doctor(p Process, args []string) int {
	asJSON := false
	for _, a := range args {
		if a != "--json" {
			return usage(p, "doctor takes --json or nothing")
		}
		asJSON = true
	}
	settings, ok := readSettings(p)
	if !ok {
		return ExitConfig
	}
	db, err := daemon.Database(settings, slog.New(slog.NewTextHandler(p.Stderr, &slog.HandlerOptions{Level: settings.LogLevel})))
	if err != nil {
		fmt.Fprintln(p.Stderr, "mcp-server-suite:", err)
		return ExitConfig
	}
	defer db.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	report, err := db.Inspect(ctx)
	var refusal *problem.Problem
	if errors.As(err, &refusal) {
		fmt.Fprintf(p.Stderr, "mcp-server-suite: %s (%s)\n", refusal.Detail, refusal.Reason)
		return ExitVerdict
	}
	if err != nil {
		fmt.Fprintln(p.Stderr, "mcp-server-suite:", err)
		return ExitVerdict
	}
	text := []byte(report.Text())
	if asJSON {
		if text, err = report.JSON(); err != nil {
			fmt.Fprintln(p.Stderr, "mcp-server-suite:", err)
			return ExitVerdict
		}
		text = append(text, '\n')
	}
	if _, err := p.Stdout.Write(text); err != nil {
		fmt.Fprintln(p.Stderr, "mcp-server-suite: the report could not be written:", err)
		return ExitVerdict
	}
	if report.Faulty() {
		return ExitVerdict
	}
	return ExitDone
}

func doctorHelp(p Process) int {
	fmt.Fprint(p.Stdout, doctorText)
	return ExitDone
}

const doctorText = `mcp-server-suite doctor connects to the database of MCP_SQL_DSN or MCP_SQL_DSN_FILE as the server would, reports what
the role may do and how the server is set up, and prints the SQL that makes a right role. It changes nothing.

Usage: mcp-server-suite doctor [--json]

A line marked fault is a right that the server refuses to serve with (MCP_SQL_ALLOW_UNSAFE_ROLE=true serves all the
same); one marked advice could be better.

Exit codes: 0 no fault, 1 a fault, or the database cannot be reached, 2 configuration or usage.
`
