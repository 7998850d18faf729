package postgres

import (
	"fmt"
	"slices"
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

// pins fixes the settings that change what a statement means or how values look. Left to the role is
// default_text_search_config: a language is for the operator to choose.
//
// On a session of our own the fixed ones are sent as startup parameters, to which DISCARD ALL returns, and looked at once;
// each transaction then pins its time limits only (measured: 70 instead of 180 us). On a session that others use,
// behind a pooler, each transaction pins all of them, for itself alone.
//
// In both cases a SELECT does it and not SET LOCAL, so that the snapshot exists when the caller's statement comes, and one
// statement does it all.
type pins struct {
	fixed  [][2]string
	limits []limit
}

// limit is a time limit of ours. The session's own, which its role may have set, counts where it is smaller.
type limit struct {
	setting string
	ours    time.Duration
}

func newPins(s Settings) pins {
	path := make([]string, 0, len(s.SearchPath)+2)
	path = append(path, "pg_catalog") // first, so that nobody's functions and operators stand before the built-in ones
	for _, schema := range s.SearchPath {
		path = append(path, identifier(schema))
	}
	path = append(path, "pg_temp") // last: unnamed it would be searched first for relations
	return pins{
		fixed: [][2]string{
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
			{"transform_null_equals", "off"},
			{"array_nulls", "on"},
			{"xmlbinary", "base64"},
			// A worker is not ended by the leader's death as soon as the leader is cancelled, and counts against everybody.
			{"max_parallel_workers_per_gather", "0"},
			// Machine code is made in a step that no cancel and no time limit can interrupt: 2.2 s here for the first
			// count(*), and the more expressions the longer.
			{"jit", "off"},
		},
		limits: []limit{
			{"statement_timeout", s.QueryTimeout},
			{"lock_timeout", lockWait},
			{"idle_in_transaction_session_timeout", idleWait},
		},
	}
}

// startup are the fixed settings as startup parameters.
func (p pins) startup() map[string]string {
	parameters := map[string]string{}
	for _, f := range p.fixed {
		parameters[f[0]] = f[1]
	}
	return parameters
}

// question asks a session for the fixed settings and, in seconds, for its own time limits. A setting shows as a number
// with a unit (ms, s, min, h, d), which is how an interval may be written, too.
func (p pins) question() string {
	var b strings.Builder
	b.WriteString("SELECT ")
	for _, f := range p.fixed {
		fmt.Fprintf(&b, "pg_catalog.current_setting(%s, true), ", literal(f[0]))
	}
	for i, l := range p.limits {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(seconds(l.setting))
	}
	return b.String()
}

func seconds(setting string) string {
	return "pg_catalog.date_part('epoch', pg_catalog.current_setting(" + literal(setting) + ")::pg_catalog.interval)"
}

// own is the SELECT for transactions of a session that has answered the question so; false where a fixed setting is not as
// it was sent, so that the session is not ours alone.
func (p pins) own(answer [][]byte, version string) (text string, ok bool) {
	if len(answer) != len(p.fixed)+len(p.limits) {
		return "", false
	}
	for i, f := range p.fixed {
		if string(answer[i]) != f[1] {
			return "", false
		}
	}
	var b strings.Builder
	b.WriteString(inRecovery)
	for i, l := range p.limits {
		session, err := strconv.ParseFloat(string(answer[len(p.fixed)+i]), 64)
		if err != nil {
			return "", false
		}
		least := max(1, l.ours.Milliseconds())
		if ms := int64(session * 1000); ms > 0 {
			least = min(least, ms)
		}
		b.WriteString(set(l.setting, literal(strconv.FormatInt(least, 10))))
	}
	if watches(version) {
		b.WriteString(set(watchSetting, literal(strconv.FormatInt(watch.Milliseconds(), 10))))
	}
	return b.String(), true
}

// shared is the SELECT for transactions of any session.
func (p pins) shared(version string) string {
	var b strings.Builder
	b.WriteString(inRecovery)
	for _, f := range p.fixed {
		b.WriteString(set(f[0], literal(f[1])))
	}
	limits := p.limits
	if watches(version) {
		limits = append(slices.Clone(limits), limit{watchSetting, watch})
	}
	for _, l := range limits {
		session, name := seconds(l.setting), literal(l.setting)
		b.WriteString(set(l.setting, "CASE WHEN "+session+" > 0 AND "+session+" < "+
			strconv.FormatFloat(l.ours.Seconds(), 'f', -1, 64)+" THEN pg_catalog.current_setting("+name+") ELSE "+
			literal(strconv.FormatInt(max(1, l.ours.Milliseconds()), 10))+" END"))
	}
	return b.String()
}

const (
	inRecovery   = "SELECT pg_catalog.pg_is_in_recovery()"
	watchSetting = "client_connection_check_interval"
)

// set is one more column that sets something for this transaction.
func set(setting, value string) string {
	return ", pg_catalog.set_config(" + literal(setting) + ", " + value + ", true)"
}

// watches says whether a server of this version, as its parameter server_version has it ("15.18 (Debian ...)"), knows
// watchSetting.
func watches(version string) bool { return major(version) >= firstWithWatch }

// major is the first number of a version ("15.18 (Debian ...)", "19beta1"), 0 if there is none.
func major(version string) int {
	end := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(version)
	}
	n, _ := strconv.Atoi(version[:end]) // 0 where it is no number
	return n
}

// literal quotes our own constants; the backslash means nothing special in them because there is none.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func identifier(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
