package config

import (
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config is what the environment says, checked. It is passed by value and never changed after [Parse]. The comment of
// each field names its variable; default and bounds are in [Settings].
type Config struct {
	SQLDSN             string        // MCP_SQL_DSN: a secret; "" if unset
	SQLDSNFile         string        // MCP_SQL_DSN_FILE: absolute path of a file that holds one; "" if unset
	SQLConnectTimeout  time.Duration // MCP_SQL_CONNECT_TIMEOUT
	SQLQueryTimeout    time.Duration // MCP_SQL_QUERY_TIMEOUT
	SQLPoolMaxSize     int           // MCP_SQL_POOL_MAX_SIZE
	SQLApplicationName string        // MCP_SQL_APPLICATION_NAME
	SQLSearchPath      []string      // MCP_SQL_SEARCH_PATH: schemas, in order
	SQLPooler          bool          // MCP_SQL_POOLER: true for transaction, false for none
	SQLMaxResultBytes  int           // MCP_SQL_MAX_RESULT_BYTES
	SQLMaxCost         int           // MCP_SQL_MAX_COST: planner units; 0 is no bound
	SQLRecursive       bool          // MCP_SQL_RECURSIVE
	SQLFunctions       []string      // MCP_SQL_ALLOW_FUNCTIONS
	SQLTypes           []string      // MCP_SQL_ALLOW_TYPES
	SQLRelations       []string      // MCP_SQL_ALLOW_RELATIONS: empty is all that the role may read
	SQLPlaintext       []string      // MCP_SQL_ALLOW_PLAINTEXT: hosts
	SQLUnsafeRole      bool          // MCP_SQL_ALLOW_UNSAFE_ROLE
	SafeDataDir        string        // MCP_SAFE_DATA_DIR: absolute path of a directory as it was written; "" if unset
	MetricsEnabled     bool          // MCP_METRICS_ENABLED
	MetricsCPUSample   time.Duration // MCP_METRICS_CPU_SAMPLE_SECONDS
	MetricsDiskPath    string        // MCP_METRICS_DISK_PATH: absolute path; whether it exists is decided by its user
	MaxConcurrentTools int           // MCP_MAX_CONCURRENT_TOOLS: calls that run at once
	MaxWaitingCalls    int           // MCP_MAX_WAITING_CALLS: calls that may wait for a slot; one more is refused BUSY
	ToolAcquireTimeout time.Duration // MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS: 0 rejects immediately
	ToolTimeout        time.Duration // MCP_TOOL_TIMEOUT_SECONDS
	MaxArgumentDepth   int           // MCP_MAX_ARGUMENT_DEPTH: levels of nesting
	MaxArgumentItems   int           // MCP_MAX_ARGUMENT_ITEMS: items in one container
	MaxReplyBytes      int           // MCP_MAX_REPLY_BYTES: bytes of answers being made or waiting to be written
	ErrorEcho          bool          // MCP_ERROR_ECHO: true for bounded, false for off
	ServerName         string        // MCP_SERVER_NAME
	ServerTitle        string        // MCP_SERVER_TITLE: "" means no title
	ServerInstructions string        // MCP_SERVER_INSTRUCTIONS: "" means the built-in text
	LogLevel           slog.Level    // MCP_SERVER_SUITE_LOG_LEVEL
	Landlock           Insistence    // MCP_LANDLOCK
	LandlockMinABI     int           // MCP_LANDLOCK_MIN_ABI
	Seccomp            Insistence    // MCP_SECCOMP: Require or Off
	AllowPrivileged    bool          // MCP_ALLOW_PRIVILEGED
}

// Insistence says whether the server may do without a layer of its hardening.
type Insistence string

// The insistences, as they are written.
const (
	Require     Insistence = "require"
	IfAvailable Insistence = "if-available"
	Off         Insistence = "off"
)

// LevelCritical is the level of the Python name CRITICAL, which slog does not have: above [slog.LevelError].
const LevelCritical = slog.LevelError + 4

// testPrefix begins the names by which tests steer their builds.
const testPrefix = "MCP_TEST_"

// maxUnknown and maxUnknownBytes bound what Unknown gives: names are somebody else's.
const (
	maxUnknown      = 16
	maxUnknownBytes = 64
)

// Unknown gives the names in an environment that begin as settings do and are none, in printable ASCII. They are not faults:
// other programs use such names, too.
func Unknown(environ []string) (names []string) {
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "MCP_") || strings.HasPrefix(name, testPrefix) || isSetting(name) {
			continue
		}
		shown := strconv.QuoteToASCII(name[:min(len(name), maxUnknownBytes)])
		if names = append(names, shown[1:len(shown)-1]); len(names) == maxUnknown {
			break
		}
	}
	return names
}

// Fault is one thing to correct before the server can start.
type Fault struct {
	Name string // the variable as it was found; what is not printable ASCII in it is escaped
	Text string // one line of printable ASCII that begins with Name and says what is wrong and what would be right
}

// Parse reads the settings from an environment in the form of [os.Environ]: entries "NAME=value" (without "=", the
// value is empty). It gives either the checked Config, or the zero Config and every fault, one per variable, sorted by
// name. The only thing it asks the system is whether MCP_SAFE_DATA_DIR is a directory.
func Parse(environ []string) (Config, []Fault) {
	given := map[string][]string{} // ours, by name
	meant := map[string]string{}   // the setting that a misspelt name is near to
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if isSetting(name) {
			given[name] = append(given[name], value)
		} else if near := nearest(name); near != "" {
			meant[name] = near
		}
	}
	var c Config
	var faults []Fault
	for _, row := range table {
		if wrong := row.take(&c, given[row.Name]); wrong != "" {
			right := "; allowed: " + row.Constraint + "; for example: " + row.example()
			faults = append(faults, Fault{row.Name, row.Name + ": " + wrong + right})
		}
	}
	if c.SQLDSN != "" && c.SQLDSNFile != "" {
		faults = append(faults, Fault{dsnFile, dsnFile + ": is set beside MCP_SQL_DSN; keep one"})
	}
	for name, near := range meant {
		shown := strconv.QuoteToASCII(name)
		shown = shown[1 : len(shown)-1]
		faults = append(faults, Fault{shown, shown + ": not a setting; did you mean " + near + "?"})
	}
	if faults != nil {
		slices.SortFunc(faults, func(a, b Fault) int { return strings.Compare(a.Name, b.Name) })
		return Config{}, faults
	}
	return c, nil
}

// SQL says whether a database is to be read.
func (c Config) SQL() bool { return c.SQLDSN != "" || c.SQLDSNFile != "" }

// take puts the value or the default into c. It returns what is wrong, or "".
func (r row) take(c *Config, values []string) (wrong string) {
	value := r.Default
	switch {
	case len(values) > 1:
		return "is set more than once; keep one"
	case len(values) == 1 && values[0] == "" && r.Default != "":
		return "is empty; unset it to get " + r.Default
	case len(values) == 1:
		value = values[0]
	}
	if value == "" {
		return "" // unset: the zero value says so
	}
	return r.read(c, value)
}

func isSetting(name string) bool {
	return slices.ContainsFunc(table, func(r row) bool { return r.Name == name })
}

const (
	prefix   = "MCP_"
	maxEdits = 2
)

// nearest returns the setting that name, which is not one, was probably meant to be, or "". The first in the table
// wins a tie.
func nearest(name string) string {
	name = upper(name)
	if !strings.HasPrefix(name, prefix) {
		return ""
	}
	found, least := "", maxEdits+1
	for _, row := range table {
		if max(len(name), len(row.Name))-min(len(name), len(row.Name)) > maxEdits {
			continue // bounds the work: a name may be 128 KiB long
		}
		if n := edits(name, row.Name); n < least {
			found, least = row.Name, n
		}
	}
	return found
}

// edits counts the bytes to insert, delete, replace or swap with their neighbour to turn a into b: Damerau-Levenshtein
// in the form of the optimal string alignment, where no swapped pair is edited again.
func edits(a, b string) int {
	older, old, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		older, old, row = old, row, older
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := old[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, old[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

// upper changes ASCII letters only: under Unicode folding the long s (U+017F) would be an s.
func upper(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}
