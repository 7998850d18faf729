-- What the queries of this package's figures read. A superuser runs it in the database app of scripts/with-postgres.sh
-- (MORE_SQL), whose tables station and sighting it leaves as they are. The reader's rights come from roles.sql, which
-- gives it SELECT on tables to come. Nothing cleans up behind it while it is read.
CREATE TABLE reading (
  id         integer PRIMARY KEY,
  station_id integer NOT NULL,
  taken      timestamptz NOT NULL,
  level      numeric(8,3) NOT NULL,
  valid      boolean NOT NULL,
  remark     text
) WITH (autovacuum_enabled = false);
INSERT INTO reading
SELECT n, 1 + n % 3, timestamptz '2026-01-01 00:00:00Z' + n * interval '1 minute', n % 4973 * 0.017, n % 5 <> 0,
  CASE WHEN n % 4 = 0 THEN NULL ELSE 'gauge ' || n % 211 END
FROM generate_series(1, 600000) AS n;
ANALYZE reading;
