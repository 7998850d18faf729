package pgstage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// databases counts the databases and roles that were given a name here.
var databases atomic.Int64

// DSN returns the URL of a database on this server, over the socket or over TCP. For user "postgres" and an empty
// password it has the superuser's. Over TCP it asks for sslmode=verify-full when the server has TLS; otherwise, and on
// the socket, for none.
func (s *Server) DSN(db, user, secret string, viaSocket bool) string {
	if user == superuser && secret == "" {
		secret = password()
	}
	return dsn(s.Port, s.SocketDir, s.CA, db, user, secret, viaSocket)
}

// DSNAt is DSN for another way to a server: a bouncer or a proxy at this port. Give a socketDir to go by the socket
// there, "" for TCP. It never asks for TLS.
func DSNAt(port int, socketDir, db, user, secret string) string {
	if user == superuser && secret == "" {
		secret = password()
	}
	return dsn(port, socketDir, "", db, user, secret, socketDir != "")
}

func dsn(port int, socketDir, ca, db, user, secret string, viaSocket bool) string {
	u := url.URL{Scheme: "postgresql", Path: "/" + db, User: url.User(user)}
	if secret != "" {
		u.User = url.UserPassword(user, secret)
	}
	query := url.Values{"sslmode": {"disable"}}
	if viaSocket {
		query.Set("host", socketDir)
		query.Set("port", strconv.Itoa(port))
	} else {
		u.Host = net.JoinHostPort(Host, strconv.Itoa(port))
		if ca != "" {
			query = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {ca}}
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// Database creates a database of a name that no other has, runs the statements there as the superuser, and returns the
// name. It goes with the test.
func (s *Server) Database(t testing.TB, setupSQL string) string {
	t.Helper()
	name := fmt.Sprintf("d%d", databases.Add(1))
	// template0: nobody connects to it, so that several tests may copy it at a time.
	s.Exec(t, superuser, "CREATE DATABASE "+name+" TEMPLATE template0")
	t.Cleanup(func() { s.undo(t, superuser, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	if setupSQL != "" {
		s.Exec(t, name, setupSQL)
	}
	return name
}

// undo runs a statement of a clean-up. Where the server goes with its test there is nothing to clean up.
func (s *Server) undo(t testing.TB, db, sql string) {
	if !s.shared {
		return
	}
	if _, err := s.query(db, sql); err != nil {
		t.Errorf("undo: %v", err)
	}
}

// Exec runs statements as the superuser, over the socket, on a connection of its own.
func (s *Server) Exec(t testing.TB, db, sql string) {
	t.Helper()
	if _, err := s.query(db, sql); err != nil {
		t.Fatalf("%v\nin: %s", err, sql)
	}
}

// Query is Exec that returns the rows of the last statement in the text format; NULL is "".
func (s *Server) Query(t testing.TB, db, sql string) [][]string {
	t.Helper()
	rows, err := s.query(db, sql)
	if err != nil {
		t.Fatalf("%v\nin: %s", err, sql)
	}
	return rows
}

// query is Query for those who have no test or expect an error.
func (s *Server) query(db, sql string) ([][]string, error) {
	return QueryAt(s.DSN(db, superuser, "", true), sql)
}

// QueryAt connects to the DSN, runs statements there by the simple protocol and returns the rows of the last one in the
// text format; NULL is "". What the server refuses is a *pgconn.PgError. It waits a minute at most.
func QueryAt(dsn, sql string) ([][]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgconn.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	results, err := conn.Exec(ctx, sql).ReadAll()
	err = errors.Join(err, conn.Close(ctx))
	if err != nil || len(results) == 0 {
		return nil, err
	}
	var rows [][]string
	for _, row := range results[len(results)-1].Rows {
		values := make([]string, len(row))
		for i, value := range row {
			values[i] = string(value)
		}
		rows = append(rows, values)
	}
	return rows, nil
}

// Activity returns the queries that clients (this one aside) have running, in any database.
func (s *Server) Activity(t testing.TB) []string {
	t.Helper()
	var queries []string
	for _, row := range s.Query(t, superuser, `SELECT query FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND state = 'active' AND pid <> pg_backend_pid() ORDER BY query_start`) {
		queries = append(queries, row[0])
	}
	return queries
}

// Reader describes a role that may read.
type Reader struct {
	Name            string   // "" is one that no other has
	Password        string   // "" is none: it cannot log in unless the server's Auth asks for none
	Schemas         []string // which it may read, with what the superuser adds to them later; nil is public
	Connections     int      // its limit; 0 is 8
	PublicFunctions bool     // leave everybody's right to call the functions there, as the design's own script does
}

// Role creates the least-privilege role of the design (seed 000, "PostgreSQL least-privilege role") for a database, and
// returns its name. To the design's script it adds that functions of the schemas, those that the superuser adds
// later too, may not be called by everybody: u.f is a call of f(u) when u has no such column, which no parser can see.
// On the shared server the role goes with the test, and its rights with it.
func (s *Server) Role(t testing.TB, db string, r Reader) string {
	t.Helper()
	if r.Name == "" {
		r.Name = fmt.Sprintf("reader%d", databases.Add(1))
	}
	if r.Schemas == nil {
		r.Schemas = []string{"public"}
	}
	if r.Connections == 0 {
		r.Connections = 8
	}
	role := identifier(r.Name)
	var sql strings.Builder
	fmt.Fprintf(&sql, `CREATE ROLE %[1]s LOGIN NOINHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS
  CONNECTION LIMIT %[2]d;
ALTER ROLE %[1]s SET default_transaction_read_only = on;
ALTER ROLE %[1]s SET statement_timeout = '10s';
ALTER ROLE %[1]s SET lock_timeout = '1s';
ALTER ROLE %[1]s SET idle_in_transaction_session_timeout = '15s';
GRANT CONNECT ON DATABASE %[3]s TO %[1]s;
`, role, r.Connections, identifier(db))
	if r.Password != "" {
		fmt.Fprintf(&sql, "ALTER ROLE %s PASSWORD %s;\n", role, literal(r.Password))
	}
	if !r.PublicFunctions {
		// Without IN SCHEMA: that form can add to the default privileges only, never take away (ALTER DEFAULT
		// PRIVILEGES).
		sql.WriteString("ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;\n")
	}
	for _, name := range r.Schemas {
		schema := identifier(name)
		fmt.Fprintf(&sql, `GRANT USAGE ON SCHEMA %[1]s TO %[2]s;
GRANT SELECT ON ALL TABLES IN SCHEMA %[1]s TO %[2]s;
ALTER DEFAULT PRIVILEGES IN SCHEMA %[1]s GRANT SELECT ON TABLES TO %[2]s;
`, schema, role)
		if !r.PublicFunctions {
			fmt.Fprintf(&sql, "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA %s FROM PUBLIC;\n", schema)
		}
	}
	s.Exec(t, db, sql.String())
	t.Cleanup(func() { s.undo(t, db, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	return r.Name
}

// identifier quotes a name (PostgreSQL 15 documentation, 4.1.1).
func identifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// literal quotes a constant, with standard_conforming_strings as it is by default (4.1.2).
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
