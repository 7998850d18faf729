package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-server-suite/pkg/pgstage"
	"mcp-server-suite/pkg/stage"
)

// canarySQL is the database of the attack matrix (findings, measurements 2): whatever is done to it must not be done.
const canarySQL = `
CREATE EXTENSION dblink;
CREATE TABLE canary AS SELECT g AS id, 'row ' || g AS word FROM generate_series(1, 100) g;
CREATE TABLE words ("update" int, word text);
INSERT INTO words VALUES (42, 'delete from canary');
CREATE TABLE types AS SELECT 0.3::numeric AS n1, 12345678901234567890123456789::numeric AS n2,
	9007199254740993::int8 AS i8, 'NaN'::float8 AS f8, 'infinity'::timestamptz AS ts,
	'2024-02-29 12:34:56.789012'::timestamp AS tsn, '-infinity'::date AS d, '\x00ff10'::bytea AS b,
	ARRAY[1, NULL, 3] AS ia, ARRAY['a', 'b,c', 'd"e', NULL] AS ta,
	'{"b": 1, "a": 12345678901234567890}'::json AS j, '{"b": 1, "a": 12345678901234567890}'::jsonb AS jb,
	interval '1 mon 2 days 03:04:05.678' AS iv, NULL::text AS nul;
CREATE TABLE big AS SELECT repeat('x', 100000000) AS v;
`

// payloads of the matrix, by its names. {DBLINK}, {FOLDER} and {PID} stand for what only a run knows.
var attacks = []struct{ name, sql, reason string }{
	{"stacked_delete", "SELECT 1; DELETE FROM canary", "UNSAFE_QUERY"},
	{"commit_drop", "COMMIT; DROP TABLE canary", "UNSAFE_QUERY"},
	{"select_commit_drop", "SELECT 1; COMMIT; DROP TABLE canary", "UNSAFE_QUERY"},
	{"rollback_rw", "ROLLBACK; BEGIN READ WRITE; DELETE FROM canary; COMMIT", "UNSAFE_QUERY"},
	{"plain_delete", "DELETE FROM canary", "UNSAFE_QUERY"},
	{"cte_delete", "WITH d AS (DELETE FROM canary RETURNING *) SELECT count(*) FROM d", "UNSAFE_QUERY"},
	{"select_into", "SELECT * INTO stolen FROM canary", "UNSAFE_QUERY"},
	{"do_block", "DO $$ BEGIN DELETE FROM canary; END $$", "UNSAFE_QUERY"},
	{"explain_analyze_delete", "EXPLAIN ANALYZE DELETE FROM canary", "UNSAFE_QUERY"},
	{"comment_hidden", "/* SELECT */ -- SELECT 1\nDELETE FROM canary", "UNSAFE_QUERY"},
	{"query_to_xml_dml", "SELECT query_to_xml('DELETE FROM canary RETURNING 1', true, false, '')", "UNSAFE_QUERY"},
	{"dblink_dml", "SELECT * FROM dblink('{DBLINK}', 'DELETE FROM canary RETURNING id') AS q(id int)", "UNSAFE_QUERY"},
	{"copy_to_program", "COPY (SELECT 1) TO PROGRAM 'touch {FOLDER}/programmed'", "UNSAFE_QUERY"},
	{"copy_to_file", "COPY canary TO '{FOLDER}/copied'", "UNSAFE_QUERY"},
	{"pg_read_file", "SELECT pg_read_file('/etc/passwd')", "UNSAFE_QUERY"},
	{"pg_ls_dir", "SELECT * FROM pg_ls_dir('/')", "UNSAFE_QUERY"},
	{"lo_import", "SELECT lo_import('/etc/passwd')", "UNSAFE_QUERY"},
	{"for_update", "SELECT * FROM canary FOR UPDATE", "UNSAFE_QUERY"},
	{"advisory_lock", "SELECT pg_advisory_lock(42)", "UNSAFE_QUERY"},
	{"set_config_leak", "SELECT set_config('search_path', 'evil', false)", "UNSAFE_QUERY"},
	{"set_leak", "SET search_path = evil", "UNSAFE_QUERY"},
	{"set_rw_session", "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "UNSAFE_QUERY"},
	{"set_role", "SET ROLE postgres", "UNSAFE_QUERY"},
	{"terminate_backend", "SELECT pg_terminate_backend({PID})", "UNSAFE_QUERY"},
	{"pg_authid", "SELECT rolname, rolpassword FROM pg_authid", "UNSAFE_QUERY"},
	{"pg_sleep_60", "SELECT pg_sleep(60)", "UNSAFE_QUERY"},
}

// harmless are queries that must be answered, with their rows.
var harmless = []struct{ name, sql, want string }{
	{"ok_semicolon_in_string", "SELECT 'a;b' AS x", `"a;b"`},
	{"ok_keyword_in_string", "SELECT 'DROP TABLE canary; COMMIT' AS x", `"DROP TABLE canary; COMMIT"`},
	{"ok_trailing_semicolon", "SELECT 42 AS x;", `42`},
	{"ok_trailing_comment", "SELECT 42 AS x -- done", `42`},
	{"ok_leading_comment", "/* hi */ SELECT 42 AS x", `42`},
	{"ok_paren", "(SELECT 42 AS x)", `42`},
	{"ok_values", "VALUES (42)", `42`},
	{"ok_table", "TABLE words", `42 "delete from canary"`},
	{"ok_cte", "WITH c AS (SELECT 42 AS x) SELECT x FROM c", `42`},
	{"ok_explain", "EXPLAIN (COSTS OFF) SELECT 42 AS x", `"Result"`},
	{"ok_column_named_update", `SELECT "update" FROM words`, `42`},
	{"ok_dollar_quote", "SELECT $tag$;COMMIT$tag$ AS x", `";COMMIT"`},
	{"type_numeric_0.3", "SELECT n1 FROM types", `"0.3"`},
	{"type_numeric_29_digits", "SELECT n2 FROM types", `"12345678901234567890123456789"`},
	{"type_int8_2^53+1", "SELECT i8 FROM types", `"9007199254740993"`},
	{"type_float_NaN", "SELECT f8 FROM types", `"NaN"`},
	{"type_timestamptz_infinity", "SELECT ts FROM types", `"infinity"`},
	{"type_timestamp_us_no_tz", "SELECT tsn FROM types", `"2024-02-29T12:34:56.789012"`},
	{"type_date_-infinity", "SELECT d FROM types", `"-infinity"`},
	{"type_bytea", "SELECT b FROM types", `"\\x00ff10"`},
	{"type_int_array_null", "SELECT ia FROM types", `[1,null,3]`},
	{"type_text_array", "SELECT ta FROM types", `["a","b,c","d\"e",null]`},
	{"type_json_bignum", "SELECT j FROM types", `"{\"b\": 1, \"a\": 12345678901234567890}"`},
	{"type_jsonb_bignum", "SELECT jb FROM types", `"{\"a\": 12345678901234567890, \"b\": 1}"`},
	{"type_interval", "SELECT iv FROM types", `"P1M2DT3H4M5.678S"`},
	{"type_null", "SELECT nul FROM types", `null`},
	{"type_duplicate_column_names", "SELECT 1 AS a, 2 AS a", `1 2`},
}

// matrix is one run of the attacks against a daemon.
type matrix struct {
	store
	t      *testing.T
	role   string
	env    []string
	folder string
	intact []string

	mu     sync.Mutex
	report *strings.Builder
}

func (m *matrix) note(name, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprintf(m.report, "%-28s %-10s %s\n", name, m.role, what)
}

// canaries is all that an attack could change, seen from outside.
func (m *matrix) canaries() []string {
	m.t.Helper()
	row := m.one(`SELECT (SELECT count(*) || md5(string_agg(c::text, '' ORDER BY id)) FROM canary c),
		(SELECT count(*) FROM pg_class WHERE relpersistence <> 't'), (SELECT count(*) FROM pg_largeobject_metadata),
		(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'),
		(SELECT md5(string_agg(r::text, '')) FROM pg_db_role_setting r WHERE setrole = '` + m.store.role + `'::regrole)`)
	files, err := filepath.Glob(m.folder + "/*")
	if err != nil {
		m.t.Fatal(err)
	}
	return append(row, fmt.Sprint(files))
}

// backends are the process ids of the daemon's connections.
func (m *matrix) backends() string {
	return m.one(`SELECT coalesce(string_agg(pid::text, ' '), '') FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'mcp-server-suite'`)[0]
}

func (m *matrix) held(name string) {
	m.t.Helper()
	if now := m.canaries(); fmt.Sprint(now) != fmt.Sprint(m.intact) {
		m.t.Fatalf("%s FAILED: %q, was %q", name, now, m.intact)
	}
}

// TestTheAttackMatrixIsHeld runs every row of the matrix that six other servers were measured by, with a superuser,
// where only the daemon can hold, and with the least-privilege role.
func TestTheAttackMatrixIsHeld(t *testing.T) {
	t.Parallel()
	server := pgstage.Shared(t)
	var report strings.Builder
	for _, role := range []string{"superuser", "reader"} {
		m := &matrix{store: newStore(t, server, canarySQL), t: t, role: role, report: &report, folder: t.TempDir()}
		m.env = []string{m.reader()}
		if role == "superuser" {
			m.env = m.super()
		}
		for folder := m.folder; folder != os.TempDir() && folder != "/"; folder = filepath.Dir(folder) {
			must(t, os.Chmod(folder, 0o777))
		}
		// The reader's own limit of 10 s would end what must be ended by the daemon.
		m.Exec(t, m.db, "ALTER ROLE "+m.store.role+" SET statement_timeout = '120s'")
		m.intact = m.canaries()
		m.payloads()
		m.burns()
		m.bulk()
	}
	t.Logf("\n%s", report.String())
}

// payloads sends the attacks and the harmless queries over one connection to the database.
func (m *matrix) payloads() {
	s := openSQL(m.t, append(m.env, "MCP_SQL_POOL_MAX_SIZE=1")...)
	s.mustSQL("SELECT 1")
	backend := m.backends()
	fill := strings.NewReplacer("{FOLDER}", m.folder, "{PID}", backend, "{DBLINK}", fmt.Sprintf(
		"host=%s port=%d dbname=%s user=%s password=%s", m.SocketDir, m.Port, m.db, m.store.role, sqlPassword))
	for _, a := range attacks {
		begin := time.Now()
		reason, detail := s.refusedSQL(fill.Replace(a.sql))
		took := time.Since(begin)
		if reason != a.reason {
			m.t.Errorf("%s: %s (%s), want %s", a.name, reason, detail, a.reason)
		}
		if took > 5*time.Second {
			m.t.Errorf("%s: refused after %v", a.name, took)
		}
		// The next call on the same connection finds the session as it was: path, role, transaction.
		if got := s.mustSQL("SELECT count(*), current_user FROM canary").text(); got != `100 "`+m.user()+`"` {
			m.t.Errorf("%s: the next call gives %s", a.name, got)
		}
		if now := m.backends(); now != backend {
			m.t.Errorf("%s: the backend was %s and is %s", a.name, backend, now)
		}
		m.held(a.name)
		m.note(a.name, "held: "+detail)
	}
	for _, h := range harmless {
		if got := s.mustSQL(h.sql).text(); got != h.want {
			m.t.Errorf("%s: %s, want %s", h.name, got, h.want)
		}
		m.note(h.name, "held: "+h.want)
	}
	s.silentAbout(sqlPassword, "canary")
}

func (m *matrix) user() string {
	if m.role == "superuser" {
		return "postgres"
	}
	return m.store.role
}

// burns starts queries that would take hours and goes away in every way.
func (m *matrix) burns() {
	long := append(m.env, "MCP_SQL_QUERY_TIMEOUT=120", "MCP_TOOL_TIMEOUT_SECONDS=120")
	begin := func(s session) {
		s.request(7, "tools/call", callParams("read_only_sql", sqlArguments(burn, "")))
		m.until("1")
	}
	s := openSQL(m.t, long...)
	begin(s)
	s.cancel(7)
	took := m.until("0")
	m.note("burn_cancel", fmt.Sprintf("held: the backend was idle after %v", took.Round(time.Millisecond)))
	if got := s.mustSQL("SELECT 7 AS x").text(); got != "7" {
		m.t.Errorf("burn_next_call: %s", got)
	}
	m.note("burn_next_call", "held: answered")

	begin(s)
	must(m.t, s.CloseInput())
	at := time.Now()
	m.until("0")
	m.note("burn_eof", fmt.Sprintf("held: the backend was idle after %v", time.Since(at).Round(time.Millisecond)))
	// The answer, if one was still given, says that we are leaving.
	_, _ = s.Await("7")
	if e := s.wait(); e.Code != 0 {
		m.t.Errorf("burn_eof: exit %d, signal %v; %s", e.Code, e.Signal, s.Stderr())
	}

	killed := m.kill(long, begin)
	m.note("burn_eof_after_kill", fmt.Sprintf("held: the backend was gone after %v", killed.Round(time.Millisecond)))
	if killed > 10*time.Second { // client_connection_check_interval is 1 s, and a machine may be busy
		m.t.Errorf("burn_eof_after_kill: %v", killed)
	}
	m.held("burn")
}

// kill lets a daemon die with SIGKILL while it waits, and returns how long the backend went on.
func (m *matrix) kill(env []string, begin func(session)) time.Duration {
	m.t.Helper()
	s := launch(m.t, stage.Daemon(m.t, stage.Options{Tags: wiretest, Env: env}))
	s.handshake(newest)
	begin(s)
	s.Kill()
	at := time.Now()
	m.until("0")
	return time.Since(at)
}

// bulk asks for more than anybody wants to have.
func (m *matrix) bulk() {
	s := openSQL(m.t, m.env...)
	for _, b := range []struct{ name, sql, by string }{
		{"rows_10M", "SELECT a, md5(b::text) FROM generate_series(1, 10000) a, generate_series(1, 1000) b", "rows"},
		{"rows_10M_at_once", "SELECT i, md5(i::text) FROM generate_series(1, 10000000) i", "rows"},
		{"big_value_100MB", "SELECT v FROM big", "size"},
	} {
		if b.name == "rows_10M_at_once" && m.role == "reader" {
			continue // the same, and 2 s of the server's
		}
		begin := time.Now()
		got := s.mustSQL(b.sql)
		took := time.Since(begin)
		if got.TruncatedBy == nil || *got.TruncatedBy != b.by || !got.Truncated || got.Note == nil || got.Count > 50 {
			m.t.Errorf("%s: %d rows, truncated by %v", b.name, got.Count, got.TruncatedBy)
		}
		peak := s.figures().PeakRSSBytes
		m.note(b.name, fmt.Sprintf("held: %d rows after %v, peak RSS %d MiB",
			got.Count, took.Round(time.Millisecond), peak>>20))
		if peak >= 64<<20 {
			m.t.Errorf("%s: peak RSS %d MiB", b.name, peak>>20)
		}
		if next := s.mustSQL("SELECT 7 AS x").text(); next != "7" {
			m.t.Errorf("%s: the next call gives %s", b.name, next)
		}
		m.until("0") // the server has stopped, too
	}
	m.held("bulk")
}

// A database that restarts costs the calls that come while it is away, and none after it.
func TestADatabaseRestartIsSurvived(t *testing.T) {
	t.Parallel()
	d := newStore(t, pgstage.Start(t, pgstage.Options{}), "CREATE TABLE canary AS SELECT 1 AS id")
	s := openSQL(t, d.reader())
	s.mustSQL("SELECT id FROM canary")
	d.Stop(t)
	begin := time.Now()
	reason, detail := s.refusedSQL("SELECT id FROM canary")
	if reason != "DB_UNAVAILABLE" || time.Since(begin) > 3*time.Second {
		t.Errorf("db_restart: while it is down: %s (%s) after %v", reason, detail, time.Since(begin))
	}
	d.Restart(t)
	for range 3 {
		if got := s.mustSQL("SELECT id FROM canary").text(); got != "1" {
			t.Errorf("db_restart: %s", got)
		}
	}
	// And once more, without a call in between: the idle connection is a broken one.
	d.Restart(t)
	s.mustSQL("SELECT id FROM canary")
	s.silentAbout(sqlPassword, d.role, "canary")
}
