#!/usr/bin/env bash
# Part of smoke/smoke-docker.sh, which reads it: checks of a session: the protocol, the end, the limits.
# shellcheck disable=SC2154 # the variables of smoke-docker.sh

answer() { grep -m 1 "^{\"jsonrpc\":\"2.0\",\"id\":$1,.*}\$" "$at/out" ||
	fail "no answer to call $1: $(head -c 200 "$at/err")"; }

talk_handshake() {
	local line
	once talk gather_talk
	line=$(answer 1) || fail "$line" || return
	[[ $line == *'"protocolVersion":"2025-11-25"'*'"serverInfo":{"name":"mcp-server-suite"'* ]] ||
		fail "initialize: ${line:0:200}" || return
	line=$(answer 2) || fail "$line" || return
	[[ $line == *'"name":"sandbox_fs_read"'*'"name":"system_metrics"'* ]] || fail "tools/list: ${line:0:200}" || return
	line=$(answer 3) || fail "$line" || return
	[ "$line" = '{"jsonrpc":"2.0","id":3,"result":{}}' ] || fail "ping: $line" || return
	line=$(answer 4) || fail "$line" || return
	[[ $line == *'"content":"hello from the sandbox\n"'*'"isError":false}}' ]] || fail "sandbox_fs_read: ${line:0:200}"
}

# Another revision that we speak is taken; of one that nobody speaks ours is offered.
talk_versions() { # ASKED, ANSWERED
	local line
	name
	line=$(initialize "$1" | run "$container" 2>/dev/null) || true
	[[ $line == '{"jsonrpc":"2.0","id":1,"result":'*"\"protocolVersion\":\"$2\""* ]] ||
		fail "asked for $1: ${line:0:200}"
}

talk_schemas() {
	local line tool tools objects closed
	once talk gather_talk
	line=$(answer 2) || fail "$line" || return
	tools=$(grep -oE '\{"annotations":' <<<"$line" | wc -l)
	[ "$tools" -ge 2 ] || fail "$tools tools have annotations" || return
	for tool in '"readOnlyHint":true' '"destructiveHint":false' '"openWorldHint":false' '"inputSchema":{"type":"object"' \
		'"outputSchema":{"type":"object"'; do
		[ "$(grep -oF "$tool" <<<"$line" | wc -l)" -eq "$tools" ] || fail "not every tool has $tool" || return
	done
	# Objects with properties, all of them closed.
	objects=$(grep -oF '"properties":{' <<<"$line" | wc -l)
	closed=$(grep -oF '"additionalProperties":false' <<<"$line" | wc -l)
	[ "$objects" -eq "$closed" ] ||
		fail "a schema lets unknown properties through"
}

# json_lines FILE: the numbers of the lines that are no JSON object. A reader for JSON without white space, as ours is:
# strings become S, other scalars V, then what holds only those becomes V until nothing changes.
json_lines() {
	sed -E 's/"([^"\\[:cntrl:]]|\\(["\\\/bfnrt]|u[0-9a-fA-F]{4}))*"/S/g
		s/(^|[:,[])(-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?|true|false|null)/\1V/g
		:again
		s/\[([SVO](,[SVO])*)?\]/V/g
		s/\{(S:[SVO](,S:[SVO])*)?\}/O/g
		t again' "$1" | grep -nvx O | cut -d : -f 1 || true
}

talk_streams() {
	local bad
	once talk gather_talk
	[ -s "$at/out" ] && [ -s "$at/err" ] || fail "nothing on stdout or stderr: $(head -c 200 "$at/err")" || return
	bad=$(json_lines "$at/out" | head -n 1)
	[ -z "$bad" ] || fail "line $bad of stdout is no JSON object: $(sed -n "${bad}p" "$at/out" | cut -c 1-100)" || return
	bad=$(grep -nv '^{"jsonrpc":"2.0","id":' "$at/out" | head -n 1 | cut -c 1-100) || true
	[ -z "$bad" ] || fail "on stdout: $bad" || return
	! grep -q '[^ -~]' "$at/out" || fail "stdout is not plain ASCII" || return
	[ "$(tail -c 1 "$at/out" | od -An -c | tr -d ' ')" = '\n' ] || fail "the last line has no end" || return
	bad=$(json_lines "$at/err" | head -n 1)
	[ -z "$bad" ] || fail "line $bad of stderr is no JSON object: $(sed -n "${bad}p" "$at/err" | cut -c 1-100)"
}

talk_denied() {
	local id path line
	once talk gather_talk
	while read -r id path; do
		[ -n "$id" ] || continue
		line=$(answer "$id") || fail "$line" || return
		[[ $line =~ \\\"reason\\\":\\\"(OUTSIDE_SANDBOX|SPECIAL_FILE|NOT_READABLE)\\\".*\"isError\":true\}\}$ ]] ||
			fail "$path: ${line:0:160}" || return
		[[ $line != *root:* && $line != *PATH=* ]] || fail "$path: content in the refusal" || return
	done <<<"$denied_paths"
	line=$(answer 4) || fail "$line" || return
	[[ $line == *'"isError":false}}' ]] || fail "the file that may be read is not: ${line:0:200}"
}

# between LINE NAME LOW HIGH: a number of the answer, by its name, in its range.
between() {
	local value
	value=$(grep -oE "\"$2\":-?[0-9.eE+-]+" <<<"${1%%\"content\":*}" | head -n 1) ||
		fail "$2 is null or missing" || return
	awk -v value="${value#*:}" -v low="$3" -v high="$4" 'BEGIN { exit !(value + 0 >= low && value + 0 <= high) }' ||
		fail "$value is not in $3..$4"
}

talk_metrics() {
	local line
	once talk gather_talk
	line=$(answer 5) || fail "$line" || return
	between "$line" utilization_percent 0 100 || return
	between "$line" core_count 1 4096 || return
	between "$line" load_average_1m 0 100000 || return
	between "$line" total_bytes 67108864 1e15 || return
	between "$line" percent_used 0 100 || return
	between "$line" disk_percent_used 0 100 || return
	between "$line" version 1 2 || return
	between "$line" memory_limit_bytes 268435456 268435456 || return
	between "$line" memory_current_bytes 1 268435456 || return
	between "$line" cpu_quota_cores 1 1
}

talk_long_line() {
	once talk gather_talk
	[ "$(grep -c '^{"jsonrpc":"2.0","id":null,"error":{"code":-32[67]00,' "$at/out")" -eq 2 ] ||
		fail "the two bad lines have not two errors" || return
	! answered 6 || fail "a line of more than 1 MiB was served" || return
	answered 7 || fail "the session ended with a bad line"
}

talk_end() {
	once talk gather_talk
	answered 7 || fail "the last request before the end has no answer" || return
	[ "$(cat "$at/rc")" = 0 ] || fail "exit code $(cat "$at/rc") at the end of input"
}

label_is_version() {
	local line rc=0 wanted
	once image gather_image
	wanted=$(configured Config.Labels | sed -n 's/.*"org.opencontainers.image.version":"\([^"]*\)".*/\1/p')
	name
	line=$(run "$container" version --json 2>/dev/null </dev/null) || rc=$?
	[ -n "$wanted" ] && [[ $line == *"\"version\":\"$wanted\""* ]] || fail "the label says $wanted, the program $line"
}

# quick COMMAND...: the best of three; see live_stop.
quick() {
	local try
	for try in 1 2; do
		! "$@" >/dev/null || return 0
	done
	"$@"
}

# end_of_input SECONDS: from the closed stdin to the end of docker run.
end_of_input() {
	local begin rc=0
	at=$folder/end
	mkdir -p "$at"
	open_client
	initialize 2025-11-25 >&"$to"
	await_answer 1 || true
	begin=$(now)
	exec {to}>&-
	wait "$client" || rc=$?
	answered 1 || fail "does not answer: $(head -c 200 "$at/err.all")" || return
	[ $rc -eq 0 ] && [ $(($(now) - begin)) -lt "$1" ] ||
		fail "exit code $rc, $(($(now) - begin)) ms after the end of input"
}

end_by_signal() { # SIGNAL, MS
	local begin rc=0
	at=$folder/signal
	mkdir -p "$at"
	open_client
	initialize 2025-11-25 >&"$to"
	await_answer 1 || true
	begin=$(now)
	"$docker" kill -s "$1" "$container" >/dev/null 2>&1 || true
	wait "$client" || rc=$?
	exec {to}>&-
	answered 1 || fail "does not answer: $(head -c 200 "$at/err.all")" || return
	[ $rc -eq 0 ] && [ $(($(now) - begin)) -lt "$2" ] || fail "exit code $rc, $(($(now) - begin)) ms after $1"
}

# drained SIGNALS...: a call of 2 s is in flight when the first signal comes; 0.3 s between them. Sets rc and ms.
drained() {
	local signal begin
	at=$folder/drain
	mkdir -p "$at"
	open_client
	initialize 2025-11-25 >&"$to"
	await_answer 1 || true
	call 9 system_metrics '' >&"$to"
	sleep 0.5
	begin=$(now)
	for signal; do
		"$docker" kill -s "$signal" "$container" >/dev/null 2>&1 || true
		sleep 0.3
	done
	rc=0
	wait "$client" || rc=$?
	ms=$(($(now) - begin))
	exec {to}>&-
	answered 1 || fail "does not answer: $(head -c 200 "$at/err.all")"
}

end_drains() { # SIGNALS...
	drained "$@" || return
	grep -q '^{"jsonrpc":"2.0","id":9,"result":.*"isError":false}}$' "$at/out" ||
		fail "the call in flight has no good answer; exit code $rc" || return
	[ $rc -eq 0 ] && [ $ms -lt 10000 ] || fail "exit code $rc after $ms ms"
}

end_is_cut_short() { # SIGNALS...
	drained "$@" || return
	! grep -q '^{"jsonrpc":"2.0","id":9,"result":.*"isError":false}}$' "$at/out" ||
		fail "the second signal did not cut the call short" || return
	[ $rc -eq 0 ] || fail "exit code $rc after $ms ms"
}

# The client dies (SIGKILL: it cannot tidy up), and its container must go with it.
client_killed() {
	at=$folder/killed
	mkdir -p "$at"
	name
	rm -f "$at/fifo"
	mkfifo "$at/fifo"
	exec {to}<>"$at/fifo"
	case $folder in
	*-soft-client)
		# Started in the background and attached to: the daemon keeps stdin open for the next one.
		"$docker" run -d -i --rm --name "$container" --label "$label" "${flags[@]}" "$image" >/dev/null 2>&1 || true
		"$docker" attach "$container" <"$at/fifo" >"$at/out" 2>"$at/err.all" {to}>&- &
		;;
	*)
		# Not through run: its timeout would be what is killed.
		"$docker" run --rm -i --name "$container" --label "$label" "${flags[@]}" "$image" \
			<"$at/fifo" >"$at/out" 2>"$at/err.all" {to}>&- &
		;;
	esac
	client=$!
	initialize 2025-11-25 >&"$to"
	await_answer 1 || true
	kill -KILL "$client" 2>/dev/null || true
	wait "$client" 2>/dev/null || true
	exec {to}>&-
	answered 1 || fail "does not answer: $(head -c 200 "$at/err.all")" || return
	await 10 no_container || {
		"$docker" rm -f "$container" >/dev/null 2>&1 || true
		fail "the container is still there 10 s after its client was killed"
	}
}
no_container() { [ -z "$("$docker" ps -aq --filter "name=^/?$container\$")" ]; }

# docker run -it: FLAG is -t. Detached, so that no terminal is needed here; the daemon has one all the same.
terminal_notice() { # FLAGS...
	local rc=0
	name
	"$docker" run -d -i "$@" --name "$container" --label "$label" "${flags[@]}" "$image" >/dev/null 2>&1 || true
	await 10 log_has 'stdin is a terminal.*leave out -t' || rc=1
	"$docker" rm -f "$container" >/dev/null 2>&1 || true
	[ $rc -eq 0 ] || fail "no word about the terminal"
}

many_answered() { [ -e "$at/over" ] || [ "$(grep -c '"id":1[0-9][0-9],$' "$at/out")" -ge "$1" ] 2>/dev/null; }

# many_calls COUNT [REASON]: reads of 1 MiB, all at once; each must have its answer, and REASON is the only refusal
# that is one. The second of each ten is of control characters: six bytes each on the wire, and that twice.
# The container is kept until its end was read. No log driver: docker would write all of it to disk as well.
many_calls() {
	local rc=0 state id answers other
	at=$folder/many
	mkdir -p "$at"
	name
	{
		initialize 2025-11-25
		for id in $(seq 100 $((99 + $1))); do
			read_call "$id" "$([ $((id % 10)) -eq 1 ] && echo control.txt || echo big.txt)" ',"max_bytes":1048576'
		done
	} >"$at/in"
	rm -f "$at/over"
	# The input stays open until all is answered: behind its end there are six seconds, which a busy machine may need.
	{ cat "$at/in" && await 100 many_answered "$1"; } | {
		timeout -k 5 120 "$docker" run -i --log-driver none --name "$container" --label "$label" "${flags[@]}" "$image" \
			2>"$at/err" || true
		: >"$at/over"
	} |
		grep --line-buffered -oE '^\{"jsonrpc":"2.0","id":[0-9]+,|\\"reason\\":\\"[A-Z_]+|"isError":(true|false)\}\}$' >"$at/out" || rc=$?
	state=$("$docker" inspect -f '{{.State.OOMKilled}} {{.State.ExitCode}}' "$container" 2>/dev/null) || true
	"$docker" rm -f "$container" >/dev/null 2>&1 || true
	[ "$state" = 'false 0' ] ||
		fail "OOMKilled and exit code: $state: $(own_lines "$at/err" | tail -n 1 | head -c 150)" || return
	answers=$(grep -c '"id":1[0-9][0-9],$' "$at/out") || true
	[ "$answers" -eq "$1" ] || fail "$answers of $1 answers" || return
	other=$(sed -n 's/^\\"reason\\":\\"//p' "$at/out" | grep -vx "${2:-none}" | sort | uniq -c | paste -sd ' ') || true
	[ -z "$other" ] || fail "refused: $other" || return
	[ "$(grep -c '"isError":false' "$at/out")" -ge $(($1 / 2)) ] || fail "not even half of the calls were served"
}
