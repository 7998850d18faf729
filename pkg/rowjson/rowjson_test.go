package rowjson_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"mcp-server-suite/pkg/rowjson"
)

// The oids that the tests name.
const (
	oidBool        = 16
	oidInt8        = 20
	oidInt4        = 23
	oidText        = 25
	oidJSON        = 114
	oidFloat8      = 701
	oidTimestamp   = 1114
	oidTimestampTZ = 1184
	oidNumeric     = 1700
	oidJSONB       = 3802
	oidBoolArray   = 1000
	oidInt4Array   = 1007
	oidTextArray   = 1009
	oidInt8Array   = 1016
	oidBoxArray    = 1020
	oidStampArray  = 1115
	oidJSONBArray  = 3807
	oidFloat8Array = 1022
	oidNone        = 654321
)

const plenty = 1 << 24 // bytes

// encode writes one value of one column, and returns it without the brackets of row and result.
func encode(t *testing.T, oid uint32, value string) string {
	t.Helper()
	e := rowjson.New([]rowjson.Column{{Name: "c", OID: oid}}, rowjson.Limits{Rows: 1, Bytes: plenty})
	if !e.Row([][]byte{[]byte(value)}) {
		t.Fatalf("%.40q of type %d is not taken: %q", value, oid, e.Truncated())
	}
	out := string(e.JSON())
	checkOutput(t, e, 1, plenty)
	return strings.TrimSuffix(strings.TrimPrefix(out, "[["), "]]")
}

var valueCases = []struct {
	name  string
	oid   uint32
	value string
	want  string
	why   string
}{
	{"true", oidBool, "t", `true`, ""},
	{"false", oidBool, "f", `false`, ""},
	{"other bool", oidBool, "true", `"true"`, "PostgreSQL writes one letter; what is not that is its text"},
	{"int4", oidInt4, "-2147483648", `-2147483648`, ""},
	{"oid", 26, "4294967295", `4294967295`, ""},
	{"int2", 21, "0", `0`, ""},
	{"no integer", oidInt4, "1.5", `"1.5"`, "not what the type can hold"},
	{"leading zero", oidInt4, "01", `"01"`, "no JSON"},
	{"plus", oidInt4, "+1", `"+1"`, "no JSON"},
	{"minus alone", oidInt4, "-", `"-"`, "no JSON"},
	{"empty integer", oidInt4, "", `""`, "not null either"},
	{"2^53-1", oidInt8, "9007199254740991", `9007199254740991`, "the last safe one"},
	{"2^53", oidInt8, "9007199254740992", `"9007199254740992"`, "a reader cannot tell it from 2^53+1"},
	{"-(2^53-1)", oidInt8, "-9007199254740991", `-9007199254740991`, "the same below zero"},
	{"-2^53", oidInt8, "-9007199254740992", `"-9007199254740992"`, "the same below zero"},
	{"least int8", oidInt8, "-9223372036854775808", `"-9223372036854775808"`, ""},
	{"float", oidFloat8, "0.1", `0.1`, "its digits"},
	{"large float", oidFloat8, "1e+300", `1e+300`, "as PostgreSQL writes it"},
	{"17 digits", oidFloat8, "0.30000000000000004", `0.30000000000000004`, "the shortest of its float64"},
	{"least float", oidFloat8, "5e-324", `5e-324`, "denormal, still the shortest"},
	{"10^23", oidFloat8, "9.999999999999999e+22", `"9.999999999999999e+22"`, "JavaScript writes 1e+23"},
	{"denormal", oidFloat8, "1.23456789012345e-310", `"1.23456789012345e-310"`, "no float64 has 15 digits down there"},
	{"largest float", oidFloat8, "1.7976931348623157e+308", `1.7976931348623157e+308`, ""},
	{"overflow", oidFloat8, "1e309", `"1e309"`, "Infinity in JavaScript"},
	{"underflow", oidFloat8, "1e-400", `"1e-400"`, "zero in JavaScript"},
	{"minus zero", oidFloat8, "-0", `-0`, "equal to zero"},
	{"NaN", oidFloat8, "NaN", `"NaN"`, "no JSON number"},
	{"Infinity", oidFloat8, "-Infinity", `"-Infinity"`, "no JSON number"},
	{"float4", 700, "1.6777216e+07", `1.6777216e+07`, ""},
	{"no float", oidFloat8, "1.", `"1."`, "no JSON"},
	{"hex float", oidFloat8, "0x1p-2", `"0x1p-2"`, "strconv would read it"},
	{"underscore", oidFloat8, "1_0", `"1_0"`, "strconv would read it"},
	{"bare exponent", oidFloat8, "1e", `"1e"`, "no JSON"},
	{"numeric", oidNumeric, "1", `"1"`, "always a string"},
	{
		"long numeric", oidNumeric, "1234567890123456789012345678901234567890.0000000001",
		`"1234567890123456789012345678901234567890.0000000001"`, "sql-056",
	},
	{"numeric NaN", oidNumeric, "NaN", `"NaN"`, ""},
	{"text", oidText, "a\"b\\\n\u00e9\U0001F600", `"a\"b\\\n\u00e9\ud83d\ude00"`, "ASCII"},
	{"empty text", oidText, "", `""`, "not null"},
	{"invalid byte", oidText, "a\xffb", `"a\ufffdb"`, "SQL_ASCII"},
	{"surrogate", oidText, "\xed\xa0\xbd\xed\xb8\x80", `"\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd"`, "CESU-8 is no UTF-8"},
	{"surrogate and text", oidText, "\u00e9\xed\xa0\x80\"", `"\u00e9\ufffd\ufffd\ufffd\""`, "only the bytes"},
	{"json number", oidJSON, "123", `123`, ""},
	{"json null", oidJSON, "null", `null`, "as PostgreSQL's own to_json has it"},
	{"json string", oidJSON, "\"\u00e9\"", `"\u00e9"`, "ASCII"},
	{"json white space", oidJSON, " {\n\t\"a b\" : [ 1 , 2 ] }\r\n", `{"a b":[1,2]}`, "a line feed would end the message"},
	{"jsonb", oidJSONB, `{"a": [1.50, true, null], "b": {}}`, `{"a":[1.50,true,null],"b":{}}`, "digits as they are"},
	{"json escapes", oidJSON, `"\/\u0041\b"`, `"\/\u0041\b"`, "as they are"},
	{"json 2^53+1", oidJSONB, `{"id": 9007199254740993}`, `"{\"id\": 9007199254740993}"`, "sql-060"},
	{"json 2^53", oidJSONB, `[9007199254740992]`, `"[9007199254740992]"`, "as int8"},
	{"json 2^53-1", oidJSONB, `[9007199254740991]`, `[9007199254740991]`, "as int8"},
	{"json 1e400", oidJSON, `[1e400]`, `"[1e400]"`, "Infinity in JavaScript"},
	{"json 1e300", oidJSON, `[1e300]`, `[1e300]`, "survives"},
	{"json 20 digits", oidJSON, `[0.12345678901234567890]`, `"[0.12345678901234567890]"`, "a float64 has 17"},
	{"json 17 digits", oidJSON, `[0.12345678901234568]`, `[0.12345678901234568]`, "the shortest of its float64"},
	{"json last digit", oidJSON, `[0.30000000000000005]`, `"[0.30000000000000005]"`, "the same float64 as ...04"},
	{"json trailing zeros", oidJSON, `[1.5000000000000000000000]`, `[1.5000000000000000000000]`, "the same value"},
	{"json many zeros", oidJSON, `0.00000000000000000000000000001`, `0.00000000000000000000000000001`, "one digit"},
	{"json far zeros", oidJSON, `0.` + strings.Repeat("0", 400) + `1e401`, `0.` + strings.Repeat("0", 400) + `1e401`, "1"},
	{"json zero", oidJSON, `[0e99999999999999999999, -0.0]`, `[0e99999999999999999999,-0.0]`, "zero however large"},
	{"json huge exponent", oidJSON, `1e99999999999999999999`, `"1e99999999999999999999"`, "does not wrap"},
	{"json exponent 2^64", oidJSON, `1e18446744073709551616`, `"1e18446744073709551616"`, "nor to zero"},
	{"json duplicate", oidJSON, `{"a":1,"\u0061":2}`, `"{\"a\":1,\"\\u0061\":2}"`, "readers disagree about it"},
	{"json surrogate", oidJSON, `"\ud800"`, `"\"\\ud800\""`, "strict readers refuse it"},
	{"json pair", oidJSON, `"\ud83d\ude00"`, `"\ud83d\ude00"`, ""},
	{"no json", oidJSON, `{"a":`, `"{\"a\":"`, "its text"},
	{"two jsons", oidJSON, `1 2`, `"1 2"`, "its text"},
	{"json invalid UTF-8", oidJSON, "\"\xff\"", `"\"\ufffd\""`, "its text, repaired"},
	{"json number in a string", oidJSON, `["9007199254740993\"1e999"]`, `["9007199254740993\"1e999"]`, "no number"},
	{
		"json brackets in a string", oidJSON, `["` + strings.Repeat("[", 99) + `"]`,
		`["` + strings.Repeat("[", 99) + `"]`, "no depth",
	},
	{"json of the depth", oidJSON, nest(rowjson.MaxJSONDepth), nest(rowjson.MaxJSONDepth), "the last allowed"},
	{"json too deep", oidJSON, nest(rowjson.MaxJSONDepth + 1), `"` + nest(rowjson.MaxJSONDepth+1) + `"`, "one more"},
	{"json far too deep", oidJSON, nest(9999), `"` + nest(9999) + `"`, "beyond the scanner"},
	{"timestamp", oidTimestamp, "2024-02-29 12:34:56.789012", `"2024-02-29T12:34:56.789012"`, ""},
	{"whole second", oidTimestamp, "2024-02-29 00:00:00", `"2024-02-29T00:00:00"`, ""},
	{"year 9999", oidTimestamp, "9999-12-31 00:00:00", `"9999-12-31T00:00:00"`, "the last of four digits"},
	{"year 10000", oidTimestamp, "10000-01-01 00:00:00", `"10000-01-01 00:00:00"`, "RFC 3339 has no such year"},
	{"BC", oidTimestamp, "0044-03-15 00:00:00 BC", `"0044-03-15 00:00:00 BC"`, "nor this one"},
	{"infinity", oidTimestamp, "infinity", `"infinity"`, ""},
	{"offset where none is", oidTimestamp, "2024-02-29 12:34:56+00", `"2024-02-29 12:34:56+00"`, "not of this type"},
	{"seven digits", oidTimestamp, "2024-02-29 12:34:56.7890123", `"2024-02-29 12:34:56.7890123"`, "not PostgreSQL's"},
	{"point alone", oidTimestamp, "2024-02-29 12:34:56.", `"2024-02-29 12:34:56."`, "not PostgreSQL's"},
	{"T already", oidTimestamp, "2024-02-29T12:34:56", `"2024-02-29T12:34:56"`, "its text"},
	{"short", oidTimestamp, "2024-02-29 12:34", `"2024-02-29 12:34"`, "its text"},
	{"UTC", oidTimestampTZ, "2024-02-29 12:34:56.7+00", `"2024-02-29T12:34:56.7Z"`, ""},
	{"India", oidTimestampTZ, "2024-02-29 12:34:56+05:30", `"2024-02-29T12:34:56+05:30"`, "another session"},
	{"west", oidTimestampTZ, "2024-02-29 12:34:56-03", `"2024-02-29T12:34:56-03:00"`, "the normal form"},
	{"Amsterdam", oidTimestampTZ, "1900-01-01 00:00:00+00:19:32", `"1900-01-01 00:00:00+00:19:32"`, "no such form"},
	{"no offset", oidTimestampTZ, "2024-02-29 12:34:56", `"2024-02-29 12:34:56"`, "whose time is it?"},
	{"BC with zone", oidTimestampTZ, "0044-03-15 00:00:00+00 BC", `"0044-03-15 00:00:00+00 BC"`, ""},
	{"-infinity", oidTimestampTZ, "-infinity", `"-infinity"`, ""},
	{"bytea", 17, `\x00ff10`, `"\\x00ff10"`, "sql-061"},
	{"interval", 1186, "P1Y2M-3DT4H5M6.7S", `"P1Y2M-3DT4H5M6.7S"`, ""},
	{"money", 790, "$12.34", `"$12.34"`, ""},
	{"void", 2278, "", `""`, ""},
	{"unknown oid", oidNone, "12", `"12"`, "text"},
	{"no oid", 0, "{1}", `"{1}"`, "no array of nothing"},
	{"array", oidInt4Array, "{1,NULL,-3}", `[1,null,-3]`, ""},
	{"empty array", oidInt4Array, "{}", `[]`, ""},
	{"matrix", oidInt4Array, "{{1,2},{3,4}}", `[[1,2],[3,4]]`, "sql-061"},
	{"six dimensions", oidInt4Array, "{{{{{{1}}}}}}", `[[[[[[1]]]]]]`, "MAXDIM"},
	{"seven dimensions", oidInt4Array, "{{{{{{{1}}}}}}}", `"{{{{{{{1}}}}}}}"`, "more than MAXDIM"},
	{"quoted", oidTextArray, `{a,"b,c","",NULL,"NULL","q\"\\e","{}"}`, `["a","b,c","",null,"NULL","q\"\\e","{}"]`, ""},
	{"text matrix", oidTextArray, `{{a,"b,c"},{NULL,"NULL"}}`, `[["a","b,c"],[null,"NULL"]]`, "sql.md 8"},
	{"bounds", oidInt4Array, "[0:1]={1,2}", `"[0:1]={1,2}"`, "JSON counts from zero"},
	{"custom array", oidNone, "{1,2}", `"{1,2}"`, "the element is not known"},
	{"large elements", oidInt8Array, "{1,9007199254740993}", `[1,"9007199254740993"]`, "each by its rule"},
	{"bools", oidBoolArray, "{t,f,NULL}", `[true,false,null]`, ""},
	{"floats", oidFloat8Array, "{1.5,NaN,Infinity}", `[1.5,"NaN","Infinity"]`, ""},
	{"boxes", oidBoxArray, "{(1,1),(0,0);(2,2),(1,1)}", `["(1,1),(0,0)","(2,2),(1,1)"]`, "typdelim ;"},
	{"stamps", oidStampArray, `{"2024-02-29 12:34:56",infinity}`, `["2024-02-29T12:34:56","infinity"]`, ""},
	{
		"jsons", oidJSONBArray, `{"{\"a\": [1, \"x\\\\y\"]}",2,"[9007199254740993]"}`,
		`[{"a":[1,"x\\y"]},2,"[9007199254740993]"]`, "unquoted first",
	},
	{"numerics", 1231, "{1.50,NaN}", `["1.50","NaN"]`, ""},
	{"records", 2287, `{"(1,a)","(2,\"b c\")"}`, `["(1,a)","(2,\"b c\")"]`, "elements are text"},
	{"ragged", oidInt4Array, "{{1,2},{3}}", `"{{1,2},{3}}"`, "malformed"},
	{"mixed depth", oidInt4Array, "{1,{2}}", `"{1,{2}}"`, "malformed"},
	{"mixed depth the other way", oidInt4Array, "{{1},2}", `"{{1},2}"`, "malformed"},
	{"empty part", oidInt4Array, "{{},{}}", `"{{},{}}"`, "PostgreSQL writes {}"},
	{"unclosed", oidInt4Array, "{1,2", `"{1,2"`, "malformed"},
	{"open quote", oidTextArray, `{"a`, `"{\"a"`, "malformed"},
	{"open escape", oidTextArray, `{"a\`, `"{\"a\\"`, "malformed"},
	{"closed twice", oidInt4Array, "{1}}", `"{1}}"`, "malformed"},
	{"rest", oidInt4Array, "{1}2", `"{1}2"`, "malformed"},
	{"trailing comma", oidInt4Array, "{1,}", `"{1,}"`, "malformed"},
	{"leading comma", oidInt4Array, "{,1}", `"{,1}"`, "malformed"},
	{"space", oidInt4Array, "{1, 2}", `"{1, 2}"`, "array_out writes none"},
	{"small null", oidTextArray, "{null}", `"{null}"`, "array_in takes it for NULL, array_out quotes it"},
	{"escape outside of quotes", oidTextArray, `{a\b}`, `"{a\\b}"`, "array_out quotes it"},
	{"quote inside", oidTextArray, `{a"b"}`, `"{a\"b\"}"`, "array_out quotes it"},
	{"text after a quote", oidTextArray, `{"a"b}`, `"{\"a\"b}"`, "malformed"},
	{"no array", oidTextArray, "", `""`, "malformed"},
	{"element alone", oidTextArray, "a", `"a"`, "malformed"},
	{"invalid UTF-8 in an array", oidTextArray, "{\xff}", `["\ufffd"]`, ""},
}

func nest(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestEveryTypeIsWrittenByItsRule(t *testing.T) {
	for _, c := range valueCases {
		if got := encode(t, c.oid, c.value); got != c.want {
			t.Errorf("%s (%s): %.60q of type %d is %.80s, want %.80s", c.name, c.why, c.value, c.oid, got, c.want)
		}
	}
}

func TestNullIsNotTheEmptyString(t *testing.T) {
	for _, oid := range []uint32{oidBool, oidInt4, oidText, oidJSON, oidTimestamp, oidTextArray, oidNone} {
		e := rowjson.New([]rowjson.Column{{OID: oid}, {OID: oid}}, rowjson.Limits{Rows: 1, Bytes: plenty})
		if e.Row([][]byte{nil, {}}); string(e.JSON()) != `[[null,""]]` {
			t.Errorf("type %d: got %s", oid, e.JSON())
		}
	}
}

func TestColumnsAreKeptByPlace(t *testing.T) {
	e := rowjson.New([]rowjson.Column{{"a", oidInt4}, {"a", oidInt4}}, rowjson.Limits{Rows: 9, Bytes: plenty})
	for _, more := range []bool{e.Row(row("1", "2")), e.Row(row("3", "4"))} {
		if !more {
			t.Error("a row was not taken")
		}
	}
	if got := string(e.JSON()); got != `[[1,2],[3,4]]` {
		t.Errorf("got %s, want both columns (sql-059)", got)
	}
	none := rowjson.New(nil, rowjson.Limits{Rows: 9, Bytes: plenty})
	if !none.Row(nil) || !none.Row(row()) || string(none.JSON()) != `[[],[]]` {
		t.Errorf("rows without columns: got %s", none.JSON())
	}
}

func row(values ...string) [][]byte {
	out := make([][]byte, len(values))
	for i, v := range values {
		out[i] = []byte(v)
	}
	return out
}

func TestOneRowMoreIsWhatTruncates(t *testing.T) {
	e := rowjson.New([]rowjson.Column{{"a", oidInt4}}, rowjson.Limits{Rows: 2, Bytes: plenty})
	for range 2 {
		if !e.Row(row("1")) || e.Truncated() != "" {
			t.Fatal("a row within the limit ends the result")
		}
	}
	for range 2 {
		if e.Row(row("2")) || e.Truncated() != "rows" || e.Count() != 2 || string(e.JSON()) != `[[1],[1]]` {
			t.Fatalf("after a row too many: %s, %d rows, truncated by %q", e.JSON(), e.Count(), e.Truncated())
		}
	}
	none := rowjson.New([]rowjson.Column{{"a", oidInt4}}, rowjson.Limits{Rows: -1, Bytes: plenty})
	if none.Row(row("1")) || none.Truncated() != "rows" || string(none.JSON()) != "[]" {
		t.Errorf("no rows allowed: %s, truncated by %q", none.JSON(), none.Truncated())
	}
}

// The budget holds at the exact byte for each kind of value, and a row that does not fit leaves nothing behind.
func TestBytesAreCountedExactly(t *testing.T) {
	for _, c := range valueCases {
		columns := []rowjson.Column{{"a", oidText}, {"b", c.oid}}
		values := [][]byte{[]byte("x"), []byte(c.value)}
		size := len(`[["x",` + c.want + `],["x",` + c.want + `]]`)
		for _, less := range []int{0, 1, 2, 3} {
			e := rowjson.New(columns, rowjson.Limits{Rows: 9, Bytes: size - less})
			first, second := e.Row(values), e.Row(values)
			checkOutput(t, e, 2, size-less)
			if !first || second != (less == 0) || len(e.JSON()) > size-less {
				t.Fatalf("%s, %d bytes too few: %t, %t, %d of %d bytes", c.name, less, first, second, len(e.JSON()), size-less)
			}
			if less > 0 {
				small := e.Row(row("", ""))
				if small || e.Truncated() != "size" || e.Count() != 1 || string(e.JSON()) != `[["x",`+c.want+`]]` {
					t.Fatalf("%s: a smaller row got past the one that did not fit: %.80s", c.name, e.JSON())
				}
			}
		}
	}
}

func TestTheEmptyResultIsAlwaysThere(t *testing.T) {
	for _, size := range []int{-1 << 63, -1, 0, 1, 2, 3} {
		for _, columns := range [][]rowjson.Column{nil, {{"a", oidText}}} {
			e := rowjson.New(columns, rowjson.Limits{Rows: 1, Bytes: size})
			if e.Row(make([][]byte, len(columns))) || e.Truncated() != "size" || string(e.JSON()) != "[]" {
				t.Errorf("%d bytes: %s, truncated by %q", size, e.JSON(), e.Truncated())
			}
		}
	}
}

func TestARowOfAnotherWidthEndsTheResult(t *testing.T) {
	for _, values := range [][][]byte{nil, row("1"), row("1", "2", "3")} {
		e := rowjson.New([]rowjson.Column{{"a", oidInt4}, {"b", oidInt4}}, rowjson.Limits{Rows: 9, Bytes: plenty})
		if e.Row(values) || e.Truncated() != "size" || string(e.JSON()) != "[]" {
			t.Errorf("%d values for two columns: %s, truncated by %q", len(values), e.JSON(), e.Truncated())
		}
	}
}

// What is not handed out costs no memory: without the checks on the way, 64 MiB of text would become 384 MiB.
func TestAValueBeyondTheBudgetIsNotWritten(t *testing.T) {
	const limit, size = 64 << 10, 8 << 20
	huge := map[string]struct {
		oid   uint32
		value string
	}{
		"controls":     {oidText, strings.Repeat("\x01", size)},
		"nearly fits":  {oidText, strings.Repeat("\x01", limit-100)},
		"invalid":      {oidText, strings.Repeat("\xed\xa0\x80", limit/3-100)},
		"array":        {oidTextArray, `{"` + strings.Repeat("\x01", limit-100) + `"}`},
		"json":         {oidJSON, `"` + strings.Repeat("\x7f", limit-100) + `"`},
		"many numbers": {oidJSON, "[" + strings.Repeat("1,", size/2) + "1]"},
	}
	for name, c := range huge {
		e := rowjson.New([]rowjson.Column{{"a", c.oid}}, rowjson.Limits{Rows: 1, Bytes: limit})
		if e.Row(row(c.value)) || e.Truncated() != "size" {
			t.Errorf("%s: %d bytes fit into %d", name, len(c.value), limit)
		}
		// The output, one chunk of 4 KiB sixfold, and what append rounds up by.
		if got := cap(e.JSON()); got > 2*limit+6*(4<<10) {
			t.Errorf("%s: %d bytes are held for a budget of %d", name, got, limit)
		}
	}
}

func TestChunksCutNoCharacter(t *testing.T) {
	for _, unit := range []string{"\u00e9", "\u20ac", "\U0001F600", "\xed\xa0\x80", "\x80"} {
		for shift := range 4 {
			text := strings.Repeat("a", shift) + strings.Repeat(unit, 5000)
			want := `"` + strings.Repeat("a", shift) + strings.Repeat(strings.Trim(encode(t, oidText, unit), `"`), 5000) + `"`
			if got := encode(t, oidText, text); got != want {
				t.Errorf("%q behind %d letters is cut in two", unit, shift)
			}
			if got := encode(t, oidJSON, `"`+text+`"`); unit < "\x80" && got != want {
				t.Errorf("%q behind %d letters is cut in two in JSON", unit, shift)
			}
		}
	}
}

func TestHiddenCharactersAreFlagged(t *testing.T) {
	cases := []struct {
		name  string
		oid   uint32
		value string
		want  bool
		why   string
	}{
		{"plain", oidText, "text \"\\ \t\n\r \u00e9\u4e00\U0001F600", false, "text"},
		{"NUL", oidText, "\x00", true, "PostgreSQL has none, a hostile server may"},
		{"escape character", oidText, "\x1b[2J", true, "clears a terminal"},
		{"DEL", oidText, "\x7f", true, ""},
		{"C1", oidText, "\u009b", true, ""},
		{"override", oidText, "Ignore \u202e", true, "sql-072"},
		{"zero width", oidText, "a\u200bb", true, ""},
		{"style selector", oidText, "\ufe0f", true, "bits can be hidden in those"},
		{"tag", oidText, "\U000E0041", true, ""},
		{"invalid byte", oidText, "\x9b", false, "is handed out as U+FFFD, which shows"},
		{"late", oidText, strings.Repeat("\u00e9", 9000) + "\u202e", true, "in the last chunk"},
		{"number", oidInt4, "1\u200b", true, "falls back to text"},
		{"array", oidTextArray, "{a,\"\u202e\"}", true, ""},
		{"json", oidJSON, "{\"a\":\"\u202e\"}", true, ""},
		{"json key", oidJSON, "{\"\u202e\":1}", true, ""},
		{"json escape", oidJSON, `"\u202E"`, true, "is that character to a reader"},
		{"json pair", oidJSON, `"\udb40\udc41"`, true, "a tag"},
		{"json visible pair", oidJSON, `"\ud83d\ude00"`, false, ""},
		{"json lone surrogate", oidJSON, `"\ude00"`, true, ""},
		{"json lone surrogate before a letter", oidJSON, `"\ud83d\u0041"`, true, ""},
		{"json backspace", oidJSON, `"\b"`, true, "a control character"},
		{"json form feed", oidJSON, `"\f"`, true, "a control character"},
		{"json line feed", oidJSON, "[\"\\n\\r\\t\\/\\\\\",\n1]", false, ""},
		{"json escaped backslash", oidJSON, `"\\u202e"`, false, "six visible characters"},
		{"json as text", oidJSON, `["\u202e",9007199254740993]`, true, "a reader will parse it"},
		{"jsonb array", oidJSONBArray, `{"\"\\u0000\""}`, true, ""},
	}
	for _, c := range cases {
		columns := []rowjson.Column{{"a", oidText}, {"b", c.oid}, {"c", oidText}}
		e := rowjson.New(columns, rowjson.Limits{Rows: 9, Bytes: plenty})
		e.Row(row("x", c.value, "x"))
		e.Row(row("x", "", "x"))
		if got := e.Flagged(); c.want != slices.Equal(got, []int{1}) || !c.want && got != nil {
			t.Errorf("%s (%s): flagged %v, want %t for column 1", c.name, c.why, got, c.want)
		}
		small := rowjson.New(columns, rowjson.Limits{Rows: 9, Bytes: 12 + len(c.value)/2})
		if small.Row(row("x", c.value, strings.Repeat("x", plenty))) || small.Flagged() != nil {
			t.Errorf("%s: a row that is not handed out is flagged", c.name)
		}
	}
	names := rowjson.New([]rowjson.Column{{"a\u202e", 0}, {"b", 0}, {"\x00", 0}, {"\n\u00e9", 0}}, rowjson.Limits{})
	if got := names.Flagged(); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("names: flagged %v", got)
	}
}

func TestEveryCodePointMeetsTheUnicodeTables(t *testing.T) {
	text := []byte(nil)
	e := rowjson.New([]rowjson.Column{{"a", oidText}}, rowjson.Limits{Rows: 1, Bytes: plenty})
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r >= 0xD800 && r < 0xE000 {
			continue
		}
		want := r != '\t' && r != '\n' && r != '\r' && unicode.In(r, unicode.Cc, unicode.Cf,
			unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
		if got := rowjson.New([]rowjson.Column{{string(r), 0}}, rowjson.Limits{}).Flagged() != nil; got != want {
			t.Errorf("%U: flagged is %t, by Unicode %s it must be %t", r, got, unicode.Version, want)
		}
		if !want {
			text = append(text, string(r)...)
		}
	}
	if !e.Row([][]byte{text}) || e.Flagged() != nil {
		t.Error("as one value, those that are not hidden are flagged")
	}
}

func TestTypeNames(t *testing.T) {
	for oid, want := range map[uint32]string{
		0: "", 16: "bool", 20: "int8", 1009: "text[]", 1700: "numeric", 3802: "jsonb", 3807: "jsonb[]",
		4451: "int4multirange", 2278: "void", 2249: "record", 2287: "record[]", 1020: "box[]", 999: "", oidNone: "",
		1<<32 - 1: "",
	} {
		if got := rowjson.TypeName(oid); got != want {
			t.Errorf("type %d is %q, want %q", oid, got, want)
		}
	}
}

// Long values take time in proportion to their length, whatever they are made of.
func BenchmarkLongValue(b *testing.B) {
	long := map[string]struct {
		oid  uint32
		unit string
	}{
		"text":    {oidText, "plain text, "},
		"utf8":    {oidText, "\u00e9\u4e00"},
		"invalid": {oidText, "\xed\xa0\x80"},
		"digits":  {oidFloat8, "1"},
	}
	for name, c := range long {
		for _, n := range []int{1 << 10, 1 << 14} {
			value := [][]byte{[]byte(strings.Repeat(c.unit, n))}
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.SetBytes(int64(len(value[0])))
				b.ReportAllocs()
				for b.Loop() {
					rowjson.New([]rowjson.Column{{"a", c.oid}}, rowjson.Limits{Rows: 1, Bytes: plenty}).Row(value)
				}
			})
		}
	}
}

// BenchmarkRows is a usual answer: 50 rows of six columns.
func BenchmarkRows(b *testing.B) {
	columns := []rowjson.Column{
		{"id", oidInt8},
		{"name", oidText},
		{"price", oidNumeric},
		{"ratio", oidFloat8},
		{"created_at", oidTimestampTZ},
		{"active", oidBool},
	}
	values := row("123456", "Some customer's name", "1234.50", "0.123456789", "2024-02-29 12:34:56.789012+00", "t")
	b.ReportAllocs()
	for b.Loop() {
		e := rowjson.New(columns, rowjson.Limits{Rows: 50, Bytes: 64 << 10})
		for range 50 {
			e.Row(values)
		}
		if len(e.JSON()) < 1000 || e.Count() != 50 {
			b.Fatal("rows are missing")
		}
	}
}

// BenchmarkJSON is BenchmarkRows with the two kinds that are parsed.
func BenchmarkJSON(b *testing.B) {
	columns := []rowjson.Column{{"doc", oidJSONB}, {"tags", oidTextArray}}
	values := row(`{"id": 17, "name": "x y", "tags": ["a", "b"], "ratio": 0.5}`, `{one,"two words",three}`)
	b.ReportAllocs()
	for b.Loop() {
		e := rowjson.New(columns, rowjson.Limits{Rows: 50, Bytes: 64 << 10})
		for range 50 {
			e.Row(values)
		}
	}
}
