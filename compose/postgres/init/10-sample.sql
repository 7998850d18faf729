-- What compose.sql.yaml fills an empty database with, so that there is something to ask for. Put your own files here, or
-- name another folder in MCP_POSTGRES_INIT. Everything is invented.
CREATE TABLE station (
  id    integer PRIMARY KEY,
  name  text NOT NULL,
  river text NOT NULL
);
CREATE TABLE sighting (
  id         integer PRIMARY KEY,
  station_id integer NOT NULL REFERENCES station,
  day        date NOT NULL,
  herons     integer NOT NULL CHECK (herons >= 0)
);
COMMENT ON TABLE sighting IS 'One count of herons a day and station';
INSERT INTO station VALUES (1, 'weir', 'Ashbrook'), (2, 'mill', 'Ashbrook'), (3, 'ferry', 'Lenn');
INSERT INTO sighting
SELECT n, 1 + n % 3, date '2026-05-01' + n / 3, n * n % 7 + n % 3 FROM generate_series(0, 89) AS n;
ANALYZE;
