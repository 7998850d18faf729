package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

const usage = `usage: notices [--check] [--binary FILE]

Run at the root of the repository. Writes images/THIRD_PARTY_NOTICES.md; with --check it only says whether the file is
what would be written. --binary compares the modules with those that a built daemon says it consists of. A C library of
this machine in another version than the file names is a warning. GO is the go command.
Exit codes: 0 done, 1 it is not up to date or could not be made, 2 usage.
`

// file is the document, from the root of the repository.
const file = "images/THIRD_PARTY_NOTICES.md"

func main() {
	goCommand := os.Getenv("GO")
	if goCommand == "" {
		goCommand = "go"
	}
	os.Exit(command(os.Args[1:], goCommand, os.Stdout, os.Stderr))
}

func command(args []string, goCommand string, stdout, stderr io.Writer) int {
	check, program := false, ""
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--check":
			check = true
		case args[i] == "--binary" && i+1 < len(args):
			i++
			program = args[i]
		case args[i] == "--help" || args[i] == "-h":
			_, _ = io.WriteString(stdout, usage) // nobody is left to tell
			return 0
		default:
			_, _ = fmt.Fprintf(stderr, "notices: %q is not an option; see --help\n", args[i]) // as above
			return 2
		}
	}
	for _, line := range strange(libraries) {
		_, _ = fmt.Fprintf(stderr, "notices: warning: %s\n", line) // as above
	}
	if err := work(check, program, goCommand); err != nil {
		_, _ = fmt.Fprintf(stderr, "notices: %s\n", strings.ReplaceAll(err.Error(), "\n", "; ")) // as above
		return 1
	}
	return 0
}

func work(check bool, program, goCommand string) error {
	modules, err := linked(".", goCommand)
	if err != nil {
		return err
	}
	if program != "" {
		if err := matches(modules, program); err != nil {
			return err
		}
	}
	now, err := document(modules)
	if err != nil {
		return err
	}
	if !check {
		return os.WriteFile(file, []byte(now), 0o644) // #nosec G306 -- a document for everybody
	}
	then, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return current(string(then), now)
}

// current fails unless then, the file, is now, and names the first line that is not.
func current(then, now string) error {
	if then == now {
		return nil
	}
	have, want := strings.Split(then, "\n"), strings.Split(now, "\n")
	for i := range want {
		if i >= len(have) || have[i] != want[i] {
			return fmt.Errorf("%s is not up to date: line %d should be %q; run make golden", file, i+1, want[i])
		}
	}
	return errors.New(file + " is not up to date: it is too long; run make golden")
}

// strange returns a line for each library that this machine has in another version than the document names. A machine
// that cannot be asked has none to link.
func strange(all []library) []string {
	var lines []string
	for _, l := range all {
		out, err := exec.Command(l.ask[0], l.ask[1:]...).Output() // #nosec G204 -- the table in document.go
		fields := strings.Fields(string(out))
		if err != nil || len(fields) == 0 {
			continue
		}
		if have := fields[len(fields)-1]; have != l.version {
			lines = append(lines, fmt.Sprintf("%s is %s here, and %s says %s", l.name, have, file, l.version))
		}
	}
	return lines
}
