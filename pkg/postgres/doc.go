// Package postgres runs approved statements on a PostgreSQL server, read-only and one at a time on a connection.
//
// Each statement goes out in one flight: BEGIN READ ONLY, one SELECT that pins the session and its limits, the statement,
// ROLLBACK, and on direct connections DISCARD ALL. What a caller wrote travels in the extended protocol only, where one
// message holds one statement: the simple protocol would run "SELECT 1; DROP TABLE t" (findings, pgx issue 1 of sql.md).
// A context that ends cancels the statement on the server; the connection stays.
//
// It does not decide what may run: it takes a [pgpolicy.Approved], which only pgpolicy makes. It does not read the
// environment (PGHOST, PGPASSFILE and their like must be gone from it, see [Settings]).
//
// Needs: sockets to the servers of the DSN, for remote names the resolver's files, the DSN file if there is one.
// An attacker controls the approved text, so also every value, name and error text that the server sends back; none of
// the latter leaves this package. Who controls the server controls all of that without any statement.
package postgres
