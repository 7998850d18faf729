#!/usr/bin/env bash
# Puts the load of all tools on the locked daemon for SOAKTIME (default 10m), half of it with Landlock and half without.
# The daemon is built so that a system call which its table lacks ends it; SIGSYS, a leak or a wrong answer fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
SOAKTIME=${SOAKTIME:-10m} ${GO:-go} test -v -run '^TestSoak$' -count=1 -timeout 60m ./pkg/lockdown 2>&1 | tee "$log"
grep -q '^--- PASS: TestSoak' "$log" || {
	echo "soak: pkg/lockdown has no passing TestSoak"
	exit 1
}
