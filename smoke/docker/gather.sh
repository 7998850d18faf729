#!/usr/bin/env bash
# Part of smoke/smoke-docker.sh, which reads it: the targets, and what is gathered about them.
# shellcheck disable=SC2154 # the variables of smoke-docker.sh

# What a user is told to give (README.md), and what is left when somebody forgets all of it.
network=(--network none --pull never)
outer=(--read-only --cap-drop ALL --security-opt no-new-privileges --pids-limit 64 --memory 256m --cpus 1
	--tmpfs "/tmp:rw,noexec,nosuid,nodev,size=16m")
data=(-e MCP_SAFE_DATA_DIR=/safe_data_dir)
off=(-e MCP_LANDLOCK=off -e MCP_SECCOMP=off -e MCP_ALLOW_PRIVILEGED=true)

# target NAME: sets image, flags and arguments (the command); folder is where what was gathered about it is kept. The
# volume and the soft images are made by prepare and prepare_controls.
target() {
	local database=(-v "$pg/s:/run/postgresql:ro" -e MCP_SQL_DSN_FILE=/run/secrets/dsn)
	image=$reference arguments=() folder=$work/target-$1 volume=$run_id-data
	flags=("${network[@]}")
	case $1 in
	sql | sql-edit-*) flags+=("${outer[@]}" "${data[@]}" "${database[@]}" -v "$pg/dsn:/run/secrets/dsn:ro") ;;
	sql-profile)
		flags+=("${outer[@]}" "${data[@]}" "${database[@]}" -v "$pg/dsn:/run/secrets/dsn:ro")
		flags+=(--security-opt seccomp=images/seccomp.json)
		;;
	sql-small)
		flags+=("${outer[@]}" "${data[@]}" "${database[@]}" -v "$pg/dsn:/run/secrets/dsn:ro")
		flags+=(--pids-limit 16 --memory 64m --memory-swap 64m)
		;;
	sql-wrong) flags+=("${outer[@]}" "${data[@]}" "${database[@]}" -v "$pg/dsn-wrong:/run/secrets/dsn:ro") ;;
	sql-no-file) flags+=("${outer[@]}" "${data[@]}" "${database[@]}") ;;
	hard | soft-client | edit-*) flags+=("${outer[@]}" "${data[@]}") ;;
	bare | soft-dirty) flags+=("${data[@]}") ;;
	unconfined) flags+=("${data[@]}" --security-opt seccomp=unconfined) ;;
	profile) flags+=("${outer[@]}" "${data[@]}" --security-opt seccomp=images/seccomp.json) ;;
	runsc) flags+=("${outer[@]}" "${data[@]}" --runtime runsc) ;;
	no-landlock) flags+=("${outer[@]}" --security-opt "seccomp=$work/no-landlock.json") ;;
	no-landlock-call) flags+=("${outer[@]}" --security-opt "seccomp=$work/no-landlock-call.json") ;;
	no-seccomp) flags+=("${outer[@]}" --security-opt "seccomp=$work/no-seccomp.json") ;;
	best-effort)
		flags+=("${outer[@]}" "${data[@]}" -e MCP_LANDLOCK=if-available)
		flags+=(--security-opt "seccomp=$work/no-landlock.json")
		;;
	root) flags+=("${outer[@]}" --user 0) ;;
	wrong-setting) flags+=("${outer[@]}" -e MCP_SECCOMP=maybe) ;;
	close-name) flags+=("${outer[@]}" -e MCP_LANDLOK=off) ;;
	slow) flags+=("${outer[@]}" -e MCP_METRICS_CPU_SAMPLE_SECONDS=2) ;;
	pids-16) flags+=("${outer[@]}" "${data[@]}" --pids-limit 16) ;;
	memory-64) flags+=("${outer[@]}" "${data[@]}" --memory 64m --memory-swap 64m) ;;
	# Soft ones. --privileged is not among them: a daemon that lacks a capability itself cannot start such a container
	# (measured: "unable to apply caps"), and uid 0 without a filter is as soft for what is looked at here.
	soft) flags+=("${data[@]}" "${off[@]}" --user 0 --security-opt seccomp=unconfined --tmpfs /tmp:rw,exec,suid,dev) ;;
	soft-landlock) flags+=("${outer[@]}" "${data[@]}" -e MCP_LANDLOCK=off) ;;
	soft-seccomp) flags+=("${outer[@]}" "${data[@]}" -e MCP_SECCOMP=off) ;;
	soft-slash) flags+=("${outer[@]}" -e MCP_SAFE_DATA_DIR=/) ;;
	soft-links) flags+=("${outer[@]}" "${data[@]}") volume=$run_id-soft ;;
	soft-rubbish) flags+=("${outer[@]}") arguments=(version) ;;
	soft-usage) flags+=("${outer[@]}") arguments=(--no-such-flag) ;;
	soft-deaf) flags+=("${outer[@]}" "${data[@]}" --stop-signal SIGWINCH --stop-timeout 2) ;;
	soft-pids) flags+=("${outer[@]}" "${data[@]}" --pids-limit 3) ;;
	soft-memory) flags+=("${outer[@]}" "${data[@]}" --memory 8m --memory-swap 8m) ;;
	soft-pid) flags+=("${outer[@]}" "${data[@]}" --pid host) ;;
	soft-init) flags+=("${data[@]}" --init) ;;
	soft-sql-other) flags+=("${outer[@]}" "${data[@]}" "${database[@]}" -v "$pg/dsn-other:/run/secrets/dsn:ro") ;;
	soft-sql-env) flags+=("${outer[@]}" "${data[@]}" -v "$pg/s:/run/postgresql:ro" -e "MCP_SQL_DSN=$(cat "$pg/dsn")") ;;
	soft-sql-seccomp)
		flags+=("${outer[@]}" "${data[@]}" "${database[@]}" -v "$pg/dsn:/run/secrets/dsn:ro" -e MCP_SECCOMP=off)
		;;
	soft-sql-small)
		flags+=("${outer[@]}" "${data[@]}" "${database[@]}" -v "$pg/dsn:/run/secrets/dsn:ro" --pids-limit 3)
		;;
	image-*) flags+=("${outer[@]}") image=$run_id:${1#image-} ;;
	*) bail_out "there is no target $1" ;;
	esac
	flags+=(-v "$volume:/safe_data_dir:ro")
	mkdir -p "$folder"
}

# name: a container name that is not taken, also in subshells.
counter=0
name() {
	counter=$((counter + 1))
	container=$run_id-$BASHPID-$counter
}

# run NAME ARGUMENTS...: the target's container in the foreground, as a client starts it. 60 s are for one that hangs.
run() {
	local as=$1
	shift
	timeout -k 5 60 "$docker" run --rm -i --name "$as" --label "$label" "${flags[@]}" "$image" "${arguments[@]}" "$@"
}

# quiet_for_docker FILE: what the program itself wrote to stderr; docker run adds its own warnings (swap limits).
own_lines() { grep -v '^WARNING: ' "$1" || true; }

# The folder that is served, as a volume: docker cp fills it, which a daemon on another machine can do, too.
fill_volume() { # VOLUME, FOLDER
	"$docker" volume create --label "$label" "$1" >/dev/null
	name
	"$docker" create --name "$container" --label "$label" --network none -v "$1:/safe_data_dir" "$reference" x >/dev/null
	# Into the root, by the whole path: docker refuses a link that leads out of the folder that it copies to.
	tar -C "$2" --numeric-owner --owner 0 --group 0 -c safe_data_dir | "$docker" cp - "$container:/"
	"$docker" rm -f "$container" >/dev/null
}

profile() { # FILE, ERRNO, NAMES: allows everything but these calls
	printf '{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":[%s],"action":"SCMP_ACT_ERRNO","errnoRet":%s}]}\n' \
		"$3" "$2" >"$1"
}

prepare() {
	local folder=$work/fixture/safe_data_dir
	profile "$work/no-landlock.json" 1 '"landlock_create_ruleset","landlock_add_rule","landlock_restrict_self"'
	profile "$work/no-landlock-call.json" 38 '"landlock_create_ruleset","landlock_add_rule","landlock_restrict_self"'
	profile "$work/no-seccomp.json" 1 '"seccomp"'
	mkdir -p "$folder/sub"
	echo 'hello from the sandbox' >"$folder/hello.txt"
	head -c 1048576 /dev/zero | tr '\0' x >"$folder/big.txt"
	head -c 1048576 /dev/zero | tr '\0' '\1' >"$folder/control.txt"
	echo 'root:x:0:' >"$folder/unreadable.txt"
	ln -s /etc/passwd "$folder/link-absolute"
	ln -s ../../etc/passwd "$folder/link-relative"
	ln -s /proc/self/environ "$folder/link-environ"
	ln -s /proc/1/environ "$folder/link-one-environ"
	ln -s /proc/self/mem "$folder/link-memory"
	ln -s /etc "$folder/link-folder"
	mkfifo "$folder/fifo"
	chmod -R u=rwX,go=rX "$folder"
	chmod 600 "$folder/unreadable.txt"
	fill_volume "$run_id-data" "$work/fixture"
}

fail() {
	printf '%s\n' "$*"
	return 1
}
skip() {
	printf '%s\n' "$*"
	return 77
}

# once NAME COMMAND...: runs COMMAND unless that was done for this target; its files are in $folder/NAME.
once() {
	at=$folder/$1
	[ ! -e "$at/done" ] || return 0
	mkdir -p "$at"
	"${@:2}" || true # what is missing shows in the files
	: >"$at/done"
}

initialize() { # VERSION
	local client='"capabilities":{},"clientInfo":{"name":"smoke-docker","version":"1"}'
	printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"'"$1"'",'"$client"'}}' \
		'{"jsonrpc":"2.0","method":"notifications/initialized"}'
}
call() { printf '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"%s","arguments":{%s}}}\n' "$@"; }
read_call() { call "$1" sandbox_fs_read "\"relative_path\":\"$2\"${3:-}"; }

# The paths that must be refused, with the id of their call. The links are in the volume; see prepare.
denied_paths='
300 ../etc/passwd
301 /etc/passwd
302 sub/../../etc/passwd
303 link-absolute
304 link-relative
305 link-environ
306 link-one-environ
307 link-memory
308 link-folder/passwd
309 fifo
310 sub
311 ../proc/self/environ
312 unreadable.txt
'

conversation() {
	initialize 2025-11-25
	printf '%s\n' '{"jsonrpc":"2.0","id":2,"method":"tools/list"}' '{"jsonrpc":"2.0","id":3,"method":"ping"}'
	read_call 4 hello.txt
	call 5 system_metrics '"include_disk":true'
	local id path
	while read -r id path; do [ -z "$id" ] || read_call "$id" "$path"; done <<<"$denied_paths"
	printf '{"jsonrpc":"2.0","id":6,"method":"ping","params":{"_meta":{"x":"'
	head -c 1048577 /dev/zero | tr '\0' x
	printf '"}}}\n'
	printf '%s\n' 'no json' '{"jsonrpc":"2.0","id":7,"method":"ping"}'
}

# A whole conversation, all lines at once, through docker run -i: out, err, rc.
gather_talk() {
	local rc=0
	name
	conversation >"$at/in"
	run "$container" <"$at/in" >"$at/out" 2>"$at/err.all" || rc=$?
	echo $rc >"$at/rc"
	own_lines "$at/err.all" >"$at/err"
	case $folder in # what no program at hand does, for the controls
	*-edit-rubbish) sed -i '2i {"jsonrpc":"2.0","id":8,"result":{"a":[1,]}}' "$at/out" ;;
	*-edit-open) sed -i 's/"additionalProperties":false/"additionalProperties":true/' "$at/out" ;;
	*-edit-exit) echo 7 >"$at/rc" ;;
	esac
}

# gather_start: no session, only the start: out, err, rc.
gather_start() {
	local rc=0
	name
	run "$container" </dev/null >"$at/out" 2>"$at/err.all" || rc=$?
	echo $rc >"$at/rc"
	own_lines "$at/err.all" >"$at/err"
}

gather_posture() {
	local rc=0
	name
	run "$container" posture --json --probes >"$at/out" 2>"$at/err" </dev/null || rc=$?
	echo $rc >"$at/rc"
	sed -n 1p "$at/out" >"$at/posture"
	sed 1d "$at/out" >"$at/probes"
}

# open_client: a container whose client stays: stdin is the descriptor $to, answers go to $at/out, and the process of
# docker run is $client.
open_client() {
	name
	rm -f "$at/fifo"
	mkfifo "$at/fifo"
	exec {to}<>"$at/fifo"
	run "$container" <"$at/fifo" >"$at/out" 2>"$at/err.all" {to}>&- &
	client=$!
}

# await SECONDS COMMAND...: until COMMAND succeeds; false when it has not within that time.
await() {
	local until=$(($(now) + $1 * 1000))
	shift
	until "$@"; do
		[ "$(now)" -lt $until ] || return 1
		sleep 0.05
	done
}
# Answered, or there is nobody any more who could.
await_answer() { await 30 answered_or_gone "$1" && answered "$1"; }
answered_or_gone() { answered "$1" || is_gone "$client"; }
answered() { grep -q "^{\"jsonrpc\":\"2.0\",\"id\":$1,.*}\$" "$at/out" 2>/dev/null; }
is_gone() { ! kill -0 "$1" 2>/dev/null; }
log_has() { "$docker" logs "$container" 2>&1 | grep -q -e "$1"; }

# seen_from_host: whether $container is a process of this machine that we can read; sets pid. The control group names
# the container, so that a number that happens to exist here is not taken for one.
seen_from_host() {
	local line
	line=$("$docker" inspect -f '{{.State.Pid}} {{.Id}}' "$container" 2>/dev/null) || return 1
	pid=${line% *}
	[ "$pid" -gt 0 ] 2>/dev/null && grep -q "${line#* }" "/proc/$pid/cgroup" 2>/dev/null
}

# A session in full flow, looked at from outside: 20 reads of 1 MiB at once, then what the host and docker see, then
# docker stop. Files: status (of every task), mounts, tries, top, diff, answers, stop (exit code and ms).
gather_live() {
	local id begin rc=0
	open_client
	initialize 2025-11-25 >&"$to"
	if [[ $folder == */target-sql ]]; then query 99 'SELECT 1' >&"$to" && await_answer 99; fi # a connection is open
	for id in $(seq 100 119); do read_call "$id" big.txt ',"max_bytes":1048576' >&"$to"; done
	for id in 1 $(seq 100 119); do await_answer "$id" || break; done
	"$docker" top "$container" >"$at/top" 2>&1 || true
	if seen_from_host; then
		: >"$at/host"
		for id in "/proc/$pid/task"/*; do cat "$id/status" 2>/dev/null || true; done >"$at/status"
		cat "/proc/$pid/mountinfo" >"$at/mounts" 2>/dev/null || true
		cat "/proc/$pid/uid_map" >"$at/uid_map" 2>/dev/null || true
	fi
	if [[ $folder == *-soft-dirty ]]; then "$docker" cp "$work/no-seccomp.json" "$container:/" >/dev/null 2>&1 || true; fi
	"$docker" diff "$container" >"$at/diff" 2>&1 || echo "docker diff does not answer" >>"$at/diff"
	if [ -e "$at/host" ] && ls "/proc/$pid/root/" >/dev/null 2>&1; then try_as_host "/proc/$pid/root" >"$at/tries"; fi
	begin=$(now)
	"$docker" stop "$container" >/dev/null 2>&1 || true
	echo $(($(now) - begin)) >"$at/stop_ms"
	wait "$client" || rc=$?
	echo $rc >"$at/rc"
	exec {to}>&-
	own_lines "$at/err.all" >"$at/err"
	if [[ $folder == *-edit-rule ]]; then sed -i 's/"rights":\["read_file"/"rights":["write_file"/' "$at/err"; fi
}

# try_as_host ROOT: writes through /proc/PID/root, which meets the container's own mounts and their flags, as root.
# One line for each: where, and what came of it. What it makes goes with the container.
try_as_host() {
	local path said
	for path in /smoke-probe /etc/smoke-probe /run/mcp/smoke-probe /safe_data_dir/smoke-probe \
		/proc/sys/kernel/domainname; do
		# Appending nothing: where the open succeeds, nothing is changed.
		if said=$( (: >>"$1$path") 2>&1); then said=written; fi
		printf '%s: %s\n' "$path" "${said##*: }"
	done
	if (printf '#!/bin/sh\n' >"$1/tmp/smoke-probe" && chmod 755 "$1/tmp/smoke-probe") 2>/dev/null; then
		if said=$("$1/tmp/smoke-probe" 2>&1); then said=executed; fi
		printf '/tmp/smoke-probe: %s\n' "${said##*: }"
	else
		printf '/tmp/smoke-probe: cannot be made\n'
	fi
}

# The same container without a filter of ours: how many the runtime has installed, as the host sees it.
gather_baseline() {
	flags+=("${off[@]}")
	name
	"$docker" run -d -i --name "$container" --label "$label" "${flags[@]}" "$image" >/dev/null 2>"$at/err" || return 0
	await 30 log_has '"msg":"posture"' || true
	if seen_from_host; then sed -n 's/^Seccomp_filters:[[:space:]]*//p' "/proc/$pid/status" >"$at/filters"; fi
	"$docker" rm -f "$container" >/dev/null 2>&1 || true
}

# What can be seen without a start: the configuration, each field on its line, the list of files, the program.
gather_image() {
	local field
	for field in Os Architecture Config.User Config.Entrypoint Config.Cmd Config.StopSignal Config.Env Config.Volumes \
		Config.ExposedPorts Config.Healthcheck Config.OnBuild Config.Labels Id; do
		# A field that this daemon leaves out of its answer is an error of the template engine: as good as null.
		printf '%s %s\n' "$field" "$("$docker" image inspect -f "{{json .$field}}" "$image" 2>/dev/null || echo null)"
	done >"$at/config"
	name
	"$docker" create --name "$container" --label "$label" --network none "$image" x >/dev/null 2>"$at/err" || return 0
	"$docker" export "$container" | tar -tv --numeric-owner >"$at/files" 2>>"$at/err" || true
	"$docker" cp "$container:/mcp-server-suite" - 2>>"$at/err" | tar -xO >"$at/program" 2>>"$at/err" || true
	"$docker" rm -f -v "$container" >/dev/null 2>&1 || true
}
configured() { sed -n "s/^$1 //p" "$at/config"; }
