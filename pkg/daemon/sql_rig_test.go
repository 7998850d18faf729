package daemon_test

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-server-suite/pkg/pgstage"
	"mcp-server-suite/pkg/stage"
)

// rows is the result of read_only_sql.
type rows struct {
	Columns     []string            `json:"columns"`
	Types       []*string           `json:"types"`
	Rows        [][]json.RawMessage `json:"rows"`
	Count       int                 `json:"row_count"`
	Truncated   bool                `json:"truncated"`
	TruncatedBy *string             `json:"truncated_by"`
	MaxRows     int                 `json:"max_rows"`
	InRecovery  bool                `json:"in_recovery"`
	Flagged     []int               `json:"flagged_columns"`
	Note        *string             `json:"note"`
}

// text is the rows without the spaces around them, for comparing.
func (r rows) text() string {
	lines := make([]string, len(r.Rows))
	for i, row := range r.Rows {
		values := make([]string, len(row))
		for j, v := range row {
			values[j] = string(v)
		}
		lines[i] = strings.Join(values, " ")
	}
	return strings.Join(lines, "\n")
}

// sqlArguments are those of read_only_sql; more is further arguments, beginning with a comma.
func sqlArguments(query, more string) string {
	quoted, err := json.Marshal(query)
	if err != nil {
		panic(err) // a string always can be
	}
	return `{"query":` + string(quoted) + more + `}`
}

// sql runs a query. A daemon that does not answer says where it stands, and ends.
func (s session) sql(query string) outcome {
	s.t.Helper()
	a, err := s.Call("tools/call", callParams("read_only_sql", sqlArguments(query, "")))
	if errors.Is(err, os.ErrDeadlineExceeded) && s.Signal(syscall.SIGQUIT) == nil {
		_, _ = s.Wait() // it ends by the signal, or Wait says that it did not: the log is what counts
	}
	if err != nil {
		s.t.Fatalf("%.100s: %v; stderr: %s", query, err, s.Stderr())
	}
	return outcomeOf(s.t, a)
}

// mustSQL runs a query that must be answered.
func (s session) mustSQL(query string) rows {
	s.t.Helper()
	return into[rows](s.t, s.sql(query))
}

// refusedSQL is reason and detail of a query that must be refused, in the result and not beside it.
func (s session) refusedSQL(query string) (reason, detail string) {
	s.t.Helper()
	o := s.sql(query)
	if o.Refusal == nil || o.Code != 0 {
		s.t.Errorf("%.100s: not refused in a result: %.300s", query, o.Structured)
		return "", ""
	}
	return o.Refusal.Reason, o.Refusal.Detail
}

const sqlPassword = "s3cr3t-7731"

// store is a database on a server with a least-privilege role.
type store struct {
	*pgstage.Server
	t    *testing.T
	db   string
	role string
}

func newStore(t *testing.T, s *pgstage.Server, setup string) store {
	t.Helper()
	d := store{Server: s, t: t, db: s.Database(t, setup)}
	d.role = s.Role(t, d.db, pgstage.Reader{Password: sqlPassword, Connections: 20})
	return d
}

// reader is the setting that leads to the database as its least-privilege role.
func (d store) reader() string { return "MCP_SQL_DSN=" + d.DSN(d.db, d.role, sqlPassword, true) }

// super is the same as the superuser.
func (d store) super() []string {
	return []string{"MCP_SQL_DSN=" + d.DSN(d.db, "postgres", "", true), "MCP_SQL_ALLOW_UNSAFE_ROLE=true"}
}

// one returns a row that the superuser sees.
func (d store) one(sql string) []string {
	d.t.Helper()
	result := d.Query(d.t, d.db, sql)
	if len(result) != 1 {
		d.t.Fatalf("%d rows: %s", len(result), sql)
	}
	return result[0]
}

// busy says how many of the daemon's backends in this database work.
func (d store) busy() string {
	d.t.Helper()
	return d.one(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle'
		AND application_name = 'mcp-server-suite'`)[0]
}

// until waits until the daemon has this many backends at work, and returns how long that took.
func (d store) until(want string) time.Duration {
	d.t.Helper()
	begin := time.Now()
	for {
		got := d.busy()
		if got == want {
			return time.Since(begin)
		}
		if time.Since(begin) > 15*time.Second {
			d.t.Fatalf("%s backends at work, want %s: %q", got, want, d.Activity(d.t))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// openSQL is open with a log at DEBUG, so that a test can look for what must not be in it.
func openSQL(t *testing.T, env ...string) session {
	t.Helper()
	s := startAs(t, stage.Options{Tags: wiretest, Env: slices.Concat([]string{"MCP_SERVER_SUITE_LOG_LEVEL=DEBUG"}, env)})
	s.handshake(newest)
	return s
}

// burn is a query that would take hours.
const burn = "SELECT count(*) FROM canary a, canary b, canary c, canary d, canary e, canary f"

// silentAbout requires that nothing that was logged contains what only the DSN or the caller says.
func (s session) silentAbout(secrets ...string) {
	s.t.Helper()
	for _, secret := range secrets {
		if strings.Contains(s.Stderr(), secret) {
			s.t.Errorf("the log names %q: %.2000s", secret, s.Stderr())
		}
	}
}

// logs requires that the log says this; it may come a little later than the answer.
func (s session) logs(what string) {
	s.t.Helper()
	for range 200 {
		if strings.Contains(s.Stderr(), what) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Errorf("the log does not say %q: %.2000s", what, s.Stderr())
}
