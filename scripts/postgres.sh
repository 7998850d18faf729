#!/usr/bin/env bash
# postgres.sh: installs, as root, what pkg/pgstage starts servers from: PostgreSQL 15 with its extensions, and
# PgBouncer. What is there already is left alone. The packages would start a server and a bouncer of their own, now
# and at each boot; nobody wants those here, so they are kept from it while they are being installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

packages=()
[ -x /usr/lib/postgresql/15/bin/postgres ] || packages+=(postgresql-15)
[ -x /usr/sbin/pgbouncer ] || packages+=(pgbouncer)
[ ${#packages[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ]; then
	echo "postgres: installing ${packages[*]} needs root" >&2
	exit 1
fi

# Debian Policy 9.11: maintainer scripts ask this program before they start a service; 101 is no.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi

for package in "${packages[@]}"; do
	case $package in
	postgresql-15) # no cluster, hence nothing to start
		./apt.sh postgresql-common
		conf=/etc/postgresql-common/createcluster.conf
		sed -i '/^create_main_cluster/d' "$conf"
		echo 'create_main_cluster = false' >>"$conf"
		;;
	pgbouncer)
		if [ -d /etc/systemd/system ] && [ ! -e /etc/systemd/system/pgbouncer.service ]; then
			ln -s /dev/null /etc/systemd/system/pgbouncer.service # what systemctl mask does
		fi
		;;
	esac
	./apt.sh "$package"
	if [ "$package" = pgbouncer ]; then
		update-rc.d pgbouncer disable >/dev/null 2>&1 # for a machine without systemd
	fi
done
