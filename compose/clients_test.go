package compose_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// host is a kind of machine that the client runs on.
type host struct {
	folder string
	data   string   // the directory that is served; the reader puts their own
	extra  []string // flags that only this kind needs, before the image
}

// Docker Desktop's kernel has no Landlock (docker/roadmap#835); where it gets it, if-available uses it.
var noLandlock = []string{"-e", "MCP_LANDLOCK=if-available"}

var hosts = []host{
	{"linux", "/srv/data", nil},
	// With spaces, which people's folders there have: nothing may take them apart.
	{"macos", "/Volumes/Team Data/for agents", noLandlock},
	{"windows", `C:\Team Data\for agents`, noLandlock},
}

// client is a program that reads one of our files.
type client struct {
	file string
	key  string // the member that holds the servers
	kind bool   // a server has "type": "stdio"
	why  string // where the shape comes from
}

var clients = []client{
	{"claude-desktop.json", "mcpServers", false, "claude_desktop_config.json has no type: " +
		"modelcontextprotocol.io, connect to local servers; seed 000"},
	{"claude-code.json", "mcpServers", true, ".mcp.json; stdio is also what it takes without a type: " +
		"code.claude.com/docs/en/mcp"},
	{"vscode.json", "servers", true, "type and command are required: " +
		"code.visualstudio.com/docs/agents/reference/mcp-configuration"},
	{"cursor.json", "mcpServers", false, ".cursor/mcp.json; the example has no type: cursor.com/docs/mcp"},
}

const serverName = "mcp-server-suite"

type server struct {
	Type    string   `json:"type,omitempty"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

func args(t *testing.T, h host) []string {
	t.Helper()
	return append(append(readFlags(t, h.data), h.extra...), image)
}

func render(t *testing.T, h host, c client) []byte {
	t.Helper()
	s := server{Command: "docker", Args: args(t, h)}
	if c.kind {
		s.Type = "stdio"
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(map[string]map[string]server{c.key: {serverName: s}}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGoldenClientConfigurationsAreTheList(t *testing.T) {
	for _, h := range hosts {
		for _, c := range clients {
			path := filepath.Join("clients", h.folder, c.file)
			want := render(t, h, c)
			if os.Getenv("UPDATE_GOLDEN") == "1" {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, want, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s is not what docker-run.flags gives; run make golden and read the diff", path)
			}
		}
	}
}

// Clients build the names of tools out of the server's name, and take only these characters there.
var serverNames = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// readClient reads a file as its client does: strictly, and only what this client knows. Nothing of render is used.
func readClient(text []byte, c client) (run, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var servers map[string]server
	var err error
	switch c.key {
	case "servers":
		var f struct {
			Servers map[string]server `json:"servers"`
		}
		err, servers = d.Decode(&f), f.Servers
	default:
		var f struct {
			Servers map[string]server `json:"mcpServers"`
		}
		err, servers = d.Decode(&f), f.Servers
	}
	if err != nil {
		return run{}, fmt.Errorf("read configuration: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return run{}, errors.New("read configuration: something follows the object")
	}
	if len(servers) != 1 {
		return run{}, fmt.Errorf("read configuration: it has %d servers under %s", len(servers), c.key)
	}
	for name, s := range servers {
		switch {
		case !serverNames.MatchString(name):
			return run{}, fmt.Errorf("read configuration: not every client takes the name %q", name)
		case s.Command != "docker":
			return run{}, fmt.Errorf("read configuration: the command is %q", s.Command)
		case c.kind != (s.Type == "stdio") || !c.kind && s.Type != "":
			return run{}, fmt.Errorf("read configuration: the type is %q", s.Type)
		}
		return parseRun(s.Args)
	}
	panic("unreachable")
}

func TestEachConfigurationIsValidForItsClient(t *testing.T) {
	var read []string
	for _, h := range hosts {
		for _, c := range clients {
			path := filepath.Join("clients", h.folder, c.file)
			read = append(read, path)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
				continue
			}
			got, err := readClient(text, c)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			want := wanted(t, h.data)
			if h.folder != "linux" {
				want.options["env"] = append(want.options["env"], "MCP_LANDLOCK=if-available")
			}
			for _, d := range differences(got, want) {
				t.Errorf("%s: %s", path, d)
			}
			for _, fault := range settingsFaults(t, got.options["env"]) {
				t.Errorf("%s: %s", path, fault)
			}
		}
	}
	err := filepath.WalkDir("clients", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".json") && !slices.Contains(read, path) {
			t.Errorf("%s belongs to no client", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAConfigurationOfAnotherClientIsRefused(t *testing.T) {
	good := string(render(t, hosts[0], clients[2]))
	for _, c := range []struct {
		name, text, why string
		client          client
	}{
		{"Claude's key for VS Code", strings.Replace(good, `"servers"`, `"mcpServers"`, 1), "VS Code ignores it", clients[2]},
		{"VS Code's key for Cursor", good, "Cursor ignores it", clients[3]},
		{"no type for VS Code", strings.Replace(good, `"type": "stdio",`, "", 1), "it is required", clients[2]},
		{"an unknown member", strings.Replace(good, `"command"`, `"cmd": "x", "command"`, 1), "a typing error", clients[2]},
		{"no command", strings.Replace(good, `"docker"`, `""`, 1), "nothing starts", clients[2]},
		{"args as one string", regexp.MustCompile(`(?s)\[.*\]`).ReplaceAllString(good, `"run -i"`), "not a list", clients[2]},
		{"two documents", good + good, "JSON readers stop after the first or fail", clients[2]},
		{"a trailing comma", strings.Replace(good, "]", "],", 1), "not JSON", clients[2]},
		{"a server name with a space", strings.Replace(good, serverName+`":`, `my files":`, 1), "refused", clients[2]},
		{"a terminal", strings.Replace(good, `"-i"`, `"-it"`, 1), "rewrites the stream", clients[2]},
	} {
		if _, err := readClient([]byte(c.text), c.client); err == nil {
			t.Errorf("%s was taken: %s", c.name, c.why)
		}
	}
	if _, err := readClient([]byte(good), clients[2]); err != nil {
		t.Error(err)
	}
}
