// Command mcp-proof lets a user check, offline, what mcp-server-suite claims. See its --help.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"mcp-server-suite/pkg/demo"
	"mcp-server-suite/pkg/latency"
	"mcp-server-suite/pkg/lockdowndump"
)

// version is set by the linker in a release build.
var version = "dev"

func main() {
	os.Exit(run(process{os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr}))
}

// The exit codes of this program itself; 1 is a subcommand's verdict against.
const (
	exitDone  = 0
	exitUsage = 2
)

// process is what a process has: arguments without the program's name, environment, streams.
type process struct {
	args    []string
	environ []string
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
}

// subcommand is one row of the table of subcommands; run gets the arguments behind its name.
type subcommand struct {
	name, summary string
	run           func(p process, args []string) int
}

func subcommands() []subcommand {
	return []subcommand{
		{"demo", "drive the daemon through one session and check every answer (--help)", func(p process, args []string) int {
			return demo.Main(args, p.environ, p.stdout, p.stderr)
		}},
		{"latency", "measure the daemon against bare programs, as ratios (--help)", func(p process, args []string) int {
			return latency.Main(args, p.stdin, p.stdout, p.stderr)
		}},
		{"lockdown-dump", "print the system-call table, the filter and an outer profile (--help)", func(p process, args []string) int {
			return lockdowndump.Main(args, p.stdout, p.stderr)
		}},
		{"version", "print the version", func(p process, args []string) int {
			if len(args) > 0 {
				return usage(p, "version takes no arguments")
			}
			fmt.Fprintf(p.stdout, "mcp-proof %s (%s)\n", version, runtime.Version())
			return exitDone
		}},
		{"help", "print this text", func(p process, _ []string) int { return help(p) }},
	}
}

// run runs one subcommand and returns the exit code.
func run(p process) int {
	if len(p.args) == 0 {
		return usage(p, "a subcommand is missing")
	}
	name := p.args[0]
	switch name {
	case "-h", "--help":
		name = "help"
	case "--version":
		name = "version"
	}
	for _, c := range subcommands() {
		if c.name == name {
			return c.run(p, p.args[1:])
		}
	}
	return usage(p, "unknown subcommand")
}

// usage reports a wrong command line in one line.
func usage(p process, what string) int {
	var names []string
	for _, c := range subcommands() {
		names = append(names, c.name)
	}
	fmt.Fprintf(p.stderr, "mcp-proof: %s; known are %s (see --help)\n", what, strings.Join(names, ", "))
	return exitUsage
}

func help(p process) int {
	var list strings.Builder
	for _, c := range subcommands() {
		fmt.Fprintf(&list, "  %-14s %s\n", c.name, c.summary)
	}
	fmt.Fprintf(p.stdout, helpText, list.String())
	return exitDone
}

const helpText = `mcp-proof lets you check what mcp-server-suite claims, on your own machine and offline. It starts
the daemon as any MCP client would, over stdin and stdout, and looks at what comes back. It is never
part of the daemon, which can start no program.

Usage: mcp-proof SUBCOMMAND [OPTIONS]

%s
Begin with:
  mcp-proof demo                 what the daemon does and what it refuses, in a few seconds
  mcp-proof latency --quick      what it costs, in about fifteen

Both look for the daemon, mcp-server-suite, beside this program; --daemon PATH names another. When
root runs them, the daemon becomes user 10001, as in its image.

Exit codes: 0 done; 1 a claim did not hold (demo) or a figure could not be measured (latency);
2 wrong usage.
`
