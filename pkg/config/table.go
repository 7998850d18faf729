package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mcp-server-suite/pkg/visible"
)

// Setting is what an operator has to know about one variable.
type Setting struct {
	Name       string
	Default    string // the value that counts when the variable is unset, as it would be written; "" is unset
	Constraint string // what is allowed
	Effect     string // one or more sentences
	Example    string // a right value, where the default is ""
}

// example is a right value to show.
func (s Setting) example() string { return cmp.Or(s.Example, s.Default) }

// row is a setting and the function that reads a value which is not empty into its field; it returns what is wrong with
// the value, or "".
type row struct {
	Setting
	read func(c *Config, value string) (wrong string)
}

// table is the only place that knows the settings. Each constructor below writes the Constraint from the same bounds
// that it checks. It follows the order of seed 000.
var table = []row{
	secret(Setting{
		Name: "MCP_SQL_DSN", Constraint: "postgres:// or postgresql://", Example: "postgres://mcp_reader@db.internal:5432/app",
		Effect: "Enables read_only_sql on this database. The password in it shows in `docker inspect`: prefer MCP_SQL_DSN_FILE.",
	}, []string{"postgres://", "postgresql://"}, func(c *Config) *string { return &c.SQLDSN }),
	path(Setting{
		Name: dsnFile, Constraint: "absolute path of a readable file", Example: "/run/secrets/dsn",
		Effect: "Enables read_only_sql on the database whose DSN is in this file. It is read again for each new connection, and " +
			"user and password may change.",
	}, anything, func(c *Config) *string { return &c.SQLDSNFile }),
	seconds(Setting{
		Name: "MCP_SQL_CONNECT_TIMEOUT", Default: "5",
		Effect: "Connect timeout of each host, and wait for a free connection.",
	}, aboveZero, 60, func(c *Config) *time.Duration { return &c.SQLConnectTimeout }),
	seconds(Setting{
		Name: "MCP_SQL_QUERY_TIMEOUT", Default: "10",
		Effect: "statement_timeout of each query; the role's own counts where it is smaller.",
	}, aboveZero, 300, func(c *Config) *time.Duration { return &c.SQLQueryTimeout }),
	integer(Setting{
		Name: "MCP_SQL_POOL_MAX_SIZE", Default: "4", Effect: "Most connections to the database; they are made when needed.",
	}, 1, 32, func(c *Config) *int { return &c.SQLPoolMaxSize }),
	text(Setting{
		Name: "MCP_SQL_APPLICATION_NAME", Default: "mcp-server-suite", Effect: "application_name seen in pg_stat_activity.",
	}, 63, "characters of A-Z a-z 0-9 . _ -", nameChar, func(c *Config) *string { return &c.SQLApplicationName }),
	list(Setting{
		Name: "MCP_SQL_SEARCH_PATH", Default: "public",
		Effect: "Schemas in which unqualified names are looked up, in order, between commas; pg_catalog comes before them.",
	}, "schema names", func(c *Config) *[]string { return &c.SQLSearchPath }),
	words(Setting{
		Name: "MCP_SQL_POOLER", Default: "none",
		Effect: "Whether a pooler in transaction mode (PgBouncer) stands between; sessions are then not reset, because they " +
			"are not ours.",
	}, []word[bool]{{"none", false}, {"transaction", true}}, func(c *Config) *bool { return &c.SQLPooler }),
	integer(Setting{
		Name: "MCP_SQL_MAX_RESULT_BYTES", Default: "100000", Effect: "Most bytes of JSON for the rows of one result.",
	}, 1000, 1<<20, func(c *Config) *int { return &c.SQLMaxResultBytes }),
	integer(Setting{
		Name: "MCP_SQL_MAX_COST", Default: "0",
		Effect: "A query that the planner expects to cost more (EXPLAIN's total cost) is refused before it runs; 0 does not ask.",
	}, 0, 1e9, func(c *Config) *int { return &c.SQLMaxCost }),
	words(Setting{
		Name: "MCP_SQL_RECURSIVE", Default: "true", Effect: "Whether WITH RECURSIVE is allowed.",
	}, booleans, func(c *Config) *bool { return &c.SQLRecursive }),
	list(Setting{
		Name: "MCP_SQL_ALLOW_FUNCTIONS", Example: "reporting.fiscal_year, public.st_area",
		Effect: "Functions to allow beside the built-in list, as schema.name; queries must write them so.",
	}, "schema.function", func(c *Config) *[]string { return &c.SQLFunctions }),
	list(Setting{
		Name: "MCP_SQL_ALLOW_TYPES", Example: "public.geometry, citext",
		Effect: "Types to allow in casts beside the built-in ones.",
	}, "schema.type or type", func(c *Config) *[]string { return &c.SQLTypes }),
	list(Setting{
		Name: "MCP_SQL_ALLOW_RELATIONS", Example: "reporting.*, app.orders(id, total)",
		Effect: "Bounds queries to these tables and, where columns are named, to those columns; unset leaves it to the role.",
	}, "schema.*, schema.table(column, column)", func(c *Config) *[]string { return &c.SQLRelations }),
	list(Setting{
		Name: "MCP_SQL_ALLOW_PLAINTEXT", Example: "db.internal",
		Effect: "Hosts of other machines that sslmode=disable, allow or prefer may reach unencrypted.",
	}, "host names or addresses", func(c *Config) *[]string { return &c.SQLPlaintext }),
	words(Setting{
		Name: "MCP_SQL_ALLOW_UNSAFE_ROLE", Default: "false",
		Effect: "Lets queries run with a database role that may do more than read.",
	}, booleans, func(c *Config) *bool { return &c.SQLUnsafeRole }),
	path(Setting{
		Name: "MCP_SAFE_DATA_DIR", Constraint: "absolute, existing directory", Example: "/srv/data",
		Effect: "Enables sandbox_fs_read on this directory.",
	}, directory, func(c *Config) *string { return &c.SafeDataDir }),
	words(Setting{
		Name: "MCP_METRICS_ENABLED", Default: "true", Effect: "Enables system_metrics.",
	}, booleans, func(c *Config) *bool { return &c.MetricsEnabled }),
	seconds(Setting{
		Name: "MCP_METRICS_CPU_SAMPLE_SECONDS", Default: "0.1", Effect: "CPU sampling interval.",
	}, aboveZero, 2, func(c *Config) *time.Duration { return &c.MetricsCPUSample }),
	path(Setting{
		Name: "MCP_METRICS_DISK_PATH", Default: "/", Constraint: "absolute path",
		Effect: "Filesystem reported by disk_percent_used.",
	}, anything, func(c *Config) *string { return &c.MetricsDiskPath }),
	integer(Setting{
		Name: "MCP_MAX_CONCURRENT_TOOLS", Default: "16", Effect: "Concurrent tools/call slots.",
	}, 1, 256, func(c *Config) *int { return &c.MaxConcurrentTools }),
	integer(Setting{
		Name: "MCP_MAX_WAITING_CALLS", Default: "256",
		Effect: "Calls that may wait for a slot; one more is refused BUSY at once.",
	}, 0, 4096, func(c *Config) *int { return &c.MaxWaitingCalls }),
	seconds(Setting{
		Name: "MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS", Default: "5",
		Effect: "Wait for a slot before rejecting; 0 rejects immediately.",
	}, 0, 60, func(c *Config) *time.Duration { return &c.ToolAcquireTimeout }),
	seconds(Setting{
		Name: "MCP_TOOL_TIMEOUT_SECONDS", Default: "30", Effect: "Per-call execution deadline.",
	}, aboveZero, 600, func(c *Config) *time.Duration { return &c.ToolTimeout }),
	integer(Setting{
		Name: "MCP_MAX_ARGUMENT_DEPTH", Default: "8", Effect: "Maximum nesting of tool arguments.",
	}, 1, 64, func(c *Config) *int { return &c.MaxArgumentDepth }),
	integer(Setting{
		Name: "MCP_MAX_ARGUMENT_ITEMS", Default: "1000", Effect: "Maximum items in any argument container.",
	}, 1, 100_000, func(c *Config) *int { return &c.MaxArgumentItems }),
	integer(Setting{
		Name: "MCP_MAX_REPLY_BYTES", Default: "67108864",
		Effect: "Bytes of answers being made or waiting to be written, over all calls (the default is 64 MiB); less where a " +
			"quarter of the control group's memory is less.",
	}, 16<<20, 1<<30, func(c *Config) *int { return &c.MaxReplyBytes }),
	words(Setting{
		Name: "MCP_ERROR_ECHO", Default: "off",
		Effect: "Whether error texts may repeat what the caller sent: bounded quotes a short part of it.",
	}, echoes, func(c *Config) *bool { return &c.ErrorEcho }),
	text(Setting{
		Name: "MCP_SERVER_NAME", Default: "mcp-server-suite", Effect: "Name in the answer to initialize.",
	}, 64, "characters of A-Z a-z 0-9 . _ -", nameChar, func(c *Config) *string { return &c.ServerName }),
	text(Setting{
		Name: "MCP_SERVER_TITLE", Example: "Sales data",
		Effect: "Title in the answer to initialize; unset sends none.",
	}, 128, "printable characters", visible.Rune, func(c *Config) *string { return &c.ServerTitle }),
	text(Setting{
		Name: "MCP_SERVER_INSTRUCTIONS", Example: "Ask for the list of tables before the first query.",
		Effect: "Instructions in the answer to initialize; unset sends the built-in text.",
	}, 4096, "printable characters, newline, tab", visibleOrBreak, func(c *Config) *string { return &c.ServerInstructions }),
	words(Setting{
		Name: "MCP_SERVER_SUITE_LOG_LEVEL", Default: "WARNING", Effect: "Log verbosity on stderr; the posture is logged at each start whatever this says.",
	}, levels, func(c *Config) *slog.Level { return &c.LogLevel }),
	words(Setting{
		Name: "MCP_LANDLOCK", Default: "require",
		Effect: "Whether the server may start without Landlock: never, where the kernel has none, or always.",
	}, []word[Insistence]{{"require", Require}, {"if-available", IfAvailable}, {"off", Off}},
		func(c *Config) *Insistence { return &c.Landlock }),
	integer(Setting{
		Name: "MCP_LANDLOCK_MIN_ABI", Default: "1",
		Effect: "Lowest Landlock ABI of the kernel to start on, where it has Landlock.",
	}, 1, 11, func(c *Config) *int { return &c.LandlockMinABI }),
	words(Setting{
		Name: "MCP_SECCOMP", Default: "require", Effect: "Whether the server may start without its system-call filter.",
	}, []word[Insistence]{{"require", Require}, {"off", Off}}, func(c *Config) *Insistence { return &c.Seccomp }),
	words(Setting{
		Name: "MCP_ALLOW_PRIVILEGED", Default: "false",
		Effect: "Lets the server start with uid 0 or with capabilities.",
	}, booleans, func(c *Config) *bool { return &c.AllowPrivileged }),
}

// Settings returns the table of settings in the order of the documentation.
func Settings() []Setting {
	settings := make([]Setting, 0, len(table))
	for _, row := range table {
		settings = append(settings, row.Setting)
	}
	return settings
}

// word is one of the values that a setting may have.
type word[T any] struct {
	text  string
	value T
}

var booleans = []word[bool]{
	{"true", true},
	{"false", false},
	{"1", true},
	{"0", false},
	{"yes", true},
	{"no", false},
	{"on", true},
	{"off", false},
}

var echoes = []word[bool]{{"off", false}, {"bounded", true}}

// levels are the names of Python's logging (seed 000), WARN included because Python takes it too.
var levels = []word[slog.Level]{
	{"DEBUG", slog.LevelDebug},
	{"INFO", slog.LevelInfo},
	{"WARNING", slog.LevelWarn},
	{"WARN", slog.LevelWarn},
	{"ERROR", slog.LevelError},
	{"CRITICAL", LevelCritical},
}

// words reads one of a list of words, in any ASCII letter case.
func words[T any](s Setting, list []word[T], field func(*Config) *T) row {
	for i, w := range list {
		if i > 0 {
			s.Constraint += ", "
		}
		s.Constraint += w.text
	}
	return row{s, func(c *Config, value string) string {
		for _, w := range list {
			if upper(w.text) == upper(value) {
				*field(c) = w.value
				return ""
			}
		}
		return quote(value) + " is not one of the words"
	}}
}

// integer reads a whole number from low to high.
func integer(s Setting, low, high int, field func(*Config) *int) row {
	s.Constraint = fmt.Sprintf("%d..%d", low, high)
	return row{s, func(c *Config, value string) string {
		if !digits(strings.TrimPrefix(value, "-")) {
			return quote(value) + " is not a whole number in plain digits"
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < low || n > high {
			return quote(value) + " is out of bounds"
		}
		*field(c) = n
		return ""
	}}
}

// aboveZero is the smallest time there is: a lower bound that leaves out 0 only.
const aboveZero = time.Nanosecond

// maxDecimals is nanoseconds. One more would be lost, and silently, in a time.Duration.
const maxDecimals = 9

// seconds reads a decimal number of seconds from low, which is 0 or aboveZero, to high.
func seconds(s Setting, low time.Duration, high int64, field func(*Config) *time.Duration) row {
	s.Constraint = fmt.Sprintf("0..%d s", high)
	if low > 0 {
		s.Constraint = fmt.Sprintf("> 0, <= %d s", high)
	}
	longest := time.Duration(high) * time.Second
	return row{s, func(c *Config, value string) string {
		positive, negative := strings.CutPrefix(value, "-")
		whole, decimals, dotted := strings.Cut(positive, ".")
		if !digits(whole) || dotted && !digits(decimals) {
			return quote(value) + " is not a number of seconds in plain digits"
		}
		if len(decimals) > maxDecimals {
			return fmt.Sprintf("%s has more than %d decimals", quote(value), maxDecimals)
		}
		ns, err := strconv.ParseInt(whole+decimals+strings.Repeat("0", maxDecimals-len(decimals)), 10, 64)
		if negative {
			ns = -ns
		}
		d := time.Duration(ns)
		if err != nil || d < low || d > longest {
			return quote(value) + " is out of bounds"
		}
		*field(c) = d
		return ""
	}}
}

// path reads an absolute path that passes check. It is kept as written: cleaning "/a/link/.." would lead elsewhere.
func path(s Setting, check func(string) string, field func(*Config) *string) row {
	return row{s, func(c *Config, value string) string {
		if i := strings.IndexFunc(value, unicode.IsControl); i >= 0 {
			return fmt.Sprintf("holds a control character (%U)", []rune(value[i:])[0])
		}
		if !filepath.IsAbs(value) {
			return "is not an absolute path"
		}
		*field(c) = value
		return check(value)
	}}
}

const dsnFile = "MCP_SQL_DSN_FILE"

// secret reads a text that begins with one of the prefixes. No fault repeats any of it.
func secret(s Setting, prefixes []string, field func(*Config) *string) row {
	return row{s, func(c *Config, value string) string {
		for _, p := range prefixes {
			if strings.HasPrefix(value, p) {
				*field(c) = value
				return ""
			}
		}
		return "does not begin so"
	}}
}

// mostItems and mostListBytes bound a list.
const (
	mostItems     = 1000
	mostListBytes = 64 << 10
)

// list reads items between commas, those inside of brackets apart, without the spaces around them.
func list(s Setting, kind string, field func(*Config) *[]string) row {
	s.Constraint = "list of " + kind
	return row{s, func(c *Config, value string) string {
		if len(value) > mostListBytes || !utf8.ValidString(value) {
			return fmt.Sprintf("is longer than %d bytes, or not valid UTF-8", mostListBytes)
		}
		var items []string
		depth, from := 0, 0
		for i, r := range value + "," {
			switch {
			case r == '(':
				depth++
			case r == ')':
				depth--
			case r == ',' && depth <= 0:
				items = append(items, strings.TrimSpace(value[from:i]))
				from = i + 1
			case !visible.Rune(r):
				return fmt.Sprintf("has a character (%U) that is not allowed", r)
			}
		}
		if depth != 0 {
			return "has a bracket without its other half"
		}
		if len(items) > mostItems || slices.Contains(items, "") {
			return fmt.Sprintf("has an empty item, or more than %d", mostItems)
		}
		*field(c) = items
		return ""
	}}
}

func anything(string) string { return "" }

// directory says why path is not a directory, without repeating it. That it was one now is no promise for later: who
// opens it checks again.
func directory(path string) string {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrPermission) {
		return "cannot be used: permission denied: this user may not pass a folder above it"
	}
	if err != nil {
		return "cannot be used: " + errors.Unwrap(err).Error() // the errno inside the *fs.PathError
	}
	if !info.IsDir() {
		return "is not a directory"
	}
	return ""
}

// text reads up to most characters, at least one where there is a default, that are all allowed.
func text(s Setting, most int, kind string, allowed func(rune) bool, field func(*Config) *string) row {
	s.Constraint = fmt.Sprintf("%d..%d %s", min(len(s.Default), 1), most, kind)
	return row{s, func(c *Config, value string) string {
		if !utf8.ValidString(value) {
			return "is not valid UTF-8"
		}
		if n := utf8.RuneCountInString(value); n > most {
			return fmt.Sprintf("is %d characters long", n)
		}
		for i, r := range []rune(value) {
			if !allowed(r) {
				return fmt.Sprintf("character %d (%U) is not allowed", i+1, r)
			}
		}
		*field(c) = value
		return ""
	}}
}

func nameChar(r rune) bool {
	return 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-'
}

func visibleOrBreak(r rune) bool { return r == '\n' || r == '\t' || visible.Rune(r) }

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// maxShownBytes is how much of a value a fault repeats.
const maxShownBytes = 32

// quote shows the beginning of a value in ASCII, between double quotes; a cut shows as three dots after them. A DSN in the
// wrong place holds a password.
func quote(value string) string {
	if strings.Contains(value, "://") || strings.Contains(strings.ToLower(value), "password") {
		return "what looks like a DSN, and is not shown,"
	}
	if len(value) > maxShownBytes {
		return strconv.QuoteToASCII(value[:maxShownBytes]) + "..."
	}
	return strconv.QuoteToASCII(value)
}
