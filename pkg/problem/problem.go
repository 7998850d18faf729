package problem

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"mcp-server-suite/pkg/strictjson"
	"mcp-server-suite/pkg/visible"
)

// Code is the coarse class of a refusal: seed 000's MCPErrorCode.
type Code string

// The five codes of seed 000.
const (
	ValidationError  Code = "MCP_VALIDATION_ERROR"
	AccessDenied     Code = "MCP_ACCESS_DENIED"
	QueryViolation   Code = "MCP_QUERY_VIOLATION"
	ExecutionTimeout Code = "MCP_EXECUTION_TIMEOUT"
	InternalError    Code = "MCP_INTERNAL_ERROR"
)

// Class is what a code fixes: the RFC 9457 type, title and HTTP status, and the JSON-RPC code that seed 000 gives it.
// That last code is documentation: as an error code on the wire only -32602 and -32603 are used, because the
// protocol reserves the others.
type Class struct {
	Code    Code
	Type    string
	Title   string
	Status  int
	JSONRPC int
}

const typePrefix = "urn:mcp-server-suite:problem:"

var classes = []Class{
	{ValidationError, typePrefix + "validation-error", "Invalid tool arguments", 422, -32602},
	{AccessDenied, typePrefix + "access-denied", "Access to the requested resource is denied", 403, -32001},
	{QueryViolation, typePrefix + "query-violation", "Query violates the read-only policy", 403, -32002},
	{ExecutionTimeout, typePrefix + "execution-timeout", "Execution timed out", 504, -32003},
	{InternalError, typePrefix + "internal-error", "Internal error", 500, -32603},
}

// Classes returns the table of codes in the order of seed 000.
func Classes() []Class { return append([]Class(nil), classes...) }

// Reason is the fine, closed vocabulary below the code. It is what a program branches on.
type Reason string

// The reasons. A new one is added here and in the table below, nowhere else.
const (
	BadParam         Reason = "BAD_PARAM"
	UnknownName      Reason = "UNKNOWN_NAME"
	NotFound         Reason = "NOT_FOUND"
	BadEncoding      Reason = "BAD_ENCODING"
	BadSQL           Reason = "BAD_SQL"
	QueryFailed      Reason = "QUERY_FAILED"
	UnsafeQuery      Reason = "UNSAFE_QUERY"
	NotRegenerable   Reason = "NOT_REGENERABLE"
	TooCostly        Reason = "TOO_COSTLY"
	OutsideSandbox   Reason = "OUTSIDE_SANDBOX"
	SpecialFile      Reason = "SPECIAL_FILE"
	NotReadable      Reason = "NOT_READABLE"
	DBDenied         Reason = "DB_DENIED"
	Deadline         Reason = "DEADLINE"
	StatementTimeout Reason = "STATEMENT_TIMEOUT"
	Busy             Reason = "BUSY"
	DBBusy           Reason = "DB_BUSY"
	DBInterrupted    Reason = "DB_INTERRUPTED"
	DBUnavailable    Reason = "DB_UNAVAILABLE"
	DBRejected       Reason = "DB_REJECTED"
	DBUnsafeRole     Reason = "DB_UNSAFE_ROLE"
	AuditUnavailable Reason = "AUDIT_UNAVAILABLE"
	Internal         Reason = "INTERNAL"
)

// Row is one line of the table of reasons. Retryable says that the same call may succeed later (or asked smaller, for
// DEADLINE) without anybody changing the server.
type Row struct {
	Reason    Reason
	Code      Code
	Retryable bool
	Meaning   string
}

var rows = []Row{
	{BadParam, ValidationError, false, "an argument is missing, unknown, of the wrong type or out of bounds, or holds characters that are refused"},
	{UnknownName, ValidationError, false, "no tool or resource of that name is offered to this session"},
	{NotFound, ValidationError, false, "nothing readable is there: no such file, or the name is too long"},
	{BadEncoding, ValidationError, false, "the encoding is not a known text codec, or the bytes are not valid in it"},
	{BadSQL, ValidationError, false, "the text is not one that PostgreSQL's grammar accepts, or it is nested too deeply"},
	{QueryFailed, ValidationError, false, "the database refused the query: a name, a type, a division by zero; the SQLSTATE is in the detail"},
	{UnsafeQuery, QueryViolation, false, "the query is not one plain read: a statement, clause, function, type or relation that is not on the list"},
	{NotRegenerable, QueryViolation, false, "the query cannot be written anew without a change of meaning; fewer brackets help"},
	{TooCostly, QueryViolation, false, "the planner expects more work than MCP_SQL_MAX_COST allows"},
	{OutsideSandbox, AccessDenied, false, "the path leads out of the directory that is served, whether or not anything is there, or runs into a symlink loop"},
	{SpecialFile, AccessDenied, false, "it is a directory, FIFO, socket or device; only regular files are read"},
	{NotReadable, AccessDenied, false, "it is inside, but the operating system does not let the server read it"},
	{DBDenied, AccessDenied, false, "the database role may not read that"},
	{Deadline, ExecutionTimeout, true, "the call took longer than MCP_TOOL_TIMEOUT_SECONDS; ask for less"},
	{StatementTimeout, ExecutionTimeout, true, "the database stopped the query at MCP_SQL_QUERY_TIMEOUT, or at the smaller limit of its role, or did not answer; ask for less"},
	{Busy, InternalError, true, "too many calls at once, all connections to the database in use, the client is not reading its answers, or a path kept changing; wait and repeat"},
	{DBBusy, InternalError, true, "the database has no connection free; wait and repeat"},
	{DBInterrupted, InternalError, true, "the database ended the query for reasons of its own (restart, failover, conflict with recovery); repeat"},
	{DBUnavailable, InternalError, true, "the database cannot be reached; wait and repeat"},
	{DBRejected, InternalError, false, "the database refuses the server's login, address or encryption; its operator must act"},
	{DBUnsafeRole, InternalError, false, "the database role may write, so nothing is served; its operator must act (doctor says what)"},
	{AuditUnavailable, InternalError, false, "the call could not be recorded, so its result is withheld"},
	{Internal, InternalError, false, "a fault of the server; its log has the cause"},
}

// Table returns the reasons in the order of the documentation.
func Table() []Row { return append([]Row(nil), rows...) }

func (r Reason) row() Row {
	for _, row := range rows {
		if row.Reason == r {
			return row
		}
	}
	panic("problem: reason without a row: " + string(r))
}

// Code is the class that the reason belongs to.
func (r Reason) Code() Code { return r.row().Code }

func (c Code) class() Class {
	for _, class := range classes {
		if class.Code == c {
			return class
		}
	}
	panic("problem: code without a class: " + string(c))
}

// Problem is one refusal. It is an error, so that a domain returns it where a result was due and the edge finds it with
// errors.As.
type Problem struct {
	Reason       Reason
	Detail       string   // one sentence of server-side facts
	Params       []string // names of the parameters to change; names that the server published, never the caller's
	RetryAfterMS int      // a hint for retryable reasons, in milliseconds; 0 says nothing

	subject string // the caller's own text
	echoed  string // Detail with one %s where the quoted subject goes
}

// New makes a refusal. The detail must not hold anything that the caller sent.
func New(reason Reason, detail string, params ...string) *Problem {
	return &Problem{Reason: reason, Detail: detail, Params: params}
}

// About keeps the caller's text beside the refusal. format is the detail with one %s where the quoted, escaped and
// bounded text goes; it is used only where the operator has switched echoing on.
func (p *Problem) About(subject, format string) *Problem {
	p.subject, p.echoed = subject, format
	return p
}

// Error gives reason and detail for logs; never the subject.
func (p *Problem) Error() string { return string(p.Reason) + ": " + p.Detail }

// Text is the detail as the caller may see it: with the subject, quoted and bounded, if echo is on and there is one.
func (p *Problem) Text(echo bool) string {
	if !echo || p.echoed == "" {
		return p.Detail
	}
	return strings.Replace(p.echoed, "%s", Quote(p.subject), 1) // not Sprintf: a fact may hold another percent sign
}

// Append appends the RFC 9457 document as one JSON object in ASCII. The members are seed 000's (type, title, status,
// detail, code, invalid_params, metadata) and reason. metadata holds retryable: true for reasons that are, and
// retry_after_ms where a time is known.
func (p *Problem) Append(dst []byte, echo bool) []byte {
	row := p.Reason.row()
	class := row.Code.class()
	dst = append(dst, `{"type":`...)
	dst = strictjson.AppendString(dst, class.Type)
	dst = append(dst, `,"title":`...)
	dst = strictjson.AppendString(dst, class.Title)
	dst = append(dst, `,"status":`...)
	dst = strconv.AppendInt(dst, int64(class.Status), 10)
	dst = append(dst, `,"detail":`...)
	dst = strictjson.AppendString(dst, p.Text(echo))
	dst = append(dst, `,"code":`...)
	dst = strictjson.AppendString(dst, string(class.Code))
	dst = append(dst, `,"reason":`...)
	dst = strictjson.AppendString(dst, string(row.Reason))
	dst = append(dst, `,"invalid_params":[`...)
	for i, name := range p.Params {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strictjson.AppendString(dst, name)
	}
	dst = append(dst, `],"metadata":{`...)
	if row.Retryable {
		dst = append(dst, `"retryable":true`...)
		if p.RetryAfterMS > 0 {
			dst = append(dst, `,"retry_after_ms":`...)
			dst = strconv.AppendInt(dst, int64(p.RetryAfterMS), 10)
		}
	}
	return append(dst, "}}"...)
}

// maxQuoted is how many characters of the caller's text an echo repeats at most (seed 000).
const maxQuoted = 256

// Quote makes the caller's text safe to show: between single quotes, at most 256 characters of it (the escapes that
// it needs are counted too), what is not a printable character or would end the quote written as an escape. A cut
// shows as three dots after the quote.
//
// Residual: combining marks and right-to-left letters are printable, so the text may look crowded or run backwards.
func Quote(text string) string {
	var b strings.Builder
	b.WriteByte('\'')
	used := 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		piece := text[i : i+size]
		switch {
		case r == utf8.RuneError && size == 1:
			piece = fmt.Sprintf(`\x%02x`, text[i])
		case r == '\'' || r == '\\':
			piece = `\` + string(r)
		case r > 0xFFFF && !visible.Rune(r):
			piece = fmt.Sprintf(`\U%08x`, r)
		case !visible.Rune(r):
			piece = fmt.Sprintf(`\u%04x`, r)
		}
		if used += utf8.RuneCountInString(piece); used > maxQuoted {
			return b.String() + "'..."
		}
		b.WriteString(piece)
		i += size
	}
	return b.String() + "'"
}
