package pgstage

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BouncerOptions say what a PgBouncer is like.
type BouncerOptions struct {
	PoolSize int      // server connections for each pair of user and database; 0 is 4
	Settings []string // further lines of [pgbouncer], like "pool_mode = session"; the last one of a name counts
}

// Bouncer starts a PgBouncer in transaction mode in front of the server, for all its databases, and ends it with the
// test. It returns its port on 127.0.0.1 and the folder of its socket, see DSNAt. It knows the passwords of the
// server's users (auth_query) and asks for them whatever the server's Auth is. It skips without PgBouncer.
func (s *Server) Bouncer(t testing.TB, o BouncerOptions) (port int, socketDir string) {
	t.Helper()
	program := findBouncer(t)
	b := &bouncer{program: program, server: s}
	err := b.create(o)
	t.Cleanup(func() { b.remove(t) })
	if err != nil {
		t.Fatal(err)
	}
	return b.port, b.socketDir
}

// bouncer is a PgBouncer.
type bouncer struct {
	program   string
	server    *Server
	folder    string
	socketDir string
	port      int
	process   *process
}

// findBouncer returns the path of PgBouncer, which Debian keeps where only root's PATH looks.
func findBouncer(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, "PgBouncer is not installed: run scripts/postgres.sh (Debian package pgbouncer)")
	return ""
}

func (b *bouncer) create(o BouncerOptions) error {
	folder, err := newFolder()
	if err != nil {
		return err
	}
	b.folder, b.socketDir = folder, filepath.Join(folder, "s")
	if err := servant().mkdir(b.socketDir, 0o755); err != nil {
		return fmt.Errorf("make the folder of the socket: %w", err)
	}
	users := fmt.Sprintf("%q %q\n", superuser, password()) // letters and digits only
	if err := servant().write(filepath.Join(folder, "users"), users, 0o600); err != nil {
		return fmt.Errorf("write the superuser's password: %w", err)
	}
	return somewhere(b.socketDir, b.logPath(), func(port int) error { return b.start(port, o) })
}

func (b *bouncer) logPath() string { return filepath.Join(b.folder, "log") }

func (b *bouncer) start(port int, o BouncerOptions) error {
	b.port = port
	pool := o.PoolSize
	if pool == 0 {
		pool = 4
	}
	conf := fmt.Sprintf(`[databases]
* = host=%s port=%d
[pgbouncer]
listen_addr = %s
listen_port = %d
unix_socket_dir = %s
unix_socket_mode = 0777
pool_mode = transaction
default_pool_size = %d
auth_type = scram-sha-256
auth_file = %s
auth_user = %s
admin_users = %[8]s
`, b.server.SocketDir, b.server.Port, Host, port, b.socketDir, pool, filepath.Join(b.folder, "users"), superuser) +
		strings.Join(append(o.Settings, ""), "\n")
	path := filepath.Join(b.folder, "pgbouncer.ini")
	if err := servant().write(path, conf, 0o600); err != nil {
		return fmt.Errorf("configure PgBouncer: %w", err)
	}
	from := size(b.logPath())
	// It keeps nothing: there is no gentler signal that is worth a wait.
	process, err := launch(servant().command(syscall.SIGKILL, nil, b.program, path), b.logPath())
	if err != nil {
		return err
	}
	b.process = process
	for deadline := time.Now().Add(patience); ; time.Sleep(pause) {
		text := tail(b.logPath(), from)
		switch {
		case strings.Contains(text, "listening on "+Host+":"+strconv.Itoa(port)) && strings.Contains(text, "process up"):
			return nil
		case strings.Contains(text, "process up"), !process.alive(), time.Now().After(deadline):
			// It goes on with the socket alone when somebody else has the port.
			return errors.Join(fmt.Errorf("start PgBouncer: it does not listen\n%s", text),
				process.end(syscall.SIGKILL, afterKill))
		}
	}
}

func (b *bouncer) remove(t testing.TB) {
	t.Helper()
	if t.Failed() {
		t.Logf("log of PgBouncer on port %d:\n%s", b.port, tail(b.logPath(), 0))
	}
	if b.process != nil {
		if err := b.process.end(syscall.SIGKILL, afterKill); err != nil {
			t.Error(err)
		}
	}
	if b.folder != "" {
		if err := os.RemoveAll(b.folder); err != nil {
			t.Error(err)
		}
	}
}
