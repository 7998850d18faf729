// Package session is the state machine of one MCP session: what may come now, which requests are live, which of them
// were cancelled, and when nothing more is taken.
//
// It decides and does nothing: no I/O, no goroutines, no clock. Who reads asks it with each message; who answers asks it
// for the right to answer. It does not know what JSON looks like: an id is a key, a method a name.
//
// Needs: nothing. An attacker controls order, ids and methods. Memory grows with live requests only, which the caller
// bounds.
package session
