package pgpolicy

import (
	"context"
	"fmt"
	"testing"

	"mcp-server-suite/pkg/problem"
)

// listed is a policy with every form of entry.
var listed = Settings{
	AllowRelations: []string{"open.*", "app.orders", "app.users(id, name)", `"Sales Data"."Order Lines"("Line No")`, "open.limited(a, b)"},
	SearchPath:     []string{"app", "open"},
}

func TestOnlyListedRelationsAreReadAndAreWrittenOut(t *testing.T) {
	p := newPolicy(t, listed)
	for _, c := range []struct {
		name, sql, want, why string
	}{
		{"qualified", "SELECT * FROM app.orders", "SELECT * FROM app.orders LIMIT 51", ""},
		{"by the search path", "SELECT * FROM orders o", "SELECT * FROM app.orders o LIMIT 51", ""},
		{"whole schema", "SELECT * FROM open.x", "SELECT * FROM open.x LIMIT 51", ""},
		{"second of the path", "SELECT * FROM x", "SELECT * FROM open.x LIMIT 51", "app has no entry for x"},
		{"columns", "SELECT * FROM users", "SELECT * FROM (SELECT id, name FROM app.users) users LIMIT 51", ""},
		{
			"columns with an alias", "SELECT u.id FROM app.users AS u(i, n)",
			"SELECT u.id FROM (SELECT id, name FROM app.users) u(i, n) LIMIT 51", "",
		},
		{"columns with ONLY", "SELECT 1 FROM ONLY users", "SELECT 1 FROM (SELECT id, name FROM ONLY app.users) users LIMIT 51", ""},
		{
			"columns in a join", "SELECT * FROM users JOIN orders USING (id)",
			"SELECT * FROM (SELECT id, name FROM app.users) users JOIN app.orders USING (id) LIMIT 51", "",
		},
		{
			"columns in a sublink", "SELECT (SELECT max(id) FROM users)",
			"SELECT (SELECT pg_catalog.max(id) FROM (SELECT id, name FROM app.users) users) LIMIT 51", "",
		},
		{"exact entry before the schema", "TABLE open.limited", "SELECT * FROM (SELECT a, b FROM open.limited) limited LIMIT 51", ""},
		{
			"quoted", `SELECT * FROM "Sales Data"."Order Lines"`,
			`SELECT * FROM (SELECT "Line No" FROM "Sales Data"."Order Lines") "Order Lines" LIMIT 51`, "",
		},
		{
			"what we write, sent again", "SELECT * FROM (SELECT id, name FROM app.users) users",
			"SELECT * FROM (SELECT id, name FROM app.users) users LIMIT 51", "",
		},
		{
			"nearly what we write", "SELECT * FROM (SELECT id, password FROM app.users) users",
			"SELECT * FROM (SELECT id, password FROM (SELECT id, name FROM app.users) users) users LIMIT 51",
			"password is no column of the inner SELECT: the server refuses it",
		},
		{
			"nearly what we write, with a condition", "SELECT * FROM (SELECT id, name FROM app.users WHERE password = 'x') users",
			"SELECT * FROM (SELECT id, name FROM (SELECT id, name FROM app.users) users WHERE password = 'x') users LIMIT 51", "",
		},
		{"sample of columns", "SELECT * FROM users TABLESAMPLE system (1)", "", "TABLESAMPLE takes tables alone"},
		{"sample", "SELECT * FROM orders TABLESAMPLE system (1)", "SELECT * FROM app.orders TABLESAMPLE system(1) LIMIT 51", ""},
		{"not listed", "SELECT * FROM secret.x", "", ""},
		{"not listed, in a listed schema's neighbour", "SELECT * FROM app.secrets", "", ""},
		{"other case", `SELECT * FROM app."Orders"`, "", "another table"},
		{"public", "SELECT * FROM public.orders", "", ""},
		{"information_schema", "SELECT 1 FROM information_schema.tables", "SELECT 1 FROM information_schema.tables LIMIT 51", ""},
		{
			"information_schema's expressions", "SELECT column_default FROM information_schema.columns",
			"SELECT column_default FROM (SELECT table_catalog, table_schema, table_name, column_name, ordinal_position, " +
				"is_nullable, data_type, character_maximum_length, numeric_precision, numeric_scale, datetime_precision, " +
				"udt_schema, udt_name, is_identity, is_generated FROM information_schema.columns) columns LIMIT 51",
			"column_default is not there: the server refuses it",
		},
		{"information_schema, other", "SELECT 1 FROM information_schema.views", "", ""},
		{"catalog", "SELECT 1 FROM pg_class", "", ""},

		// Names of WITH.
		{"with", "WITH s AS (SELECT 1) SELECT * FROM s", "WITH s AS (SELECT 1) SELECT * FROM s LIMIT 51", ""},
		{
			"with hides a relation", "WITH users AS (SELECT 1 AS password) SELECT password FROM users",
			"WITH users AS (SELECT 1 AS password) SELECT password FROM users LIMIT 51", "",
		},
		{"with under a schema is the relation", "WITH x AS (SELECT 1) SELECT * FROM app.secrets, x", "", ""},
		{
			"itself, not recursive", "WITH secrets AS (SELECT * FROM secrets) SELECT * FROM secrets",
			"WITH secrets AS (SELECT * FROM open.secrets) SELECT * FROM secrets LIMIT 51", "the inner one is the table",
		},
		{
			"itself, not recursive, listed", "WITH orders AS (SELECT * FROM orders) SELECT * FROM orders",
			"WITH orders AS (SELECT * FROM app.orders) SELECT * FROM orders LIMIT 51", "",
		},
		{
			"itself, recursive", "WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT 1 FROM r) SELECT * FROM r",
			"WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT 1 FROM r) SELECT * FROM r LIMIT 51", "",
		},
		{
			"a later sibling", "WITH a AS (SELECT * FROM secrets), secrets AS (SELECT 1) SELECT * FROM a",
			"WITH a AS (SELECT * FROM open.secrets), secrets AS (SELECT 1) SELECT * FROM a LIMIT 51", "not visible yet",
		},
		{
			"a later sibling, recursive", "WITH RECURSIVE a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a",
			"WITH RECURSIVE a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a LIMIT 51", "the server sorts them",
		},
		{
			"an earlier sibling", "WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT * FROM b",
			"WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT * FROM b LIMIT 51", "",
		},
		{
			"after its statement", "SELECT * FROM (WITH secrets AS (SELECT 1) TABLE secrets) q, secrets",
			"SELECT * FROM (WITH secrets AS (SELECT 1) SELECT * FROM secrets) q, open.secrets LIMIT 51", "it has ended",
		},
		{
			"in an inner statement", "WITH s AS (SELECT 1) SELECT (SELECT count(*) FROM s), ARRAY(SELECT * FROM (SELECT * FROM s) q)",
			"WITH s AS (SELECT 1) SELECT (SELECT pg_catalog.count(*) FROM s), ARRAY(SELECT * FROM (SELECT * FROM s) q) LIMIT 51", "",
		},
		{
			"in both branches", "WITH s AS (SELECT 1) SELECT * FROM s UNION SELECT * FROM s",
			"WITH s AS (SELECT 1) SELECT * FROM s UNION SELECT * FROM s LIMIT 51", "",
		},
		{
			"of one branch", "(WITH secrets AS (SELECT 1) TABLE secrets) UNION TABLE secrets",
			"(WITH secrets AS (SELECT 1) SELECT * FROM secrets) UNION SELECT * FROM open.secrets LIMIT 51",
			"the other does not see it",
		},
		{"explain", "EXPLAIN SELECT * FROM users", "EXPLAIN SELECT * FROM (SELECT id, name FROM app.users) users", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := p.Approve(context.Background(), c.sql, 50)
			if c.want == "" {
				if got := reason(t, err); got != problem.UnsafeQuery {
					t.Errorf("%s: %v (%s)", a.Text(), err, c.why)
				}
				return
			}
			if err != nil || a.Text() != c.want {
				t.Errorf("%v\n got %s\nwant %s", err, a.Text(), c.want)
			}
		})
	}
}

func TestTheOperatorsFunctionsAndTypesAreTakenAsWritten(t *testing.T) {
	p := newPolicy(t, Settings{
		AllowFunctions: []string{"app.fn", `"App".fn2`, "app.lower"}, AllowTypes: []string{"hstore", "geo.geometry"},
	})
	for sql, want := range map[string]problem.Reason{
		"SELECT app.fn(1)":                    "",
		`SELECT "App".fn2(1)`:                 "",
		"SELECT app.fn2(1)":                   problem.UnsafeQuery,
		"SELECT fn(1)":                        problem.UnsafeQuery,
		"SELECT other.fn(1)":                  problem.UnsafeQuery,
		"SELECT app.fn(pg_sleep(1))":          problem.UnsafeQuery,
		"SELECT lower('A')":                   "",
		"SELECT app.lower('A')":               "",
		"SELECT 'a=>1'::hstore":               "",
		"SELECT 'a=>1'::public.hstore":        problem.UnsafeQuery,
		"SELECT NULL::geo.geometry(Point, 4)": "",
		"SELECT NULL::geometry":               problem.UnsafeQuery,
	} {
		if a, err := p.Approve(context.Background(), sql, 50); reason(t, err) != want {
			t.Errorf("%s: %v %s, want %q", sql, err, a.Text(), want)
		}
	}
	a, err := p.Approve(context.Background(), "SELECT lower('A')", 50)
	if want := "SELECT pg_catalog.lower('A') LIMIT 51"; err != nil || a.Text() != want {
		t.Errorf("%s, %v; want %s", a.Text(), err, want)
	}
}

func TestRecursionCanBeSwitchedOff(t *testing.T) {
	p := newPolicy(t, Settings{NoRecursive: true})
	for sql, want := range map[string]problem.Reason{
		"WITH RECURSIVE r AS (SELECT 1) SELECT * FROM r":              problem.UnsafeQuery,
		"SELECT (WITH RECURSIVE r AS (SELECT 1) SELECT * FROM r)":     problem.UnsafeQuery,
		"WITH r AS (SELECT 1) SELECT * FROM r":                        "",
		"SELECT recursive FROM (SELECT 1 AS recursive) AS x":          "",
		"SELECT * FROM (WITH RECURSIVE r AS (SELECT 1) TABLE r) AS q": problem.UnsafeQuery,
	} {
		if _, err := p.Approve(context.Background(), sql, 50); reason(t, err) != want {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func TestSettingsThatMakeNoSenseAreNamed(t *testing.T) {
	for _, c := range []struct {
		s   Settings
		why string
	}{
		{Settings{AllowFunctions: []string{"fn"}}, "no schema"},
		{Settings{AllowFunctions: []string{"a.b.c"}}, "three parts"},
		{Settings{AllowFunctions: []string{"App.fn"}}, "upper case without quotes never matches"},
		{Settings{AllowFunctions: []string{"pg_catalog.pg_sleep"}}, "the system's"},
		{Settings{AllowFunctions: []string{"a.b()"}}, "brackets"},
		{Settings{AllowFunctions: []string{""}}, "empty"},
		{Settings{AllowFunctions: []string{`"a.b`}}, "open quote"},
		{Settings{AllowTypes: []string{"pg_catalog.regclass"}}, "the system's"},
		{Settings{AllowTypes: []string{"a.b.c"}}, "three parts"},
		{Settings{AllowRelations: []string{"t"}}, "no schema"},
		{Settings{AllowRelations: []string{"*.*"}}, "no schema"},
		{Settings{AllowRelations: []string{"a.*", "a.*"}}, "twice"},
		{Settings{AllowRelations: []string{"a.t", "a.t(b)"}}, "twice, and different"},
		{Settings{AllowRelations: []string{"a.t(b"}}, "not closed"},
		{Settings{AllowRelations: []string{"a.t(b,)"}}, "empty column"},
		{Settings{AllowRelations: []string{"a.t()"}}, "no column"},
		{Settings{AllowRelations: []string{"a.t(b,b)"}}, "a column twice"},
		{Settings{AllowRelations: []string{"a.t(b) x"}}, "text behind"},
		{Settings{AllowRelations: []string{"pg_catalog.pg_class"}}, "the system's"},
		{Settings{AllowRelations: []string{"information_schema.*"}}, "the system's"},
		{Settings{SearchPath: []string{"pg_catalog"}}, "first by itself"},
		{Settings{SearchPath: []string{"pg_temp"}}, "the system's"},
		{Settings{SearchPath: []string{""}}, "empty"},
		{Settings{CacheBytes: -1}, "negative"},
	} {
		if _, err := New(c.s); err == nil {
			t.Errorf("%+v: accepted (%s)", c.s, c.why)
		}
	}
}

func TestVisibleIsWhatAStatementMayRead(t *testing.T) {
	t.Parallel()
	bounded := newPolicy(t, Settings{AllowRelations: []string{"app.*", "app.users(id, name)", "other.t"}})
	for _, c := range []struct {
		schema, table, want string
		p                   *Policy
	}{
		{"app", "users", "[id name] true", bounded},
		{"app", "orders", "[] true", bounded},
		{"other", "t", "[] true", bounded},
		{"other", "u", "[] false", bounded},
		{"pg_catalog", "pg_class", "[] false", bounded},
		{"information_schema", "tables", "[] false", bounded},
		{"any", "t", "[] true", newPolicy(t, Settings{})},
		{"pg_catalog", "pg_class", "[] false", newPolicy(t, Settings{})},
	} {
		columns, ok := c.p.Visible(c.schema, c.table)
		if got := fmt.Sprintf("%v %t", columns, ok); got != c.want {
			t.Errorf("%s.%s: %s, want %s", c.schema, c.table, got, c.want)
		}
	}
}
