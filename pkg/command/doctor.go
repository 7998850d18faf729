package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/signal"
	"syscall"

	"mcp-server-suite/pkg/config"
	"mcp-server-suite/pkg/daemon"
	"mcp-server-suite/pkg/lockdown"
	"mcp-server-suite/pkg/postgres"
	"mcp-server-suite/pkg/problem"
)

// doctor connects as the server would, as confined as it, and reports what its database role may do, and what it should not.
func doctor(p Process, args []string) int {
	format := ""
	for _, a := range args {
		if format != "" || a != "--json" && a != "--sql" {
			return usage(p, "doctor takes --json, --sql or nothing")
		}
		format = a
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var db *postgres.DB
	_, code := confine(p, func(settings config.Config, _ lockdown.Cgroup) (err error) {
		db, err = daemon.Database(settings, slog.New(slog.NewTextHandler(p.Stderr, &slog.HandlerOptions{Level: settings.LogLevel})))
		return err
	})
	if code != ExitDone {
		return code
	}
	defer db.Close()
	report, err := db.Inspect(ctx)
	var refusal *problem.Problem
	if errors.As(err, &refusal) {
		return p.refuse(ExitVerdict, fmt.Sprintf("%s (%s)", refusal.Detail, refusal.Reason))
	}
	if err != nil {
		return p.refuse(ExitVerdict, err)
	}
	text := report.Text()
	switch format {
	case "--sql":
		text = report.SQL
	case "--json":
		line, err := report.JSON()
		if err != nil {
			return p.refuse(ExitVerdict, err)
		}
		text = string(line) + "\n"
	}
	if code := p.print(text); code != ExitDone || !report.Faulty() {
		return code
	}
	return ExitVerdict
}

func doctorHelp(p Process) int { return p.print(doctorText) }

const doctorText = `mcp-server-suite doctor connects to the database of MCP_SQL_DSN or MCP_SQL_DSN_FILE as the server would, reports what
the role may do and how the server is set up, and prints the SQL that makes a right role. It changes nothing, and locks
itself down before it connects, as serve does: start it as the same user, in the same container.

Usage: mcp-server-suite doctor [--json | --sql]

  --json  one line of JSON
  --sql   only the SQL that makes a right role, for psql; it names another role than the one of the DSN where that one has
          a fault

A line marked fault is a right that the server refuses to serve with (MCP_SQL_ALLOW_UNSAFE_ROLE=true serves all the
same); one marked advice could be better.

Exit codes: 0 no fault, 1 a fault, or the database cannot be reached, 2 configuration or usage, 3 the lock-down could
not be had.
`
