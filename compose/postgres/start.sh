#!/usr/bin/env bash
# What the container postgres of compose.sql.yaml runs: at the first start it makes the database app with what is in
# /init, and the role mcp_reader by /roles.sql; then it becomes the server. Nothing listens on TCP.
set -euo pipefail
umask 077

# Made beside its place and moved there when it is whole: a start that was cut short is begun anew.
if [ ! -s "$PGDATA/PG_VERSION" ]; then
	new=$PGDATA.new
	rm -rf "$new"
	# Peer: the superuser is whoever has this container's user, and nobody knows a password.
	initdb --pgdata "$new" --username postgres --auth-local peer --auth-host reject --encoding UTF8 --locale C.UTF-8 >/dev/null
	cat >"$new/pg_hba.conf" <<-END
		local all postgres peer
		local app mcp_reader scram-sha-256
	END
	pg_ctl --pgdata "$new" --wait --silent --log /tmp/first-start \
		--options "-c listen_addresses='' -c unix_socket_directories=/tmp" start || {
		cat /tmp/first-start >&2
		exit 1
	}
	sql=(psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --host /tmp --username postgres)
	"${sql[@]}" --dbname postgres <<-'END'
		CREATE ROLE app_owner NOLOGIN;
		CREATE DATABASE app OWNER app_owner;
	END
	for file in /init/*.sql; do
		[ ! -e "$file" ] || "${sql[@]}" --dbname app --command 'SET ROLE app_owner' --file "$file"
	done
	"${sql[@]}" --dbname app --set role=mcp_reader --set schemas='{public}' \
		--set owners='{app_owner}' --file /roles.sql >/dev/null
	# The password is the one in the DSN; by a pipe, because a command line can be read by others.
	password=$(sed -nE '1s#^postgres(ql)?://mcp_reader:([A-Za-z0-9._~-]+)@.*#\2#p' /run/secrets/dsn)
	[ -n "$password" ] || {
		echo "start: no postgresql://mcp_reader:PASSWORD@... in /run/secrets/dsn; PASSWORD is of A-Z a-z 0-9 . _ ~ -" >&2
		exit 1
	}
	"${sql[@]}" --dbname app <<<"ALTER ROLE mcp_reader PASSWORD '$password'"
	pg_ctl --pgdata "$new" --wait --silent stop
	mv "$new" "$PGDATA"
fi
exec postgres -c listen_addresses='' -c unix_socket_directories=/run/postgresql -c unix_socket_permissions=0777
