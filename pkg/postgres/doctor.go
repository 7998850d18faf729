package postgres

import (
	"context"
	"crypto/tls"
	_ "embed" // the questions and the script
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"mcp-server-suite/pkg/strictjson"
	"mcp-server-suite/pkg/visible"
)

// What a check may say.
const (
	StatusOK     = "ok"
	StatusAdvice = "advice" // it is served, and could be better
	StatusFault  = "fault"  // no statement is run, unless Settings.AllowUnsafeRole
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // StatusOK, StatusAdvice or StatusFault
	Found  string `json:"found"`
	Fix    string `json:"fix,omitempty"` // SQL for a superuser in this database, or a setting; "" where there is none
}

// Report is what [DB.Inspect] has found. Names of the server are in it, a password is not.
type Report struct {
	Checks []Check `json:"checks"` // in a fixed order
	// SQL makes a role that can read the schemas of the search path and no more: compose/postgres/roles.sql, for psql,
	// with the names of this server filled in. It names the role of the DSN, unless that one seems to have other work to
	// do.
	SQL string `json:"sql"`
}

var (
	//go:embed facts.sql
	facts string
	//go:embed advice.sql
	advice string
	// script is compose/postgres/roles.sql; go:embed does not reach there, a test compares.
	//
	//go:embed roles.sql
	script string
)

const (
	oldest, newest = 12, 18 // major versions of PostgreSQL that the statements here are written for

	listed = 10 // findings of a kind, as the questions limit them

	// defaultRole is the role of the script where that of the DSN has other work to do.
	defaultRole = "mcp_reader"
)

// Inspect looks at the server and at the role of the DSN, whether or not the role is served. It makes one connection
// of its own, asks in read-only transactions, and changes nothing. The error is that of connecting (a
// *problem.Problem where the reason is known), or that the server's answer makes no sense.
func (d *DB) Inspect(ctx context.Context) (Report, error) {
	s := d.settings
	s.AllowUnsafeRole = true // it is what is looked at
	looking := &DB{settings: s, target: d.target, base: d.base, pins: d.pins}
	defer looking.closing.Wait()
	c, err := looking.connect(ctx)
	if err != nil {
		p, why := unreachable(err), cause(err)
		if p == nil {
			return Report{}, fmt.Errorf("connect: %s", why)
		}
		if why != "" {
			s.Log.Warn("no connection to the database", "cause", why)
		}
		return Report{}, p
	}
	defer looking.disconnect(c)
	path := array(s.SearchPath)
	row, err := ask(ctx, c.PgConn, 12, facts, path)
	if err != nil || len(row) != 1 {
		return Report{}, fmt.Errorf("look at the server: %w", err)
	}
	faults, err := unsafeRole(ctx, c.PgConn)
	if err != nil {
		return Report{}, err
	}
	hints, err := ask(ctx, c.PgConn, 4, holders+advice, path)
	if err != nil {
		return Report{}, fmt.Errorf("look at the role's surroundings: %w", err)
	}
	f := readFacts(row[0])
	var r Report
	r.server(f)
	r.transport(c.Conn(), f, d.target.tls)
	r.pooler(c.PID(), f, s.Pooler)
	r.role(f, faults, d.settings.AllowUnsafeRole)
	r.advise(hints, f)
	r.defaults(f)
	r.connections(f, s.PoolSize)
	r.SQL = fill(f, faults, s)
	return r, nil
}

// situation is the row of facts.sql.
type situation struct {
	version, number        string
	standby, ssl, inherits bool
	pid                    string
	role, database         string
	limit                  int
	memberOf               string
	owners                 []string
	settings               map[string]string
}

func readFacts(row []string) situation {
	f := situation{
		version: row[0], number: row[1], standby: row[2] == "t", pid: row[3], ssl: row[4] == "t",
		role: row[5], database: row[6],
		inherits: row[8] == "t", memberOf: row[9], settings: map[string]string{},
	}
	f.limit, _ = strconv.Atoi(row[7]) // an int4 by its type
	if row[10] != "" {
		f.owners = strings.Split(row[10], "\x01")
	}
	for pair := range strings.SplitSeq(row[11], ";") {
		name, value, _ := strings.Cut(pair, "=")
		f.settings[name] = value
	}
	return f
}

func (r *Report) add(name, status, found, fix string) {
	r.Checks = append(r.Checks, Check{Name: name, Status: status, Found: found, Fix: fix})
}

func (r *Report) server(f situation) {
	found := "PostgreSQL " + f.version
	if f.standby {
		found += ", a standby: rows may be behind the primary's"
	}
	number, err := strconv.Atoi(f.number)
	if major := number / 10000; err != nil || major < oldest || major > newest {
		r.add("server", StatusAdvice, fmt.Sprintf("%s; known are %d to %d", found, oldest, newest), "")
		return
	}
	r.add("server", StatusOK, found, "")
}

// transport says who can read along. What the server knows of its end is another leg behind a pooler.
func (r *Report) transport(c net.Conn, f situation, mode string) {
	_, encrypted := c.(*tls.Conn)
	remote := c.RemoteAddr()
	_, socket := remote.(*net.UnixAddr)
	address, _ := remote.(*net.TCPAddr)
	local := socket || address != nil && address.IP.IsLoopback()
	found := "encrypted, sslmode=" + mode
	if !encrypted {
		found = "not encrypted, " + map[bool]string{true: "on this machine", false: "to another machine"}[local]
	}
	if encrypted != f.ssl && !socket {
		found += "; between the pooler and the server " + map[bool]string{true: "encrypted", false: "not encrypted"}[f.ssl]
	}
	if !local && (!encrypted || mode != "verify-full") {
		r.add("transport", StatusAdvice, found, "sslmode=verify-full in the DSN")
		return
	}
	r.add("transport", StatusOK, found, "")
}

// pooler compares the process number that came with the start of the session (BackendKeyData, for cancelling) with
// that of the process that answers. A server gives its own. PgBouncer, which invents one for each client, and what
// works like it do not. A proxy that passes bytes on is none.
func (r *Report) pooler(pid uint32, f situation, expected bool) {
	between := strconv.FormatUint(uint64(pid), 10) != f.pid
	switch {
	case between && !expected:
		r.add("pooler", StatusAdvice, "there is one in between",
			"MCP_SQL_POOLER=transaction, if it works in transaction mode")
	case !between && expected:
		r.add("pooler", StatusAdvice, "there is none in between, so sessions could be reset after each statement",
			"MCP_SQL_POOLER=none")
	case between:
		r.add("pooler", StatusOK, "there is one in between, as MCP_SQL_POOLER says", "")
	default:
		r.add("pooler", StatusOK, "there is none in between", "")
	}
}

func (r *Report) role(f situation, faults []Fault, allowed bool) {
	inherits := "NOINHERIT"
	if f.inherits {
		inherits = "INHERIT"
	}
	found := fmt.Sprintf("%s, %s, in database %s", f.role, inherits, f.database)
	if f.memberOf != "" {
		found += ", member of " + f.memberOf
	}
	r.add("role", StatusOK, found, "")
	for i, x := range faults {
		found := x.Kind + ": " + x.Object
		if last := i+1 == len(faults) || faults[i+1].Kind != x.Kind; last && x.Total > listed {
			found += fmt.Sprintf(" (%d in all)", x.Total)
		}
		r.add("rights", StatusFault, found, x.Fix)
	}
	switch {
	case len(faults) == 0 && allowed:
		r.add("rights", StatusAdvice, "nothing beyond SELECT, so that none needs to be allowed",
			"MCP_SQL_ALLOW_UNSAFE_ROLE=false")
	case len(faults) == 0:
		r.add("rights", StatusOK, "nothing beyond SELECT", "")
	}
}

// subjects are the names in advice.sql, with what is said where there is nothing to advise.
var subjects = [][2]string{
	{"memberships", "none that shows what others do"},
	{"schemas", "all of the search path are there"},
	{"relations", "some may be read"},
	{"creators in the search path", "only owners"},
	{"SECURITY DEFINER functions", "none may be called"},
	{"functions", "none may be called, but for those of extensions"},
	{"functions to come", "none may be called"},
	{"relations to come", "nothing beyond SELECT"},
	{"temporary tables", "none may be made"},
}

func (r *Report) advise(hints [][]string, f situation) {
	for _, subject := range subjects {
		name, count := subject[0], 0
		for _, h := range hints {
			if h[0] != name {
				continue
			}
			count++
			found := h[1]
			if count == listed && h[3] != strconv.Itoa(listed) {
				found += " (" + h[3] + " in all)"
			}
			r.add(name, StatusAdvice, found, h[2])
		}
		if count == 0 {
			r.add(name, StatusOK, subject[1], "")
		}
	}
}

// defaults are what the role itself sets for its sessions.
func (r *Report) defaults(f situation) {
	for _, x := range []struct{ setting, none, value string }{
		{"default_transaction_read_only", "off", "on"},
		{"statement_timeout", "0", "'10s'"},
		{"lock_timeout", "0", "'1s'"},
		{"idle_in_transaction_session_timeout", "0", "'15s'"},
		{"temp_file_limit", "-1", "'1GB'"},
	} {
		value := f.settings[x.setting]
		if value == x.none || value == "" {
			r.add(x.setting, StatusAdvice, "not set for this role",
				fmt.Sprintf("ALTER ROLE %s SET %s = %s;", identifier(f.role), x.setting, x.value))
			continue
		}
		r.add(x.setting, StatusOK, value+map[bool]string{true: " ms"}[strings.HasSuffix(x.setting, "timeout")]+
			map[bool]string{true: " kB"}[x.setting == "temp_file_limit"], "")
	}
}

func (r *Report) connections(f situation, pool int) {
	fix := fmt.Sprintf("ALTER ROLE %s CONNECTION LIMIT %d;", identifier(f.role), max(2*pool, 8))
	switch {
	case f.limit < 0:
		r.add("connection limit", StatusAdvice, "none: the role can take all that the server has", fix)
	case f.limit < pool:
		r.add("connection limit", StatusAdvice, fmt.Sprintf("%d, and one daemon alone may open %d", f.limit, pool), fix)
	default:
		r.add("connection limit", StatusOK, strconv.Itoa(f.limit), "")
	}
}

// fill writes the names of this server into the script, in place of the defaults, which end at a line of its own.
func fill(f situation, faults []Fault, s Settings) string {
	role := f.role
	if len(faults) > 0 {
		role = defaultRole // to take its rights from this one could stop what else it is for
	}
	before, after, _ := strings.Cut(script, `\if :{?role}`)
	_, after, _ = strings.Cut(after, "-- The names are settled.\n")
	var b strings.Builder
	b.WriteString(before)
	for _, v := range [][2]string{
		{"role", role},
		{"database", f.database},
		{"schemas", array(s.SearchPath)},
		{"owners", array(f.owners)},
		{"connections", strconv.Itoa(max(2*s.PoolSize, 8))},
	} {
		fmt.Fprintf(&b, "\\set %s %s\n", v[0], variable(v[1]))
	}
	b.WriteString("-- The names are settled.\n" + after)
	return b.String()
}

// array writes the literal of a text array.
func array(items []string) string {
	quoted := make([]string, len(items))
	for i, item := range items {
		quoted[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(item) + `"`
	}
	return "{" + strings.Join(quoted, ",") + "}"
}

// variable quotes a value for psql's \set, which knows the escapes of C within single quotes.
func variable(value string) string {
	var b strings.Builder
	b.WriteByte('\'')
	for i := range len(value) {
		switch c := value[i]; {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}

// Text is the report to read on a terminal: a line for each check, its fix below it, and then the script if a role is
// to be made. Names that hold control or invisible characters are shown with escapes.
func (r Report) Text() string {
	width := 0
	for _, c := range r.Checks {
		width = max(width, len(c.Name))
	}
	var b strings.Builder
	count := map[string]int{}
	for _, c := range r.Checks {
		count[c.Status]++
		fmt.Fprintf(&b, "%-6s  %-*s  %s\n", c.Status, width, c.Name, visible.Line(c.Found))
		if c.Fix != "" {
			fmt.Fprintf(&b, "%-6s  %-*s  fix: %s\n", "", width, "", visible.Line(c.Fix))
		}
	}
	fmt.Fprintf(&b, "\nfaults: %d, advice: %d\n", count[StatusFault], count[StatusAdvice])
	if count[StatusFault] > 0 {
		fmt.Fprintf(&b, "With a fault no statement is run. If other programs log in as this role, leave it as it is, whatever the "+
			"fixes above say, and make another one.\nThis makes %s, given to psql (doctor --sql prints it alone):\n\n%s",
			defaultRole, visible.Text(r.SQL))
	}
	return b.String()
}

// JSON is the report as one line of JSON in ASCII.
func (r Report) JSON() ([]byte, error) {
	if r.Checks == nil {
		r.Checks = []Check{}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write report: %w", err)
	}
	return strictjson.AppendASCII(nil, text), nil
}

// Faulty says that there is a fault.
func (r Report) Faulty() bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Status == StatusFault })
}
