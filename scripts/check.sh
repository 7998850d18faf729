#!/usr/bin/env bash
# check.sh [STEP...]: every static check, or only the named ones. Runs them all, prints what each found, and fails when
# one did. `make check` has built bin/tools before.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
GO=${GO:-go}

step_hygiene() { scripts/hygiene.sh; }

step_fmt() {
	local list
	list=$(bin/tools/gofumpt -l cmd pkg smoke compose scripts/mkimage scripts/notices scripts/workflows)
	[ -z "$list" ] || {
		echo "$list"
		echo "not formatted; run: make fmt"
		return 1
	}
}

step_modules() {
	local dir status=0
	for dir in . scripts/tools; do
		$GO -C $dir mod verify || status=1
		$GO -C $dir mod tidy -diff || {
			echo "go.mod or go.sum of $dir is not tidy; run there: go mod tidy"
			status=1
		}
	done
	return $status
}

step_vet() {
	local tags
	for tags in '' wiretest lockdownhole lockdownkill; do $GO vet -tags "$tags" ./...; done
}

step_staticcheck() {
	# One run over all builds: what only one of them uses is not unused.
	local tags
	{
		echo plain:
		for tags in wiretest lockdownhole lockdownkill; do echo "$tags: -tags=$tags"; done
	} | bin/tools/staticcheck -checks all -matrix ./...
}

step_gosec() { scripts/gosec.sh; }

step_floors() { $GO test ./pkg; }

# The tests that compare the tables of README.md and SECURITY.md with the code.
step_docs() {
	local dirs
	dirs=$(grep -rlE '^func Test[A-Za-z0-9_]*Docs' --include='*_test.go' cmd pkg compose scripts | xargs -r -n 1 dirname | sort -u | sed 's,^,./,') || true
	[ -n "$dirs" ] || {
		echo "no test is named *Docs*: nothing compares the documents with the code"
		return 1
	}
	# shellcheck disable=SC2086 # one word for each package
	$GO test -run Docs $dirs
}

steps=(hygiene fmt modules vet staticcheck gosec floors docs)
[ $# -eq 0 ] || steps=("$@")
for step in "${steps[@]}"; do
	declare -F "step_$step" >/dev/null || {
		echo "check: no step is called $step" >&2
		exit 2
	}
done

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=()
for step in "${steps[@]}"; do
	start=$SECONDS
	set +e
	(
		set -e
		"step_$step"
	) >"$log" 2>&1 </dev/null
	status=$?
	set -e
	if [ $status -eq 0 ]; then
		printf 'check %-12s ok (%d s)\n' "$step" $((SECONDS - start))
	else
		printf 'check %-12s FAILED (%d s)\n' "$step" $((SECONDS - start))
		sed 's/^/    /' "$log"
		failed+=("$step")
	fi
done
if [ ${#failed[@]} -gt 0 ]; then
	echo "check: ${#failed[@]} of ${#steps[@]} steps failed: ${failed[*]}"
	exit 1
fi
