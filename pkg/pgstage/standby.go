package pgstage

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// Standby starts a streaming standby of the server, which answers read-only queries (hot standby), and ends it with the
// test. Its options are those of the server; with TLS it has an authority of its own. It
// skips without pg_basebackup.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	if _, err := os.Stat(filepath.Join(s.options.Bin, "pg_basebackup")); err != nil {
		missing(t, "these programs of PostgreSQL have no pg_basebackup: "+s.options.Bin)
	}
	standby := &Server{options: s.options, primary: s}
	err := standby.follow()
	t.Cleanup(func() { standby.remove(t) })
	if err != nil {
		t.Fatal(err)
	}
	return standby
}

func (s *Server) follow() error {
	if err := s.place(); err != nil {
		return err
	}
	if err := servant().mkdir(s.DataDir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the standby: %w", err)
	}
	// -R writes the connection, with the password, to postgresql.auto.conf, which the cluster's owner alone may read.
	err := servant().run([]string{"PGPASSWORD=" + password()}, filepath.Join(s.options.Bin, "pg_basebackup"),
		"--pgdata="+s.DataDir, "--host="+s.primary.SocketDir, "--port="+strconv.Itoa(s.primary.Port),
		"--username="+superuser, "--no-password", "-R", "--checkpoint=fast", "--no-sync", "--no-manifest")
	if err != nil {
		return err
	}
	if err := s.configure(); err != nil {
		return fmt.Errorf("configure the standby: %w", err)
	}
	return s.startSomewhere()
}

// CatchUp waits until the standby shows all that its primary has committed by now.
func (s *Server) CatchUp(t testing.TB) {
	t.Helper()
	if s.primary == nil {
		t.Fatal("the server is no standby")
	}
	// A commit is in the log before its client knows. Only what has been flushed is sent: the switch flushes the rest, for
	// which nobody waits otherwise.
	goal := s.primary.Query(t, superuser, "SELECT pg_current_wal_insert_lsn()")[0][0]
	s.primary.Exec(t, superuser, "SELECT pg_switch_wal()")
	for deadline := time.Now().Add(patience); ; time.Sleep(pause) {
		if s.Query(t, superuser, "SELECT pg_last_wal_replay_lsn() >= "+literal(goal))[0][0] == "t" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the standby has not caught up after %v\n%s", patience, s.Log())
		}
	}
}

// Promote makes the standby a server of its own and returns when it writes. Connections to it stay, silently.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	wait := strconv.Itoa(int(patience.Seconds()) / 2)
	if rows := s.Query(t, superuser, "SELECT pg_promote(true, "+wait+")"); rows[0][0] != "t" {
		t.Fatalf("the standby was not promoted\n%s", s.Log())
	}
}
