package command

import (
	"bytes"
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
	text, probes, kill, least := false, false, "", ""
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
		case args[i] == "--require" && i+1 < len(args) && (args[i+1] == string(lockdown.Full) || args[i+1] == string(lockdown.Reduced)):
			i++
			least = args[i]
		case args[i] == "--require":
			return p.refuse(ExitConfig, "posture --require takes full or reduced")
		case args[i] == "--kill":
			return p.refuse(ExitConfig, "posture --kill takes one name of a list, execve for instance (see posture --help)")
		default:
			return usage(p, "posture takes --json, --text, --probes, --require LEVEL and --kill NAME")
		}
	}
	_, locked, code := lock(p)
	switch {
	case code != ExitDone:
		return code
	case kill != "":
		return p.refuse(ExitVerdict, fmt.Sprintf("%v (seccomp in force: %t)", lockdown.TryFatal(kill), locked.Seccomp.Enforced))
	}
	var report bytes.Buffer
	if text {
		report.WriteString(locked.Text())
	} else {
		report.Write(append(locked.JSON(), '\n'))
	}
	if probes {
		printProbes(&report, locked.Denials, text)
	}
	if code := p.print(report.String()); code != ExitDone {
		return code
	}
	if least == string(lockdown.Full) && locked.Level != lockdown.Full || least != "" && locked.Level == lockdown.None {
		return p.refuse(ExitVerdict, "the level is", string(locked.Level)+", and at least", least, "is required")
	}
	return ExitDone
}

func printProbes(to *bytes.Buffer, all []lockdown.Outcome, text bool) {
	for _, o := range all {
		if text {
			fmt.Fprintf(to, "%-42s %-9s want %-7s got %s\n", o.Name, o.Layer, o.Want, o.Got)
			continue
		}
		line, err := json.Marshal(o)
		if err != nil {
			panic(err) // strings and booleans
		}
		to.Write(append(line, '\n'))
	}
}

func postureHelp(p Process) int {
	return p.print(fmt.Sprintf(postureText, strings.Join(lockdown.Fatal(), " ")))
}

const postureText = `mcp-server-suite posture locks the process down as serve does, with the same settings, tries everything
that must be denied, and says what is in force. Nothing is served and nothing is read from stdin.

Usage: mcp-server-suite posture [--json | --text] [--probes] [--require LEVEL] [--kill NAME]

  --json       one line of JSON (the default)
  --text       the same for a reader
  --probes     after that one line for each thing that was tried
  --require L  exit 1 if the level is lower than L: full, or reduced
  --kill NAME  after the lock-down make a system call that must end the process; a shell then shows exit code
               159 (128 + SIGSYS). NAME is one of
               %s

Level: full, both layers are in force, nothing was opted out of, and what this kernel's Landlock lacks is refused by
the filter (landlock.missing says what); reduced, an opt-out is set or something is left, and opt_outs and residual
say what; off, neither Landlock nor the filter is in force.

Exit codes: 0 the lock-down is what the settings ask for, 1 the process has survived --kill, or --require is not met, 2 configuration or
usage, 3 the lock-down could not be had.
`
