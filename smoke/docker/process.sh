#!/usr/bin/env bash
# Part of smoke/smoke-docker.sh, which reads it: checks of the process: what the host sees, then what it says.
# shellcheck disable=SC2154 # the variables of smoke-docker.sh

# host_side: gathers the live session, and skips where the daemon's machine is another one.
host_side() {
	once live gather_live
	# What does not start is not elsewhere.
	answered 1 || fail "does not serve: $(head -c 300 "$at/err")" || return
	[ -e "$at/host" ] || skip "no /proc of the container here: the docker daemon is elsewhere; see what posture says" ||
		return
	tasks=$(grep -c ^Name: "$at/status") || fail "no task could be read" || return
}

# every FIELD PATTERN: each task has this value; counts, so that a missing field is not a right one.
every() {
	local right
	right=$(grep -cE "^$1:[[:space:]]*$2\$" "$at/status") || true
	[ "$right" -eq "$tasks" ] ||
		fail "$1 of $((tasks - right)) of $tasks threads is another:" \
			"$(grep -E "^$1:" "$at/status" | sort -u | tr '\t\n' '  ')"
}

host_user() {
	local uid
	host_side || return
	# Seen through a user namespace (rootless docker, userns-remap) the number is another.
	uid=$(awk '10001 >= $1 && 10001 < $1 + $3 { print $2 + 10001 - $1 }' "$at/uid_map")
	[ -n "$uid" ] || fail "uid 10001 is not mapped" || return
	every Uid "(${uid}[[:space:]]*){4}" || return
	every Gid "(${uid}[[:space:]]*){4}" || return
	every Groups "($uid)? *"
}

host_capabilities() { # SETS...
	local set
	host_side || return
	for set; do every "Cap$set" 0000000000000000 || return; done
}

host_no_new_privs() { host_side && every NoNewPrivs 1; }

# Seccomp 2 alone proves nothing: Docker's own profile gives it. One more than the runtime's is ours.
host_filters() {
	local before
	host_side || return
	once baseline gather_baseline
	before=$(cat "$at/filters" 2>/dev/null) ||
		fail "the same container without our filter could not be read: $(head -c 200 "$at/err")" || return
	at=$folder/live
	[[ $before =~ ^[0-9]+$ ]] || skip "this kernel does not count filters in /proc (before 5.9)" || return
	every Seccomp 2 || return
	every Seccomp_filters $((before + 1))
}

# NStgid ends with the process id inside. The name is that of the program that was begun anew by way of /proc/self/exe.
host_process_one() {
	host_side || return
	every NStgid '[0-9]+([[:space:]]+[0-9]+)*[[:space:]]+1' || return
	every Name '(exe|mcp-server-suit)' || return
	[ "$(sed 1d "$at/top" | wc -l)" -eq 1 ] || fail "docker top lists $(sed 1d "$at/top" | wc -l) processes"
}

host_root_read_only() {
	local written
	host_side || return
	[ -s "$at/tries" ] || skip "only root can reach into the container's mounts" || return
	written=$(grep -v '^/tmp/' "$at/tries" | grep -v ': Read-only file system$' | paste -sd ';') || true
	[ -z "$written" ] || fail "$written"
}

host_tmp() {
	local mount options flag
	host_side || return
	for mount in /tmp /dev/shm /dev/mqueue; do
		options=$(awk -v at="$mount" '$5 == at { print $6 }' "$at/mounts" | tail -n 1)
		for flag in nosuid nodev noexec; do
			[[ ,$options, == *",$flag,"* ]] || fail "$mount is mounted ${options:-not at all}" || return
		done
	done
	[ -s "$at/tries" ] || return 0
	grep -qx '/tmp/smoke-probe: Permission denied' "$at/tries" || fail "$(grep ^/tmp "$at/tries")"
}

live_diff() {
	once live gather_live
	grep -q '"id":119' "$at/out" || fail "the session did not get so far: $(head -c 300 "$at/err")" || return
	[ ! -s "$at/diff" ] || fail "docker diff: $(paste -sd ';' "$at/diff")"
}

live_parallel() {
	local id good
	once live gather_live
	for id in $(seq 100 119); do
		good="^{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":.*\"bytes_read\":1048576,.*\"isError\":false}}\$"
		[ "$(grep -c "$good" "$at/out")" -eq 1 ] ||
			fail "call $id has not exactly one good answer" || return
	done
}

# In time: what is measured here includes docker's own work, so the best of three counts; only noise makes it longer.
live_stop() {
	local try
	once live gather_live
	[ "$(cat "$at/rc")" = 0 ] || fail "exit code $(cat "$at/rc") after docker stop, $(cat "$at/stop_ms") ms" || return
	for try in 1 2; do
		[ "$(cat "$at/stop_ms")" -ge 1000 ] || return 0
		rm -rf "$at"
		once live gather_live
	done
	[ "$(cat "$at/rc")" = 0 ] && [ "$(cat "$at/stop_ms")" -lt 1000 ] ||
		fail "exit code $(cat "$at/rc"), $(cat "$at/stop_ms") ms at the third try"
}

# live_log: the posture that the serving daemon itself has logged.
logged_posture() {
	once live gather_live
	posture=$(grep -m 1 '"msg":"posture"' "$at/err") || fail "no posture in the log: $(head -c 300 "$at/err")"
}

# The same as the host sees, in the daemon's own words: all there is when it runs on another machine.
live_posture() { # PATTERNS that hold besides
	local word zero=0000000000000000
	logged_posture || return
	for word in '"level":"full","uid":10001,"gid":10001,' \
		"\"effective\":\"$zero\",\"permitted\":\"$zero\",\"inheritable\":\"$zero\",\"ambient\":\"$zero\"" \
		'"no_new_privs":true' '"opt_outs":\[\]' "$@"; do
		grep -q -e "$word" <<<"$posture" || fail "not in the posture: $word" || return
	done
	[[ $posture =~ \"filters_before\":([0-9]+),\"filters\":([0-9]+) ]] &&
		[ "${BASH_REMATCH[2]}" -eq $((BASH_REMATCH[1] + 1)) ] || fail "the filters are not one more than before"
}

live_landlock() {
	logged_posture || return
	[[ $posture =~ \"landlock\":\{\"mode\":\"[a-z-]*\",\"enforced\":true,\"abi\":[1-9] ]] ||
		fail "Landlock is not in force" || return
	[[ $posture == *'"opt_outs":[]'* ]] || fail "opted out of something" || return
	[[ $posture == *'"posture":{"level":"full"'* ]] || fail "the level is not full"
}

# Nothing can be written anywhere: no rule of Landlock gives a right to, and every probe that tries was refused. So
# /dev/shm and /dev/mqueue, which docker mounts writable in a read-only container, too, are not writable.
live_writes() {
	local probe
	logged_posture || return
	[[ $posture == *'"enforced":true,"abi"'* ]] ||
		fail "Landlock is not in force: /dev/shm and /dev/mqueue are writable" || return
	[[ $posture == *'"rules":[{'* ]] || fail "no rules in the posture" || return
	! sed 's/.*"rules":\[\(.*\)\],"connect_tcp".*/\1/' <<<"$posture" |
		grep -qE '"(write_file|truncate|ioctl_dev|remove_[a-z]+|make_[a-z]+|refer)"' ||
		fail "a rule lets something be written" || return
	once posture gather_posture
	for probe in 'open to create' creat mkdir unlink rename symlink mknod 'create a file in /' 'create a file in /tmp' \
		'make a nameless file' 'open a file for appending' 'open a file to empty it' 'open a device for writing' \
		chmod truncate; do
		denied "$probe" || return
	done
	# Flags of openat2 are in memory, where the filter cannot see them: Landlock refuses, or the filter all of it.
	denied 'openat2 with O_WRONLY' >/dev/null || denied 'openat2 at all'
}

denied() {
	grep -q "^{\"name\":\"$1\",.*\"denied\":true" "$at/probes" || fail "not denied: $1"
}

# probes_all [NAMES]: every probe is denied, but for those which what is configured needs.
probes_all() {
	local name sum open
	once posture gather_posture
	[ "$(cat "$at/rc")" = 0 ] || fail "posture exits with $(cat "$at/rc"): $(head -c 300 "$at/err")" || return
	sum=$(grep -oE '"probes":\{.*' "$at/posture") || fail "no such posture: $(head -c 200 "$at/posture")" || return
	for name; do sum=${sum/"\"$name\""/}; done
	open=$(grep -oE '"(open|failed)":\[[^]]+\]' <<<"$sum" | head -n 1) || true
	[ -z "$open" ] || fail "left open: $open" || return
	[[ $sum =~ \"tried\":([0-9]+),\"denied\":([0-9]+), ]] && [ "${BASH_REMATCH[2]}" -ge 90 ] &&
		[ "${BASH_REMATCH[1]}" -eq $((BASH_REMATCH[2] + $#)) ] || fail "not all tried are denied: $sum" || return
	for name in 'open a file outside of the grants' 'list a folder outside of the grants' 'open /proc/1/environ' \
		'open our memory for writing' 'socket AF_INET, stream' 'socket AF_UNIX, stream' 'socket AF_NETLINK' bind listen \
		connect setuid capset kill 'tgkill of another process' 'clone into a new user namespace' memfd_create \
		'mprotect to executable' seccomp landlock_create_ruleset pidfd_getfd 'a system call that does not exist'; do
		[[ " $*" == *" $name"* ]] || denied "$name" || return
	done
}

probe_kill() { # NAMES...
	local call rc
	for call; do
		rc=0
		name
		run "$container" posture --kill "$call" >"$folder/kill" 2>&1 </dev/null || rc=$?
		[ $rc -eq 159 ] || fail "$call: exit code $rc, not 159 (128 + SIGSYS)" || return
	done
}

# What an outer layer does not do, the posture says.
posture_tells() { # WHAT is missing, in the posture's own words
	local word
	logged_posture || return
	for word; do [[ $posture == *"$word"* ]] || fail "the posture does not say $word" || return; done
	[[ $posture != *'"bounding":"0000000000000000"'* ]] ||
		fail "the posture does not say that capabilities can be regained"
}

# A start that must not be: exit code, nothing on stdout, one line that says what is missing.
refused_start() { # CODE, WORDS that the line has
	once start gather_start
	[ "$(cat "$at/rc")" = "$1" ] || fail "exit code $(cat "$at/rc"), not $1: $(head -c 200 "$at/err")" || return
	[ ! -s "$at/out" ] || fail "on stdout: $(head -c 100 "$at/out")" || return
	[ "$(wc -l <"$at/err")" -eq 1 ] || fail "$(wc -l <"$at/err") lines on stderr" || return
	grep -q -e "$2" "$at/err" || fail "says: $(head -c 200 "$at/err")"
}

# Best effort is said aloud: in the log of the very daemon, and it serves.
degraded_start() {
	once talk gather_talk
	[ "$(cat "$at/rc")" = 0 ] && answered 3 || fail "does not serve: exit code $(cat "$at/rc")" || return
	grep -q '"level":"WARN","msg":"posture","posture":{"level":"reduced"' "$at/err" ||
		fail "no warning in the log" || return
	grep -q '"residual":\["open a file for reading is left' "$at/err" || fail "the log does not say what is left"
}

# Starts, or refuses with one clear line.
starts_or_says() {
	once talk gather_talk
	case $(cat "$at/rc") in
	0) answered 3 || fail "starts and does not answer" ;;
	3) [ ! -s "$at/out" ] && [ "$(wc -l <"$at/err")" -eq 1 ] || fail "refuses in $(wc -l <"$at/err") lines" ;;
	*) fail "exit code $(cat "$at/rc"): $(head -c 200 "$at/err")" ;;
	esac
}
