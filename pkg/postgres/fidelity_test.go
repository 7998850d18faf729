package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// corpusFile holds ordinary statements, one a line, that pgpolicy keeps for its own tests.
const corpusFile = "../pgpolicy/testdata/everyday.sql"

// shop is the schema of the corpus.
const shop = `
CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL, email varchar(80), city text, born date, credit numeric(10,2),
	active boolean, tags text[], attributes jsonb, created timestamptz);
CREATE TABLE orders (id bigint PRIMARY KEY, customer_id int REFERENCES customers, placed timestamp, status char(8), total numeric(12,2),
	discount real, weight double precision, note text, shipped interval, items int);
CREATE TABLE lines (order_id bigint REFERENCES orders, no smallint, sku varchar(20), quantity int, price numeric(9,3), PRIMARY KEY (order_id, no));
CREATE TABLE "Mixed Case" ("Id" int, "select" text, "a""b" int);
INSERT INTO customers SELECT i, 'Name ' || chr(64 + i) || CASE WHEN i % 4 = 0 THEN ' O''Neil' ELSE '' END,
	CASE WHEN i % 3 > 0 THEN 'c' || i || '@example.org' END, (ARRAY['Oslo', 'Köln', 'Łódź', 'São Paulo'])[1 + i % 4],
	date '1960-02-29' + i * 500, i * 10.25, i % 2 = 0, ARRAY['a' || i % 3, 'b\c'],
	jsonb_build_object('level', i % 5, 'list', jsonb_build_array(i, i + 1), 'text', 'x' || i), timestamptz '2024-01-01 10:00+02' + i * interval '36 hours'
	FROM generate_series(1, 20) i;
INSERT INTO orders SELECT i, 1 + i % 20, timestamp '2024-03-30 22:00' + i * interval '7 hours', (ARRAY['new', 'paid', 'sent'])[1 + i % 3],
	i * 3.335, i / 7.0, CASE WHEN i % 10 = 0 THEN 'NaN' ELSE i / 3.0 END, CASE WHEN i % 5 > 0 THEN E'line\n' || i END, i * interval '1 hour', i % 6
	FROM generate_series(1, 60) i;
INSERT INTO lines SELECT o, n, 'SKU-' || (o * n) % 9, n, o * 1.001 FROM generate_series(1, 60) o, generate_series(1, 3) n WHERE (o + n) % 2 = 0;
INSERT INTO "Mixed Case" VALUES (1, 'x', 2), (2, NULL, 3);
CREATE VIEW totals AS SELECT customer_id, sum(total) AS total FROM orders GROUP BY 1;
ANALYZE;
`

// expressions are select lists on customers c.
const expressions = `
c.id, c.name
c.*
c
count(*)
DISTINCT c.city
c.id AS "Weird ""name"""
c.credit * 1.1 - -2
- c.id, + c.id, - (- c.id), c.id - (-1)
c.id % 3, c.id ^ 2, |/ c.id, @ (- c.id), c.id & 6, c.id | 1, ~ c.id, c.id << 2, c.id # 5
c.id / 2, c.id / 2.0, c.credit / 3
1 + 2 * 3, (1 + 2) * 3, 2 ^ 3 ^ 2, 2 ^ (3 ^ 2), - 2 ^ 2
c.active AND NOT (c.id > 3 OR c.city = 'Oslo')
c.active IS TRUE, c.active IS NOT FALSE, c.active IS UNKNOWN, NOT c.active IS NULL
c.email IS NULL, c.email IS NOT NULL, c.email IS DISTINCT FROM 'x', c.email IS NOT DISTINCT FROM NULL
c.name LIKE 'Name _', c.name NOT LIKE '%!_%' ESCAPE '!', c.name ILIKE 'name%', c.name SIMILAR TO 'Name (A|B)'
c.name ~ '^N', c.name !~ 'x', c.name ~* 'NAME', c.name !~* 'y'
c.id BETWEEN 3 AND 7, c.id NOT BETWEEN SYMMETRIC 7 AND 3
c.id IN (1, 2, 3), c.id NOT IN (4), c.id IN (SELECT customer_id FROM orders)
c.id = ANY (ARRAY[1, 2]), c.id > ALL ('{0}'::int[]), c.id = ANY (SELECT 1)
EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id), NOT EXISTS (SELECT)
(SELECT max(total) FROM orders o WHERE o.customer_id = c.id)
ARRAY(SELECT o.id FROM orders o WHERE o.customer_id = c.id ORDER BY o.id)
CASE WHEN c.id > 10 THEN 'big' WHEN c.id > 5 THEN 'mid' ELSE 'small' END
CASE c.city WHEN 'Oslo' THEN 1 WHEN 'Köln' THEN 2 END
coalesce(c.email, c.name, ''), nullif(c.city, 'Oslo'), greatest(c.id, 5), least(c.id, 5)
c.name || ' <' || c.email || '>'
upper(c.name), lower(c.name), initcap(c.name), length(c.name), reverse(c.name)
substring(c.name from 2 for 3), substring(c.name, 2), substring(c.name from '[A-Z]$'), left(c.name, 3), right(c.name, 2)
trim(c.name), trim(both 'N' from c.name), trim(leading 'N' from c.name), trim(trailing from c.name), btrim(c.name, 'Na')
position('m' in c.name), strpos(c.name, 'm'), overlay(c.name placing 'XX' from 2 for 1), replace(c.name, 'a', 'b')
split_part(c.email, '@', 1), string_to_array(c.name, ' '), regexp_replace(c.name, 'a(.)', '\1a', 'g')
lpad(c.id::text, 5, '0'), rpad('x', 3, c.city), repeat('-', 3), format('%s/%I/%L', c.id, c.name, c.email)
'it''s', E'a\tb\\c\x41', U&'d\0061t\+000061', $$do'llar$$, $q$x$$y$q$
'', ' ', 'Ünï©ødé €', E'\u20ac'
1, -1, 1.0, 1e10, 1.5e-3, 9223372036854775807, 9223372036854775808, .5, 5.
NULL, TRUE, FALSE, NULL::int, true::text, boolean 'yes'
B'1010', X'1F', B'101'::bit(3), '101'::bit varying(5)
c.id::text, CAST(c.id AS numeric(10,2)), c.id::int8, '12'::smallint, c.credit::int, int '5', float8 '1.5'
c.credit::numeric(8,1), c.name::varchar(4), c.name::char(6), c.created::timestamp(0), c.created::date, c.created::time(3) with time zone
c.born, c.born + 1, c.born - date '2000-01-01', c.born + time '10:00', c.created - interval '1 day'
date '2024-02-29', time '10:11:12.5', timestamp '2024-01-01 00:00', timestamptz '2024-01-01 00:00+02', interval '1 year 2 mons 3 days'
interval '3' day, interval '1-2' year to month, interval '5 04:03' day to minute, interval(2) '1.234567 seconds', interval '1' second (1)
extract(year from c.born), extract(epoch from c.created), date_part('dow', c.born), date_trunc('month', c.created)
c.created AT TIME ZONE 'Europe/Berlin', c.created::timestamp AT TIME ZONE 'UTC', timezone('America/New_York', c.created)
to_char(c.created, 'YYYY-MM-DD HH24:MI'), to_char(c.credit, 'FM9,990.00'), to_date('20240102', 'YYYYMMDD'), to_number('1,2', '9G9')
age(c.created, c.born), make_date(2024, 2, 3), make_interval(days => 3), justify_hours(interval '30 hours')
(c.born, c.born + 10) OVERLAPS (date '1965-01-01', interval '10 years')
current_date = current_date, current_timestamp = now(), localtimestamp = localtimestamp, pg_typeof(current_time) IS NULL
c.tags, c.tags[1], c.tags[1:1], c.tags[:2], c.tags[2:], (c.tags || 'z'), array_length(c.tags, 1), cardinality(c.tags)
ARRAY[1, 2, 3], ARRAY[[1, 2], [3, 4]], ARRAY[]::int[], '{1,NULL}'::int[], (ARRAY[1, 2, 3])[2], ARRAY[c.id, NULL]
c.tags @> ARRAY['a1'], c.tags && ARRAY['a1', 'a2'], c.tags <@ ARRAY['a0', 'a1', 'a2', 'b\c'], array_position(c.tags, 'a1')
c.attributes, c.attributes -> 'level', c.attributes ->> 'text', c.attributes #> '{list,0}', c.attributes #>> '{list,1}'
c.attributes @> '{"level": 1}', c.attributes ? 'level', c.attributes ?| ARRAY['x', 'text'], c.attributes ?& ARRAY['level']
c.attributes - 'list', c.attributes || '{"z": null}', jsonb_array_length(c.attributes -> 'list'), jsonb_typeof(c.attributes)
c.attributes['list'][0], jsonb_path_query_first(c.attributes, '$.list[*] ? (@ > 3)'), c.attributes @? '$.list[*] ? (@ > 20)'
'{"a": {"b": [1, 2.50, "x"]}}'::json, '{"a": 1, "a": 2}'::jsonb, to_jsonb(c.id), jsonb_build_object('id', c.id, 'n', c.name)
ROW(1, 'a', NULL), (c.id, c.name), ROW(c.id), ROW(c.*) IS NULL
(c.id, c.city) = (1, 'Köln'), (c.id, c.name) < (5, 'x'), ROW(1, 2) IS DISTINCT FROM ROW(1, NULL)
round(c.credit, 1), ceil(c.credit), floor(c.credit), trunc(c.credit, -1), abs(-c.id), sign(c.id), mod(c.id, 4), power(c.id, 2), sqrt(c.id)
'infinity'::float8, '-infinity'::timestamp, 'NaN'::numeric, 1e300 * 1e300 IS NULL
'\xdeadbeef'::bytea, encode('abc'::bytea, 'hex'), decode('YWJj', 'base64'), md5(c.name), length('ä'::bytea)
'192.168.1.0/24'::inet, host('10.0.0.1'::inet), '08:00:2b:01:02:03'::macaddr, inet '10.1.2.3' << inet '10.0.0.0/8'
point(1, 2), box '((0,0),(1,1))', point '(1,2)' <-> point '(4,6)', circle '<(0,0),5>'
int4range(1, 10), '[2024-01-01,2024-02-01)'::daterange, int4range(1, 5) && int4range(4, 9), int4range(1, 10) @> 5, upper(int4range(1, 10))
to_tsvector('english', 'The fat cats'), to_tsquery('english', 'cat & fat'), to_tsvector('simple', c.name) @@ to_tsquery('simple', 'name')
'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, '12.34'::money, '<a>x</a>'::xml
c.name COLLATE "C", c.name COLLATE "C" < 'Name B', lower(c.name COLLATE "C")
c.name = 'Name A' AND c.id = 1 OR c.id = 2 AND (c.id = 3 OR c.id = 4)
NOT c.id = 1, NOT (c.id = 1 AND c.id = 2), c.id <> 1, c.id != 2
(((c.id))), ((c.id + 1)) * ((2)), (c.id = 1)::text, (c.id + 1)::text || 'x'
(-1)::text, -1::text::int, - c.id::text::int, (- 5) % 3, - 5 % 3
c.id::text::varchar(3)::text, (c.tags)[1]::varchar(2), (c.attributes -> 'level')::text::int + 1
(c.id = 1) = (c.id < 3), c.id IS NULL = false, c.id > 1 IS TRUE
c.id || 'x' LIKE '1%', c.name || c.city ~ 'x' OR false, c.id + 1 BETWEEN 2 AND 3 AND true
num_nulls(c.email, c.city), concat(c.id, NULL, 'x'), concat_ws('-', c.id, NULL, c.city), quote_literal(c.name), quote_ident('A b')
bool_and(c.active), bool_or(c.active), count(DISTINCT c.city), count(c.email), sum(c.credit), avg(c.id), min(c.name), max(c.born)
string_agg(c.name, ', ' ORDER BY c.id), array_agg(c.id ORDER BY c.id DESC), array_agg(DISTINCT c.city ORDER BY c.city), jsonb_agg(c.id ORDER BY c.id)
count(*) FILTER (WHERE c.active), sum(c.id) FILTER (WHERE c.city = 'Oslo' OR c.id > 3)
percentile_cont(0.5) WITHIN GROUP (ORDER BY c.credit), mode() WITHIN GROUP (ORDER BY c.city), stddev(c.id), variance(c.credit), corr(c.id, c.credit::float8)
row_number() OVER (ORDER BY c.id), rank() OVER (PARTITION BY c.city ORDER BY c.credit DESC), count(*) OVER ()
lag(c.id) OVER w, lead(c.id, 2, -1) OVER w, first_value(c.name) OVER w FROM customers c WINDOW w AS (PARTITION BY c.city ORDER BY c.id) ORDER BY c.id
sum(c.id) OVER (ORDER BY c.id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW), avg(c.credit) OVER (ORDER BY c.id RANGE BETWEEN UNBOUNDED PRECEDING AND 3 FOLLOWING)
sum(c.id) OVER (ORDER BY c.id GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW), ntile(4) OVER (ORDER BY c.id), cume_dist() OVER (ORDER BY c.id)
max(c.id) OVER (w ROWS UNBOUNDED PRECEDING) FROM customers c WINDOW w AS (ORDER BY c.id)
`

// conditions are put behind WHERE, each with an order and a bound.
const tails = `
ORDER BY c.id
WHERE c.id > 5 ORDER BY c.city, c.id DESC
WHERE c.city IN ('Oslo', 'Köln') ORDER BY c.credit NULLS FIRST, c.id LIMIT 3
WHERE c.email IS NOT NULL AND c.id BETWEEN 2 AND 9 ORDER BY 1 OFFSET 2
WHERE c.name LIKE 'Name%' AND NOT c.active ORDER BY c.id FETCH FIRST 2 ROWS ONLY
WHERE c.attributes @> '{"level": 2}' OR c.tags && ARRAY['a1'] ORDER BY c.id USING >
WHERE (c.id, c.city) > (3, 'A') ORDER BY lower(c.name), c.id LIMIT ALL
WHERE EXISTS (SELECT FROM orders o WHERE o.customer_id = c.id AND o.total > 50) ORDER BY c.id LIMIT 2 + 1
WHERE c.id = ANY (ARRAY(SELECT customer_id FROM totals WHERE total > 100)) ORDER BY c.id
WHERE c.born >= date '1970-01-01' AND c.created < timestamptz '2024-02-01' ORDER BY c.born DESC
WHERE c.id NOT IN (SELECT o.customer_id FROM orders o WHERE o.items = 3) ORDER BY c.id OFFSET 1 ROW FETCH NEXT 4 ROWS ONLY
WHERE false ORDER BY c.id
`

// statements are whole ones.
const statements = `
SELECT 1
SELECT
VALUES (1, 'a'), (2, NULL), (3, 'c')
TABLE customers
TABLE "Mixed Case"
SELECT "Id", "select", "a""b" FROM "Mixed Case" ORDER BY "Id"
SELECT m."select" AS "from", m."Id" + 1 "where" FROM public."Mixed Case" AS m
SELECT * FROM totals ORDER BY customer_id
SELECT c.name, o.id FROM customers c JOIN orders o ON o.customer_id = c.id ORDER BY o.id LIMIT 10
SELECT c.name, o.id FROM customers c LEFT JOIN orders o ON o.customer_id = c.id AND o.total > 150 ORDER BY c.id, o.id
SELECT c.name, o.id FROM orders o RIGHT OUTER JOIN customers c ON c.id = o.customer_id AND o.id < 5 ORDER BY c.id, o.id
SELECT a.id, b.id FROM customers a FULL JOIN customers b ON a.id = b.id + 15 ORDER BY a.id, b.id
SELECT count(*) FROM customers CROSS JOIN lines
SELECT count(*) FROM orders NATURAL JOIN (SELECT id, items FROM orders WHERE id < 10) x
SELECT order_id, count(*) FROM lines JOIN orders o ON o.id = order_id GROUP BY order_id ORDER BY order_id
SELECT id, a.name FROM customers a JOIN (SELECT id FROM customers) b USING (id) ORDER BY id
SELECT x.id FROM (customers a JOIN customers b USING (id)) AS x ORDER BY x.id LIMIT 3
SELECT j.id FROM customers a JOIN customers b USING (id) AS j ORDER BY j.id LIMIT 3
SELECT c.name, o.* FROM customers c, LATERAL (SELECT id, total FROM orders WHERE customer_id = c.id ORDER BY total DESC LIMIT 2) o ORDER BY c.id, o.id
SELECT c.id, t FROM customers c CROSS JOIN LATERAL unnest(c.tags) AS t ORDER BY 1, 2
SELECT * FROM unnest(ARRAY[1, 2], ARRAY['a', 'b', 'c']) WITH ORDINALITY AS u(n, s, i)
SELECT * FROM ROWS FROM (generate_series(1, 3), generate_series(5, 6)) AS r(a, b)
SELECT * FROM generate_series(1, 10, 3) AS g(n)
SELECT * FROM generate_series(timestamp '2024-01-01', '2024-01-03', interval '12 hours') AS g
SELECT * FROM jsonb_each('{"a": 1, "b": [2]}') ORDER BY key
SELECT * FROM jsonb_to_recordset('[{"a": 1, "b": "x"}, {"a": 2}]') AS r(a int, b text)
SELECT * FROM (VALUES (1, 'one'), (2, 'two')) AS v(n, w) ORDER BY n
SELECT status, count(*), sum(total) FROM orders GROUP BY status HAVING count(*) > 5 ORDER BY status
SELECT status, items, sum(total) FROM orders GROUP BY ROLLUP (status, items) ORDER BY status, items
SELECT status, items, count(*) FROM orders GROUP BY CUBE (status, items) ORDER BY 1, 2
SELECT status, items, grouping(status, items), count(*) FROM orders GROUP BY GROUPING SETS ((status), (items), ()) ORDER BY 1, 2, 3
SELECT status, items, count(*) FROM orders GROUP BY DISTINCT ROLLUP (status), GROUPING SETS ((items), ()) ORDER BY 1, 2
SELECT DISTINCT ON (city) city, name FROM customers ORDER BY city, credit DESC
SELECT DISTINCT status, items FROM orders ORDER BY 1, 2
SELECT ALL id FROM orders ORDER BY id LIMIT 2
SELECT id FROM customers UNION SELECT customer_id FROM orders ORDER BY 1
SELECT id FROM customers UNION ALL SELECT 1 ORDER BY 1
SELECT id FROM customers EXCEPT SELECT 3 UNION SELECT 99 ORDER BY 1
SELECT id FROM customers EXCEPT (SELECT 3 UNION SELECT 99) ORDER BY 1
SELECT id FROM customers INTERSECT ALL SELECT customer_id FROM orders ORDER BY id DESC
(SELECT id FROM customers ORDER BY id DESC LIMIT 2) UNION ALL (SELECT id FROM orders ORDER BY id LIMIT 2) ORDER BY 1
(SELECT 1) UNION (SELECT 2 LIMIT 1)
WITH c AS (SELECT * FROM customers WHERE active) SELECT count(*) FROM c
WITH a AS MATERIALIZED (SELECT 1 AS x), b(y) AS NOT MATERIALIZED (SELECT x + 1 FROM a) SELECT x, y FROM a, b
WITH RECURSIVE t(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t WHERE n < 10) SELECT n FROM t
WITH RECURSIVE t(n, p) AS (SELECT 1, ARRAY[1] UNION ALL SELECT n + 1, p || n FROM t WHERE n < 4) SEARCH DEPTH FIRST BY n SET o SELECT n, p, o FROM t ORDER BY o
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n % 3 + 1 FROM t) CYCLE n SET looped USING path SELECT n, looped FROM t
WITH x AS (SELECT 1 AS a) SELECT * FROM (WITH y AS (SELECT a + 1 AS b FROM x) SELECT * FROM y) z
SELECT (SELECT name FROM customers WHERE id = 1), (SELECT count(*) FROM orders)
SELECT o.id FROM orders o WHERE o.total = (SELECT max(total) FROM orders)
SELECT id FROM orders WHERE total > ALL (SELECT total FROM orders WHERE items = 1) ORDER BY id
SELECT id FROM orders WHERE total < SOME (SELECT credit FROM customers) ORDER BY id LIMIT 5
SELECT id, weight FROM orders WHERE weight = 'NaN' OR weight > 19 ORDER BY id
SELECT id FROM orders ORDER BY status COLLATE "C" DESC NULLS LAST, id ASC LIMIT 7 OFFSET 3
SELECT id FROM orders ORDER BY items FETCH FIRST 3 ROWS WITH TIES
SELECT o.note, o.shipped, o.discount FROM orders AS o WHERE o.note IS NOT NULL ORDER BY o.id
SELECT date_trunc('week', placed) AS week, count(*), sum(total)::numeric(12,1) FROM orders GROUP BY week ORDER BY week
SELECT extract(isodow FROM placed)::int d, avg(total) FROM orders GROUP BY 1 ORDER BY 1
SELECT c.city, sum(l.quantity * l.price) AS turnover FROM customers c JOIN orders o ON o.customer_id = c.id JOIN lines l ON l.order_id = o.id GROUP BY c.city ORDER BY turnover DESC
SELECT sku, sum(quantity) OVER (PARTITION BY sku ORDER BY order_id, no) FROM lines ORDER BY sku, order_id, no
SELECT status, total - avg(total) OVER (PARTITION BY status) AS off FROM orders ORDER BY id
SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY table_name
SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'orders' ORDER BY ordinal_position
SELECT c FROM customers c WHERE c.id = 1
SELECT (c).name, (c).id FROM (SELECT c FROM customers c) x ORDER BY 2
SELECT t.x[1], t.x[2] FROM (SELECT ARRAY[1, 2] AS x) t
SELECT id, total FROM orders TABLESAMPLE SYSTEM (100) ORDER BY id
SELECT id FROM ONLY orders WHERE id < 4 ORDER BY id
SELECT count(*) AS "count", count(*) AS "count" FROM orders
SELECT 1 AS a, 2 AS a
SELECT xmlelement(name a, xmlattributes(1 AS b), 'c')
SELECT nullif(1, 1) IS NULL, coalesce(NULL, 2), greatest(1, 2, 3)
SELECT a.n, b.n FROM generate_series(1, 3) a(n), generate_series(1, 3) b(n) WHERE a.n <> b.n ORDER BY 1, 2
SELECT regexp_matches('foobar', '(o+)(b)'), regexp_split_to_array('a,b', ',')
SELECT '2024-01-31'::date + interval '1 month', '2024-03-31'::timestamp - '1 mon'::interval
SELECT 'a' < 'B', 'a' COLLATE "C" < 'B' COLLATE "C"
SELECT 10 / 3, 10 % 3, 10.0 / 3, 10::float8 / 3, 0.1 + 0.2, 0.1::float8 + 0.2::float8, 1::real / 3
SELECT NOT true AND false OR true, NOT (true AND false), (NOT true) OR true
SELECT 1 IN (1, NULL), 2 IN (1, NULL), NULL IN (1)
SELECT CASE WHEN 1 = 1 THEN CASE WHEN 2 = 2 THEN 'x' END END
`

// corpus is every statement that is tried.
func corpus(t *testing.T) []string {
	t.Helper()
	all := lines(statements)
	for i, list := range lines(expressions) {
		if strings.Contains(list, " FROM customers ") {
			all = append(all, "SELECT "+list)
			continue
		}
		all = append(all, "SELECT "+list+" FROM customers c")
		if i < 4 {
			for _, tail := range lines(tails) {
				if i == 0 || !strings.Contains(tail, "lower(") {
					all = append(all, "SELECT "+strings.TrimPrefix(list, "DISTINCT ")+" FROM customers c "+tail)
				}
			}
		}
	}
	// Each operator in brackets of each other one, on both sides: what a regenerated text gets wrong most easily.
	operators := []string{"+", "-", "*", "/", "%", "^", "<", "=", "||", "&", "<<", "AND", "OR", "IS DISTINCT FROM"}
	for _, outer := range operators {
		for _, inner := range operators {
			all = append(all,
				fmt.Sprintf("SELECT (a.i %s a.j) %s a.k FROM %s", inner, outer, triples),
				fmt.Sprintf("SELECT a.i %s (a.j %s a.k) FROM %s", outer, inner, triples),
				fmt.Sprintf("SELECT a.i %s a.j %s a.k FROM %s", outer, inner, triples))
		}
	}
	f, err := os.Open(corpusFile)
	if errors.Is(err, os.ErrNotExist) {
		t.Logf("%s is not there: without it", corpusFile)
		return all
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := bufio.NewScanner(f)
	text.Buffer(nil, 1<<20)
	for text.Scan() {
		if line := strings.TrimSpace(text.Text()); line != "" && !strings.HasPrefix(line, "--") {
			all = append(all, strings.TrimSuffix(line, ";"))
		}
	}
	if err := text.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

const triples = "(SELECT i, i % 4 + 1 AS j, i % 3 + 1 AS k FROM generate_series(1, 6) i) a"

func lines(text string) []string { return strings.Split(strings.Trim(text, "\n"), "\n") }

// reply is what a statement gives: the columns and the rows, or the SQLSTATE.
type reply struct {
	columns []pgconn.FieldDescription
	rows    [][]string
	state   string
}

// inSession runs statements as Query does, on a connection of the pool and all in one transaction, so that it is the same
// time for all, and keeps what Query does not return.
func inSession(t *testing.T, d *DB, statements ...string) (replies []reply) {
	t.Helper()
	ctx := context.Background()
	r, err := d.acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := r.Value()
	defer r.Release()
	run := func(sql string) *pgconn.Result { return c.ExecParams(ctx, sql, nil, nil, nil, nil).Read() }
	ours := func(sql string) {
		if r := run(sql); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	ours(begin)
	ours(c.limits)
	for _, sql := range statements {
		ours("SAVEPOINT s")
		result := run(sql)
		ours("ROLLBACK TO s")
		replies = append(replies, replyOf(t, result))
	}
	ours(rollback)
	return replies
}

func replyOf(t *testing.T, result *pgconn.Result) (out reply) {
	t.Helper()
	var server *pgconn.PgError
	if errors.As(result.Err, &server) {
		return reply{state: server.Code}
	}
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	out.columns = result.FieldDescriptions
	for i := range out.columns { // where it is from is not what it is
		out.columns[i].TableOID, out.columns[i].TableAttributeNumber = 0, 0
	}
	for _, values := range result.Rows {
		row := make([]string, len(values))
		for i, v := range values {
			if row[i] = "NULL"; v != nil {
				row[i] = fmt.Sprintf("%q", v)
			}
		}
		out.rows = append(out.rows, row)
	}
	return out
}

// meansOtherwise is what stands in a statement whose approved text does not give the same, and why.
var meansOtherwise = []struct{ part, why string }{
	{"WITH TIES", "the bound of the policy takes the place of one that gives more rows than it says (pgpolicy, capRows)"},
	{"0x1F", "PostgreSQL 15 reads 0 AS x1F, and an error with _; the grammar of 17 reads 31"},
	{"random", "another value each time"},
}

// TestTheApprovedTextMeansWhatTheOriginalMeans: both are run in the same session, and give the same rows, names, types and
// modifiers, or the same error.
func TestTheApprovedTextMeansWhatTheOriginalMeans(t *testing.T) {
	d, _, _, _ := readerPool(t, shop, nil)
	p, err := onePolicy()
	if err != nil {
		t.Fatal(err)
	}
	var compared, failed, different, refusals int
	for _, sql := range corpus(t) {
		a, err := p.Approve(context.Background(), sql, 10_000)
		if err != nil {
			refusals++
			t.Logf("refused: %s: %v", sql, err)
			continue
		}
		both := inSession(t, d, sql, a.Text())
		want, got := both[0], both[1]
		same := want.state == got.state && slices.Equal(got.columns, want.columns) &&
			slices.EqualFunc(got.rows, want.rows, slices.Equal[[]string])
		otherwise := slices.ContainsFunc(meansOtherwise, func(m struct{ part, why string }) bool {
			return strings.Contains(sql, m.part)
		})
		switch {
		case otherwise:
			different++
		case !same:
			t.Errorf("%s\n%s\ngot  %.500v\nwant %.500v", sql, a.Text(), got, want)
		case want.state != "":
			failed++
		default:
			compared++
		}
	}
	t.Logf("%d statements compared, %d more are errors on both sides, %d mean something else, %d refused",
		compared, failed, different, refusals)
	if compared < 300 {
		t.Errorf("only %d statements were compared", compared)
	}
}
