package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"mcp-server-suite/pkg/pgpolicy"
	"mcp-server-suite/pkg/pgstage"
	"mcp-server-suite/pkg/problem"
)

const (
	// readerPassword holds what a URL must escape.
	readerPassword = "p4ss:w/rd@%?"

	// slack is what a busy machine may add to a time limit.
	slack = 10 * time.Second
)

// reader makes a database with a table n of 1 to 100, and a role that reads it.
func reader(t testing.TB, s *pgstage.Server, setup string) (db, role string) {
	t.Helper()
	db = s.Database(t, "CREATE TABLE n AS SELECT i FROM generate_series(1, 100) i;"+setup)
	return db, s.Role(t, db, pgstage.Reader{Password: readerPassword, Connections: 20})
}

// pool opens a DB with short time limits, which change may alter.
func pool(t testing.TB, dsn string, change func(*Settings)) *DB {
	t.Helper()
	return poolFor(t, maxLifetime, dsn, change)
}

func poolFor(t testing.TB, lifetime time.Duration, dsn string, change func(*Settings)) *DB {
	t.Helper()
	s := Settings{
		DSN: dsn, ConnectTimeout: 2 * time.Second, QueryTimeout: 8 * time.Second, PoolSize: 4,
		ApplicationName: "postgres-test", SearchPath: []string{"public"}, ResultBytes: 100_000,
		Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&s)
	}
	d, err := open(s, lifetime)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() }) // gives no error
	return d
}

// readerPool is a pool on a database of its own of the shared server, by its socket.
func readerPool(t testing.TB, setup string, change func(*Settings)) (d *DB, s *pgstage.Server, db, role string) {
	t.Helper()
	s = pgstage.Shared(t)
	db, role = reader(t, s, setup)
	return pool(t, s.DSN(db, role, readerPassword, true), change), s, db, role
}

var onePolicy = sync.OnceValues(func() (*pgpolicy.Policy, error) {
	return pgpolicy.New(pgpolicy.Settings{SearchPath: []string{"public"}})
})

func approved(t testing.TB, sql string, rows int) pgpolicy.Approved {
	t.Helper()
	p, err := onePolicy()
	if err != nil {
		t.Fatal(err)
	}
	a, err := p.Approve(context.Background(), sql, rows)
	if err != nil {
		t.Fatalf("%v\nin: %s", err, sql)
	}
	return a
}

// unpoliced runs a text that no policy has seen.
func unpoliced(ctx context.Context, d *DB, sql string) (Table, error) {
	return d.run(ctx, job{text: sql, rows: 50, bytes: d.settings.ResultBytes})
}

// single is unpoliced for a statement with one value, which it returns.
func single(t testing.TB, d *DB, sql string) string {
	t.Helper()
	table, err := unpoliced(context.Background(), d, sql)
	if err != nil {
		t.Fatalf("%v\nin: %s", err, sql)
	}
	return onlyValue(t, table)
}

// onlyValue is the only value of a table.
func onlyValue(t testing.TB, table Table) string {
	t.Helper()
	var rows [][]any
	if err := json.Unmarshal(table.Rows, &rows); err != nil || len(rows) != 1 || len(rows[0]) != 1 {
		t.Fatalf("not one value: %s, %v", table.Rows, err)
	}
	return fmt.Sprint(rows[0][0])
}

// sumOfN asks for the sum of n by way of the policy: 5050 is the only right answer.
func sumOfN(t testing.TB, ctx context.Context, d *DB) (Table, error) {
	t.Helper()
	table, err := d.Query(ctx, approved(t, "SELECT sum(i) FROM n", 50))
	if err == nil && onlyValue(t, table) != "5050" {
		t.Fatalf("wrong answer: %s", table.Rows)
	}
	return table, err
}

// fillPool makes as many connections as the pool holds.
func fillPool(t testing.TB, d *DB) {
	t.Helper()
	var all sync.WaitGroup
	for range d.settings.PoolSize {
		all.Go(func() {
			if _, err := unpoliced(context.Background(), d, "SELECT pg_sleep(0.3)"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := d.pool.Stat().TotalResources(); n != int32(d.settings.PoolSize) && !t.Failed() {
		t.Fatalf("the pool holds %d connections", n)
	}
}

// refused fails unless the error is a refusal for one of these reasons.
func refused(t testing.TB, err error, reasons ...problem.Reason) {
	t.Helper()
	var p *problem.Problem
	if errors.As(err, &p) {
		for _, r := range reasons {
			if p.Reason == r {
				return
			}
		}
	}
	t.Errorf("got %v, want a refusal for %v", err, reasons)
}

// await waits until done says so.
func await(t testing.TB, what string, done func() bool) time.Duration {
	t.Helper()
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if done() {
			return time.Since(start)
		}
		if time.Since(start) > slack {
			t.Fatalf("%s: not within %v", what, slack)
		}
	}
}

// busy waits until a statement with this text runs, and returns its backend.
func busy(t testing.TB, s *pgstage.Server, db, text string) (pid string) {
	t.Helper()
	await(t, "the statement runs", func() bool {
		rows := s.Query(t, "postgres", `SELECT pid FROM pg_stat_activity WHERE state = 'active'
			AND backend_type = 'client backend' AND datname = '`+db+`' AND query LIKE '%`+text+`%'`)
		if len(rows) == 1 {
			pid = rows[0][0]
		}
		return len(rows) == 1
	})
	return pid
}

// quiet waits until no statement of ours runs on the server.
func quiet(t testing.TB, s *pgstage.Server, db string) time.Duration {
	t.Helper()
	return await(t, "the server is idle", func() bool {
		return s.Query(t, "postgres", `SELECT count(*) FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND state <> 'idle' AND datname = '`+db+`'`)[0][0] == "0"
	})
}

func TestTheSocketAndTCPGiveTheSame(t *testing.T) {
	s := pgstage.Start(t, pgstage.Options{TLS: true})
	db, role := reader(t, s, "")
	for _, viaSocket := range []bool{true, false} {
		d := pool(t, s.DSN(db, role, readerPassword, viaSocket), nil)
		if table, err := sumOfN(t, context.Background(), d); err != nil || table.InRecovery {
			t.Errorf("socket %v: %+v, %v", viaSocket, table, err)
		}
		encrypted := single(t, d, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
		if encrypted != fmt.Sprint(!viaSocket) {
			t.Errorf("socket %v: encrypted %s", viaSocket, encrypted)
		}
	}
}

func TestAConnectionThatNobodyUsesIsClosedInTime(t *testing.T) {
	t.Parallel()
	const lifetime = 500 * time.Millisecond
	s := pgstage.Shared(t)
	db, role := reader(t, s, "")
	other := s.Role(t, db, pgstage.Reader{Password: readerPassword, Connections: 20})
	short := poolFor(t, lifetime, s.DSN(db, role, readerPassword, true), nil)
	long := pool(t, s.DSN(db, other, readerPassword, true), nil)
	for _, d := range []*DB{short, long} {
		fillPool(t, d)
	}
	backends := func(role string) string {
		return s.Query(t, "postgres", "SELECT count(*) FROM pg_stat_activity WHERE usename = '"+role+"'")[0][0]
	}
	for begun := time.Now(); backends(role) != "0"; time.Sleep(lifetime / 5) {
		if time.Since(begun) > lifetime+slack {
			t.Fatalf("%s connections are left %v after the last call", backends(role), time.Since(begun))
		}
	}
	if n := backends(other); n != "4" {
		t.Errorf("a pool whose connections last longer has %s of 4", n)
	}
	if _, err := sumOfN(t, context.Background(), short); err != nil {
		t.Errorf("a call afterwards: %v", err)
	}
}

func TestAFullPoolSaysBusyAndNothingElse(t *testing.T) {
	d, s, db, _ := readerPool(t, "", func(s *Settings) {
		s.PoolSize, s.ConnectTimeout = 1, time.Second
		s.AllowUnsafeRole = true // the look at the role takes longer than this time limit on a busy machine
	})
	single(t, d, "SELECT 1")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		_, err := unpoliced(ctx, d, "SELECT pg_sleep(30)")
		ended <- err
	}()
	busy(t, s, db, "pg_sleep")
	start := time.Now()
	_, err := sumOfN(t, context.Background(), d)
	refused(t, err, problem.Busy)
	if waited := time.Since(start); waited < time.Second || waited > time.Second+slack {
		t.Errorf("waited %v", waited)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	quiet(t, s, db)
	if _, err := sumOfN(t, context.Background(), d); err != nil {
		t.Error(err)
	}
}

func TestAServerWithoutAFreeConnectionSaysBusy(t *testing.T) {
	s := pgstage.Shared(t)
	db, _ := reader(t, s, "")
	role := s.Role(t, db, pgstage.Reader{Password: readerPassword, Connections: 1})
	dsn := s.DSN(db, role, readerPassword, true)
	taken := bare(t, dsn)
	d := pool(t, dsn, nil)
	_, err := sumOfN(t, context.Background(), d)
	refused(t, err, problem.DBBusy)
	if err := taken.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	await(t, "the connection is free", func() bool {
		_, err := sumOfN(t, context.Background(), d)
		return err == nil
	})
}

// bare is a connection without anything of ours.
func bare(t testing.TB, dsn string) *pgconn.PgConn {
	t.Helper()
	c, err := pgconn.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // it may be closed
	return c
}

// sessionSettings is what a client sees of the session that it is in.
const sessionSettings = `SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings WHERE name IN (
	'search_path', 'statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'DateStyle',
	'IntervalStyle', 'TimeZone', 'bytea_output', 'extra_float_digits', 'xmloption', 'lc_monetary', 'max_parallel_workers_per_gather',
	'client_connection_check_interval', 'default_transaction_read_only', 'transaction_read_only', 'transaction_isolation')`

// bouncerPool is a pool that reaches a database by a PgBouncer with so many server connections.
func bouncerPool(t *testing.T, servers int, change func(*Settings)) (d *DB, s *pgstage.Server, db, dsn string) {
	t.Helper()
	s = pgstage.Shared(t)
	db, role := reader(t, s, "")
	port, _ := s.Bouncer(t, pgstage.BouncerOptions{PoolSize: servers})
	dsn = pgstage.DSNAt(port, "", db, role, readerPassword)
	return pool(t, dsn, change), s, db, dsn
}

func TestAPoolerInTransactionModeServesEveryCall(t *testing.T) {
	for _, c := range []struct {
		name, why string
		pooler    bool
	}{
		{"transaction", "MCP_SQL_POOLER says so", true},
		{"none", "an operator has forgotten it: DISCARD ALL hits some server connection, which is idle", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, _, _, dsn := bouncerPool(t, 2, func(s *Settings) { s.Pooler, s.PoolSize = c.pooler, 6 })
			other := bare(t, dsn)
			sees := func() string {
				r := other.ExecParams(context.Background(), sessionSettings, nil, nil, nil, nil).Read()
				if r.Err != nil {
					t.Fatal(r.Err)
				}
				return string(r.Rows[0][0])
			}
			before := sees()
			if !strings.Contains(before, "statement_timeout=10000") { // of the role
				t.Fatal(before)
			}
			var all sync.WaitGroup
			for worker := range 6 {
				all.Go(func() {
					for i := range 20 {
						want := fmt.Sprint(worker*1000 + i)
						table, err := d.Query(context.Background(), approved(t, "SELECT max(i) + "+want+" - 100 FROM n", 50))
						if err != nil || onlyValue(t, table) != want {
							t.Errorf("call %s: %s, %v", want, table.Rows, err)
						}
					}
				})
			}
			for range 20 {
				if now := sees(); now != before {
					t.Errorf("a setting has leaked:\n%s\nwas\n%s", now, before)
				}
			}
			all.Wait()
			if now := sees(); now != before {
				t.Errorf("a setting has leaked:\n%s\nwas\n%s", now, before)
			}
			// What an escape costs is the same as without a pooler.
			_, err := unpoliced(context.Background(), d, "COMMIT")
			if !errors.Is(err, errEscaped) {
				t.Errorf("got %v, want %v", err, errEscaped)
			}
			if _, err := sumOfN(t, context.Background(), d); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestACancelledStatementEndsBehindAPooler(t *testing.T) {
	d, s, db, _ := bouncerPool(t, 1, func(s *Settings) { s.Pooler = true })
	for range 3 {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() {
			_, err := unpoliced(ctx, d, "SELECT pg_sleep(30)")
			ended <- err
		}()
		busy(t, s, db, "pg_sleep")
		cancel()
		t.Logf("idle after %v", quiet(t, s, db))
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if _, err := sumOfN(t, context.Background(), d); err != nil {
			t.Error(err)
		}
	}
}

func TestAPoolerThatHasNoServerConnectionFreeIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	d, s, db, dsn := bouncerPool(t, 1, func(s *Settings) { s.Pooler, s.QueryTimeout = true, 500*time.Millisecond })
	single(t, d, "SELECT 1")
	other := bare(t, dsn)
	if _, err := other.Exec(context.Background(), "BEGIN; SELECT 1").ReadAll(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err := sumOfN(t, context.Background(), d)
	refused(t, err, problem.DBInterrupted, problem.StatementTimeout)
	if waited := time.Since(start); waited > 500*time.Millisecond+2*cancelWait+slack/2 {
		t.Errorf("waited %v", waited) // PgBouncer's own limit is 2 minutes
	}
	if err := other.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	await(t, "the pooler serves again", func() bool {
		_, err := sumOfN(t, context.Background(), d)
		return err == nil
	})
	quiet(t, s, db)
}

// textLog is a log into a builder, which nobody may read while calls run.
func textLog(b *strings.Builder) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }
