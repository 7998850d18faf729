// Package rawclient speaks to an MCP server over the pipes of a program that it starts: whole bytes in, whole lines out,
// nothing corrected on the way. It is what the tests, the demonstration and the benchmark have in place of a client.
//
// It does not know MCP beyond the handshake, keeps no session and never repeats anything. Everything that can wait is
// bounded, see [Client.Within]: against a server that hangs, an error comes back and not a hanging test.
//
// It shares no code with the daemon, so that a fault of ours on one side cannot hide the same fault on the other.
//
// Needs: os/exec, pipes, and /proc of the program for [Client.Figures]. The program controls what it writes; lines,
// unread lines and stderr are bounded.
package rawclient
