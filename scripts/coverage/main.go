package main

import (
	"fmt"
	"io"
	"os"
)

const usage = `usage: coverage [--json] PROFILE...
       coverage --complete FOLDER

Run at the root of the repository. The first form holds profiles (go test -coverprofile, go tool covdata textfmt)
against the law in scripts/coverage/law.go. The second removes from a folder of GOCOVERDIR what processes that were
killed have left unfinished, which go tool covdata does not read, and says how much that was.
Exit codes: 0 the law is kept, 1 it is not or could not be looked at, 2 usage.
`

func main() { os.Exit(command(os.Args[1:], ours(), ".", os.Stdout, os.Stderr)) }

// command is the program for a law and the folder of the module. It returns the exit code.
func command(args []string, l law, root string, stdout, stderr io.Writer) int {
	asJSON := false
	var profiles []string
	for i, arg := range args {
		switch {
		case arg == "--help" || arg == "-h":
			_, _ = io.WriteString(stdout, usage) // nobody is left to tell
			return 0
		case arg == "--complete" && i == 0 && len(args) == 2:
			return complete(args[1], stdout, stderr)
		case arg == "--json":
			asJSON = true
		case len(arg) > 0 && arg[0] == '-':
			_, _ = fmt.Fprintf(stderr, "coverage: %q is not an option; see --help\n", arg) // as above
			return 2
		default:
			profiles = append(profiles, arg)
		}
	}
	if len(profiles) == 0 {
		_, _ = fmt.Fprintln(stderr, "coverage: a profile is missing; see --help") // as above
		return 2
	}
	r, err := l.judgeFiles(profiles, root)
	if err == nil {
		if asJSON {
			err = r.writeJSON(stdout)
		} else {
			err = r.writeText(stdout)
		}
	}
	switch {
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "coverage: %v\n", err) // as above
		return 1
	case !r.OK:
		return 1
	}
	return 0
}

func (l law) judgeFiles(profiles []string, root string) (report, error) {
	c := counts{}
	for _, path := range profiles {
		if err := c.readFile(path); err != nil {
			return report{}, err
		}
	}
	return l.judge(c, root)
}
