package command

import (
	"fmt"
	"io"
	"runtime"
	"strings"

	"mcp-server-suite/pkg/config"
	"mcp-server-suite/pkg/daemon"
	"mcp-server-suite/pkg/strictjson"
)

// The exit codes.
const (
	ExitDone   = 0
	ExitConfig = 2
)

// Process is what a process has: arguments without the program's name, environment as os.Environ gives it, streams, and
// the version that was built in.
type Process struct {
	Args    []string
	Environ []string
	Version string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
}

// subcommand is one row of the table of subcommands.
type subcommand struct {
	name, summary string
	run           func(Process, []string) int
}

func subcommands() []subcommand {
	return []subcommand{
		{"serve", "serve one MCP session on stdin and stdout (the default)", serve},
		{"version", "print the version; --json for a program", version},
		{"help", "print this text", help},
	}
}

// Main runs one subcommand and returns the exit code.
func Main(p Process) int {
	name, rest := "serve", p.Args
	if len(p.Args) > 0 {
		name, rest = p.Args[0], p.Args[1:]
	}
	switch name {
	case "-h", "--help":
		name = "help"
	case "--version":
		name = "version"
	}
	for _, c := range subcommands() {
		if c.name != name {
			continue
		}
		if len(rest) > 0 && (rest[0] == "-h" || rest[0] == "--help") {
			return help(p, nil)
		}
		return c.run(p, rest)
	}
	return usage(p, "unknown subcommand")
}

// usage reports a wrong command line in one line. It does not repeat it: an argument may be a secret in the wrong place.
func usage(p Process, what string) int {
	var names []string
	for _, c := range subcommands() {
		names = append(names, c.name)
	}
	fmt.Fprintf(p.Stderr, "mcp-server-suite: %s; known are %s (see --help)\n", what, strings.Join(names, ", "))
	return ExitConfig
}

func serve(p Process, args []string) int {
	if len(args) > 0 {
		return usage(p, "serve takes no arguments, its settings are environment variables")
	}
	settings, faults := config.Parse(p.Environ)
	for _, f := range faults {
		fmt.Fprintln(p.Stderr, "mcp-server-suite:", f.Text)
	}
	if faults != nil {
		return ExitConfig
	}
	d, err := daemon.Open(settings, p.Version, p.Stderr)
	if err != nil {
		fmt.Fprintln(p.Stderr, "mcp-server-suite:", err)
		return ExitConfig
	}
	// Not closed: Close would wait for work that ignores its cancellation, and the process ends here anyway.
	d.ServeStdio(p.Stdin, p.Stdout, p.Stderr)
	return ExitDone
}

func version(p Process, args []string) int {
	switch {
	case len(args) == 1 && args[0] == "--json":
		out := strictjson.AppendString([]byte(`{"name":"mcp-server-suite","version":`), p.Version)
		out = strictjson.AppendString(append(out, `,"go":`...), runtime.Version())
		fmt.Fprintf(p.Stdout, "%s}\n", out)
	case len(args) == 0:
		fmt.Fprintf(p.Stdout, "mcp-server-suite %s (%s)\n", p.Version, runtime.Version())
	default:
		return usage(p, "version takes --json or nothing")
	}
	return ExitDone
}

func help(p Process, _ []string) int {
	var list strings.Builder
	for _, c := range subcommands() {
		fmt.Fprintf(&list, "  %-10s %s\n", c.name, c.summary)
	}
	fmt.Fprintf(p.Stdout, helpText, list.String(), config.Help())
	return ExitDone
}

const helpText = `mcp-server-suite gives an MCP client bounded, read-only access to one directory tree and to the
host's figures. It speaks JSON-RPC, one message a line, on stdin and stdout; logs go to stderr.

Usage: mcp-server-suite [SUBCOMMAND]

%s
Try it (one line each way, then end of input):
  printf '%%s\n' '{"jsonrpc":"2.0","id":1,"method":"ping"}' | mcp-server-suite

Exit codes: 0 done, 1 a verdict against, 2 configuration or usage, 3 hardening.

%s`
