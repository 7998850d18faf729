package pgpolicy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"mcp-server-suite/pkg/problem"
)

const (
	fine     problem.Reason = "" // accepted
	violates                = problem.UnsafeQuery
	noSQL                   = problem.BadSQL
	altered                 = problem.NotRegenerable
)

// TestEachRuleRefusesItsKindAndNotTheNeighbour holds pairs: what a rule refuses, and the nearest thing that it lets pass.
// chain is n WITH queries, each of which says of the column x of the one before what expression says.
func chain(n int, expression string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ", c%d AS (SELECT %s x FROM c%d)", i+1, expression, i)
	}
	return b.String()
}

// relations is n WITH queries, each of which reads the one before twice.
func relations(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ", c%d AS NOT MATERIALIZED (SELECT a.x FROM c%d a, c%d b)", i+1, i, i)
	}
	return b.String()
}

func TestEachRuleRefusesItsKindAndNotTheNeighbour(t *testing.T) {
	cases := []struct {
		name string
		sql  string
		want problem.Reason
		why  string
	}{
		// Work that the server cannot stop, or that takes its memory while it plans.
		{"copies of greatest", "WITH c0 AS (SELECT g x FROM generate_series(1, 1) g)" + chain(20, "greatest(x, x)") + " SELECT x FROM c20", violates, "1.9 GiB in the planner"},
		{"copies of coalesce", "WITH c0 AS (SELECT g x FROM generate_series(1, 1) g)" + chain(20, "coalesce(x, x)") + " SELECT x FROM c20", violates, ""},
		{"copies of CASE", "WITH c0 AS (SELECT g x FROM generate_series(1, 1) g)" + chain(14, "CASE WHEN x > 0 THEN x ELSE x END") + " SELECT x FROM c14", violates, ""},
		{"copies of a sum", "WITH c0 AS (SELECT g x FROM generate_series(1, 1) g)" + chain(20, "x + x") + " SELECT x FROM c20", violates, ""},
		{"few copies", "WITH c0 AS (SELECT g x FROM generate_series(1, 1) g)" + chain(8, "greatest(x, x)") + " SELECT x FROM c8", fine, ""},
		{"a long chain without copies", "WITH c0 AS (SELECT g x FROM generate_series(1, 1) g)" + chain(40, "x + 1") + " SELECT x FROM c40", fine, ""},
		{"copies of relations", "WITH c0 AS (SELECT 1 x)" + relations(20) + " SELECT 1 FROM c20", violates, "NOT MATERIALIZED or not"},
		{"few relations", "WITH c0 AS (SELECT 1 x)" + relations(6) + " SELECT 1 FROM c6", fine, ""},
		{"xpath", "SELECT xpath('count(//*[count(//*)>0])', x) FROM t", violates, "libxml asks nobody whether to stop"},
		{"xpath_exists", "SELECT xpath_exists('/a', x) FROM t", violates, ""},
		{"xmlexists", "SELECT xmlexists('/a' PASSING x) FROM t", violates, ""},
		{"xmltable", "SELECT * FROM t, XMLTABLE('/a' PASSING x COLUMNS b int)", violates, ""},
		{"xmlparse", "SELECT xmlparse(content x) FROM t", violates, "quadratic, and nothing ends it"},
		{"cast to xml", "SELECT x::xml FROM t", violates, ""},
		{"xml as a function", "SELECT xml(x) FROM t", violates, ""},
		{"xml after an expression", "SELECT (x || '').xml FROM t", violates, ""},
		{"xml_is_well_formed", "SELECT xml_is_well_formed(x) FROM t", violates, ""},
		{"translate by a column", "SELECT translate(x, y, '') FROM t", violates, "60,000 by 60,000 took 15 s"},
		{"translate by much", "SELECT translate(x, repeat('y', 60000), '') FROM t", violates, ""},
		{"translate by a long literal", "SELECT pg_catalog.translate(x, '" + strings.Repeat("y", 101) + "', '') FROM t", violates, ""},
		{"trim by a column", "SELECT trim(y FROM x) FROM t", violates, ""},
		{"ltrim by a column", "SELECT ltrim(x, y) FROM t", violates, ""},
		{"translate", "SELECT translate(x, '" + strings.Repeat("y", 100) + "', 'b') FROM t", fine, ""},
		{"trim", "SELECT trim(x), trim(both ' ' || chr(10) FROM x), rtrim(x, '.'::text), ltrim(x, E'\\t') FROM t", fine, ""},
		{"xmlelement", "SELECT xmlelement(name a, x) FROM t", fine, ""},
		{"normalize", "SELECT normalize(x) FROM t", violates, "quadratic"},
		{"is normalized", "SELECT x IS NORMALIZED FROM t", violates, ""},

		// Names of the catalog in disguise.
		{"array of regclass after a dot", "SELECT (concat('{', 1259, '}'))._regclass", violates, "a cast to regclass[]"},
		{"array of regrole after a dot", "SELECT g.__regrole FROM g", violates, ""},
		{"aclitem after a dot", "SELECT (concat('evil=r/super')).aclitem", violates, "42704 where the role does not exist"},
		{"a column with a low line", "SELECT t._id, t._created FROM t", fine, ""},
		{"pg_typeof", "SELECT pg_typeof(1), pg_typeof(a)::text FROM t", fine, "as text"},
		{"pg_typeof in FROM", "SELECT * FROM pg_typeof(1)", violates, "a regtype, whose union with numbers tells names"},

		// Several arrays.
		{"unnest of two in FROM", "SELECT * FROM unnest(ARRAY[1], ARRAY[2]) AS u(a, b)", fine, ""},
		{"unnest of two in ROWS FROM", "SELECT * FROM ROWS FROM (unnest(ARRAY[1], ARRAY[2]), generate_series(1, 2)) AS u", fine, ""},
		{"unnest of two elsewhere", "SELECT unnest(ARRAY[1], ARRAY[2])", violates, "somebody's function of that name would be called"},
		{"unnest of two, variadic", "SELECT * FROM unnest(ARRAY[1], VARIADIC ARRAY[2])", violates, "the same"},
		{"unnest of two below FROM", "SELECT * FROM generate_series(1, unnest(ARRAY[1], ARRAY[2]))", violates, ""},
		{"unnest of one", "SELECT unnest(ARRAY[1])", fine, ""},

		// Characters.
		{"five characters", "SELEC", noSQL, "seed 000: 6 to 10,000"},
		{"six characters", "SELECT", fine, "PostgreSQL has a SELECT of nothing"},
		{"10,001 characters", "SELECT '" + strings.Repeat("\u00e9", 9_992) + "'", noSQL, "code points, not bytes"},
		{"10,000 characters", "SELECT '" + strings.Repeat("\u00e9", 9_991) + "'", fine, "18 KB of UTF-8"},
		{"invalid UTF-8", "SELECT '\xff'", noSQL, "no driver would send it"},
		{"surrogate in UTF-8", "SELECT '\xed\xa0\x80'", noSQL, "CESU"},
		{"NUL", "SELECT 1\x00; DROP TABLE t", noSQL, "the C parser would see SELECT 1"},
		{"blank", " \t\n\r   ", noSQL, ""},
		{"only a comment", "-- nothing", noSQL, "no statement"},
		{"only semicolons", ";;;;;;;", noSQL, "no statement"},
		{"no-break space", "SELECT\u00a01", noSQL, "not a space for PostgreSQL, but a letter"},

		// One statement.
		{"two", "SELECT 1; SELECT 2", violates, ""},
		{"one and empty ones", ";;SELECT 1;; -- done", fine, "empty statements are none"},
		{"second in a comment", "SELECT 1 /* ; DROP TABLE t */", fine, ""},
		{"nested comment", "SELECT 1 /* a /* b */ ; c */", fine, "comments nest"},
		{"comment that ends early", "SELECT 1 /* a */ ; DROP TABLE t /* */", violates, ""},
		{"dollar quotes", "SELECT $a$ ; COMMIT; $a$", fine, "data"},
		{"backslash in a plain string", `SELECT 'a\'; DROP TABLE t; --'`, violates, "the backslash escapes nothing"},
		{"backslash in an E string", `SELECT E'a\'; DROP TABLE t; --'`, fine, "here it does"},

		// The root.
		{"insert", "INSERT INTO t VALUES (1)", violates, ""},
		{"update", "UPDATE t SET a = 1", violates, ""},
		{"delete", "DELETE FROM t", violates, ""},
		{"merge", "MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE", violates, ""},
		{"truncate", "TRUNCATE t", violates, ""},
		{"vacuum", "VACUUM t", violates, ""},
		{"analyze", "ANALYZE t", violates, ""},
		{"commit", "COMMIT", violates, ""},
		{"end and chain", "END AND CHAIN", violates, ""},
		{"savepoint", "SAVEPOINT a", violates, ""},
		{"prepare transaction", "PREPARE TRANSACTION 'a'", violates, ""},
		{"set", "SET statement_timeout = 0", violates, ""},
		{"set in a comment's shadow", "/* note */ SET TRANSACTION READ WRITE", violates, ""},
		{"reset", "RESET ALL", violates, ""},
		{"grant", "GRANT ALL ON t TO PUBLIC", violates, ""},
		{"lock", "LOCK TABLE t", violates, ""},
		{"notify", "NOTIFY a, 'b'", violates, ""},
		{"load", "LOAD 'x.so'", violates, ""},
		{"checkpoint", "CHECKPOINT", violates, ""},
		{"discard", "DISCARD ALL", violates, ""},
		{"fetch", "FETCH ALL FROM c", violates, ""},
		{"security label", "SECURITY LABEL ON TABLE t IS 'x'", violates, ""},
		{"alter system", "ALTER SYSTEM SET x = 1", violates, ""},
		{"copy of a select", "COPY (SELECT 1) TO STDOUT", violates, ""},
		{"create view", "CREATE VIEW v AS SELECT 1", violates, ""},
		{"values", "VALUES (1, 'a'), (2, 'b')", fine, "DESIGN: a plain read"},
		{"table", "TABLE t", fine, ""},
		{"brackets", "((SELECT 1))", fine, ""},
		{"nothing selected", "SELECT FROM t", fine, ""},

		// EXPLAIN.
		{"explain", "EXPLAIN SELECT 1", fine, ""},
		{"explain values", "EXPLAIN VALUES (1)", fine, ""},
		{"explain analyze", "EXPLAIN ANALYZE SELECT 1", violates, "runs it"},
		{"explain (analyze)", "EXPLAIN (ANALYZE) SELECT 1", violates, ""},
		{"explain (analyze off)", "EXPLAIN (ANALYZE false) SELECT 1", violates, "one word, one rule"},
		{"explain (buffers)", "EXPLAIN (BUFFERS) SELECT 1", violates, ""},
		{"explain (settings)", "EXPLAIN (SETTINGS) SELECT 1", violates, "shows configuration"},
		{"explain (generic_plan)", "EXPLAIN (GENERIC_PLAN) SELECT $1", violates, "bind parameters"},
		{"explain (analyze) by its case", `EXPLAIN ("ANALYZE") SELECT 1`, violates, "unknown option"},
		{"explain (format json, costs off)", "EXPLAIN (FORMAT JSON, COSTS off) SELECT 1", fine, ""},
		{"explain (verbose, summary on)", "EXPLAIN (VERBOSE, SUMMARY on) SELECT 1", fine, ""},
		{"explain verbose", "EXPLAIN VERBOSE SELECT 1", fine, ""},
		{"explain (format x)", "EXPLAIN (FORMAT x) SELECT 1", noSQL, ""},
		{"explain (costs 7)", "EXPLAIN (COSTS 7) SELECT 1", noSQL, ""},
		{"explain delete", "EXPLAIN DELETE FROM t", violates, ""},
		{"explain execute", "EXPLAIN EXECUTE p", violates, ""},
		{"explain create table as", "EXPLAIN CREATE TABLE z AS SELECT 1", violates, ""},
		{"explain a bad function", "EXPLAIN SELECT pg_sleep(1)", violates, "constant folding would run some"},
		{"explain explain", "EXPLAIN EXPLAIN SELECT 1", noSQL, ""},

		// Clauses.
		{"into", "SELECT 1 INTO t", violates, ""},
		{"into in a branch", "SELECT 1 UNION SELECT 2 INTO t", violates, ""},
		{"for update inside", "SELECT * FROM (SELECT * FROM t FOR UPDATE) q", violates, ""},
		{"for share in WITH", "WITH c AS (SELECT * FROM t FOR SHARE) SELECT * FROM c", violates, ""},
		{"for key share in a sublink", "SELECT (SELECT 1 FROM t FOR KEY SHARE)", violates, ""},
		{"fetch for", "SELECT * FROM t FETCH FIRST 3 ROWS ONLY", fine, "FETCH and FOR are different words"},
		{"delete in WITH below a sublink", "SELECT (WITH d AS (DELETE FROM t RETURNING 1) SELECT * FROM d)", violates, ""},
		{"insert in WITH of a branch", "SELECT 1 UNION (WITH d AS (INSERT INTO t VALUES (1) RETURNING 1) TABLE d)", violates, ""},
		{"merge in WITH", "WITH m AS (MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE RETURNING 1) TABLE m", violates, "17"},
		{"default", "SELECT * FROM (VALUES (DEFAULT)) v", violates, "only in INSERT"},
		{"current of", "SELECT * FROM t WHERE CURRENT OF c", noSQL, ""},
		{"parameter", "SELECT $1", violates, ""},
		{"parameter in a limit", "SELECT 1 LIMIT $1", violates, "judged before it is replaced"},
		{"dollar in a name", "SELECT a$1 FROM t", fine, ""},
		{"sample by system", "SELECT * FROM t TABLESAMPLE system (1)", fine, ""},
		{"sample by system_rows", "SELECT * FROM t TABLESAMPLE system_rows (1)", violates, "an extension's"},
		{"sample by somebody's system", "SELECT * FROM t TABLESAMPLE evil.system (1)", violates, ""},
		{"function in a sample", "SELECT * FROM t TABLESAMPLE system (pg_sleep(1))", violates, ""},

		// Functions, wherever they can stand.
		{"schema of somebody", "SELECT evil.lower('A')", violates, ""},
		{"pg_catalog written", "SELECT pg_catalog.lower('A')", fine, ""},
		{"three parts", "SELECT db.pg_catalog.lower('A')", violates, ""},
		{"upper case in quotes", `SELECT "LOWER"('A')`, violates, "another name"},
		{"upper case", "SELECT LOWER('A')", fine, ""},
		{"unicode name", `SELECT U&"pg\005fsleep"(1)`, violates, "the parser decodes it"},
		{"in a filter", "SELECT count(*) FILTER (WHERE pg_sleep(1) IS NULL) FROM t", violates, ""},
		{"in an aggregate's order", "SELECT array_agg(a ORDER BY pg_sleep(1)) FROM t", violates, ""},
		{"in a within group", "SELECT mode() WITHIN GROUP (ORDER BY pg_sleep(1)) FROM t", violates, ""},
		{"in a named window", "SELECT sum(a) OVER w FROM t WINDOW w AS (ORDER BY pg_sleep(1))", violates, ""},
		{"in a frame", "SELECT sum(a) OVER (ROWS pg_sleep(1) PRECEDING) FROM t", violates, ""},
		{"in a join", "SELECT * FROM a JOIN b ON pg_sleep(1) IS NULL", violates, ""},
		{"in group by", "SELECT 1 FROM t GROUP BY ROLLUP (pg_sleep(1))", violates, ""},
		{"in having", "SELECT 1 FROM t HAVING pg_sleep(1) IS NULL", violates, ""},
		{"in distinct on", "SELECT DISTINCT ON (pg_sleep(1)) 1 FROM t", violates, ""},
		{"in order by", "SELECT 1 ORDER BY pg_sleep(1)", violates, ""},
		{"in the limit", "SELECT 1 LIMIT (SELECT 1 FROM pg_sleep(1))", violates, "what is replaced is judged, too"},
		{"in the offset", "SELECT 1 OFFSET length(pg_read_file('x'))", violates, ""},
		{"in values", "VALUES (pg_sleep(1))", violates, ""},
		{"in rows from", "SELECT * FROM ROWS FROM (pg_ls_dir('.'), generate_series(1,3)) AS r(a,b)", violates, ""},
		{"rows from", "SELECT * FROM ROWS FROM (generate_series(1,2), unnest(ARRAY[1,2])) AS r(a,b)", fine, ""},
		{"in xmltable", "SELECT * FROM XMLTABLE('/a' PASSING (pg_read_file('x')::xml) COLUMNS b int)", violates, ""},
		{"in xmltable's default", "SELECT * FROM XMLTABLE('/a' PASSING d COLUMNS b int DEFAULT pg_sleep(1)) x, t", violates, ""},
		{"in xmlforest", "SELECT xmlforest(pg_sleep(1) AS a)", violates, ""},
		{"in json_table", "SELECT * FROM JSON_TABLE(pg_read_file('x')::jsonb, '$[*]' COLUMNS (a int PATH '$.a')) j", violates, ""},
		{"json_table", "SELECT * FROM t, JSON_TABLE(t.j, '$[*]' COLUMNS (a int PATH '$.a')) j", fine, ""},
		{"in a subscript", "SELECT a[length(pg_read_file('x'))] FROM t", violates, ""},
		{"in an array", "SELECT ARRAY[pg_sleep(1)]", violates, ""},
		{"in a row", "SELECT ROW(pg_sleep(1))", violates, ""},
		{"in a case", "SELECT CASE WHEN a THEN pg_sleep(1) END FROM t", violates, ""},
		{"in a between", "SELECT a BETWEEN 1 AND nextval('s') FROM t", violates, ""},
		{"in a named argument", "SELECT make_interval(days => length(pg_read_file('x')))", violates, ""},
		{"named argument", "SELECT make_interval(days => 3)", fine, ""},
		{"variadic", "SELECT concat(VARIADIC ARRAY['a', 'b'])", fine, ""},
		{"in cycle values", "WITH RECURSIVE r AS (SELECT 1 a UNION ALL SELECT a FROM r) CYCLE a SET c TO pg_sleep(1) DEFAULT 2 USING p " +
			"SELECT * FROM r", noSQL, "constants only"},
		{"cycle", "WITH RECURSIVE r AS (SELECT 1 a UNION ALL SELECT a FROM r) CYCLE a SET c USING p SELECT * FROM r", fine, ""},
		{"sql as text", "SELECT query_to_xml('SELECT 1', true, false, '')", violates, ""},
		{"ts_stat", "SELECT * FROM ts_stat('SELECT x FROM t')", violates, ""},
		{"setting", "SELECT current_setting('x')", violates, ""},
		{"privilege", "SELECT has_table_privilege('t', 'select')", violates, ""},
		{"extension", "SELECT cron.schedule('nightly', '0 0 * * *', 'DROP TABLE users')", violates, ""},
		{"regclass as a function", "SELECT regclass('t')", violates, ""},
		{"text as a function", "SELECT text(5)", fine, ""},
		{"treat", "SELECT TREAT(a AS text) FROM t", fine, ""},
		{"treat as a foreign type", "SELECT TREAT(a AS evil.x) FROM t", violates, ""},
		{"unnest of several", "SELECT * FROM unnest(ARRAY[1,2], ARRAY['a','b']) AS u(a, b)", fine, "left unqualified"},

		// Column notation, which calls functions of one argument: measured on 15.18.
		{"function of a scalar", "SELECT (10.5::float8).pg_sleep", violates, "slept"},
		{"function of a text", "SELECT ('PG_VERSION'::text).pg_read_file", violates, "read the file"},
		{"function of what a function returns", "SELECT g.pg_advisory_lock FROM generate_series(1, 1) g", violates, "took the lock"},
		{"SQL text", "SELECT (s).ts_stat FROM (SELECT 'SELECT 1'::text s) q", violates, "ran it"},
		{"setseed", "SELECT (0.5).setseed", violates, ""},
		{"nextval", "SELECT ('s').nextval", violates, ""},
		{"setting by a dot", "SELECT ('data_directory').current_setting", violates, ""},
		{"in a subscripted name", "SELECT a[1].pg_sleep FROM t", violates, ""},
		{"after a field", "SELECT (a).b.pg_sleep FROM t", violates, ""},
		{"in quotes", `SELECT g."pg_sleep" FROM generate_series(1.0, 2.0) g`, violates, ""},
		{"in order by", "SELECT 1 FROM generate_series(1, 2) g ORDER BY g.pg_try_advisory_lock", violates, ""},
		{"regclasssend by a dot", "SELECT (s.n).regclasssend FROM (SELECT 'pg_authid'::text n) s", violates, "its OID"},
		{"regprocsend by a dot", "SELECT s.regprocsend FROM s", violates, ""},
		{"regclass by a dot", "SELECT ('t').regclass", violates, ""},
		{"extension by a dot", "SELECT ('dbname=x').dblink_connect", violates, ""},
		{"four parts", "SELECT db.sch.t.pg_sleep FROM sch.t", violates, ""},
		{"a field", "SELECT (address).city, (t.address).zip FROM t", fine, ""},
		{"a column", "SELECT t.length, t.version, t.region, t.date, t.name FROM t", fine, "names of harmless functions, and none"},
		{"columns that are nearly functions", "SELECT l.lo_revenue, t.has_children, t.to_region, t.date_in, t.date_out, t.xml FROM l, t", fine, ""},
		{"large object by a dot", "SELECT (16385::oid).lo_get", violates, ""},
		{"all fields", "SELECT (address).*, t.* FROM t", fine, ""},
		{"a column without a dot", "SELECT pg_sleep FROM t", fine, "only a column, never a call"},
		{"alias", "SELECT 1 AS pg_sleep", fine, ""},

		// Operators, collations, types.
		{"operator of a schema", "SELECT 1 OPERATOR(evil.+) 2", violates, ""},
		{"operator of pg_catalog", "SELECT 1 OPERATOR(pg_catalog.+) 2", fine, ""},
		{"operator before ANY", "SELECT 1 OPERATOR(evil.=) ANY (ARRAY[1])", violates, ""},
		{"operator before ANY (SELECT)", "SELECT 1 OPERATOR(evil.=) ANY (SELECT 1)", violates, "it stands in the SubLink"},
		{"operator before ALL (SELECT)", "SELECT 1 < ALL (SELECT 1)", fine, ""},
		{"operator of a sort", "SELECT 1 FROM t ORDER BY a USING OPERATOR(evil.<)", violates, ""},
		{"sort using", "SELECT 1 FROM t ORDER BY a USING <", fine, ""},
		{"prefix operator of a schema", "SELECT OPERATOR(evil.-) 1", violates, ""},
		{"collation of a schema", `SELECT a COLLATE evil."C" FROM t`, violates, ""},
		{"collation", `SELECT a COLLATE "C", b COLLATE pg_catalog."C" FROM t`, fine, ""},
		{"type of a schema", "SELECT 'x'::evil.t", violates, ""},
		{"unknown type", "SELECT 'x'::hstore", violates, "an extension's; the operator may list it"},
		{"regclass", "SELECT 't'::regclass", violates, ""},
		{"regclass of pg_catalog", "SELECT 't'::pg_catalog.regclass", violates, ""},
		{"array of regclass", "SELECT '{t}'::regclass[]", violates, ""},
		{"array of regclass by its name", "SELECT '{t}'::_regclass", violates, ""},
		{"typed literal", "SELECT regtype 'int4'", violates, ""},
		{"typed date", "SELECT date '2020-01-01', interval '1' day, timestamp(3) '2020-01-01'", fine, ""},
		{"column list of a function", "SELECT * FROM json_to_record('{}') AS x(a regclass)", violates, ""},
		{"column list", "SELECT * FROM json_to_record('{}') AS x(a int, b text[], c numeric(10,2) )", fine, ""},
		{"column of json_table", "SELECT * FROM t, JSON_TABLE(j, '$' COLUMNS (a regclass PATH '$')) q", violates, ""},
		{"column of xmltable", "SELECT * FROM t, XMLTABLE('/a' PASSING d COLUMNS b regclass) x", violates, ""},
		{"returning", "SELECT JSON_VALUE('1', '$' RETURNING regclass)", violates, ""},
		{"xmlserialize", "SELECT xmlserialize(CONTENT a AS regclass) FROM t", violates, ""},
		{"setof", "SELECT CAST(a AS SETOF int) FROM t", violates, ""},
		{"of a column's type", "SELECT a::t.c%TYPE FROM t", violates, "c % TYPE: a type of somebody"},
		{"array", "SELECT '{1}'::int[], '{1}'::int ARRAY[3], '{1}'::_int4", fine, ""},
		{"quoted char", `SELECT 'a'::"char", 'a'::char(3), 'a'::varchar`, fine, ""},
		{"quoted other name", `SELECT 'a'::"Text"`, violates, ""},

		// Relations.
		{"catalog", "SELECT * FROM pg_class", violates, ""},
		{"catalog in a sublink", "SELECT (SELECT count(*) FROM pg_class)", violates, ""},
		{"catalog in IN", "SELECT 1 WHERE 1 IN (SELECT 1 FROM pg_catalog.pg_class)", violates, ""},
		{"catalog in a join", "SELECT * FROM t NATURAL JOIN pg_class", violates, ""},
		{"catalog by TABLE", "TABLE pg_authid", violates, ""},
		{"catalog with only", "SELECT * FROM ONLY pg_class", violates, ""},
		{"catalog sampled", "SELECT * FROM pg_class TABLESAMPLE system (1)", violates, ""},
		{"toast", "SELECT * FROM pg_toast.pg_toast_1234", violates, ""},
		{"temporary", "SELECT * FROM pg_temp.x", violates, ""},
		{"temporary of another", "SELECT * FROM pg_temp_3.x", violates, ""},
		{"named like a catalog in a schema", "SELECT * FROM app.pg_dump_log", fine, "its schema is written"},
		{"WITH that is named like a catalog", "WITH pg_class AS (SELECT 1) SELECT * FROM pg_class", violates, "nobody misses it"},
		{"information_schema.columns", "SELECT * FROM information_schema.columns", fine, ""},
		{"information_schema.routines", "SELECT * FROM information_schema.routines", violates, "source of functions"},
		{"another database", "SELECT * FROM db.public.t", violates, ""},
		{"quoted", `SELECT * FROM "My Schema"."Order Lines"`, fine, ""},

		// Regenerated text.
		{"lost brackets", "SELECT (NOT a) IS NULL FROM t", altered, "the C writer changes the meaning"},
		{"lost brackets in IN", "SELECT (a = b) IN (true) FROM t", altered, ""},
		{"brackets that stay", "SELECT (a OR b) AND c, NOT (a AND b), (a + b) * c, -(a + b), (a || b)::text FROM t", fine, ""},

		// Depth.
		{"180 terms", "SELECT 1" + strings.Repeat("+1", 179), fine, ""},
		{"220 terms", "SELECT 1" + strings.Repeat("+1", 219), noSQL, ""},
		{"180 unions", "SELECT 1" + strings.Repeat(" UNION SELECT 1", 179), fine, ""},
		{"450 unions", "SELECT 1" + strings.Repeat(" UNION SELECT 1", 449), noSQL, ""},
		{"1,000 alternatives", "SELECT 1 FROM t WHERE a=1" + strings.Repeat(" OR a=1", 999), fine, "flat"},
		{"negative numbers", "SELECT a IN (-1" + strings.Repeat(",-1", 3_000) + ") FROM t", fine, "flat"},

		// Constant expansion.
		{"nested repeat", "SELECT length(repeat(repeat(repeat(chr(120),1000),1000),1000))", violates, "521 MB at plan time"},
		{"large repeat", "SELECT repeat('x', 1000000000)", violates, ""},
		{"repeat by a product", "SELECT repeat('x', 1000 * 1000 * 10)", violates, ""},
		{"repeat by a power", "SELECT repeat('x', (10 ^ 9)::int)", violates, ""},
		{"repeat by a text", "SELECT repeat('x', '1000000000'::int)", violates, ""},
		{"repeat by a float", "SELECT repeat('x', 1e9::int)", violates, ""},
		{"repeat by a sublink", "SELECT repeat('x', (SELECT 1000000000))", violates, ""},
		{"repeat by a case", "SELECT repeat('x', CASE WHEN a THEN 1 ELSE 1000000000 END) FROM t", violates, ""},
		{"repeat by coalesce", "SELECT repeat('x', coalesce(NULL, 1000000000))", violates, ""},
		{"repeat of a column of a subselect", "SELECT repeat(s, 1000) FROM (SELECT repeat('x', 10000) AS s) q", violates, ""},
		{"repeat of a WITH", "WITH q AS (SELECT repeat('x', 10000) AS s) SELECT repeat(s, 1000) FROM q", violates, ""},
		{"repeat of a renamed column", "SELECT repeat(b, 1000) FROM (SELECT repeat('x', 10000)) AS q(b)", violates, ""},
		{"repeat by a column of a subselect", "SELECT repeat('x', n) FROM (VALUES (1000000000)) q(n)", violates, ""},
		{"doubling", "SELECT a||a FROM (SELECT a||a AS a FROM (SELECT repeat('x', 300000) AS a) p) q", violates, ""},
		{"lpad", "SELECT lpad('x', 1000000000)", violates, ""},
		{"rpad by name", "SELECT pg_catalog.rpad(name, 100000000, '-') FROM t", violates, ""},
		{"padded type", "SELECT 'x'::char(10485760)", violates, "10 MiB each"},
		{"padded bits", "SELECT B'1'::bit(83886080)", violates, "10 MiB each"},
		{"array", "SELECT array_fill(0, ARRAY[1000, 1000, 100])", violates, ""},
		{"array by a text", "SELECT array_fill(0, '{10000,10000}'::int[])", violates, ""},
		{"format", "SELECT format('%1000000000s', 'x')", violates, ""},
		{"format by an argument", "SELECT format('%*s', 1000000000, 'x')", violates, ""},
		{"replace", "SELECT replace(repeat('a', 100000), 'a', repeat('b', 100000))", violates, ""},
		{"many of them", "SELECT " + strings.TrimSuffix(strings.Repeat("repeat('x',9999),", 200), ","), violates, ""},
		{"nested quotes", "SELECT " + strings.Repeat("quote_literal(", 25) + "''''" + strings.Repeat(")", 25), violates, "doubles"},
		{"separators", "SELECT repeat('-', 80), repeat(name, 3), lpad(id::text, 10, '0'), rpad('', 20) FROM t", fine, ""},
		{"bars", "SELECT name, repeat('#', (100 * n / max(n) OVER ())::int) FROM t", fine, ""},
		{"repeat in WITH RECURSIVE", "WITH RECURSIVE r(d, p) AS (SELECT 0, '' UNION ALL SELECT d + 1, repeat(' ', d * 2) FROM r) " +
			"SELECT * FROM r", fine, ""},
		{"ordinary char", "SELECT a::char(10), format('%-20s|%s', a, b) FROM t", fine, ""},
		{"ordinary replace", "SELECT replace(replace(a, 'x', 'yyyy'), 'z', ''), regexp_replace(a, '\\s+', ' ', 'g') FROM t", fine, ""},
	}
	p := newPolicy(t, Settings{})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a, err := p.Approve(context.Background(), c.sql, 50)
			if got := reason(t, err); got != c.want {
				t.Errorf("%.300s\n got %q (%v) %.300s\nwant %q: %s", c.sql, got, err, a.Text(), c.want, c.why)
			}
		})
	}
}

func TestARefusalNamesTheRuleAndNotTheText(t *testing.T) {
	p := newPolicy(t, Settings{})
	for _, c := range []struct{ sql, detail, echoed string }{
		{
			"SELECT 'é', pg_sleep(10)", "functions are refused unless listed, and the one at character 13 is not",
			"function 'pg_sleep()' is not allowed",
		},
		{"WITH d AS (DELETE FROM t RETURNING *) TABLE d", "DELETE is not allowed; one plain SELECT is", ""},
		{"SELECT 1; DROP TABLE t", "exactly one statement is allowed", ""},
		{"SELECT $1", "bind parameters are not allowed here; write the values into the query", ""},
		{
			"SELECT 'é' FROM secret WHERE", "PostgreSQL's grammar does not accept the text at character 29",
			"PostgreSQL's grammar does not accept the text at character 29: 'syntax error at end of input'",
		},
		{
			"SELECT 'x'::secret", "types are refused unless built in or listed, and the one at character 13 is neither",
			"type 'secret' is not allowed",
		},
	} {
		_, err := p.Approve(context.Background(), c.sql, 50)
		var refusal *problem.Problem
		if !errors.As(err, &refusal) {
			t.Fatalf("%s: %v", c.sql, err)
		}
		if got := refusal.Text(false); got != c.detail {
			t.Errorf("%s:\n got %s\nwant %s", c.sql, got, c.detail)
		}
		if c.echoed == "" {
			c.echoed = c.detail
		}
		if got := refusal.Text(true); got != c.echoed {
			t.Errorf("%s, echoed:\n got %s\nwant %s", c.sql, got, c.echoed)
		}
	}
}
