package config_test

import (
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-server-suite/pkg/config"
)

// defaults is written out once more, so that a default cannot change without this line changing.
var defaults = config.Config{
	SQLConnectTimeout:  5 * time.Second,
	SQLQueryTimeout:    10 * time.Second,
	SQLPoolMaxSize:     4,
	SQLApplicationName: "mcp-server-suite",
	SQLSearchPath:      []string{"public"},
	SQLMaxResultBytes:  100000,
	SQLRecursive:       true,
	MetricsEnabled:     true,
	MetricsCPUSample:   100 * time.Millisecond,
	MetricsDiskPath:    "/",
	MaxConcurrentTools: 16,
	MaxWaitingCalls:    256,
	ToolAcquireTimeout: 5 * time.Second,
	ToolTimeout:        30 * time.Second,
	MaxArgumentDepth:   8,
	MaxArgumentItems:   1000,
	MaxReplyBytes:      67108864,
	ServerName:         "mcp-server-suite",
	LogLevel:           slog.LevelWarn,
	Landlock:           config.Require,
	LandlockMinABI:     1,
	Seccomp:            config.Require,
}

func same(a, b config.Config) bool { return reflect.DeepEqual(a, b) }

// accepts parses one environment that must have no fault.
func accepts(t *testing.T, environ ...string) config.Config {
	t.Helper()
	c, faults := config.Parse(environ)
	if faults != nil {
		t.Fatalf("%.100q: unexpected faults %v", environ, faults)
	}
	return c
}

// refuses parses one environment that must have exactly one fault and returns the fault's text.
func refuses(t *testing.T, name string, environ ...string) string {
	t.Helper()
	c, faults := config.Parse(environ)
	if len(faults) != 1 || faults[0].Name != name {
		t.Fatalf("%.100q: got faults %v, want one for %s", environ, faults, name)
	}
	if !same(c, config.Config{}) {
		t.Fatalf("%.100q: a Config that could be used came with the fault", environ)
	}
	checkText(t, faults[0])
	return faults[0].Text
}

// checkText holds for every fault: one line of printable ASCII, bounded, that begins with the name.
func checkText(t *testing.T, f config.Fault) {
	t.Helper()
	if !strings.HasPrefix(f.Text, f.Name+": ") {
		t.Errorf("fault %q does not begin with its name %q", f.Text, f.Name)
	}
	if len(f.Text) > 500 {
		t.Errorf("fault of %d bytes: %q", len(f.Text), f.Text)
	}
	for _, c := range []byte(f.Text) {
		if c < ' ' || c > '~' {
			t.Errorf("fault %q holds byte %#x", f.Text, c)
		}
	}
}

func setting(t *testing.T, name string) config.Setting {
	t.Helper()
	for _, s := range config.Settings() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no setting %s", name)
	return config.Setting{}
}

func TestEmptyEnvironmentGivesTheDefaults(t *testing.T) {
	if c := accepts(t); !same(c, defaults) {
		t.Errorf("got %+v, want %+v", c, defaults)
	}
}

func TestEveryDocumentedDefaultWrittenOutGivesTheDefaults(t *testing.T) {
	var all []string
	for _, s := range config.Settings() {
		if c := accepts(t, s.Name+"="+s.Default); !same(c, defaults) {
			t.Errorf("%s=%s: got %+v", s.Name, s.Default, c)
		}
		all = append(all, s.Name+"="+s.Default)
	}
	if c := accepts(t, all...); !same(c, defaults) {
		t.Errorf("all together: got %+v", c)
	}
}

func TestEveryDocumentedExampleIsAccepted(t *testing.T) {
	for _, s := range config.Settings() {
		if (s.Default == "") != (s.Example != "") {
			t.Errorf("%s: default %q, example %q: an example belongs where there is no default", s.Name, s.Default, s.Example)
		}
		if s.Example == "" || s.Name == "MCP_SAFE_DATA_DIR" { // its example does not exist on every machine
			continue
		}
		if c := accepts(t, s.Name+"="+s.Example); same(c, defaults) {
			t.Errorf("%s=%s changed nothing", s.Name, s.Example)
		}
	}
}

// TestConstraintsAreThoseOfSeed000 pins the bounds: text and parser come from the same numbers and would move together.
func TestConstraintsAreThoseOfSeed000(t *testing.T) {
	want := map[string]string{
		"MCP_SQL_DSN":                      "postgres:// or postgresql://",
		"MCP_SQL_DSN_FILE":                 "absolute path of a readable file", // ours
		"MCP_SQL_CONNECT_TIMEOUT":          "> 0, <= 60 s",
		"MCP_SQL_QUERY_TIMEOUT":            "> 0, <= 300 s",
		"MCP_SQL_POOL_MAX_SIZE":            "1..32",
		"MCP_SQL_APPLICATION_NAME":         "1..63 characters of A-Z a-z 0-9 . _ -",
		"MCP_SQL_SEARCH_PATH":              "list of schema names",                           // ours
		"MCP_SQL_POOLER":                   "none, transaction",                              // ours
		"MCP_SQL_MAX_RESULT_BYTES":         "1000..1048576",                                  // ours
		"MCP_SQL_MAX_COST":                 "0..1000000000",                                  // ours
		"MCP_SQL_RECURSIVE":                "true, false, 1, 0, yes, no, on, off",            // ours
		"MCP_SQL_ALLOW_FUNCTIONS":          "list of schema.function",                        // ours
		"MCP_SQL_ALLOW_TYPES":              "list of schema.type or type",                    // ours
		"MCP_SQL_ALLOW_RELATIONS":          "list of schema.*, schema.table(column, column)", // ours
		"MCP_SQL_ALLOW_PLAINTEXT":          "list of host names or addresses",                // ours
		"MCP_SQL_ALLOW_UNSAFE_ROLE":        "true, false, 1, 0, yes, no, on, off",            // ours
		"MCP_SAFE_DATA_DIR":                "absolute, existing directory",
		"MCP_METRICS_ENABLED":              "true, false, 1, 0, yes, no, on, off",
		"MCP_METRICS_CPU_SAMPLE_SECONDS":   "> 0, <= 2 s",
		"MCP_METRICS_DISK_PATH":            "absolute path",
		"MCP_MAX_CONCURRENT_TOOLS":         "1..256",
		"MCP_MAX_WAITING_CALLS":            "0..4096", // ours
		"MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS": "0..60 s",
		"MCP_TOOL_TIMEOUT_SECONDS":         "> 0, <= 600 s",
		"MCP_MAX_ARGUMENT_DEPTH":           "1..64",
		"MCP_MAX_ARGUMENT_ITEMS":           "1..100000",
		"MCP_MAX_REPLY_BYTES":              "16777216..1073741824",                       // ours
		"MCP_ERROR_ECHO":                   "off, bounded",                               // ours
		"MCP_SERVER_NAME":                  "1..64 characters of A-Z a-z 0-9 . _ -",      // ours
		"MCP_SERVER_TITLE":                 "0..128 printable characters",                // ours
		"MCP_SERVER_INSTRUCTIONS":          "0..4096 printable characters, newline, tab", // ours
		"MCP_SERVER_SUITE_LOG_LEVEL":       "DEBUG, INFO, WARNING, WARN, ERROR, CRITICAL",
		"MCP_LANDLOCK":                     "require, if-available, off",          // ours
		"MCP_LANDLOCK_MIN_ABI":             "1..11",                               // ours
		"MCP_SECCOMP":                      "require, off",                        // ours
		"MCP_ALLOW_PRIVILEGED":             "true, false, 1, 0, yes, no, on, off", // ours
	}
	for _, s := range config.Settings() {
		if s.Constraint != want[s.Name] {
			t.Errorf("%s: got %q, want %q", s.Name, s.Constraint, want[s.Name])
		}
	}
}

var (
	fromTo     = regexp.MustCompile(`^(\d+)\.\.(\d+)( s)?$`)
	aboveZero  = regexp.MustCompile(`^> 0, <= (\d+) s$`)
	characters = regexp.MustCompile(`^([01])\.\.(\d+) (characters of|printable)`)
	list       = regexp.MustCompile(`^[\w-]+(, [\w-]+)+$`)
)

// TestEveryDocumentedConstraintHoldsOnBothSides takes the bounds out of the text that operators read, never out of the
// parser: a row whose text and parser disagree fails, and so does a row whose text is in none of the known forms.
func TestEveryDocumentedConstraintHoldsOnBothSides(t *testing.T) {
	const nano = "0.000000001"
	for _, s := range config.Settings() {
		var right, wrong []string
		if m := fromTo.FindStringSubmatch(s.Constraint); m != nil {
			right = []string{m[1], m[2], "0" + m[2]}
			wrong = []string{plus(m[1], -1), plus(m[2], 1), "-" + m[2]}
			if m[3] != "" {
				right = append(right, nano, m[2]+".000000000")
				wrong = append(wrong, "-"+nano, m[2]+".000000001")
			}
		} else if m := aboveZero.FindStringSubmatch(s.Constraint); m != nil {
			right = []string{nano, m[1], m[1] + ".0"}
			wrong = []string{"0", "0.0", "-0", "-" + nano, m[1] + ".000000001", plus(m[1], 1)}
		} else if m := characters.FindStringSubmatch(s.Constraint); m != nil {
			var most int
			fmt.Sscan(m[2], &most)
			right = []string{"a", strings.Repeat("a", most)}
			wrong = []string{strings.Repeat("a", most+1)}
			if m[1] == "1" {
				wrong = append(wrong, "")
			}
		} else if list.MatchString(s.Constraint) {
			for _, word := range strings.Split(s.Constraint, ", ") {
				right = append(right, word, strings.ToUpper(word), strings.ToLower(word))
				wrong = append(wrong, word+" ", " "+word, word+word)
			}
		} else if strings.HasPrefix(s.Constraint, "absolute") {
			right, wrong = []string{t.TempDir()}, []string{"tmp", "./tmp", "../tmp", " /tmp"}
		} else if strings.HasPrefix(s.Constraint, "list of ") {
			right = []string{"a", "a,b", " a , b ", "a.b(c, d), e.*", "\"A b\""}
			wrong = []string{",", "a,", "a,,b", " ", "a(b", "a)b", "a\n", "\xff", strings.Repeat("a,", 1000) + "a", strings.Repeat("a", 64<<10+1)}
		} else if strings.HasPrefix(s.Constraint, "postgres://") {
			right = []string{"postgres://", "postgresql://u:p@h/d"}
			wrong = []string{"postgres:/", "Postgres://", " postgres://", "host=x", "mysql://u:p@h/d"}
		} else {
			t.Errorf("%s: nothing tests the constraint %q", s.Name, s.Constraint)
		}
		for _, value := range right {
			accepts(t, s.Name+"="+value)
		}
		for _, value := range wrong {
			text := refuses(t, s.Name, s.Name+"="+value)
			if !strings.Contains(text, s.Constraint) {
				t.Errorf("fault %q does not name the constraint %q", text, s.Constraint)
			}
			if want := "for example: " + s.Default + s.Example; !strings.HasSuffix(text, want) {
				t.Errorf("fault %q does not end with %q", text, want)
			}
		}
	}
}

func plus(number string, n int64) string {
	i, _ := new(big.Int).SetString(number, 10) // the regular expression has checked it
	return i.Add(i, big.NewInt(n)).String()
}

func TestEveryVariableReachesItsField(t *testing.T) {
	dir := t.TempDir()
	got := accepts(t, "MCP_SQL_DSN=postgres://u:p@h/d", "MCP_SQL_CONNECT_TIMEOUT=60", "MCP_SQL_QUERY_TIMEOUT=0.5",
		"MCP_SQL_POOL_MAX_SIZE=32", "MCP_SQL_APPLICATION_NAME=agent-1", "MCP_SQL_SEARCH_PATH=app, reporting",
		"MCP_SQL_POOLER=transaction", "MCP_SQL_MAX_RESULT_BYTES=1000", "MCP_SQL_MAX_COST=5", "MCP_SQL_RECURSIVE=no",
		"MCP_SQL_ALLOW_FUNCTIONS=a.f,b.g", "MCP_SQL_ALLOW_TYPES=citext", "MCP_SQL_ALLOW_RELATIONS=a.*, b.t(c, d)",
		"MCP_SQL_ALLOW_PLAINTEXT=db.internal", "MCP_SQL_ALLOW_UNSAFE_ROLE=on", "MCP_SAFE_DATA_DIR="+dir, "MCP_METRICS_ENABLED=No", "MCP_METRICS_CPU_SAMPLE_SECONDS=1.5",
		"MCP_METRICS_DISK_PATH=/no/such/../place", "MCP_MAX_CONCURRENT_TOOLS=1", "MCP_MAX_WAITING_CALLS=0",
		"MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS=0", "MCP_TOOL_TIMEOUT_SECONDS=0.000000001", "MCP_MAX_ARGUMENT_DEPTH=64",
		"MCP_MAX_ARGUMENT_ITEMS=100000", "MCP_MAX_REPLY_BYTES=16777216", "MCP_ERROR_ECHO=bounded",
		"MCP_SERVER_NAME=A-z_0.9", "MCP_SERVER_TITLE=Größe = 売上", "MCP_SERVER_INSTRUCTIONS=one\n\ttwo",
		"MCP_SERVER_SUITE_LOG_LEVEL=debug", "MCP_LANDLOCK=If-Available", "MCP_LANDLOCK_MIN_ABI=11", "MCP_SECCOMP=OFF",
		"MCP_ALLOW_PRIVILEGED=1", "HOME=/root", "PATH", "", "=C:=x")
	want := config.Config{
		SQLDSN: "postgres://u:p@h/d", SQLConnectTimeout: time.Minute, SQLQueryTimeout: 500 * time.Millisecond,
		SQLPoolMaxSize: 32, SQLApplicationName: "agent-1", SQLSearchPath: []string{"app", "reporting"}, SQLPooler: true,
		SQLMaxResultBytes: 1000, SQLMaxCost: 5, SQLFunctions: []string{"a.f", "b.g"}, SQLTypes: []string{"citext"},
		SQLRelations: []string{"a.*", "b.t(c, d)"}, SQLPlaintext: []string{"db.internal"}, SQLUnsafeRole: true,
		SafeDataDir: dir, MetricsCPUSample: 1500 * time.Millisecond, MetricsDiskPath: "/no/such/../place",
		MaxConcurrentTools: 1, ToolTimeout: 1, MaxArgumentDepth: 64, MaxArgumentItems: 100000, MaxReplyBytes: 16777216,
		ErrorEcho: true, ServerName: "A-z_0.9", ServerTitle: "Größe = 売上", ServerInstructions: "one\n\ttwo",
		LogLevel: slog.LevelDebug, Landlock: config.IfAvailable, LandlockMinABI: 11, Seccomp: config.Off,
		AllowPrivileged: true,
	}
	if !same(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestSecondsAreExact(t *testing.T) {
	for _, c := range []struct {
		value string
		want  time.Duration
	}{
		{"0", 0},
		{"-0", 0},
		{"-0.000", 0},
		{"0.1", 100 * time.Millisecond},
		{"0.0005", 500 * time.Microsecond},
		{"0.3", 300 * time.Millisecond}, // 0.3 has no exact float64
		{"1.999999999", 2*time.Second - 1},
		{"007.5", 7500 * time.Millisecond},
		{"60", time.Minute},
	} {
		if got := accepts(t, "MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS="+c.value).ToolAcquireTimeout; got != c.want {
			t.Errorf("%s: got %v, want %v", c.value, got, c.want)
		}
	}
}

func TestLevelNamesArePythons(t *testing.T) {
	for name, want := range map[string]slog.Level{
		"DEBUG": slog.LevelDebug, "info": slog.LevelInfo, "Warning": slog.LevelWarn, "WARN": slog.LevelWarn,
		"error": slog.LevelError, "CRITICAL": config.LevelCritical,
	} {
		if got := accepts(t, "MCP_SERVER_SUITE_LOG_LEVEL="+name).LogLevel; got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	if config.LevelCritical <= slog.LevelError {
		t.Error("CRITICAL is not above ERROR")
	}
}

func TestBooleansAreEightWords(t *testing.T) {
	for value, want := range map[string]bool{
		"true": true, "1": true, "YES": true, "On": true, "false": false, "0": false, "nO": false, "off": false,
	} {
		if got := accepts(t, "MCP_METRICS_ENABLED="+value).MetricsEnabled; got != want {
			t.Errorf("%s: got %v", value, got)
		}
	}
}

type wrongValue struct{ name, value, says, why string }

// wrongNumbers are wrong for every numeric setting (case config-014).
var wrongNumbers = []wrongValue{
	{"empty", "", "is empty", "an unset variable is how to ask for the default"},
	{"minus one", "-1", "out of bounds", "no limit is negative, and -1 does not mean unlimited"},
	{"exponent", "1e9", "plain digits", "reads as a number in other programs"},
	{"unit", "10s", "plain digits", "Go durations have units, these settings do not"},
	{"space after", "10 ", "plain digits", "a shell or a YAML file left it there; what else did it do?"},
	{"space before", " 10", "plain digits", "the same"},
	{"newline after", "10\n", "plain digits", "from a file that was read into a variable"},
	{"plus", "+10", "plain digits", "one way to write a number"},
	{"two signs", "--1", "plain digits", "only one minus is taken off"},
	{"minus alone", "-", "plain digits", "a sign is not a number"},
	{"underscore", "1_0", "plain digits", "Go and Python literals, not settings"},
	{"thousands", "1,000", "plain digits", "the seed's own table writes 100,000"},
	{"hexadecimal", "0x10", "plain digits", "base ten only"},
	{"infinite", "inf", "plain digits", "float parsers accept it"},
	{"infinity with sign", "-Infinity", "plain digits", "the same"},
	{"not a number", "nan", "plain digits", "every comparison with it is false"},
	{"Arabic digits", "١٠", "plain digits", "unicode.IsDigit accepts them"},
	{"full-width digit", "５", "plain digits", "the same"},
	{"dot alone", ".", "plain digits", "no digit at all"},
	{"no digit before the dot", ".5", "plain digits", "one way to write a number"},
	{"no digit after the dot", "5.", "plain digits", "the same"},
	{"two dots", "1.2.3", "plain digits", "a version, an address"},
	{"comma", "0,5", "plain digits", "German decimals"},
	{"above int32", "4294967296", "out of bounds", "would be 0 in 32 bits"},
	{"2^64+1", "18446744073709551617", "out of bounds", "would be 1 in 64 bits"},
	{"ns overflow", "9223372037", "out of bounds", "times 1e9 is more than an int64"},
	{"long", strings.Repeat("9", 5000), "out of bounds", "bounded in the text"},
	{"NUL", "10\x00", "plain digits", "cannot come from a process environment, can come from a caller"},
	{"not UTF-8", "\xff\xfe", "plain digits", "escaped in the text"},
}

func TestWrongNumbersAreRefusedForEveryNumericSetting(t *testing.T) {
	for _, s := range config.Settings() {
		if !fromTo.MatchString(s.Constraint) && !aboveZero.MatchString(s.Constraint) {
			continue
		}
		for _, c := range wrongNumbers {
			if text := refuses(t, s.Name, s.Name+"="+c.value); !strings.Contains(text, c.says) {
				t.Errorf("%s, %s (%s): fault %q does not say %q", s.Name, c.name, c.why, text, c.says)
			}
		}
	}
}

func TestWholeNumbersHaveNoDecimals(t *testing.T) {
	text := refuses(t, "MCP_MAX_ARGUMENT_DEPTH", "MCP_MAX_ARGUMENT_DEPTH=8.0")
	if !strings.Contains(text, `"8.0" is not a whole number`) {
		t.Error(text)
	}
}

func TestMoreThanNineDecimalsAreRefusedInsteadOfLost(t *testing.T) {
	for _, value := range []string{"0.0000000001", "1.0000000000"} {
		text := refuses(t, "MCP_TOOL_TIMEOUT_SECONDS", "MCP_TOOL_TIMEOUT_SECONDS="+value)
		if !strings.Contains(text, "more than 9 decimals") {
			t.Error(text)
		}
	}
}

func TestEmptyIsUnsetWhereThereIsNoDefaultAndAFaultElsewhere(t *testing.T) {
	for _, s := range config.Settings() {
		if s.Default == "" {
			if c := accepts(t, s.Name+"="); !same(c, defaults) {
				t.Errorf("%s: got %+v", s.Name, c)
			}
			continue
		}
		for _, entry := range []string{s.Name + "=", s.Name} {
			if text := refuses(t, s.Name, entry); !strings.Contains(text, "is empty; unset it to get "+s.Default) {
				t.Error(text)
			}
		}
	}
}

var wrongTexts = []struct{ name, variable, value, says, why string }{
	{"space", "MCP_SERVER_NAME", "my server", "character 3 (U+0020)", "the set has no space"},
	{"slash", "MCP_SERVER_NAME", "a/b", "character 2 (U+002F)", "looks like a path"},
	{"umlaut", "MCP_SERVER_NAME", "größe", "character 3 (U+00F6)", "ASCII only"},
	{"newline", "MCP_SERVER_TITLE", "a\nb", "character 2 (U+000A)", "a title is one line"},
	{"tab", "MCP_SERVER_TITLE", "a\tb", "character 2 (U+0009)", "the same"},
	{"escape", "MCP_SERVER_TITLE", "\x1b[31m", "character 1 (U+001B)", "terminal control"},
	{"C1 control", "MCP_SERVER_TITLE", "a\u0085", "character 2 (U+0085)", "a newline for some programs"},
	{"right-to-left override", "MCP_SERVER_TITLE", "a\u202eb", "character 2 (U+202E)", "Trojan Source, CVE-2021-42574"},
	{"isolate", "MCP_SERVER_TITLE", "\u2066", "character 1 (U+2066)", "the same"},
	{"zero-width space", "MCP_SERVER_TITLE", "a\u200b", "character 2 (U+200B)", "invisible"},
	{"byte order mark", "MCP_SERVER_TITLE", "\ufeffa", "character 1 (U+FEFF)", "invisible"},
	{"tag letter", "MCP_SERVER_TITLE", "a\U000e0041", "character 2 (U+E0041)", "text only a model reads"},
	{"variation selector", "MCP_SERVER_TITLE", "a\ufe0f", "character 2 (U+FE0F)", "bytes can be hidden in them"},
	{"variation selector 17", "MCP_SERVER_TITLE", "a\U000e0100", "character 2 (U+E0100)", "the same"},
	{"Hangul filler", "MCP_SERVER_TITLE", "\u3164", "character 1 (U+3164)", "a letter without a shape"},
	{"joiner", "MCP_SERVER_TITLE", "a\u034f", "character 2 (U+034F)", "a mark without a shape"},
	{"no-break space", "MCP_SERVER_TITLE", "a\u00a0b", "character 2 (U+00A0)", "only one kind of space"},
	{"private use", "MCP_SERVER_TITLE", "\ue000", "character 1 (U+E000)", "means what the font wants"},
	{"not UTF-8", "MCP_SERVER_TITLE", "a\xff", "not valid UTF-8", "goes into JSON"},
	{"129 characters of three bytes", "MCP_SERVER_TITLE", strings.Repeat("売", 129), "129 characters", "characters, not bytes"},
	{"carriage return", "MCP_SERVER_INSTRUCTIONS", "a\r\nb", "character 2 (U+000D)", "newline and tab only"},
	{"line separator", "MCP_SERVER_INSTRUCTIONS", "a\u2028b", "character 2 (U+2028)", "the same"},
	{"zero-width joiner", "MCP_SERVER_INSTRUCTIONS", "a\u200d", "character 2 (U+200D)", "invisible"},
	{"surrogate", "MCP_SERVER_INSTRUCTIONS", "\xed\xa0\x80", "not valid UTF-8", "half a UTF-16 character"},
	{"long s", "MCP_METRICS_ENABLED", "fal\u017fe", "not one of the words", "folds to s in Unicode, not here"},
	{"letter t", "MCP_METRICS_ENABLED", "t", "not one of the words", "strconv.ParseBool would take it"},
	{"on", "MCP_ERROR_ECHO", "on", "not one of the words", "off has another opposite here"},
	{"number", "MCP_SERVER_SUITE_LOG_LEVEL", "30", "not one of the words", "Python's numbers are not names"},
	{"slog offset", "MCP_SERVER_SUITE_LOG_LEVEL", "ERROR+4", "not one of the words", "slog would take it"},
	{"notset", "MCP_SERVER_SUITE_LOG_LEVEL", "NOTSET", "not one of the words", "means the parent's level in Python"},
	{"relative", "MCP_METRICS_DISK_PATH", "data", "not an absolute path", "depends on the directory of the start"},
	{"tilde", "MCP_SAFE_DATA_DIR", "~/data", "not an absolute path", "the shell did not expand it"},
	{"missing", "MCP_SAFE_DATA_DIR", "/no/such/directory", "cannot be used: no such file or directory", "a typo"},
	{"below a file", "MCP_SAFE_DATA_DIR", "/dev/null/x", "cannot be used: not a directory", "ENOTDIR from stat"},
	{"device", "MCP_SAFE_DATA_DIR", "/dev/null", "is not a directory;", "exists, and is not one"},
	{"NUL", "MCP_SAFE_DATA_DIR", "/tmp\x00", "holds a control character (U+0000)", "never reaches the kernel"},
	{"too long", "MCP_SAFE_DATA_DIR", "/" + strings.Repeat("a", 300), "cannot be used: file name too long", "ENAMETOOLONG"},
}

func TestWrongTextsAreRefusedAndTheFaultSaysWhere(t *testing.T) {
	for _, c := range wrongTexts {
		t.Run(c.variable+"/"+c.name, func(t *testing.T) {
			if text := refuses(t, c.variable, c.variable+"="+c.value); !strings.Contains(text, c.says) {
				t.Errorf("(%s) fault %q does not say %q", c.why, text, c.says)
			}
		})
	}
}

func TestDataDirectoryMayBeASymlinkAndIsKeptAsWritten(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, link + "/", dir + "/./link/.."} {
		if got := accepts(t, "MCP_SAFE_DATA_DIR="+path).SafeDataDir; got != path {
			t.Errorf("got %q, want %q", got, path)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if text := refuses(t, "MCP_SAFE_DATA_DIR", "MCP_SAFE_DATA_DIR="+file); !strings.Contains(text, "is not a directory") {
		t.Error(text)
	}
}

func TestFaultsNeverShowPathsAndTexts(t *testing.T) {
	const secret = "hunter2hunter2"
	for _, name := range []string{"MCP_SAFE_DATA_DIR", "MCP_METRICS_DISK_PATH", "MCP_SERVER_NAME", "MCP_SERVER_TITLE", "MCP_SERVER_INSTRUCTIONS"} {
		values := []string{secret + "\x01", strings.Repeat(secret, 400), secret + "\xff"}
		if name == "MCP_SAFE_DATA_DIR" {
			values = append(values, "/"+secret, "/dev/null/"+secret)
		}
		for _, value := range values {
			if text := refuses(t, name, name+"="+value); strings.Contains(text, secret) {
				t.Errorf("fault shows the value: %q", text)
			}
		}
	}
}

func TestFaultsShowAtMost32BytesOfNumbersAndWordsEscaped(t *testing.T) {
	text := refuses(t, "MCP_TOOL_TIMEOUT_SECONDS", "MCP_TOOL_TIMEOUT_SECONDS="+strings.Repeat("7", 33))
	if want := `: "` + strings.Repeat("7", 32) + `"... is out of bounds;`; !strings.Contains(text, want) {
		t.Errorf("got %q, want %q in it", text, want)
	}
	text = refuses(t, "MCP_ERROR_ECHO", "MCP_ERROR_ECHO=\x1b[2J\"\n\u202eé\xff")
	if want := `: "\x1b[2J\"\n\u202e\u00e9\xff" is not one of the words; allowed: off, bounded; for example: off`; !strings.HasSuffix(text, want) {
		t.Errorf("got %q, want %q at its end", text, want)
	}
}

// misspelt are names that must stop the start, with the setting that was meant.
var misspelt = []struct{ name, found, meant, why string }{
	{"letter missing", "MCP_TOOL_TIMEOUT_SECOND", "MCP_TOOL_TIMEOUT_SECONDS", "the likeliest one"},
	{"letter more", "MCP_SAFE_DATA_DIRS", "MCP_SAFE_DATA_DIR", "plural"},
	{"letter wrong", "MCP_MAX_ARGUMENT_DEPTX", "MCP_MAX_ARGUMENT_DEPTH", "neighbouring key"},
	{"letters swapped", "MCP_SAFE_DATA_DRI", "MCP_SAFE_DATA_DIR", "one edit, not two"},
	{"two pairs swapped", "MCP_ASFE_DATA_DRI", "MCP_SAFE_DATA_DIR", "two edits: without swaps it would be four"},
	{"two letters missing", "MCP_METRICS_ENABL", "MCP_METRICS_ENABLED", "two edits"},
	{"two letters more", "MCP_METRICS_ENABLEDXX", "MCP_METRICS_ENABLED", "two edits"},
	{"one pair swapped, one letter more", "MCP_SERVER_TILTES", "MCP_SERVER_TITLE", "two edits of two kinds"},
	{"underscore missing", "MCP_SAFE_DATADIR", "MCP_SAFE_DATA_DIR", "compounds"},
	{"hyphens", "MCP_ERROR-ECHO", "MCP_ERROR_ECHO", "from a flag"},
	{"singular", "MCP_MAX_CONCURRENT_TOOL", "MCP_MAX_CONCURRENT_TOOLS", "singular"},
	{"lower case", "mcp_safe_data_dir", "MCP_SAFE_DATA_DIR", "Python's pydantic settings ignore the case"},
	{"mixed case", "Mcp_Safe_Data_Dir", "MCP_SAFE_DATA_DIR", "the same"},
	{"lower case, letter missing", "mcp_tool_timeout_second", "MCP_TOOL_TIMEOUT_SECONDS", "both"},
	{"space at the end", "MCP_SERVER_NAME ", "MCP_SERVER_NAME", "a file of settings with NAME = value"},
	{"empty name part", "MCP__SERVER_NAME", "MCP_SERVER_NAME", "nested settings of pydantic"},
	{"between two", "MCP_SERVER_TIME", "MCP_SERVER_NAME", "two edits from NAME and from TITLE: the first in the table"},
	{"level", "MCP_SERVER_SUIT_LOG_LEVEL", "MCP_SERVER_SUITE_LOG_LEVEL", "one edit"},
}

func TestMisspeltNamesAreFaultsThatNameTheSetting(t *testing.T) {
	for _, c := range misspelt {
		want := c.found + ": not a setting; did you mean " + c.meant + "?"
		if got := refuses(t, c.found, c.found+"=5"); got != want {
			t.Errorf("%s (%s): got %q, want %q", c.name, c.why, got, want)
		}
		if text := refuses(t, c.found, c.found+"=a", c.found+"=b"); text != want {
			t.Errorf("%s: twice: %q", c.name, text)
		}
	}
}

func TestEverySettingIsGuardedAgainstOneEditAtEveryPlace(t *testing.T) {
	for _, s := range config.Settings() {
		for i := len("MCP_"); i < len(s.Name); i++ {
			for _, found := range []string{s.Name[:i] + s.Name[i+1:], s.Name[:i] + "Q" + s.Name[i:], s.Name[:i] + "Q" + s.Name[i+1:]} {
				if found == s.Name {
					continue // the Q of ACQUIRE, replaced by itself
				}
				if text := refuses(t, found, found+"="); !strings.Contains(text, s.Name+"?") {
					t.Error(text)
				}
			}
		}
	}
}

func TestNamesOfOtherSoftwarePass(t *testing.T) {
	var environ []string
	for _, name := range []string{
		// Used by MCP clients, SDKs, inspectors and servers in public repositories.
		"MCP_PORT", "MCP_HOST", "MCP_TRANSPORT", "MCP_SERVER_URL", "MCP_TIMEOUT", "MCP_DEBUG", "MCP_LOG_LEVEL",
		"MCP_TOOL_TIMEOUT", "MCP_CONFIG", "MCP_API_KEY", "MCP_SERVER_PORT", "MCP_SERVER_HOST", "MCP_SERVER_ROOT",
		"MCP_SERVER_VERSION", "MCP_SERVER_KEY", "MCP_SERVER_TYPE", "MCP_SERVER_MODE", "MCP_SERVER_PATH", "MCP_SERVER_ID",
		"MCP_SERVER_LOG_LEVEL", "MCP_METRICS_PORT", "MCP_METRICS_TOKEN", "MCP_METRICS_NAMESPACE",
		"MCP_METRICS_RETENTION_HOURS", "MCP_METRICS_BASE_URL", "MCP_MAX_SESSIONS", "MCP_MAX_REQUEST_BYTES",
		"MCP_MAX_WORKERS", "MCP_MAX_TOTAL_TIMEOUT", "MCP_MAX_ATTEMPTS", "MCP_MAX_TOOL_ROUNDS", "MCP_MAX_AGENTS",
		"MCP_MAX_UPLOAD_FILE_DATA_BYTES", "MCP_REQUEST_TIMEOUT", "MCP_RESET_TIMEOUT_ON_PROGRESS", "MCP_PROXY_AUTH_TOKEN",
		"MAX_MCP_OUTPUT_TOKENS", "GITHUB_MCP_SERVER_NAME", "GITHUB_MCP_SERVER_TITLE",
		// Three edits away, or with another beginning.
		"MCP_SAFE_DATA_DIRXXX", "MCP_SAFE_DATA", "TCP_SERVER_NAME", "MPC_SAFE_DATA_DIR", "SAFE_DATA_DIR", "MCP_", "MCP", "",
		"MCP_" + strings.Repeat("A", 1<<17),
	} {
		accepts(t, name+"=x")
		environ = append(environ, name+"=x", strings.ToLower(name)+"=x")
	}
	if c := accepts(t, environ...); !same(c, defaults) {
		t.Errorf("got %+v", c)
	}
}

func TestNamesWithControlCharactersAreEscaped(t *testing.T) {
	for found, shown := range map[string]string{
		"MCP_ERROR_ECHO\n":   `MCP_ERROR_ECHO\n`,
		"MCP_ERROR_\"ECHO\"": `MCP_ERROR_\"ECHO\"`,
		"MCP_ERROR_ECHO\xff": `MCP_ERROR_ECHO\xff`,
		"MCP_ERROR_ECHÖ":     `MCP_ERROR_ECH\u00d6`,
	} {
		refuses(t, shown, found+"=off")
	}
}

func TestAVariableThatIsThereTwiceIsAFault(t *testing.T) {
	for _, s := range config.Settings() {
		for _, values := range [][2]string{{s.Default, s.Default}, {s.Default, "\x00"}, {"\x00", s.Default}, {"", ""}} {
			text := refuses(t, s.Name, s.Name+"="+values[0], "X=1", s.Name+"="+values[1])
			if !strings.Contains(text, "is set more than once; keep one") {
				t.Error(text)
			}
		}
	}
}

const printEnviron = "CONFIG_TEST_PRINT_ENVIRON"

func TestMain(m *testing.M) {
	if os.Getenv(printEnviron) != "" {
		fmt.Print(strings.Join(os.Environ(), "\n"))
		return
	}
	os.Exit(m.Run())
}

// TestGoItselfDropsAllButTheFirstOfTwoEntries shows why doc.go calls the duplicate guard a guard for other sources
// only. If Go stops doing this, that sentence goes.
func TestGoItselfDropsAllButTheFirstOfTwoEntries(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// Not exec.Command: it removes duplicates on its side.
	process, err := os.StartProcess(self, []string{self}, &os.ProcAttr{
		Env:   []string{printEnviron + "=1", "MCP_ERROR_ECHO=off", "MCP_ERROR_ECHO=bounded"},
		Files: []*os.File{nil, w, nil},
	})
	_ = w.Close() // the child has its own
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := process.Wait(); err != nil {
		t.Fatal(err)
	}
	if want := printEnviron + "=1\nMCP_ERROR_ECHO=off"; string(out) != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

// everythingWrong has one fault for each setting and two misspelt names.
func everythingWrong() (environ []string) {
	for _, s := range config.Settings() {
		environ = append(environ, s.Name+"=\x00")
	}
	return append(environ, "mcp_error_echo=off", "MCP_SERVER_NAMES=x", "MCP_SERVER_NAMES=y", "MCP_PORT=1")
}

func TestAllFaultsAreListedAtOnceInTheSameOrder(t *testing.T) {
	environ := everythingWrong()
	c, first := config.Parse(environ)
	if !same(c, config.Config{}) {
		t.Error("a Config that could be used came with faults")
	}
	if want := len(config.Settings()) + 2; len(first) != want {
		t.Errorf("got %d faults, want %d: %v", len(first), want, first)
	}
	checkOrder(t, first)
	for range 20 {
		slices.Reverse(environ)
		if _, again := config.Parse(environ); !slices.Equal(again, first) {
			t.Errorf("got %v, then %v", first, again)
		}
	}
}

func checkOrder(t *testing.T, faults []config.Fault) {
	t.Helper()
	for i, f := range faults {
		checkText(t, f)
		if i > 0 && faults[i-1].Name >= f.Name {
			t.Errorf("%s is listed after %s", f.Name, faults[i-1].Name)
		}
	}
}

func TestSettingsGivesACopy(t *testing.T) {
	config.Settings()[0].Name = "changed"
	if got := config.Settings()[0].Name; got != "MCP_SQL_DSN" {
		t.Errorf("got %s", got)
	}
}

func TestEverySettingHasItsOwnNameAndFullDescription(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range config.Settings() {
		if seen[s.Name] || !regexp.MustCompile(`^MCP(_[A-Z]+)+$`).MatchString(s.Name) {
			t.Errorf("name %q", s.Name)
		}
		seen[s.Name] = true
		if s.Constraint == "" || !strings.HasSuffix(s.Effect, ".") {
			t.Errorf("%s: constraint %q, effect %q", s.Name, s.Constraint, s.Effect)
		}
	}
	if fields := reflect.TypeFor[config.Config]().NumField(); len(seen) != fields {
		t.Errorf("%d settings for %d fields", len(seen), fields)
	}
}

func TestHelpFitsATerminalOf100ColumnsAndShowsEverything(t *testing.T) {
	help := config.Help()
	for line := range strings.Lines(help) {
		if len(line) > 101 || strings.TrimRight(line, " \n")+"\n" != line || strings.Contains(line, "\t") {
			t.Errorf("line %q", line)
		}
	}
	words := strings.Join(strings.Fields(help), " ")
	for _, s := range config.Settings() {
		standard := s.Default
		if standard == "" {
			standard = "unset"
		}
		row := s.Name + " " + standard + " " + s.Constraint + " " + s.Effect
		if !strings.Contains(words, row) {
			t.Errorf("help does not show %q", row)
		}
	}
	for _, c := range []byte(help) {
		if c != '\n' && (c < ' ' || c > '~') {
			t.Fatalf("help holds byte %#x", c)
		}
	}
}

func TestHelpIsAligned(t *testing.T) {
	row := regexp.MustCompile(`(?m)^MCP_.*$`)
	for _, line := range row.FindAllString(config.Help(), -1) {
		s := setting(t, strings.Fields(line)[0])
		if strings.Index(line[32:], s.Constraint)+32 != 52 || line[32:34] != "  " || line[50:52] != "  " {
			t.Errorf("columns are off in %q", line)
		}
	}
}

func TestMarkdownIsOneTableWithARowForEachSetting(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(config.Markdown(), "\n"), "\n")
	settings := config.Settings()
	if len(lines) != 2+len(settings) {
		t.Fatalf("%d lines for %d settings", len(lines), len(settings))
	}
	for _, line := range lines {
		if strings.Count(line, "|") != 5 { // a pipe in a cell would begin a new one
			t.Errorf("line %q", line)
		}
	}
	if want := "| `MCP_TOOL_TIMEOUT_SECONDS` | `30` | > 0, <= 600 s | Per-call execution deadline. |"; !slices.Contains(lines, want) {
		t.Errorf("no line %q", want)
	}
	if want := "| `MCP_SAFE_DATA_DIR` | unset | absolute, existing directory | Enables sandbox_fs_read on this directory. |"; !slices.Contains(lines, want) {
		t.Errorf("no line %q", want)
	}
}

// FuzzParse holds for every environment: no panic, never both a Config and faults, the same answer twice, texts that
// are bounded and printable, and a Config inside the bounds, which are written out here once more.
func FuzzParse(f *testing.F) {
	seed := func(environ ...string) { f.Add(strings.Join(environ, "\x00")) }
	seed()
	seed(everythingWrong()...)
	for _, s := range config.Settings() {
		seed(s.Name+"="+s.Default, s.Name)
		seed(s.Name + "=" + s.Example)
		for _, c := range wrongNumbers {
			seed(s.Name + "=" + c.value)
		}
	}
	for _, c := range wrongTexts {
		seed(c.variable + "=" + c.value)
	}
	for _, c := range misspelt {
		seed(c.found + "=")
	}
	f.Fuzz(func(t *testing.T, joined string) {
		environ := strings.Split(joined, "\x00")
		c, faults := config.Parse(environ)
		again, faultsAgain := config.Parse(environ)
		if !same(c, again) || !slices.Equal(faults, faultsAgain) {
			t.Fatal("two answers for one environment")
		}
		checkOrder(t, faults)
		if faults != nil {
			if !same(c, config.Config{}) || len(faults) == 0 {
				t.Fatal("both a Config and faults")
			}
			for _, entry := range environ {
				_, value, _ := strings.Cut(entry, "=")
				for _, fault := range faults {
					if len(value) > 64 && strings.Contains(fault.Text, value[:65]) {
						t.Fatalf("fault shows too much: %q", fault.Text)
					}
				}
			}
			return
		}
		between := func(name string, low, value, high int64) {
			if value < low || value > high {
				t.Errorf("%s is %d", name, value)
			}
		}
		between("MetricsCPUSample", 1, int64(c.MetricsCPUSample), int64(2*time.Second))
		between("MaxConcurrentTools", 1, int64(c.MaxConcurrentTools), 256)
		between("MaxWaitingCalls", 0, int64(c.MaxWaitingCalls), 4096)
		between("ToolAcquireTimeout", 0, int64(c.ToolAcquireTimeout), int64(60*time.Second))
		between("ToolTimeout", 1, int64(c.ToolTimeout), int64(600*time.Second))
		between("MaxArgumentDepth", 1, int64(c.MaxArgumentDepth), 64)
		between("MaxArgumentItems", 1, int64(c.MaxArgumentItems), 100000)
		between("MaxReplyBytes", 16777216, int64(c.MaxReplyBytes), 1073741824)
		between("ServerName", 1, int64(len(c.ServerName)), 64)
		between("ServerTitle", 0, int64(len([]rune(c.ServerTitle))), 128)
		between("ServerInstructions", 0, int64(len([]rune(c.ServerInstructions))), 4096)
		between("LandlockMinABI", 1, int64(c.LandlockMinABI), 11)
		between("LogLevel", int64(slog.LevelDebug), int64(c.LogLevel), int64(config.LevelCritical))
		if !filepath.IsAbs(c.MetricsDiskPath) || c.SafeDataDir != "" && !filepath.IsAbs(c.SafeDataDir) {
			t.Error("a path is not absolute")
		}
		if !slices.Contains([]config.Insistence{config.Require, config.IfAvailable, config.Off}, c.Landlock) ||
			c.Seccomp != config.Require && c.Seccomp != config.Off {
			t.Errorf("Landlock is %q, Seccomp %q", c.Landlock, c.Seccomp)
		}
	})
}

// A DSN in the wrong place has a password in it.
func TestWhatLooksLikeADSNIsNotShown(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"postgres://u:s3cret@h/d", "host=h PASSWORD=s3cret"} {
		for _, name := range []string{"MCP_SQL_POOL_MAX_SIZE", "MCP_LANDLOCK", "MCP_TOOL_TIMEOUT_SECONDS"} {
			_, faults := config.Parse([]string{name + "=" + value})
			if len(faults) != 1 || strings.Contains(faults[0].Text, "s3cret") || !strings.Contains(faults[0].Text, "looks like a DSN") {
				t.Errorf("%s=%s: %v", name, value, faults)
			}
		}
	}
}

func TestNamesThatAreNoSettingsAreGiven(t *testing.T) {
	t.Parallel()
	got := config.Unknown([]string{
		"MCP_SQL_ALLOW_TABLES=a.b", "PATH=/bin", "MCP_SAFE_DATA_DIR=/srv", "MCP_TEST_HOLE=x", "mcp_x=1", "MCP_\x1b=1",
		"MCP_" + strings.Repeat("A", 100) + "=secret",
	})
	want := []string{"MCP_SQL_ALLOW_TABLES", `MCP_\x1b`, "MCP_" + strings.Repeat("A", 60)}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := config.Unknown(slices.Repeat([]string{"MCP_A=1"}, 1000)); len(got) != 16 {
		t.Errorf("%d of 1000 names", len(got))
	}
}
