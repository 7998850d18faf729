package compose_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// sqlFile is what compose.sql.yaml may have, and nothing else, see composeFile.
type sqlFile struct {
	Services struct {
		Server   sqlServer   `yaml:"mcp-server"`
		Postgres sqlPostgres `yaml:"postgres"`
	} `yaml:"services"`
	Volumes struct {
		Data   struct{} `yaml:"data"`
		Socket struct {
			Options map[string]string `yaml:"driver_opts"`
		} `yaml:"socket"`
	} `yaml:"volumes"`
	Secrets map[string]struct {
		File string `yaml:"file"`
	} `yaml:"secrets"`
}

// sqlServer is what is added to the service of compose.yaml.
type sqlServer struct {
	DependsOn map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Environment map[string]string `yaml:"environment"`
	Secrets     []string          `yaml:"secrets"`
	Volumes     []volume          `yaml:"volumes"`
}

type sqlPostgres struct {
	Image       string            `yaml:"image"`
	Pull        string            `yaml:"pull_policy"`
	Entrypoint  []string          `yaml:"entrypoint"`
	User        string            `yaml:"user"`
	Restart     string            `yaml:"restart"`
	Network     string            `yaml:"network_mode"`
	ReadOnly    bool              `yaml:"read_only"`
	CapDrop     []string          `yaml:"cap_drop"`
	SecurityOpt []string          `yaml:"security_opt"`
	PIDs        string            `yaml:"pids_limit"`
	Memory      string            `yaml:"mem_limit"`
	CPUs        string            `yaml:"cpus"`
	Shared      string            `yaml:"shm_size"`
	Tmpfs       []string          `yaml:"tmpfs"`
	StopSignal  string            `yaml:"stop_signal"`
	StopGrace   string            `yaml:"stop_grace_period"`
	Environment map[string]string `yaml:"environment"`
	Secrets     []string          `yaml:"secrets"`
	Health      struct {
		Test     []string `yaml:"test"`
		Interval string   `yaml:"interval"`
		Timeout  string   `yaml:"timeout"`
		Retries  int      `yaml:"retries"`
	} `yaml:"healthcheck"`
	Volumes []volume `yaml:"volumes"`
}

// readSQL reads compose.sql.yaml strictly, with every variable at its default.
func readSQL(text []byte) (f sqlFile, err error) {
	text = variable.ReplaceAll(text, []byte("$2"))
	// The first lines show a command for a shell; what is left of it is a comment.
	if i := bytes.Index(text, []byte("${")); i >= 0 {
		return f, fmt.Errorf("read compose file: a variable without a default: %.40q", text[i:])
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil {
		return f, fmt.Errorf("read compose file: %w", err)
	}
	return f, nil
}

// sqlFaults says what is softer in compose.sql.yaml than it must be.
func sqlFaults(t *testing.T, text []byte) (found []string) {
	t.Helper()
	f, err := readSQL(text)
	if err != nil {
		return []string{err.Error()}
	}
	must := func(holds bool, why string) {
		if !holds {
			found = append(found, why)
		}
	}
	const folder = "/run/postgresql"
	server, postgres := f.Services.Server, f.Services.Postgres
	var env []string
	for name, value := range server.Environment {
		if name == "MCP_SQL_DSN_FILE" { // it exists in the container only
			value = filepath.Join(t.TempDir(), "dsn")
			if err := os.WriteFile(value, []byte("postgres://"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		env = append(env, name+"="+value)
	}
	found = append(found, settingsFaults(t, env)...)
	must(len(env) == 2 && server.Environment["MCP_SQL_DSN_FILE"] == "/run/secrets/dsn",
		"the server has other settings than the DSN's file and the search path")
	must(slices.Equal(server.Secrets, []string{"dsn"}) && slices.Equal(postgres.Secrets, []string{"dsn"}),
		"the DSN is no secret of both")
	must(server.DependsOn["postgres"].Condition == "service_healthy", "the server does not wait for the database")
	must(len(server.Volumes) == 1 && server.Volumes[0].Type == "volume" && server.Volumes[0].Source == "socket" &&
		server.Volumes[0].Target == folder && server.Volumes[0].ReadOnly && server.Volumes[0].Volume.NoCopy,
		"the server has more than the socket's folder, to read")

	p := postgres
	must(slices.Equal(p.Entrypoint, []string{"bash", "/start.sh"}), "the database is made in another way")
	must(p.User == "999:999" && p.ReadOnly && slices.Equal(p.CapDrop, []string{"ALL"}) &&
		slices.Equal(p.SecurityOpt, []string{"no-new-privileges:true"}), "the database may do more than it needs")
	must(p.Network == "none", "the database has a network")
	must(p.PIDs != "" && p.Memory != "" && p.CPUs != "" && p.Shared != "", "the database has no limits")
	must(len(p.Tmpfs) == 1 && strings.Contains(p.Tmpfs[0], ":rw,noexec,nosuid,nodev,size="),
		"its /tmp is softer than it must be")
	must(p.Restart == "no", "the database outlives a restart of the machine")
	must(p.StopSignal == "SIGINT", "it waits for sessions to end before it stops")
	must(len(p.Environment) == 1 && strings.HasPrefix(p.Environment["PGDATA"], "/var/lib/postgresql/"),
		"its environment is another")
	must(slices.Contains(p.Health.Test, folder) && p.Health.Retries > 0, "the first start counts as ready")
	writable := map[string]bool{"/var/lib/postgresql": true, folder: true}
	for _, v := range p.Volumes {
		must(v.ReadOnly != writable[v.Target], v.Target+" can be written, or cannot")
		must(v.Volume.NoCopy == (v.Target == folder), v.Target+" takes its mode from the wrong place")
		if v.Type == "bind" {
			must(v.Bind.Create != nil && !*v.Bind.Create, v.Source+" would be made")
			_, err := os.Stat(v.Source)
			must(err == nil, v.Source+" is not there")
		}
	}
	must(len(p.Volumes) == 5, "the database has other volumes")
	o := f.Volumes.Socket.Options
	must(o["type"] == "tmpfs" && strings.HasPrefix(o["o"], "uid=999,gid=999,mode=0755,") &&
		strings.HasSuffix(o["o"], ",nosuid,nodev,noexec"),
		"others may make files beside the socket")
	must(f.Secrets["dsn"].File == "./secrets/dsn", "the secret is elsewhere")
	return found
}

func TestDatabaseFileKeepsBothApartAndBound(t *testing.T) {
	text, err := os.ReadFile("compose.sql.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range sqlFaults(t, text) {
		t.Error(fault)
	}
	for _, c := range []struct{ old, soft, why string }{
		{"MCP_SQL_DSN_FILE: /run/secrets/dsn", "MCP_SQL_DSN: postgres://", "the password is in docker inspect"},
		{"MCP_SQL_SEARCH_PATH:", "MCP_SQL_ALLOW_UNSAFE_ROLE: 'true'\n      MCP_SQL_SEARCH_PATH:", "a role that writes"},
		{"condition: service_healthy", "condition: service_started", "the first calls fail"},
		{"        read_only: true\n        volume:", "        volume:", "a socket can be put in the place of the database's"},
		{"network_mode: none", "network_mode: bridge", "reachable"},
		{"read_only: true\n    cap_drop", "read_only: false\n    cap_drop", "writable root"},
		{"cap_drop: [ALL]", "cap_drop: [NET_RAW]", "capabilities"},
		{"no-new-privileges:true", "no-new-privileges:false", "setuid works"},
		{`user: "${MCP_POSTGRES_USER:-999}:${MCP_POSTGRES_USER:-999}"`, `user: "0:0"`, "root"},
		{"mem_limit: 512m\n", "", "the host's memory"},
		{"noexec,nosuid,nodev,size=64m", "size=64m", "programs can be run from /tmp"},
		{"          nocopy: true\n      - type: bind", "          nocopy: false\n      - type: bind", "the image's folder is open to all"},
		{"mode=0755", "mode=1777", "anybody may make a socket there"},
		{"PGDATA: /var", "POSTGRES_HOST_AUTH_METHOD: trust\n      PGDATA: /var", "everybody is the superuser"},
		{"target: /roles.sql\n        read_only: true", "target: /roles.sql", "the database could change the role's script"},
		{"create_host_path: false", "create_host_path: true", "a typing error makes a folder"},
		{`"-h", "/run/postgresql"`, `"-h", "/tmp"`, "ready before it is"},
		{"    restart:", "    privileged: true\n    restart:", "a key that nobody compares"},
		{"    secrets: [dsn]\n    volumes:", "    volumes:", "no DSN"},
	} {
		soft := strings.Replace(string(text), c.old, c.soft, 1)
		if soft == string(text) {
			t.Errorf("%q is not in compose.sql.yaml", c.old)
		} else if len(sqlFaults(t, []byte(soft))) == 0 {
			t.Errorf("%q instead of %q is not found: %s", c.soft, c.old, c.why)
		}
	}
}

// What the comment tells to type is the DSN that start.sh understands.
func TestCommentOfTheDatabaseFileMakesADSNThatIsUnderstood(t *testing.T) {
	text, err1 := os.ReadFile("compose.sql.yaml")
	start, err2 := os.ReadFile("postgres/start.sh")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "printf 'postgresql://mcp_reader:%s@/app?host=/run/postgresql\\n'") ||
		!strings.Contains(string(start), "local app mcp_reader scram-sha-256") ||
		!strings.Contains(string(start), "unix_socket_directories=/run/postgresql") {
		t.Error("role, database or folder are called otherwise")
	}
}
