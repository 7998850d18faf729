package command_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tree is what SECURITY.md may name.
type tree struct {
	root    string              // the repository
	tests   map[string]struct{} // functions Test... and Fuzz... of all packages
	checks  map[string]struct{} // functions of the smoke test
	targets map[string]struct{} // targets of the Makefile
}

var (
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	shellCheck   = regexp.MustCompile(`(?m)^([a-z_]+)\(\)`)
	makeTarget   = regexp.MustCompile(`(?m)^([a-z-]+):`)

	span      = regexp.MustCompile("`([^`]+)`")
	link      = regexp.MustCompile(`\]\(([^)]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced    = regexp.MustCompile("(?ms)^```.*?^```$")
	testName  = regexp.MustCompile(`^(?:Test|Fuzz)[A-Z]\w*$`)
	checkName = regexp.MustCompile(`^[a-z]+(?:_[a-z]+)+$`)
	slugless  = regexp.MustCompile(`[^a-z0-9 -]`)
)

// namesIn adds what pattern finds in the files to a set.
func namesIn(t *testing.T, pattern *regexp.Regexp, files ...string) map[string]struct{} {
	t.Helper()
	set := map[string]struct{}{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range pattern.FindAllStringSubmatch(string(text), -1) {
			set[found[1]] = struct{}{}
		}
	}
	return set
}

func readTree(t *testing.T) tree {
	t.Helper()
	const root = "../.."
	var sources []string
	for _, top := range []string{"cmd", "compose", "pkg", "scripts"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, "_test.go") && d.Type().IsRegular() {
				sources = append(sources, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	scripts, err := filepath.Glob(filepath.Join(root, "smoke/docker/*.sh"))
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	return tree{
		root:    root,
		tests:   namesIn(t, testFunction, sources...),
		checks:  namesIn(t, shellCheck, scripts...),
		targets: namesIn(t, makeTarget, filepath.Join(root, "Makefile")),
	}
}

// missing returns what text names and the tree does not have, sorted, each once. It looks at words in backticks (tests,
// checks of the smoke test, make targets, relative paths) and at links, those to its own headings included.
func (w tree) missing(text string) []string {
	var lost []string
	want := func(set map[string]struct{}, name, kind string) {
		if _, known := set[name]; !known {
			lost = append(lost, kind+" "+name)
		}
	}
	file := func(path string) {
		if _, err := os.Stat(filepath.Join(w.root, path)); err != nil {
			lost = append(lost, "file "+path)
		}
	}
	text = fenced.ReplaceAllString(text, "")
	for _, s := range span.FindAllStringSubmatch(text, -1) {
		words := strings.Fields(s[1])
		switch {
		case len(words) == 0:
		case testName.MatchString(s[1]):
			want(w.tests, s[1], "test")
		case s[1] == "sandbox_fs_read", s[1] == "system_metrics", s[1] == "read_only_sql": // tools, not checks
		case s[1] == "temp_file_limit": // a setting of PostgreSQL
		case checkName.MatchString(s[1]):
			want(w.checks, s[1], "check")
		case words[0] == "make" && len(words) == 2:
			want(w.targets, words[1], "target")
		case strings.Contains(words[0], "/") && !strings.HasPrefix(words[0], "/"):
			file(words[0])
		}
	}
	slugs := map[string]struct{}{}
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		slug := slugless.ReplaceAllString(strings.ToLower(h[1]), "")
		slugs[strings.ReplaceAll(slug, " ", "-")] = struct{}{}
	}
	for _, l := range link.FindAllStringSubmatch(text, -1) {
		path, anchor, _ := strings.Cut(l[1], "#")
		switch {
		case strings.Contains(path, "://"):
		case path == "":
			want(slugs, anchor, "heading")
		default:
			file(path)
		}
	}
	slices.Sort(lost)
	return slices.Compact(lost)
}

// A control that names a test which is gone, or was called so by mistake, is a promise without a proof.
func TestDocsSecurityNamesWhatExists(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range readTree(t).missing(string(text)) {
		t.Errorf("SECURITY.md names what is not there: %s", name)
	}
}

func TestDocsANameThatIsNotThereIsFound(t *testing.T) {
	w := readTree(t)
	for _, c := range []struct{ name, text, want, why string }{
		{"test", "`TestMain` `TestNoSuchThing`", "test TestNoSuchThing", "renamed"},
		{"fuzz target", "`FuzzScan` `FuzzNoSuchThing`", "test FuzzNoSuchThing", "the same"},
		{"check", "`host_user` `host_users`", "check host_users", "a check of the smoke test"},
		{"tool", "`system_metrics`", "", "looks like a check and is none"},
		{"target", "`make test` `make believe`", "target believe", "a command must exist, too"},
		{"path", "`pkg/sandboxfs` `pkg/no-such`", "file pkg/no-such", "a folder that was moved"},
		{"script with an option", "`scripts/no-such.sh --check`", "file scripts/no-such.sh", "the first word is the file"},
		{"path of the system", "`/proc/self/no-such`", "", "not of this repository"},
		{"link", "[a](README.md#kernels) [b](no-such.md)", "file no-such.md", ""},
		{"link to the web", "[a](https://example.org/no-such)", "", "needs the network"},
		{"heading", "## A heading, too\n[a](#a-heading-too) [b](#no-such)", "heading no-such", ""},
		{"block", "```sh\n`make believe`\n```\n", "", "a shell has backticks of its own"},
		{"twice", "`FuzzNo` `FuzzNo`", "test FuzzNo", "one fault, one line"},
		{"prose", "TestNoSuchThing stands outside backticks", "", "only what is marked as a name is one"},
	} {
		if got := strings.Join(w.missing(c.text), "; "); got != c.want {
			t.Errorf("%s (%s): %q, want %q", c.name, c.why, got, c.want)
		}
	}
}
