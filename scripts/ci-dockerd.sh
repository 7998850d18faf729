#!/usr/bin/env bash
# ci-dockerd.sh COMMAND...: runs COMMAND with a docker daemon that answers, and ends as COMMAND does.
#
# A daemon that answers already (DOCKER_HOST, or the usual socket) is used and left alone. Else a private one is
# started: its data, its sockets and its log are in a folder of their own, it makes no bridge and no firewall rule, and
# it is stopped by its process id and its folder removed when COMMAND ends. Installs nothing. Needs root and dockerd
# (Debian: docker.io) to start one. DOCKER is the docker CLI. Exits with 2 when no daemon can be had.
set -euo pipefail
[ $# -gt 0 ] || {
	sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
	exit 2
}
docker=${DOCKER:-docker}
fail() {
	printf 'ci-dockerd: %s\n' "$*" >&2
	exit 2
}
command -v "$docker" >/dev/null || fail "$docker is missing; install it (Debian: scripts/apt.sh docker.io)"

# `version` asks the daemon, too. A daemon that hangs is none.
answers() { timeout 10 "$docker" version >/dev/null 2>&1; }
if answers; then exec "$@"; fi

[ -z "${DOCKER_HOST:-}" ] || printf 'ci-dockerd: DOCKER_HOST does not answer; starting a private daemon\n' >&2
PATH=$PATH:/usr/sbin:/sbin # where dockerd and what it calls are, also for a caller whose PATH lacks them
command -v dockerd >/dev/null ||
	fail "no docker daemon answers and dockerd is missing (Debian: scripts/apt.sh docker.io)"
[ "$(id -u)" -eq 0 ] || fail "no docker daemon answers, and only root can start one"

# Not below TMPDIR: the path of a socket has 107 bytes at most, and dockerd's are some 40 below this folder.
folder=$(mktemp -d /tmp/dockerd.XXXXXX)
daemon='' command=''
finish() {
	local status=$? mounted ticks=0 containerd
	trap - EXIT
	# COMMAND first: it may have containers to remove, which needs the daemon.
	if [ -n "$command" ] && kill -TERM "$command" 2>/dev/null; then wait "$command" 2>/dev/null || true; fi
	if [ -n "$daemon" ] && kill -TERM "$daemon" 2>/dev/null; then
		# It stops what still runs, 10 s at most for each, all at once; then the containerd that it started.
		while kill -0 "$daemon" 2>/dev/null && [ "$ticks" -lt 150 ]; do
			sleep 0.2
			ticks=$((ticks + 1))
		done
		if kill -KILL "$daemon" 2>/dev/null; then
			containerd=$(cat "$folder/exec/containerd/containerd.pid" 2>/dev/null) && kill -KILL "$containerd" || true
		fi
		wait "$daemon" 2>/dev/null || true
	fi
	# What a killed daemon leaves mounted (and, always, the network namespace of `--network none`). Deepest first.
	while read -r mounted; do
		umount -l "$mounted" 2>/dev/null || true
	done < <(awk -v under="$folder/" 'index($5, under) == 1 { print $5 }' /proc/self/mountinfo | sort -r)
	rm -rf --one-file-system "$folder" 2>/dev/null || printf 'ci-dockerd: could not remove %s\n' "$folder" >&2
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# No bridge and no iptables: nothing here needs a network, and the host's firewall stays as it is.
# Its own session, so that a Ctrl-C does not take it from under the command that is cleaning up.
setsid dockerd --data-root "$folder/data" --exec-root "$folder/exec" -p "$folder/pid" -H "unix://$folder/s" \
	--iptables=false --bridge=none </dev/null >"$folder/log" 2>&1 &
daemon=$!
export DOCKER_HOST=unix://$folder/s
unset DOCKER_CONTEXT DOCKER_TLS_VERIFY DOCKER_CERT_PATH
begin=$SECONDS
until [ -S "$folder/s" ] && answers; do
	kill -0 "$daemon" 2>/dev/null || {
		tail -n 20 "$folder/log" | sed 's/^/    /' >&2
		daemon=''
		fail "dockerd ended before it answered"
	}
	[ $((SECONDS - begin)) -lt 60 ] || {
		tail -n 20 "$folder/log" | sed 's/^/    /' >&2
		fail "dockerd did not answer within 60 s"
	}
	sleep 0.2
done

status=0
"$@" <&0 &
command=$!
wait "$command" || status=$?
command=''
exit "$status"
