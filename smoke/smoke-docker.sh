#!/usr/bin/env bash
# Looks at the image from outside and at the daemon in its container; --help tells the rest.
#
# A check is a function that looks at one target (an image with flags and settings) and says in words what it misses.
# The plan is the list of checks; the controls are the same functions on targets that are soft on purpose, and each
# must be caught for the reason that was planted. What a check looks at is gathered once for each target.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C
docker=${DOCKER:-docker}
max_image_bytes=25000000

usage() {
	cat <<-EOF
		Usage: smoke/smoke-docker.sh [--offline] [--image REF] [--tap]
		       smoke/smoke-docker.sh --self-test [--image REF] [--tap]

		Checks a container image of mcp-server-suite before it is released or used: what is in it, what it starts as,
		which rights the daemon in it has left (as the host sees them on every thread, and as it says itself), that its own
		layers hold without any flag, that it speaks MCP through docker run -i, and that it ends as it should.
		TAP on stdout; exit 0 only if every check passed, 1 if one did not, 2 if it could not begin. A minute or two.

		  --image REF  the image to check, which must be here: nothing is pulled. Without it scripts/image.sh builds one,
		               twice, and both must have the same ID
		  --offline    only what can be seen without starting a container: configuration, content, size
		  --self-test  this script against itself: each check must catch a container, an image or a client that is wrong
		               on purpose, and name what is wrong
		  --tap        no progress on stderr

		Needs bash 4.4, coreutils, grep, sed, awk, tar, and a docker CLI of 20.10 or newer with a daemon (DOCKER is the
		CLI; scripts/ci-dockerd.sh starts a daemon where there is none). What the host sees in /proc needs a daemon on this
		machine, and trying to write needs root; what a database shows needs PostgreSQL's programs (Debian:
		scripts/postgres.sh), from which a server is started here. Without them those points are skipped, and say so.

		No container has a network or outlives the script; containers and volumes are named mcp-smoke-* and labelled
		$label_key.
	EOF
}

label_key=mcp-smoke-run
reference='' offline='' self_test='' quiet=''
while [ $# -gt 0 ]; do
	case $1 in
	--offline) offline=1 ;;
	--self-test) self_test=1 ;;
	--tap) quiet=1 ;;
	--image)
		[ $# -ge 2 ] && [[ $2 =~ ^[A-Za-z0-9] ]] || {
			echo "smoke-docker: --image wants a reference" >&2
			exit 2
		}
		reference=$2
		shift
		;;
	-h | --help)
		usage
		exit 0
		;;
	*)
		echo "smoke-docker: unknown argument; see --help" >&2
		exit 2
		;;
	esac
	shift
done
if [ -n "$offline" ] && [ -n "$self_test" ]; then
	echo "smoke-docker: --self-test starts containers; it is not --offline" >&2
	exit 2
fi

say() { [ -n "$quiet" ] || printf 'smoke-docker: %s\n' "$*" >&2; }

# TAP
number=0 failed=0 skipped=0
point() { # ok|"not ok", description (with its # comment)
	number=$((number + 1))
	[ "$1" = ok ] || failed=$((failed + 1))
	printf '%s %d - %s\n' "$1" "$number" "$2"
}
left_out() { # description, why
	skipped=$((skipped + 1))
	point ok "$1 # SKIP $2"
}
bail_out() {
	printf 'Bail out! %s\n' "$*"
	printf 'smoke-docker: %s\n' "$*" >&2
	exit 2
}

for need in "$docker" tar awk sed grep timeout od mkfifo; do
	command -v "$need" >/dev/null || bail_out "$need is missing"
done

work=$(mktemp -d)
run_id=mcp-smoke-$(date +%s)-$$
label=$label_key=$run_id

# ours KIND: the ids of what this run has made and not removed.
ours() {
	case $1 in
	container) "$docker" ps -aq --no-trunc --filter "label=$label" ;;
	volume) "$docker" volume ls -q --filter "label=$label" ;;
	network) "$docker" network ls -q --filter "label=$label" ;;
	image) "$docker" images -q --no-trunc --filter "label=$label" ;;
	esac
}
remove_ours() {
	local list
	list=$(ours container 2>/dev/null) && [ -z "$list" ] || xargs -r "$docker" rm -f >/dev/null 2>&1 <<<"$list" || true
	list=$(ours volume 2>/dev/null) && [ -z "$list" ] || xargs -r "$docker" volume rm -f >/dev/null 2>&1 <<<"$list" || true
	list=$(ours image 2>/dev/null | sort -u) && [ -z "$list" ] || xargs -r "$docker" rmi -f >/dev/null 2>&1 <<<"$list" || true
}
finish() {
	local status=$?
	trap - EXIT
	trap '' INT TERM
	remove_ours
	end_postgres
	rm -rf "$work"
	exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

now() { echo $(($(date +%s%N) / 1000000)); } # ms

for part in gather image process session sql controls; do
	# shellcheck source=/dev/null
	source "smoke/docker/$part.sh"
done

nothing_left() {
	local kind list
	for kind in container volume network image; do
		list=$(ours $kind) || fail "$kind: docker does not answer" || return
		[ -z "$list" ] || fail "$kind: $(head -n 3 <<<"$list" | paste -sd ' ')" || return
	done
}

# Calls of check: TARGET, what is claimed, the function and its arguments. A number in brackets is an assertion of the
# packaging study, container-NNN a case of the collected reports.
plan_image() {
	check hard "runs as the numeric user 10001:10001 (1, container-001)" image_user
	check hard "entry point in exec form, command serve, stop signal SIGTERM (2)" image_command
	check hard "labels name, version, licence (3)" image_labels
	check hard "no environment, volumes, ports or triggers; for linux" image_nothing_else
	check hard "only the paths on the list (4)" image_paths
	check hard "no setuid, setgid, device or file that all may write (5)" image_modes
	check hard "no shell, package manager or library (6)" image_no_shell
	check hard "the program is a static, position-independent ELF for this architecture, 0555, 0:0 (7, container-004)" \
		image_program
	check hard "smaller than $max_image_bytes bytes (8)" image_size
	if [ -n "$built" ] || [ -n "$recording" ]; then
		check hard "built twice, in two folders: the same ID, which the daemon has, too (40, container-016)" \
			same_id "$first_id" "$second_id"
	else
		left_out "built twice, in two folders: the same ID (40, container-016)" "the image was given"
	fi
}

kill_calls=(execve ptrace mount unshare bpf io_uring_setup)

plan_live() {
	check hard "the label is the version that the program prints (3)" label_is_version
	check hard "host: every thread has uid and gid 10001, no other group (9)" host_user
	check hard "host: every thread has empty capability sets, the bounding set included (10)" \
		host_capabilities Inh Prm Eff Bnd Amb
	check hard "host: every thread has NoNewPrivs (11, container-005)" host_no_new_privs
	check hard "host: every thread has one filter more than the runtime's (12, container-005)" host_filters
	check hard "the daemon logs the same: uid, capabilities, privileges, filters, a read-only root (9-12, 15)" \
		live_posture '"bounding":"0000000000000000"' '"read_only":true'
	check hard "the daemon logs Landlock in force, nothing opted out, level full (13)" live_landlock
	check hard "host: process 1 is the daemon, and alone (14)" host_process_one
	check hard "nothing can be written, /dev/shm and /dev/mqueue included (15)" live_writes
	check hard "host: the root is read-only, by trying as root (15)" host_root_read_only
	check hard "host: /tmp is noexec, nosuid, nodev, by trying as root (15)" host_tmp
	check hard "docker diff is empty after a session (15)" live_diff
	check hard "every probe is denied: files, sockets, bind, listen, connect, signals, memory (16-19, container-007)" \
		probes_all
	check hard "each of ${kill_calls[*]} ends the process with 159 (16, 19)" probe_kill "${kill_calls[@]}"
	if [ -n "$recording" ] || [ "$architecture" = '"amd64"' ]; then
		check hard "so do system calls of i386 and x32 (container-010)" probe_kill i386 x32
	else
		left_out "so do system calls of i386 and x32 (container-010)" "only x86_64 has them"
	fi

	check bare "no flags: every thread has uid 10001 (20)" host_user
	check bare "no flags: every thread has no capability in use (20)" host_capabilities Inh Prm Eff Amb
	check bare "no flags: every thread has NoNewPrivs (20)" host_no_new_privs
	check bare "no flags: every thread has our filter (20)" host_filters
	check bare "no flags: the daemon logs the same (20)" live_posture
	check bare "no flags: Landlock is in force (20)" live_landlock
	check bare "no flags: nothing can be written (20)" live_writes
	check bare "no flags: docker diff is empty after a session (20)" live_diff
	check bare "no flags: every probe is denied (20)" probes_all
	check bare "no flags: execve and mount end the process (20)" probe_kill execve mount
	check bare "no flags: the posture says which outer layer is missing (20)" posture_tells '"read_only":false'
	check unconfined "seccomp=unconfined: every thread has our filter (12, 20, container-009)" host_filters
	check unconfined "seccomp=unconfined: every probe is denied (20)" probes_all

	check root "uid 0 does not start: exit 3, empty stdout, one line" refused_start 3 'runs with uid 0'
	check no-landlock "a profile that denies Landlock stops the start: exit 3, empty stdout, one line (container-006)" \
		refused_start 3 landlock
	check no-landlock-call "so does a kernel that lacks it (ENOSYS) (container-006)" refused_start 3 'landlock'
	check no-seccomp "so does a profile that denies seccomp" refused_start 3 'must allow seccomp'
	check wrong-setting "a setting that is wrong stops the start: exit 2, empty stdout (21)" refused_start 2 MCP_SECCOMP
	check close-name "so does a setting that is misspelt (21)" refused_start 2 MCP_LANDLOCK
	check best-effort "MCP_LANDLOCK=if-available without Landlock serves and warns (container-006)" degraded_start
	check profile "images/seccomp.json as the outer profile: level full (container-009)" live_landlock
	check profile "images/seccomp.json as the outer profile: every probe is denied (container-009)" probes_all
	check profile "images/seccomp.json as the outer profile: 20 calls at once" live_parallel
	if [ -n "$recording" ] || "$docker" info -f '{{json .Runtimes}}' 2>/dev/null | grep -q '"runsc"'; then
		check runsc "gVisor: starts, or refuses in one line (container-009)" starts_or_says
	else
		left_out "gVisor: starts, or refuses in one line (container-009)" "this daemon has no runtime runsc"
	fi

	check hard "initialize, tools/list, ping and a read through docker run -i (22)" talk_handshake
	check hard "an older revision is spoken (22)" talk_versions 2025-06-18 2025-06-18
	check hard "an unknown revision is answered with ours (22)" talk_versions 2999-01-01 2025-11-25
	check hard "every tool is annotated read-only and its schemas are closed (23)" talk_schemas
	check hard "stdout has JSON-RPC only, stderr JSON only, one object a line (24, container-004)" talk_streams
	check hard "traversal, links out, /proc/self/environ, FIFO, folder: refused; the file is read (25)" talk_denied
	check hard "metrics are in range, with the limits of the container (26)" talk_metrics
	check hard "a line of more than 1 MiB is refused and the session goes on (29)" talk_long_line
	check hard "20 calls of 1 MiB at once: each has its answer (30)" live_parallel
	check hard "all lines at once: the last has its answer, exit 0 (31)" talk_end
	check hard "end of input: exit 0 in less than 2 s (31)" quick end_of_input 2000
	check hard "docker stop: exit 0 in less than 1 s (32)" live_stop
	check hard "SIGTERM to process 1: exit 0 in less than 1 s (32, container-017)" quick end_by_signal TERM 1000
	check hard "SIGINT to process 1: exit 0 in less than 1 s (container-017)" quick end_by_signal INT 1000
	check slow "SIGTERM: a call in flight has its answer first (32)" quick end_drains TERM
	check slow "a second SIGTERM cuts it short (33)" quick end_is_cut_short TERM TERM
	check hard "the client is killed: its container goes, too (container-002)" client_killed
	check hard "docker run -it says what is wrong" terminal_notice -t
	check memory-64 "--memory 64m: 100 calls of 1 MiB at once, some of 12 MiB on the wire: all answered, no OOM kill (34)" \
		many_calls 100 BUSY
	check pids-16 "--pids-limit 16: 20 calls of 1 MiB at once: all served (35)" many_calls 20
}

# A database: what the tool does, and that what holds without one holds with it.
plan_sql() {
	check hard "no DSN: read_only_sql is not offered (27)" sql_offered 'not there'
	sql_check sql "a DSN in a file that is mounted read-only: read_only_sql is offered (27)" sql_offered there
	sql_check sql "a join is answered, through a socket's folder without a network (27)" sql_rows
	sql_check sql "postgres://schema lists the tables (27)" sql_schema
	sql_check sql "the password is not in docker inspect, docker logs, stderr or an answer (27)" sql_secret
	sql_check sql-wrong "a password that is rejected: an answer that says so, and nothing of the DSN (27)" sql_rejected
	sql_check sql-no-file "a DSN file that is not there stops the start: exit 2 (27)" refused_start 2 MCP_SQL_DSN_FILE
	sql_check sql "writes, two statements, pg_sleep, pg_read_file, COPY: refused, and the table is as before (28)" sql_refused
	sql_check sql "1000 rows are cut at 50 and say so; 50 rows are not (28)" sql_capped
	sql_check sql "a cancelled query ends on the server within 3 s, and the session goes on" sql_cancelled
	sql_check sql "database: the posture has the profile, one folder for sockets, no TCP" sql_posture
	sql_check sql "database: every thread has NoNewPrivs" host_no_new_privs
	sql_check sql "database: every thread has empty capability sets" host_capabilities Inh Prm Eff Bnd Amb
	sql_check sql "database: every thread has one filter more than the runtime's" host_filters
	sql_check sql "database: every probe is denied, but for a unix socket and connect" probes_all 'socket AF_UNIX, stream' connect
	sql_check sql "database: execve and mount end the process with 159" probe_kill execve mount
	sql_check sql-profile "database, images/seccomp.json as the outer profile: a join is answered" sql_rows
	sql_check sql-profile "database, images/seccomp.json as the outer profile: 20 queries at once" sql_many
	sql_check sql-small "database, --memory 64m --pids-limit 16: 20 queries at once, all served, exit 0" sql_many
}

plan_end() {
	check hard "no container, volume, network or image of this script is left (39)" nothing_left
}

# run_check TARGET FUNCTION ARGUMENTS: in a subshell; prints the reason. Exit status 0, 1 or 77 (skip).
run_check() (
	set +e
	trap - EXIT
	target "$1"
	shift
	"$@"
)

check() {
	local of=$1 text=$2 reason status=0 function=$3
	[ "$function" != quick ] || function=$4
	if [ -n "$recording" ]; then
		claimed[$function]=1
		return
	fi
	reason=$(run_check "$of" "${@:3}" 2>&1) || status=$?
	reason=$(tr -cd '\n -~' <<<"$reason" | paste -sd ' ' | cut -c 1-500)
	case $status in
	0) point ok "$text" ;;
	77)
		left_out "$text" "$reason"
		;;
	*)
		point 'not ok' "$text"
		printf '#   %s\n' "${reason:-no reason given; status $status}"
		;;
	esac
}

# image_of_script FOLDER, TAG: builds and loads the image from the sources in FOLDER; sets id.
image_of_script() {
	id=''
	DOCKER=$docker "$1/scripts/image.sh" --out "$work/image" --tag "$2" --load >"$work/image.out" 2>&1 || {
		sed 's/^/    /' "$work/image.out" >&2
		return 1
	}
	id=$(sed -n 's/^loaded //p' "$work/image.out")
	rm -r "$work/image"
}

label_of() { sed -n "s/.*\"org.opencontainers.image.$1\":\"\([^\"]*\)\".*/\1/p" <<<"$2"; }

# The second one is made from a copy elsewhere, which has no git: it is told version and revision.
build_twice() {
	local labels copy=$work/copy
	say "building the image"
	image_of_script . "$reference" || return
	first_id=$id
	[ -z "$self_test" ] || return 0 # the controls need one image only
	labels=$("$docker" image inspect -f '{{json .Config.Labels}}' "$reference")
	mkdir "$copy"
	tar -c --exclude ./.git --exclude ./bin . | tar -x -C "$copy"
	VERSION=$(label_of version "$labels") REVISION=$(label_of revision "$labels") \
		image_of_script "$copy" "$run_id:again" || return
	second_id=$id
	"$docker" rmi "$run_id:again" >/dev/null
	rm -rf "$copy"
}

begin=$SECONDS
timeout 20 "$docker" version >/dev/null 2>&1 ||
	bail_out "the docker daemon does not answer (scripts/ci-dockerd.sh starts one)"
built='' recording='' first_id='' second_id=''
if [ -z "$reference" ]; then
	built=1 reference=mcp-server-suite:local
	build_twice || bail_out "scripts/image.sh does not build the image"
fi
architecture=$("$docker" image inspect -f '{{json .Architecture}}' "$reference" 2>/dev/null) ||
	bail_out "there is no image $reference here; pull or load it first (nothing is pulled)"

declare -A claimed=() controlled=()
echo "TAP version 13"
versions='docker {{.Client.Version}}, daemon {{.Server.Version}} on {{.Server.KernelVersion}}'
echo "# $("$docker" version -f "$versions"), image $reference"
if [ -n "$self_test" ]; then
	recording=1
	plan_image
	plan_live
	plan_sql
	plan_end
	prepare
	prepare_postgres
	prepare_controls
	say "trying the controls"
	controls
	for function in "${!claimed[@]}"; do
		[ -n "${controlled[$function]:-}" ] || point 'not ok' "$function has a control"
	done
	point "$([ ${#claimed[@]} -gt 30 ] && echo ok || echo not ok)" \
		"every function of the plan (${#claimed[@]}) has a control"
	remove_ours
else
	plan_image
	if [ -z "$offline" ]; then
		prepare
		prepare_postgres
		say "starting containers"
		plan_live
		plan_sql
	fi
	remove_ours
	plan_end
fi
echo "1..$number"
say "$number points, $failed not ok, $skipped skipped, $((SECONDS - begin)) s"
[ $failed -eq 0 ] && [ $number -gt 0 ]
