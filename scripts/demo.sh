#!/usr/bin/env bash
# Shows the whole system once on a bare machine: checks for Go, gets the Debian packages that the demo needs (as root it
# installs what is missing and says so; otherwise it names them and stops), builds, and hands over to `mcp-proof demo` beside
# a PostgreSQL.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
GO=${GO:-go}

want=$(sed -nE 's/^go ([0-9.]+)$/\1/p' go.mod)
if ! command -v "$GO" >/dev/null; then
	echo "demo: Go is missing. Install Go $want or newer, put its bin folder on PATH, and run make demo again." >&2
	exit 2
fi
# Read outside the module: an older Go would refuse go.mod, or fetch a newer Go, before it says its version.
have=$(cd / && "$GO" env GOVERSION)
have=${have#go}
have=${have%% *}
if [ "$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -n 1)" != "$want" ]; then
	echo "demo: this is Go $have; Go $want or newer is needed." >&2
	exit 2
fi

# a file that the package has, Debian package, what for
needs='
/etc/ssl/certs/ca-certificates.crt  ca-certificates  Go fetches the modules over TLS
/usr/bin/gcc                        gcc              the daemon links libseccomp
/usr/include/stdlib.h               libc6-dev        the same
/usr/bin/pkg-config                 pkg-config       the same
/usr/include/seccomp.h              libseccomp-dev   the same
'
missing=()
while read -r file package why; do
	[ -n "$file" ] || continue
	[ -e "$file" ] || {
		missing+=("$package")
		echo "demo: needs $package ($why)"
	}
done <<<"$needs"
# Not among them: its package starts a server unless it is kept from it (scripts/postgres.sh).
database=$(find /usr/lib/postgresql /usr/pgsql-* -path '*/bin/postgres' 2>/dev/null | head -n 1) || true
[ -n "$database" ] || echo "demo: needs postgresql-15 (the daemon answers queries on it)"
if [ ${#missing[@]} -gt 0 ] || [ -z "$database" ]; then
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		[ ${#missing[@]} -eq 0 ] || echo "demo: install as root: apt-get install ${missing[*]}" >&2
		[ -n "$database" ] || echo "demo: install as root: scripts/postgres.sh" >&2
		exit 2
	fi
fi
if [ -z "$database" ]; then
	echo "demo: installing PostgreSQL; no server of it is started or left behind"
	scripts/postgres.sh
fi
if [ ${#missing[@]} -gt 0 ]; then
	echo "demo: installing ${missing[*]}"
	scripts/apt.sh "${missing[@]}"
else
	echo "demo: no Debian package is missing"
fi

${MAKE:-make} --no-print-directory build
# A server of its own, which goes again.
# shellcheck disable=SC2016 # for that shell
exec scripts/with-postgres.sh sh -c 'exec bin/mcp-proof demo --dsn-file "$POSTGRES_DSN_FILE"'
