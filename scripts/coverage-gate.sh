#!/usr/bin/env bash
# coverage-gate.sh [--json]  every test once, and what they have executed held against scripts/coverage/law.go: 95 % of
#                            all statements, and everything of the packages and rules that are listed there. What no
#                            test can reach is excused in its place (// coverage: REASON); the report lists each excuse
# coverage-gate.sh --self-test  shows that the gate fails: for a function that no test calls, and for a wrong excuse
# coverage-gate.sh --inputs  one hash over all that a run depends on: the files of the repository that it could read
#                            (not bin, not what begins with a dot), the Go version and what it builds for
# coverage-gate.sh --help    this
#
# Counted are the tests themselves, the processes that they start from their own file, and the daemons, locked down as
# ever (MCP_STAGE_COVER, see pkg/stage). The log of the tests goes to stderr. COVERAGE_KEEP=FOLDER keeps the profiles.
# Exit codes: 0 the law is kept, 1 it is not, or a test has failed, 2 usage.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
GO=${GO:-go}
# The owner of a clone may be another user; go must not ask git anything.
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"

tests() {
	local profile=$1
	shift
	# Not -race: the counters are atomic in both builds, and it would take three times as long.
	MCP_STAGE_COVER=$work/counters $GO test -count=1 -timeout 10m -covermode=atomic -coverpkg=./... \
		-coverprofile="$work/$profile" "$@" >"$work/log" 2>&1
}

# failures prints what failed of the last tests, without what did not.
failures() { grep -vE '^(ok|\?) |^\s+[^ ]+\s+coverage: 0.0% of statements$' "$work/log"; }

run() {
	local failed=()
	work=$(mktemp -d)
	# As root the tests start daemons as another user, who has to get there and to write.
	# shellcheck disable=SC2064 # the name as it is now
	trap "rm -rf '$work'" EXIT
	mkdir "$work/counters"
	chmod 711 "$work"
	chmod 777 "$work/counters" # not sticky: whoever is first writes what belongs to a program
	CGO_ENABLED=0 $GO build -o "$work/coverage" ./scripts/coverage
	if ! tests tests.out ./...; then
		failures >&2
		# Counting makes the daemon slower, and some tests drive it to its bounds. Whether a test passes is the affair of
		# `make test`; here a package gets a second chance, alone.
		mapfile -t failed < <(sed -nE 's,^FAIL[[:space:]]+([^[:space:]]+)[[:space:]]+[0-9.]+s$,\1,p' "$work/log")
		if [ ${#failed[@]} -eq 0 ] || grep -q 'build failed\|setup failed' "$work/log"; then return 1; fi
		echo "coverage: once more: ${failed[*]}" >&2
		if ! tests again.out -p 1 "${failed[@]}"; then
			failures >&2
			echo "coverage: a test has failed, so nothing is counted" >&2
			return 1
		fi
	fi
	"$work/coverage" --complete "$work/counters" >&2
	$GO tool covdata textfmt -i="$work/counters" -o="$work/daemons.out"
	if [ -n "${COVERAGE_KEEP:-}" ]; then cp "$work"/*.out "$COVERAGE_KEEP/"; fi
	"$work/coverage" "$@" "$work"/*.out
}

inputs() {
	{
		$GO env GOVERSION GOOS GOARCH CGO_ENABLED
		pkg-config --modversion libseccomp 2>/dev/null || true
		find . -name '.?*' -prune -o -path ./bin -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
	} | sha256sum | cut -d ' ' -f 1
}

case ${1:-} in
'') run ;;
--json) run --json ;;
--self-test) $GO test -count=1 -run SelfTest -v ./scripts/coverage ;;
--inputs) inputs ;;
--help | -h) sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" ;;
*)
	sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
	exit 2
	;;
esac
