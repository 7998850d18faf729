-- What a role should have otherwise, although it is not refused for it: name, finding, the statements that cure it,
-- number of findings of the name. $1: the schemas of the search path.
, path AS (
  SELECT s.name, n.oid, n.nspowner, n.nspacl
  FROM unnest($1::text[]) s (name) LEFT JOIN pg_namespace n ON n.nspname = s.name
), here AS (
  SELECT datname, datacl, datdba FROM pg_database WHERE datname = current_database()
), maker AS (
  -- Who makes relations and functions in these schemas.
  SELECT DISTINCT r.oid, r.rolname
  FROM (
    SELECT nspowner AS owner FROM path UNION SELECT c.relowner FROM pg_class c JOIN path ON path.oid = c.relnamespace
    UNION SELECT p.proowner FROM pg_proc p JOIN path ON path.oid = p.pronamespace
  ) o JOIN pg_roles a ON a.oid = o.owner, here,
    pg_roles r
  WHERE r.oid = CASE a.rolname WHEN 'pg_database_owner' THEN here.datdba ELSE a.oid END
), routine AS (
  -- Functions of somebody's own that may be called; of those that came with an extension only the SECURITY DEFINER
  -- ones, since operators and types do not work without the others. A trigger's function cannot be called.
  SELECT p.oid, p.prosecdef
  FROM pg_proc p
  WHERE p.oid >= 16384 AND p.prorettype NOT IN (2279, 3838) AND has_schema_privilege(p.pronamespace, 'USAGE')
    AND has_function_privilege(p.oid, 'EXECUTE')
    AND (p.prosecdef OR NOT EXISTS (SELECT FROM pg_depend d
      WHERE d.classid = 1255 AND d.objid = p.oid AND d.deptype = 'e'))
), found AS (
  SELECT 1 AS rank, 'memberships' AS name,
    'member of ' || quote_ident(c.rolname) || ', which shows what others do' AS found,
    c.leave AS fix
  FROM can c
  WHERE c.rolname IN ('pg_monitor', 'pg_read_all_settings', 'pg_read_all_stats', 'pg_stat_scan_tables') AND NOT c.self
  UNION ALL
  SELECT 2, 'schemas', quote_ident(name) || ' of the search path does not exist', NULL FROM path WHERE oid IS NULL
  UNION ALL
  SELECT 2, 'schemas', 'no USAGE on ' || quote_ident(name),
    format('GRANT USAGE ON SCHEMA %I TO %I;', name, SESSION_USER)
  FROM path WHERE oid IS NOT NULL AND NOT has_schema_privilege(oid, 'USAGE')
  UNION ALL
  SELECT 3, 'relations', 'none in the search path may be read (MCP_SQL_SEARCH_PATH says where to look)', string_agg(
    format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO %I;', name, SESSION_USER), ' ')
  FROM path WHERE oid IS NOT NULL
  HAVING NOT EXISTS (SELECT FROM pg_class c JOIN path ON path.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND 
      (has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT')))
  UNION ALL
  -- Who may create there can put a function or operator in the way of a built-in one: lower(varchar) is preferred to
  -- lower(text), although pg_catalog is searched first. An owner of what is read there is trusted anyway.
  SELECT 4, 'creators in the search path', format('%s may create in %I', r.rolname, path.name),
    format(CASE WHEN x.grantor = path.nspowner THEN 'REVOKE CREATE ON SCHEMA %2$I FROM %3$I;'
      ELSE 'SET ROLE %1$I; REVOKE CREATE ON SCHEMA %2$I FROM %3$I; RESET ROLE;' END,
      (SELECT g.rolname FROM pg_roles g WHERE g.oid = x.grantor), path.name, r.rolname)
  FROM path, aclexplode(path.nspacl) x JOIN pg_roles r ON r.oid = x.grantee
  WHERE x.privilege_type = 'CREATE' AND x.grantee <> path.nspowner AND NOT r.rolsuper
    AND x.grantee NOT IN (SELECT oid FROM can)
    AND NOT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = path.oid AND c.relowner = x.grantee)
  UNION ALL
  SELECT 5, CASE WHEN prosecdef THEN 'SECURITY DEFINER functions' ELSE 'functions' END,
    oid::regprocedure || ' may be called',
    format('REVOKE EXECUTE ON ROUTINE %s FROM PUBLIC, %I;', oid::regprocedure, SESSION_USER)
  FROM routine
  UNION ALL
  -- Only the form without IN SCHEMA can take away what PUBLIC has by default.
  SELECT 6, 'functions to come', 'everybody may call what ' || quote_ident(rolname) || ' will make',
    format('ALTER DEFAULT PRIVILEGES FOR ROLE %I REVOKE EXECUTE ON ROUTINES FROM PUBLIC;', rolname)
  FROM maker
  WHERE NOT EXISTS (SELECT FROM pg_default_acl a
    WHERE a.defaclrole = maker.oid AND a.defaclnamespace = 0 AND a.defaclobjtype = 'f'
      AND NOT EXISTS (SELECT FROM aclexplode(a.defaclacl) x WHERE x.grantee = 0))
  UNION ALL
  SELECT 7, 'relations to come', format('%s on what %I will make',
      string_agg(x.privilege_type, ', ' ORDER BY x.privilege_type),
      r.rolname),
    format('ALTER DEFAULT PRIVILEGES FOR ROLE %I%s REVOKE %s ON %s FROM %s;', r.rolname,
      ' IN SCHEMA ' || quote_ident(n.nspname), string_agg(x.privilege_type, ', ' ORDER BY x.privilege_type),
      CASE a.defaclobjtype WHEN 'r' THEN 'TABLES' ELSE 'SEQUENCES' END, h.name)
  FROM pg_default_acl a JOIN pg_roles r ON r.oid = a.defaclrole LEFT JOIN pg_namespace n ON n.oid = a.defaclnamespace,
    aclexplode(a.defaclacl) x JOIN holder h ON h.oid = x.grantee
  WHERE a.defaclobjtype IN ('r', 'S') AND x.privilege_type <> 'SELECT' AND x.grantee <> a.defaclrole
  GROUP BY a.oid, a.defaclobjtype, r.rolname, n.nspname, h.name
  UNION ALL
  SELECT 8, 'temporary tables', h.name || ' may make temporary tables',
    format('REVOKE TEMPORARY ON DATABASE %I FROM %s;', here.datname, h.name)
  FROM here, aclexplode(coalesce(here.datacl, acldefault('d', here.datdba))) x JOIN holder h ON h.oid = x.grantee
  WHERE x.privilege_type = 'TEMPORARY' AND x.grantee <> here.datdba
)
SELECT name, found, fix, total::text FROM (
  SELECT rank, name, found, fix, count(*) OVER (PARTITION BY name) AS total,
    row_number() OVER (PARTITION BY name ORDER BY found, fix) AS n
  FROM found
) listed WHERE n <= 10 ORDER BY rank, name, found, fix
