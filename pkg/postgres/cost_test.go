package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"mcp-server-suite/pkg/problem"
)

func TestAStatementThatCostsTooMuchIsNotRun(t *testing.T) {
	const setup = "CREATE TABLE wide AS SELECT g AS i FROM generate_series(1, 20000) g; ANALYZE wide"
	d, s, db, _ := readerPool(t, setup, func(s *Settings) { s.MaxCost = 1000 })
	ctx := context.Background()
	table, err := d.Query(ctx, approved(t, "SELECT count(*) FROM wide", 50))
	if err != nil || string(table.Rows) != "[[20000]]" {
		t.Errorf("a cheap one: %s, %v", table.Rows, err)
	}
	dear := "SELECT count(*) FROM wide a, wide b WHERE a.i + b.i = 7"
	begun := time.Now()
	_, err = d.Query(ctx, approved(t, dear, 50))
	refused(t, err, problem.TooCostly)
	if took := time.Since(begun); took > 2*time.Second { // run, it takes minutes
		t.Errorf("it took %v", took)
	}
	if _, err := d.Query(ctx, approved(t, "EXPLAIN "+dear, 50)); err != nil {
		t.Errorf("to explain it costs nothing: %v", err)
	}
	_, err = d.Query(ctx, approved(t, "SELECT nothing FROM wide", 50))
	refused(t, err, problem.QueryFailed)
	free := pool(t, s.DSN(db, "postgres", "", true), func(s *Settings) { s.AllowUnsafeRole, s.QueryTimeout = true, 300*time.Millisecond })
	_, err = free.Query(ctx, approved(t, dear, 50))
	refused(t, err, problem.StatementTimeout) // the control: without the bound it runs
}

func TestAHostThatIsNotWhatIsAskedForIsNamedSo(t *testing.T) {
	log := &strings.Builder{}
	_, s, db, role := readerPool(t, "", nil)
	for _, attribute := range []string{"standby", "read-write"} { // the role is read-only by default
		dsn := s.DSN(db, role, readerPassword, true) + "&target_session_attrs=" + attribute
		d := pool(t, dsn, func(s *Settings) { s.Log = textLog(log) })
		_, err := d.Query(context.Background(), approved(t, "SELECT 1", 50))
		refused(t, err, problem.DBUnavailable)
		if err == nil || !strings.Contains(err.Error(), "target_session_attrs") {
			t.Errorf("%s: %v", attribute, err)
		}
	}
	if n := strings.Count(log.String(), "target_session_attrs"); n != 2 {
		t.Errorf("the log says it %d times: %s", n, log)
	}
}

func TestSettingsThatCannotBeMeantAreRefused(t *testing.T) {
	t.Parallel()
	if _, err := Open(settingsFor("postgres://u@localhost/d")); err != nil {
		t.Errorf("the control: %v", err)
	}
	for name, change := range map[string]func(*Settings){
		"no DSN":               func(s *Settings) { s.DSN = "" },
		"two DSNs":             func(s *Settings) { s.DSNFile = "/dsn" },
		"a relative file":      func(s *Settings) { s.DSN, s.DSNFile = "", "dsn" },
		"a file that is gone":  func(s *Settings) { s.DSN, s.DSNFile = "", "/no/such/file" },
		"a folder":             func(s *Settings) { s.DSN, s.DSNFile = "", "/" },
		"no connect timeout":   func(s *Settings) { s.ConnectTimeout = 0 },
		"no query timeout":     func(s *Settings) { s.QueryTimeout = 0 },
		"no connection":        func(s *Settings) { s.PoolSize = 0 },
		"too many connections": func(s *Settings) { s.PoolSize = maxPool + 1 },
		"no bytes":             func(s *Settings) { s.ResultBytes = 0 },
		"a negative cost":      func(s *Settings) { s.MaxCost = -1 },
		"no log":               func(s *Settings) { s.Log = nil },
		"no name":              func(s *Settings) { s.ApplicationName = "" },
		"a long name":          func(s *Settings) { s.ApplicationName = strings.Repeat("x", 64) },
		"an empty schema":      func(s *Settings) { s.SearchPath = []string{""} },
		"a long schema":        func(s *Settings) { s.SearchPath = []string{strings.Repeat("x", 64)} },
		"no such certificate":  func(s *Settings) { s.DSN += "?sslmode=verify-full&sslrootcert=/no/such/file" },
	} {
		s := settingsFor("postgres://u@localhost/d")
		change(&s)
		if _, err := Open(s); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if name == "no such certificate" {
			continue // what is needed for it can be said
		}
		if _, err := s.Needs(); err == nil {
			t.Errorf("%s: its needs are told", name)
		}
	}
}

// The handshake comes when no file can be opened any more.
func TestTheSystemsCertificatesAreReadAtTheStart(t *testing.T) {
	t.Parallel()
	d, err := Open(settingsFor("postgres://u@a,b/d"))
	if err != nil {
		t.Fatal(err)
	}
	if d.base.TLSConfig == nil || d.base.TLSConfig.RootCAs == nil || len(d.base.Fallbacks) != 1 ||
		d.base.Fallbacks[0].TLSConfig == nil || d.base.Fallbacks[0].TLSConfig.RootCAs == nil {
		t.Errorf("%+v", d.base)
	}
	d, err = Open(settingsFor("postgres://u@127.0.0.1/d?sslmode=require"))
	if err != nil || d.base.TLSConfig == nil || d.base.TLSConfig.RootCAs != nil {
		t.Errorf("the control: %v", err)
	}
}

func TestTheLogSaysWhyThereIsNoConnection(t *testing.T) {
	t.Parallel()
	const host = "s3cr3t.example"
	for _, c := range []struct {
		err  error
		want string
	}{
		{&pgconn.PgError{Code: "28P01", Message: host}, "SQLSTATE 28P01"},
		{&pgconn.PgError{Code: host}, "SQLSTATE unknown"},
		{fmt.Errorf("x: %w", &net.DNSError{Name: host, Err: "no such host"}), "the name cannot be resolved"},
		{&net.AddrError{Addr: host}, "the address is not valid"},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, "dial: refused"},
		{context.DeadlineExceeded, "no answer in time"},
		{&pgconn.ConnectError{}, ""},
		{errors.New("ours"), "ours"},
	} {
		if got := cause(c.err); got != c.want || strings.Contains(got, host) {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

func TestASessionThatIsNotAsItWasSentIsNotOurs(t *testing.T) {
	t.Parallel()
	p := newPins(Settings{SearchPath: []string{"public"}, QueryTimeout: time.Second})
	var sent [][]byte
	for _, f := range p.fixed {
		sent = append(sent, []byte(f[1]))
	}
	sent = append(sent, []byte("0"), []byte("0.25"), []byte("3600"))
	text, ok := p.own(sent, "15.18")
	for _, part := range []string{"'statement_timeout', '1000'", "'lock_timeout', '250'", "'idle_in_transaction_session_timeout', '15000'", watchSetting} {
		if !ok || !strings.Contains(text, part) {
			t.Errorf("%t: %q is not in %s", ok, part, text)
		}
	}
	if text, ok := p.own(sent, "13.1"); !ok || strings.Contains(text, watchSetting) {
		t.Errorf("13: %s", text)
	}
	for name, change := range map[string]func([][]byte) [][]byte{
		"short":        func(a [][]byte) [][]byte { return a[1:] },
		"another path": func(a [][]byte) [][]byte { a[0] = []byte("public"); return a },
		"no number":    func(a [][]byte) [][]byte { a[len(a)-1] = []byte("soon"); return a },
	} {
		if _, ok := p.own(change(append([][]byte(nil), sent...)), "15"); ok {
			t.Errorf("%s: taken for ours", name)
		}
	}
}
