// Package pgstage is where tests meet PostgreSQL as it is: real servers of their own, with standbys, a PgBouncer in
// front and connections that stall or break when a test says so.
//
// It starts, fills, stops and breaks servers; it does not know what the daemon makes of them. It is test support like
// stage, is imported by tests only, and is never linked by the daemon.
//
// Needs: the programs of PostgreSQL ([Bin]) and, for [Server.Bouncer], PgBouncer; scripts/postgres.sh installs both.
// What is missing makes a test skip and say so, or fail when MCP_REQUIRE_POSTGRES=1 is set. Needs cp and sh, and 30
// MB for each server: below TMPDIR when it is set, otherwise in /dev/shm when 2 GiB are free there, otherwise in
// /tmp. Other users must be able to pass through it, and its path must be short (that of a socket has 107 bytes,
// unix(7)).
//
// Run by root, servers and bouncers become user and group stage.UserID, the one that the daemon becomes, which needs no
// entry in /etc/passwd: only initdb insists on one (it asks getpwuid for a name, even when it is told the name of the
// superuser), so that initdb alone runs as nobody, and its cluster is handed over before anything else reads it.
//
// Nothing stays. A test's servers go with the test. When the test process ends in any other way (SIGKILL, a panic,
// the time limit), the kernel ends the servers (PR_SET_PDEATHSIG, prctl(2)), and a shell that waits for the other end
// of its pipe to close removes the folder. Ports are picked below those that the kernel hands out (32768,
// net.ipv4.ip_local_port_range), so that a server finds its port again when it is started anew.
//
// What an attacker controls: other users of the machine reach the port and the socket while a test runs. Every login
// asks for a password unless a test asks otherwise; that of the superuser is random and never on a command line: a
// superuser without password would be an open account of whoever runs the tests (CVE-2014-0067, the same in
// PostgreSQL's own `make check`).
package pgstage
