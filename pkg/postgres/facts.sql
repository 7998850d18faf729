-- What the server is and how this session stands to it. $1: the schemas of the search path.
WITH path AS (SELECT oid, nspowner FROM pg_namespace WHERE nspname = ANY ($1::text[]))
SELECT current_setting('server_version'), current_setting('server_version_num'), pg_is_in_recovery(), pg_backend_pid(),
  (SELECT s.ssl FROM pg_stat_ssl s WHERE s.pid = pg_backend_pid()),
  SESSION_USER, current_database(), r.rolconnlimit, r.rolinherit,
  (SELECT string_agg(quote_ident(d.rolname), ', ' ORDER BY d.rolname)
    FROM pg_auth_members m JOIN pg_roles d ON d.oid = m.roleid WHERE m.member = r.oid),
  (SELECT array_to_string(array_agg(DISTINCT CASE o.rolname WHEN 'pg_database_owner' THEN b.rolname ELSE o.rolname END),
      E'\x01')
    FROM (SELECT n.nspowner AS id FROM path n
        UNION SELECT c.relowner FROM pg_class c JOIN path n ON n.oid = c.relnamespace
        UNION SELECT p.proowner FROM pg_proc p JOIN path n ON n.oid = p.pronamespace) m JOIN pg_roles o ON o.oid = m.id,
      pg_database d JOIN pg_roles b ON b.oid = d.datdba
    WHERE d.datname = current_database()),
  -- reset_val: what the session began with, whatever a pooler's client has set since.
  (SELECT string_agg(s.name || '=' || s.reset_val, ';') FROM pg_settings s
    WHERE s.name IN ('default_transaction_read_only',
    'statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'temp_file_limit'))
FROM pg_roles r WHERE r.rolname = SESSION_USER
