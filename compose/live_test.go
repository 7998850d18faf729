package compose_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const requests = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
	`"capabilities":{},"clientInfo":{"name":"compose_test","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":` +
	`{"name":"sandbox_fs_read","arguments":{"relative_path":"note.txt"}}}
`

// docker is the CLI to use: $DOCKER, or the one on the path. A test that needs the image skips without it, unless
// COMPOSE_LIVE=require.
func docker(t *testing.T) string {
	t.Helper()
	cli := os.Getenv("DOCKER")
	if cli == "" {
		cli = "docker"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, cli, "image", "inspect", "-f", "{{.Id}}", image).CombinedOutput(); err != nil {
		skip := t.Skipf
		if os.Getenv("COMPOSE_LIVE") == "require" {
			skip = t.Fatalf
		}
		skip("NOT CHECKED: no docker daemon has %s (scripts/image.sh --tag %[1]s --load makes it): %v %s", image, err, out)
	}
	return cli
}

// dataFolder is one with a note in it that uid 10001 can read, and a name that people's folders have.
func dataFolder(t *testing.T) string {
	t.Helper()
	data := filepath.Join(t.TempDir(), "for agents")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{filepath.Dir(data): 0o755, data: 0o755} {
		if err := os.Chmod(path, mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
	}
	note := filepath.Join(data, "note.txt")
	if err := os.WriteFile(note, []byte("read through the container"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(note, 0o644); err != nil {
		t.Fatal(err)
	}
	return data
}

// converse runs one session and wants the note as the answer to request 2, two answers in all, and exit code 0.
func converse(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), env...)
	c.Stdin = strings.NewReader(requests)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, stderr.String())
	}
	var answers []string
	d := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var a struct {
			ID     int `json:"id"`
			Result struct {
				Content struct {
					Content string `json:"content"`
				} `json:"structuredContent"`
			} `json:"result"`
		}
		if err := d.Decode(&a); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("read answers: %v in %q", err, out)
		}
		answers = append(answers, a.Result.Content.Content)
	}
	if len(answers) != 2 || answers[1] != "read through the container" {
		t.Errorf("%s %q answered %q\n%s", name, args, out, stderr.String())
	}
}

// The configurations of one host differ in their JSON only, which TestEachConfigurationIsValidForItsClient has read.
func TestLiveTheArgumentsOfEachHostServeAFile(t *testing.T) {
	cli := docker(t)
	for _, h := range hosts {
		t.Run(h.folder, func(t *testing.T) {
			h.data = dataFolder(t)
			converse(t, nil, cli, args(t, h)...)
		})
	}
}

func TestLiveComposeServesAFile(t *testing.T) {
	cli := docker(t)
	if out, err := exec.CommandContext(t.Context(), cli, "compose", "version").CombinedOutput(); err != nil {
		t.Skipf("NOT CHECKED: %s has no compose plugin: %v %s", cli, err, out)
	}
	for _, c := range []struct {
		name  string
		files []string
	}{
		{"alone", []string{"-f", "compose.yaml"}},
		{"with its own system-call profile", []string{"-f", "compose.yaml", "-f", "compose.seccomp.yaml"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"compose"}, c.files...)
			converse(t, []string{"MCP_SAFE_DATA_DIR=" + dataFolder(t)}, cli,
				append(args, "run", "--rm", "-T", "mcp-server")...)
		})
	}
}
