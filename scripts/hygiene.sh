#!/usr/bin/env bash
# What no file of this repository may contain: paths and registry addresses of the machine it was written on, more than
# 1 MiB, characters that a reader does not see. Looks at tracked files and at new ones that are not ignored. Also reads
# every shell script for syntax.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

max_bytes=$((1 << 20))
bad=0
complain() {
	bad=1
	printf '%s\n' "$@"
}

list=$(mktemp)
trap 'rm -f "$list"' EXIT
# The owner of a clone may be another user (a container, CI): name this folder as safe for this one command.
if ! GIT_OPTIONAL_LOCKS=0 git -c safe.directory="$PWD" ls-files -z -co --exclude-standard >"$list" 2>/dev/null; then
	find . \( -path ./.git -o -path ./bin -o -path ./.cache \) -prune -o -type f -printf '%P\0' >"$list"
fi
files=()
while IFS= read -r -d '' file; do
	# A tracked file may be deleted in the work tree; a link is not followed.
	[ -f "$file" ] && [ ! -L "$file" ] && files+=("$file")
done <"$list"
[ ${#files[@]} -gt 0 ] || {
	echo "hygiene: found no files to look at"
	exit 1
}

# found WHY PATTERN FILE...: every line that matches, as bytes, in text files.
found() {
	local why=$1 pattern=$2 hits
	shift 2
	[ $# -gt 0 ] || return 0
	hits=$(LC_ALL=C grep -nIHP -e "$pattern" -- "$@" | cut -c 1-200 || true)
	[ -z "$hits" ] || complain "$why:" "$(LC_ALL=C cat -v <<<"$hits")"
}

source=() plain=()
for file in "${files[@]}"; do
	case $file in
	*/testdata/*) ;;                        # attacks on purpose
	*_test.go) source+=("$file") ;;         # may name the folders that an attack aims at
	scripts/hygiene.sh) source+=("$file") ;; # names what it looks for
	*) source+=("$file") plain+=("$file") ;;
	esac
	size=$(stat -c %s -- "$file")
	[ "$size" -le $max_bytes ] || complain "larger than $max_bytes bytes: $file ($size)"
done

# The folder that a session works in, anywhere; home folders outside tests. /home/user/ is the documents' placeholder.
before='(^|[^A-Za-z0-9_.~*-])'
found "path of one machine" "$before/(work|Users)/[A-Za-z0-9._-]" "${source[@]}"
found "path of one machine" "$before/(root/|home/(?!user/))[A-Za-z0-9._-]" "${plain[@]}"
found "address of a registry or proxy" 'https?://[A-Za-z0-9.-]*\b(goproxy|proxy|registry|mirrors?|sumdb|deb)[.]' "${plain[@]}"
# U+00AD, U+061C, U+180E, U+200B-200F, U+202A-202E, U+2060-206F, U+FEFF, U+E0000-E007F
found "invisible or direction-changing character" \
	'\xC2\xAD|\xD8\x9C|\xE1\xA0\x8E|\xE2\x80[\x8B-\x8F\xAA-\xAE]|\xE2\x81[\xA0-\xAF]|\xEF\xBB\xBF|\xF3\xA0[\x80\x81]' "${source[@]}"

for file in "${files[@]}"; do
	case $file in *.sh | .ci/run)
		bash -n "$file" || bad=1
		[ -x "$file" ] || complain "script without its executable bit: $file"
		;;
	esac
done
exit $bad
