package command

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mcp-server-suite/pkg/lockdown"
)

// posture goes the way of serve up to the first byte of stdin, and says what is in force. What it proves is that this
// program, with these settings, on this machine, locks itself down; of a process that runs already /proc/PID/status
// tells more.
func posture(p Process, args []string) int {
	text, probes, kill := false, false, ""
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--json":
			text = false
		case args[i] == "--text":
			text = true
		case args[i] == "--probes":
			probes = true
		case args[i] == "--kill" && i+1 < len(args) && slices.Contains(lockdown.Fatal(), args[i+1]):
			i++
			kill = args[i]
		case args[i] == "--kill":
			return usage(p, "posture --kill takes one of "+strings.Join(lockdown.Fatal(), " "))
		default:
			return usage(p, "posture takes --json, --text, --probes and --kill NAME")
		}
	}
	_, locked, code := lock(p)
	switch {
	case code != ExitDone:
		return code
	case kill != "":
		fmt.Fprintln(p.Stderr, "mcp-server-suite:", lockdown.TryFatal(kill))
		return ExitVerdict
	case text:
		fmt.Fprint(p.Stdout, locked.Text())
	default:
		fmt.Fprintf(p.Stdout, "%s\n", locked.JSON())
	}
	if probes {
		return printProbes(p, locked.Denials, text)
	}
	return ExitDone
}

func printProbes(p Process, all []lockdown.Outcome, text bool) int {
	for _, o := range all {
		if text {
			fmt.Fprintf(p.Stdout, "%-42s %-9s want %-7s got %s\n", o.Name, o.Layer, o.Want, o.Got)
			continue
		}
		line, err := json.Marshal(o)
		if err != nil {
			fmt.Fprintln(p.Stderr, "mcp-server-suite:", err)
			return ExitVerdict
		}
		fmt.Fprintf(p.Stdout, "%s\n", line)
	}
	return ExitDone
}

func postureHelp(p Process) int {
	fmt.Fprintf(p.Stdout, postureText, strings.Join(lockdown.Fatal(), " "))
	return ExitDone
}

const postureText = `mcp-server-suite posture locks the process down as serve does, with the same settings, tries everything
that must be denied, and says what is in force. Nothing is served and nothing is read from stdin.

Usage: mcp-server-suite posture [--json | --text] [--probes] [--kill NAME]

  --json       one line of JSON (the default)
  --text       the same for a reader
  --probes     after that one line for each thing that was tried
  --kill NAME  after the lock-down make a system call that must end the process; a shell then shows exit code
               159 (128 + SIGSYS). NAME is one of
               %s

Level: full, everything is in force and nothing was opted out of; reduced, something is missing, and opt_outs,
landlock.missing and residual say what; off, neither Landlock nor the filter is in force.

Exit codes: 0 the lock-down is what the settings ask for, 1 the process has survived --kill, 2 configuration or
usage, 3 the lock-down could not be had.
`
