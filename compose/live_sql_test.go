package compose_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const questions = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
	`"capabilities":{},"clientInfo":{"name":"compose_test","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read_only_sql","arguments":{"query":` +
	`"SELECT count(*), sum(herons) FROM sighting JOIN station ON station.id = station_id"}}}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"read_only_sql","arguments":{"query":` +
	`"SELECT current_database()"}}}
`

// asked runs one session and wants the sum of the sample as the answer to request 2.
func asked(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), env...)
	c.Stdin = strings.NewReader(questions)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil || strings.Count(string(out), "\n") != 3 || !strings.Contains(string(out), `"rows":[[90,271]]`) {
		t.Errorf("%s %q: %v, answered %q\n%s", name, args, err, out, stderr.String())
	}
}

// postgresTag is the image of a database that is made here: none can be fetched in every place where tests run.
const postgresTag = "mcp-postgres-test:local"

// postgresImage makes an image of this machine's PostgreSQL, which is as the official one in what compose.sql.yaml needs of
// it: bash, the programs on PATH, and user 999 called postgres with its folder. The label leads to its removal.
func postgresImage(t *testing.T, cli string) {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		lack(t, "PostgreSQL is not installed: run scripts/postgres.sh")
	}
	bin := found[len(found)-1]
	version := filepath.Base(filepath.Dir(bin))
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	put := func(h *tar.Header, content []byte) {
		t.Helper()
		h.Size = int64(len(content))
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{} // path in the image -> file here
	add := func(path string) {
		t.Helper()
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = real
	}
	for _, name := range []string{"bash", "sh", "rm", "cat", "sed", "mv"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		add(path)
		files["/bin/"+name] = files[path]
	}
	add("/usr/share/zoneinfo/UTC") // the time zone of each statement
	for _, name := range []string{"initdb", "postgres", "pg_ctl", "psql", "pg_isready"} {
		add(bin + "/" + name)
	}
	for _, folder := range []string{
		"/usr/share/postgresql/" + version, "/usr/lib/postgresql/" + version + "/lib", "/usr/lib/locale/C.utf8",
	} {
		if err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			// bitcode is for the compiler of expressions, which nobody needs here.
			if err != nil || d.IsDir() && d.Name() == "bitcode" {
				return fs.SkipDir
			}
			if !d.IsDir() && !strings.Contains(d.Name(), "jit") {
				add(path)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	library := regexp.MustCompile(`(?m)(?:=> |^\s)(/\S+) \(0x`)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if strings.Contains(path, "/bin/") || strings.HasSuffix(path, ".so") {
			out, err := exec.CommandContext(t.Context(), "ldd", files[path]).Output()
			if err != nil {
				continue // a script
			}
			for _, m := range library.FindAllSubmatch(out, -1) {
				add(string(m[1]))
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		content, err := os.ReadFile(files[path])
		info, statErr := os.Stat(files[path])
		if err != nil || statErr != nil {
			t.Fatal(err, statErr)
		}
		put(&tar.Header{Name: path[1:], Mode: int64(info.Mode().Perm()), Typeflag: tar.TypeReg}, content)
	}
	put(&tar.Header{Name: "etc/passwd", Mode: 0o644, Typeflag: tar.TypeReg},
		[]byte("postgres:x:999:999::/var/lib/postgresql:/bin/bash\n"))
	put(&tar.Header{Name: "tmp/", Mode: 0o1777, Typeflag: tar.TypeDir}, nil)
	put(&tar.Header{Name: "run/postgresql/", Mode: 0o3777, Uid: 999, Gid: 999, Typeflag: tar.TypeDir}, nil)
	put(&tar.Header{Name: "var/lib/postgresql/", Mode: 0o755, Uid: 999, Gid: 999, Typeflag: tar.TypeDir}, nil)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	load := exec.CommandContext(t.Context(), cli, "import", "-c", "ENV PATH="+bin+":/bin", "-", postgresTag)
	load.Stdin = &archive
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("import the image: %v %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command(cli, "rmi", "-f", postgresTag).Run() }) // nobody else looks for it
}

// lack skips, or fails where the live tests must run.
func lack(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("COMPOSE_LIVE") == "require" {
		t.Fatal(what)
	}
	t.Skip("NOT CHECKED: " + what)
}

// secretFile is what the comment of compose.sql.yaml makes.
func secretFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dsn")
	const dsn = "postgresql://mcp_reader:0123456789abcdef@/app?host=/run/postgresql\n"
	if err := os.WriteFile(path, []byte(dsn), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLiveComposeServesTheDatabase(t *testing.T) {
	cli := docker(t)
	if out, err := exec.CommandContext(t.Context(), cli, "compose", "version").CombinedOutput(); err != nil {
		t.Skipf("NOT CHECKED: %s has no compose plugin: %v %s", cli, err, out)
	}
	postgresImage(t, cli)
	env := []string{
		"MCP_SAFE_DATA_DIR=" + dataFolder(t), "MCP_SQL_DSN_SECRET=" + secretFile(t),
		"MCP_POSTGRES_IMAGE=" + postgresTag, "MCP_POSTGRES_PULL_POLICY=never",
	}
	project := []string{
		"compose", "-p", fmt.Sprintf("mcp-sql-test-%d", os.Getpid()), "-f", "compose.yaml", "-f", "compose.sql.yaml",
	}
	t.Cleanup(func() {
		down := exec.Command(cli, append(project, "down", "-v")...)
		down.Env = append(os.Environ(), env...)
		if out, err := down.CombinedOutput(); err != nil {
			t.Errorf("down: %v %s", err, out)
		}
	})
	for range 2 { // the second finds the database made
		asked(t, env, cli, append(project, "run", "--rm", "-T", "mcp-server")...)
	}
}

// The same without Compose, which not every machine has: what compose.sql.yaml says, as arguments of docker.
func TestLiveTheContainersOfTheDatabaseFileAnswer(t *testing.T) {
	cli := docker(t)
	postgresImage(t, cli)
	text, err := os.ReadFile("compose.sql.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f, err := readSQL(text)
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), cli, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v %s", cli, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	name := fmt.Sprintf("mcp-sql-test-%d", os.Getpid())
	t.Cleanup(func() {
		_ = exec.Command(cli, "rm", "-f", "-v", name).Run() // what is not there need not go
		_ = exec.Command(cli, "volume", "rm", "-f", name+"-data", name+"-socket").Run()
	})
	run("volume", "create", name+"-data")
	create := []string{"volume", "create"}
	for key, value := range f.Volumes.Socket.Options {
		create = append(create, "-o", key+"="+value)
	}
	run(append(create, name+"-socket")...)
	secret := secretFile(t)
	mounts := func(volumes []volume) (args []string) {
		for _, v := range volumes {
			source := name + "-" + v.Source
			if v.Type == "bind" {
				if source, err = filepath.Abs(v.Source); err != nil {
					t.Fatal(err)
				}
			}
			mount := "type=" + v.Type + ",src=" + source + ",dst=" + v.Target
			if v.ReadOnly {
				mount += ",readonly"
			}
			if v.Volume.NoCopy {
				mount += ",volume-nocopy"
			}
			args = append(args, "--mount", mount)
		}
		return append(args, "--mount", "type=bind,src="+secret+",dst=/run/secrets/dsn,readonly")
	}
	p := f.Services.Postgres
	args := []string{
		"run", "-d", "--pull", "never", "--name", name, "--user", p.User, "--read-only", "--network", p.Network,
		"--pids-limit", p.PIDs, "--memory", p.Memory, "--cpus", p.CPUs, "--shm-size", p.Shared, "--tmpfs", p.Tmpfs[0],
		"--cap-drop", p.CapDrop[0], "--security-opt", p.SecurityOpt[0], "--stop-signal", p.StopSignal,
		"--env", "PGDATA=" + p.Environment["PGDATA"], "--entrypoint", p.Entrypoint[0],
	}
	args = append(append(args, mounts(p.Volumes)...), postgresTag)
	run(append(args, p.Entrypoint[1:]...)...)

	s := f.Services.Server
	server := append(readFlags(t, dataFolder(t)), mounts(s.Volumes)...)
	for key, value := range s.Environment {
		server = append(server, "--env", key+"="+value)
	}
	server = append(server, image)
	for _, start := range []string{"first", "second"} {
		ready := append([]string{"exec", name}, p.Health.Test[1:]...)
		for deadline := time.Now().Add(2 * time.Minute); exec.CommandContext(t.Context(), cli, ready...).Run() != nil; {
			if time.Now().After(deadline) || run("inspect", "-f", "{{.State.Running}}", name) != "true" {
				t.Fatalf("the %s start does not come to an end: %s", start, run("logs", name))
			}
			time.Sleep(200 * time.Millisecond)
		}
		asked(t, nil, cli, server...)
		if start == "first" {
			run("stop", name)
			if code := run("inspect", "-f", "{{.State.ExitCode}}", name); code != "0" {
				t.Errorf("it stops with %s: %s", code, run("logs", name))
			}
			run("start", name)
		}
	}

	const squat = ": >/run/postgresql/.s.PGSQL.5433"
	inside := func(user string, args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), cli, append([]string{"exec", "--user", user, name}, args...)...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := inside("10001:10001", "bash", "-c", squat); err == nil || !strings.Contains(out, "Permission denied") {
		t.Errorf("another user makes a file beside the socket: %v %s", err, out)
	}
	run("exec", name, "bash", "-c", squat) // the control

	// Who has the socket is not the superuser, nor the role without its password.
	for _, c := range []struct{ user, dsn, why string }{
		{"10001:10001", "host=/run/postgresql dbname=app user=postgres", "another user becomes the superuser"},
		{p.User, "host=/run/postgresql dbname=app user=mcp_reader", "the role needs no password"},
		{
			p.User, "host=/run/postgresql dbname=postgres user=mcp_reader password=0123456789abcdef",
			"the role has another database",
		},
	} {
		out, err := inside(c.user, "psql", "-w", c.dsn, "-c", "SELECT 1")
		if err == nil || !strings.Contains(out, "FATAL") && !strings.Contains(out, "fe_sendauth") {
			t.Errorf("%s: %v %s", c.why, err, out)
		}
	}
	out, err := inside(p.User, "psql", "-At", "-h", "/run/postgresql", "-U", "postgres", "-d", "app", "-c",
		"SELECT rolsuper FROM pg_roles WHERE rolname IN ('mcp_reader', current_user) ORDER BY 1")
	if err != nil || out != "f\nt" {
		t.Errorf("the control, the database's own user is the superuser: %v %q", err, out)
	}
}
