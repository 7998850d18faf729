// Package pipeline is the order in which a call meets the guards: of a tool, or the reading of a resource. The order is
// one list in [New]; each guard is one function in guards.go that decides and then hands on to the next, and what a tool
// and a resource do differently is in target.go.
//
// A call ends in exactly one of four ways, and [Answer] says which: a result, a refusal inside a result (isError), a
// refusal or fault outside of it (a JSON-RPC error; a read knows no other), or silence, because the caller cancelled or
// the session ended.
//
// It knows no domain, no protocol library and no JSON-RPC id. Two seats are kept free: the audit's (a [Recorder], nil
// until there is a sink) and the role's (the sealed surface is what the role may call).
//
// Needs: nothing. An attacker controls the name or URI, the arguments, and when the call is cancelled.
package pipeline
