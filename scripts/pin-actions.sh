#!/usr/bin/env bash
# pin-actions.sh [--check] [FOLDER]: names what the workflows run by content instead of by a name that can be moved.
#
# Every `uses: OWNER/REPO@TAG` of .github/workflows becomes `uses: OWNER/REPO@COMMIT # TAG`, which is the form that
# dependabot keeps up to date. GO_IMAGE in images/digests.env, the builder of a release, becomes NAME:TAG@DIGEST; the
# name is the default in images/Dockerfile. What is pinned already stays as it is. Read the diff, and look at what the
# commits are, before you commit it: a pin says that somebody looked.
#
# --check changes nothing, needs no network, and lists what is not pinned: exit code 0 if nothing is, 1 if something is.
# The release workflow begins with it. FOLDER is the repository (default: this one).
#
# Needs git; for GO_IMAGE also skopeo, or docker with buildx. Tags are asked of the repository itself by git, which says
# exactly which commit one tag is; an API answers for a branch of the same name as well, and for commits of forks.
set -euo pipefail

check=
case ${1:-} in
--check)
	check=1
	shift
	;;
-*)
	sed -n '2,/^set/s/^#\( \|$\)//p' "${BASH_SOURCE[0]}"
	[ "$1" = --help ] && exit 0 || exit 2
	;;
esac
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}"
die() {
	echo "pin-actions: $1" >&2
	exit 2
}

shopt -s nullglob
workflows=(.github/workflows/*.yml .github/workflows/*.yaml)
shopt -u nullglob
[ ${#workflows[@]} -gt 0 ] || die "there are no workflows"

# Lines with uses:, as FILE:LINE:TEXT. What stands in this repository (./) is pinned by the commit that is checked out.
uses() { grep -nHE '^[[:space:]]*(-[[:space:]]+)?uses:' "${workflows[@]}" | grep -vE 'uses:[[:space:]]+\./' || true; }
pinned='uses:[[:space:]]+[A-Za-z0-9_.-]+/[A-Za-z0-9_./-]+@[0-9a-f]{40}[[:space:]]+#[[:space:]]+v[0-9]'
image='^GO_IMAGE=[a-z0-9][A-Za-z0-9._/:-]*@sha256:[0-9a-f]{64}$'

if [ -n "$check" ]; then
	loose=$(uses | grep -vE "$pinned" || true)
	grep -qE "$image" images/digests.env 2>/dev/null ||
		loose+=${loose:+$'\n'}'images/digests.env: GO_IMAGE has no digest'
	[ -n "$loose" ] || exit 0
	printf '%s\n' "$loose"
	echo "not pinned; a maintainer runs scripts/pin-actions.sh, reads the diff and commits it" >&2
	exit 1
fi

# commit_of OWNER/REPO TAG: the commit of the tag. An annotated tag is an object of its own; ^{} is what it points to.
commit_of() {
	local found
	found=$(GIT_TERMINAL_PROMPT=0 git ls-remote "https://github.com/$1" "refs/tags/$2" "refs/tags/$2^{}") ||
		die "cannot ask $1 for its tags"
	awk -v tag="refs/tags/$2" '$2 == tag { plain = $1 } $2 == tag "^{}" { peeled = $1 }
		END { print peeled != "" ? peeled : plain }' <<<"$found"
}

tagged='uses:[[:space:]]+([A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+)(/[A-Za-z0-9_./-]+)?@(v[0-9][A-Za-z0-9_.-]*)[[:space:]]*$'
while IFS=: read -r file line text; do
	[ -n "$file" ] || continue
	if grep -qE "$pinned" <<<"$text"; then continue; fi
	[[ $text =~ $tagged ]] ||
		die "$file:$line: not OWNER/REPO@vTAG:$text"
	repo=${BASH_REMATCH[1]} tag=${BASH_REMATCH[3]}
	commit=$(commit_of "$repo" "$tag")
	[[ $commit =~ ^[0-9a-f]{40}$ ]] || die "$repo has no tag $tag"
	sed -i "${line}s,@${tag}[[:space:]]*\$,@$commit # $tag," "$file"
	echo "$file:$line: $repo $tag is $commit"
done < <(uses)

if ! grep -qE "$image" images/digests.env 2>/dev/null; then
	name=$(sed -n 's/^ARG GO_IMAGE=\([A-Za-z0-9._/:-]*\)$/\1/p' images/Dockerfile)
	[ -n "$name" ] || die "images/Dockerfile has no ARG GO_IMAGE=NAME:TAG"
	# The digest of the list of all architectures: the sum of the bytes that the registry gives for the tag.
	if command -v skopeo >/dev/null; then
		raw=(skopeo inspect --raw "docker://$name")
	else
		raw=("${DOCKER:-docker}" buildx imagetools inspect --raw "$name")
	fi
	list=$(mktemp)
	trap 'rm -f "$list"' EXIT
	"${raw[@]}" >"$list" || die "cannot ask for $name: ${raw[*]}"
	digest=sha256:$(sha256sum <"$list" | cut -d ' ' -f 1)
	sed -i "s,^GO_IMAGE=.*,GO_IMAGE=$name@$digest," images/digests.env
	grep -qE "$image" images/digests.env || die "images/digests.env has no line GO_IMAGE="
	echo "images/digests.env: $name is $digest"
fi
