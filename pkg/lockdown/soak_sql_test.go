package lockdown_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"mcp-server-suite/pkg/pgstage"
)

// soakPool is MCP_SQL_POOL_MAX_SIZE of the soak: fewer than callers, so that some of them wait.
const soakPool = 4

// soakServer starts the server of the soak, with something to ask for, and returns the setting for a daemon that goes by
// the socket, or by TLS on TCP.
func soakServer(t *testing.T, viaSocket bool) (server *pgstage.Server, setting string) {
	t.Helper()
	server = pgstage.Start(t, pgstage.Options{TLS: true, MaxConnections: 60})
	db := server.Database(t, `
		CREATE TABLE station (id int PRIMARY KEY, name text NOT NULL);
		CREATE TABLE sighting (station int REFERENCES station, day date, herons numeric(30,2), note text);
		INSERT INTO station SELECT n, 'station ' || n FROM generate_series(1, 40) n;
		INSERT INTO sighting SELECT 1 + n % 40, date '2026-01-01' + n / 40, n * 1.25, repeat('heron ', n % 50)
			FROM generate_series(0, 7999) n;
		COMMENT ON TABLE sighting IS 'one count of herons';
		ANALYZE`)
	role := server.Role(t, db, pgstage.Reader{Password: "soak", Connections: 40})
	return server, "MCP_SQL_DSN=" + server.DSN(db, role, "soak", viaSocket)
}

// breakConnections ends the daemon's connections again and again, as a failover or an impatient administrator does, and
// returns what it has ended.
func breakConnections(server *pgstage.Server, until time.Time) (ended int, err error) {
	dsn := server.DSN("postgres", "postgres", "", true)
	for time.Now().Before(until) {
		time.Sleep(400 * time.Millisecond)
		rows, err := pgstage.QueryAt(dsn,
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'mcp-server-suite'")
		if err != nil {
			return ended, fmt.Errorf("break connections: %w", err)
		}
		ended += len(rows)
	}
	return ended, nil
}

// forgetful is a query that goes on for longer than anybody waits.
const forgetful = `{"name":"read_only_sql","arguments":{"query":"SELECT count(*) FROM generate_series(1, 2000000000)"}}`

// sqlLoad is what the soak asks of the database, by reason of the refusal; "" is a success.
func sqlLoad() []soakCall {
	query := func(reason, sql string) soakCall {
		return soakCall{"tools/call", `{"name":"read_only_sql","arguments":{"query":"` + sql + `"}}`, reason}
	}
	return []soakCall{
		query("", "SELECT 1"),
		query("", "SELECT s.name, count(*), sum(g.herons) FROM station s JOIN sighting g ON g.station = s.id GROUP BY 1 ORDER BY 1"),
		query("", "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 100) SELECT n FROM r"),
		query("", "SELECT repeat('heron', 2000), n FROM generate_series(1, 1000) n"),
		query("", "SELECT string_agg(note, '') FROM sighting"), // more than one message of the server may hold
		query("", "SELECT now(), null, true, 1.5::float8, '{1,2}'::int[], '{\\\"a\\\":1}'::jsonb, 'abc'::bytea, interval '1 day'"),
		query("", "EXPLAIN SELECT * FROM sighting WHERE herons > 100"),
		query("", "VALUES (1, 'a'), (2, 'b')"),
		query("", "SELECT "+strings.Repeat("(", 200)+"1"+strings.Repeat(")", 200)),
		query("", "SELECT table_name FROM information_schema.tables ORDER BY 1"),
		query("UNSAFE_QUERY", "WITH gone AS (DELETE FROM sighting RETURNING *) SELECT * FROM gone"),
		query("UNSAFE_QUERY", "SELECT pg_read_file('/etc/passwd')"),
		query("UNSAFE_QUERY", "SELECT pg_sleep(1)"),
		query("UNSAFE_QUERY", "SELECT 1; SELECT 2"),
		query("BAD_SQL", "SELEKT 1"),
		query("QUERY_FAILED", "SELECT 1 / 0"),
		query("QUERY_FAILED", "SELECT * FROM no_such_table"),
		query("STATEMENT_TIMEOUT", "SELECT count(*) FROM generate_series(1, 2000000000)"),
		{"resources/read", `{"uri":"postgres://schema"}`, ""},
	}
}

// passing are the refusals that broken connections, a pool whose connections are all in use, and a machine under load may
// lead to.
func passing(reason string) bool {
	switch reason {
	case "DB_INTERRUPTED", "DB_UNAVAILABLE", "DB_BUSY", "BUSY", "STATEMENT_TIMEOUT":
		return true
	}
	return false
}

// tally counts what became of the calls of the database.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
	good   atomic.Int64
}

func (y *tally) note(wanted, got string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.counts == nil {
		y.counts = map[string]int{}
	}
	if got == "" {
		got = "served"
	}
	y.counts[got]++
	if wanted == "" && got == "served" {
		y.good.Add(1)
	}
}

// backends waits until no statement of the daemon runs on the server, and returns how many connections of it are there.
func backends(server *pgstage.Server) (n int, err error) {
	dsn := server.DSN("postgres", "postgres", "", true)
	const question = `SELECT state FROM pg_stat_activity WHERE application_name = 'mcp-server-suite'`
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		rows, err := pgstage.QueryAt(dsn, question)
		var refused *pgconn.PgError
		if err != nil && !errors.As(err, &refused) {
			return 0, err
		}
		active := 0
		for _, row := range rows {
			if row[0] != "idle" {
				active++
			}
		}
		switch {
		case active == 0:
			return len(rows), nil
		case time.Now().After(deadline):
			return 0, fmt.Errorf("%d statements still run on the server: %q", active, rows)
		}
	}
}
