SELECT 1
SELECT 1; -- done
SELECT 1;;
/* header */ SELECT 1
SELECT now()
SELECT current_date, current_timestamp, localtime, localtimestamp(0)
SELECT * FROM orders
SELECT count(*) FROM orders
SELECT count(DISTINCT customer_id) FROM orders
SELECT DISTINCT region FROM customers ORDER BY region
SELECT id, total FROM orders WHERE total > 100 ORDER BY total DESC LIMIT 10
SELECT id FROM orders ORDER BY id OFFSET 20 LIMIT 10
SELECT id FROM orders ORDER BY id OFFSET 20 ROWS FETCH NEXT 10 ROWS ONLY
SELECT id FROM orders ORDER BY total DESC FETCH FIRST 3 ROWS WITH TIES
SELECT id FROM orders LIMIT ALL
SELECT region, sum(total) AS revenue FROM orders GROUP BY region ORDER BY revenue DESC NULLS LAST
SELECT region, sum(total) FROM orders GROUP BY 1 HAVING sum(total) > 1000 ORDER BY 2 DESC
SELECT date_trunc('month', created_at) AS month, count(*) FROM orders GROUP BY 1 ORDER BY 1
SELECT date_trunc('week', created_at AT TIME ZONE 'Europe/Berlin')::date AS week, sum(total) FROM orders GROUP BY 1
SELECT extract(year FROM created_at) AS y, extract(month FROM created_at)::int AS m, avg(total)::numeric(12,2) FROM orders GROUP BY 1, 2
SELECT date_part('dow', created_at), count(*) FROM orders GROUP BY 1
SELECT to_char(created_at, 'YYYY-MM-DD HH24:MI') FROM orders
SELECT created_at::date, created_at::time, created_at - interval '1 day' FROM orders
SELECT * FROM orders WHERE created_at >= now() - interval '7 days'
SELECT * FROM orders WHERE created_at >= date '2024-01-01' AND created_at < date '2024-01-01' + interval '1 month'
SELECT * FROM orders WHERE created_at BETWEEN '2024-01-01' AND '2024-12-31'
SELECT * FROM orders WHERE (start_date, end_date) OVERLAPS (date '2024-01-01', interval '10 days')
SELECT age(now(), created_at), justify_hours(interval '27 hours'), make_date(2024, 2, 29), make_interval(days => 10) FROM orders
SELECT date_bin('15 minutes', ts, timestamp '2001-01-01'), count(*) FROM events GROUP BY 1
SELECT to_timestamp(1700000000), to_date('20240131', 'YYYYMMDD'), to_number('1,234.5', '9G999D9')
SELECT extract(epoch FROM (ended_at - started_at)) / 60 AS minutes FROM jobs
SELECT d::date FROM generate_series('2024-01-01'::date, '2024-01-31'::date, '1 day'::interval) AS d
SELECT d.day, coalesce(o.n, 0) FROM generate_series(date '2024-01-01', date '2024-01-31', interval '1 day') AS d(day) LEFT JOIN (SELECT created_at::date AS day, count(*) AS n FROM orders GROUP BY 1) o ON o.day = d.day ORDER BY 1
SELECT name FROM users WHERE name LIKE 'A%'
SELECT name FROM users WHERE name ILIKE '%smith%' AND name NOT LIKE 'J%'
SELECT name FROM users WHERE name LIKE '10!%%' ESCAPE '!'
SELECT name FROM users WHERE name LIKE lower('N1') || '%'
SELECT name FROM users WHERE name LIKE ANY (ARRAY['a%', 'b%'])
SELECT name FROM users WHERE name SIMILAR TO '(a|b)%'
SELECT name FROM users WHERE name ~ '^[A-Z]' AND name !~* 'test'
SELECT upper(name), lower(name), initcap(name), length(name), trim(name), reverse(name) FROM users
SELECT first || ' ' || last AS full_name FROM users
SELECT concat(first, ' ', last), concat_ws(', ', last, first), format('%s <%s>', name, email) FROM users
SELECT substring(name FROM 1 FOR 3), substring(name, 2), substring(name FROM '[0-9]+'), left(name, 2), right(name, 2) FROM users
SELECT position('@' IN email), strpos(email, '@'), split_part(email, '@', 2), overlay(email PLACING 'x' FROM 1 FOR 2) FROM users
SELECT trim(BOTH 'x' FROM name), ltrim(name), rtrim(name, '.'), btrim(name, ' -') FROM users
SELECT replace(name, 'a', 'b'), translate(name, 'abc', 'xyz'), regexp_replace(name, '\s+', ' ', 'g') FROM users
SELECT regexp_matches(name, '(\w+)@(\w+)', 'g'), regexp_split_to_array(tags, ',') FROM users
SELECT string_to_array('a,b,c', ','), array_to_string(ARRAY[1, 2, 3], ';'), md5(name), encode(sha256(name::bytea), 'hex') FROM users
SELECT lpad(id::text, 8, '0'), rpad(name, 20, '.'), repeat('-', 80) FROM users
SELECT round(avg(total), 2), floor(1.5), ceil(1.5), trunc(1.567, 2), abs(-5), sign(-1), mod(7, 3), power(2, 10), sqrt(2), ln(2), exp(1) FROM orders
SELECT 7 / 2, 7 % 2, 2 ^ 3, 7.0 / 2, -7, +7, 1e3, 1.5e-3, 0x1F, 1_000_000
SELECT a & b, a | b, a # b, ~a, a << 2, a >> 1 FROM flags
SELECT greatest(1, 2, 3), least(1, 2), coalesce(a, b, 0), nullif(a, 0) FROM t
SELECT total / nullif(quantity, 0) FROM items
SELECT 100.0 * count(*) FILTER (WHERE status = 'paid') / count(*) AS pct FROM orders
SELECT CASE WHEN total > 100 THEN 'big' WHEN total > 10 THEN 'medium' ELSE 'small' END AS size, count(*) FROM orders GROUP BY 1
SELECT CASE status WHEN 'paid' THEN 1 ELSE 0 END FROM orders
SELECT sum(CASE WHEN status = 'paid' THEN total ELSE 0 END) FROM orders
SELECT width_bucket(total, 0, 1000, 10) AS bucket, count(*) FROM orders GROUP BY 1 ORDER BY 1
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY total), percentile_disc(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY total), mode() WITHIN GROUP (ORDER BY status) FROM orders
SELECT stddev(total), variance(total), corr(a, b), covar_pop(a, b), regr_slope(y, x), regr_intercept(y, x), regr_r2(y, x) FROM orders
SELECT array_agg(name ORDER BY name), string_agg(DISTINCT name, ', ' ORDER BY name), bool_and(active), bool_or(active), every(active) FROM users
SELECT min(created_at), max(created_at), count(*) FILTER (WHERE active), bit_or(flags) FROM users
SELECT json_agg(t), jsonb_object_agg(k, v), json_build_object('a', 1, 'b', json_build_array(1, 2)) FROM t GROUP BY k
SELECT id, total, sum(total) OVER (ORDER BY created_at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running FROM orders
SELECT id, avg(total) OVER (PARTITION BY region ORDER BY created_at ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) FROM orders
SELECT id, sum(total) OVER (ORDER BY created_at RANGE BETWEEN interval '7 days' PRECEDING AND CURRENT ROW) FROM orders
SELECT id, sum(total) OVER (ORDER BY d GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) FROM orders
SELECT id, row_number() OVER (PARTITION BY customer_id ORDER BY created_at DESC) AS rn FROM orders
SELECT rank() OVER w, dense_rank() OVER w, percent_rank() OVER w, cume_dist() OVER w, ntile(4) OVER w FROM orders WINDOW w AS (ORDER BY total DESC)
SELECT lag(total) OVER w, lead(total, 2, 0) OVER w, first_value(total) OVER w, last_value(total) OVER w, nth_value(total, 2) OVER w FROM orders WINDOW w AS (PARTITION BY region ORDER BY created_at)
SELECT total - lag(total) OVER (ORDER BY month) AS change, round(100.0 * (total - lag(total) OVER (ORDER BY month)) / lag(total) OVER (ORDER BY month), 1) AS pct FROM monthly
SELECT * FROM (SELECT o.*, row_number() OVER (PARTITION BY customer_id ORDER BY total DESC) AS rn FROM orders o) ranked WHERE rn <= 3
SELECT count(*) * 100.0 / sum(count(*)) OVER () AS share, region FROM orders GROUP BY region
SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer_id
SELECT o.id, c.name FROM orders o LEFT JOIN customers c USING (customer_id) WHERE c.name IS NULL
SELECT * FROM a FULL OUTER JOIN b ON a.id = b.id
SELECT * FROM a RIGHT JOIN b ON a.id = b.id CROSS JOIN c NATURAL JOIN d
SELECT * FROM a, b WHERE a.id = b.id
SELECT e.name, m.name AS manager FROM employees e LEFT JOIN employees m ON m.id = e.manager_id
SELECT * FROM (a JOIN b ON a.x = b.x) JOIN c ON c.y = a.y
SELECT c.name, recent.* FROM customers c CROSS JOIN LATERAL (SELECT id, total FROM orders o WHERE o.customer_id = c.id ORDER BY created_at DESC LIMIT 3) AS recent
SELECT c.id, x.n FROM customers c LEFT JOIN LATERAL (SELECT count(*) AS n FROM orders WHERE customer_id = c.id) x ON true
SELECT * FROM orders WHERE customer_id IN (SELECT id FROM customers WHERE region = 'EU')
SELECT * FROM orders WHERE status IN ('paid', 'sent') AND id NOT IN (1, 2, 3)
SELECT * FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)
SELECT * FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)
SELECT * FROM orders WHERE total > (SELECT avg(total) FROM orders)
SELECT * FROM orders WHERE total >= ALL (SELECT total FROM orders WHERE region = 'EU')
SELECT * FROM orders WHERE id = ANY (ARRAY[1, 2, 3]) OR id = ANY ('{4,5}'::int[])
SELECT * FROM orders WHERE (customer_id, created_at) IN (SELECT customer_id, max(created_at) FROM orders GROUP BY customer_id)
SELECT * FROM orders WHERE (a, b) = (1, 2) OR (a, b) > (3, 4)
SELECT (SELECT max(total) FROM orders o WHERE o.customer_id = c.id) AS best FROM customers c
SELECT * FROM t WHERE a IS NULL OR b IS NOT NULL OR c IS TRUE OR d IS NOT FALSE OR e IS UNKNOWN
SELECT * FROM t WHERE a IS DISTINCT FROM b AND NOT (c IS NOT DISTINCT FROM d)
SELECT * FROM t WHERE NOT active AND (a = 1 OR b = 2) AND NOT (c = 3 AND d = 4)
WITH recent AS (SELECT * FROM orders WHERE created_at > now() - interval '30 days') SELECT count(*) FROM recent
WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS y FROM a) SELECT * FROM a, b
WITH a AS MATERIALIZED (SELECT 1), b AS NOT MATERIALIZED (SELECT 2) SELECT * FROM a UNION ALL SELECT * FROM b
WITH RECURSIVE tree AS (SELECT id, parent_id, name, 1 AS depth FROM nodes WHERE parent_id IS NULL UNION ALL SELECT n.id, n.parent_id, n.name, t.depth + 1 FROM nodes n JOIN tree t ON n.parent_id = t.id) SELECT * FROM tree ORDER BY depth, name
WITH RECURSIVE t(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t WHERE n < 100) SELECT sum(n) FROM t
WITH RECURSIVE paths AS (SELECT id, ARRAY[id] AS path FROM nodes UNION ALL SELECT n.id, p.path || n.id FROM nodes n JOIN paths p ON n.parent_id = p.id WHERE NOT n.id = ANY (p.path)) SELECT * FROM paths
WITH RECURSIVE g AS (SELECT src, dst FROM edges UNION ALL SELECT e.src, e.dst FROM edges e JOIN g ON e.src = g.dst) SEARCH BREADTH FIRST BY src SET ord CYCLE src SET is_cycle USING path SELECT * FROM g ORDER BY ord
WITH monthly AS (SELECT date_trunc('month', created_at) AS m, sum(total) AS s FROM orders GROUP BY 1), growth AS (SELECT m, s, lag(s) OVER (ORDER BY m) AS prev FROM monthly) SELECT m, s, round((s - prev) / nullif(prev, 0) * 100, 2) AS pct FROM growth ORDER BY m
WITH first_orders AS (SELECT customer_id, min(created_at) AS first_at FROM orders GROUP BY customer_id) SELECT date_trunc('month', f.first_at) AS cohort, (extract(year FROM age(o.created_at, f.first_at)) * 12 + extract(month FROM age(o.created_at, f.first_at)))::int AS month_no, count(DISTINCT o.customer_id) FROM first_orders f JOIN orders o USING (customer_id) GROUP BY 1, 2 ORDER BY 1, 2
SELECT id FROM a UNION SELECT id FROM b
SELECT id FROM a UNION ALL SELECT id FROM b ORDER BY id LIMIT 5
SELECT id FROM a INTERSECT SELECT id FROM b EXCEPT ALL SELECT id FROM c
(SELECT id FROM a ORDER BY id LIMIT 5) UNION ALL (SELECT id FROM b ORDER BY id LIMIT 5)
SELECT region, status, sum(total) FROM orders GROUP BY GROUPING SETS ((region, status), (region), ())
SELECT region, status, sum(total), GROUPING(region, status) FROM orders GROUP BY ROLLUP (region, status)
SELECT region, status, count(*) FROM orders GROUP BY CUBE (region, status) ORDER BY region NULLS FIRST, status
SELECT a, b, count(*) FROM t GROUP BY DISTINCT ROLLUP (a, b), ROLLUP (a)
SELECT DISTINCT ON (customer_id) customer_id, id, created_at FROM orders ORDER BY customer_id, created_at DESC
SELECT data->'a'->>'b', data #> '{a,b}', data #>> '{a,0}', data ? 'k', data ?| ARRAY['a'], data ?& ARRAY['a', 'b'] FROM docs
SELECT data @> '{"a": 1}'::jsonb, data <@ '{}'::jsonb, data - 'a', data || '{"b": 2}', data #- '{a}' FROM docs
SELECT data['a']['b'], (data->>'n')::numeric, jsonb_typeof(data), jsonb_array_length(data->'list') FROM docs
SELECT elem->>'name' FROM docs, jsonb_array_elements(data->'items') AS elem
SELECT d.id, kv.key, kv.value FROM docs d CROSS JOIN LATERAL jsonb_each_text(d.data) AS kv
SELECT x.* FROM docs d, jsonb_to_recordset(d.data) AS x(a int, b text, c timestamptz)
SELECT jsonb_path_query(data, '$.items[*] ? (@.price > 10)'), data @? '$.a', data @@ '$.a == 1' FROM docs
SELECT jsonb_set(data, '{a}', '1'), jsonb_pretty(data), jsonb_strip_nulls(data), to_jsonb(t), row_to_json(t) FROM docs t
SELECT JSON_OBJECT('a': 1, 'b': 2), JSON_ARRAY(1, 2), JSON_VALUE(data, '$.a' RETURNING int DEFAULT 0 ON EMPTY), JSON_QUERY(data, '$.b'), JSON_EXISTS(data, '$.c') FROM docs
SELECT jt.* FROM docs, JSON_TABLE(data, '$.items[*]' COLUMNS (id FOR ORDINALITY, name text PATH '$.name', price numeric PATH '$.price')) AS jt
SELECT ARRAY[1, 2, 3], ARRAY[[1, 2], [3, 4]], '{1,2}'::int[], (ARRAY[1, 2, 3])[2], (ARRAY[1, 2, 3])[1:2], array_length(tags, 1), cardinality(tags) FROM t
SELECT tag, count(*) FROM posts, unnest(tags) AS tag GROUP BY tag ORDER BY 2 DESC
SELECT * FROM unnest(ARRAY[1, 2], ARRAY['a', 'b']) WITH ORDINALITY AS u(id, name, n)
SELECT * FROM posts WHERE tags && ARRAY['a', 'b'] AND tags @> ARRAY['c']
SELECT array_append(tags, 'x'), array_remove(tags, 'y'), array_position(tags, 'z'), array_cat(a, b), ARRAY(SELECT id FROM t) FROM t
SELECT int4range(1, 10) @> 5, daterange('2024-01-01', '2024-02-01', '[)') && during, lower(during), upper_inf(during) FROM bookings
SELECT to_tsvector('english', body) @@ to_tsquery('english', 'cat & dog'), ts_rank(to_tsvector(body), plainto_tsquery('cat')), ts_headline(body, websearch_to_tsquery('cat -dog')) FROM posts
SELECT host(ip), masklen(ip), network(ip), ip << inet '10.0.0.0/8' FROM logins
SELECT point(1, 2) <-> point(3, 4), circle(point(0, 0), 2), area(box(point(0, 0), point(1, 1)))
SELECT xmlelement(name a, xmlattributes(id AS i), name), xmlagg(xmlforest(id, name)) FROM t GROUP BY id, name, doc
SELECT gen_random_uuid(), random(), pi(), pg_typeof(1), pg_size_pretty(1024::bigint), pg_column_size('x')
SELECT current_user, session_user, current_database(), current_schema
SELECT "Order ID", "Customer"."First Name" FROM "Sales"."Orders" AS "Customer" WHERE "Order ID" = 1
SELECT o."select", o."from" FROM public.orders AS o
SELECT 'it''s', E'tab\there', U&'d\0061ta', $$dollar 'quoted'$$, $q$with $$ inside$q$, B'101', X'1F'
SELECT 'é', '日本語', '😀' AS "Schlüssel" FROM "Tabellen-Name"
SELECT NULL, TRUE, FALSE, NOT TRUE, 1 = 1, 1 <> 2, 1 != 2
SELECT CAST(a AS integer), a::bigint, a::double precision, a::real, a::smallint, a::decimal(10, 2), a::character varying(20), a::boolean, a::bytea, a::uuid FROM t
SELECT a::timestamp with time zone, b::timestamp(3), c::time without time zone, d::interval day to second, e::bit(3), f::bit varying FROM t
SELECT t.*, t.a AS b, t.c d FROM t
SELECT count(*) FROM orders TABLESAMPLE bernoulli (1) REPEATABLE (42)
SELECT * FROM ONLY parent
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(id, name) JOIN t USING (id)
VALUES (1, 'one'), (2, 'two') ORDER BY 1
TABLE orders ORDER BY id LIMIT 3
SELECT FROM orders
SELECT name COLLATE "C" FROM users ORDER BY name COLLATE "de_DE"
SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema')
SELECT column_name, data_type, is_nullable FROM information_schema.columns WHERE table_name = 'orders' ORDER BY ordinal_position
EXPLAIN SELECT * FROM orders WHERE id = 1
EXPLAIN (FORMAT JSON) SELECT * FROM orders
EXPLAIN (VERBOSE, COSTS OFF) SELECT count(*) FROM orders JOIN customers USING (customer_id)
SELECT 'drop table x; or 1=1' AS note UNION SELECT 'grant'
SELECT 'a;b' AS x, $tag$ ; COMMIT; $tag$ AS y, 'ok' = 'ok' AS z
SELECT now() AT TIME ZONE 'UTC', (now() AT TIME ZONE 'UTC')::date, timezone('UTC', now()), now() AT LOCAL
SELECT (a + b) * c - d / (e - f), -(a + b), (a OR b) AND c, a || (b || c), (a = b) = c, (a, b) IS NULL FROM t
SELECT (sum(a) - sum(b)) / nullif(count(*), 0)::numeric AS m, (array_agg(x ORDER BY y DESC))[1] AS last_x FROM t
SELECT (t).a, (f.point).x FROM t, f
SELECT max(total) - min(total) AS spread, (max(total) + min(total)) / 2 AS mid FROM orders HAVING count(*) > 1
SELECT id, name FROM users WHERE lower(email) = lower('A@B.c') AND created_at::date = current_date - 1
SELECT hashtext(id::text) % 10 AS bucket, count(*) FROM users GROUP BY 1
SELECT num_nulls(a, b), num_nonnulls(a, b), a BETWEEN SYMMETRIC 10 AND 1, a NOT BETWEEN 1 AND 2 FROM t
SELECT EXISTS (SELECT 1 FROM orders), NOT EXISTS (SELECT 1 FROM orders WHERE total < 0)
SELECT count(*) FILTER (WHERE a) AS "a", sum(b) FILTER (WHERE c > 1) OVER (PARTITION BY d) FROM t GROUP BY b, c, d
SELECT 't'::boolean, 'f'::boolean, bool 't', CAST('f' AS bool), 'T'::bool, 't'::text FROM t WHERE active = 't'::bool
