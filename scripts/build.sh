#!/usr/bin/env bash
# build.sh ARGUMENTS: go build ARGUMENTS as everything that we ship, or test as shipped, is built. TAGS are more build
# tags (separated by commas; lockdowncover builds for coverage), VERSION is what the program says it is.
#
# static-pie: no dynamic loader and no library to look up at run time, and still a different address each time.
# libseccomp and glibc are linked in. netgo and osusergo keep name lookups in Go: the C ones would load libraries.
# -trimpath and no VCS stamp: the same source gives the same bytes wherever it is built. -w drops the debug information;
# the symbol table stays (no -s), because pkg/floors_test.go reads it to prove what is not linked. pack-relative-relocs
# (binutils 2.38, glibc 2.36) takes 1.9 MB of relocations out of the file, and 1.8 MiB out of the memory of a start.
set -euo pipefail
for need in "${CC:-gcc}:gcc" pkg-config:pkg-config; do
	command -v "${need%:*}" >/dev/null || {
		echo "build: ${need%:*} is missing; install it (Debian: apt-get install ${need#*:} libseccomp-dev)" >&2
		exit 2
	}
done
pkg-config --exists libseccomp || {
	echo "build: the libseccomp headers are missing; install them (Debian: apt-get install libseccomp-dev)" >&2
	exit 2
}
export CGO_ENABLED=1
cover=()
case ",${TAGS:-}," in *,lockdowncover,*) cover=(-cover -covermode=atomic -coverpkg=mcp-server-suite/...) ;; esac
exec "${GO:-go}" build "${cover[@]}" -trimpath -buildvcs=false -buildmode=pie -tags "netgo,osusergo${TAGS:+,$TAGS}" \
	-ldflags "-w -linkmode external -extldflags '-static-pie -Wl,-z,pack-relative-relocs' -X main.version=${VERSION:-0.0.0-unversioned}" "$@"
