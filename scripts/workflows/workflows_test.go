// Package workflows_test holds the rules for .github/workflows and scripts/pin-actions.sh, which run with rights that
// the code does not have: least permissions, no text of strangers in a shell, nothing downloaded into one, an end to
// every job, and a release that waits for its checks. Each rule is shown to find what it is for.
//
// It reads the workflows and does not run them; whether what they call does its job is the business of what they call.
//
// Needs: bash and git, for the script. An attacker controls what a pull request changes in these files; who merges it
// reads the diff, and these rules are not a substitute for that.
package workflows_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const root = "../.."

// workflow is what the rules look at; unknown keys are left to GitHub (and actionlint).
type workflow struct {
	On          any               `yaml:"on"`
	Permissions map[string]string `yaml:"permissions"`
	Concurrency struct {
		Group string `yaml:"group"`
	} `yaml:"concurrency"`
	Defaults struct {
		Run struct {
			Shell string `yaml:"shell"`
		} `yaml:"run"`
	} `yaml:"defaults"`
	Jobs map[string]job `yaml:"jobs"`
}

type job struct {
	Needs       any               `yaml:"needs"`
	RunsOn      string            `yaml:"runs-on"`
	Timeout     int               `yaml:"timeout-minutes"`
	Permissions map[string]string `yaml:"permissions"`
	Uses        string            `yaml:"uses"`
	Container   any               `yaml:"container"`
	Services    any               `yaml:"services"`
	Steps       []step            `yaml:"steps"`
}

type step struct {
	Name string         `yaml:"name"`
	Uses string         `yaml:"uses"`
	With map[string]any `yaml:"with"`
	Run  string         `yaml:"run"`
}

// writes is every right to change something that a job may hold. Everything else reads.
var writes = map[string][]string{
	"release.yml publish":  {"packages", "id-token"},
	"release.yml announce": {"contents"},
}

// triggers are the events that may start something. pull_request_target and workflow_run are not among them: they run
// with the rights of the repository on what a stranger sent.
var triggers = []string{"push", "pull_request", "schedule", "workflow_call"}

var (
	// Actions of GitHub itself only; the rest are Go modules by version, which the database of sums covers.
	action  = regexp.MustCompile(`^actions/[a-z-]+@(v[0-9]+(\.[0-9]+)*|[0-9a-f]{40})$`)
	piped   = regexp.MustCompile(`(curl|wget)[^\n]*\|\s*(sudo\s+)?(ba|da|z)?sh\b|(ba|da|z)?sh\s+<\(\s*(curl|wget)`)
	loose   = regexp.MustCompile(`go (run|install) \S+/\S+@(latest|master|main|HEAD)\b`)
	script  = regexp.MustCompile(`\b(?:scripts|smoke)/[a-z-]+\.sh\b|\.ci/run\b`)
	machine = regexp.MustCompile(`^(ubuntu-[0-9]{2}\.[0-9]{2}(-arm)?|\$\{\{ matrix\.runner \}\})$`)
)

// list reads a value that GitHub takes as a name, a list of names or an object with names.
func list(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, one := range v {
			all = append(all, fmt.Sprint(one))
		}
		return all
	case map[string]any:
		return slices.Sorted(maps.Keys(v))
	}
	return nil
}

// faults says what is wrong with one workflow.
func faults(name string, text []byte) []string {
	var w workflow
	if err := yaml.Unmarshal(text, &w); err != nil {
		return []string{err.Error()}
	}
	var found []string
	complain := func(format string, a ...any) { found = append(found, fmt.Sprintf(format, a...)) }
	events := list(w.On)
	if len(events) == 0 {
		complain("nothing starts it")
	}
	for _, event := range events {
		if !slices.Contains(triggers, event) {
			complain("it is started by %s", event)
		}
	}
	if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
		complain("its own permissions are %v, not contents: read", w.Permissions)
	}
	if w.Concurrency.Group == "" {
		complain("it has no concurrency group")
	}
	if w.Defaults.Run.Shell != "bash" {
		complain("the shell is not bash by name, so a failure inside a pipe is not seen")
	}
	if len(w.Jobs) == 0 {
		complain("it has no jobs")
	}
	for id, j := range w.Jobs {
		for _, fault := range j.faults(name, id) {
			complain("%s: %s", id, fault)
		}
	}
	slices.Sort(found)
	return found
}

func (j job) faults(file, id string) []string {
	var found []string
	complain := func(format string, a ...any) { found = append(found, fmt.Sprintf(format, a...)) }
	if j.Permissions == nil {
		complain("it does not say its permissions")
	}
	for scope, right := range j.Permissions {
		if right != "read" && right != "none" && !slices.Contains(writes[file+" "+id], scope) {
			complain("it may %s %s", right, scope)
		}
	}
	if j.Uses != "" {
		if !strings.HasPrefix(j.Uses, "./.github/workflows/") {
			complain("it runs a workflow from elsewhere: %s", j.Uses)
		}
		return found
	}
	if j.Timeout < 1 || j.Timeout > 60 {
		complain("it may take %d minutes", j.Timeout)
	}
	if !machine.MatchString(j.RunsOn) {
		complain("it runs on %q, which is not one system", j.RunsOn)
	}
	if j.Container != nil || j.Services != nil {
		complain("its container is pulled by a name")
	}
	for i, s := range j.Steps {
		for _, fault := range s.faults(file) {
			complain("step %d: %s", i+1, fault)
		}
	}
	return found
}

func (s step) faults(file string) []string {
	var found []string
	complain := func(format string, a ...any) { found = append(found, fmt.Sprintf(format, a...)) }
	if s.Uses != "" && !action.MatchString(s.Uses) {
		complain("%s is not an action of GitHub by tag or commit", s.Uses)
	}
	if strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["persist-credentials"] != false {
		complain("the token stays in the checkout")
	}
	if strings.HasPrefix(s.Uses, "actions/setup-go@") && file == "release.yml" && s.With["cache"] != false {
		complain("a release is built from a cache")
	}
	// Whatever is put into a script becomes a part of it: a branch or a title may hold a command. In env it is a value.
	if strings.Contains(s.Run, "${{") {
		complain("an expression stands in a script")
	}
	if piped.MatchString(s.Run) {
		complain("what is downloaded is run")
	}
	if loose.MatchString(s.Run) {
		complain("a tool without a version")
	}
	for _, path := range script.FindAllString(s.Run, -1) {
		if info, err := os.Stat(filepath.Join(root, path)); err != nil || info.Mode()&0o111 == 0 {
			complain("%s is not a script that can be run", path)
		}
	}
	return found
}

func files(t *testing.T) map[string][]byte {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, ".github/workflows/*"))
	if err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	all := map[string][]byte{}
	for _, path := range found {
		if all[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestWorkflowsKeepTheRules(t *testing.T) {
	for name, text := range files(t) {
		for _, fault := range faults(name, text) {
			t.Errorf("%s: %s", name, fault)
		}
	}
}

func TestEachRuleFindsWhatItIsFor(t *testing.T) {
	all := files(t)
	for _, c := range []struct{ file, old, bad, want string }{
		{"ci.yml", "  pull_request:\n", "  pull_request_target:\n", "started by pull_request_target"},
		{"ci.yml", "on:\n", "on:\n  workflow_run: {workflows: [x]}\n", "started by workflow_run"},
		{"ci.yml", "permissions:\n  contents: read\n", "", "its own permissions"},
		{"ci.yml", "permissions:\n  contents: read\n", "permissions: write-all\n", "cannot unmarshal"},
		{"ci.yml", "permissions:\n  contents: read\n", "permissions: {contents: write}\n", "its own permissions"},
		{"ci.yml", "    permissions:\n      contents: read\n", "", "does not say its permissions"},
		{"ci.yml", "      contents: read\n", "      packages: write\n", "may write packages"},
		{"release.yml", "      id-token: write", "      contents: write", "may write contents"},
		{"ci.yml", "concurrency:\n", "x-concurrency:\n", "no concurrency group"},
		{"ci.yml", "    shell: bash\n", "    shell: sh\n", "not bash"},
		{"ci.yml", "    timeout-minutes: 20\n", "", "0 minutes"},
		{"ci.yml", "    timeout-minutes: 20\n", "    timeout-minutes: 360\n", "360 minutes"},
		{"ci.yml", "ubuntu-24.04\n", "ubuntu-latest\n", "not one system"},
		{"ci.yml", "ubuntu-24.04\n", "ubuntu-24.04\n    container: golang:1.26\n", "pulled by a name"},
		{"ci.yml", "          persist-credentials: false\n", "          fetch-depth: 0\n", "token stays"},
		{"release.yml", "          cache: false\n", "          check-latest: true\n", "from a cache"},
		{"ci.yml", "actions/setup-go@", "someone/setup-go@", "not an action of GitHub"},
		{"release.yml", "actions/upload-artifact@", "actions/upload-artifact@main #", "not an action of GitHub"},
		{"ci.yml", "run: make check", "run: echo ${{ github.event.head_commit.message }}", "an expression"},
		{"ci.yml", "run: make check", "run: curl -s x.example/i | sudo bash", "downloaded is run"},
		{"ci.yml", "run: make check", "run: bash <(curl -s x.example/i)", "downloaded is run"},
		{"ci.yml", "govulncheck@v1.9.0", "govulncheck@latest", "without a version"},
		{"ci.yml", "scripts/image.sh", "scripts/no-such.sh", "not a script"},
		{"release.yml", "uses: ./.github/", "uses: someone/x/.github/", "from elsewhere"},
	} {
		bad := strings.Replace(string(all[c.file]), c.old, c.bad, 1)
		if bad == string(all[c.file]) {
			t.Errorf("%q is not in %s", c.old, c.file)
			continue
		}
		if found := strings.Join(faults(c.file, []byte(bad)), "; "); !strings.Contains(found, c.want) {
			t.Errorf("%s with %q is not found (want %q): %q", c.file, c.bad, c.want, found)
		}
	}
}

// needs is everything that must have passed before a job begins.
func (w workflow) needs(id string) []string {
	var all []string
	for _, one := range list(w.Jobs[id].Needs) {
		all = append(append(all, one), w.needs(one)...)
	}
	return all
}

func (j job) script() string {
	var b strings.Builder
	for _, s := range j.Steps {
		b.WriteString(s.Run + "\n")
	}
	return b.String()
}

func TestNothingIsPublishedBeforeItWasTried(t *testing.T) {
	var w workflow
	if err := yaml.Unmarshal(files(t)["release.yml"], &w); err != nil {
		t.Fatal(err)
	}
	for id := range w.Jobs {
		if id != "pinned" && !slices.Contains(w.needs(id), "pinned") {
			t.Errorf("%s does not wait for the check of the pins", id)
		}
	}
	for _, s := range w.Jobs["pinned"].Steps {
		if s.Uses != "" {
			t.Errorf("the check of the pins trusts %s", s.Uses)
		}
	}
	if !strings.Contains(w.Jobs["pinned"].script(), "scripts/pin-actions.sh --check") {
		t.Error("nothing checks the pins")
	}
	for key := range writes {
		id, is := strings.CutPrefix(key, "release.yml ")
		if !is {
			continue
		}
		for _, before := range []string{"ci", "image"} {
			if !slices.Contains(w.needs(id), before) {
				t.Errorf("%s does not wait for %s", id, before)
			}
		}
	}
	image := w.Jobs["image"].script()
	at := -1
	for _, part := range []string{
		"scripts/image.sh", "cmp dist/", "docker load", "smoke/smoke-docker.sh --tap --image",
		"govulncheck", "cyclonedx-gomod", "trivy",
	} {
		next := strings.Index(image, part)
		if next <= at {
			t.Errorf("%q is missing in the job image, or comes too early", part)
		}
		at = next
	}
	publish := w.Jobs["publish"].script()
	verify, name := strings.Index(publish, "cosign verify"), strings.LastIndex(publish, "skopeo copy")
	if verify < 0 || name < verify {
		t.Error("the image gets its name before its signature is verified")
	}
}
