#!/usr/bin/env bash
# Part of smoke/smoke-docker.sh, which reads it: checks of the image that start nothing.
# shellcheck disable=SC2154 # the variables of smoke-docker.sh

image_user() {
	once image gather_image
	[ "$(configured Config.User)" = '"10001:10001"' ] || fail "User is $(configured Config.User)"
}

image_command() {
	once image gather_image
	[ "$(configured Config.Entrypoint)" = '["/mcp-server-suite"]' ] ||
		fail "Entrypoint is $(configured Config.Entrypoint)" || return
	[ "$(configured Config.Cmd)" = '["serve"]' ] || fail "Cmd is $(configured Config.Cmd)" || return
	[ "$(configured Config.StopSignal)" = '"SIGTERM"' ] || fail "StopSignal is $(configured Config.StopSignal)"
}

image_labels() {
	local key
	once image gather_image
	for key in title description version licenses; do
		grep -q "\"org.opencontainers.image.$key\":\"[^\"]" < <(configured Config.Labels) ||
			fail "label org.opencontainers.image.$key is missing or empty" || return
	done
}

# Nothing in the configuration that a scratch image of one program needs, and nothing secret: what an environment holds
# everybody with the image can read.
image_nothing_else() {
	local field value
	once image gather_image
	[[ $(configured Config.Env) =~ ^(null|\[((\"PATH=[^\"]*\"|\"MCP_SAFE_DATA_DIR=/safe_data_dir\"),?)*\])$ ]] ||
		fail "Env is $(configured Config.Env)" || return
	for field in Volumes ExposedPorts Healthcheck OnBuild; do
		value=$(configured Config.$field)
		[[ $value =~ ^(null|\{\}|\[\])$ ]] || fail "$field is $value" || return
	done
	[ "$(configured Os)" = '"linux"' ] || fail "Os is $(configured Os)"
}

# Docker adds these to every container that it creates.
dockers_own='\.dockerenv|dev/|dev/console|dev/pts/|dev/shm/|proc/|sys/'
dockers_own+='|etc/|etc/hostname|etc/hosts|etc/mtab|etc/resolv\.conf'
allowed_paths='mcp-server-suite|etc/passwd|etc/group|etc/nsswitch\.conf'
allowed_paths+='|etc/ssl/|etc/ssl/certs/|etc/ssl/certs/ca-certificates\.crt'
allowed_paths+='|run/|run/mcp/|run/secrets/|safe_data_dir/|tmp/'
allowed_paths+='|usr/|usr/share/|usr/share/doc/|usr/share/doc/mcp-server-suite/'
allowed_paths+='|usr/share/doc/mcp-server-suite/(LICENSE|THIRD_PARTY_NOTICES\.md)'
needed_paths='mcp-server-suite etc/passwd etc/group safe_data_dir/ tmp/ run/mcp/ usr/share/doc/mcp-server-suite/LICENSE'

# listed: the paths of the image. tar -tv: mode, owner, size, date, time, path (with -> for links).
listed() { awk '{ path = $6; sub(/^\.\//, "", path); if (path != "") print path }' "$at/files"; }

image_paths() {
	local extra path
	once image gather_image
	[ -s "$at/files" ] || fail "nothing can be listed: $(head -c 200 "$at/err")" || return
	extra=$(listed | grep -vxE "$dockers_own|$allowed_paths" | head -n 5 | paste -sd ' ') || true
	[ -z "$extra" ] || fail "not on the list: $extra" || return
	for path in $needed_paths; do
		listed | grep -qxF "$path" || fail "missing: $path" || return
	done
}

# World-writable is fine only where the sticky bit keeps files apart (/tmp); docker's own etc/mtab is a link.
image_modes() {
	local bad
	once image gather_image
	[ -s "$at/files" ] || fail "nothing can be listed: $(head -c 200 "$at/err")" || return
	bad=$(awk '$1 ~ /^[bc]/ && $6 !~ /^dev\// { print "device " $6 }
		$1 ~ /^...[sS]/ || $1 ~ /^......[sS]/ { print "setuid or setgid " $6 }
		$1 ~ /^[^l].......w./ && $1 !~ /^d........[tT]/ { print "writable for all " $6 }' "$at/files" |
		head -n 5 | paste -sd ,)
	[ -z "$bad" ] || fail "$bad"
}

programs='sh|ash|bash|dash|zsh|ksh|busybox|toybox|env|perl|python[0-9.]*|apt|apt-get|apk|dpkg|rpm|yum|dnf'
image_no_shell() {
	local bad
	once image gather_image
	[ -s "$at/files" ] || fail "nothing can be listed: $(head -c 200 "$at/err")" || return
	bad=$(listed | grep -E "(^|/)($programs)\$|\.so(\.[0-9.]*)?\$|(^|/)ld-[^/]*\$" | head -n 5 | paste -sd ' ') || true
	[ -z "$bad" ] || fail "a program or library that does not belong here: $bad"
}

# number FILE OFFSET TYPE: one number of a binary file (od; little-endian, as both our architectures are).
binary_number() { od -An -v -j "$2" -N "${3#u}" -t "$3" "$1" | tr -d ' '; }

image_program() {
	local line machine offset count i
	once image gather_image
	line=$(grep ' mcp-server-suite$' "$at/files") || fail "there is no /mcp-server-suite" || return
	[[ $line =~ ^-r-xr-xr-x\ +0/0\  ]] || fail "mode or owner is not r-xr-xr-x 0/0: ${line%% 20*}" || return
	[ "$(head -c 4 "$at/program" | od -An -c | tr -d ' ')" = '177ELF' ] || fail "is no ELF file" || return
	case $(configured Architecture) in
	'"amd64"') machine=62 ;;
	'"arm64"') machine=183 ;;
	*) fail "Architecture is $(configured Architecture)" || return ;;
	esac
	[ "$(binary_number "$at/program" 18 u2)" = $machine ] ||
		fail "is for another machine than $(configured Architecture)" || return
	[ "$(binary_number "$at/program" 16 u2)" = 3 ] || fail "is not position-independent" || return
	offset=$(binary_number "$at/program" 32 u8)
	count=$(binary_number "$at/program" 56 u2)
	for ((i = 0; i < count; i++)); do
		[ "$(binary_number "$at/program" $((offset + i * 56)) u4)" != 3 ] ||
			fail "has an interpreter: it is not static" || return
	done
}

image_size() {
	local size
	once image gather_image
	# Not what the daemon says: with containerd's store that counts each layer twice, packed and unpacked.
	size=$(awk '{ sum += $3 } END { printf "%d", sum }' "$at/files")
	[ "$size" -gt 1000000 ] && [ "$size" -lt "$max_image_bytes" ] ||
		fail "$size bytes; the bound is $max_image_bytes"
}

# same_id FIRST SECOND: two IDs that scripts/image.sh has made sure of with this daemon.
same_id() {
	[[ ${1:-} =~ ^sha256:[0-9a-f]{64}$ ]] || fail "scripts/image.sh printed no ID" || return
	[ "$1" = "${2:-}" ] || fail "first $1, then ${2:-nothing}" || return
	once image gather_image
	[ "$(configured Id)" = "\"$1\"" ] || fail "scripts/image.sh says $1, the daemon $(configured Id)"
}
