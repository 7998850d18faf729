package rowjson_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"mcp-server-suite/pkg/pgstage"
	"mcp-server-suite/pkg/rowjson"
)

// session is what the daemon sets before a query (findings/sql.md, section 5).
const session = `SET TimeZone='UTC'; SET DateStyle='ISO, YMD'; SET IntervalStyle='iso_8601'; SET bytea_output='hex';
	SET extra_float_digits=1; SET xmloption='content'; SET standard_conforming_strings=on`

func TestMain(m *testing.M) { pgstage.Main(m) }

// startPostgres returns how to connect to a database of a real server; it skips, or fails, where there is none.
func startPostgres(t *testing.T) func(database string) *pgconn.PgConn {
	t.Helper()
	server := pgstage.Start(t, pgstage.Options{})
	return func(database string) *pgconn.PgConn {
		t.Helper()
		conn, err := pgconn.Connect(context.Background(), server.DSN(database, "postgres", "", true))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the server is stopped next
		if _, err := conn.Exec(context.Background(), session).ReadAll(); err != nil {
			t.Fatal(err)
		}
		return conn
	}
}

// query runs one statement and hands its rows to an encoder.
func query(t *testing.T, conn *pgconn.PgConn, sql string) *rowjson.Encoder {
	t.Helper()
	result := conn.ExecParams(context.Background(), sql, nil, nil, nil, nil)
	var columns []rowjson.Column
	for _, f := range result.FieldDescriptions() {
		columns = append(columns, rowjson.Column{Name: f.Name, OID: f.DataTypeOID})
	}
	e := rowjson.New(columns, rowjson.Limits{Rows: 1000, Bytes: plenty})
	for result.NextRow() {
		if !e.Row(result.Values()) {
			t.Fatalf("%s: truncated by %q", sql, e.Truncated())
		}
	}
	if _, err := result.Close(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	checkOutput(t, e, len(columns), plenty)
	return e
}

// What a server writes, in one column each.
var serverCases = []struct{ sql, want, why string }{
	{`NULL`, `null`, ""},
	{`true`, `true`, ""},
	{`1::int2`, `1`, ""},
	{`-5`, `-5`, ""},
	{`9007199254740991`, `9007199254740991`, ""},
	{`9007199254740993`, `"9007199254740993"`, "another integer in JavaScript"},
	{`4294967295::oid`, `4294967295`, ""},
	{`1.50`, `"1.50"`, "numeric"},
	{
		`1234567890123456789012345678901234567890.0000000001::numeric`,
		`"1234567890123456789012345678901234567890.0000000001"`, "sql-056",
	},
	{`'NaN'::numeric`, `"NaN"`, ""},
	{`0.1::float4`, `0.1`, ""},
	{`'1e300'::float8`, `1e+300`, ""},
	{`1e23::float8`, `"9.999999999999999e+22"`, "JavaScript writes 1e+23"},
	{`'5e-324'::float8`, `5e-324`, ""},
	{`123456789012345680::float8`, `1.2345678901234568e+17`, ""},
	{`'NaN'::float8`, `"NaN"`, ""},
	{`'-Infinity'::float4`, `"-Infinity"`, ""},
	{`'-0'::float8`, `-0`, ""},
	{`'a' || chr(233) || E'\n"\\'`, `"a\u00e9\n\"\\"`, ""},
	{`'ab'::char(4)`, `"ab  "`, "bpchar"},
	{`'ab'::varchar`, `"ab"`, ""},
	{`'x'::"char"`, `"x"`, ""},
	{`'x'::name`, `"x"`, ""},
	{`'2024-02-29'::date`, `"2024-02-29"`, ""},
	{`'infinity'::date`, `"infinity"`, "sql-058"},
	{`'0044-03-15 BC'::date`, `"0044-03-15 BC"`, "sql-058"},
	{`'2024-02-29 12:34:56.789012'::timestamp`, `"2024-02-29T12:34:56.789012"`, ""},
	{`'0001-01-01'::timestamp`, `"0001-01-01T00:00:00"`, "the first year AD"},
	{`'294276-12-31'::timestamp`, `"294276-12-31 00:00:00"`, "sql-058"},
	{`'0044-03-15 BC'::timestamptz`, `"0044-03-15 00:00:00+00 BC"`, ""},
	{`'10000-01-01'::timestamptz`, `"10000-01-01 00:00:00+00"`, ""},
	{`'-infinity'::timestamptz`, `"-infinity"`, "sql-058"},
	{`'2024-02-29 12:34:56+05:30'::timestamptz`, `"2024-02-29T07:04:56Z"`, "the session is UTC"},
	{`'24:00:00'::time`, `"24:00:00"`, "sql-058"},
	{`'12:00:00+05:30'::timetz`, `"12:00:00+05:30"`, ""},
	{`'1 year 2 mons -3 days 04:05:06.7'::interval`, `"P1Y2M-3DT4H5M6.7S"`, ""},
	{`'\x00ff10'::bytea`, `"\\x00ff10"`, "sql-061"},
	{`'\x'::bytea`, `"\\x"`, "sql-061"},
	{`'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid`, `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, ""},
	{`12.34::money`, `"$12.34"`, ""},
	{`'<a>&amp;</a>'::xml`, `"<a>&amp;</a>"`, ""},
	{`'10.0.0.0/8'::inet`, `"10.0.0.0/8"`, ""},
	{`'{"a" : [1,  2.50], "b":"\u00e9"}'::json`, `{"a":[1,2.50],"b":"\u00e9"}`, "white space goes, digits stay"},
	{`'{"a":1,"a":2}'::json`, `"{\"a\":1,\"a\":2}"`, "duplicate key"},
	{`'{"a":1,"a":2}'::jsonb`, `{"a":2}`, "jsonb has none"},
	{`'"\ud800"'::json`, `"\"\\ud800\""`, "json does not check surrogates"},
	{`jsonb_build_object('id', 9007199254740993)`, `"{\"id\": 9007199254740993}"`, "sql-060"},
	{`'[1e2, 1.50]'::jsonb`, `[100,1.50]`, "jsonb writes exponents out"},
	{`'1e20'::jsonb`, `"100000000000000000000"`, "beyond 2^53-1"},
	{`'1e-7'::jsonb`, `0.0000001`, ""},
	{`to_json(chr(8238))`, `"\u202e"`, ""},
	{`'null'::jsonb`, `null`, "JSON's own"},
	{`'{}'::int[]`, `[]`, ""},
	{`ARRAY[[1,2],[3,NULL]]`, `[[1,2],[3,null]]`, "sql-061"},
	{`'[0:1]={1,2}'::int[]`, `"[0:1]={1,2}"`, ""},
	{
		`ARRAY['a','b,c','','NULL',NULL,'null','q"\e',' x','{}',chr(233),chr(11)]`,
		`["a","b,c","","NULL",null,"null","q\"\\e"," x","{}","\u00e9","\u000b"]`, "",
	},
	{`ARRAY[true,false]`, `[true,false]`, ""},
	{`ARRAY[1.5,'NaN']::float8[]`, `[1.5,"NaN"]`, ""},
	{`ARRAY[1.50,2]::numeric[]`, `["1.50","2"]`, ""},
	{`ARRAY['2024-02-29 12:34:56+00','infinity']::timestamptz[]`, `["2024-02-29T12:34:56Z","infinity"]`, ""},
	{`ARRAY['{"a":"x\"y"}','[1e400]','1']::json[]`, `[{"a":"x\"y"},"[1e400]",1]`, ""},
	{`ARRAY['(1,1),(0,0)','(2,2),(1,1)']::box[]`, `["(1,1),(0,0)","(2,2),(1,1)"]`, "typdelim ;"},
	{`ARRAY['\x00'::bytea]`, `["\\x00"]`, ""},
	{`ARRAY[ROW(1,'a b',NULL)]`, `["(1,\"a b\",)"]`, "record[]"},
	{`ARRAY['a'::mood]`, `"{a}"`, "an enum's array is not built in"},
	{`ARRAY[1]::small[]`, `"{1}"`, "nor is a domain's"},
	{`1::small`, `1`, "a domain comes as its base type"},
	{`'a'::mood`, `"a"`, "enum"},
	{`ROW(1,'a b',NULL,ROW(2))`, `"(1,\"a b\",,\"(2)\")"`, "composite"},
	{`'[1,5)'::int4range`, `"[1,5)"`, ""},
	{`'{[1,2),[5,)}'::int4multirange`, `"{[1,2),[5,)}"`, "no array"},
	{`ARRAY['[1,5)'::int4range]`, `["[1,5)"]`, ""},
	{`'1 2'::int2vector`, `"1 2"`, ""},
	{`B'101'`, `"101"`, ""},
	{`'a b'::tsvector`, `"'a' 'b'"`, ""},
	{`point(1,2)`, `"(1,2)"`, ""},
	{`'pg_class'::regclass`, `"pg_class"`, ""},
	{`pg_sleep(0)`, `""`, "void"},
}

func TestAServersValuesAreWrittenByTheRules(t *testing.T) {
	connect := startPostgres(t)
	conn := connect("postgres")
	const setup = `CREATE TYPE mood AS ENUM ('a'); CREATE DOMAIN small AS int4;
		CREATE DATABASE raw ENCODING 'SQL_ASCII' TEMPLATE template0`
	for _, sql := range strings.Split(setup, ";") { // CREATE DATABASE wants no others beside it
		if _, err := conn.Exec(context.Background(), sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range serverCases {
		if got := string(query(t, conn, "SELECT "+c.sql).JSON()); got != "[["+c.want+"]]" {
			t.Errorf("%s (%s): got %s, want [[%s]]", c.sql, c.why, got, c.want)
		}
	}
	if got := string(query(t, conn, "SELECT FROM generate_series(1,2)").JSON()); got != "[[],[]]" {
		t.Errorf("rows without columns: %s", got)
	}

	t.Run("bytes that are no text", func(t *testing.T) {
		e := query(t, connect("raw"),
			`SELECT E'a\xffb', ARRAY[E'\xed\xa0\x80'], '"' || E'\x9b' || '"', ('"' || E'\x9b' || '"')::json`)
		if got := string(e.JSON()); got != `[["a\ufffdb",["\ufffd\ufffd\ufffd"],"\"\ufffd\"","\"\ufffd\""]]` {
			t.Errorf("got %s", got)
		}
	})

	// Of any value, the server's own JSON writer is the reference for the text.
	t.Run("text comes back", func(t *testing.T) {
		e := query(t, conn, `SELECT t, to_json(t), ARRAY[t], ARRAY[[to_json(t)]] FROM (
			SELECT string_agg(chr(c), '') AS t FROM generate_series(1, 66000) c
			WHERE c NOT BETWEEN 55296 AND 57343 GROUP BY c / 50) x LIMIT 1000`)
		var rows [][4]any
		if err := json.Unmarshal(e.JSON(), &rows); err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if r[0] != r[1] || !equal([]any{r[0]}, r[2]) || !equal([]any{[]any{r[0]}}, r[3]) {
				t.Errorf("%q became %q, %q, %q", r[0], r[1], r[2], r[3])
			}
		}
	})

	t.Run("floats come back", func(t *testing.T) {
		e := query(t, conn, `SELECT f, f::text, to_json(f)::text FROM (SELECT setseed(0.5)) s, LATERAL (
			SELECT (random() - 0.5) * 10::float8 ^ (g % 600 - 300) AS f FROM generate_series(1, 900) g) x`)
		var rows [][3]any
		d := json.NewDecoder(bytes.NewReader(e.JSON()))
		d.UseNumber()
		if err := d.Decode(&rows); err != nil || len(rows) != 900 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		texts := 0
		for _, r := range rows {
			if _, ok := r[0].(string); ok {
				texts++
			}
			if fmt.Sprint(r[0]) != r[1] || r[1] != r[2] {
				t.Errorf("%v was %v", r[0], r[1])
			}
		}
		if texts > 0 {
			t.Errorf("%d of %d common floats are strings", texts, len(rows))
		}
	})

	// The whole type system: what is in pg_type under a fixed oid is in the table, and nothing else is.
	t.Run("types", func(t *testing.T) {
		e := query(t, conn, `SELECT t.oid, CASE WHEN a.oid IS NULL THEN t.typname ELSE a.typname || '[]' END,
				COALESCE(a.typdelim, ',')
			FROM pg_type t LEFT JOIN pg_type a ON a.typarray = t.oid
			WHERE t.oid < 10000 AND t.typrelid = 0 AND COALESCE(a.typrelid, 0) = 0
				AND (t.typtype <> 'p' OR t.oid IN (705, 2249, 2275, 2277, 2278, 2287, 1263))`)
		var rows [][3]any
		if err := json.Unmarshal(e.JSON(), &rows); err != nil {
			t.Fatal(err)
		}
		names := map[uint32]string{}
		for _, r := range rows {
			names[uint32(r[0].(float64))] = r[1].(string)
			if (r[2] == ";") != (r[1] == "box[]") || r[2] != ";" && r[2] != "," {
				t.Errorf("%v is delimited by %v", r[1], r[2])
			}
		}
		for oid := range uint32(20000) {
			if got := rowjson.TypeName(oid); got != names[oid] {
				t.Errorf("type %d is %q, on the server %q", oid, got, names[oid])
			}
		}
		if len(names) < 150 {
			t.Errorf("the server has %d types only", len(names))
		}
	})
}
