package daemon_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"mcp-server-suite/pkg/pgstage"
)

// values are one of each kind that a server gives (findings, sql 8), in columns, so that the policy on casts has no
// part in it. want is the JSON that a client gets.
var values = []struct{ name, kind, expression, want string }{
	{"yes", "bool", "true", `true`},
	{"small", "int2", "-32768", `-32768`},
	{"int", "int4", "2147483647", `2147483647`},
	{"safe", "int8", "9007199254740991", `9007199254740991`},
	{"unsafe", "int8", "9007199254740993", `"9007199254740993"`},
	{"least", "int8", "-9223372036854775808", `"-9223372036854775808"`},
	{"exact", "numeric", "0.30", `"0.30"`},
	{
		"long", "numeric", "1234567890123456789012345678901234567890.0000000001",
		`"1234567890123456789012345678901234567890.0000000001"`,
	},
	{"nan", "numeric", "'NaN'", `"NaN"`},
	{"infinite", "numeric", "'-Infinity'", `"-Infinity"`},
	{"single", "float4", "0.1", `0.1`},
	{"double", "float8", "0.1::float8 + 0.2::float8", `0.30000000000000004`},
	{"tiny", "float8", "5e-324", `5e-324`},
	{"huge", "float8", "1.7976931348623157e308", `1.7976931348623157e+308`},
	{"fnan", "float8", "'NaN'", `"NaN"`},
	{"money", "money", "1234567.89", `"$1,234,567.89"`},
	{
		"word", "text", `E'a "quoted" \\ line\nwith caf\u00e9 and \U0001F600'`,
		`"a \"quoted\" \\ line\nwith caf\u00e9 and \ud83d\ude00"`,
	},
	{"padded", "char(4)", "'ab'", `"ab  "`},
	{"bytes", "bytea", `'\x00ff10'`, `"\\x00ff10"`},
	{"nobytes", "bytea", `'\x'`, `"\\x"`},
	{"day", "date", "'2024-02-29'", `"2024-02-29"`},
	{"bc", "date", "'0044-03-15 BC'", `"0044-03-15 BC"`},
	{"never", "date", "'-infinity'", `"-infinity"`},
	{"moment", "timestamp", "'2024-02-29 12:34:56.789012'", `"2024-02-29T12:34:56.789012"`},
	{"instant", "timestamptz", "'2024-02-29 12:34:56.7+02'", `"2024-02-29T10:34:56.7Z"`},
	{"far", "timestamp", "'294276-12-31'", `"294276-12-31 00:00:00"`},
	{"midnight", "time", "'24:00:00'", `"24:00:00"`},
	{"zoned", "timetz", "'12:00:00+05:30'", `"12:00:00+05:30"`},
	{"span", "interval", "'1 year 2 mons -3 days 04:05:06.7'", `"P1Y2M-3DT4H5M6.7S"`},
	{"nothing", "text", "NULL", `null`},
	{"array", "int[]", "ARRAY[[1,2],[3,NULL]]", `[[1,2],[3,null]]`},
	{"wide", "int8[]", "ARRAY[1,9007199254740993]", `[1,"9007199254740993"]`},
	{"words", "text[]", `ARRAY['a','b,"c',NULL,'NULL']`, `["a","b,\"c",null,"NULL"]`},
	{"bounds", "int[]", "'[0:1]={1,2}'", `"[0:1]={1,2}"`},
	{"json", "json", `'{"a": 1.50, "b": [1e2, true, null]}'`, `{"a":1.50,"b":[1e2,true,null]}`},
	{"twice", "json", `'{"a":1,"a":2}'`, `"{\"a\":1,\"a\":2}"`},
	{"jsonb", "jsonb", `'{"id": 9007199254740993}'`, `"{\"id\": 9007199254740993}"`},
	{"pair", "pair", "ROW(1, 'a b')", `"(1,\"a b\")"`},
	{"mood", "mood", "'glad'", `"glad"`},
	{"positive", "positive", "7", `7`},
	{"span4", "int4range", "'[1,5)'", `"[1,5)"`},
	{"spans", "int4multirange", "'{[1,2),[5,)}'", `"{[1,2),[5,)}"`},
	{"bits", "bit(3)", "B'101'", `"101"`},
	{"net", "inet", "'10.0.0.1/8'", `"10.0.0.1/8"`},
	{"point", "point", "'(1,2.5)'", `"(1,2.5)"`},
	{"vector", "tsvector", "'a:1 b:2'", `"'a':1 'b':2"`},
	{"uuid", "uuid", "'00000000-0000-4000-8000-00000000000a'", `"00000000-0000-4000-8000-00000000000a"`},
	{"xml", "xml", "'<a>1</a>'", `"<a>1</a>"`},
	{"path", "jsonpath", "'$.a[*]'", `"$.\"a\"[*]"`},
}

// pinned is what the daemon pins, for the other side of the comparison.
const pinned = "SET datestyle = 'ISO, YMD'; SET intervalstyle = 'iso_8601'; SET timezone = 'UTC'; " +
	"SET lc_monetary = 'C'; SET bytea_output = 'hex'; SET extra_float_digits = 1; "

// TestEveryKindOfValueArrivesWithEveryDigit reads one value of each kind through the whole chain, and compares it with
// what the server says to somebody else.
func TestEveryKindOfValueArrivesWithEveryDigit(t *testing.T) {
	t.Parallel()
	var names, kinds, expressions []string
	for _, v := range values {
		names, kinds, expressions = append(names, "v_"+v.name), append(kinds, "v_"+v.name+" "+v.kind),
			append(expressions, v.expression)
	}
	d := newStore(t, pgstage.Shared(t), `CREATE TYPE pair AS (a int, b text); CREATE TYPE mood AS ENUM ('sad', 'glad');
		CREATE DOMAIN positive AS int CHECK (VALUE > 0);
		CREATE TABLE vals (`+strings.Join(kinds, ", ")+`);
		INSERT INTO vals VALUES (`+strings.Join(expressions, ", ")+`)`)
	said := d.one(pinned + "SELECT " + strings.Join(names, ", ") + " FROM vals")
	// Whatever the role's own settings are.
	for _, other := range []string{
		"datestyle = 'German'", "timezone = 'Asia/Kolkata'", "extra_float_digits = 0", "bytea_output = 'escape'",
		"intervalstyle = 'sql_standard'",
	} {
		d.Exec(t, d.db, "ALTER ROLE "+d.role+" SET "+other)
	}
	s := openSQL(t, d.reader())
	whole := s.mustSQL("SELECT * FROM vals")
	if whole.Count != 1 || len(whole.Rows[0]) != len(values) {
		t.Fatalf("%d rows of %d columns", whole.Count, len(whole.Rows[0]))
	}
	for i, v := range values {
		got := string(whole.Rows[0][i])
		if got != v.want {
			t.Errorf("%s (%s): %s, want %s", v.name, v.kind, got, v.want)
		}
		if alone := s.mustSQL("SELECT " + names[i] + " FROM vals").text(); alone != got {
			t.Errorf("%s: %s alone, %s beside others", v.name, alone, got)
		}
		if !sameValue(t, got, said[i]) {
			t.Errorf("%s (%s): %s, and the server says %q", v.name, v.kind, got, said[i])
		}
	}
}

// sameValue says whether the JSON holds the server's text. Of arrays and of JSON it compares the text only where that
// is JSON, too; the table says the rest.
func sameValue(t *testing.T, got, said string) bool {
	t.Helper()
	switch got[0] {
	case 'n':
		return said == ""
	case 't', 'f':
		return said == got[:1]
	case '"':
		var text string
		must(t, json.Unmarshal([]byte(got), &text))
		if text == said {
			return true
		}
		return strings.NewReplacer("T", " ", "Z", "+00").Replace(text) == said
	case '[', '{':
		var compact bytes.Buffer
		if json.Compact(&compact, []byte(said)) != nil {
			return true
		}
		return compact.String() == got
	}
	return sameNumber(got, said)
}

// sameNumber says whether a number is the server's, and stays so when JavaScript reads and writes it: the shortest
// decimal of the nearest float64 has the same value (ECMAScript, Number::toString).
func sameNumber(got, said string) bool {
	exact, ok := new(big.Rat).SetString(said)
	if !ok {
		return false
	}
	literal, ok := new(big.Rat).SetString(got)
	if !ok || literal.Cmp(exact) != 0 {
		return false
	}
	f, err := strconv.ParseFloat(got, 64)
	if err != nil {
		return false
	}
	shortest, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return ok && shortest.Cmp(exact) == 0
}
