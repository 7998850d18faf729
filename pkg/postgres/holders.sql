-- Whose rights the session has: rights.sql and advice.sql go on from here. Run with the search path pg_catalog,
-- pg_temp.
WITH me AS (
  SELECT r.oid, r.rolname, r.rolsuper FROM pg_roles r WHERE r.rolname = SESSION_USER
), can AS (
  -- Itself and every role that it could become. MEMBER, not USAGE: NOINHERIT holds nobody back from SET ROLE. Of a
  -- superuser, who could become everybody, only that is told.
  SELECT r.*, r.oid = me.oid AS self, (
    SELECT string_agg(format('REVOKE %I FROM %I%s;', d.rolname, me.rolname,
        ' GRANTED BY ' || quote_ident(g.rolname)), ' '
        ORDER BY d.rolname, g.rolname)
    FROM pg_auth_members m JOIN pg_roles d ON d.oid = m.roleid LEFT JOIN pg_roles g ON g.oid = m.grantor
    WHERE m.member = me.oid AND r.oid <> me.oid AND pg_has_role(m.roleid, r.oid, 'MEMBER')
  ) AS leave
  FROM me JOIN pg_roles r ON r.oid = me.oid OR NOT me.rolsuper AND pg_has_role(me.oid, r.oid, 'MEMBER')
), holder AS (
  SELECT oid, quote_ident(rolname) AS name, leave FROM can WHERE NOT rolsuper
  UNION ALL SELECT 0, 'PUBLIC', NULL FROM me WHERE NOT rolsuper
)
