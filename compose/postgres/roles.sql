-- A login role for mcp-server-suite that can read these schemas, and nothing else.
--
--   psql -d app -v schemas='{reporting}' -f roles.sql
--
-- Run it in the database to be read, as a superuser, or as a role that may create roles and owns the database, the
-- schemas and what is in them. It can be run again, for instance after new schemas. It sets no password: \password
-- does.
--
-- What it takes from others than the role, since PUBLIC has it by default: temporary tables in this database, calls
-- of the functions in these schemas, CREATE on them and on the schema public. Grant it to the roles that need it.
--
-- role         the name of the role
-- database     the database; the one that psql is connected to unless it is named, and then it must be that one
-- schemas      an array of the schemas to read, the search path
-- owners       an array of the roles that make tables and functions there; those that have made some unless it is named
-- connections  the most connections of the role; at least MCP_SQL_POOL_MAX_SIZE of all daemons together
\if :{?role}
\else
  \set role mcp_reader
\endif
\if :{?database}
\else
  \set database :DBNAME
\endif
\if :{?schemas}
\else
  \set schemas '{public}'
\endif
\if :{?connections}
\else
  \set connections 8
\endif
-- The names are settled.
\set ON_ERROR_STOP on
BEGIN;
SET LOCAL search_path = pg_catalog, pg_temp;
\if :{?owners}
\else
  WITH path AS (SELECT oid, nspowner FROM pg_namespace WHERE nspname = ANY (:'schemas'::text[]))
  SELECT coalesce(array_agg(DISTINCT CASE o.rolname WHEN 'pg_database_owner' THEN b.rolname ELSE o.rolname END),
    '{}') AS owners
  FROM (SELECT n.nspowner AS id FROM path n
      UNION SELECT c.relowner FROM pg_class c JOIN path n ON n.oid = c.relnamespace
      UNION SELECT p.proowner FROM pg_proc p JOIN path n ON n.oid = p.pronamespace) m JOIN pg_roles o ON o.oid = m.id,
    pg_database d JOIN pg_roles b ON b.oid = d.datdba
  WHERE d.datname = current_database() \gset
\endif
SELECT current_database() = :'database' AS here,
  (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS superuser \gset
\if :here
\else
  DO $$ BEGIN RAISE EXCEPTION 'psql is connected to another database than the one to grant in'; END $$;
\endif

-- A role without inheritance and special attributes. NOINHERIT alone is no guard (SET ROLE): make it a member of
-- nothing.
SELECT format('CREATE ROLE %I NOSUPERUSER NOREPLICATION NOBYPASSRLS', :'role')
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'role') \gexec
ALTER ROLE :"role" LOGIN NOINHERIT NOCREATEDB NOCREATEROLE CONNECTION LIMIT :connections;
\if :superuser
  ALTER ROLE :"role" NOSUPERUSER NOREPLICATION NOBYPASSRLS;
\endif

-- Defaults of the server's own, for when a layer in front of it fails. The daemon sets stricter ones for each
-- statement.
ALTER ROLE :"role" SET default_transaction_read_only = on;
ALTER ROLE :"role" SET statement_timeout = '10s';
ALTER ROLE :"role" SET lock_timeout = '1s';
ALTER ROLE :"role" SET idle_in_transaction_session_timeout = '15s';
SELECT format('ALTER ROLE %I SET search_path = %s', :'role',
  coalesce(string_agg(quote_ident(s), ', ' ORDER BY n), $$''$$))
FROM unnest(:'schemas'::text[]) WITH ORDINALITY AS x (s, n) \gexec
\if :superuser
  -- Of each session. Only a superuser may set it.
  ALTER ROLE :"role" SET temp_file_limit = '1GB';
\else
  \echo 'temp_file_limit is not set: it takes a superuser'
\endif

-- The database: connect, no temporary tables, no schemas.
GRANT CONNECT ON DATABASE :"database" TO :"role";
REVOKE CREATE, TEMPORARY ON DATABASE :"database" FROM PUBLIC, :"role";

-- The schemas: nobody puts an object in front of another (CVE-2018-1058).
SELECT format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC, %I', nspname, :'role')
FROM pg_namespace WHERE nspname = 'public' OR nspname = ANY (:'schemas'::text[]) \gexec
SELECT format('GRANT USAGE ON SCHEMA %I TO %I', s, :'role')
FROM unnest(:'schemas'::text[]) s \gexec

-- Tables and views, those to come too: SELECT.
SELECT format('REVOKE ALL ON ALL TABLES IN SCHEMA %1$I FROM %2$I', s, :'role')
FROM unnest(:'schemas'::text[]) s \gexec
SELECT format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA %1$I FROM %2$I', s, :'role')
FROM unnest(:'schemas'::text[]) s \gexec
SELECT format('GRANT SELECT ON ALL TABLES IN SCHEMA %1$I TO %2$I', s, :'role')
FROM unnest(:'schemas'::text[]) s \gexec
SELECT format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %I GRANT SELECT ON TABLES TO %I', o, s, :'role')
FROM unnest(:'owners'::text[]) o, unnest(:'schemas'::text[]) s \gexec

-- Functions: none. u.f is a call of f(u) when the table u has no column f, and no parser can tell. Spared are
-- triggers' functions, which cannot be called, and those of extensions, without which their types and operators do
-- not work; but not those that run with the rights of their owner.
SELECT format('REVOKE EXECUTE ON ROUTINE %s FROM PUBLIC, %I', p.oid::regprocedure, :'role')
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = ANY (:'schemas'::text[]) AND p.oid >= 16384 AND p.prorettype NOT IN (2279, 3838)
  AND (p.prosecdef OR NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 1255
    AND d.objid = p.oid AND d.deptype = 'e')) \gexec
-- Without IN SCHEMA, for that form can only add to what PUBLIC has.
SELECT format('ALTER DEFAULT PRIVILEGES FOR ROLE %I REVOKE EXECUTE ON ROUTINES FROM PUBLIC', o)
FROM unnest(:'owners'::text[]) o \gexec
COMMIT;
\echo 'Now set the password: \\password' :role
