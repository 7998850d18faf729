// Package demo drives the daemon through one MCP session over real stdin and stdout and shows what was asked and what came
// back. Every step states a claim, shows the evidence and checks it, so the demonstration is a smoke test too: it stops
// at the first claim that does not hold.
//
// It makes a small folder of its own invention to serve, and reads nothing else but /proc/meminfo, to compare with what
// the daemon reports. It shows the daemon's answers only after removing what a terminal could obey.
//
// With a DSN it shows a database as well, one with the sample of compose/postgres/init. It makes no connection of its own: what
// the server is doing it reads in the titles of the server's processes in /proc. The DSN's file is copied to where only the
// daemon's user can read it, and nothing of it is shown.
//
// Needs: the built daemon, a temporary folder, /proc. The daemon under test controls its output; rawclient bounds it and
// the time it may take.
package demo
