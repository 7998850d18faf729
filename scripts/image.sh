#!/usr/bin/env bash
# image.sh [--out DIR] [--arch amd64|arm64] [--tag NAME:TAG] [--load] [--compare IMAGE]
#
# Builds the daemon and makes the container image of it, without a container runtime: the same source and the same
# compilers give the same image ID. Prints the archive's name, the image ID, the digest of the manifest and the size.
#
#   --out DIR        where the archive goes (default bin/image)
#   --arch ARCH      for another machine (default: this one). arm64 needs aarch64-linux-gnu-gcc, libc6-dev-arm64-cross
#                    and libseccomp for arm64; PKG_CONFIG_LIBDIR, PKG_CONFIG_SYSROOT_DIR, CGO_LDFLAGS say where that is
#   --tag NAME:TAG   what `docker load` calls it (default mcp-server-suite:VERSION, with - for +)
#   --load           load it into Docker and make sure that Docker computes the same ID
#   --compare IMAGE  compare it with an image that Docker has, file by file and setting by setting (images/Dockerfile
#                    built with the same VERSION and REVISION); another compiler makes another program
#
# From the environment: VERSION and REVISION (default: scripts/version.sh, and the commit unless files differ from it),
# SOURCE_DATE_EPOCH (default 0), SERVER_NAME (the name in the MCP registry), SOURCE_URL (where the source is; without it
# the image does not say), CA (certificates; default those of the Debian package ca-certificates), GO, DOCKER,
# DOCKER_HOST.
#
# The archive is a Docker archive and an OCI layout: docker load, podman load, skopeo copy oci-archive:FILE docker://...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
GO=${GO:-go}
DOCKER=${DOCKER:-docker}
# Issue 4: what a client pulls before its first session stays below this.
max_bytes=25000000

help() { sed -n '2,/^set/s/^#\( \|$\)//p' "${BASH_SOURCE[0]}"; }
die() {
	echo "image: $1" >&2
	exit "${2:-1}"
}

out=bin/image arch='' tag='' load='' compare=''
while [ $# -gt 0 ]; do
	case $1 in
	--load) load=1 ;;
	--help | -h)
		help
		exit
		;;
	--out | --arch | --tag | --compare)
		[ $# -gt 1 ] || die "$1 needs a value; see --help" 2
		printf -v "${1#--}" %s "$2"
		shift
		;;
	*) die "$1 is not an option; see --help" 2 ;;
	esac
	shift
done

here=$($GO env GOHOSTARCH)
arch=${arch:-$here}
case $arch in amd64 | arm64) ;; *) die "the architectures are amd64 and arm64" 2 ;; esac

# The bundle in /etc/ssl/certs is not taken: it holds what the administrator of this machine trusts in addition.
ca=${CA:-/usr/share/ca-certificates/mozilla}
[ -e "$ca" ] || die "$ca is missing: install ca-certificates (Debian), or name a PEM file in CA" 2

# The owner of a clone may be another user (a container, CI): name this folder as safe for this one command.
repo() { GIT_OPTIONAL_LOCKS=0 git -c safe.directory="$PWD" "$@" 2>/dev/null; }
version=${VERSION:-$(scripts/version.sh)}
revision=${REVISION:-}
if [ -z "$revision" ] && [ "$(repo rev-parse --show-toplevel || true)" = "$PWD" ] && repo diff --quiet HEAD --; then
	revision=$(repo rev-parse HEAD)
fi
revision=${revision:-unknown}
tag=${tag:-mcp-server-suite:${version//+/-}}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
archive=$out/mcp-server-suite-linux-$arch.tar

CGO_ENABLED=0 $GO build -o "$work/" ./scripts/mkimage ./scripts/notices
if [ "$arch" = "$here" ]; then
	GO=$GO VERSION=$version scripts/build.sh -o "$work/bin/" ./cmd/mcp-server-suite
else
	case $arch in amd64) triple=x86_64-linux-gnu ;; arm64) triple=aarch64-linux-gnu ;; esac
	GO=$GO VERSION=$version GOARCH=$arch CC=${CC:-$triple-gcc} \
		PKG_CONFIG_LIBDIR=${PKG_CONFIG_LIBDIR:-/usr/lib/$triple/pkgconfig} \
		scripts/build.sh -o "$work/bin/" ./cmd/mcp-server-suite
fi
# The licences of all that it links go along with it.
GO=$GO "$work/notices" --check --binary "$work/bin/mcp-server-suite"
"$work/mkimage" archive --out "$archive" --binary "$work/bin/mcp-server-suite" --ca "$ca" --arch "$arch" \
	--version "$version" --revision "$revision" --tag "$tag" \
	${SERVER_NAME:+--label "io.modelcontextprotocol.server.name=$SERVER_NAME"} \
	${SOURCE_URL:+--label "org.opencontainers.image.source=$SOURCE_URL"} >"$work/made"
id=$(sed -n 's/^id //p' "$work/made")
bytes=$(sed -n 's/^bytes //p' "$work/made")
echo "archive $archive"
echo "tag $tag"
cat "$work/made"
[ "$bytes" -lt $max_bytes ] || die "the image has more than $max_bytes bytes"

if [ -n "$load" ]; then
	"$DOCKER" load --quiet --input "$archive" >"$work/load" 2>&1 || {
		cat "$work/load" >&2
		die "$DOCKER load did not succeed"
	}
	# Docker with containerd's store calls an image by the digest of its manifest.
	loaded=$("$DOCKER" image inspect --format '{{.Id}}' "$tag")
	grep -qxE "(id|digest) $loaded" "$work/made" || die "Docker calls it $loaded, not $id"
	echo "loaded $loaded"
fi

if [ -n "$compare" ]; then
	"$DOCKER" save "$compare" | "$work/mkimage" list /dev/stdin >"$work/theirs"
	"$work/mkimage" list "$archive" >"$work/ours"
	diff -u --label "$compare" --label "$archive" "$work/theirs" "$work/ours" || die "$compare is not the same"
	echo "same $(wc -l <"$work/ours") lines in $compare"
fi
