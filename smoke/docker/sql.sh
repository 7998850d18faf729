#!/usr/bin/env bash
# Part of smoke/smoke-docker.sh, which reads it: a PostgreSQL on this machine, and checks of read_only_sql on it.
# shellcheck disable=SC2154 # the variables of smoke-docker.sh

# The server runs beside the containers, not in one: they have no network, and meet it at a socket in a folder that is
# mounted read-only, as compose/compose.sql.yaml does it. $pg holds all of it; empty when there is none, and then
# $pg_missing says why.
pg='' pg_missing='' pg_bin='' pg_pid=''
as=(env -C / LC_ALL=C.UTF-8) # the server's user does
password=herons-$RANDOM$RANDOM$RANDOM

as_pg() { "${as[@]}" "$@"; }

# psql_admin DATABASE: runs standard input as the superuser, whom only the server's own user can be (peer).
psql_admin() {
	as_pg "$pg_bin/psql" --no-psqlrc -qAtX -v ON_ERROR_STOP=1 -h "$pg/s" -U admin -d "$1" "${@:2}"
}

prepare_postgres() {
	pg_bin=$(find /usr/lib/postgresql /usr/pgsql-* -maxdepth 2 -name bin -type d 2>/dev/null | sort -V | tail -n 1) || true
	[ -n "$pg_bin" ] && [ -x "$pg_bin/postgres" ] || {
		pg_missing="no PostgreSQL on this machine (Debian: scripts/postgres.sh)"
		return 0
	}
	if [ "$(id -u)" -eq 0 ]; then
		id -u postgres >/dev/null 2>&1 || {
			pg_missing="no PostgreSQL on this machine that has a user of its own"
			return 0
		}
		as=(setpriv --reuid postgres --regid postgres --clear-groups "${as[@]}")
	fi
	say "starting $("$pg_bin/postgres" --version)"
	# Not below TMPDIR: the path of a socket has 107 bytes at most.
	pg=$(mktemp -d /tmp/mcp-smoke-pg.XXXXXX)
	if [ "$(id -u)" -eq 0 ]; then chown postgres:postgres "$pg"; fi
	start_postgres >"$work/postgres.out" 2>&1 || {
		sed 's/^/    /' "$work/postgres.out" >&2
		bail_out "PostgreSQL does not start"
	}
}

start_postgres() {
	local dsn=postgresql://mcp_reader:$password@ role=compose/postgres/roles.sql
	as_pg mkdir "$pg/s"
	as_pg chmod 755 "$pg/s"
	as_pg "$pg_bin/initdb" -D "$pg/data" -U admin -A peer -N -E UTF8 --locale C.UTF-8
	# Who may be admin: nobody but the user who runs it. The container's user is none that this machine knows.
	# shellcheck disable=SC2016 # for that shell
	as_pg sh -c 'printf "local all admin peer map=admin\nlocal all mcp_reader scram-sha-256\n" >"$1/pg_hba.conf"
		printf "admin %s admin\n" "$(id -un)" >"$1/pg_ident.conf"' sh "$pg/data"
	# Whatever becomes of this script, the kernel tells the server (SIGQUIT: at once).
	(exec "${as[@]}" setpriv --pdeathsig QUIT "$pg_bin/postgres" -D "$pg/data" -c listen_addresses= \
		-c "unix_socket_directories=$pg/s" -c unix_socket_permissions=0777 -c fsync=off -c shared_buffers=16MB \
		-c dynamic_shared_memory_type=mmap -c autovacuum=off </dev/null >>"$work/postgres.log" 2>&1) &
	pg_pid=$!
	await 60 ready_postgres
	psql_admin postgres <<-'END'
		CREATE DATABASE app;
		CREATE DATABASE other;
	END
	psql_admin app <<-'END'
		CREATE TABLE station (id int PRIMARY KEY, name text NOT NULL);
		CREATE TABLE sighting (id int PRIMARY KEY, station int NOT NULL REFERENCES station, herons int NOT NULL);
		INSERT INTO station VALUES (1, 'weir'), (2, 'mill');
		INSERT INTO sighting SELECT n, 1 + n % 2, n FROM generate_series(1, 10) n;
		ANALYZE;
	END
	psql_admin app <"$role"
	psql_admin postgres <<<"ALTER ROLE mcp_reader PASSWORD '$password'"
	(
		umask 077
		# The socket's folder as the container sees it. Readable for the container's user; $pg keeps others out.
		printf '%s\n' "$dsn/app?host=/run/postgresql" >"$pg/dsn"
		printf '%s\n' "$dsn/other?host=/run/postgresql" >"$pg/dsn-other"
		printf '%s\n' "postgresql://mcp_reader:not-$password@/app?host=/run/postgresql" >"$pg/dsn-wrong"
	)
	chmod 644 "$pg"/dsn*
}
ready_postgres() { kill -0 "$pg_pid" && "$pg_bin/pg_isready" -q -h "$pg/s" -U admin; }

end_postgres() {
	[ -n "$pg" ] || return 0
	if [ -n "$pg_pid" ] && kill -INT "$pg_pid" 2>/dev/null; then
		await 10 is_gone "$pg_pid" || kill -KILL "$pg_pid" 2>/dev/null || true
		wait "$pg_pid" 2>/dev/null || true
	fi
	rm -rf "$pg"
}

# sql_check TARGET TEXT FUNCTION...: check, where there is a PostgreSQL.
sql_check() {
	if [ -n "$pg_missing" ] && [ -z "$recording" ]; then
		left_out "$2" "$pg_missing"
	else
		check "$@"
	fi
}
sql_control() {
	# shellcheck disable=SC2034 # smoke-docker.sh reads it
	if [ -n "$pg_missing" ]; then
		controlled[$4]=1
		left_out "$4: $3" "$pg_missing"
	else
		control "$@"
	fi
}

query() { call "$1" read_only_sql "\"query\":\"$2\"${3:-}"; }

join='SELECT s.name, count(*), sum(g.herons) FROM station s JOIN sighting g ON g.station = s.id GROUP BY s.name ORDER BY 1'

# The queries that must be refused, with the id of their call.
refused_queries='
400 DELETE FROM sighting
401 WITH gone AS (DELETE FROM sighting RETURNING *) SELECT * FROM gone
402 SELECT 1; DELETE FROM sighting
403 SELECT pg_sleep(5)
404 SELECT pg_read_file('"'"'/etc/passwd'"'"')
405 SELECT * INTO copy FROM sighting
406 SELECT * FROM sighting FOR UPDATE
407 COPY sighting TO PROGRAM '"'"'true'"'"'
408 SELECT set_config('"'"'transaction_read_only'"'"', '"'"'off'"'"', false)
'

# A session with a database: out, err, rc; inspect and logs while it runs; rows before and after.
gather_sql() {
	local rc=0 id text
	psql_admin app <<<'SELECT count(*), sum(herons) FROM sighting' >"$at/before"
	open_client
	{
		initialize 2025-11-25
		printf '%s\n' '{"jsonrpc":"2.0","id":2,"method":"tools/list"}' \
			'{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"postgres://schema"}}'
		query 4 "$join"
		query 5 'SELECT n FROM generate_series(1, 1000) n'
		query 6 'SELECT n FROM generate_series(1, 50) n'
		while read -r id text; do [ -z "$id" ] || query "$id" "$text"; done <<<"$refused_queries"
		for id in $(seq 420 439); do query "$id" "SELECT $id, pi()"; done
	} >&"$to"
	for id in 1 2 3 4 5 6 $(seq 400 408) $(seq 420 439); do await_answer "$id" || break; done
	"$docker" inspect "$container" >"$at/inspect" 2>&1 || true
	"$docker" logs "$container" >"$at/logs" 2>&1 || true
	if [[ $folder == *-edit-deletes ]]; then psql_admin app <<<'DELETE FROM sighting WHERE id = 10'; fi
	exec {to}>&-
	wait "$client" || rc=$?
	echo $rc >"$at/rc"
	own_lines "$at/err.all" >"$at/err"
	psql_admin app <<<'SELECT count(*), sum(herons) FROM sighting' >"$at/after"
	case $folder in
	*-edit-deletes) psql_admin app <<<'INSERT INTO sighting VALUES (10, 1, 10)' ;;
	*-edit-served) sed -i '/"id":401,/s/.*/{"jsonrpc":"2.0","id":401,"result":{"isError":false}}/' "$at/out" ;;
	*-edit-cap) sed -i '/"id":5,/s/"truncated":true/"truncated":false/' "$at/out" ;;
	*-edit-log) sed "s/mcp_reader/&:$password/" "$pg/dsn" >>"$at/logs" ;;
	esac
}

sql_session() {
	once sql gather_sql
	answered 1 || fail "does not serve: $(head -c 300 "$at/err")" || return
}

# sql_offered there|"not there"
sql_offered() {
	local line
	once talk gather_talk
	line=$(answer 2) || fail "$line" || return
	case $line in
	*'"name":"read_only_sql"'*) [ "$1" = there ] || fail "read_only_sql is offered" ;;
	*) [ "$1" != there ] || fail "read_only_sql is not offered" ;;
	esac
}

sql_rows() {
	local line
	sql_session || return
	line=$(answer 4) || fail "$line" || return
	[[ $line == *'"rows":[["mill",5,25],["weir",5,30]],"row_count":2,"truncated":false,'*'"isError":false}}' ]] ||
		fail "the join: ${line:0:300}"
}

sql_schema() {
	local line
	sql_session || return
	line=$(answer 3) || fail "$line" || return
	[[ $line == *'"result":'*'\"sighting\"'*'\"station\"'* ]] || fail "postgres://schema: ${line:0:300}"
}

# Fifty of a thousand rows are the cap; fifty of fifty are all.
sql_capped() {
	local line
	sql_session || return
	line=$(answer 5) || fail "$line" || return
	[[ $line == *',[50]],"row_count":50,"truncated":true,"truncated_by":"rows",'*'"isError":false}}' ]] ||
		fail "1000 rows: ${line: -600}" || return
	line=$(answer 6) || fail "$line" || return
	[[ $line == *',[50]],"row_count":50,"truncated":false,"truncated_by":null,'*'"isError":false}}' ]] ||
		fail "50 rows: ${line: -600}"
}

sql_refused() {
	local id text line
	sql_session || return
	while read -r id text; do
		[ -n "$id" ] || continue
		line=$(answer "$id") || fail "$line" || return
		[[ $line =~ \\\"reason\\\":\\\"(UNSAFE_QUERY|BAD_SQL)\\\".*\"isError\":true\}\}$ ]] ||
			fail "$text: ${line:0:300}" || return
	done <<<"$refused_queries"
	cmp -s "$at/before" "$at/after" || fail "the table was $(cat "$at/before") and is $(cat "$at/after")"
}

sql_many() {
	local id line
	sql_session || return
	for id in $(seq 420 439); do
		line=$(answer "$id") || fail "$line" || return
		[[ $line == *"\"rows\":[[$id,3.14159"*'"isError":false}}' ]] || fail "call $id: ${line:0:300}" || return
	done
	[ "$(cat "$at/rc")" = 0 ] || fail "exit code $(cat "$at/rc"): $(tail -n 1 "$at/err" | head -c 300)"
}

# The password is where it was put, and nowhere else.
sql_secret() {
	local file
	sql_session || return
	grep -q "$password" "$pg/dsn" || fail "the password is not even in the file" || return
	grep -q '"Config":' "$at/inspect" || fail "docker inspect says: $(head -c 200 "$at/inspect")" || return
	for file in inspect logs err out; do
		! grep -q "$password" "$at/$file" || fail "the password is in $file" || return
	done
}

# A password that the server rejects: the answer says so, and neither it nor the log repeats anything of the DSN.
sql_rejected() {
	sql_session || return
	[[ $(answer 4) =~ \\\"reason\\\":\\\"DB_REJECTED\\\".*\"isError\":true\}\}$ ]] ||
		fail "not rejected: $(answer 4 | head -c 300)" || return
	# The posture names the folder: that it may be reached is one of the rights that are left.
	! grep -hvE '"msg":"posture"' "$at/out" "$at/logs" "$at/err" | grep -E "$password|mcp_reader|/run/postgresql" >"$at/told" ||
		fail "something of the DSN is repeated: $(head -n 1 "$at/told" | cut -c 1-200)"
}

# One socket is left, and the posture says so: with the right that confines it to its folder, where the kernel has that
# (Landlock ABI 9), and as a residue where it has not.
sql_posture() {
	logged_posture || return
	[[ $posture == *'"profiles":["base","sql"]'* ]] || fail "the filter is not the one for a database" || return
	[[ $posture == *'"no_new_privs":true'*'"opt_outs":[]'* ]] || fail "no_new_privs or opt_outs" || return
	[[ $posture == *'{"path":"/run/postgresql","rights":["resolve_unix"]}'* ]] ||
		fail "the folder of the socket is not granted, or more than a socket" || return
	[[ $posture == *'"connect_tcp":[]'* ]] || fail "TCP is left" || return
	[[ $posture == *'"level":"full"'* || $posture == *'"residual":["reach a unix socket of others by its path'*']'* ]] ||
		fail "neither full nor with what is left"
}

# sql_cancelled [NOTIFICATION]: a query that computes for minutes is cancelled, and ends on the server, too.
sql_cancelled() {
	local held=0
	at=$folder/cancel
	mkdir -p "$at"
	open_client
	initialize 2025-11-25 >&"$to"
	# Long, and without the temporary files that temp_file_limit would end after a second or two.
	query 9 'SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b' >&"$to"
	await 20 running 1 || fail "the query does not run: $(head -c 300 "$at/out" "$at/err.all")" || held=1
	printf '{"jsonrpc":"2.0","method":"notifications/%s","params":{"requestId":9}}\n' "${1:-cancelled}" >&"$to"
	[ $held -ne 0 ] || await 3 running 0 || fail "still runs on the server 3 s later" || held=1
	query 10 'SELECT 10' >&"$to"
	[ $held -ne 0 ] || await_answer 10 || fail "the session does not go on" || held=1
	[ $held -ne 0 ] || ! answered 9 || fail "the cancelled call was answered" || held=1
	exec {to}>&-
	wait "$client" || true
	return $held
}
running() { # 0|1: whether a query of the daemon runs on the server
	[ "$(psql_admin app <<<"SELECT count(*) FROM pg_stat_activity WHERE usename = 'mcp_reader' AND state = 'active'")" -eq "$1" ]
}
