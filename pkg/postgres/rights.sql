-- The rights of the session's user beyond reading: kind, object, the statements that take the right away, number of
-- findings of the kind.
, heir AS (
  -- Who takes what it owns: the database's owner, unless that is the role itself.
  SELECT quote_ident(r.rolname) AS name
  FROM pg_database d JOIN pg_roles r ON r.oid IN (d.datdba, 10)
  WHERE d.datname = current_database() AND r.oid NOT IN (SELECT oid FROM can WHERE NOT rolsuper OR self)
  ORDER BY r.oid = d.datdba DESC LIMIT 1
), attribute AS (
  SELECT 1 AS rank, 'is superuser' AS kind, 'NOSUPERUSER' AS cure, c.* FROM can c WHERE c.rolsuper
  UNION ALL SELECT 2, 'bypasses row level security', 'NOBYPASSRLS', c.* FROM can c
    WHERE c.rolbypassrls AND NOT c.rolsuper
  UNION ALL SELECT 3, 'may create roles', 'NOCREATEROLE', c.* FROM can c WHERE c.rolcreaterole AND NOT c.rolsuper
  UNION ALL SELECT 4, 'may create databases', 'NOCREATEDB', c.* FROM can c WHERE c.rolcreatedb AND NOT c.rolsuper
  UNION ALL SELECT 5, 'may replicate', 'NOREPLICATION', c.* FROM can c WHERE c.rolreplication AND NOT c.rolsuper
), grants AS (
  -- Whatever is granted on a relation other than SELECT. Temporary ones are of the session, or of a pooler's.
  SELECT 9 AS rank,
    CASE WHEN x.privilege_type = 'SELECT' THEN 'may hand on a right' ELSE 'may write relations' END AS kind,
    CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS class, format('%I.%I', n.nspname, c.relname) AS object,
    c.relowner AS owner, x.grantee, x.grantor, x.privilege_type AS privilege, NULL::text AS field
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, aclexplode(c.relacl) x
  WHERE c.relacl IS NOT NULL AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND c.relpersistence <> 't'
    AND (x.privilege_type <> 'SELECT' OR x.is_grantable)
    -- pg_catalog and its toast: nobody but a superuser writes there, whatever is granted, and PUBLIC may UPDATE
    -- pg_settings.
    AND (c.relnamespace NOT IN (11, 99) OR c.oid >= 16384)
  UNION ALL
  SELECT 10, CASE WHEN x.privilege_type = 'SELECT' THEN 'may hand on a right' ELSE 'may write columns' END, 'TABLE',
    format('%I.%I', n.nspname, c.relname), c.relowner, x.grantee, x.grantor, x.privilege_type, quote_ident(a.attname)
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace,
    aclexplode(a.attacl) x
  WHERE a.attacl IS NOT NULL AND NOT a.attisdropped AND (x.privilege_type <> 'SELECT' OR x.is_grantable)
    AND (c.relnamespace NOT IN (11, 99) OR c.oid >= 16384)
  UNION ALL
  SELECT 11, 'may create in a schema', 'SCHEMA', quote_ident(n.nspname), n.nspowner, x.grantee, x.grantor,
    x.privilege_type, NULL
  FROM pg_namespace n, aclexplode(n.nspacl) x WHERE x.privilege_type = 'CREATE'
  UNION ALL
  SELECT 12, 'may create in the database', 'DATABASE', quote_ident(d.datname), d.datdba, x.grantee, x.grantor,
    x.privilege_type, NULL
  FROM pg_database d, aclexplode(d.datacl) x WHERE d.datname = current_database() AND x.privilege_type = 'CREATE'
  UNION ALL
  SELECT 13, 'may use a foreign server', 'FOREIGN SERVER', quote_ident(s.srvname), s.srvowner, x.grantee, x.grantor,
    x.privilege_type, NULL
  FROM pg_foreign_server s, aclexplode(s.srvacl) x
  UNION ALL
  SELECT 13, 'may use a foreign server', 'FOREIGN DATA WRAPPER', quote_ident(w.fdwname), w.fdwowner, x.grantee,
    x.grantor, x.privilege_type, NULL
  FROM pg_foreign_data_wrapper w, aclexplode(w.fdwacl) x
  UNION ALL
  -- Found by the role, since there may be millions; what PUBLIC may do with large objects is not looked at.
  SELECT 14, 'may write large objects', 'LARGE OBJECT', l.oid::text, l.lomowner, x.grantee, x.grantor,
    x.privilege_type, NULL
  FROM pg_shdepend d JOIN pg_largeobject_metadata l ON l.oid = d.objid, aclexplode(l.lomacl) x
  WHERE d.refclassid = 1260 AND d.refobjid IN (SELECT oid FROM can) AND d.deptype = 'a' AND d.classid = 2613
    AND d.dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND x.grantee = d.refobjid
    AND x.privilege_type <> 'SELECT'
  UNION ALL
  -- What initdb has withheld from PUBLIC, and not granted to this holder: pg_read_file, pg_authid and the like.
  SELECT 16, 'may call a reserved function', 'FUNCTION', p.oid::regprocedure::text, p.proowner, x.grantee, x.grantor,
    x.privilege_type, NULL
  FROM pg_proc p JOIN pg_init_privs i ON i.objoid = p.oid AND i.classoid = 1255 AND i.privtype = 'i',
    aclexplode(p.proacl) x
  WHERE p.proacl IS NOT NULL AND NOT EXISTS (SELECT FROM aclexplode(i.initprivs) o WHERE o.grantee IN (0, x.grantee))
  UNION ALL
  SELECT 17, 'may read a reserved catalog', 'TABLE', c.oid::regclass::text, c.relowner, x.grantee, x.grantor,
    x.privilege_type, NULL
  FROM pg_class c JOIN pg_init_privs i ON i.objoid = c.oid AND i.classoid = 1259 AND i.objsubid = 0
      AND i.privtype = 'i',
    aclexplode(c.relacl) x
  WHERE c.relacl IS NOT NULL AND c.relnamespace = 11 AND c.oid < 16384 AND x.privilege_type = 'SELECT'
    AND NOT EXISTS (SELECT FROM aclexplode(i.initprivs) o
      WHERE o.grantee IN (0, x.grantee) AND o.privilege_type = 'SELECT')
), owned AS (
  -- Whatever it owns here: relations, schemas, functions, the database. A user mapping is the way to read a foreign
  -- table, and default privileges are no objects.
  SELECT d.classid, d.objid, d.objsubid, c.self, c.leave
  FROM pg_shdepend d JOIN can c ON c.oid = d.refobjid
  WHERE d.refclassid = 1260 AND d.deptype = 'o' AND d.classid NOT IN (1418, 826) AND NOT c.rolsuper
    AND d.dbid IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
    AND NOT (d.classid = 1259 AND EXISTS (SELECT FROM pg_class r WHERE r.oid = d.objid AND r.relpersistence = 't'))
), found AS (
  SELECT rank, kind, quote_ident(rolname) AS object,
    -- The first superuser cannot be made less: another role is due. The script of the report makes it.
    CASE WHEN oid = 10 AND self THEN NULL
      WHEN self THEN format('ALTER ROLE %I %s;', rolname, cure) ELSE leave END AS fix,
    1::bigint AS total
  FROM attribute
  UNION ALL
  -- Roles of the server's own (nobody else's name may begin with pg_), those that are made in later versions, too.
  -- Left out are the four that show more of the statistics and settings, which the policy refuses anyway, and the one
  -- of the database's owner, who is told of what he may by virtue of it.
  SELECT 6, 'is a member of a reserved role', quote_ident(rolname), leave, 1
  FROM can
  WHERE starts_with(rolname::text, 'pg_') AND NOT self AND rolname NOT IN
    ('pg_monitor', 'pg_read_all_settings', 'pg_read_all_stats', 'pg_stat_scan_tables', 'pg_database_owner')
  UNION ALL
  SELECT 7, 'may hand on a role', quote_ident(d.rolname),
    coalesce(c.leave, format('REVOKE ADMIN OPTION FOR %I FROM %I%s;',
    d.rolname, c.rolname, ' GRANTED BY ' || quote_ident(g.rolname))), 1
  FROM pg_auth_members m JOIN can c ON c.oid = m.member JOIN pg_roles d ON d.oid = m.roleid
    LEFT JOIN pg_roles g ON g.oid = m.grantor
  WHERE m.admin_option AND NOT c.rolsuper
  UNION ALL
  SELECT 8, 'owns objects', o.type || ' ' || o.identity,
    coalesce(s.leave, format('REASSIGN OWNED BY %I TO %s;', SESSION_USER, (SELECT name FROM heir))), s.total
  FROM (SELECT *, count(*) OVER () AS total FROM owned ORDER BY classid, objid LIMIT 10) s,
    pg_identify_object(s.classid, s.objid, s.objsubid) o
  UNION ALL
  SELECT g.rank, g.kind,
    format('%s: %s', CASE g.class WHEN 'TABLE' THEN g.object ELSE lower(g.class) || ' ' || g.object END,
      string_agg(g.privilege || coalesce(' (' || g.field || ')', ''), ', ' ORDER BY g.privilege, g.field))
      || CASE h.name WHEN quote_ident(SESSION_USER) THEN '' ELSE ' by ' || h.name END,
    coalesce(h.leave, format(CASE WHEN g.grantor = g.owner THEN 'REVOKE %2$s%3$s ON %4$s %5$s FROM %6$s%7$s;'
        -- A grant is taken back by who has given it.
        ELSE 'SET ROLE %1$s; REVOKE %2$s%3$s ON %4$s %5$s FROM %6$s%7$s; RESET ROLE;' END,
      (SELECT quote_ident(r.rolname) FROM pg_roles r WHERE r.oid = g.grantor),
      CASE g.kind WHEN 'may hand on a right' THEN 'GRANT OPTION FOR ' ELSE '' END,
      string_agg(g.privilege || coalesce(' (' || g.field || ')', ''), ', ' ORDER BY g.privilege, g.field),
      g.class, g.object, h.name, CASE g.kind WHEN 'may hand on a right' THEN ' CASCADE' ELSE '' END)), 1
  FROM grants g JOIN holder h ON h.oid = g.grantee
  -- An owner's own grants say nothing: he owns.
  WHERE g.grantee <> g.owner
  GROUP BY g.rank, g.kind, g.class, g.object, g.owner, g.grantor, h.name, h.leave
  UNION ALL
  -- PostgreSQL 15: GRANT SET or ALTER SYSTEM ON PARAMETER. The catalog itself cannot be named, earlier servers lack
  -- it; so neither can what PUBLIC may set be seen.
  SELECT 15, 'may set server parameters', o.identity,
    coalesce(c.leave, format('REVOKE ALL ON PARAMETER %s FROM %I;', o.identity, c.rolname)), 1
  FROM pg_shdepend d JOIN can c ON c.oid = d.refobjid, pg_identify_object(d.classid, d.objid, d.objsubid) o
  WHERE d.refclassid = 1260 AND d.deptype = 'a' AND d.classid = 6243 AND NOT c.rolsuper
)
SELECT kind, object, fix, total::text FROM (
  SELECT rank, kind, object, fix, greatest(total, count(*) OVER (PARTITION BY kind)) AS total,
    row_number() OVER (PARTITION BY kind ORDER BY object, fix) AS n
  FROM found
) listed WHERE n <= 10 ORDER BY rank, kind, object, fix
