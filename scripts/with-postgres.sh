#!/usr/bin/env bash
# with-postgres.sh COMMAND...: runs COMMAND beside a PostgreSQL of its own, and ends as COMMAND does.
#
# The server listens on a port of 127.0.0.1. Its database app holds the sample of compose/postgres/init, and its role
# mcp_reader is the one of compose/postgres/roles.sql, with a password that COMMAND finds in the DSN in the file
# $POSTGRES_DSN_FILE, which only the server's user and root can reach; the one in $POSTGRES_SOCKET_DSN_FILE leads to the
# same over a unix socket. MORE_SQL names a file that the superuser runs in app at the end. Server and folders go when
# COMMAND ends; a server that runs already is left alone. Installs nothing. Needs the programs of PostgreSQL, and as root a user postgres or
# nobody (scripts/postgres.sh). Exits with 2 when no server can be had.
set -euo pipefail
[ $# -gt 0 ] || {
	sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
	exit 2
}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
fail() {
	printf 'with-postgres: %s\n' "$*" >&2
	exit 2
}
bin=$(find /usr/lib/postgresql /usr/pgsql-* -maxdepth 2 -name bin -type d 2>/dev/null | sort -V | tail -n 1) || true
[ -x "$bin/postgres" ] || fail "PostgreSQL is missing; install it (Debian: scripts/postgres.sh)"

as=(env -C / LC_ALL=C.UTF-8) # the server's user does
user=''
if [ "$(id -u)" -eq 0 ]; then # it refuses to be root, and initdb wants a user with a name
	user=postgres
	id -u postgres >/dev/null 2>&1 || user=nobody
	as=(setpriv --reuid "$user" --regid "$(id -g $user)" --clear-groups "${as[@]}")
fi

folder=$(mktemp -d /tmp/with-postgres.XXXXXX) # not below TMPDIR: the path of a socket has 107 bytes at most
sockets=$(mktemp -d /tmp/with-postgres.XXXXXX) # of its own: whoever may pass a folder reads what is readable in it
chmod 711 "$sockets"
[ -z "$user" ] || chown $user "$folder" "$sockets"
server='' command=''
finish() {
	local status=$? ticks=0
	trap - EXIT
	if [ -n "$command" ] && kill -TERM "$command" 2>/dev/null; then wait "$command" 2>/dev/null || true; fi
	if [ -n "$server" ] && kill -QUIT "$server" 2>/dev/null; then
		while kill -0 "$server" 2>/dev/null && [ $ticks -lt 100 ]; do
			sleep 0.1
			ticks=$((ticks + 1))
		done
		kill -KILL "$server" 2>/dev/null || true
		wait "$server" 2>/dev/null || true
	fi
	rm -rf "$folder" "$sockets"
	exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

log=$folder/log
quiet() { # nothing but what goes wrong
	"$@" >"$folder/said" 2>&1 || {
		cat "$folder/said" >&2
		fail "$1 did not succeed"
	}
}
quiet "${as[@]}" "$bin/initdb" -D "$folder/data" -U admin -A peer -N -E UTF8 --locale C.UTF-8
# The superuser is whoever has the server's user, and by a socket only.
# shellcheck disable=SC2016 # for that shell
quiet "${as[@]}" sh -c 'printf "%s\n" "local all admin peer map=admin" "local app mcp_reader scram-sha-256" \
	"host app mcp_reader 127.0.0.1/32 scram-sha-256" \
	>"$1/pg_hba.conf" && printf "admin %s admin\n" "$(id -un)" >"$1/pg_ident.conf"' sh "$folder/data"

ready() { "$bin/pg_isready" -q -h "$folder" -p "$port" -U admin; }
for try in 1 2 3 4 5 6; do
	# Below the ports that the kernel hands out. One that somebody has makes another try.
	port=$((15000 + RANDOM % 16000))
	: >"$log"
	# Its own session: a Ctrl-C is for COMMAND. Whatever becomes of this script, the kernel ends the server.
	(exec setsid "${as[@]}" setpriv --pdeathsig QUIT "$bin/postgres" -D "$folder/data" -p $port \
		-c listen_addresses=127.0.0.1 -c "unix_socket_directories=$folder,$sockets" -c fsync=off -c shared_buffers=16MB \
		-c dynamic_shared_memory_type=mmap -c max_connections=64 </dev/null >>"$log" 2>&1) &
	server=$!
	for ((tick = 0; tick < 600; tick++)); do
		! ready || break 2
		kill -0 $server 2>/dev/null || break
		sleep 0.1
	done
	kill -QUIT $server 2>/dev/null || true
	wait $server 2>/dev/null || true
	server=''
	if [ $try -eq 6 ] || ! grep -q 'Address already in use' "$log"; then
		cat "$log" >&2
		fail "the server does not start"
	fi
done

admin() { "${as[@]}" "$bin/psql" --no-psqlrc -qAtX -v ON_ERROR_STOP=1 -h "$folder" -p "$port" -U admin "$@"; }
password=$(od -An -N 16 -t x1 /dev/urandom | tr -d ' \n')
{
	admin -d postgres -c 'CREATE DATABASE app'
	for file in "$here"/compose/postgres/init/*.sql "$here"/compose/postgres/roles.sql; do
		admin -d app -v connections=48 <"$file" # make bench: four programs, two of them with 16
	done
	admin -d app <<<"ALTER ROLE mcp_reader PASSWORD '$password'"
	[ -z "${MORE_SQL:-}" ] || admin -d app <"$MORE_SQL"
} >"$folder/said" 2>&1 || {
	cat "$folder/said" >&2
	fail "the database could not be filled"
}
export POSTGRES_DSN_FILE=$folder/dsn POSTGRES_SOCKET_DSN_FILE=$folder/socket-dsn
login=mcp_reader:$password
(
	umask 077
	echo "postgresql://$login@127.0.0.1:$port/app?sslmode=disable" >"$POSTGRES_DSN_FILE"
	echo "postgresql://$login@/app?host=$sockets&port=$port&sslmode=disable" >"$POSTGRES_SOCKET_DSN_FILE"
)

status=0
"$@" <&0 &
command=$!
wait "$command" || status=$?
command=''
exit "$status"
