package main

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licences gives each module that may be linked the SPDX expression of its licence, as somebody has read it. Code from
// these modules that says otherwise in a file of its own is found by [licenceFiles].
var licences = map[string]string{
	"github.com/google/jsonschema-go":        "MIT",
	"github.com/jackc/pgpassfile":            "MIT",
	"github.com/jackc/pgservicefile":         "MIT",
	"github.com/jackc/pgx/v5":                "MIT",
	"github.com/jackc/puddle/v2":             "MIT",
	"github.com/modelcontextprotocol/go-sdk": "Apache-2.0 AND MIT", // contributions from before the change stay MIT
	"github.com/pganalyze/pg_query_go/v6": "BSD-3-Clause AND PostgreSQL AND BSD-2-Clause AND ISC AND MIT AND Spencer-99 AND " +
		"(GPL-3.0-or-later WITH Bison-exception-2.2)",
	"github.com/prometheus/procfs":         "Apache-2.0",
	"github.com/seccomp/libseccomp-golang": "BSD-2-Clause",
	"github.com/segmentio/asm":             "MIT",
	"github.com/segmentio/encoding":        "MIT",
	"github.com/yosida95/uritemplate/v3":   "BSD-3-Clause",
	"golang.org/x/oauth2":                  "BSD-3-Clause",
	"golang.org/x/sync":                    "BSD-3-Clause",
	"golang.org/x/sys":                     "BSD-3-Clause",
	"golang.org/x/text":                    "BSD-3-Clause",
	"golang.org/x/time":                    "BSD-3-Clause",
	"google.golang.org/protobuf":           "BSD-3-Clause",
}

// embedding gives the modules that hold C code of others the copyright holders whose terms their licence files state.
var embedding = map[string]*regexp.Regexp{
	"github.com/pganalyze/pg_query_go/v6": regexp.MustCompile(`PostgreSQL Global Development Group|pganalyze|Lukas Fittl`),
}

// module is a Go module that the daemon links.
type module struct {
	path, version string
	licence       string // SPDX expression
	texts         string // all licence files, one after the other
}

// linked returns the modules of the daemon, for every architecture that is shipped, in the order of their paths. root
// is the root of the repository, goCommand the go command.
func linked(root, goCommand string) ([]module, error) {
	found := map[string]*module{}
	folders := map[string]string{}
	files := map[string][]string{} // module path -> licence files
	for _, arch := range []string{"amd64", "arm64"} {
		// The tags are those of scripts/build.sh; [matches] compares the result with what a program says of itself.
		// #nosec G204 G702 -- the go command of this build
		list := exec.Command(goCommand, "list", "-deps", "-tags", "netgo,osusergo", "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}\t{{$.Dir}}\t{{with .Replace}}{{.}}{{end}}"+
				"{{end}}{{end}}", "./cmd/mcp-server-suite")
		list.Dir = root
		list.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=1")
		var stderr bytes.Buffer
		list.Stderr = &stderr
		out, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("list modules for %s: %w: %s", arch, err, strings.TrimSpace(stderr.String()))
		}
		for line := range strings.Lines(string(out)) {
			fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			if len(fields) != 5 {
				return nil, fmt.Errorf("list modules for %s: %q has not five fields", arch, line)
			}
			path, version, dir, pkg := fields[0], fields[1], fields[2], fields[3]
			if fields[4] != "" {
				return nil, fmt.Errorf("list modules: %s is replaced; whose licence holds then, a person must say", path)
			}
			found[path] = &module{path: path, version: version}
			folders[path] = dir
			files[path] = append(files[path], licenceFiles(dir, pkg)...)
		}
	}
	var all []module
	for path, m := range found {
		licence, ok := licences[path]
		if !ok {
			return nil, fmt.Errorf("nobody has read the licence of %s yet; add it to scripts/notices/modules.go", path)
		}
		m.licence = licence
		slices.Sort(files[path])
		for _, file := range slices.Compact(files[path]) {
			text, err := os.ReadFile(file) // #nosec G304 -- the go command says where modules are
			if err != nil {
				return nil, fmt.Errorf("read licence of %s: %w", path, err)
			}
			m.texts += tidy(string(text)) + "\n"
		}
		if m.texts == "" {
			return nil, fmt.Errorf("read licence of %s: it has no file that looks like one", path)
		}
		if holders := embedding[path]; holders != nil {
			inside, err := embeddedLicences(folders[path], holders)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			m.texts += strings.Join(slices.Concat([]string{""}, inside, []string{""}), "\n--------\n\n")
		}
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

var licenceName = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|copyright|notice|patents)([.-].*)?$`)

// licenceFiles returns the licence files of a package's folder and of all folders above it up to the module's own: a
// folder with somebody else's code in it has a file of its own.
func licenceFiles(dir, pkg string) []string {
	var files []string
	for at := pkg; ; at = filepath.Dir(at) {
		list, _ := os.ReadDir(at) // a folder that cannot be read has no file; a module without any is an error
		for _, file := range list {
			if file.Type().IsRegular() && licenceName.MatchString(file.Name()) {
				files = append(files, filepath.Join(at, file.Name()))
			}
		}
		if at == dir || len(at) <= len(dir) {
			return files
		}
	}
}

// matches fails unless a built program consists of exactly these modules.
func matches(all []module, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	var have, want []string
	for _, dep := range info.Deps {
		have = append(have, dep.Path+" "+dep.Version)
	}
	for _, m := range all {
		want = append(want, m.path+" "+m.version)
	}
	slices.Sort(have)
	slices.Sort(want)
	var faults []error
	for _, name := range have {
		if !slices.Contains(want, name) {
			faults = append(faults, fmt.Errorf("%s links %s, which the notices leave out", program, name))
		}
	}
	for _, name := range want {
		if !slices.Contains(have, name) {
			faults = append(faults, fmt.Errorf("%s does not link %s, which the notices name", program, name))
		}
	}
	return errors.Join(faults...)
}

// tidy returns a text without what only makes diffs: carriage returns, form feeds, spaces at the end of lines, empty
// lines at both ends.
func tidy(text string) string {
	text = strings.NewReplacer("\r", "", "\f", "").Replace(text)
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}
