#!/usr/bin/env bash
# Boots other kernels and runs the locked daemon and its tests in each; --help tells the rest.
#
# It knows which kernels there are and what each must show, and it reads verdicts. What is checked inside is the
# business of smoke/kernels/guest, process 1 of each machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
GO=${GO:-go}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mcp-server-suite/kernels

usage() {
	cat <<-EOF
		Usage: smoke/smoke-kernels.sh [--all] [--kernel NAME]... [--keep]
		       smoke/smoke-kernels.sh --self-test [--keep]

		What Landlock can take away depends on the kernel. This boots Debian's own kernels in QEMU and runs in each the
		daemon, as it is shipped and as uid 10001: whether it says the truth about this kernel (posture), whether it
		refuses to serve where it should, whether a database behind an address, a socket and a name is reached, whether
		each right is denied that this kernel can take away, and whether its own tests pass there. TAP on stdout, progress on stderr; exit 0 only if every check passed, 1 if one did not, 2 if it
		could not begin. Two machines at a time, about a minute for each.

		  --all          all kernels of the table below; those that are not for every day may be missing from the archive
		                 and are then skipped
		  --kernel NAME  only this one, in each of its boots; can be repeated
		  --self-test    this script against itself: a wrong expectation, a check that fails, a kernel that panics and a
		                 machine that does not end must each be "not ok"
		  --keep         keep the folder with initrd, consoles and outputs, and say where it is

		  kernel  must have    booted   from (Debian)
	EOF
	while read -r name abi set suites _; do
		[ -n "$name" ] || continue
		printf '  %-7s %-12s %-8s %s\n' "$name" "$abi" "$([ "$set" = daily ] && echo always || echo --all)" "$suites"
	done <<<"$kernels"
	cat <<-EOF

		A kernel that has Landlock and is booted always is booted a second time with lsm=capability, that is without it.
		ABI 1, 3, 4, 5 are in no archive that Debian serves.

		Needs: x86_64 Debian, Go, gcc and the libseccomp headers to build with, and qemu-system-x86_64 and cpio
		(scripts/apt.sh qemu-system-x86 cpio). No root and no KVM; about 1 GiB of memory for each machine.
		Kernels come from the mirror in this system's apt sources by way of a private apt folder, and stay in
		  $cache
		Remove that folder to get newer ones.
	EOF
}

# name, what it must have (ABI, or the errno of the version call), set, suites, package.
# Meta packages where the archive has them; else the newest package of that version: the names roll.
kernels='
6.1   2       daily  bookworm,bookworm-security  linux-image-cloud-amd64
6.12  6       daily  bookworm,bookworm-security  linux-image-6.12-cloud-amd64
5.10  ENOSYS  all    bullseye                    linux-image-cloud-amd64
7.0   8       all    trixie-backports            linux-binary-7.0.*-cloud-amd64
7.1   9       all    trixie-backports            linux-binary-7.1.*-cloud-amd64
7.2   10      all    trixie-backports            linux-binary-7.2.*-cloud-amd64
7.3   11      all    trixie-backports            linux-binary-7.3.*-cloud-amd64
'

# The packages whose tests run in the guest; smoke/kernels/guest/suites.go says which tests.
suites=(daemon sandboxfs landlock lockdown)

# A boot with all tests takes 45 to 120 s beside another one, on two cores that have other work to do as well.
# The bound is for one that hangs; 180 s were too few once, on two cores with a load of 11.
boot_seconds=300

self_test= keep= chosen=() set=daily
while [ $# -gt 0 ]; do
	case $1 in
	--all) set=all ;;
	--kernel)
		[ $# -ge 2 ] && grep -q "^${2//./[.]} " <<<"$kernels" || {
			echo "smoke-kernels: --kernel wants one of:$(sed -n 's/ .*//p' <<<"$kernels" | tr '\n' ' ')" >&2
			exit 2
		}
		chosen+=("$2")
		shift
		;;
	--self-test) self_test=1 ;;
	--keep) keep=1 ;;
	-h | --help)
		usage
		exit 0
		;;
	*)
		echo "smoke-kernels: unknown argument; see --help" >&2
		exit 2
		;;
	esac
	shift
done

say() { printf 'smoke-kernels: %s\n' "$*" >&2; }

# TAP
number=0 failed=0
point() { # ok|"not ok", description (with its # comment)
	number=$((number + 1))
	[ "$1" = ok ] || failed=$((failed + 1))
	printf '%s %d - %s\n' "$1" "$number" "$2"
}
bail_out() {
	printf 'Bail out! %s\n' "$*"
	say "$*"
	exit 2
}

if [ "$(uname -sm)" != 'Linux x86_64' ]; then
	echo "1..0 # SKIP needs Linux on x86_64: the kernels and the daemon in them are"
	exit 0
fi
for need in qemu-system-x86_64:qemu-system-x86 cpio:cpio apt-get:apt dpkg-deb:dpkg gzip:gzip "$GO:Go"; do
	command -v "${need%:*}" >/dev/null || bail_out "${need%:*} is missing (Debian: scripts/apt.sh ${need#*:})"
done

work=$(mktemp -d)
machines=() # process ids
finish() {
	local status=$?
	trap - EXIT
	[ ${#machines[@]} -eq 0 ] || kill "${machines[@]}" 2>/dev/null || true # timeout passes it on to QEMU
	wait
	if [ -n "$keep" ]; then say "kept: $work"; else rm -rf "$work"; fi
	exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# open_archive SUITES: sets apt to the options of an apt folder of our own, with these suites (separated by commas) of
# the system's Debian mirror. The system's sources stay as they are; no root is needed.
apt=()
open_archive() {
	local folder=$work/apt-$1 keyring=/usr/share/keyrings/debian-archive-keyring.gpg suite mirror
	apt=(-o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null
		-o Dir::State::lists="$folder/lists" -o Dir::Cache="$folder/cache"
		-o Acquire::Languages=none -o Acquire::Retries=3 -o APT::Sandbox::User=root)
	[ ! -d "$folder" ] || return 0 # opened before, well or badly
	mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
	for suite in ${1//,/ }; do
		# The path of a Debian mirror ends in debian or debian-security: that tells it from the other sources of a system.
		mirror=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' |
			grep -E -e "/debian$([[ $suite != *-security ]] || echo -security)/?\$" | head -n 1) || return 1
		echo "deb [signed-by=$keyring arch=amd64] $mirror $suite main"
	done >"$folder/sources.list"
	apt-get -qq "${apt[@]}" update >"$folder/log" 2>&1 </dev/null || {
		sed 's/^/    /' "$folder/log" >&2
		return 1
	}
}

# fetch NAME SUITES PACKAGE: puts the kernel and its version into the cache unless they are there.
fetch() {
	local name=$1 package=$3 deb folder=$work/kernel-$1 image
	[ ! -f "$cache/$name/vmlinuz" ] || return 0
	say "getting kernel $name"
	open_archive "$2" || return 1
	case $package in
	*'*'*) package=$(apt-cache "${apt[@]}" pkgnames "${package%%\**}" |
		grep -e "${package##*\*}\$" | sort -V | tail -n 1) ;;
	*) package=$(apt-cache "${apt[@]}" depends --no-recommends --no-suggests "$package" |
		sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1) ;;
	esac
	[ -n "$package" ] || return 1
	mkdir -p "$folder"
	(cd "$folder" && apt-get -qq "${apt[@]}" download "$package" >log 2>&1 </dev/null) || {
		sed 's/^/    /' "$folder/log" >&2
		return 1
	}
	deb=$(echo "$folder"/*.deb)
	# Where the kernel is has changed: /boot until 7.1, the folder of the modules since.
	dpkg-deb --fsys-tarfile "$deb" |
		tar -x -C "$folder" --wildcards './boot/vmlinuz-*' './usr/lib/modules/*/vmlinuz' 2>/dev/null || true
	image=$(find "$folder" -type f -name 'vmlinuz*' | head -n 1)
	[ -n "$image" ] || return 1
	dpkg-deb -f "$deb" Package Version >"$folder/version"
	mkdir -p "$cache"
	mkdir "$folder/done"
	mv "$image" "$folder/done/vmlinuz"
	mv "$folder/version" "$folder/done/version"
	mv -T "$folder/done" "$cache/$name" # whole or not at all
	rm -rf "$folder"
}

# The initrd: process 1, the daemons as they are shipped, the test binaries.
build() (
	say "building the guest"
	root=$work/root
	# Test binaries are linked like the daemon (scripts/build.sh): there is no libc in the guest, and some packages link
	# libseccomp. The version is that of pkg/stage, which the tests know. doc.go: one of the links that a test follows
	# leads to the folder of the package.
	mkdir -p "$root"/{bin,etc,dev,proc,sys,tmp,t} &&
		printf '%s\n' root:x:0:0::/:/bin/false mcp:x:10001:10001::/:/bin/false >"$root/etc/passwd" &&
		printf '%s\n' root:x:0: mcp:x:10001: >"$root/etc/group" &&
		CGO_ENABLED=0 "$GO" build -trimpath -buildvcs=false -ldflags '-s -w' -o "$root/init" ./smoke/kernels/guest &&
		VERSION=0.0.0-test scripts/build.sh -o "$root/bin/mcp-server-suite" ./cmd/mcp-server-suite &&
		VERSION=0.0.0-test TAGS=wiretest scripts/build.sh -o "$root/bin/mcp-server-suite-wiretest" ./cmd/mcp-server-suite &&
		for suite in "${suites[@]}"; do
			mkdir "$root/t/$suite" &&
				CGO_ENABLED=1 "$GO" test -c -trimpath -buildvcs=false -buildmode=pie -tags netgo,osusergo \
					-ldflags "-w -linkmode external -extldflags '-static-pie'" -o "$root/t/$suite/$suite.test" "./pkg/$suite" &&
				cp "pkg/$suite/doc.go" "$root/t/$suite/" &&
				{ [ ! -d "pkg/$suite/testdata" ] || cp -r "pkg/$suite/testdata" "$root/t/$suite/"; } || return 1
		done &&
		chmod -R u=rwX,go=rX "$root" &&
		chmod 1777 "$root/tmp" &&
		cd "$root" && find . | LC_ALL=C sort | cpio -o -H newc -R 0:0 --quiet | gzip -1n >"$work/initrd.gz"
)

# boot NAME KERNEL SECONDS WORDS...: becomes the machine; results in $work/NAME.out, console in $work/NAME.console.
# TCG by name, always: KVM that is there and does not work spins or aborts, and QEMU would prefer it. The first serial
# port is the kernel's, the second ours. isa-debug-exit carries the verdict; see the guest for why 0 is none.
# norandmaps: QEMU keeps what it has translated by virtual address, so that programs at random ones are translated at
# each start; without it everything takes twice as long (measured).
boot() {
	local name=$1 kernel=$2 seconds=$3
	shift 3
	exec timeout -k 5 "$seconds" qemu-system-x86_64 -machine pc,accel=tcg -cpu max -smp 2 -m 1G \
		-nodefaults -no-user-config -display none -vga none -no-reboot -monitor none \
		-chardev "file,id=console,path=$work/$name.console" -serial chardev:console \
		-chardev "file,id=results,path=$work/$name.out" -serial chardev:results \
		-device isa-debug-exit,iobase=0xf4,iosize=4 \
		-kernel "$cache/$kernel/vmlinuz" -initrd "$work/initrd.gz" \
		-append "console=ttyS0 quiet panic=-1 norandmaps $*" </dev/null >"$work/$name.qemu" 2>&1
}

# judge NAME STATUS: the TAP of one machine. The last point is the machine itself: it must have ended by its own
# verdict, with as many lines as it says, and the verdict must agree with them.
judge() {
	local name=$1 status=$2 line checks=0 bad=0 end= agreed
	while IFS= read -r line; do
		case $line in
		'ok '*)
			checks=$((checks + 1))
			point ok "$name: ${line#ok }"
			;;
		'not ok '*)
			checks=$((checks + 1)) bad=$((bad + 1))
			point 'not ok' "$name: ${line#not ok }"
			;;
		'end: '*) end=$line ;;
		*) printf '# %s\n' "${line#\# }" ;;
		esac
	done < <(LC_ALL=C tr -cd '\n\t -~' 2>/dev/null <"$work/$name.out")
	agreed=33
	[ $bad -eq 0 ] || agreed=35
	if [ "$status" -eq $agreed ] && [ $checks -gt 0 ] && [ "$end" = "end: $checks checks, $bad failed" ]; then
		point ok "$name: the machine ended with its own verdict # $checks checks, $bad failed; QEMU exit $status"
		return
	fi
	case $status in
	0) line="the kernel stopped without a verdict (a panic ends so, too)" ;;
	124 | 137) line="it was still running when its time was up" ;;
	*) line="its end does not fit what it reported" ;;
	esac
	point 'not ok' "$name: the machine ended with its own verdict # $line; QEMU exit $status, last line: ${end:-none}"
	for line in qemu console; do
		tail -n 40 "$work/$name.$line" 2>/dev/null | LC_ALL=C tr -cd '\n\t -~' | cut -c 1-300 | sed "s/^/#   $line: /" || true
	done
}

# The boots: lines "name|kernel|seconds|words". Two at a time: each fills a core.
boots=() names=()
plan_boot() { boots+=("$1|$2|$3|$4"); }

run_boots() {
	local i spec name kernel seconds words running=() waiting=("${boots[@]}") pid status
	local -A named=()
	while [ ${#waiting[@]} -gt 0 ] || [ ${#running[@]} -gt 0 ]; do
		while [ ${#running[@]} -lt 2 ] && [ ${#waiting[@]} -gt 0 ]; do
			spec=${waiting[0]} waiting=("${waiting[@]:1}")
			IFS='|' read -r name kernel seconds words <<<"$spec"
			say "booting $name"
			# shellcheck disable=SC2086 # one word each
			boot "$name" "$kernel" "$seconds" $words &
			running+=($!) machines=("${running[@]}") named[$!]=$name
		done
		status=0
		wait -n -p pid "${running[@]}" || status=$?
		for i in "${!running[@]}"; do
			[ "${running[i]}" != "$pid" ] || unset "running[i]"
		done
		running=("${running[@]}") machines=("${running[@]}")
		say "${named[$pid]} ended after $SECONDS s in all"
		"$report" "${named[$pid]}" $status
	done
}

# self_judge NAME STATUS: runs judge, keeps its TAP out of ours, and requires what the machine was made to show.
self_judge() {
	local name=$1 verdict ok
	verdict=$(judge "$@")
	case $name in
	sound) ok=$(! grep -q '^not ok' <<<"$verdict" && grep -q '^ok .*its own verdict' <<<"$verdict" && echo ok) || true ;;
	*) ok=$(grep -qE "^not ok .*${wanted[$name]}" <<<"$verdict" && echo ok) || true ;;
	esac
	point "${ok:-not ok}" "self-test $name: ${why[$name]}"
	[ -n "$ok" ] || sed 's/^/#   /' <<<"$verdict"
}

begin=$SECONDS
echo "TAP version 13"
if [ -n "$self_test" ]; then
	read -r name abi _ suites_of package <<<"$(grep ^6 <<<"$kernels" | head -n 1)"
	fetch "$name" "$suites_of" "$package" || bail_out "kernel $name cannot be downloaded"
	build || bail_out "cannot build what the guest needs"
	declare -A wanted why
	why[sound]="the control: the same kernel with the right expectation passes"
	why[wrong-abi]="an expectation that the kernel does not meet is not ok"
	wanted[wrong-abi]="the kernel has Landlock ABI $((abi + 1))"
	why[planted]="a check that fails in the guest is not ok"
	wanted[planted]="a planted check"
	why[no-init]="a kernel that panics is not ok, though QEMU exits with 0"
	wanted[no-init]="stopped without a verdict"
	why[hung]="a machine that does not end in time is not ok"
	wanted[hung]="its time was up"
	plan_boot sound "$name" 60 "kt.quick kt.abi=$abi"
	plan_boot wrong-abi "$name" 60 "kt.quick kt.abi=$((abi + 1))"
	plan_boot planted "$name" 60 "kt.quick kt.fail kt.abi=$abi"
	plan_boot no-init "$name" 60 "rdinit=/missing kt.abi=$abi"
	plan_boot hung "$name" 2 "kt.quick kt.abi=$abi"
	report=self_judge
else
	while read -r name abi group suites_of package; do
		[ -n "$name" ] || continue
		if [ ${#chosen[@]} -gt 0 ]; then
			[[ " ${chosen[*]} " == *" $name "* ]] || continue
		elif [ "$group" != daily ] && [ "$set" != all ]; then
			continue
		fi
		if ! fetch "$name" "$suites_of" "$package"; then
			say "KERNEL $name CANNOT BE DOWNLOADED: nothing is known about it"
			if [ "$group" = daily ]; then
				point 'not ok' "$name: the kernel can be downloaded"
			else
				point ok "$name: the kernel can be downloaded # SKIP cannot be downloaded"
			fi
			continue
		fi
		printf '# %s: %s\n' "$name" "$(sed 's/^[A-Za-z]*: //' "$cache/$name/version" | tr '\n' ' ')"
		case $abi in
		E*) plan_boot "$name (no Landlock)" "$name" $boot_seconds "kt.abi=$abi" ;;
		*) plan_boot "$name (Landlock ABI $abi)" "$name" $boot_seconds "kt.abi=$abi" ;;
		esac
		if [ "$group" = daily ]; then
			plan_boot "$name (lsm= without Landlock)" "$name" $boot_seconds "lsm=capability kt.abi=EOPNOTSUPP"
		fi
	done <<<"$kernels"
	[ ${#boots[@]} -eq 0 ] || build || bail_out "cannot build what the guest needs"
	report=judge
fi
[ ${#boots[@]} -eq 0 ] || run_boots
echo "1..$number"
say "$number points, $failed not ok, $((SECONDS - begin)) s"
[ $failed -eq 0 ] && [ $number -gt 0 ]
