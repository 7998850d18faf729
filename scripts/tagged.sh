#!/usr/bin/env bash
# tagged.sh TAG: the packages that have tests and a file whose //go:build line names TAG, as ./paths.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

grep -rlE "^//go:build .*\b$1\b" --include='*.go' cmd pkg | xargs -r -n 1 dirname | sort -u | while read -r dir; do
	if compgen -G "$dir/*_test.go" >/dev/null; then echo "./$dir"; fi
done || true
