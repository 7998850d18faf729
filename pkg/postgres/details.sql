-- The relations of a list, their columns and their keys. The list is of oids, each of digits only; at most 2,000
-- columns and 1,000 keys. For the way names are written see relations.sql.
WITH chosen AS (
  SELECT c.oid, c.relkind, c.reltuples, c.relpages, o.at, pg_catalog.has_table_privilege(c.oid, 'SELECT') AS whole
  FROM pg_catalog.unnest('{%s}'::pg_catalog.oid[]) WITH ORDINALITY o (id, at) JOIN pg_catalog.pg_class c ON c.oid = o.id
), field AS (
  SELECT chosen.at, chosen.oid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull
  FROM chosen JOIN pg_catalog.pg_attribute a ON a.attrelid = chosen.oid
  WHERE a.attnum > 0::pg_catalog.int2 AND NOT a.attisdropped
    AND (chosen.whole OR pg_catalog.has_column_privilege(chosen.oid, a.attnum, 'SELECT'))
), bond AS (
  -- Keys whose columns may all be read, on both sides. A foreign key to a partitioned table has one constraint more
  -- for each partition, which has a parent.
  SELECT chosen.at, k.conname, k.contype, k.conrelid, k.conkey, k.confrelid, k.confkey, t.relname, n.nspname
  FROM chosen JOIN pg_catalog.pg_constraint k ON k.conrelid = chosen.oid
    LEFT JOIN pg_catalog.pg_class t ON t.oid = k.confrelid LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
  WHERE (k.contype IN ('p', 'u') OR k.contype = 'f' AND k.conparentid = '0'::pg_catalog.oid)
    AND NOT EXISTS (SELECT FROM pg_catalog.unnest(k.conkey) u (num)
      WHERE NOT pg_catalog.has_column_privilege(k.conrelid, u.num, 'SELECT'))
    AND (k.contype <> 'f' OR pg_catalog.has_schema_privilege(n.oid, 'USAGE')
      AND NOT EXISTS (SELECT FROM pg_catalog.unnest(k.confkey) u (num)
      WHERE NOT pg_catalog.has_column_privilege(k.confrelid, u.num, 'SELECT')))
), known AS (
  -- Before PostgreSQL 14 no rows on no pages is what was never counted.
  SELECT pg_catalog.current_setting('server_version_num')::pg_catalog.int4 >= 140000 AS empty
), line AS (
  SELECT chosen.at, 0 AS part, 0 AS n, chosen.oid, chosen.relkind::pg_catalog.text AS name,
    CASE WHEN chosen.relkind = 'p' THEN leaf.estimate
      WHEN chosen.relkind = 'v' OR chosen.reltuples < 0::pg_catalog.float4 THEN NULL
      WHEN known.empty OR chosen.relpages > 0 THEN chosen.reltuples::pg_catalog.int8::pg_catalog.text END AS type,
    leaf.count AS extra, pg_catalog.obj_description(chosen.oid, 'pg_class') AS comment,
    ARRAY[(SELECT pg_catalog.count(*) FROM field WHERE field.oid = chosen.oid)::pg_catalog.text,
      (SELECT pg_catalog.count(*) FROM bond WHERE bond.conrelid = chosen.oid)::pg_catalog.text] AS items,
    NULL::pg_catalog.text[] AS target
  FROM chosen, known, LATERAL (
    SELECT pg_catalog.count(*)::pg_catalog.text AS count,
      CASE WHEN pg_catalog.count(*) = pg_catalog.count(*)
          FILTER (WHERE l.reltuples >= 0::pg_catalog.float4 AND (known.empty OR l.relpages > 0))
        THEN pg_catalog.sum(l.reltuples::pg_catalog.int8)::pg_catalog.text END AS estimate
    FROM (SELECT p.relid::pg_catalog.oid AS id, p.isleaf FROM pg_catalog.pg_partition_tree(chosen.oid) p) p
      JOIN pg_catalog.pg_class l ON l.oid = p.id
    WHERE p.isleaf AND chosen.relkind = 'p') leaf
  UNION ALL
  (SELECT at, 1, attnum, oid, attname::pg_catalog.text, pg_catalog.format_type(atttypid, atttypmod),
    CASE WHEN attnotnull THEN 't' ELSE 'f' END, pg_catalog.col_description(oid, attnum), NULL, NULL
  FROM field ORDER BY at, attnum LIMIT 2000)
  UNION ALL
  (SELECT bond.at, 2,
    (pg_catalog.row_number() OVER (PARTITION BY bond.at ORDER BY bond.conname))::pg_catalog.int4, bond.conrelid,
    bond.contype::pg_catalog.text, bond.nspname::pg_catalog.text, bond.relname::pg_catalog.text, NULL,
    (SELECT pg_catalog.array_agg(a.attname::pg_catalog.text ORDER BY u.n)
      FROM pg_catalog.unnest(bond.conkey) WITH ORDINALITY u (num, n)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = bond.conrelid AND a.attnum = u.num),
    (SELECT pg_catalog.array_agg(a.attname::pg_catalog.text ORDER BY u.n)
      FROM pg_catalog.unnest(bond.confkey) WITH ORDINALITY u (num, n)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = bond.confrelid AND a.attnum = u.num)
  FROM bond
  ORDER BY bond.at, bond.conname LIMIT 1000)
)
SELECT oid::pg_catalog.text, part, name, type, extra, pg_catalog."left"(comment, 257), items, target
FROM line ORDER BY at, part, n
