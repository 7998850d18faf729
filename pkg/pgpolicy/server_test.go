package pgpolicy

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"mcp-server-suite/pkg/pgstage"
)

// servers runs a test on the installed PostgreSQL and, where there is one, on a newer major version.
func servers(t *testing.T, f func(t *testing.T, s *pgstage.Server)) {
	t.Helper()
	t.Run("installed", func(t *testing.T) { f(t, pgstage.Shared(t)) })
	t.Run("second", func(t *testing.T) { f(t, pgstage.Start(t, pgstage.Options{Bin: pgstage.Second(t)})) })
}

// since are the functions of functions.txt that not every supported version has: those of groups that say so.
func since() map[string]bool {
	set, newer := map[string]bool{}, false
	for line := range strings.Lines(functionsText) {
		if strings.HasPrefix(line, "#") {
			newer = strings.Contains(line, "since 1")
			continue
		}
		for name := range strings.FieldsSeq(line) {
			if newer {
				set[name] = true
			}
		}
	}
	return set
}

func TestAllowedFunctionsAreWhatTheListSays(t *testing.T) {
	allowed, newer := words(functionsText), since()
	// Reviewed: they tell the time or draw lots.
	volatile := strings.Fields("array_sample array_shuffle clock_timestamp gen_random_uuid random random_normal timeofday " +
		"uuidv4 uuidv7")
	servers(t, func(t *testing.T, s *pgstage.Server) {
		seen := map[string]bool{}
		for _, row := range s.Query(t, "postgres", `SELECT proname, provolatile, prosecdef, prokind, oid::regprocedure::text,
			EXISTS (SELECT 1 FROM unnest(proargtypes || prorettype) t WHERE t::regtype::text
				IN ('internal', 'cstring', 'trigger', 'event_trigger', 'void', 'opaque') OR t::regtype::text LIKE '%_handler')
			FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace`) {
			name, signature := row[0], row[4]
			if !allowed[name] {
				continue
			}
			seen[name] = true
			if row[1] == "v" && !slices.Contains(volatile, name) {
				t.Errorf("%s is VOLATILE", signature)
			}
			if row[2] != "f" || row[3] == "p" || row[5] != "f" {
				t.Errorf("%s: security definer %s, kind %s, internal %s", signature, row[2], row[3], row[5])
			}
		}
		for _, name := range slices.Sorted(maps.Keys(allowed)) {
			if !seen[name] && (s.Version >= 18 || !newer[name]) {
				t.Errorf("PostgreSQL %d has no %s", s.Version, name)
			}
		}
		t.Logf("PostgreSQL %d has %d of %d", s.Version, len(seen), len(allowed))
	})
}

// TestColumnNotationReachesNoOtherFunction: whatever the server would call for (x).f is allowed, IMMUTABLE, or refused.
func TestColumnNotationReachesNoOtherFunction(t *testing.T) {
	r, err := Settings{}.rules()
	if err != nil {
		t.Fatal(err)
	}
	w := walker{rules: r}
	servers(t, func(t *testing.T, s *pgstage.Server) {
		n := 0
		for _, row := range s.Query(t, "postgres", `SELECT DISTINCT proname FROM pg_proc
			WHERE pronamespace = 'pg_catalog'::regnamespace AND (provolatile <> 'i' OR proname LIKE 'reg%send') AND prokind <> 'p'
			AND pronargs >= 1 AND pronargs - pronargdefaults <= 1
			AND NOT proargtypes::regtype[]::text[] && '{internal,trigger,event_trigger}'
			AND NOT (proname NOT LIKE 'reg%' AND ('cstring'::regtype IN (prorettype, proargtypes[0])
				OR prorettype = 'bytea'::regtype AND proname LIKE '%send'))`) {
			n++
			// xml is refused after an expression; t.xml has to stay.
			if name := row[0]; name != "xml" && !r.functions[name] && w.columnNotation(name) == nil {
				t.Errorf("(x).%s would be called", name)
			}
		}
		for _, row := range s.Query(t, "postgres", `SELECT typname FROM pg_type WHERE typname LIKE 'reg%' AND typtype = 'b'
			AND typnamespace = 'pg_catalog'::regnamespace`) {
			if w.columnNotation(row[0]) == nil {
				t.Errorf("(x).%s would be cast", row[0])
			}
			n++
		}
		if n < 200 {
			t.Errorf("only %d functions", n)
		}
	})
}

func TestTheServerCallsFunctionsInColumnNotation(t *testing.T) {
	// Why columnNotation is there. Should a version stop doing this, the rule may go.
	servers(t, func(t *testing.T, s *pgstage.Server) {
		for _, sql := range []string{
			"SELECT ('PG_VERSION'::text).pg_read_file",
			"SELECT g.pg_read_file FROM unnest(ARRAY['PG_VERSION']) g",
		} {
			if rows := s.Query(t, "postgres", sql); len(rows) != 1 || strings.TrimSpace(rows[0][0]) == "" {
				t.Errorf("%s: %q", sql, rows)
			}
			if _, err := newPolicy(t, Settings{}).Approve(context.Background(), sql, 50); err == nil {
				t.Errorf("%s: accepted", sql)
			}
		}
	})
}

func TestBuiltInTypesExist(t *testing.T) {
	servers(t, func(t *testing.T, s *pgstage.Server) {
		seen := map[string]bool{}
		for _, row := range s.Query(t, "postgres", "SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace") {
			seen[row[0]] = true
		}
		for name := range words(builtinTypes) {
			if !seen[name] {
				t.Errorf("there is no type %s", name)
			}
		}
	})
}

func TestTheRegeneratedTextGivesTheSameRows(t *testing.T) {
	servers(t, func(t *testing.T, s *pgstage.Server) {
		dsn := s.DSN(s.Database(t, setup),
			"postgres", "", true)
		p := newPolicy(t, Settings{})
		compared := 0
		for _, sql := range append(everyday(t),
			"SELECT a, lag(a) OVER (ORDER BY a), sum(c) OVER (PARTITION BY a % 3 ORDER BY a) FROM t ORDER BY a",
			"SELECT a % 3, count(*), max(b), array_agg(a ORDER BY a DESC) FROM t GROUP BY ROLLUP (1) ORDER BY 1, 2",
			"SELECT b FROM t WHERE b LIKE 'n1%' ORDER BY b COLLATE \"C\" DESC",
			"SELECT j->>'a', (j->'a')::int + 1, tags[2], u.tag, u.n FROM t, unnest(t.tags) WITH ORDINALITY AS u(tag, n) ORDER BY a, n",
			"SELECT a FROM t ORDER BY a LIMIT 3 OFFSET 2",
			"SELECT (SELECT max(a) FROM t) - a, -a ^ 2, (-a) ^ 2, a - (a - 1), NOT a > 3 OR b = 'n1' AND a < 9 FROM t ORDER BY a") {
			a, err := p.Approve(context.Background(), sql, 1000)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(sql, "WITH TIES") {
				continue // the cap takes its place (seed 000)
			}
			theirs, err := pgstage.QueryAt(dsn, sql)
			if err != nil {
				continue // a table that is not there; or a version that does not know the syntax
			}
			if again, err := pgstage.QueryAt(dsn, sql); err != nil || !equalRows(theirs, again) {
				continue // the time
			}
			ours, err := pgstage.QueryAt(dsn, a.Text())
			if err != nil || !equalRows(theirs, ours) {
				t.Errorf("%s\n%s\n%v\n got %q\nwant %q", sql, a.Text(), err, ours, theirs)
			}
			compared++
		}
		if compared < 100 {
			t.Errorf("only %d statements compared", compared)
		}
		t.Logf("PostgreSQL %d: %d statements compared", s.Version, compared)
	})
}

// setup makes the tables that the everyday statements ask for most.
const setup = `CREATE TABLE t (a int, b text, c numeric, tags text[], j jsonb);
INSERT INTO t SELECT g, 'n' || g, g / 7.0, ARRAY['x', g::text], jsonb_build_object('a', g) FROM generate_series(1, 40) g;
CREATE TABLE customers (id int, customer_id int, region text, name text);
INSERT INTO customers SELECT g, g, CASE g % 3 WHEN 0 THEN 'EU' ELSE 'US' END, 'c' || g FROM generate_series(1, 9) g;
CREATE TABLE orders (id int, customer_id int, total numeric, quantity int, region text, status text, created_at timestamptz,
	d int, a float8, b float8, x float8, y float8, start_date date, end_date date);
INSERT INTO orders SELECT g, g % 7 + 1, g * 1.5, g % 4, CASE g % 3 WHEN 0 THEN 'EU' ELSE 'US' END,
	CASE g % 2 WHEN 0 THEN 'paid' ELSE 'sent' END, '2024-01-01'::timestamptz + g * interval '5 days', g, g, g % 5, g, g % 6,
	'2024-01-01', '2024-02-01' FROM generate_series(1, 60) g;
CREATE TABLE users (id int, name text, email text, first text, last text, tags text, active bool, flags int, created_at timestamptz);
INSERT INTO users SELECT g, 'Ann ' || g, 'a' || g || '@b.c', 'Ann', 'B' || g, 'x,y', g % 2 = 0, g, '2024-01-01'
	FROM generate_series(1, 20) g;
CREATE TABLE docs (id int, data jsonb);
INSERT INTO docs SELECT g, jsonb_build_object('a', g, 'list', '[1,2]'::jsonb, 'items', '[{"name":"n","price":12}]'::jsonb)
	FROM generate_series(1, 5) g;
CREATE TABLE posts (id int, body text, tags text[]);
INSERT INTO posts SELECT g, 'the cat and the dog ' || g, ARRAY['a', 'b', 'c'] FROM generate_series(1, 5) g;
CREATE TABLE nodes (id int, parent_id int, name text);
INSERT INTO nodes SELECT g, nullif(g / 2, 0), 'n' || g FROM generate_series(1, 15) g;
CREATE TABLE edges (src int, dst int);
INSERT INTO edges VALUES (1, 2), (2, 3), (3, 1);
CREATE TABLE flags (a int, b int); INSERT INTO flags VALUES (6, 3);`

func equalRows(a, b [][]string) bool { return slices.EqualFunc(a, b, slices.Equal[[]string]) }
