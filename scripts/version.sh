#!/usr/bin/env bash
# Prints the version to build in: the newest one that CHANGELOG.md names, alone when this is the release (the tag
# v<version> is checked out unchanged, or there is no git), else with the commit as build metadata: 1.2.0+g0123456789ab
# and .dirty when files differ from it. Reads only; never fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=0.0.0
if [ -r CHANGELOG.md ]; then
	named=$(sed -nE '/^## \[?v?[0-9]+\.[0-9]+\.[0-9]+/{s/^## \[?v?([-.0-9A-Za-z]+).*/\1/p;q}' CHANGELOG.md)
	version=${named:-$version}
fi

# The owner of a clone may be another user (a container, CI): name this folder as safe for this one command.
repo() { GIT_OPTIONAL_LOCKS=0 git -c safe.directory="$PWD" "$@" 2>/dev/null; }
if [ "$(repo rev-parse --show-toplevel || true)" = "$PWD" ] && commit=$(repo rev-parse --short=12 HEAD); then
	dirty=
	repo diff --quiet HEAD -- || dirty=.dirty
	if [ -n "$dirty" ] || [ "$(repo rev-parse "v$version^{commit}" || true)" != "$(repo rev-parse HEAD)" ]; then
		version=$version+g$commit$dirty
	fi
fi
printf '%s\n' "$version"
