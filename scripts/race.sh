#!/usr/bin/env bash
# Swaps symlinks under a running sandboxfs reader, RACETIME (default 15s) for each of the two ways to open a file.
# Fails when a read leaves the root, and when there was no such test to run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
SANDBOXFS_RACE=${RACETIME:-15s} ${GO:-go} test -v -run Race -count=1 -timeout 10m ./pkg/sandboxfs 2>&1 | tee "$log"
grep -qE '^ *--- PASS: Test[A-Za-z0-9_]*Race' "$log" || {
	echo "race: pkg/sandboxfs has no passing test named *Race*"
	exit 1
}
