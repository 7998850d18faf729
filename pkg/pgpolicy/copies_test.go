package pgpolicy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcp-server-suite/pkg/pgstage"

	"github.com/jackc/pgx/v5/pgconn"
	pg "github.com/pganalyze/pg_query_go/v6"
	"golang.org/x/sys/unix"
)

// cost is what a statement is estimated at.
func cost(t testing.TB, p *Policy, sql string) float64 {
	t.Helper()
	tree, err := parse(sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	e := expander{rules: p.rules, bound: map[*pg.WithClause]*named{}}
	return e.cost(tree.Stmts[0].GetStmt().GetSelectStmt())
}

// steps say how one level reads the one below, $q. r is what the level's own column is called by the next one; $r is what
// the one below is called.
var steps = []struct {
	name   string
	most   int // levels that are accepted; one more is refused. 0: as many as 30 are
	sql, r string
}{
	{"greatest", 17, `SELECT greatest($r, $r) AS x FROM ($q) t`, `x`},
	{"unnamed greatest", 17, `SELECT greatest($r, $r) FROM ($q) t`, `"greatest"`},
	{"unnamed least", 17, `SELECT least($r, t.$r) FROM ($q) t`, `"least"`},
	{"unnamed coalesce", 16, `SELECT coalesce($r + 1, $r) FROM ($q) t`, `"coalesce"`},
	{"unnamed nullif", 16, `SELECT nullif($r, $r + 1) FROM ($q) t`, `"nullif"`},
	{"unnamed sum", 17, `SELECT $r + $r FROM ($q) t`, `"?column?"`},
	{"unnamed case", 15, `SELECT CASE WHEN $r > 0 THEN $r END FROM ($q) t`, `"case"`},
	{"unnamed case that hands on", 10, `SELECT CASE WHEN $r > 0 THEN 1 ELSE greatest($r, $r) END FROM ($q) t`, `"greatest"`},
	{"unnamed cast", 16, `SELECT ($r + $r)::numeric FROM ($q) t`, `"numeric"`},
	{"unnamed array", 16, `SELECT (ARRAY[$r, $r])[1] FROM ($q) t`, `"array"`},
	{"unnamed sublink", 6, `SELECT (SELECT least($r, $r)) FROM ($q) t`, `"least"`},
	{"unnamed sublink of a sum", 6, `SELECT (SELECT $r + $r) FROM ($q) t`, `"?column?"`},
	{"unnamed field", 16, `SELECT (ROW($r, $r)).f2 FROM ($q) t`, `f2`},
	{"unnamed function", 16, `SELECT power($r, $r) FROM ($q) t`, `"power"`},
	{"simple case", 15, `SELECT CASE $r WHEN 1 THEN $r ELSE 2 END AS x FROM ($q) t`, `x`},
	{"tiers", 7, `SELECT CASE WHEN $r > 1000 THEN $r * 0.9 WHEN $r > 100 THEN $r * 0.95 ELSE $r END AS x FROM ($q) t`, `x`},
	{"renamed star", 16, `SELECT 1 AS a1, b + b AS b1 FROM (SELECT * FROM (SELECT 1 AS o, $r AS p FROM ($q) s) u) t(a, b)`, `b1`},
	{"star", 0, `SELECT t.* FROM (SELECT u.* FROM ($q) u) t`, ``},
	{"star beside a table", 0, `SELECT b + b AS x FROM (SELECT s.*, v.* FROM station s, ($q) v LIMIT ALL) t(i, n, b)`, `x`},
	{"whole row", 10, `SELECT CASE WHEN t = t THEN $r ELSE 1 END AS x FROM ($q) t`, `x`},
	{"whole row by a star", 7, `SELECT CASE WHEN ROW(t.*, t.*) < ROW(t.*, t.*) THEN $r ELSE 1 END AS x FROM ($q) t`, `x`},
	{"fields of a row", 15, `SELECT num_nulls((ROW(1, $r, 3)).f1, (ROW($r)).f1) AS x FROM ($q) t`, `x`},
	{"stars of a row", 9, `SELECT CASE WHEN ROW((ROW(1, $r, 2)).*) IS NULL THEN 1 END AS x FROM ($q) t`, `x`},
	{"between", 15, `SELECT ($r BETWEEN 1 AND 2)::int AS x FROM ($q) t`, `x`},
	{"between symmetric", 8, `SELECT ($r BETWEEN SYMMETRIC 1 AND 2)::int AS x FROM ($q) t`, `x`},
	{"nested between", 5, `SELECT (coalesce(coalesce($r > 1) BETWEEN SYMMETRIC false AND true) BETWEEN false AND true)::int AS x FROM ($q) t`, `x`},
	{"in", 7, `SELECT ($r IN (1, $r, 3, $r + 1))::int AS x FROM ($q) t`, `x`},
	{"in arrays", 8, `SELECT (ARRAY[$r] IN ('{1}', '{2}', '{3}', '{4}'))::int AS x FROM ($q) t`, `x`},
	{"in rows", 9, `SELECT (($r, 1) IN ((1, 1), (2, 2), (3, 3)))::int AS x FROM ($q) t`, `x`},
	{"overlaps", 13, `SELECT CASE WHEN (now(), make_interval(days => $r::int)) OVERLAPS (now(), interval '1 day') THEN 1 END AS x FROM ($q) t`, `x`},
	{"condition", 0, `SELECT $r AS x FROM ($q) t WHERE $r > 1`, `x`},
	{"conditions", 0, `SELECT $r AS x FROM ($q) t WHERE $r > 1 OR $r = 0 OR NOT ($r < 2 AND $r <> 7)`, `x`},
	{"distinct", 0, `SELECT DISTINCT $r AS x FROM ($q) t`, `x`},
	{"group by", 0, `SELECT $r AS x, count(*) FROM ($q) t GROUP BY 1 HAVING $r > 1`, `x`},
	{"group by an expression", 0, `SELECT $r + 1 AS x FROM ($q) t GROUP BY $r + 1, $r`, `x`},
	{"grouping sets", 0, `SELECT $r AS x FROM ($q) t GROUP BY ROLLUP ($r, ($r + 1))`, `x`},
	{"order by", 0, `SELECT $r AS x FROM ($q) t ORDER BY $r, $r + 1`, `x`},
	{"window", 0, `SELECT $r AS x, row_number() OVER (PARTITION BY $r ORDER BY $r + 1) FROM ($q) t`, `x`},
	{"named window", 0, `SELECT $r AS x, rank() OVER w, sum($r) OVER w FROM ($q) t WINDOW w AS (PARTITION BY $r)`, `x`},
	{"aggregate", 0, `SELECT sum($r) AS x, max($r), min($r + 1) FROM ($q) t`, `x`},
	{"union all", 0, `SELECT $r AS x FROM ($q) t UNION ALL SELECT 1`, `x`},
	{"union", 0, `SELECT 1 AS x UNION SELECT $r FROM ($q) t`, `x`},
	{"limit", 0, `SELECT $r AS x FROM ($q) t LIMIT 3`, `x`},
	{"offset", 0, `SELECT $r AS x FROM ($q) t OFFSET 0`, `x`},
	{"with", 0, `WITH c AS ($q) SELECT $r AS x FROM c`, `x`},
	{"with a list", 17, `WITH c(v) AS ($q) SELECT v + v AS x FROM c`, `x`},
	{"with twice", 0, `WITH c AS ($q) SELECT a.$r AS x FROM c a JOIN c b ON a.$r = b.$r`, `x`},
	{"with not materialized", 9, `WITH c AS NOT MATERIALIZED ($q) SELECT a.$r + b.$r AS x FROM c a, c b`, `x`},
	{"with materialized", 0, `WITH c AS MATERIALIZED ($q) SELECT a.$r AS x FROM c a`, `x`},
	{"with recursive", 0, `WITH RECURSIVE c(n) AS (SELECT $r FROM ($q) t UNION ALL SELECT n + 1 FROM c WHERE n < 3) SELECT n AS x FROM c`, `x`},
	{"join", 0, `SELECT $r AS x FROM ($q) t JOIN station s ON s.id = t.$r`, `x`},
	{"joins", 20, `SELECT $r AS x FROM ($q) t JOIN station s ON s.id = $r JOIN station u ON u.id = $r JOIN station v ON v.id = s.id`, `x`},
	{"left join", 21, `SELECT $r AS x FROM station s LEFT JOIN ($q) t ON s.id = t.$r`, `x`},
	{"left join before", 0, `SELECT $r AS x FROM ($q) t LEFT JOIN (SELECT id AS other FROM station) s ON s.other > $r`, `x`},
	{"cross joins", 0, `SELECT t.$r AS x FROM ($q) t CROSS JOIN (SELECT 1) a CROSS JOIN (SELECT 2) b CROSS JOIN (SELECT 3) c`, `x`},
	{"subqueries beside", 0, `SELECT t.$r AS x FROM ($q) t, (SELECT 1) a, (SELECT 2) b, (VALUES (3)) c`, `x`},
	{"full join using", 0, `SELECT y AS x FROM (SELECT $r AS y FROM ($q) s) t FULL JOIN (SELECT id AS y FROM station) u USING (y)`, `x`},
	{"natural join", 0, `SELECT coalesce(y, 1) AS x FROM (SELECT $r AS y FROM ($q) s) t NATURAL FULL JOIN (SELECT id AS y FROM station) u`, `x`},
	{"join with names", 16, `SELECT j.b + j.b AS x FROM (($q) t(a) JOIN (SELECT 2, 1) u(c, d) ON true) AS j(b)`, `x`},
	{"lateral", 16, `SELECT y AS x FROM ($q) t, LATERAL (SELECT t.$r + t.$r AS y) l`, `x`},
	{"lateral function", 0, `SELECT $r + g AS x FROM ($q) t, generate_series(1, $r::int) g`, `x`},
	{"exists", 28, `SELECT $r AS x FROM ($q) t WHERE EXISTS (SELECT 1 FROM station s WHERE s.id = $r)`, `x`},
	{"in a subquery", 19, `SELECT $r AS x FROM ($q) t WHERE $r IN (SELECT id FROM station) AND $r NOT IN (SELECT 2)`, `x`},
	{"sublink", 4, `SELECT (SELECT count(*) FROM station s WHERE s.id = $r OR s.id = $r + 1) AS x FROM ($q) t`, `x`},
	{"sublink twice", 8, `SELECT y + y AS x FROM (SELECT (SELECT max(id) FROM station) + $r AS y FROM ($q) s) t`, `x`},
}

// layer puts one level over another.
func layer(step int, below, column string) (sql, itsColumn string) {
	s := steps[step]
	sql = strings.NewReplacer("$q", below, "$r", column).Replace(s.sql)
	if s.r == "" {
		return sql, column
	}
	return sql, s.r
}

// nested puts levels of the steps over each other for as long as the estimator lets them pass, at most n.
func nested(t testing.TB, p *Policy, n int, next func() int) (sql string, levels int) {
	t.Helper()
	sql, column := "SELECT id AS x FROM station", "x"
	for ; levels < n; levels++ {
		more, name := layer(next(), sql, column)
		if _, err := p.Approve(context.Background(), more, 50); err != nil {
			break
		}
		sql, column = more, name
	}
	return sql, levels
}

func TestLayersAreRefusedFromTheLevelThatIsTooMuch(t *testing.T) {
	p := newPolicy(t, Settings{})
	for i, s := range steps {
		sql, column := "SELECT id AS x FROM station", "x"
		for n := range 30 {
			sql, column = layer(i, sql, column)
			_, err := p.Approve(context.Background(), sql, 50)
			if s.most > 0 && n == s.most {
				if reason(t, err) != violates || !strings.Contains(err.Error(), "several times") {
					t.Errorf("%s: %d levels: %v", s.name, n+1, err)
				}
				break
			}
			if err != nil && s.most == 0 && strings.Contains(err.Error(), "constant expressions") {
				break // a + b is taken for a text as long as both
			}
			if err != nil {
				t.Errorf("%s: %d levels: %v", s.name, n+1, err)
				break
			}
		}
	}
}

func TestWhatAnAttackerHasNestedIsRefused(t *testing.T) {
	p := newPolicy(t, Settings{})
	repeated := func(n int, seed, step string) string {
		for range n {
			seed = strings.ReplaceAll(step, "$", seed)
		}
		return seed
	}
	for _, c := range []struct{ name, sql, why string }{
		{
			"whole rows", "SELECT count(x::text) FROM (" + repeated(21, "SELECT id AS x FROM station", "SELECT greatest(t, t) AS x FROM ($) t") + ") z",
			"a relation's name is all of its columns",
		},
		{
			"rows of stars", repeated(19, "SELECT id AS x FROM station", "SELECT ROW(t.*, t.*) AS x FROM ($) t"), "",
		},
		{
			"in one expression", "SELECT " + repeated(12, "true", "coalesce($ BETWEEN SYMMETRIC false AND true)"), "four copies each",
		},
		{
			"in a list", "SELECT count(" + repeated(10, "herons", "CASE WHEN $ IN (id, station_id, herons, id + 1) THEN 1 END") + ") FROM sighting", "",
		},
		{
			"fields of a row", "SELECT " + repeated(10, "ROW(1, 2, 3, 4)", "ROW(($).*)"), "as many copies as there are columns",
		},
		{
			"joins beside", "SELECT x FROM (" + repeated(5, "SELECT id AS x FROM station",
				"SELECT CASE WHEN x > 1000 THEN x * 0.9 WHEN x > 100 THEN x * 0.95 ELSE x END AS x FROM ($) t") + ") z" +
				strings.Repeat(" CROSS JOIN (SELECT 1) a", 50),
			"1,749 characters took 3.9 GB: each pull-up copies the columns of each join",
		},
		{
			"values that are computed", repeated(9, "SELECT length(repeat('x', 1000000)) AS x", "SELECT greatest(x, x) AS x FROM ($) t"),
			"1 MB for each copy",
		},
		{"an unnamed value", "SELECT length(repeat(\"case\", 1000)) FROM (SELECT CASE WHEN true THEN repeat('x', 1000000) END) t", "1.96 GB"},
		{"many joins", "SELECT 1 FROM station s" + strings.Repeat(" JOIN station t ON s.id = t.id", 80), "0.4 GB until the time is up"},
	} {
		if _, err := p.Approve(context.Background(), c.sql, 50); reason(t, err) != violates {
			t.Errorf("%s: %v (%s)", c.name, err, c.why)
		}
	}
}

func TestHonestLayersAreAccepted(t *testing.T) {
	p := newPolicy(t, Settings{})
	tiers := func(n int) string {
		var b strings.Builder
		b.WriteString("WITH s0 AS (SELECT id, total AS v FROM orders)")
		for i := range n {
			fmt.Fprintf(&b, ", s%d AS (SELECT id, CASE WHEN v > 1000 THEN v * 0.9 WHEN v > 100 THEN v * 0.95 ELSE v END AS v FROM s%d)", i+1, i)
		}
		return fmt.Sprintf("%s SELECT sum(v) FROM s%d", b.String(), n)
	}
	months := func(n int) string {
		var b strings.Builder
		b.WriteString("WITH s0 AS (SELECT customer_id, date_trunc('month', ordered_at) AS m, sum(total) AS t, count(*) AS c FROM orders GROUP BY 1, 2)")
		for i := range n {
			fmt.Fprintf(&b, ", s%d AS (SELECT a.customer_id, a.m, coalesce(a.t, 0) + coalesce(b.t, 0) AS t, a.c FROM s%d a LEFT JOIN s%d b "+
				"ON b.customer_id = a.customer_id AND b.m = a.m - interval '1 month')", i+1, i, i)
		}
		return fmt.Sprintf("%s SELECT * FROM s%d ORDER BY 1, 2", b.String(), n)
	}
	stars := "WITH s0 AS (SELECT * FROM orders)"
	for i := range 20 {
		stars += fmt.Sprintf(", s%d AS (SELECT s.*, c.name AS n%d, lower(s.status) AS l%d FROM s%d s JOIN customers c USING (customer_id) WHERE s.total > 1)", i+1, i, i, i)
	}
	for _, c := range []struct{ name, sql, why string }{
		{"seven tiers", tiers(7), "257 MB and 0.35 s"},
		{"nine months", months(9), "9 ms: what is named twice is planned apart"},
		{"twenty tables", "SELECT 1 FROM a0" + func() (s string) {
			for i := range 20 {
				s += fmt.Sprintf(" LEFT JOIN a%d USING (id)", i+1)
			}
			return s
		}(), ""},
		{"twenty stars", stars + " SELECT * FROM s20", ""},
		{"two hundred unions", "SELECT * FROM (SELECT 1 AS x" + strings.Repeat(" UNION ALL SELECT 2", 150) + ") u WHERE x > 1 ORDER BY x", ""},
		{"many values", "SELECT * FROM t WHERE lower(trim(name)) IN ('a'" + strings.Repeat(", 'b'", 1500) + ")", ""},
	} {
		if _, err := p.Approve(context.Background(), c.sql, 50); err != nil {
			t.Errorf("%s: %v (%s), cost %.0f", c.name, err, c.why, cost(t, p, c.sql))
		}
	}
	if _, err := p.Approve(context.Background(), tiers(8), 50); err == nil {
		t.Error("eight tiers are accepted: 1.2 GB")
	}
}

func TestTheEstimateItselfIsQuick(t *testing.T) {
	p := newPolicy(t, Settings{})
	nested := func(n int, seed, step string) string {
		for range n {
			seed = strings.ReplaceAll(step, "$", seed)
		}
		return seed
	}
	var wide strings.Builder
	for i := range 400 {
		fmt.Fprintf(&wide, ", 1 c%d", i)
	}
	withs := "WITH a AS (SELECT 1 x)"
	for i := range 150 {
		withs += fmt.Sprintf(", a%d AS NOT MATERIALIZED (TABLE a UNION ALL TABLE a)", i)
	}
	for _, c := range []struct{ name, sql string }{
		{"stars", nested(60, "SELECT 1 AS a", "SELECT *, * FROM ($) t")},
		{"stars of rows", "SELECT " + nested(40, "ROW(1, 2)", "ROW(($).*)")},
		{"dimensions", "SELECT " + nested(45, "1", "array_length(array_fill(0, ARRAY[$, 1]), 1)")},
		{"between", "SELECT " + nested(60, "true", "coalesce($ BETWEEN SYMMETRIC false AND true)")},
		{"natural joins", "WITH w AS (SELECT 0 c" + wide.String() + ") SELECT 1 FROM w" + strings.Repeat(" NATURAL JOIN w", 300)},
		{"many stars", "SELECT " + strings.Repeat("*, ", 1500) + "1 FROM (SELECT 0 c" + wide.String() + ") t"},
		{"WITH", withs + " SELECT 1"},
	} {
		start := time.Now()
		_, err := p.Approve(context.Background(), c.sql, 50)
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("%s: %v (%v)", c.name, took, err)
		}
	}
}

func TestAPlanShowsWhatIsPlannedApart(t *testing.T) {
	// EXPLAIN writes each variable as what it stands for, through WITH and LIMIT.
	p := newPolicy(t, Settings{})
	sql := "SELECT id AS x FROM station"
	for range 20 {
		sql = "SELECT greatest(x, x) AS x FROM (" + sql + ") t LIMIT 3"
	}
	if _, err := p.Approve(context.Background(), sql, 50); err != nil {
		t.Errorf("the query: %v", err)
	}
	if _, err := p.Approve(context.Background(), "EXPLAIN "+sql, 50); err == nil {
		t.Error("its plan is not refused")
	}
}

func TestColumnsAreNamedAsTheServerDoes(t *testing.T) {
	names := map[string]int{}
	servers(t, func(t *testing.T, s *pgstage.Server) {
		dsn := s.DSN(s.Database(t, ""), "postgres", "", true)
		for _, x := range []string{
			"1", "'x'", "1 + 1", "NOT true", "1 IS NULL", "true IS TRUE", "greatest(1, 2)", "least(1, 2)", "coalesce(1, 2)", "nullif(1, 2)",
			"CASE WHEN true THEN 1 END", "CASE WHEN true THEN 1 ELSE 1::int8 END", "CASE WHEN true THEN 1 ELSE abs(1) END", "abs(1)",
			"ARRAY[1]", "ARRAY(SELECT 1)", "EXISTS (SELECT 1)", "(SELECT 1)", "(SELECT 1 AS y)", "(SELECT abs(1))", "(VALUES (1))",
			"(SELECT 1 UNION SELECT 1)", "1 IN (SELECT 1)", "ROW(1, 2)", "(1, 2)", "(ROW(1, 2)).f1", "(ARRAY[1])[1]", "(abs(1))::text",
			"1::int8", "'1'::numeric(10, 2)", "'{1}'::int[]", "'x' COLLATE \"C\"", "upper('x') COLLATE \"C\"", "1 BETWEEN 0 AND 2",
			"trim('x')", "'x' LIKE 'y'", "count(*)", "sum(1) OVER ()", "(SELECT (SELECT greatest(1, 2)))", "-1", "- abs(1)",
		} {
			tree, err := parse("SELECT " + x)
			if err != nil {
				t.Fatal(err)
			}
			name := columnName(tree.Stmts[0].Stmt.GetSelectStmt().TargetList[0].GetResTarget())
			names[name]++
			if name == "" {
				continue // any
			}
			if _, err := pgstage.QueryAt(dsn, `SELECT q."`+name+`" FROM (SELECT `+x+`) q`); err != nil {
				t.Errorf("%s is not named %q: %v", x, name, err)
			}
		}
	})
	if len(names) < 15 || names[""] > 3 {
		t.Errorf("names: %v", names)
	}
}

// maxPlanningBytes is what no approved query may take; the estimator aims at 300 MB.
const maxPlanningBytes = 400 << 20

// TestApprovedQueriesArePlannedWithinBounds composes levels at random, up to where the estimator refuses, and measures the
// server that plans the last one that it lets pass. PGPOLICY_COPIES_SEED and PGPOLICY_COPIES_TIME (like 5m) look further.
// The statement runs, on an empty table: the text of EXPLAIN takes memory of its own. With the estimator of November, which
// counted messages of the parser, the first level that it knew no name for, "greatest", took more than 1.6 GB.
func TestApprovedQueriesArePlannedWithinBounds(t *testing.T) {
	seed, patience := uint64(1), 12*time.Second
	if n, err := strconv.ParseUint(os.Getenv("PGPOLICY_COPIES_SEED"), 10, 64); err == nil {
		seed = n
	}
	if d, err := time.ParseDuration(os.Getenv("PGPOLICY_COPIES_TIME")); err == nil {
		patience = d
	}
	p := newPolicy(t, Settings{})
	s := pgstage.Start(t, pgstage.Options{})
	dsn := s.DSN(s.Database(t, "CREATE TABLE station (id int PRIMARY KEY, name text)"), "postgres", "", true)
	random := rand.New(rand.NewPCG(seed, 0))
	deadline := time.Now().Add(patience)
	largest, slowest, n := int64(0), time.Duration(0), 0
	for ; n < 1000 && time.Now().Before(deadline); n++ {
		kinds := []int{n % len(steps)}
		if n >= len(steps) {
			kinds = []int{random.IntN(len(steps)), random.IntN(len(steps)), random.IntN(len(steps))}
		}
		sql, levels := nested(t, p, 60, func() int { return kinds[random.IntN(len(kinds))] })
		peak, took, err := planned(dsn, sql)
		largest, slowest = max(largest, peak), max(slowest, took)
		var what []string
		for _, k := range kinds {
			what = append(what, steps[k].name)
		}
		if err != nil || peak > maxPlanningBytes {
			t.Errorf("seed %d, %s, %d levels, cost %.0f: %d MB, %v, %v\n%.2000s", seed, strings.Join(what, ", "), levels,
				cost(t, p, sql), peak>>20, took, err, sql)
		}
	}
	t.Logf("seed %d: %d queries, at most %d MB and %v", seed, n, largest>>20, slowest)
	if n < 5 { // 100 in 12 s; under -race a third of that; fewer on a loaded machine
		t.Errorf("only %d queries", n)
	}
}

// planned has the server plan a statement, and gives what its process has taken at most.
func planned(dsn, sql string) (peak int64, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgconn.Connect(ctx, dsn)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = conn.Close(ctx) }() // nothing was written
	status := fmt.Sprintf("/proc/%d/status", conn.PID())
	done := make(chan struct{})
	defer close(done)
	go func() { // should the estimator be wrong, nothing else would end it
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				if n, err := peakOf(status); err == nil && n > 4*maxPlanningBytes {
					_ = unix.Kill(int(conn.PID()), unix.SIGKILL) // the test fails in any case
					return
				}
			}
		}
	}()
	if _, err := conn.Exec(ctx, "SET jit = off; SET statement_timeout = '1s'").ReadAll(); err != nil {
		return 0, 0, err
	}
	start := time.Now()
	_, err = conn.Exec(ctx, sql).ReadAll()
	took = time.Since(start)
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && (refused.Code == "57014" || refused.Code[:2] == "22") {
		err = nil // it has got to run, where there is an end to it, or to a number that is too large
	}
	peak, peakErr := peakOf(status)
	return peak, took, errors.Join(err, peakErr)
}

// peakOf is how much memory a process has had at most.
func peakOf(status string) (int64, error) {
	text, err := os.ReadFile(status)
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	kilobytes, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	n, err := strconv.ParseInt(kilobytes, 10, 64)
	return n << 10, err
}
