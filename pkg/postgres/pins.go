package postgres

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	begin    = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
	rollback = "ROLLBACK"
	discard  = "DISCARD ALL"

	// lockWait is how long a statement may wait for a lock: a reader waits only for DDL (ACCESS EXCLUSIVE).
	lockWait = time.Second
	// idleWait ends a transaction whose client has gone silent. The flight has no pause, so this is for a client that
	// was stopped.
	idleWait = 15 * time.Second
	// watch is how often the server looks whether the client is still there while it works (PostgreSQL 14).
	watch = time.Second

	firstWithWatch = 14
)

// pins is the SELECT by which a transaction begins: it fixes every setting that changes what a statement means or how
// values look, for this transaction only. It is a SELECT and not SET LOCAL so that the snapshot exists when the caller's
// statement comes, and that one statement does it all.
type pins struct{ common, watched string }

// newPins writes the texts: for servers before PostgreSQL 14, and for later ones.
func newPins(s Settings) pins {
	path := make([]string, 0, len(s.SearchPath)+2)
	path = append(path, "pg_catalog") // first, so that nobody's functions and operators stand before the built-in ones
	for _, schema := range s.SearchPath {
		path = append(path, identifier(schema))
	}
	path = append(path, "pg_temp") // last: unnamed it would be searched first for relations
	fixed := [][2]string{
		{"search_path", strings.Join(path, ", ")},
		{"standard_conforming_strings", "on"},
		{"DateStyle", "ISO, YMD"},
		{"IntervalStyle", "iso_8601"},
		{"TimeZone", "UTC"},
		{"bytea_output", "hex"},
		{"extra_float_digits", "1"},
		{"xmloption", "content"},
		{"lc_monetary", "C"},
		{"row_security", "on"},
		// A worker is not ended by the leader's death as soon as the leader is cancelled, and counts against everybody.
		{"max_parallel_workers_per_gather", "0"},
	}
	var b strings.Builder
	b.WriteString("SELECT pg_catalog.pg_is_in_recovery()")
	for _, f := range fixed {
		fmt.Fprintf(&b, ", pg_catalog.set_config(%s, %s, true)", literal(f[0]), literal(f[1]))
	}
	b.WriteString(smaller("statement_timeout", s.QueryTimeout))
	b.WriteString(smaller("lock_timeout", lockWait))
	b.WriteString(smaller("idle_in_transaction_session_timeout", idleWait))
	common := b.String()
	// Machine code is made in a step that no cancel and no time limit can interrupt: 2.2 s here for the first
	// count(*), and the more expressions the longer. PostgreSQL 12 and 13 do so, too, and are no longer maintained.
	compiled := ", pg_catalog.set_config('jit', 'off', true)"
	return pins{common, common + smaller("client_connection_check_interval", watch) + compiled}
}

// smaller sets a timeout to ours or to what the session has, whichever ends first; 0 is none. The setting shows as a
// number with a unit (ms, s, min, h, d), which is how an interval may be written, too.
func smaller(setting string, ours time.Duration) string {
	name := literal(setting)
	seconds := "pg_catalog.date_part('epoch', pg_catalog.current_setting(" + name + ")::pg_catalog.interval)"
	limit := strconv.FormatFloat(ours.Seconds(), 'f', -1, 64)
	return ", pg_catalog.set_config(" + name + ", CASE WHEN " + seconds + " > 0 AND " + seconds + " < " + limit +
		" THEN pg_catalog.current_setting(" + name + ") ELSE " + literal(strconv.FormatInt(max(1, ours.Milliseconds()), 10)) +
		" END, true)"
}

// text is the SELECT for a server of this version, as its parameter server_version has it: "15.18 (Debian ...)".
func (p pins) text(version string) string {
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err == nil && n >= firstWithWatch {
		return p.watched
	}
	return p.common
}

// literal quotes our own constants; the backslash means nothing special in them because there is none.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func identifier(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
