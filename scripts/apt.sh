#!/usr/bin/env bash
# apt.sh PACKAGE...: installs Debian packages as root without asking anything; prints only when it fails.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
options=(-q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120)
if ! { apt-get "${options[@]}" update && apt-get "${options[@]}" install -y --no-install-recommends "$@"; } >"$log" 2>&1 </dev/null; then
	cat "$log"
	echo "apt: could not install $*" >&2
	exit 1
fi
