#!/usr/bin/env bash
# fuzz.sh run     every fuzz target of the module, one after the other; FUZZTIME (default 5m, like 90s or 1h30m) is the
#                 time of all together, without building. Stops at the first crash and names the input that caused it.
# fuzz.sh list    the targets, as: package folder, name
# fuzz.sh inputs  one hash over all that a run depends on: the files of the fuzzed packages and of what they import in
#                 this module, go.sum, the Go version, the time and this script
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
GO=${GO:-go}
# The owner of a clone may be another user; go must not ask git anything.
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"
FUZZTIME=${FUZZTIME:-5m}

# Whatever reads bytes from outside has a fuzz target. These do; the list is here so that losing one is noticed.
required=(framing envelope strictjson sanitizer sandboxfs pgpolicy rowjson)

fuzzed_dirs() { grep -rlE '^func Fuzz' --include='*_test.go' cmd pkg | xargs -r -n 1 dirname | sort -u | sed 's,^,./,'; }

targets() {
	local dirs module
	dirs=$(fuzzed_dirs || true)
	[ -n "$dirs" ] || return 0
	module=$($GO list -m)
	# shellcheck disable=SC2086 # one word for each package
	$GO test -list '^Fuzz' $dirs | awk -v "module=$module/" '
		/^Fuzz/ { names[n++] = $1 }
		/^ok/   { sub(module, "", $2); for (i = 0; i < n; i++) print $2, names[i]; n = 0 }'
}

seconds() {
	if [ -n "$1" ] && [[ $1 =~ ^(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s?)?$ ]]; then
		echo $((10#${BASH_REMATCH[2]:-0} * 3600 + 10#${BASH_REMATCH[4]:-0} * 60 + 10#${BASH_REMATCH[6]:-0}))
	else
		echo "fuzz: FUZZTIME is '$1'; write it like 5m, 90s or 1h30m" >&2
		return 2
	fi
}

run() {
	local total each list count missing=() log n=0 pkg name status input
	total=$(seconds "$FUZZTIME")
	list=$(targets)
	for pkg in "${required[@]}"; do
		grep -q "^pkg/$pkg " <<<"$list" || missing+=("pkg/$pkg")
	done
	if [ ${#missing[@]} -gt 0 ]; then
		echo "fuzz: no fuzz target in ${missing[*]}"
		return 1
	fi
	count=$(wc -l <<<"$list")
	each=$((total / count))
	[ $each -gt 0 ] || each=1
	echo "fuzz: $count targets, $each s each"
	log=$(mktemp)
	# shellcheck disable=SC2064 # the name as it is now
	trap "rm -f '$log'" EXIT
	while read -r pkg name; do
		n=$((n + 1))
		set +e
		$GO test -run '^$' -fuzz "^$name\$" -fuzztime "${each}s" -fuzzminimizetime 1x -parallel 2 "./$pkg" >"$log" 2>&1 </dev/null
		status=$?
		set -e
		input=$(sed -nE 's/^ *Failing input written to (.*)$/\1/p' "$log" | tail -n 1)
		# Up to Go 1.26 the engine now and then reports the end of -fuzztime as a failure (golang/go#75804, fixed in
		# 1.27). Without a failing input, and with nothing else said, that is the end of the time and no finding.
		if [ $status -ne 0 ] && [ -z "$input" ] && grep -qE '^ +context deadline exceeded$' "$log" &&
			! grep -qE 'panic|_test\.go:|DATA RACE|fuzzing process' "$log"; then
			status=0
		fi
		if [ $status -ne 0 ]; then
			cat "$log"
			if [ -n "$input" ]; then
				echo "fuzz: $pkg $name FAILED; the input is $pkg/$input"
				echo "fuzz: repeat with: go test -run '$name/${input##*/}' ./$pkg"
			else
				echo "fuzz: $pkg $name FAILED"
			fi
			return 1
		fi
		printf 'fuzz %2d/%d %-16s %-28s ok  %s\n' $n "$count" "$pkg" "$name" \
			"$(sed -nE 's/^fuzz: elapsed: [^,]*, (execs: [0-9]+).*(new interesting: .*)$/\1, \2/p' "$log" | tail -n 1)"
	done <<<"$list"
}

inputs() {
	local dirs
	dirs=$(fuzzed_dirs)
	{
		echo "$FUZZTIME"
		$GO env GOVERSION GOARCH
		# shellcheck disable=SC2086 # one word for each package
		$GO list -deps -test -f '{{if .Module}}{{if .Module.Main}}{{.Dir}}{{end}}{{end}}' $dirs | sort -u |
			xargs -r -d '\n' realpath --relative-to=. | while read -r dir; do
			find "$dir" -type f
		done | sort -u | xargs -d '\n' sha256sum
		sha256sum go.mod go.sum scripts/fuzz.sh
	} | sha256sum | cut -d ' ' -f 1
}

case ${1:-} in
run) run ;;
list) targets ;;
inputs) inputs ;;
*)
	sed -n '2,7s/^# //p' "${BASH_SOURCE[0]}" >&2
	exit 2
	;;
esac
