#!/usr/bin/env bash
# builder-image.sh [NAME:TAG]: makes an image with Go, gcc and libseccomp from Debian packages and the Go of this
# machine (default golang:1.26-bookworm, which is what images/Dockerfile starts from), so that the Dockerfile can be
# built where no registry can be reached:
#
#   scripts/builder-image.sh
#   DOCKER_BUILDKIT=1 docker build --network none -f images/Dockerfile -t mcp-server-suite:dockerfile .
#
# The modules are in the image as a Go module proxy of files (GOPROXY). `go mod vendor` would not do: it leaves C
# headers out (measured with pg_query_go: 9 of 418 survive).
#
# Needs root, debootstrap, a Debian mirror (DEBIAN_MIRROR, default debootstrap's own), the modules in the Go cache or a
# network, 2 GB below TMPDIR, and a Docker daemon. Takes a minute or two; CI does not run it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
GO=${GO:-go}
DOCKER=${DOCKER:-docker}
tag=${1:-golang:1.26-bookworm}
suite=bookworm

case $tag in -*)
	sed -n '2,/^set/s/^#\( \|$\)//p' "${BASH_SOURCE[0]}"
	exit 2
	;;
esac
[ "$(id -u)" -eq 0 ] || {
	echo "builder-image: debootstrap needs root" >&2
	exit 2
}
command -v debootstrap >/dev/null || {
	echo "builder-image: debootstrap is missing; install it (Debian: apt-get install debootstrap)" >&2
	exit 2
}
"$DOCKER" version >/dev/null 2>&1 || {
	echo "builder-image: no Docker daemon answers" >&2
	exit 2
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

echo "builder-image: Debian $suite"
debootstrap --variant=minbase --include=ca-certificates,gcc,libc6-dev,libseccomp-dev,make,pkg-config,pkgconf \
	"$suite" "$root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$work/log" 2>&1 || {
	tail -n 20 "$work/log" >&2
	echo "builder-image: debootstrap did not succeed" >&2
	exit 1
}
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*

echo "builder-image: modules"
# From the cache of this machine when they are there, else from where Go gets them.
cache=$($GO env GOMODCACHE)/cache/download
GOMODCACHE=$work/mod GOPROXY="file://$cache,$($GO env GOPROXY)" GOFLAGS=-modcacherw $GO mod download
mkdir "$root/modproxy"
cp -r "$work/mod/cache/download/." "$root/modproxy"
chmod -R a+rX "$root/modproxy"

goroot=$($GO env GOROOT)
echo "builder-image: $($GO env GOVERSION)"
# go.sum holds the sum of every module, so the database of sums has nothing to add.
tar -c --numeric-owner --owner=0 --group=0 --exclude="${goroot##*/}/test" --exclude="${goroot##*/}/api" \
	--transform="s,^${goroot##*/}\(/\|$\),usr/local/go\1," -C "$root" . -C "${goroot%/*}" "${goroot##*/}" |
	"$DOCKER" import -c 'ENV PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
		-c 'ENV GOTOOLCHAIN=local' -c 'ENV GOPROXY=file:///modproxy' -c 'ENV GOSUMDB=off' - "$tag"
"$DOCKER" image inspect --format "builder-image: $tag, {{.Size}} bytes" "$tag"
