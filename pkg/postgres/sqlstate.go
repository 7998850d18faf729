package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"mcp-server-suite/pkg/problem"
)

// query is the parameter to change when the statement is at fault.
const query = "query"

// conditions names the conditions that queries run into most, as the manual's appendix A does. The name helps where the
// server's own message, which may quote the caller's text and other people's values, is not passed on.
var conditions = map[string]string{
	"21000": "a subquery used as an expression gave more than one row",
	"22003": "a number is out of range",
	"22007": "a date or time has a wrong form",
	"22008": "a date or time is out of range",
	"22012": "division by zero",
	"22023": "an argument of a function is not valid",
	"2201B": "a regular expression is not valid",
	"2201W": "LIMIT is negative",
	"2201X": "OFFSET is negative",
	"22P02": "a text has a wrong form for its type",
	"22021": "a character has no place in the database's encoding",
	"22026": "a bit string has a wrong length",
	"22001": "a text is too long for its type",
	"42601": "the server does not know this syntax",
	"42702": "a column name is ambiguous; write table.column",
	"42703": "a column does not exist; information_schema.columns lists those that do, and the resource postgres://schema those that are served",
	"42704": "an object, for example a type, does not exist",
	"42712": "a table alias stands twice",
	"42725": "a function name is ambiguous; cast the arguments",
	"42803": "a column is neither grouped nor aggregated",
	"42804": "types do not match",
	"42809": "an object is of the wrong kind",
	"42846": "there is no cast between these types",
	"42883": "no function or operator takes these types; casts may help",
	"42P01": "a table or view does not exist; information_schema.tables lists those that do, and the resource postgres://schema those that are served",
	"42P02": "bind parameters cannot be given",
	"42P09": "a name is ambiguous",
	"42P10": "a column reference does not fit here",
	"42P18": "a type cannot be determined; a cast helps",
	"42P19": "a recursive query is not valid",
	"42P20": "a window is not valid",
	"42P21": "collations do not match",
	"42P22": "a collation cannot be determined; COLLATE helps",
	"0A000": "the server does not support this",
	"54001": "the statement is too complex",
	"54011": "too many columns",
	"54023": "too many arguments",
	"3F000": "a schema does not exist",
}

// refusal turns the end of a statement into what the caller may be told. ctx is the call's own: where it ended, that is
// the reason, and its error is returned. Nothing of the server's text is in the answer.
func refusal(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, errEscaped) || errors.Is(err, errTooMany) || errors.Is(err, errUnpinned) {
		return err // ours, and no reason to repeat
	}
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return problem.New(problem.DBInterrupted, "the connection to the database broke; repeat")
	}
	state := server.Code
	switch state {
	case "57014":
		return problem.New(problem.StatementTimeout, "the database stopped the query, at its time limit or on somebody's request; ask for less", query)
	case "55P03":
		return problem.New(problem.StatementTimeout, "the query waited too long for a lock that somebody else holds; repeat later")
	case "25006":
		return problem.New(problem.UnsafeQuery, "the query would write, and the transaction is read-only", query)
	case "42501":
		return problem.New(problem.DBDenied, "the database role may not read, or call, that", query)
	case "53300":
		return problem.New(problem.DBBusy, "the database has no connection free (SQLSTATE 53300); wait and repeat")
	case "53400", "53100":
		return problem.New(problem.QueryFailed, "the query needs more temporary space than there is for it (SQLSTATE "+state+
			"); ask for less", query)
	case "53200":
		return problem.New(problem.QueryFailed, "the query needs more memory than the database has for it (SQLSTATE 53200); ask "+
			"for less", query)
	case "40001", "40P01", "57P01", "57P02", "57P04", "57P05", "25P03", "25P04":
		return problem.New(problem.DBInterrupted, "the database ended the query for reasons of its own (SQLSTATE "+state+
			"); repeat")
	case "57P03":
		return problem.New(problem.DBUnavailable, "the database is starting, stopping or recovering (SQLSTATE 57P03)")
	}
	if p := unreachable(err); p != nil {
		return p
	}
	switch class := state[:min(2, len(state))]; class {
	case "21", "22", "42", "0A", "54", "3F", "44", "P0", "10", "2F", "38", "39":
		what := conditions[state]
		if what == "" {
			what = "it is not valid here"
		}
		return problem.New(problem.QueryFailed, fmt.Sprintf("the database refused the query: %s (SQLSTATE %s)", what, printable(state)), query)
	}
	// Severity and code are the server's own words, of a closed vocabulary; its message may quote the statement.
	return fmt.Errorf("run statement: SQLSTATE %s", printable(state))
}

// unreachable says what a failed connection means; nil where err is none.
func unreachable(err error) *problem.Problem {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		switch server.Code {
		case "28000":
			return problem.New(problem.DBRejected, "the database rejects this role from this address, or wants an encrypted "+
				"connection (SQLSTATE 28000); its operator must look at user and database of the DSN, pg_hba.conf and sslmode")
		case "28P01":
			return problem.New(problem.DBRejected, "the database rejects the password (SQLSTATE 28P01)")
		case "3D000":
			return problem.New(problem.DBRejected, "the database of the DSN does not exist (SQLSTATE 3D000)")
		case "42501":
			return problem.New(problem.DBRejected, "the role may not connect to this database (SQLSTATE 42501)")
		case "53300":
			return problem.New(problem.DBBusy, "the database has no connection free (SQLSTATE 53300); wait and repeat")
		case "57P01", "57P02", "57P03", "57P05":
			return problem.New(problem.DBUnavailable, "the database is starting, stopping or recovering (SQLSTATE "+server.Code+")")
		case "08P01":
			return problem.New(problem.DBRejected, "the server, or a pooler in between, rejects the protocol (SQLSTATE 08P01)")
		}
	}
	var untrusted *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &untrusted), errors.As(err, &unknown):
		return problem.New(problem.DBRejected, "the certificate of the database is not trusted: check sslrootcert and the host's name")
	case errors.Is(err, pgconn.ErrReadOnlyConnection), errors.Is(err, pgconn.ErrReadWriteConnection),
		errors.Is(err, pgconn.ErrPrimaryConnection), errors.Is(err, pgconn.ErrStandbyConnection):
		// Before TLS: of sslmode=prefer the attempts with and without are both among the reasons.
		return problem.New(problem.DBUnavailable, "no host of the DSN is what target_session_attrs asks for; wait and repeat")
	case err != nil && strings.Contains(err.Error(), "server refused TLS connection"):
		// pgconn has no value for it.
		return problem.New(problem.DBRejected, "the database does not offer TLS, which sslmode asks for")
	}
	var connect *pgconn.ConnectError
	var operation *net.OpError
	if errors.As(err, &connect) || errors.As(err, &operation) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, pgconn.ErrConnClosed) {
		return problem.New(problem.DBUnavailable, "the database cannot be reached; wait and repeat")
	}
	return nil
}

// printable keeps a SQLSTATE to its five letters and digits: a hostile server may send anything.
func printable(state string) string {
	if len(state) != 5 || strings.Trim(state, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return "unknown"
	}
	return state
}
