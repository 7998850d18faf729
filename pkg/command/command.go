package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"mcp-server-suite/pkg/config"
	"mcp-server-suite/pkg/daemon"
	"mcp-server-suite/pkg/lockdown"
	"mcp-server-suite/pkg/strictjson"
)

// The exit codes.
const (
	ExitDone      = 0
	ExitVerdict   = 1
	ExitConfig    = 2
	ExitHardening = 3
)

// Environ is the environment as the process was given it. os.Environ hides a second entry of the same name, which others
// would read instead of the first; where the kernel does not show it (a confined process), os.Environ has to do.
func Environ() []string {
	text, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return os.Environ()
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == 0 })
}

// Process is what a process has: arguments without the program's name, environment as Environ gives it, streams, and the
// version that was built in.
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
	help          func(Process) int // nil: the text for all
}

func subcommands() []subcommand {
	return []subcommand{
		{"serve", "serve one MCP session on stdin and stdout (the default)", serve, nil},
		{"posture", "lock down as serve does and say what is in force; --help explains", posture, postureHelp},
		{"validate", "say what the SQL policy makes of one text, without a database; --help explains", validate, validateHelp},
		{"doctor", "report what the database role may do, and the SQL that makes a right one", doctor, doctorHelp},
		{"version", "print the version; --json for a program", version, nil},
		{"help", "print this text", help, nil},
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
			if c.help != nil {
				return c.help(p)
			}
			return help(p, nil)
		}
		code := c.run(p, rest)
		lockdown.WriteCoverage()
		return code
	}
	return usage(p, "unknown subcommand")
}

// usage reports a wrong command line in one line. It does not repeat it: an argument may be a secret in the wrong place.
func usage(p Process, what string) int {
	var names []string
	for _, c := range subcommands() {
		names = append(names, c.name)
	}
	fmt.Fprintf(p.Stderr, "mcp-server-suite: %s; known are %s (see --help; settings are environment variables)\n", what,
		strings.Join(names, ", "))
	return ExitConfig
}

// print is how a subcommand ends that has something to say on stdout.
func (p Process) print(text string) int {
	if _, err := io.WriteString(p.Stdout, text); err != nil {
		return p.refuse(ExitVerdict, "the output could not be written:", err)
	}
	return ExitDone
}

// refuse says why in one line on stderr, and gives the exit code.
func (p Process) refuse(code int, why ...any) int {
	fmt.Fprintln(p.Stderr, append([]any{"mcp-server-suite:"}, why...)...)
	return code
}

func serve(p Process, args []string) int {
	if len(args) > 0 {
		return usage(p, "serve takes no arguments, its settings are environment variables")
	}
	if err := daemon.CheckStreams(p.Stdin, p.Stdout); err != nil {
		return p.refuse(ExitConfig, err)
	}
	d, locked, code := lock(p)
	if d == nil {
		return code
	}
	d.Log(locked)
	// Not closed: Close would wait for work that ignores its cancellation, and the process ends here anyway.
	d.ServeStdio(p.Stdin, p.Stdout)
	return ExitDone
}

// readSettings reads the environment, or says on stderr all that is wrong with it.
func readSettings(p Process) (settings config.Config, ok bool) {
	settings, faults := config.Parse(p.Environ)
	for _, f := range faults {
		fmt.Fprintln(p.Stderr, "mcp-server-suite:", f.Text)
	}
	return settings, faults == nil
}

// lock is the way from the environment to a daemon that has only the rights it needs: read the settings, take away
// everything else, open, seal. Where the process is not confined yet it does not return, and the program begins anew.
// Without a daemon the code is the one to exit with, and the reason is on stderr.
func lock(p Process) (*daemon.Daemon, lockdown.Posture, int) {
	var d *daemon.Daemon
	locked, code := confine(p, func(settings config.Config, allowed lockdown.Cgroup) (err error) {
		d, err = daemon.Open(settings, allowed, p.Version, p.Stderr)
		daemon.WarnOfTerminal(p.Stdin, p.Stderr) // asks with ioctl, which is gone afterwards
		return err
	})
	if code != ExitDone {
		return nil, lockdown.Posture{}, code
	}
	return d, locked, ExitDone
}

// confine takes all rights away but those that the settings need, with open in between, which opens what is needed
// afterwards. Its code is the one to exit with, unless it is ExitDone; then the reason is on stderr.
func confine(p Process, open func(config.Config, lockdown.Cgroup) error) (lockdown.Posture, int) {
	// A write to a closed stdout or stderr is an error to handle, not the end of the process, from the first refusal on.
	signal.Ignore(syscall.SIGPIPE)
	settings, ok := readSettings(p)
	if !ok {
		return lockdown.Posture{}, ExitConfig
	}
	confined, err := daemon.Confine(settings, append([]string{"mcp-server-suite"}, p.Args...), p.Environ, p.Stderr)
	if wrong := (*daemon.SettingFault)(nil); errors.As(err, &wrong) {
		return lockdown.Posture{}, p.refuse(ExitConfig, err)
	}
	if err != nil {
		return lockdown.Posture{}, p.refuse(ExitHardening, err)
	}
	if err := open(settings, confined.Cgroup()); err != nil {
		return lockdown.Posture{}, p.refuse(ExitConfig, err)
	}
	locked, err := confined.Seal()
	if err != nil {
		return lockdown.Posture{}, p.refuse(ExitHardening, err)
	}
	return locked, ExitDone
}

func version(p Process, args []string) int {
	switch {
	case len(args) == 1 && args[0] == "--json":
		out := strictjson.AppendString([]byte(`{"name":"mcp-server-suite","version":`), p.Version)
		out = strictjson.AppendString(append(out, `,"go":`...), runtime.Version())
		return p.print(string(out) + "}\n")
	case len(args) == 0:
		return p.print(fmt.Sprintf("mcp-server-suite %s (%s)\n", p.Version, runtime.Version()))
	}
	return usage(p, "version takes --json or nothing")
}

func help(p Process, _ []string) int {
	var list strings.Builder
	for _, c := range subcommands() {
		fmt.Fprintf(&list, "  %-10s %s\n", c.name, c.summary)
	}
	return p.print(fmt.Sprintf(helpText, list.String(), config.Help()))
}

const helpText = `mcp-server-suite gives an MCP client bounded, read-only access to a PostgreSQL database, to one
directory tree and to the host's figures. It speaks JSON-RPC, one message a line, on stdin and stdout;
logs go to stderr.

Usage: mcp-server-suite [SUBCOMMAND]

%s
Try it (one line each way, then end of input):
  printf '%%s\n' '{"jsonrpc":"2.0","id":1,"method":"ping"}' | mcp-server-suite

Exit codes: 0 done, 1 a verdict against, 2 configuration or usage, 3 hardening.

%s`
