#!/usr/bin/env bash
# Part of smoke/smoke-docker.sh, which reads it: the soft images, and the controls on them.
# shellcheck disable=SC2154 # the variables of smoke-docker.sh

# derive NAME [OPTIONS of docker create -- ][CHANGES]: a soft image from the one at hand. $work/add is laid over it.
derive() {
	local as=$1 options=() changes=(--change "LABEL $label_key=$run_id")
	shift
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	[ $# -eq 0 ] || shift
	while [ $# -gt 0 ]; do
		changes+=(--change "$1")
		shift
	done
	name
	"$docker" create --name "$container" --label "$label" --network none "${options[@]}" "$reference" >/dev/null
	if [ -e "$work/add" ]; then
		tar -C "$work/add" --numeric-owner --owner 0 --group 0 -c . | "$docker" cp - "$container:/"
		rm -rf "$work/add"
	fi
	"$docker" commit "${changes[@]}" "$container" "$run_id:$as" >/dev/null
	"$docker" rm -f "$container" >/dev/null
}

prepare_controls() {
	local add=$work/add soft=$work/soft/safe_data_dir file
	say "making soft images"
	derive name -- 'USER mcp'
	derive shell-form -- 'ENTRYPOINT /mcp-server-suite'
	derive signal --stop-signal SIGKILL
	derive labels -- 'LABEL org.opencontainers.image.title=""'
	derive version -- 'LABEL org.opencontainers.image.version=9.9.9'
	derive env -- 'ENV PASSWORD=x'
	derive volume -- 'VOLUME /var'
	mkdir -p "$add/bin" "$add/lib"
	echo >"$add/bin/sh"
	echo >"$add/bin/su"
	echo >"$add/lib/libc.so.6"
	chmod 4755 "$add/bin/su"
	derive files
	mkdir -p "$add/etc"
	echo >"$add/etc/group"
	chmod 666 "$add/etc/group"
	derive writable
	mkdir -p "$add"
	install -m 0755 "$BASH" "$add/mcp-server-suite"
	derive dynamic
	mkdir -p "$add"
	install -m 0555 "$BASH" "$add/mcp-server-suite"
	derive interpreter
	mkdir -p "$add"
	echo '#!/bin/sh' >"$add/mcp-server-suite"
	chmod 0555 "$add/mcp-server-suite"
	derive text
	mkdir -p "$add"
	head -c $((max_image_bytes + 1)) /dev/zero >"$add/filler"
	derive large
	mkdir -p "$soft/sub"
	for file in hello.txt fifo link-absolute link-relative; do echo root:x:0: >"$soft/$file"; done
	echo 'hello from the sandbox' >"$soft/hello.txt"
	chmod -R u=rwX,go=rX "$soft"
	fill_volume "$run_id-soft" "$work/soft"
}

with_leftover() {
	name
	"$docker" create --name "$container" --label "$label" --network none "$image" >/dev/null
	"$@"
}

# control TARGET, the words in which it must be caught (a pattern), why, the function and its arguments.
control() {
	local of=$1 words=$2 text=$3 function=$4 reason status=0
	case $function in quick | with_leftover) function=$5 ;; esac
	controlled[$function]=1
	reason=$(run_check "$of" "${@:4}" 2>&1) || status=$?
	reason=$(tr -cd '\n -~' <<<"$reason" | paste -sd ' ' | cut -c 1-500)
	if [ $status -eq 77 ]; then
		left_out "$function: $text" "$reason"
	elif [ $status -eq 1 ] && grep -qE -e "$words" <<<"$reason"; then
		point ok "$function catches $text"
	else
		point 'not ok' "$function catches $text"
		printf '#   status %s: %s\n' "$status" "$reason"
	fi
}

controls() {
	local zeros
	zeros=sha256:$(printf '0%.0s' {1..63})
	control image-name 'User is "mcp"' "a user by name" image_user
	control image-shell-form 'Entrypoint is' "another entry point" image_command
	control image-signal 'StopSignal is' "another stop signal" image_command
	control image-labels 'title is missing' "an empty label" image_labels
	control image-env 'Env is' "a secret in the environment" image_nothing_else
	control image-volume 'Volumes is' "a volume" image_nothing_else
	control image-files 'not on the list: .*bin/sh' "a path that is not on the list" image_paths
	control image-files 'setuid or setgid bin/su' "a setuid file" image_modes
	control image-writable 'writable for all' "a file that all may write" image_modes
	control image-files 'does not belong here: .*bin/sh.*libc.so.6' "a shell and a library" image_no_shell
	control image-dynamic 'has an interpreter|mode or owner' "a program with another mode" image_program
	control image-interpreter 'has an interpreter|not position-independent' "a program that needs a loader" image_program
	control image-text 'is no ELF file' "a script in the program's place" image_program
	control image-large 'the bound is' "an image that has grown" image_size
	control hard 'first sha256:0' "an ID that changes" same_id "${zeros}0" "${zeros}1"
	control hard 'the daemon' "an ID that the daemon does not have" same_id "${zeros}0" "${zeros}0"
	control image-version 'the label says 9.9.9' "a label of another version" label_is_version

	control no-landlock 'does not serve' "a daemon that does not start" host_user
	control soft 'Uid of .* threads' "uid 0" host_user
	control soft 'CapPrm of' "capabilities" host_capabilities Prm
	control bare 'CapBnd of' "a bounding set that is not empty" host_capabilities Inh Prm Eff Bnd Amb
	control soft-init 'NoNewPrivs of' "a process that can gain privileges" host_no_new_privs
	control soft 'Seccomp of|Seccomp_filters of' "a daemon without a filter under no profile" host_filters
	control soft-seccomp 'Seccomp_filters of' "a daemon without a filter under docker's profile" host_filters
	control soft-seccomp 'not in the posture' "a daemon without a filter" live_posture
	control bare 'not in the posture: "bounding"' "a container without flags" live_posture '"bounding":"0000000000000000"'
	control soft-landlock 'Landlock is not in force' "a daemon without Landlock" live_landlock
	control soft-init 'Name of' "another process 1 (docker run --init)" host_process_one
	control soft-pid 'NStgid of' "a process among others (docker run --pid host)" host_process_one
	control soft-landlock 'Landlock is not in force' "a daemon without Landlock" live_writes
	control soft-seccomp 'not denied: ' "a daemon without a filter" live_writes
	control edit-rule 'a rule lets' "a right to write" live_writes
	control bare 'smoke-probe: written' "a root that can be written" host_root_read_only
	control soft '/tmp is mounted' "a /tmp without its flags" host_tmp
	control soft-dirty 'docker diff: ' "a container in which something was written" live_diff
	control soft-landlock 'left open: ' "a daemon without Landlock" probes_all
	control soft-seccomp 'left open: ' "a daemon without a filter" probes_all
	control soft-seccomp 'execve: exit code' "a daemon that survives execve" probe_kill execve
	control hard 'does not say' "a posture that has nothing to tell" posture_tells '"read_only":false'
	control hard 'exit code 0, not 3' "a start that is not refused" refused_start 3 landlock
	control wrong-setting 'exit code 2, not 3' "a start that is refused for another reason" refused_start 3 landlock
	control soft-usage 'says: ' "a refusal with other words" refused_start 2 'runs with uid 0'
	control hard 'no warning in the log' "a daemon that does not warn" degraded_start
	control no-landlock 'does not serve' "a daemon that refuses" degraded_start
	control soft-usage 'exit code 2' "a program that ends otherwise" starts_or_says

	control soft-rubbish 'no answer to call 1' "a program that prints its version" talk_handshake
	control no-landlock 'no answer to call 1' "a daemon that does not start" talk_handshake
	control hard 'asked for' "an answer with another revision" talk_versions 2025-06-18 2025-11-25
	control soft-rubbish 'no answer to call 2' "a program that prints its version" talk_schemas
	control edit-open 'lets unknown properties through|not every tool' "an open schema" talk_schemas
	control soft-rubbish 'of stdout is no JSON|nothing on stdout' "a program that prints its version" talk_streams
	control edit-rubbish 'of stdout is no JSON object' "a line of rubbish among the answers" talk_streams
	control soft-slash '\.\./etc/passwd' "a daemon that serves /" talk_denied
	control soft-links 'link-absolute' "files where links were" talk_denied
	control bare 'memory_limit_bytes is null' "a container without limits" talk_metrics
	control soft-rubbish 'have not two errors' "a program that prints its version" talk_long_line
	control soft-links 'call 100 has not' "calls without a good answer" live_parallel
	control soft-rubbish 'the last request' "a program that does not answer" talk_end
	control edit-exit 'exit code 7' "another exit code" talk_end
	control soft-rubbish 'does not answer' "a program that does not answer" end_of_input 2000
	control hard 'ms after the end' "an end that takes longer than it may" end_of_input 1
	control soft-deaf 'exit code 137' "a daemon that does not hear the signal" live_stop
	control hard 'exit code 137' "a process that is killed" end_by_signal KILL 1000
	control hard 'ms after TERM' "an end that takes longer than it may" end_by_signal TERM 1
	control slow 'no good answer' "a process that is killed" end_drains KILL
	control slow 'did not cut' "one signal only" end_is_cut_short TERM
	control soft-client 'still there' "a container that outlives its client" client_killed
	control hard 'no word' "no terminal" terminal_notice
	control soft-links 'refused: .*NOT_FOUND' "calls that are refused" many_calls 20 BUSY
	control soft-memory 'OOMKilled and exit code: (true|false [1-9])' "too little memory" many_calls 100 BUSY
	control soft-pids 'OOMKilled and exit code: false' "too few threads" many_calls 20

	control soft-rubbish 'no answer to call 2' "a program that prints its version" sql_offered 'not there'
	control hard 'is not offered' "a daemon without a database" sql_offered there
	sql_control sql 'is offered' "a daemon with one" sql_offered 'not there'
	sql_control soft-sql-other 'the join: ' "another database" sql_rows
	sql_control soft-sql-other 'postgres://schema: ' "another database" sql_schema
	sql_control soft-sql-env 'the password is in inspect' "a DSN in the environment" sql_secret
	sql_control sql-edit-log 'the password is in logs' "a log that repeats the DSN" sql_secret
	sql_control sql 'not rejected: ' "a password that is right" sql_rejected
	sql_control sql-edit-served 'WITH gone' "a write that is not refused" sql_refused
	sql_control sql-edit-deletes 'the table was' "a table that has changed" sql_refused
	sql_control sql-edit-cap '1000 rows' "a result that does not say that it is cut" sql_capped
	sql_control sql 'still runs' "a query that nobody cancels" sql_cancelled nothing
	sql_control hard 'not the one for a database' "a daemon without a database" sql_posture
	sql_control soft-sql-seccomp 'not the one for|opt_outs' "a daemon without a filter" sql_posture
	sql_control sql 'left open: ' "a socket that is left for a database" probes_all
	sql_control soft-sql-seccomp 'left open: ' "a daemon without a filter" probes_all 'socket AF_UNIX, stream' connect
	sql_control soft-sql-small 'no answer|does not serve' "too few threads" sql_many

	control hard 'container: ' "a container that is left" with_leftover nothing_left
}
