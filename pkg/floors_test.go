// Package pkg_test holds the house rules that a compiler cannot know: which package may import which, who may hold an
// import from outside, and what the linked daemon must not contain. The rules are values, and [law.broken] is a
// function of them and of the imports, so that a test can plant each violation and see it reported.
package pkg_test

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "mcp-server-suite"

// floors lists the packages from the ground up. A package may import packages of lower floors, and on its own floor
// only what stands after "may import". Moving a line is a design decision; it belongs in a commit of its own.
const floors = `
0 strictjson
0 visible
0 problem     may import strictjson visible
1 framing
1 envelope
1 session
1 sanitizer
1 admission
1 contract
1 sandboxfs
1 hostmetrics
1 pgpolicy
1 rowjson
1 int80
1 landlock
1 seccomp
2 postgres
3 surface
4 tools
4 pipeline
5 mcpserve
5 config
5 lockdown
6 daemon
7 command
8 rawclient
8 stage       may import rawclient
8 pgstage     may import rawclient stage
8 latency     may import rawclient
8 demo        may import rawclient
8 lockdowndump
`

// pending names lines of the table (and commands) that are being written: that they have no files yet is no fault.
// It is empty when all of them are written; an entry that exists is checked like every other package, and only its absence is forgiven.
var pending []string

// commands gives each program the packages it may import. A main has no logic of its own.
var commands = map[string][]string{
	"cmd/mcp-server-suite": {"command"},
	"cmd/mcp-proof":        {"command", "demo", "latency", "lockdowndump", "rawclient"},
}

// forbidden says what package from must not import although the floors would allow it: the parts that must not know of
// each other (to, by name), and why.
type forbidden struct {
	from string
	to   []string
	why  string
}

var blind = []forbidden{
	{
		"tools",
		[]string{"framing", "envelope", "session", "sanitizer", "admission"},
		"a tool joins a domain to the surface; the guards stand in front of it and it cannot reach around them",
	},
	{
		"pipeline",
		[]string{"sandboxfs", "hostmetrics", "pgpolicy", "rowjson", "postgres", "framing", "envelope", "session"},
		"the order of the guards holds for every tool alike; the wire is somebody else's station",
	},
	{
		"mcpserve",
		[]string{"sandboxfs", "hostmetrics", "pgpolicy", "rowjson", "postgres", "tools", "sanitizer"},
		"what speaks the protocol reaches a domain through the pipeline only",
	},
	{
		"surface",
		[]string{"sandboxfs", "hostmetrics", "pgpolicy", "rowjson", "postgres", "framing", "envelope", "session", "sanitizer", "admission"},
		"what a client can see is stated as values; it does not open, guard or frame anything",
	},
	{
		"config",
		[]string{"sandboxfs", "hostmetrics", "pgpolicy", "postgres", "surface", "tools", "pipeline"},
		"configuration owns names, defaults and bounds and knows no domain; the daemon maps it to each package's Settings",
	},
}

// absent names what the daemon must not link, and from where it is looked for.
var absent = struct {
	roots, names []string
	why          string
}{
	[]string{"cmd/mcp-server-suite", "command", "daemon"},
	[]string{"rawclient", "stage", "pgstage", "latency", "demo", "lockdowndump"},
	"proof and test support start processes; the daemon must not be able to",
}

// seat is the place of an import that not everybody may have.
type seat struct {
	why  string            // why the import is kept to few
	held map[string]string // package -> why it needs it; "*" is everybody
}

// seats covers an import path and everything below it; the longest path wins. An import from another module without a
// seat is refused, and so is one by a package that does not hold it. The standard library is free where nothing stands
// here. Test files are exempt: they attack, spawn and compare.
var seats = map[string]seat{
	"github.com/modelcontextprotocol/go-sdk": {
		"one place decides what the SDK may see and say",
		map[string]string{"mcpserve": "serves the conversation: initialize, lists, ping"},
	},
	"github.com/prometheus/procfs": {
		"reads files of the kernel by name",
		map[string]string{"hostmetrics": "parses /proc", "lockdown": "lists the mounts for the posture"},
	},
	"github.com/pganalyze/pg_query_go": {
		"what it says decides what reaches a database",
		map[string]string{"pgpolicy": "PostgreSQL's own parser"},
	},
	"google.golang.org/protobuf": {
		"walks trees by their description",
		map[string]string{"pgpolicy": "the parser's trees are protobuf, and no field of them may be passed over"},
	},
	"github.com/jackc/pgx": {
		"speaks to a database",
		map[string]string{
			"postgres": "the protocol, TLS and cancelling; pgconn alone: pgx above it would choose how a text is sent",
			"pgstage":  "fills the databases of tests",
			"latency":  "the bare program that queries are compared with",
		},
	},
	"github.com/jackc/puddle": {
		"keeps connections",
		map[string]string{"postgres": "the pool of pgx without pgx: bounded, cancellable, and well kept"},
	},
	"golang.org/x/sys": {
		"bare system calls",
		map[string]string{
			"sandboxfs":   "openat2, O_NOFOLLOW walks and fstat on descriptors have no counterpart in os",
			"hostmetrics": "statfs",
			"daemon":      "poll on stdout: a dead reader is noticed while a call runs",
			"landlock":    "the three system calls of Landlock",
			"seccomp":     "error numbers, the instructions of a filter",
			"latency":     "the CPU clock of another process",
			"pgstage":     "signals to the servers it started",
			"lockdown":    "limits, prctl, close_range, and every call that must be denied",
		},
	},
	"github.com/seccomp/libseccomp-golang": {
		"what it builds decides what the kernel lets through",
		map[string]string{"seccomp": "compiles the table"},
	},
	"golang.org/x/text": {
		"large tables that decide what bytes mean",
		map[string]string{"sandboxfs": "decodes the legacy encodings a caller may name"},
	},
	"golang.org/x/sync": {
		"synchronisation beyond the standard library",
		map[string]string{"admission": "the weighted semaphore is FIFO, a channel of slots is not"},
	},
	"os": {
		"opens files, reads the environment, ends the process",
		map[string]string{
			"sandboxfs":            "opens the root and reads below it",
			"postgres":             "reads the DSN file",
			"pgstage":              "folders and files of the servers of tests",
			"hostmetrics":          "opens /proc",
			"landlock":             "a test build is told by the environment which hole to plant",
			"lockdown":             "lists threads and descriptors, removes the mark from the environment",
			"seccomp":              "a file in memory, into which libseccomp writes the program",
			"config":               "looks at the paths it is given",
			"daemon":               "owns the streams and the signals",
			"command":              "owns the streams and the signals",
			"cmd/mcp-server-suite": "passes arguments, environment and streams, and exits",
			"cmd/mcp-proof":        "passes arguments, environment and streams, and exits",
			"rawclient":            "pipes to the daemon it started",
			"latency":              "the tree it measures on, and its report",
			"demo":                 "the tree it shows",
			"stage":                "folders and files for another user",
		},
	},
	"os/exec": {
		"starts programs; the daemon has none to start",
		map[string]string{
			"rawclient": "starts the daemon under test",
			"stage":     "builds the daemon under test",
			"pgstage":   "starts the servers of tests",
		},
	},
	"syscall": {
		"bare system calls, exec and fork among them",
		map[string]string{
			"sandboxfs":   "error numbers",
			"hostmetrics": "error numbers",
			"lockdown":    "begins the program anew",
			"seccomp":     "error numbers",
			"daemon":      "signal numbers",
			"command":     "signal numbers",
			"postgres":    "a look at a socket that does not wait",
			"rawclient":   "user and process group of the daemon under test",
			"latency":     "resource usage of the daemon under test",
			"pgstage":     "user and process group of the servers it starts",
			"demo":        "user and process group of the daemon it shows",
		},
	},
	"testing": {
		"test support does not belong into a program",
		map[string]string{"stage": "is test support", "pgstage": "is test support"},
	},
	"net": {
		"one session over stdin and stdout; nothing listens",
		map[string]string{
			"postgres": "dials the database of the DSN",
			"pgstage":  "free ports, and a proxy that cuts connections",
		},
	},
	"net/url":  {"parses only", map[string]string{"*": "parses only"}},
	"net/http": {"no HTTP server, no HTTP client", nil},
	"unsafe": {
		"memory safety is what the rest stands on",
		map[string]string{
			"landlock": "system calls without a wrapper",
			"lockdown": "system calls without a wrapper",
		},
	},
	"reflect": {
		"checks are written out where they can be read",
		map[string]string{"pgpolicy": "walks every field of a generated tree, so that none can be forgotten"},
	},
	"plugin": {"runs code from files", nil},
	"C": {
		"libseccomp is reached through its Go module",
		map[string]string{"pgpolicy": "the stack of the threads that run the parser, which a deep text would overrun"},
	},
	"io/ioutil": {
		"os under another name", nil,
	},
}

// law is all of the above, so that a test can hold the checker against it.
type law struct {
	floors   map[string]floor
	pending  []string
	commands map[string][]string
	blind    []forbidden
	seats    map[string]seat
}

type floor struct {
	number int
	same   []string // packages of the same floor that may be imported
}

func houseLaw(t *testing.T) law {
	t.Helper()
	table, err := parseFloors(floors)
	if err != nil {
		t.Fatal(err)
	}
	return law{table, pending, commands, blind, seats}
}

func parseFloors(text string) (map[string]floor, error) {
	table := map[string]floor{}
	for line := range strings.Lines(strings.TrimSpace(text)) {
		f := strings.Fields(line)
		if len(f) != 2 && (len(f) < 5 || f[2] != "may" || f[3] != "import") {
			return nil, fmt.Errorf("floors: read %q: want 'NUMBER PACKAGE' or 'NUMBER PACKAGE may import PACKAGE...'", line)
		}
		n, err := strconv.Atoi(f[0])
		if err != nil {
			return nil, fmt.Errorf("floors: read %q: %w", line, err)
		}
		if _, twice := table[f[1]]; twice {
			return nil, fmt.Errorf("floors: %s has two lines", f[1])
		}
		row := floor{number: n}
		if len(f) > 2 {
			row.same = f[4:]
		}
		table[f[1]] = row
	}
	return table, nil
}

// use is one import: its path and the file that has it.
type use struct{ path, file string }

// broken returns one sentence for each breach, sorted. imports has a key for every package that has files: the name
// below pkg/, or cmd/NAME for a program.
func (l law) broken(imports map[string][]use) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	edges := map[string][]string{}
	for name, uses := range imports {
		row, isPackage := l.floors[name]
		allowed, isCommand := l.commands[name]
		switch {
		case isPackage, isCommand:
		case strings.HasPrefix(name, "cmd/"):
			say("program %s has no line in commands", name)
			continue
		default:
			say("package %s has no floor: give it a line in floors", name)
			continue
		}
		for _, u := range uses {
			inner, ours := strings.CutPrefix(u.path, module+"/pkg/")
			if !ours {
				if text := l.unseated(name, u); text != "" {
					out = append(out, text)
				}
				continue
			}
			edges[name] = append(edges[name], inner)
			if isCommand {
				if !slices.Contains(allowed, inner) {
					say("%s: %s imports %s; a program may import %v", u.file, name, inner, allowed)
				}
				continue
			}
			to, known := l.floors[inner]
			switch {
			case !known:
				say("%s: %s imports %s, which has no floor", u.file, name, inner)
			case to.number > row.number:
				say("%s: %s (floor %d) imports up: %s (floor %d)", u.file, name, row.number, inner, to.number)
			case to.number == row.number && !slices.Contains(row.same, inner):
				say("%s: %s imports sideways: %s (both floor %d)", u.file, name, inner, row.number)
			}
			for _, b := range l.blind {
				if b.from == name && slices.Contains(b.to, inner) {
					say("%s: %s must not know %s: %s", u.file, name, inner, b.why)
				}
			}
		}
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(l.floors)), slices.Collect(maps.Keys(l.commands))) {
		if _, exists := imports[name]; !exists && !slices.Contains(l.pending, name) {
			say("%s has a line and no files", name)
		}
	}
	for _, name := range l.pending {
		if _, known := l.floors[name]; !known && l.commands[name] == nil {
			say("pending names %s, which has no line", name)
		}
	}
	for _, root := range absent.roots {
		if chain := linked(edges, root); chain != "" {
			say("the daemon links %s: %s", chain, absent.why)
		}
	}
	slices.Sort(out)
	return out
}

// unseated returns why name may not have the import, or nothing.
func (l law) unseated(name string, u use) string {
	at := u.path
	for at != "." && at != "/" {
		s, found := l.seats[at]
		if !found {
			at = path.Dir(at)
			continue
		}
		if s.held[name] != "" || s.held["*"] != "" {
			return ""
		}
		holders := "nobody"
		if len(s.held) > 0 {
			var each []string
			for _, who := range slices.Sorted(maps.Keys(s.held)) {
				each = append(each, fmt.Sprintf("%s (%s)", who, s.held[who]))
			}
			holders = strings.Join(each, ", ")
		}
		return fmt.Sprintf("%s: %s imports %s (%s); it is held by %s", u.file, name, u.path, s.why, holders)
	}
	first, _, _ := strings.Cut(u.path, "/")
	if first == module || strings.Contains(first, ".") {
		return fmt.Sprintf("%s: %s imports %s, which has no seat", u.file, name, u.path)
	}
	return ""
}

// linked returns one import chain from root to an absent package, or nothing.
func linked(edges map[string][]string, root string) string {
	seen := map[string]bool{}
	var walk func(string) []string
	walk = func(at string) []string {
		if seen[at] {
			return nil
		}
		seen[at] = true
		if slices.Contains(absent.names, at) {
			return []string{at}
		}
		for _, next := range edges[at] {
			if rest := walk(next); rest != nil {
				return append([]string{at}, rest...)
			}
		}
		return nil
	}
	return strings.Join(walk(root), " -> ")
}

// readImports reads the import declarations of every Go file of pkg and cmd, whatever its build tags, except test files
// and testdata.
func readImports(t *testing.T) map[string][]use {
	t.Helper()
	imports := map[string][]use{}
	for _, top := range []string{".", "../cmd"} {
		err := filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // cmd before its first program
			case err != nil:
				return err
			case d.IsDir():
				if base := d.Name(); base == "testdata" || len(base) > 2 && (base[0] == '.' || base[0] == '_') {
					return fs.SkipDir
				}
				return nil
			case !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
				return nil
			}
			name := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../")
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				return fmt.Errorf("read imports: %w", err)
			}
			uses := imports[name]
			for _, spec := range parsed.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					return fmt.Errorf("read imports of %s: %w", file, err)
				}
				uses = append(uses, use{imported, filepath.ToSlash(file)})
			}
			imports[name] = uses
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return imports
}

func TestImportsKeepToTheFloors(t *testing.T) {
	t.Parallel()
	imports := readImports(t)
	for _, text := range houseLaw(t).broken(imports) {
		t.Error(text)
	}
	for _, name := range pending {
		if _, exists := imports[name]; exists {
			t.Logf("pending: %s exists by now; strike it from the list", name)
		}
	}
}

// Every rule is broken once, on a tree that is otherwise lawful and complete, and must be reported once.
func TestEachBreachOfTheFloorsIsReported(t *testing.T) {
	t.Parallel()
	ours := func(name string) string { return module + "/pkg/" + name }
	cases := []struct {
		name, from, imported, want string
	}{
		{"up", "sanitizer", ours("pipeline"), "imports up: pipeline"},
		{"up from the ground", "strictjson", ours("framing"), "imports up: framing"},
		{"sideways", "envelope", ours("framing"), "imports sideways: framing"},
		{"sideways against the arrow", "strictjson", ours("problem"), "imports sideways: problem"},
		{"into a package without a floor", "tools", ours("util"), "util, which has no floor"},
		{"into a package below a package", "tools", ours("tools/inner"), "tools/inner, which has no floor"},
		{"a new package without a floor", "helpers", "fmt", "package helpers has no floor"},
		{"a nested package", "tools/inner", "fmt", "package tools/inner has no floor"},
		{"a new program", "cmd/other", "fmt", "program cmd/other has no line"},
		{"a program with more than its package", "cmd/mcp-server-suite", ours("config"), "a program may import [command]"},
		{"a tool that reaches a guard", "tools", ours("admission"), "tools must not know admission: a tool joins"},
		{"a pipeline that reaches a domain", "pipeline", ours("sandboxfs"), "pipeline must not know sandboxfs"},
		{"a protocol server that reaches a domain", "mcpserve", ours("hostmetrics"), "mcpserve must not know hostmetrics"},
		{"a surface that reaches a domain", "surface", ours("sandboxfs"), "surface must not know sandboxfs"},
		{"a configuration that reaches a domain", "config", ours("sandboxfs"), "config must not know sandboxfs"},
		{"a module without a seat", "tools", "example.org/x/y", "example.org/x/y, which has no seat"},
		{"our own module from elsewhere", "tools", module + "/scripts/x", "which has no seat"},
		{"a module in another's seat", "daemon", "github.com/modelcontextprotocol/go-sdk/mcp", "it is held by mcpserve (serves the conv"},
		{"x/sys without its seat", "mcpserve", "golang.org/x/sys/unix", "(poll on stdout: a dead reader"},
		{"os by a package that needs no files", "tools", "os", "tools imports os (opens files"},
		{"a package below os", "tools", "os/user", "tools imports os/user"},
		{"os/exec by a holder of os", "daemon", "os/exec", "rawclient (starts the daemon"},
		{"syscall", "pipeline", "syscall", "pipeline imports syscall"},
		{"net", "daemon", "net", "nothing listens"},
		{"a package below net", "daemon", "net/netip", "daemon imports net/netip"},
		{"net/http", "rawclient", "net/http", "no HTTP server"},
		{"net/http below", "rawclient", "net/http/httptest", "no HTTP server"},
		{"unsafe", "strictjson", "unsafe", "memory safety"},
		{"reflect", "contract", "reflect", "written out"},
		{"cgo", "hostmetrics", "C", "reached through its Go module"},
		{"testing in a program", "daemon", "testing", "stage (is test support"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			imports := lawfulTree(t)
			imports[c.from] = append(imports[c.from], use{c.imported, "planted.go"})
			got := houseLaw(t).broken(imports)
			if len(got) != 1 || !strings.Contains(got[0], c.want) {
				t.Errorf("%s imports %s: reported %q, want one report with %q", c.from, c.imported, got, c.want)
			}
		})
	}
	t.Run("a line without a package", func(t *testing.T) {
		t.Parallel()
		for name := range lawfulTree(t) {
			imports, l := lawfulTree(t), houseLaw(t)
			delete(imports, name)
			l.pending = nil
			if got := l.broken(imports); len(got) != 1 || got[0] != name+" has a line and no files" {
				t.Errorf("without %s: reported %q", name, got)
			}
			l.pending = []string{name}
			if got := l.broken(imports); len(got) != 0 {
				t.Errorf("pending %s: reported %q", name, got)
			}
		}
	})
	t.Run("pending without a line", func(t *testing.T) {
		t.Parallel()
		l := houseLaw(t)
		l.pending = []string{"util"}
		if got := l.broken(lawfulTree(t)); len(got) != 1 || !strings.Contains(got[0], "pending names util") {
			t.Errorf("reported %q", got)
		}
	})
	t.Run("a daemon that links proof through another package", func(t *testing.T) {
		t.Parallel()
		l, imports := houseLaw(t), lawfulTree(t)
		// As if somebody had moved the client down to make the floors quiet.
		l.floors["rawclient"] = floor{number: 0}
		imports["mcpserve"] = append(imports["mcpserve"], use{ours("rawclient"), "planted.go"})
		imports["daemon"] = append(imports["daemon"], use{ours("mcpserve"), "daemon.go"})
		imports["command"] = append(imports["command"], use{ours("daemon"), "command.go"})
		imports["cmd/mcp-server-suite"] = append(imports["cmd/mcp-server-suite"], use{ours("command"), "main.go"})
		want := "the daemon links cmd/mcp-server-suite -> command -> daemon -> mcpserve -> rawclient"
		got := l.broken(imports)
		if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("reported %q, want %q", got, want)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		imports := lawfulTree(t)
		imports["problem"] = append(imports["problem"], use{ours("strictjson"), "x.go"}, use{"strings", "x.go"})
		imports["surface"] = append(imports["surface"], use{"net/url", "x.go"}, use{ours("contract"), "x.go"})
		imports["demo"] = append(imports["demo"], use{ours("rawclient"), "x.go"}, use{"os/signal", "x.go"})
		if got := houseLaw(t).broken(imports); len(got) != 0 {
			t.Errorf("a lawful tree is reported: %q", got)
		}
	})
	t.Run("a table that cannot be read", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"x tools", "1", "1 tools may", "1 tools imports problem", "1 tools\n2 tools"} {
			if table, err := parseFloors(text); err == nil {
				t.Errorf("%q is read as %v", text, table)
			}
		}
	})
}

// lawfulTree has every package and program of the table, without imports.
func lawfulTree(t *testing.T) map[string][]use {
	t.Helper()
	imports := map[string][]use{}
	for name := range houseLaw(t).floors {
		imports[name] = nil
	}
	for name := range commands {
		imports[name] = nil
	}
	return imports
}

// unlinked lists what must not be in the daemon's symbol table: the function in which every way to do the thing ends
// (wrappers are inlined and leave no symbol; these are too large for that). A name that ends in a dot stands for all
// methods. The go-sdk imports os/exec and net/http; with only its server over our own transport in use the linker drops
// the parts named here (measured with v1.8.0 and Go 1.26).
var unlinked = map[string]string{
	"os.StartProcess":            "starts a program",
	"os/exec.(*Cmd).Start":       "starts a program",
	"syscall.forkExec":           "starts a program",
	"net.(*ListenConfig).Listen": "listens",
	"net/http.(*Server).":        "serves HTTP",
	"net/http.(*Client).":        "speaks HTTP",
}

// forbiddenSymbols returns the keys of unlinked that symbols hold, sorted.
func forbiddenSymbols(symbols []string) []string {
	hit := map[string]bool{}
	for _, symbol := range symbols {
		for name := range unlinked {
			if symbol == name || strings.HasSuffix(name, ".") && strings.HasPrefix(symbol, name) {
				hit[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(hit))
}

// buildSymbols builds pkg in folder dir as the Makefile does and returns the names in the symbol table.
func buildSymbols(t *testing.T, dir, pkg string) []string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "binary")
	script, err := filepath.Abs("../scripts/build.sh")
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), script, "-o", binary, pkg)
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // opened for reading
	table, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, symbol := range table {
		names = append(names, symbol.Name)
	}
	if !slices.Contains(names, "main.main") {
		t.Fatalf("%s has no symbol main.main among %d: the table says nothing", pkg, len(names))
	}
	return names
}

// The test cache does not know what `go build` reads. It does know what this process opens: readImports opens every Go
// file of pkg and cmd, so a change to any of them runs this test again; the other files it depends on are opened here.
func TestDaemonCannotSpawnListenOrSpeakHTTP(t *testing.T) {
	t.Parallel()
	if _, exists := readImports(t)["cmd/mcp-server-suite"]; !exists {
		t.Skip("cmd/mcp-server-suite has no files yet: there is no daemon to look into")
	}
	for _, name := range []string{"../go.mod", "../go.sum", "../scripts/build.sh"} {
		if _, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range forbiddenSymbols(buildSymbols(t, "..", "./cmd/mcp-server-suite")) {
		t.Errorf("the daemon links %s: %s", name, unlinked[name])
	}
}

// The daemon links syscall.Exec, because it begins itself anew (package lockdown). No other place may name it, or the
// number of the call.
func TestOnlyTheLockdownReplacesTheProgram(t *testing.T) {
	t.Parallel()
	allowed := map[string]bool{
		"lockdown/enter.go":    true,
		"lockdown/hole_try.go": true, // of a test build; what is shipped is looked into above
	}
	found := map[string]bool{}
	for _, uses := range readImports(t) {
		for _, u := range uses {
			text, err := os.ReadFile(u.file)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"syscall.Exec", "unix.Exec", "SYS_EXECVE", "ForkExec", "StartProcess"} {
				if bytes.Contains(text, []byte(name)) {
					found[u.file] = true
				}
			}
		}
	}
	for file := range found {
		if !allowed[file] {
			t.Errorf("%s can replace the program", file)
		}
	}
	for file := range allowed {
		if !found[file] {
			t.Errorf("%s does not replace the program any more: strike it from the list", file)
		}
	}
}

// A program that does what the daemon must not do shows every symbol of the list.
func TestForbiddenSymbolsAreFoundWhereTheyAre(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source := map[string]string{
		"go.mod": "module planted\n\ngo 1.26\n",
		"main.go": `package main

import (
	"net"
	"net/http"
	"os"
	"os/exec"
)

func main() {
	if len(os.Args) < 100 {
		return
	}
	_ = exec.Command(os.Args[1]).Run()
	_, _ = net.Listen(os.Args[1], os.Args[2])
	_ = http.ListenAndServe(os.Args[1], nil)
	_, _ = http.Get(os.Args[1])
}
`,
	}
	for name, text := range source {
		if err := os.WriteFile(filepath.Join(dir, name), bytes.TrimSpace([]byte(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := forbiddenSymbols(buildSymbols(t, dir, "."))
	if want := slices.Sorted(maps.Keys(unlinked)); !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}
