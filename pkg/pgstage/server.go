package pgstage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcp-server-suite/pkg/stage"
)

const (
	// Host is where every server listens beside its socket.
	Host = "127.0.0.1"

	// patience is how long anything is waited for; far longer than it takes, also on a machine under load.
	patience = 60 * time.Second

	pause = 5 * time.Millisecond // between two looks

	portTries = 8

	maxSocketPath = 107 // bytes, unix(7)
)

// Options say what a server is like. The zero value is a server of the default version, 20 connections, without TLS.
type Options struct {
	Bin            string   // folder of the programs; "" is what Bin returns
	MaxConnections int      // 0 is 20, of which three are kept for the superuser
	TLS            bool     // it offers TLS on TCP, with a certificate for 127.0.0.1 and localhost (see Server.CA)
	TLSOnly        bool     // and accepts nothing else on TCP
	Auth           string   // how everybody but the superuser logs in (pg_hba.conf): "" is scram-sha-256; trust, md5, ...
	Settings       []string // further lines of postgresql.conf, like "log_statement = all"; the last one of a name counts
}

// Server is a PostgreSQL server. Its methods may be called by several goroutines, except those that start or end it.
type Server struct {
	Port      int    // on 127.0.0.1
	SocketDir string // the folder of its socket, which every user may reach
	DataDir   string // its cluster
	CA        string // PEM file of the authority that has signed its certificate; "" without TLS
	Version   int    // major version

	options Options
	folder  string // all of it
	logPath string
	process *process
	orphans []orphan // of a postmaster that was killed
	primary *Server  // of a standby
	shared  bool
}

// Main runs the tests. It is the whole of a TestMain, like stage.Main, which it calls:
//
//	func TestMain(m *testing.M) { pgstage.Main(m) }
//
// Servers need no taking down here: those of a test go with the test, and what is left when the process ends (Shared)
// the kernel ends, see the package's comment.
func Main(m *testing.M) { stage.Main(m) }

// Start starts a server of its own for a test, and ends it with the test. When the test has failed, the end of the
// server's log is shown.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s := &Server{options: o}
	if s.options.Bin == "" {
		s.options.Bin = Bin(t)
	}
	err := s.create()
	t.Cleanup(func() { s.remove(t) })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// common is the server of all tests, made by the first who asks.
var common struct {
	mu     sync.Mutex
	server *Server
	err    error
}

// Shared returns the one server that all tests of a process may use which only read, or work in a database of their own
// (see Database). It must not be stopped or reconfigured. It lives as long as the process.
func Shared(t testing.TB) *Server {
	t.Helper()
	bin := Bin(t)
	common.mu.Lock()
	defer common.mu.Unlock()
	if common.server == nil {
		common.server = &Server{options: Options{Bin: bin, MaxConnections: 100}, shared: true}
		common.err = common.server.create()
	}
	s := common.server
	if common.err != nil {
		t.Fatalf("%v\n%s", common.err, tail(s.logPath, 0))
	}
	s.showLog(t)
	return s
}

// showLog shows what the server will have logged if the test fails.
func (s *Server) showLog(t testing.TB) {
	from := size(s.logPath)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the server on port %d:\n%s", s.Port, tail(s.logPath, from))
		}
	})
}

// create copies the template, configures the copy and starts it.
func (s *Server) create() error {
	data, err := template(s.options.Bin)
	if err != nil {
		return err
	}
	if err := s.place(); err != nil {
		return err
	}
	if err := servant().run(nil, "cp", "-a", data, s.DataDir); err != nil {
		return fmt.Errorf("copy the template: %w", err)
	}
	if err := s.configure(); err != nil {
		return fmt.Errorf("configure the server: %w", err)
	}
	return s.startSomewhere()
}

// place makes the folder of the server, without its cluster.
func (s *Server) place() error {
	folder, err := newFolder()
	if err != nil {
		return err
	}
	s.folder, s.logPath = folder, filepath.Join(folder, "log")
	s.DataDir, s.SocketDir = filepath.Join(folder, "data"), filepath.Join(folder, "s")
	return servant().mkdir(s.SocketDir, 0o755)
}

// configure writes all configuration but the port.
func (s *Server) configure() error {
	version, err := os.ReadFile(filepath.Join(s.DataDir, "PG_VERSION"))
	if err != nil {
		return err
	}
	if s.Version, err = strconv.Atoi(strings.TrimSpace(string(version))); err != nil {
		return err
	}
	connections := s.options.MaxConnections
	if connections == 0 {
		connections = 20
	}
	conf := setting("listen_addresses", Host) +
		setting("unix_socket_directories", s.SocketDir) +
		setting("unix_socket_permissions", "0777") +
		setting("max_connections", strconv.Itoa(connections)) +
		setting("shared_buffers", "16MB") +
		// What a crash of the machine would lose does not matter; what SIGKILL leaves is whole without it.
		setting("fsync", "off") +
		setting("max_wal_size", "128MB") +
		setting("wal_keep_size", "64MB") + // a standby that was away finds its place again
		setting("max_wal_senders", "5") +
		setting("wal_retrieve_retry_interval", "100ms") + // 5 s: what a standby waits before it tries again
		// In the cluster instead of /dev/shm: it goes with the folder, whatever happens to the server.
		setting("dynamic_shared_memory_type", "mmap") +
		setting("autovacuum", "off") + // nothing happens unless a test makes it happen
		setting("log_line_prefix", "%m [%p] %u@%d %a ") +
		setting("timezone", "UTC") + setting("log_timezone", "UTC")
	if s.options.TLS || s.options.TLSOnly {
		if s.CA, err = writeCertificates(s.folder, s.DataDir); err != nil {
			return fmt.Errorf("make the certificate: %w", err)
		}
		conf += setting("ssl", "on")
	}
	conf += strings.Join(append(s.options.Settings, ""), "\n")
	auth, tcp := s.options.Auth, "host"
	if auth == "" {
		auth = "scram-sha-256"
	}
	if s.options.TLSOnly {
		tcp = "hostssl"
	}
	hba := fmt.Sprintf(`local all,replication %[1]s scram-sha-256
%[4]s all,replication %[1]s %[2]s/32 scram-sha-256
local all all %[3]s
%[4]s all all %[2]s/32 %[3]s
`, superuser, Host, auth, tcp)
	if err := servant().write(filepath.Join(s.DataDir, "pg_hba.conf"), hba, 0o600); err != nil {
		return err
	}
	return servant().write(filepath.Join(s.DataDir, "postgresql.conf"), conf, 0o600)
}

// startSomewhere starts the server on a port that is free.
func (s *Server) startSomewhere() error {
	return somewhere(s.SocketDir, s.logPath, func(port int) error {
		s.Port = port
		return s.start()
	})
}

// somewhere calls start with ports that are free until one is still so when the program listens.
func somewhere(socketDir, logPath string, start func(port int) error) error {
	if path := filepath.Join(socketDir, ".s.PGSQL.12345"); len(path) > maxSocketPath {
		return fmt.Errorf("%s is too long for a socket: set TMPDIR to a shorter folder", path)
	}
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return err
		}
		from := size(logPath)
		err = start(port)
		if err == nil || try == portTries || !strings.Contains(tail(logPath, from), "Address already in use") {
			return err
		}
	}
}

// freePort finds a port on which nobody listens, below those that the kernel gives to connections.
func freePort() (int, error) {
	const lowest, highest, tries = 15000, 32000, 100
	for range tries {
		port := lowest + rand.IntN(highest-lowest)
		listener, err := net.Listen("tcp", net.JoinHostPort(Host, strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %d tries", tries)
}

// start starts the server on its port and returns when it accepts connections.
func (s *Server) start() error {
	cmd := servant().command(syscall.SIGQUIT, nil, filepath.Join(s.options.Bin, "postgres"),
		"-D", s.DataDir, "-p", strconv.Itoa(s.Port))
	process, err := launch(cmd, s.logPath)
	if err != nil {
		return err
	}
	s.process = process
	deadline := time.Now().Add(patience)
	for !s.ready() {
		if !process.alive() {
			return fmt.Errorf("start the server: %w\n%s", process.err, tail(s.logPath, 0))
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("the server is not ready after %v\n%s", patience, tail(s.logPath, 0)),
				process.end(syscall.SIGQUIT, afterKill))
		}
		time.Sleep(pause)
	}
	return nil
}

// ready says whether postmaster.pid is that of our process and says so (its last line, pidfile.h): cheaper than to ask
// on a connection, and right also when connections are refused by a test's settings.
func (s *Server) ready() bool {
	text, err := os.ReadFile(filepath.Join(s.DataDir, "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := strings.Split(string(text), "\n")
	return lines[0] == strconv.Itoa(s.process.cmd.Process.Pid) && len(lines) > 7 && strings.TrimSpace(lines[7]) == "ready"
}

// Running says whether the server has been started and has not ended.
func (s *Server) Running() bool { return s.process != nil && s.process.alive() }

// Stop ends the server in order (SIGINT: transactions are rolled back, connections closed with 57P01).
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.process.end(syscall.SIGINT, patience); err != nil {
		t.Fatal(err)
	}
}

// Restart starts the server again, on the port and the socket it had; one that runs is stopped first. After Kill it
// waits for the processes that were left.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop(t)
	if err := s.endOrphans(); err != nil {
		t.Fatal(err)
	}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// remove ends the server and removes its folder.
func (s *Server) remove(t testing.TB) {
	t.Helper()
	if t.Failed() {
		t.Logf("log of the server on port %d:\n%s", s.Port, tail(s.logPath, 0))
	}
	killed := len(s.orphans) > 0 && !s.Running()
	if s.process != nil {
		if err := s.process.end(syscall.SIGQUIT, patience); err != nil {
			t.Error(err)
		}
	}
	if err := s.endOrphans(); err != nil {
		t.Error(err)
	}
	if killed {
		s.removeSegment()
	}
	if s.folder != "" {
		if err := os.RemoveAll(s.folder); err != nil {
			t.Error(err)
		}
	}
}

// Log returns the end (8 KiB) of what the server has logged.
func (s *Server) Log() string { return tail(s.logPath, 0) }
