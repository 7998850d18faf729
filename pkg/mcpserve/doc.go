// Package mcpserve serves one MCP session over a pair of streams. It joins the wire (framing, envelope, session) to the
// two halves behind it: the conversation (initialize, versions, ping, lists) is answered by the official go-sdk, calls of
// tools and reads of resources go to the pipeline. It is the SDK's only seat.
//
// The SDK sees only messages that have passed our checks, and only the fields that it needs, rebuilt: its own parsers
// never meet the client's bytes. It does not see ids either, but a counter. What it answers is put into ASCII and stripped
// of members that the negotiated revisions do not have.
//
// Messages of the conversation are answered one at a time and in order. Calls and reads run concurrently, each in
// goroutines that end with the session, and are answered as they finish.
//
// Needs: two streams. An attacker controls what comes in and how fast the answers are taken.
package mcpserve
