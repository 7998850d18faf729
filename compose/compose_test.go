package compose_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"mcp-server-suite/pkg/config"
)

// composeFile is what a file of ours may have, and nothing else: a key that Compose does not know, or that nobody here
// compares, is a fault.
type composeFile struct {
	Name     string             `yaml:"name"`
	Services map[string]service `yaml:"services"`
}

type service struct {
	Image       string            `yaml:"image"`
	Pull        string            `yaml:"pull_policy"`
	Stdin       bool              `yaml:"stdin_open"`
	TTY         *bool             `yaml:"tty"`
	Restart     string            `yaml:"restart"`
	Logging     map[string]string `yaml:"logging"`
	User        string            `yaml:"user"`
	ReadOnly    bool              `yaml:"read_only"`
	CapDrop     []string          `yaml:"cap_drop"`
	SecurityOpt []string          `yaml:"security_opt"`
	Network     string            `yaml:"network_mode"`
	Tmpfs       []string          `yaml:"tmpfs"`
	PIDs        string            `yaml:"pids_limit"`
	Memory      string            `yaml:"mem_limit"`
	Reservation string            `yaml:"mem_reservation"`
	CPUs        string            `yaml:"cpus"`
	Volumes     []volume          `yaml:"volumes"`
	Environment map[string]string `yaml:"environment"`
}

type volume struct {
	Type     string `yaml:"type"`
	Source   string `yaml:"source"`
	Target   string `yaml:"target"`
	ReadOnly bool   `yaml:"read_only"`
	Bind     struct {
		Create *bool `yaml:"create_host_path"`
	} `yaml:"bind"`
	Volume struct {
		NoCopy bool `yaml:"nocopy"`
	} `yaml:"volume"`
}

var variable = regexp.MustCompile(`\$\{([A-Z_]+):-([^}]*)\}`)

// readCompose reads one file strictly, with every variable at its default.
func readCompose(t *testing.T, text []byte) (composeFile, error) {
	t.Helper()
	text = variable.ReplaceAll(text, []byte("$2"))
	if i := bytes.IndexByte(text, '$'); i >= 0 {
		return composeFile{}, fmt.Errorf("read compose file: a variable without a default: %.40q", text[i:])
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	var f composeFile
	if err := d.Decode(&f); err != nil {
		return composeFile{}, fmt.Errorf("read compose file: %w", err)
	}
	return f, nil
}

// asRun says what `docker run` would be given for the same container, as `docker compose run --rm -T` starts it.
func (s service) asRun() (run, error) {
	if len(s.Volumes) != 1 || s.Volumes[0].Bind.Create == nil || *s.Volumes[0].Bind.Create {
		return run{}, fmt.Errorf("the service has other volumes than one that must exist: %+v", s.Volumes)
	}
	v := s.Volumes[0]
	mount := "type=" + v.Type + ",src=" + v.Source + ",dst=" + v.Target
	if v.ReadOnly {
		mount += ",readonly"
	}
	r := run{image: s.Image, options: map[string][]string{
		"rm":           {"true"},
		"pull":         {s.Pull},
		"user":         {s.User},
		"cap-drop":     s.CapDrop,
		"security-opt": s.SecurityOpt,
		"network":      {s.Network},
		"log-driver":   {s.Logging["driver"]},
		"tmpfs":        s.Tmpfs,
		"pids-limit":   {s.PIDs},
		"memory":       {s.Memory},
		"cpus":         {s.CPUs},
		"mount":        {mount},
	}}
	if s.Stdin {
		r.options["interactive"] = []string{"true"}
	}
	if s.ReadOnly {
		r.options["read-only"] = []string{"true"}
	}
	for name, value := range s.Environment {
		r.options["env"] = append(r.options["env"], name+"="+value)
	}
	slices.Sort(r.options["env"])
	return r, nil
}

// settingsFaults says what the server would refuse in these variables (NAME=value), and which are no settings of it.
func settingsFaults(t *testing.T, env []string) []string {
	t.Helper()
	var found, given []string
	settings := config.Settings()
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		if !slices.ContainsFunc(settings, func(s config.Setting) bool { return s.Name == name }) {
			found = append(found, name+" is no setting")
		}
		if name == "MCP_SAFE_DATA_DIR" {
			value = t.TempDir() // it exists in the container only
		}
		given = append(given, name+"="+value)
	}
	_, faults := config.Parse(given)
	for _, f := range faults {
		found = append(found, fmt.Sprint(f))
	}
	return found
}

// composeFaults compares a compose file with docker-run.flags.
func composeFaults(t *testing.T, text []byte) []string {
	t.Helper()
	f, err := readCompose(t, text)
	if err != nil {
		return []string{err.Error()}
	}
	s, one := f.Services["mcp-server"]
	if !one || len(f.Services) != 1 || f.Name != "mcp-server-suite" {
		return []string{fmt.Sprintf("project %q has the services %v", f.Name, f.Services)}
	}
	got, err := s.asRun()
	if err != nil {
		return []string{err.Error()}
	}
	want := wanted(t, "../data")
	var found []string
	// The variables of the list are all there; what is there beside them is the server's own default, so that it can be
	// changed from outside and nothing differs when it is not.
	settings := config.Settings()
	for _, pair := range got.options["env"] {
		name, value, _ := strings.Cut(pair, "=")
		i := slices.IndexFunc(settings, func(s config.Setting) bool { return s.Name == name })
		if !slices.Contains(want.options["env"], pair) && (i < 0 || settings[i].Default != value) {
			found = append(found, pair+" is neither in docker-run.flags nor the server's default")
		}
	}
	for _, pair := range want.options["env"] {
		if !slices.Contains(got.options["env"], pair) {
			found = append(found, pair+" is missing")
		}
	}
	found = append(found, settingsFaults(t, got.options["env"])...)
	delete(got.options, "env")
	delete(want.options, "env")
	found = append(found, differences(got, want)...)
	// What has no flag.
	if s.TTY == nil || *s.TTY {
		found = append(found, "tty must be false, and say so")
	}
	if s.Restart != "no" {
		found = append(found, "restart must be no: a session that has ended has no client")
	}
	if len(s.Logging) != 1 {
		found = append(found, fmt.Sprintf("logging is %v", s.Logging))
	}
	if s.Reservation != "32m" {
		found = append(found, "mem_reservation is "+s.Reservation)
	}
	return found
}

func TestComposeFileIsTheList(t *testing.T) {
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range composeFaults(t, text) {
		t.Error(fault)
	}
}

func TestAnyLineOfTheComposeFileThatIsSofterIsFound(t *testing.T) {
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, soft, why string }{
		{"pull_policy: ${MCP_PULL_POLICY:-never}", "pull_policy: missing", "a registry is asked for a local name"},
		{"stdin_open: true", "stdin_open: false", "the session ends at once"},
		{"tty: false", "tty: true", "the stream is rewritten"},
		{"    tty: false\n", "", "left to a default"},
		{`restart: "no"`, "restart: always", "starts without a client, for ever"},
		{"driver: none", "driver: json-file", "answers are kept"},
		{`user: "10001:10001"`, `user: "0:0"`, "root"},
		{"read_only: true\n    cap_drop", "read_only: false\n    cap_drop", "writable root"},
		{"cap_drop: [ALL]", "cap_drop: [NET_RAW]", "capabilities"},
		{"no-new-privileges:true", "no-new-privileges:false", "setuid works"},
		{"network_mode: none", "network_mode: bridge", "network"},
		{"noexec,", "", "programs can be run from /tmp"},
		{"pids_limit: 64", "pids_limit: -1", "fork bomb"},
		{"mem_limit: 256m", "mem_limit: 8g", "the host's memory"},
		{"cpus: 1", "cpus: 8", "the host's cores"},
		{"read_only: true\n        bind", "read_only: false\n        bind", "the data can be changed"},
		{"create_host_path: false", "create_host_path: true", "a typing error makes a directory"},
		{"target: /safe_data_dir", "target: /data", "nothing is served"},
		{"MCP_LANDLOCK: ${MCP_LANDLOCK:-require}", "MCP_LANDLOCK: 'off'", "unlocked by default"},
		{"MCP_LANDLOCK:", "MCP_LANDLOK:", "no setting"},
		{"    read_only: true\n", "    privileged: true\n    read_only: true\n", "a key that nobody compares"},
		{"${MCP_IMAGE:-mcp-server-suite:local}", "${MCP_IMAGE}", "empty unless it is set"},
		{"services:\n", "services:\n  other: {image: x}\n", "a second service"},
	} {
		soft := strings.Replace(string(text), c.old, c.soft, 1)
		if soft == string(text) {
			t.Errorf("%q is not in compose.yaml", c.old)
		} else if len(composeFaults(t, []byte(soft))) == 0 {
			t.Errorf("%q instead of %q is not found: %s", c.soft, c.old, c.why)
		}
	}
}

func TestTheSeccompOverlayChangesTheProfileOnly(t *testing.T) {
	text, err := os.ReadFile("compose.seccomp.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f, err := readCompose(t, text)
	if err != nil {
		t.Fatal(err)
	}
	s := f.Services["mcp-server"]
	if len(f.Services) != 1 || len(s.SecurityOpt) != 1 {
		t.Fatalf("it has %+v", f)
	}
	path, is := strings.CutPrefix(s.SecurityOpt[0], "seccomp:")
	if _, err := os.Stat(path); !is || err != nil {
		t.Errorf("%q names no file: %v", s.SecurityOpt[0], err)
	}
	s.SecurityOpt = nil
	if fmt.Sprint(s) != fmt.Sprint(service{}) {
		t.Errorf("it changes more: %+v", s)
	}
}
