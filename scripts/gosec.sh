#!/usr/bin/env bash
# gosec over the module, plain and with each tag of the test builds. All rules are on. What is excluded stands in the table
# below: files (regular expression), rule, and why the finding is none. A single line is better excluded in place,
# as `// #nosec G115 -- reason`; both the rule and the reason are required there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

table='
pkg/strictjson/read\.go     G115  UTF-8 takes a code point apart: each byte keeps its own six bits, the rest is meant to go
pkg/sandboxfs/charset\.go   G115  256 minus the length of a table of 128 or 256 characters fits a byte; 0 is meant for 256
pkg/hostmetrics/disk\.go    G115  the sign is the question: a filesystem that uses up its reserve reports a negative number
pkg/daemon/stdio\.go        G115  a file descriptor is a small number, whatever type os gives it
pkg/lockdown/enter\.go      G204  the program is our own file, by way of /proc/self/exe; the arguments are those it was started with
pkg/lockdown/raw\.go        G103  system calls without a wrapper; the only file of the package with unsafe
pkg/lockdown/cover\.go      G304  a test build writes where GOCOVERDIR says
pkg/lockdown/cover\.go      G306  the report is for another user
pkg/daemon/sql\.go          G115  the setting is between 1 and 32
pkg/daemon/confine\.go      G115  the setting is between 1 and 256
pkg/(rawclient|stage)/      G204  proof starts the daemon under test; the daemon links neither (pkg/floors_test.go)
pkg/(rawclient|latency|demo)/  G304  proof reads the files it was asked to read or has made itself
pkg/stage/                  G122  the sources of this very module, opened only so that the test cache knows them
pkg/stage/                  G304  as above
pkg/pgstage/                G115  ports and descriptors
pkg/pgstage/                G204  the servers that tests talk to
pkg/pgstage/                G302  sockets and certificates that another user must reach
pkg/pgstage/                G304  files of a cluster that it made itself
pkg/pgstage/                G404  which free port is tried first is no secret
pkg/pgstage/                G702  a test says where the servers are that it wants
pkg/(demo|latency)/         G703  a copy of the DSN in a folder that was just made
scripts/mkimage/            G703  who builds says which files are read and written
pkg/stage/                  G703  a test says where the daemon is that it wants tested
pkg/(stage|latency|demo)/   G301  the tree is made for the daemon, which runs as another user and must be able to read it
pkg/(stage|latency|demo|rawclient)/  G302  as above
pkg/(stage|latency|demo)/   G306  as above
'

exclude=
while read -r files rule why; do
	[ -n "$files" ] || continue
	[ -n "$why" ] || {
		echo "gosec.sh: the exclusion of $rule in $files gives no reason" >&2
		exit 2
	}
	exclude+="${exclude:+;}$files:$rule"
done <<<"$table"

# Functions in assembly have no body; gosec takes that for a syntax error and fails. They are in folders of their own.
assembly='-exclude-dir=pkg/int80 -exclude-dir=smoke/kernels/guest'

for tags in '' wiretest lockdownhole lockdownkill; do
	# shellcheck disable=SC2086 # one word for each folder
	bin/tools/gosec -quiet -color=false -exclude-generated -nosec-require-rules -nosec-require-justification \
		$assembly -exclude-rules="$exclude" -tags="$tags" ./...
done
