-- What may be read, by name. A partition stands for itself only where the root of its tree may not be read.
--
-- This runs with the search path of statements, in which others' schemas come after pg_catalog: every function is
-- qualified, and every operator has operands of exactly its types, since otherwise a better match further down would
-- count.
SELECT c.oid::pg_catalog.text, n.nspname::pg_catalog.text, c.relname::pg_catalog.text,
  (pg_catalog.count(*) OVER ())::pg_catalog.text
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relpersistence <> 't'
  AND n.nspname <> 'information_schema'
  AND NOT pg_catalog.starts_with(n.nspname::pg_catalog.text, 'pg_')
  AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
  AND (pg_catalog.has_table_privilege(c.oid, 'SELECT') OR pg_catalog.has_any_column_privilege(c.oid, 'SELECT'))
  AND CASE WHEN c.relispartition
    THEN NOT pg_catalog.has_any_column_privilege(pg_catalog.pg_partition_root(c.oid)::pg_catalog.oid, 'SELECT')
    ELSE true END
ORDER BY n.nspname, c.relname
LIMIT 5000
