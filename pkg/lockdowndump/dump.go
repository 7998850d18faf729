package lockdowndump

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"mcp-server-suite/pkg/landlock"
	"mcp-server-suite/pkg/seccomp"
)

const (
	exitDone  = 0
	exitWrong = 1
	exitUsage = 2
)

// examplePID stands for the daemon's process id, which the filter pins. In a container it is 1.
const examplePID = 1

// Main runs the subcommand and returns its exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("lockdown-dump", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	asJSON := flags.Bool("json", false, "")
	oci := flags.Bool("oci", false, "")
	pfc := flags.Bool("pfc", false, "")
	arch := flags.String("arch", "", "")
	profiles := flags.String("profiles", "", "")
	without := flags.Bool("without-landlock", false, "")
	if err := flags.Parse(args); err == flag.ErrHelp {
		fmt.Fprint(stdout, help)
		return exitDone
	} else if err != nil {
		return usage(stderr, "an argument is unknown, or lacks its value")
	}
	switch {
	case flags.NArg() > 0:
		return usage(stderr, "it takes options only")
	case *oci && *pfc || *oci && *asJSON || *pfc && *asJSON:
		return usage(stderr, "one of --json, --oci and --pfc")
	case !*pfc && (*arch != "" || *profiles != "" || *without):
		return usage(stderr, "--arch, --profiles and --without-landlock go with --pfc")
	case *arch != "" && *arch != "amd64" && *arch != "arm64":
		return usage(stderr, "--arch is amd64 or arm64")
	}
	settings := seccomp.Settings{PID: examplePID, Openat2: !*without, Arch: *arch}
	for _, name := range strings.FieldsFunc(*profiles, func(r rune) bool { return r == ',' }) {
		p := seccomp.Profile(name)
		if !slices.Contains([]seccomp.Profile{seccomp.Base, seccomp.SQL, seccomp.Audit, seccomp.Socket}, p) {
			return usage(stderr, "profiles are base, sql, audit and socket")
		}
		if p != seccomp.Base {
			settings.Profiles = append(settings.Profiles, p)
		}
		if p == seccomp.SQL { // with every kind of socket that a DSN can ask for
			settings.INET, settings.Unix, settings.DNS = true, true, true
		}
	}
	var out []byte
	var err error
	switch {
	case *oci:
		out, err = seccomp.OCI()
	case *pfc:
		var filter *seccomp.Filter
		if filter, err = seccomp.Compile(settings); err == nil {
			var text string
			text, err = filter.PFC()
			out = []byte(text)
		}
	case *asJSON:
		out, err = json.MarshalIndent(tables(), "", "  ")
		out = append(out, '\n')
	default:
		out = []byte(text())
	}
	if err != nil {
		fmt.Fprintln(stderr, "mcp-proof lockdown-dump:", err)
		return exitWrong
	}
	if _, err := stdout.Write(out); err != nil {
		fmt.Fprintln(stderr, "mcp-proof lockdown-dump:", err)
		return exitWrong
	}
	return exitDone
}

func usage(stderr io.Writer, what string) int {
	fmt.Fprintf(stderr, "mcp-proof lockdown-dump: %s (see --help)\n", what)
	return exitUsage
}

// call and right are the rows as a program reads them.
type call struct {
	ID         string      `json:"id"`
	Syscall    string      `json:"syscall"`
	Action     string      `json:"action"`
	Conditions []condition `json:"conditions"`
	Profile    string      `json:"profile"`
	If         string      `json:"if,omitempty"`
	Archs      []string    `json:"archs"`
	Why        string      `json:"why"`
}

type condition struct {
	Argument uint   `json:"argument"`
	Mask     string `json:"mask"`
	Value    string `json:"value"`
}

func (c condition) String() string {
	if c.Mask == fmt.Sprintf("%#x", ^uint64(0)) {
		return fmt.Sprintf("arg%d == %s", c.Argument, c.Value)
	}
	return fmt.Sprintf("arg%d & %s == %s", c.Argument, c.Mask, c.Value)
}

type right struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Bit   string `json:"bit"`
	ABI   int    `json:"abi"`
	Takes string `json:"takes"`
}

type dump struct {
	Syscalls []call  `json:"syscalls"`
	Landlock []right `json:"landlock"`
}

func tables() dump {
	var d dump
	for _, row := range seccomp.Table() {
		c := call{
			row.ID, row.Syscall, row.Action.String(),
			[]condition{},
			string(row.Profile), string(row.If),
			row.Archs, row.Why,
		}
		if len(c.Archs) == 0 {
			c.Archs = []string{"amd64", "arm64"}
		}
		for _, arg := range row.Args {
			value := fmt.Sprintf("%#x", arg.Value)
			if arg.PID {
				value = "own pid"
			}
			c.Conditions = append(c.Conditions, condition{arg.Arg, fmt.Sprintf("%#x", arg.Mask), value})
		}
		d.Syscalls = append(d.Syscalls, c)
	}
	for _, r := range landlock.Rights() {
		d.Landlock = append(d.Landlock, right{r.Name, string(r.Kind), fmt.Sprintf("%#x", r.Bit), r.ABI, r.Takes})
	}
	return d
}

func text() string {
	var b strings.Builder
	d := tables()
	fmt.Fprintf(&b, "System calls: what no row names answers EPERM, another architecture ends the process.\n\n")
	for _, c := range d.Syscalls {
		var when []string
		for _, cond := range c.Conditions {
			when = append(when, cond.String())
		}
		if c.If != "" {
			when = append(when, "with "+c.If)
		}
		if len(c.Archs) == 1 {
			when = append(when, c.Archs[0]+" only")
		}
		fmt.Fprintf(&b, "%-12s %-7s %s", c.Action, c.Profile, c.ID)
		if len(when) > 0 {
			fmt.Fprintf(&b, " [%s]", strings.Join(when, "; "))
		}
		fmt.Fprintf(&b, "\n%21s%s\n", "", c.Why)
	}
	fmt.Fprintf(&b, "\nLandlock: what the domain takes away, by the first ABI that can.\n\n")
	for _, r := range d.Landlock {
		fmt.Fprintf(&b, "%2d  %-6s %-22s %s\n", r.ABI, r.Kind, r.Name, r.Takes)
	}
	return b.String()
}

const help = `mcp-proof lockdown-dump prints what the daemon's lock-down consists of.

Usage: mcp-proof lockdown-dump [--json | --oci | --pfc [OPTIONS]]

  (nothing)           every system call of the table and every right of Landlock, with its reason
  --json              the same for a program
  --oci               a seccomp profile for the container runtime, the outer wall (images/seccomp.json)
  --pfc               the compiled filter in libseccomp's pseudo filter code; with
    --arch NAME       amd64 or arm64 (default: this machine's)
    --profiles LIST   base, sql, audit, socket, separated by commas (default: base)
    --without-landlock  the stricter filter of a process without Landlock, or with one before ABI 3

Exit codes: 0 done, 1 it could not be had, 2 wrong usage.
`
