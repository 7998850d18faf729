#!/usr/bin/env bash
# Puts the load of all tools on the locked daemon for SOAKTIME (default 10m), two thirds with Landlock, the rest without.
# The daemon is built so that a system call which its table lacks ends it; SIGSYS, a leak or a wrong answer fails. It asks a
# PostgreSQL of its own, by a socket and by TLS, whose connections are broken all the while (scripts/postgres.sh).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Without a server nothing would be tested, and that is no success.
export MCP_REQUIRE_POSTGRES=1
SOAKTIME=${SOAKTIME:-10m} ${GO:-go} test -v -run '^TestSoak$' -count=1 -timeout 60m ./pkg/lockdown 2>&1 | tee "$log"
grep -q '^--- PASS: TestSoak' "$log" || {
	echo "soak: pkg/lockdown has no passing TestSoak"
	exit 1
}
