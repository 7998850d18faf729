// Package compose_test keeps the ways to start the container the same: docker-run.flags is the one list, and
// compose.yaml, the client configurations below clients/ and the block in README.md must say what it says.
//
// There is no code to link here, only files for people and their tools. The client configurations are written by
// `make golden`; everything is read back by a reader of its own that knows which flags of docker may be used.
//
// Needs: nothing, apart from TestLive. An attacker controls nothing here.
//
// It does not check what the flags do; smoke/smoke-docker.sh does. TestLive... starts what is written here once, where
// a docker daemon has the image.
package compose_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// image is the name that scripts/image.sh --tag ... --load gives, and that everything here starts.
const image = "mcp-server-suite:local"

// placeholder stands in docker-run.flags for the directory of the host that is served.
const placeholder = "{data}"

// option is one flag of `docker run` that may be used here.
type option struct {
	short string // one letter, or ""
	value bool   // takes a value
	many  bool   // may be there more than once
}

// options is every flag that a configuration may have. What is missing is missing on purpose: -t rewrites the stream,
// -v makes directories that are not there, and the rest (--privileged, --cap-add, --device, ...) gives away what the
// others take.
var options = map[string]option{
	"rm":           {},
	"interactive":  {short: "i"},
	"pull":         {value: true},
	"user":         {short: "u", value: true},
	"read-only":    {},
	"cap-drop":     {value: true, many: true},
	"security-opt": {value: true, many: true},
	"network":      {value: true},
	"log-driver":   {value: true},
	"tmpfs":        {value: true, many: true},
	"pids-limit":   {value: true},
	"memory":       {short: "m", value: true},
	"cpus":         {value: true},
	"mount":        {value: true, many: true},
	"env":          {short: "e", value: true, many: true},
}

// run is one container as it is asked for: long option names with their values ("true" for those without), and the
// image.
type run struct {
	options map[string][]string
	image   string
}

// parseRun reads the arguments of docker, from "run" to the image. It is an error when a flag is not one of options,
// has no value or is there twice, and when anything follows the image: its own command is the right one.
func parseRun(args []string) (run, error) {
	if len(args) == 0 || args[0] != "run" {
		return run{}, fmt.Errorf("parse docker arguments: the first is not run: %q", args)
	}
	r := run{options: map[string][]string{}}
	for i := 1; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") {
			if i != len(args)-1 {
				return run{}, fmt.Errorf("parse docker arguments: something follows the image %q: %q", args[i], args[i+1:])
			}
			r.image = args[i]
			return r, nil
		}
		name, known := longName(args[i])
		if !known {
			return run{}, fmt.Errorf("parse docker arguments: no flag is called %q here", args[i])
		}
		value := "true"
		if options[name].value {
			if i++; i == len(args) || strings.HasPrefix(args[i], "-") {
				return run{}, fmt.Errorf("parse docker arguments: --%s has no value", name)
			}
			value = args[i]
		}
		if len(r.options[name]) > 0 && !options[name].many {
			return run{}, fmt.Errorf("parse docker arguments: --%s is there twice", name)
		}
		r.options[name] = append(r.options[name], value)
	}
	return run{}, fmt.Errorf("parse docker arguments: there is no image: %q", args)
}

func longName(flag string) (string, bool) {
	if long, is := strings.CutPrefix(flag, "--"); is {
		_, known := options[long]
		return long, known
	}
	for name, o := range options {
		if o.short != "" && flag == "-"+o.short {
			return name, true
		}
	}
	return "", false
}

// readFlags reads docker-run.flags, with data in the place of the placeholder: the arguments of docker up to the image.
func readFlags(t *testing.T, data string) []string {
	t.Helper()
	text, err := os.ReadFile("docker-run.flags")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"run"}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		flag, value, has := strings.Cut(line, " ")
		args = append(args, flag)
		if has {
			args = append(args, strings.ReplaceAll(value, placeholder, data))
		}
	}
	return args
}

// wanted is what docker-run.flags asks for.
func wanted(t *testing.T, data string) run {
	t.Helper()
	r, err := parseRun(append(readFlags(t, data), image))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// differences compares two containers flag by flag.
func differences(got, want run) []string {
	var found []string
	names := slices.Sorted(maps.Keys(got.options))
	for name := range want.options {
		if _, both := got.options[name]; !both {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if g, w := got.options[name], want.options[name]; !slices.Equal(g, w) {
			found = append(found, fmt.Sprintf("--%s is %q, in docker-run.flags %q", name, g, w))
		}
	}
	if got.image != want.image {
		found = append(found, fmt.Sprintf("the image is %q, want %q", got.image, want.image))
	}
	return found
}

func TestTheListHasTheProfileOfTheSeed(t *testing.T) {
	got := wanted(t, "/srv/data").options
	for _, c := range []struct{ name, value, why string }{
		{"rm", "true", "containers of dead clients would pile up"},
		{"interactive", "true", "without it stdin is /dev/null and the session ends at once"},
		{"user", "10001:10001", "the server refuses uid 0; a name cannot be checked by runAsNonRoot"},
		{"read-only", "true", "seed 000"},
		{"cap-drop", "ALL", "seed 000; the server refuses capabilities"},
		{"security-opt", "no-new-privileges:true", "seed 000"},
		{"network", "none", "seed 000"},
		{"tmpfs", "/tmp:rw,noexec,nosuid,nodev,size=16m", "seed 000"},
		{"pids-limit", "64", "seed 000"},
		{"memory", "256m", "seed 000"},
		{"cpus", "1", "seed 000"},
		{"mount", "type=bind,src=/srv/data,dst=/safe_data_dir,readonly", "seed 000: the data directory, read-only"},
		{"log-driver", "none", "answers would be kept on the host's disk"},
		{"pull", "never", "a registry may have another image of that name"},
	} {
		if !slices.Equal(got[c.name], []string{c.value}) {
			t.Errorf("--%s is %q, want %q: %s", c.name, got[c.name], c.value, c.why)
		}
	}
}

func TestArgumentsThatBreakASessionAreRefused(t *testing.T) {
	good := append(readFlags(t, "/srv/data"), image)
	if _, err := parseRun(good); err != nil {
		t.Fatal(err)
	}
	at := func(i int, args ...string) []string { return slices.Insert(slices.Clone(good), i, args...) }
	for _, c := range []struct {
		name string
		args []string
		why  string
	}{
		{"nothing", nil, "docker alone prints its help on stdout"},
		{"another command", append([]string{"exec"}, good[1:]...), "a second process is outside the lock-down"},
		{"no image", good[:len(good)-1], "docker takes the last value for it, or fails"},
		{"image in front", slices.Insert(slices.Clone(good[:len(good)-1]), 1, image), "the flags go to the server"},
		{"a command", append(slices.Clone(good), "sh"), "the image's own command is the one that serves"},
		{"-t", at(1, "-t"), "a terminal rewrites the stream"},
		{"--tty", at(1, "--tty"), "the same by its long name"},
		{"-it", at(1, "-it"), "the same in a bundle"},
		{"--privileged", at(1, "--privileged"), "gives back what the others take"},
		{"--volume", at(1, "-v", "/:/host"), "makes directories that are not there"},
		{"twice", at(1, "--network", "host"), "the last one wins, silently"},
		{"no value", at(1, "--network"), "the next flag would be taken for it"},
		{"typing error", at(1, "--readonly"), "docker does not start, and a client says only that the server ended"},
	} {
		if r, err := parseRun(c.args); err == nil {
			t.Errorf("%s was taken (%v): %s", c.name, r, c.why)
		}
	}
}
