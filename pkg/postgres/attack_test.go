package postgres

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"mcp-server-suite/pkg/pgstage"
)

// ground is a server with what the attacks aim at. Everything that would stop them but the layer under test is taken
// away: objects exist, dblink can log in, files can be written.
type ground struct {
	t      *testing.T
	server *pgstage.Server
	db     string
	reader string // DSN of the least-privilege role
	super  string
	folder string // where the server may write
	judge  *pgconn.PgConn
	intact []string                  // what remains says when nothing has been done
	seeded string                    // the random number after setseed(0.5)
	victim map[string]*pgconn.PgConn // sessions that must survive, by role
}

// groundSQL makes the objects of the payloads. All that writes does so visibly, in t or in the sequence.
const groundSQL = `
CREATE EXTENSION dblink;
CREATE EXTENSION tablefunc;
CREATE EXTENSION pgstattuple;
CREATE TABLE pristine AS SELECT g AS a, 'b'::text AS b, 'c'::text AS c, g AS id, 'n' || g AS name
	FROM generate_series(1, 100) g;
CREATE TABLE t AS TABLE pristine;
CREATE TABLE users AS SELECT id, name FROM pristine;
CREATE TABLE secret AS SELECT 'TOP-SECRET-7731'::text AS word;
CREATE TABLE docs (v tsvector);
CREATE INDEX gi ON docs USING gin (v) WITH (fastupdate = on);
` + docsSQL + `
CREATE SEQUENCE s;
CREATE MATERIALIZED VIEW mv AS SELECT count(*) AS n FROM t;
INSERT INTO t VALUES (101, 'b', 'c', 101, 'n101');
INSERT INTO pristine VALUES (101, 'b', 'c', 101, 'n101');
CREATE PROCEDURE p() LANGUAGE sql AS 'INSERT INTO t (a) VALUES (-1)';
CREATE PROCEDURE ends() LANGUAGE plpgsql AS 'BEGIN COMMIT; INSERT INTO t (a) VALUES (-6); COMMIT; END';
CREATE FUNCTION app_fn(int) RETURNS int LANGUAGE sql AS 'INSERT INTO t (a) VALUES (-$1) RETURNING a';
CREATE FUNCTION evil(users) RETURNS int LANGUAGE sql AS 'INSERT INTO t (a) VALUES (-3) RETURNING a';
CREATE SCHEMA reporting;
CREATE FUNCTION reporting.wr() RETURNS int LANGUAGE sql SECURITY DEFINER
	AS 'INSERT INTO public.t (a) VALUES (-2) RETURNING a';
CREATE SCHEMA evil;
CREATE FUNCTION evil.plus(int, int) RETURNS int LANGUAGE sql AS 'INSERT INTO public.t (a) VALUES (-4) RETURNING a';
CREATE OPERATOR evil.+ (LEFTARG = int, RIGHTARG = int, FUNCTION = evil.plus);
CREATE FUNCTION evil.mark(text) RETURNS bool LANGUAGE sql AS 'INSERT INTO public.t (a) VALUES (-5) RETURNING true';
CREATE DOMAIN evil.t AS text CHECK (evil.mark(VALUE));
SELECT lo_from_bytea(7731, 'large object');
`

// docsSQL leaves its rows in the pending list of the index.
const docsSQL = "INSERT INTO docs SELECT to_tsvector('simple', 'word' || g) FROM generate_series(1, 50) g;"

// remains lists what could have changed for somebody else.
const remains = `SELECT
	(SELECT count(*) || '/' || md5(string_agg(x::text, E'\n' ORDER BY x::text)) FROM public.t x),
	(SELECT last_value || '/' || is_called FROM public.s),
	(SELECT n FROM public.mv),
	(SELECT md5(string_agg(c.oid || '/' || c.relname || '/' || c.relkind::text || coalesce(c.relacl::text, ''), ' '
		ORDER BY c.oid))
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname !~ '^pg_(toast_)?temp'),
	(SELECT count(*) || '/' || max(p.oid) FROM pg_proc p WHERE p.pronamespace::regnamespace::text !~ '^pg_temp'),
	(SELECT count(*) || '/' || md5(string_agg(loid || '/' || data::text, ' ' ORDER BY loid)) FROM pg_largeobject),
	(SELECT md5(string_agg(r::text, ' ' ORDER BY r.oid)) FROM pg_authid r),
	(SELECT md5(string_agg(d::text, ' ' ORDER BY d.oid)) FROM pg_database d),
	(SELECT md5(string_agg(d::text, ' ')) FROM pg_db_role_setting d),
	(SELECT md5(pg_read_file('postgresql.auto.conf'))),
	(SELECT pending_pages FROM public.pgstatginindex('public.gi')),
	(SELECT count(*) FROM pg_replication_slots),
	(SELECT count(*) FROM pg_prepared_xacts),
	(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')`

// own is what a session carries from one statement to the next.
const own = `SELECT
	session_user || '/' || current_user,
	(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) || ' advisory locks',
	(SELECT count(*) FROM pg_prepared_statements) || ' prepared statements',
	(SELECT count(*) FROM pg_cursors) || ' cursors',
	(SELECT count(*) FROM pg_listening_channels()) || ' channels',
	pg_my_temp_schema() || ' temporary schema',
	(random() = $1) || ', that the seed is known',
	(SELECT string_agg(name || '=' || setting, E'\n' ORDER BY name) FROM pg_settings WHERE context IN ('user', 'superuser')
		-- A library that was loaded, plpgsql for instance, shows its settings from then on.
		AND strpos(name, '.') = 0)`

func newGround(t *testing.T) *ground {
	t.Helper()
	// trust: hundreds of logins, and no password is what holds here.
	s := pgstage.Start(t, pgstage.Options{Auth: "trust", Settings: []string{"max_prepared_transactions = 5"}})
	g := &ground{t: t, server: s, victim: map[string]*pgconn.PgConn{}}
	g.db = s.Database(t, groundSQL)
	role := s.Role(t, g.db, pgstage.Reader{Name: "reader", Password: "pw"})
	// What a careful operator withholds: see Role. secret stands for what it was not given.
	s.Exec(t, g.db, "REVOKE ALL ON secret FROM reader")
	g.reader, g.super = s.DSN(g.db, role, "pw", true), s.DSN(g.db, "postgres", "", true)
	g.folder = t.TempDir()
	for folder := g.folder; folder != os.TempDir() && folder != "/"; folder = filepath.Dir(folder) {
		if err := os.Chmod(folder, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	g.judge = g.dial(g.super)
	g.victim["super"], g.victim["own"] = g.dial(g.super), g.dial(g.reader)
	g.intact = g.simple(g.judge, remains)
	g.seeded = g.simple(g.judge, "SELECT setseed(0.5); SELECT random()")[0]
	return g
}

func (g *ground) dial(dsn string) *pgconn.PgConn {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := pgconn.Connect(ctx, dsn)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx) // it may have been terminated
	})
	return c
}

// simple runs trusted statements by the simple protocol and returns the last row.
func (g *ground) simple(c *pgconn.PgConn, sql string) []string {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	results, err := c.Exec(ctx, sql).ReadAll()
	if err != nil {
		g.t.Fatalf("%v\nin: %.200s", err, sql)
	}
	last := results[len(results)-1]
	if len(last.Rows) == 0 {
		return nil
	}
	row := make([]string, len(last.Rows[0]))
	for i, v := range last.Rows[0] {
		row[i] = string(v)
	}
	return row
}

// payload is one text that the policy refuses.
type payload struct{ id, sql string }

// payloads are the refused cases of the policy's own list that a server can be given, and what the reports and the
// findings add. In a text, {DBLINK}, {OWN}, {SUPER} and {FOLDER} stand for what only a run
// knows.
func payloads(t *testing.T) []payload {
	t.Helper()
	f, err := os.Open("../pgpolicy/testdata/sql.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []payload
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c struct{ ID, SQL, Expect string }
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		// text-*: too deep, blank or not UTF-8; never sent as they are, and harmless to the server.
		if c.Expect != "reject" || strings.HasPrefix(c.ID, "text-") {
			continue
		}
		// The database of the case does not exist; with one that does, the attack is real.
		c.SQL = strings.Replace(c.SQL, "'dbname=x', 'DROP TABLE t'", "'{DBLINK}', 'DELETE FROM t'", 1)
		all = append(all, payload{c.ID, c.SQL})
	}
	if err := lines.Err(); err != nil || len(all) < 55 {
		t.Fatalf("%d payloads, %v", len(all), err)
	}
	return append(all,
		payload{"commit", "COMMIT"},
		payload{"rollback", "ROLLBACK"},
		payload{"end_and_chain", "END AND CHAIN"},
		payload{"begin_read_write", "BEGIN READ WRITE"},
		payload{"commit_begin_read_write", "COMMIT; BEGIN READ WRITE; DELETE FROM t"},
		payload{"start_transaction", "START TRANSACTION READ WRITE"},
		payload{"savepoint", "SAVEPOINT x"},
		payload{"prepare_transaction", "PREPARE TRANSACTION 'x'"},
		payload{"comment_set_read_write", "/* note */ SET TRANSACTION READ WRITE"},
		payload{"session_characteristics", "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE"},
		payload{"read_write_by_set_config", "SELECT set_config('transaction_read_only', 'off', false)"},
		payload{"default_read_write", "SELECT set_config('default_transaction_read_only', 'off', false)"},
		payload{"timeout_off", "SELECT set_config('statement_timeout', '0', false)"},
		payload{"search_path_evil", "SELECT set_config('search_path', 'evil', false)"},
		payload{"set_evil", "SET search_path = evil"},
		payload{"set_role", "SET ROLE postgres"},
		payload{"session_authorization", "SET SESSION AUTHORIZATION postgres"},
		payload{"reset_all", "RESET ALL"},
		payload{"discard_all", "DISCARD ALL"},
		payload{"plain_delete", "DELETE FROM t"},
		payload{"comment_delete", "-- harmless\nDELETE FROM t WHERE id = 1"},
		payload{"select_delete", "SELECT 1; DELETE FROM t"},
		payload{"cursor_prefix", "DECLARE c CURSOR FOR SELECT 1; COMMIT; DELETE FROM t"},
		payload{"held_cursor", "DECLARE c CURSOR WITH HOLD FOR SELECT 1"},
		payload{"do_delete", "DO $$ BEGIN DELETE FROM t; END $$"},
		payload{"do_commit", "DO $$ BEGIN COMMIT; DELETE FROM t; COMMIT; END $$"},
		payload{"call_ends", "CALL ends()"},
		payload{"explain_select", "EXPLAIN (ANALYZE) SELECT nextval('s')"},
		payload{"copy_out", "COPY t TO STDOUT"},
		payload{"copy_in", "COPY t FROM STDIN"},
		payload{"copy_to_file", "COPY (SELECT 1) TO '{FOLDER}/copied'"},
		payload{"copy_to_program", "COPY (SELECT 1) TO PROGRAM 'cat >/dev/null; touch {FOLDER}/programmed'"},
		payload{"copy_from_program", "COPY t (b) FROM PROGRAM 'touch {FOLDER}/programmed'"},
		payload{"lo_export", "SELECT lo_export(7731, '{FOLDER}/exported')"},
		payload{"lo_create", "SELECT lo_create(0)"},
		payload{"lo_put", "SELECT lo_put(7731, 0, 'overwritten')"},
		payload{"lo_unlink", "SELECT lo_unlink(7731)"},
		payload{"ls_dir", "SELECT * FROM ROWS FROM (pg_ls_dir('.'), generate_series(1,3)) AS r(a,b)"},
		payload{"read_binary_file", "SELECT pg_read_binary_file('PG_VERSION')"},
		payload{"dblink_exec", "SELECT dblink_exec('{DBLINK}', 'DELETE FROM t')"},
		payload{"query_to_xml_delete", "SELECT query_to_xml('DELETE FROM t RETURNING 1', true, false, '')"},
		payload{"query_to_xml_lock", "SELECT query_to_xml('SELECT pg_advisory_lock(77)', true, false, '')"},
		payload{"query_to_xml_two", "SELECT query_to_xml('SELECT 1; SELECT 2', true, false, '')"},
		payload{"ts_stat", "SELECT * FROM ts_stat('SELECT pg_advisory_lock(78)::text::tsvector')"},
		payload{"advisory_lock", "SELECT pg_advisory_lock(42)"},
		payload{"setseed", "SELECT setseed(0.5)"},
		payload{"emit_message", "SELECT pg_logical_emit_message(false, 'a', repeat('b', 1000000))"},
		payload{"current_xact_id", "SELECT pg_current_xact_id()"},
		payload{"gin_clean", "SELECT gin_clean_pending_list('gi')"},
		payload{"terminate_own", "SELECT pg_terminate_backend({OWN}, 1000)"},
		payload{"terminate_super", "SELECT pg_terminate_backend({SUPER}, 1000)"},
		payload{"terminate_itself", "SELECT pg_terminate_backend(pg_backend_pid())"},
		payload{"cancel_itself", "SELECT pg_cancel_backend(pg_backend_pid())"},
		payload{"reload", "SELECT pg_reload_conf()"},
		payload{"replication_slot", "SELECT pg_create_physical_replication_slot('x')"},
		payload{"restore_point", "SELECT pg_create_restore_point('x')"},
		payload{"stat_reset", "SELECT pg_stat_reset()"},
		payload{"shadow", "SELECT passwd FROM pg_shadow"},
		payload{"not_granted", "SELECT * FROM secret"},
		payload{"column_notation", "SELECT u.evil FROM users u"},
		payload{"nextval", "SELECT nextval('s')"},
		payload{"setval", "SELECT setval('s', 99)"},
		payload{"grant", "GRANT ALL ON t TO PUBLIC"},
		payload{"alter_role", "ALTER ROLE reader SUPERUSER"},
		payload{"alter_system", "ALTER SYSTEM SET work_mem = '1GB'"},
		payload{"create_function", "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'"},
		payload{"create_database", "CREATE DATABASE x"},
		payload{"vacuum", "VACUUM t"},
		payload{"lock_table", "LOCK TABLE t IN ACCESS EXCLUSIVE MODE"},
		payload{"lock_share", "LOCK TABLE t IN ACCESS SHARE MODE"},
		payload{"notify", "NOTIFY c, 'x'"},
		payload{"checkpoint", "CHECKPOINT"},
		payload{"load", "LOAD 'auto_explain'"},
		payload{"temp_table", "CREATE TEMP TABLE x AS SELECT 1"},
		payload{"empty", ""},
		payload{"only_comment", "-- nothing"},
	)
}

func (g *ground) fill(sql string) string {
	return strings.NewReplacer(
		"{DBLINK}", fmt.Sprintf("dbname=%s host=%s port=%d user=postgres password=%s",
			g.db, g.server.SocketDir, g.server.Port, g.password()),
		"{OWN}", strconv.Itoa(int(g.victim["own"].PID())), "{SUPER}", strconv.Itoa(int(g.victim["super"].PID())),
		"{FOLDER}", g.folder).Replace(sql)
}

func (g *ground) password() string {
	c, err := pgconn.ParseConfig(g.super)
	if err != nil {
		g.t.Fatal(err)
	}
	return c.Password
}

// damage says what a payload has left for others to see, and repairs it.
func (g *ground) damage() (left []string) {
	names := []string{
		"rows", "sequence", "view", "relations", "functions", "large objects", "roles", "databases", "settings",
		"server settings", "index", "slots", "prepared transactions", "advisory locks",
	}
	after := g.simple(g.judge, remains)
	for i, name := range names {
		if g.intact[i] != after[i] {
			left = append(left, name)
		}
	}
	if len(left) > 0 {
		g.simple(g.judge, `TRUNCATE t, docs; INSERT INTO t SELECT * FROM pristine; `+docsSQL+` SELECT setval('s', 1, false);
			SELECT lo_unlink(oid) FROM pg_largeobject_metadata WHERE oid <> 7731;
			SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots`)
		if row := g.simple(g.judge, "SELECT quote_literal(gid) FROM pg_prepared_xacts"); row != nil {
			g.simple(g.judge, "ROLLBACK PREPARED "+row[0])
		}
		if now := g.simple(g.judge, remains); !slices.Equal(now, g.intact) {
			g.t.Fatalf("cannot repair %v", left)
		}
	}
	files, err := filepath.Glob(g.folder + "/*")
	if err != nil {
		g.t.Fatal(err)
	}
	for _, file := range files {
		left = append(left, "file")
		if err := os.Remove(file); err != nil {
			g.t.Fatal(err)
		}
	}
	for role, v := range g.victim {
		if g.simple(g.judge, fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid = %d", v.PID()))[0] == "0" {
			left = append(left, "session of "+role)
			g.victim[role] = g.dial(map[string]string{"super": g.super, "own": g.reader}[role])
		}
	}
	slices.Sort(left)
	return left
}

// held names the layer that stopped a statement; "" is none.
func held(err error) string {
	var server *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errEscaped):
		return "transaction status"
	case errors.Is(err, errUnpinned):
		return "shape of the answer"
	case !errors.As(err, &server):
		return "protocol"
	case server.Code == "42601" && strings.Contains(server.Message, "multiple commands"):
		return "one statement"
	case server.Code == "25006":
		return "READ ONLY"
	case server.Code == "42501":
		return "role"
	case server.Code == "57014" && strings.Contains(server.Message, "statement timeout"):
		return "timeout"
	case server.Code == "25001" || server.Code == "2D000" || server.Code == "3B001":
		return "inside a transaction"
	case server.Code == "08P01" || server.Code == "42P02":
		return "no parameters"
	}
	return "server " + server.Code
}

// raw sends a text as it is where an approved one would stand.
func raw(d *DB, text string) (Table, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := d.acquire(ctx)
	if err != nil {
		return Table{}, err
	}
	f := flight{db: d, conn: r.Value(), job: job{text: text, rows: 50, bytes: 100_000}}
	err = f.fly(ctx)
	d.release(r, f.clean)
	return f.table, err
}

// open opens a pool of one connection: what a statement leaves in it, the next one meets.
func (g *ground) open(dsn string) *DB {
	g.t.Helper()
	d, err := Open(Settings{
		DSN: dsn, AllowUnsafeRole: dsn == g.super, ConnectTimeout: 5 * time.Second, QueryTimeout: 150 * time.Millisecond,
		PoolSize: 1, ApplicationName: "attack", SearchPath: []string{"public"}, ResultBytes: 100_000,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = d.Close() })
	return d
}

// session is the state of the connection that the next statement gets.
func (g *ground) session(d *DB) string {
	g.t.Helper()
	r, err := d.acquire(context.Background())
	if err != nil {
		g.t.Fatal(err)
	}
	defer d.release(r, true)
	result := r.Value().ExecParams(context.Background(), own, [][]byte{[]byte(g.seeded)}, nil, nil, nil).Read()
	if result.Err != nil {
		g.t.Fatal(result.Err)
	}
	return string(bytes.Join(result.Rows[0], []byte("\n")))
}

// log is what a statement that only reads does not move: the next transaction id, and the end of the log.
const log = "SELECT pg_snapshot_xmax(pg_current_snapshot()), pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"

// logNoise is how many bytes the log grows by itself: hint bits, a checkpoint.
const logNoise = 500_000

func (g *ground) log() (xid string, end int) {
	row := g.simple(g.judge, log)
	end, err := strconv.Atoi(row[1])
	if err != nil {
		g.t.Fatal(err)
	}
	return row[0], end
}

// outcome is what one layer set made of one payload, as the table shows it.
func outcome(by string, left []string) string {
	if by == "" {
		by = "-"
	}
	if len(left) > 0 {
		by += " LEFT " + strings.Join(left, ", ")
	}
	return by
}

// through runs a payload on a pool as the daemon would if it had no policy.
func (g *ground) through(d *DB, clean, sql string) string {
	g.t.Helper()
	xid, end := g.log()
	table, err := raw(d, sql)
	after := g.session(d)
	nextXID, nextEnd := g.log()
	left := g.damage()
	if xid != nextXID {
		left = append(left, "transaction id")
	}
	if nextEnd-end > logNoise {
		left = append(left, "log")
	}
	if clean != after {
		left = append(left, "session: "+difference(clean, after))
		g.renew(d)
	}
	if secrets.Match(table.Rows) {
		left = append(left, "SHOWN")
	}
	return outcome(held(err), left)
}

// secrets is what a role without rights must not see: a password file, a password hash, a row that was not granted.
var secrets = regexp.MustCompile(`root:x?:0:0|SCRAM-SHA-256\$|TOP-SECRET-7731|PG_VERSION`)

// renew closes the connection of a pool.
func (g *ground) renew(d *DB) {
	g.t.Helper()
	r, err := d.acquire(context.Background())
	if err != nil {
		g.t.Fatal(err)
	}
	r.Destroy()
}

func difference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range x {
		if i >= len(y) || x[i] != y[i] {
			return fmt.Sprintf("%.60s", y[min(i, len(y)-1)])
		}
	}
	return "more"
}

// writable runs a payload in a transaction that may write, with the rest of the flight as it is.
func (g *ground) writable(d *DB, sql string) string {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := d.acquire(ctx)
	if err != nil {
		g.t.Fatal(err)
	}
	c := r.Value()
	p := c.StartPipeline(ctx)
	for _, part := range [][]string{
		{"BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE", c.limits, sql}, {rollback}, {discard},
	} {
		for _, text := range part {
			p.SendQueryParams(text, nil, nil, nil, nil)
		}
		p.SendPipelineSync()
	}
	err = p.Flush()
	var shown []byte
	for first := true; first || !c.IsClosed(); first = false {
		answer, failed := p.GetResults()
		if answer == nil && failed == nil {
			break
		}
		if rows, ok := answer.(*pgconn.ResultReader); ok {
			result := rows.Read()
			failed = result.Err
			for _, row := range result.Rows {
				shown = append(shown, bytes.Join(row, nil)...)
			}
		}
		err = cmp.Or(err, failed)
	}
	_ = p.Close()                                                      // the connection may be gone
	d.release(r, c.TxStatus() == idle && sql != "SELECT setseed(0.5)") // see through: that one stays
	left := g.damage()
	if secrets.Match(shown) {
		left = append(left, "SHOWN")
	}
	return outcome(held(err), left)
}

// alone runs a payload as a careless client would: simple protocol, no transaction, read-only mode switched off.
func (g *ground) alone(dsn, sql string) string {
	g.t.Helper()
	c := g.dial(dsn)
	g.simple(c, "SET default_transaction_read_only = off; SET statement_timeout = 150; "+
		"SET search_path = pg_catalog, public")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	results, err := c.Exec(ctx, sql).ReadAll()
	var shown []byte
	for _, r := range results {
		for _, row := range r.Rows {
			for _, v := range row {
				shown = append(shown, v...)
			}
		}
	}
	_ = c.Close(ctx) // it may have ended itself
	lives := fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid = %d", c.PID())
	for wait := 0; g.simple(g.judge, lives)[0] != "0"; wait++ {
		if wait > 400 {
			g.t.Fatal("the session does not end")
		}
		time.Sleep(5 * time.Millisecond)
	}
	left := g.damage()
	if secrets.Match(shown) {
		left = append(left, "SHOWN")
	}
	return outcome(held(err), left)
}

// TestGoldenLayersBelowThePolicy gives every refused text to the layers that stand behind the policy, and writes down
// which one stops it. Columns: the flight (extended protocol, READ ONLY, ROLLBACK, DISCARD ALL), with a superuser and
// with the reader; the flight without READ ONLY; the reader's rights alone, by the simple protocol. "-" is: it ran.
// LEFT is: and something of it is left. Only what the table says may be left; what it says, the policy alone stops.
func TestGoldenLayersBelowThePolicy(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	super, reader := g.open(g.super), g.open(g.reader)
	cleanSuper, cleanReader := g.session(super), g.session(reader)
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "payload\tsuperuser\treader\treader, may write\treader alone")
	for _, p := range payloads(t) {
		sql := g.fill(p.sql)
		cells := []string{
			p.id, g.through(super, cleanSuper, sql), g.through(reader, cleanReader, g.fill(p.sql)),
			g.writable(reader, g.fill(p.sql)), g.alone(g.reader, g.fill(p.sql)),
		}
		for i, name := range []string{"the flight, reader", "may write, reader", "reader alone"} {
			// Whatever the table may be rewritten to: a reader never changes or learns anything that outlives it.
			if cell := cells[i+2]; strings.Contains(cell, "LEFT") && !readerMay[p.id] {
				t.Errorf("%s, %s: %s", p.id, name, cell)
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // into memory
	got := trimLines(b.String())
	t.Logf("\n%s", got)
	if g.server.Version != 15 {
		t.Skip("the table is that of PostgreSQL 15")
	}
	const file = "testdata/layers.txt"
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("not the table of %s (make golden writes it): %s", file, difference(string(want), got))
	}
}

// What a session keeps beyond ROLLBACK goes with DISCARD ALL (report sql-018).
func TestAnAdvisoryLockDoesNotOutliveItsCall(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	d := g.open(g.reader)
	for range 2 {
		if _, err := raw(d, "SELECT pg_advisory_lock(8)"); err != nil {
			t.Fatal(err)
		}
	}
	if got := g.simple(g.judge, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")[0]; got != "0" {
		t.Errorf("%s locks are held by a connection that nobody uses", got)
	}
	// It is DISCARD ALL that does it: a pooler's session is not ours to reset, and there the lock stays.
	d.settings.Pooler = true
	if _, err := raw(d, "SELECT pg_advisory_lock(8)"); err != nil {
		t.Fatal(err)
	}
	if got := g.simple(g.judge, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")[0]; got != "1" {
		t.Errorf("%s locks without DISCARD ALL, want 1: this test shows nothing", got)
	}
}

// Each call sets its own limits, and ROLLBACK takes back what the last one has set (report sql-075).
func TestATimeoutThatWasSwitchedOffIsBackForTheNextCall(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	d := g.open(g.reader)
	for _, off := range []string{
		"SELECT set_config('statement_timeout', '0', false)", "SET statement_timeout = 0",
		"SET SESSION statement_timeout = '1h'",
	} {
		if _, err := raw(d, off); err != nil {
			t.Fatalf("%s: %v", off, err)
		}
		begin := time.Now()
		_, err := raw(d, "SELECT pg_sleep(4)")
		if by := held(err); by != "timeout" {
			t.Errorf("after %s: %v after %v", off, err, time.Since(begin))
		}
	}
}

// A text behind words of ours is one message as before: the server takes one statement of it, or none (report sql-076).
func TestACursorPrefixIsNoWayOut(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	for role, dsn := range map[string]string{"superuser": g.super, "reader": g.reader} {
		_, err := raw(g.open(dsn), "DECLARE c CURSOR FOR "+"SELECT 1; COMMIT; DELETE FROM t")
		if by := held(err); by != "one statement" {
			t.Errorf("%s: %v", role, err)
		}
	}
	if left := g.damage(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	// By the simple protocol, it is one.
	g.simple(g.dial(g.super), "BEGIN READ ONLY; DECLARE c CURSOR FOR "+"SELECT 1; COMMIT; DELETE FROM t")
	if left := g.damage(); !slices.Equal(left, []string{"rows"}) {
		t.Errorf("left: %v: this test shows nothing", left)
	}
}

// readerMay are the payloads of which a reader leaves something, and no layer but the policy prevents it.
var readerMay = map[string]bool{
	"terminate_own":       true, // a role may end its own sessions, of which the daemon's others are
	"prepare_transaction": true, // where max_prepared_transactions is not 0, its default
	"lo_create":           true, // whoever has connected may, but a flight ends in ROLLBACK: a transaction id is gone
	"func-27":             true, // txid_current: a transaction id is gone
	"current_xact_id":     true, // the same
	"emit_message":        true, // a megabyte of log, which ROLLBACK does not take back
	"setseed":             true, // DISCARD ALL does not know the seed: the next random numbers are foretold
}

func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n")
}
