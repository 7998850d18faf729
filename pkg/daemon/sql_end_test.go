package daemon_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-server-suite/pkg/pgstage"
)

// The server's log tells a cancel from a connection that was lost: without the wait at the end the process is gone before
// the request is sent, and only client_connection_check_interval (PostgreSQL 14) ends the query, up to a second later.
func TestTheEndOfASessionCancelsItsQueries(t *testing.T) {
	t.Parallel()
	server := pgstage.Start(t, pgstage.Options{})
	d := newStore(t, server, "")
	for range 3 {
		s := openSQL(t, d.reader())
		s.request(7, "tools/call", callParams("read_only_sql",
			sqlArguments("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 1000000) b", "")))
		d.until("1")
		before := len(server.Log())
		for range 2 { // the second one does not leave calls their time; sent at once, it would be the same one
			if err := s.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond)
		}
		if e := s.wait(); e.Code != 0 {
			t.Errorf("exit %d, signal %v; %s", e.Code, e.Signal, s.Stderr())
		}
		d.until("0")
		if said := server.Log()[before:]; !strings.Contains(said, "canceling statement due to user request") {
			t.Errorf("the server was not told: %s", said)
		}
	}
}
