package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcp-server-suite/pkg/pgstage"
	"mcp-server-suite/pkg/problem"
)

// needle is in every statement and every message of a server below, so that a test can look for it in every answer.
const needle = "needle7731"

// notebook is a log at DEBUG.
type notebook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (n *notebook) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.Write(p)
}

func (n *notebook) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.String()
}

// client is a pool with what it logs, and the names that it must not tell.
type client struct {
	*DB
	log    *notebook
	secret []string
}

// connectTo opens a pool of one connection to a DSN whose role is checked.
func connectTo(t *testing.T, dsn string, change ...func(*Settings)) *client {
	t.Helper()
	n := &notebook{}
	s := Settings{
		DSN: dsn, ConnectTimeout: 2 * time.Second, QueryTimeout: 2 * time.Second, PoolSize: 1, ApplicationName: "attack",
		SearchPath: []string{"public"}, ResultBytes: 100_000,
		Log: slog.New(slog.NewJSONHandler(n, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&s)
	}
	d, err := Open(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	c := &client{DB: d, log: n, secret: []string{d.target.user, d.target.password, d.target.database}}
	for _, e := range d.target.endpoints {
		c.secret = append(c.secret, e.host, strconv.Itoa(int(e.port)))
	}
	return c
}

// ask runs a text as if it had been approved. It must end by itself.
func (c *client) ask(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := c.run(ctx, job{text: sql, rows: 50, bytes: 100_000})
	return err
}

// theirs are words of the server and of pgconn that nobody may be told: they stand beside names and values.
var theirs = regexp.MustCompile(needle + `|FATAL|ERROR:|permission denied|canceling|terminating|no pg_hba|` +
	`authentication failed|failed to|shutting down|conflict with|too many connections|temporary file size`)

// refuses requires an answer with a reason, and that neither it nor the log tells what the caller, the server or the
// DSN says.
func (c *client) refuses(t *testing.T, err error, want problem.Reason, says string) {
	t.Helper()
	var p *problem.Problem
	if !errors.As(err, &p) || p.Reason != want || !strings.Contains(p.Detail, says) {
		t.Errorf("%v, want %s with %q", err, want, says)
	}
	if row := slices.IndexFunc(problem.Table(), func(r problem.Row) bool { return r.Reason == want }); row < 0 {
		t.Errorf("%s is no reason", want)
	}
	text := fmt.Sprint(err)
	for where, text := range map[string]string{"answer": text, "log": c.log.String()} {
		if found := theirs.FindString(text); found != "" {
			t.Errorf("the %s says %q: %s", where, found, text)
		}
		for _, secret := range c.secret {
			if len(secret) > 2 && strings.Contains(text, secret) {
				t.Errorf("the %s names %q: %s", where, secret, text)
			}
		}
	}
}

// faults are the conditions of queries with a statement that gives each. All run on a database with faultsSQL.
var faults = map[string]string{
	"21000": "SELECT (SELECT g FROM generate_series(1, 2) g), '" + needle + "'",
	"22003": "SELECT 2147483647 + length('" + needle + "')",
	"22007": "SELECT '" + needle + "'::date",
	"22008": "SELECT '2024-13-45'::date AS " + needle,
	"22012": "SELECT 1 / (length('" + needle + "') - 10)",
	"22023": "SELECT generate_series(1, 2, 0) AS " + needle,
	"2201B": "SELECT '" + needle + "' ~ '['",
	"2201W": "SELECT '" + needle + "' LIMIT LEAST(-1, 51)",
	"2201X": "SELECT '" + needle + "' OFFSET -1",
	"22P02": "SELECT '" + needle + "'::int",
	"22021": `SELECT convert_from('\xff', 'UTF8') AS ` + needle,
	"22026": "SELECT B'101' & B'1' AS " + needle,
	"22001": `SELECT * FROM jsonb_to_record('{"a": "` + needle + `"}') AS x(a varchar(2))`,
	"42601": "SELECT FROM WHERE " + needle,
	"42702": "SELECT a AS " + needle + " FROM t x, t y",
	"42703": "SELECT " + needle,
	"42704": "SELECT 1::" + needle,
	"42712": "SELECT 1 FROM t " + needle + ", t " + needle,
	"42725": "SELECT ambiguous(NULL) AS " + needle,
	"42803": "SELECT a AS " + needle + ", count(*) FROM t",
	"42804": "SELECT 1 AS " + needle + " UNION SELECT true",
	"42809": "SELECT abs(DISTINCT 1) AS " + needle,
	"42846": "SELECT true::date AS " + needle,
	"42883": "SELECT " + needle + "(1)",
	"42P01": "SELECT * FROM " + needle,
	"42P09": "SELECT t.a AS " + needle + " FROM public.t, other.t",
	"42P10": "SELECT a AS " + needle + " FROM t ORDER BY 5",
	"42P18": "SELECT array[] AS " + needle,
	"42P19": "WITH RECURSIVE " + needle + " AS (SELECT 1 UNION ALL SELECT 1 FROM " + needle + " x, " + needle +
		" y) TABLE " + needle,
	"42P20": "SELECT a AS " + needle + " FROM t WHERE row_number() OVER () = 1",
	"42P21": `SELECT '` + needle + `' COLLATE "C" || 'b' COLLATE "POSIX"`,
	"42P22": "SELECT x < y AS " + needle + " FROM collated",
	"0A000": "SELECT count(*) AS " + needle + " FROM t FOR UPDATE",
	"54001": "SELECT length('" + needle + "')" + strings.Repeat(" + 1", 20_000),
	"54011": "SELECT " + strings.Repeat("1, ", 1_664) + "1 AS " + needle,
	"54023": "SELECT concat('" + needle + "'" + strings.Repeat(", 1", 100) + ")",
	"3F000": "SELECT 1::" + needle + ".x",
	// Without a sentence of their own:
	"54000": "SELECT repeat('" + needle + "', 2000000000)",
	"P0001": "SELECT raises('P0001')",
	"38000": "SELECT raises('38000')",
	"22P06": "SELECT raises('22P06')",
}

const faultsSQL = `
CREATE TABLE t AS SELECT g AS a FROM generate_series(1, 100) g;
CREATE SCHEMA other;
CREATE TABLE other.t (a int);
CREATE TABLE collated (x text COLLATE "C", y text COLLATE "POSIX");
INSERT INTO collated VALUES ('a', 'b');
CREATE TABLE withheld AS SELECT 1 AS a;
CREATE FUNCTION ambiguous(point) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION ambiguous(box) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION raises(state text) RETURNS int LANGUAGE plpgsql AS $$
	BEGIN RAISE EXCEPTION USING ERRCODE = state, MESSAGE = '` + needle + `',
		DETAIL = '` + needle + `', HINT = '` + needle + `'; END $$;`

func TestEveryFaultOfAQueryIsNamedWithoutTheServersWords(t *testing.T) {
	t.Parallel()
	s := pgstage.Shared(t)
	db := s.Database(t, faultsSQL)
	role := s.Role(t, db, pgstage.Reader{
		Password: "pw-" + needle, Schemas: []string{"public", "other"}, PublicFunctions: true,
	})
	c := connectTo(t, s.DSN(db, role, "pw-"+needle, true))
	for state, sql := range faults {
		err := c.ask(sql)
		says := conditions[state]
		if says == "" {
			says = "it is not valid here"
		}
		c.refuses(t, err, problem.QueryFailed, says+" (SQLSTATE "+state+")")
		if t.Failed() {
			t.Fatalf("%s: %.100s", state, sql)
		}
	}
	for state := range conditions {
		if faults[state] == "" && excused[state] == "" {
			t.Errorf("%s is not provoked", state)
		}
	}
}

// excused are states that sqlstate.go knows and no server here gives, with the reason.
var excused = map[string]string{
	"42P02": "without a list of types a parameter is let through, and the count at Bind is wrong instead (08P01)",
	"25P03": "needs a transaction that waits for its client; a flight goes out as a whole",
	"25P04": "transaction_timeout is PostgreSQL 17's",
	"53200": "it takes a server that is out of memory",
	"53100": "needs a disk that is full",
	"57P02": "PostgreSQL sends it as a notice and then closes the connection, which is what counts here",
}

// provocations are all other states that sqlstate.go names.
var provocations = []struct {
	state  string
	want   problem.Reason
	says   string
	code   problem.Code
	again  bool // retryable
	ask    func(*provoker) (*client, error)
	reason string
}{
	{
		"57014", problem.StatementTimeout, "time limit", problem.ExecutionTimeout, true,
		(*provoker).timeout, "statement_timeout",
	},
	{
		"55P03", problem.StatementTimeout, "lock", problem.ExecutionTimeout, true,
		(*provoker).locked, "ALTER TABLE meanwhile",
	},
	{
		"25006", problem.UnsafeQuery, "read-only", problem.QueryViolation, false,
		(*provoker).write, "a write that was let through",
	},
	{"42501", problem.DBDenied, "may not read", problem.AccessDenied, false, (*provoker).denied, "no SELECT on it"},
	{"42501", problem.DBRejected, "42501", problem.InternalError, false, (*provoker).noConnect, "no CONNECT"},
	{"53300", problem.DBBusy, "53300", problem.InternalError, true, (*provoker).full, "CONNECTION LIMIT"},
	{"53400", problem.QueryFailed, "53400", problem.ValidationError, false, (*provoker).spills, "temp_file_limit"},
	{"40P01", problem.DBInterrupted, "40P01", problem.InternalError, true, (*provoker).deadlock, "a deadlock"},
	{
		"57P01", problem.DBInterrupted, "57P01", problem.InternalError, true,
		(*provoker).terminated, "pg_terminate_backend, twice",
	},
	{"57P03", problem.DBUnavailable, "57P03", problem.InternalError, true, (*provoker).stopping, "smart shutdown"},
	{"28000", problem.DBRejected, "28000", problem.InternalError, false, (*provoker).noLogin, "NOLOGIN"},
	{"28000", problem.DBRejected, "28000", problem.InternalError, false, (*provoker).plaintext, "pg_hba.conf wants TLS"},
	{"28P01", problem.DBRejected, "28P01", problem.InternalError, false, (*provoker).wrongPassword, "the password"},
	{"3D000", problem.DBRejected, "3D000", problem.InternalError, false, (*provoker).noDatabase, "the database"},
	{
		"08P01", problem.DBRejected, "08P01", problem.InternalError, false,
		(*provoker).parameter, "a parameter that was let through",
	},
	{
		"40001", problem.DBInterrupted, "40001", problem.InternalError, true,
		(*provoker).conflict, "conflict with recovery on a standby",
	},
	{
		"57P04", problem.DBInterrupted, "57P04", problem.InternalError, true,
		(*provoker).dropped, "the database is dropped on the primary",
	},
	{
		"", problem.DBRejected, "does not offer TLS", problem.InternalError, false,
		(*provoker).noTLS, "sslmode=require, no TLS",
	},
	{
		"", problem.DBRejected, "not trusted", problem.InternalError, false,
		(*provoker).untrusted, "an authority nobody knows",
	},
	{"", problem.DBUnavailable, "cannot be reached", problem.InternalError, true, (*provoker).closed, "nobody listens"},
	{"", problem.DBUnavailable, "cannot be reached", problem.InternalError, true, (*provoker).noSocket, "no socket"},
	{"", problem.DBUnavailable, "", problem.InternalError, true, (*provoker).silent, "accepts and says nothing"},
	{
		"", problem.Busy, "MCP_SQL_POOL_MAX_SIZE", problem.InternalError, true,
		(*provoker).poolInUse, "all connections in use",
	},
	{"", problem.DBInterrupted, "broke", problem.InternalError, true, (*provoker).cut, "the connection is reset, twice"},
}

func TestEveryStateOfAServerHasItsReason(t *testing.T) {
	t.Parallel()
	provoked := map[string]bool{}
	for _, p := range provocations {
		provoked[p.state] = true
	}
	source, err := os.ReadFile("sqlstate.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`"([0-9A-Z]{5})"`).FindAllSubmatch(source, -1) {
		state := string(match[1])
		_, isCondition := conditions[state]
		if !provoked[state] && excused[state] == "" && !isCondition && state != "57P05" { // see TestAnIdleTimeout...
			t.Errorf("%s is in sqlstate.go and nothing provokes it", state)
		}
	}
	for _, p := range provocations {
		t.Run(strings.TrimPrefix(p.state+" "+p.reason, " "), func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			c, err := p.ask(&provoker{t: t})
			c.refuses(t, err, p.want, p.says)
			if p.want.Code() != p.code {
				t.Errorf("code %s, want %s", p.want.Code(), p.code)
			}
			for _, row := range problem.Table() {
				if row.Reason == p.want && row.Retryable != p.again {
					t.Errorf("retryable: %v, want %v", row.Retryable, p.again)
				}
			}
			t.Logf("%v after %v; log: %s", err, time.Since(begin).Round(time.Millisecond), c.log)
		})
	}
}

// provoker makes servers say what they say rarely.
type provoker struct {
	t    *testing.T
	s    *pgstage.Server
	db   string
	role string
}

const rolePassword = "pw-" + needle

// shared prepares a database and a role on the shared server.
func (p *provoker) shared() *provoker { return p.on(pgstage.Shared(p.t)) }

func (p *provoker) on(s *pgstage.Server) *provoker {
	p.t.Helper()
	p.s = s
	p.db = s.Database(p.t, faultsSQL)
	p.role = s.Role(p.t, p.db, pgstage.Reader{Password: rolePassword})
	s.Exec(p.t, p.db, "REVOKE ALL ON withheld FROM "+p.role)
	return p
}

func (p *provoker) client(change ...func(*Settings)) *client {
	p.t.Helper()
	return connectTo(p.t, p.s.DSN(p.db, p.role, rolePassword, true), change...)
}

func (p *provoker) exec(sql string) {
	p.t.Helper()
	p.s.Exec(p.t, p.db, strings.NewReplacer("{ROLE}", p.role, "{DB}", p.db).Replace(sql))
}

// running waits until the role has a statement that runs, or waits for a lock.
func (p *provoker) running(s *pgstage.Server) {
	p.t.Helper()
	for range 1000 {
		if s.Query(p.t, "postgres", "SELECT count(*) FROM pg_stat_activity WHERE usename = '"+p.role+
			"' AND state = 'active' AND query ~ '"+needle+"'")[0][0] != "0" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.t.Fatal("the statement does not run")
}

const sleeps = "SELECT pg_sleep(8) AS " + needle

func (p *provoker) timeout() (*client, error) {
	c := p.shared().client(func(s *Settings) { s.QueryTimeout = 100 * time.Millisecond })
	return c, c.ask(sleeps)
}

func (p *provoker) locked() (*client, error) {
	c := p.shared().client()
	holder := p.hold("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
	defer holder()
	return c, c.ask("SELECT a AS " + needle + " FROM t")
}

// hold opens a connection of the superuser that has run this, and returns what closes it.
func (p *provoker) hold(sql string) func() {
	p.t.Helper()
	g := &ground{t: p.t}
	c := g.dial(p.s.DSN(p.db, "postgres", "", true))
	g.simple(c, sql+"; SELECT 1")
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx) // the server ends it otherwise
	}
}

func (p *provoker) write() (*client, error) {
	c := p.shared().client()
	return c, c.ask("INSERT INTO t VALUES (7) /* " + needle + " */")
}

func (p *provoker) denied() (*client, error) {
	c := p.shared().client()
	return c, c.ask("SELECT a AS " + needle + " FROM withheld")
}

func (p *provoker) noConnect() (*client, error) {
	p.shared().exec("REVOKE CONNECT ON DATABASE {DB} FROM PUBLIC, {ROLE}")
	c := p.client()
	return c, c.ask("SELECT 1 AS " + needle)
}

func (p *provoker) full() (*client, error) {
	p.shared().exec("ALTER ROLE {ROLE} CONNECTION LIMIT 0")
	c := p.client()
	return c, c.ask("SELECT 1 AS " + needle)
}

func (p *provoker) spills() (*client, error) {
	p.shared().exec("ALTER ROLE {ROLE} SET temp_file_limit = '100kB'; ALTER ROLE {ROLE} SET work_mem = '64kB'")
	c := p.client()
	return c, c.ask("SELECT g AS " + needle + " FROM generate_series(1, 100000) g ORDER BY g DESC")
}

func (p *provoker) deadlock() (*client, error) {
	p.shared().exec("ALTER ROLE {ROLE} SET deadlock_timeout = '50ms'")
	c := p.client()
	g := &ground{t: p.t}
	other := g.dial(p.s.DSN(p.db, "postgres", "", true))
	g.simple(other, "SET deadlock_timeout = '10s'; BEGIN; SELECT pg_advisory_xact_lock(7731)")
	done := make(chan error, 1)
	go func() {
		done <- c.ask("SELECT pg_advisory_xact_lock(7732), pg_sleep(0.5), pg_advisory_xact_lock(7731) AS " + needle)
	}()
	p.running(p.s)
	g.simple(other, "SELECT pg_advisory_xact_lock(7732)") // until the first is ended
	return c, <-done
}

func (p *provoker) terminated() (*client, error) {
	c := p.shared().client()
	done := make(chan error, 1)
	go func() { done <- c.ask(sleeps) }()
	for {
		select {
		case err := <-done:
			return c, err
		case <-time.After(20 * time.Millisecond):
			p.s.Query(p.t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+p.role+
				"' AND state = 'active' AND query ~ '"+needle+"'")
		}
	}
}

func (p *provoker) stopping() (*client, error) {
	p.on(pgstage.Start(p.t, pgstage.Options{}))
	c := p.client()
	client := p.hold("SELECT 1") // for as long as it stays, the server goes on stopping
	defer client()
	text, err := os.ReadFile(filepath.Join(p.s.DataDir, "postmaster.pid"))
	if err != nil {
		p.t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	for range 100 { // until the signal has been seen, connections succeed
		if err = c.ask("SELECT 1 AS " + needle); err != nil {
			break
		}
		_ = c.pool.AcquireAllIdle()
		c.pool.Reset()
	}
	return c, err
}

func (p *provoker) noLogin() (*client, error) {
	p.shared().exec("ALTER ROLE {ROLE} NOLOGIN")
	c := p.client()
	return c, c.ask("SELECT 1 AS " + needle)
}

// encrypted starts a server that takes nothing else on TCP.
func (p *provoker) encrypted() *provoker {
	return p.on(pgstage.Start(p.t, pgstage.Options{TLSOnly: true}))
}

// tcp is the DSN over TCP with this sslmode and no certificate.
func (p *provoker) tcp(mode string) string {
	return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/%s?sslmode=%s", p.role, rolePassword, p.s.Port, p.db, mode)
}

func (p *provoker) plaintext() (*client, error) {
	c := connectTo(p.t, p.encrypted().tcp("disable"))
	return c, c.ask("SELECT 1 AS " + needle)
}

func (p *provoker) untrusted() (*client, error) {
	c := connectTo(p.t, p.encrypted().tcp("verify-full"))
	return c, c.ask("SELECT 1 AS " + needle)
}

func (p *provoker) noTLS() (*client, error) {
	c := connectTo(p.t, p.shared().tcp("require"))
	return c, c.ask("SELECT 1 AS " + needle)
}

func (p *provoker) wrongPassword() (*client, error) {
	c := connectTo(p.t, p.shared().s.DSN(p.db, p.role, "wrong-"+needle, true))
	return c, c.ask("SELECT 1 AS " + needle)
}

func (p *provoker) noDatabase() (*client, error) {
	p.shared()
	c := connectTo(p.t, p.s.DSN("db"+needle, p.role, rolePassword, true))
	return c, c.ask("SELECT 1 AS " + needle)
}

func (p *provoker) parameter() (*client, error) {
	c := p.shared().client()
	return c, c.ask("SELECT $1 AS " + needle)
}

// standby makes a primary with a standby that lets nobody wait, and a pool on the standby.
func (p *provoker) standby() (*pgstage.Server, *client) {
	p.t.Helper()
	p.on(pgstage.Start(p.t, pgstage.Options{
		Settings: []string{"max_standby_streaming_delay = 0", "max_standby_archive_delay = 0"},
	}))
	standby := p.s.Standby(p.t)
	return standby, connectTo(p.t, standby.DSN(p.db, p.role, rolePassword, true), func(s *Settings) {
		s.QueryTimeout = 10 * time.Second
	})
}

func (p *provoker) conflict() (*client, error) {
	standby, c := p.standby()
	done := make(chan error, 1)
	go func() { done <- c.ask("SELECT count(*), (SELECT pg_sleep(8)) AS " + needle + " FROM t") }()
	p.running(standby)
	p.exec("DELETE FROM t")
	p.exec("VACUUM t")
	standby.CatchUp(p.t)
	return c, <-done
}

func (p *provoker) dropped() (*client, error) {
	standby, c := p.standby()
	done := make(chan error, 1)
	go func() { done <- c.ask(sleeps) }()
	p.running(standby)
	p.s.Exec(p.t, "postgres", "DROP DATABASE "+p.db+" WITH (FORCE)")
	return c, <-done
}

func (p *provoker) closed() (*client, error) {
	p.on(pgstage.Start(p.t, pgstage.Options{}))
	dsn := p.tcp("disable")
	p.s.Stop(p.t)
	c := connectTo(p.t, dsn)
	return c, c.ask("SELECT 1 AS " + needle)
}

func (p *provoker) noSocket() (*client, error) {
	p.s, p.db, p.role = &pgstage.Server{Port: 7731, SocketDir: p.t.TempDir()}, "db"+needle, "role"+needle
	c := p.client()
	return c, c.ask("SELECT 1 AS " + needle)
}

func (p *provoker) silent() (*client, error) {
	p.shared()
	proxy := pgstage.NewProxy(p.t, p.s.Address(true))
	proxy.Pause()
	c := connectTo(p.t, pgstage.DSNAt(proxy.Port, "", p.db, p.role, rolePassword), func(s *Settings) {
		s.ConnectTimeout = 200 * time.Millisecond
	})
	return c, c.ask("SELECT 1 AS " + needle)
}

func (p *provoker) poolInUse() (*client, error) {
	c := p.shared().client(func(s *Settings) { s.ConnectTimeout = 300 * time.Millisecond })
	done := make(chan error, 1)
	go func() { done <- c.ask("SELECT pg_sleep(1.5) AS " + needle) }()
	p.running(p.s)
	err := c.ask("SELECT 1 AS " + needle)
	if err := <-done; err != nil {
		p.t.Errorf("the call that had the connection: %v", err)
	}
	return c, err
}

func (p *provoker) cut() (*client, error) {
	p.shared()
	proxy := pgstage.NewProxy(p.t, p.s.Address(true))
	c := connectTo(p.t, pgstage.DSNAt(proxy.Port, "", p.db, p.role, rolePassword))
	done := make(chan error, 1)
	go func() { done <- c.ask(sleeps) }()
	for {
		select {
		case err := <-done:
			return c, err
		case <-time.After(50 * time.Millisecond):
			if slices.ContainsFunc(p.s.Activity(p.t), func(q string) bool { return q == sleeps }) {
				proxy.Cut()
			}
		}
	}
}

// An operator's idle_session_timeout (or a firewall) ends connections that the pool keeps: no call may fail by it.
func TestAnIdleTimeoutOfTheServerCostsNoCall(t *testing.T) {
	t.Parallel()
	p := (&provoker{t: t}).shared()
	p.exec("ALTER ROLE {ROLE} SET idle_session_timeout = '100ms'")
	c := p.client()
	for range 3 {
		if err := c.ask("SELECT 1 AS " + needle); err != nil {
			t.Fatal(err)
		}
		for len(p.s.Query(t, "postgres", "SELECT 1 FROM pg_stat_activity WHERE usename = '"+p.role+"'")) > 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// What a user's function raises is no word of the server: whatever state it carries, its text stays inside.
func TestAnUnknownStateIsAFaultWithoutText(t *testing.T) {
	t.Parallel()
	s := pgstage.Shared(t)
	db := s.Database(t, faultsSQL)
	role := s.Role(t, db, pgstage.Reader{Password: rolePassword, PublicFunctions: true})
	c := connectTo(t, s.DSN(db, role, rolePassword, true))
	for _, state := range []string{"XX000", "58030", "ZZ999", "F0000"} {
		err := c.ask("SELECT raises('" + state + "')")
		var p *problem.Problem
		if errors.As(err, &p) || err == nil || err.Error() != "run statement: SQLSTATE "+state {
			t.Errorf("%s: %v", state, err)
		}
	}
	if text := c.log.String(); theirs.MatchString(text) {
		t.Errorf("log: %s", text)
	}
}
