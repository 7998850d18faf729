// Package envelope answers one question: is this line one JSON-RPC 2.0 message, and if not, which rejection answers it?
//
// It knows the envelope of JSON-RPC 2.0 with the limits that MCP sets (ids are strings or integers, params is an object,
// no batches), and the shapes of the params that the wire itself must understand: initialize, tools/call,
// notifications/cancelled and _meta. It does not know whether a message may come now, nor what any tool takes.
//
// An id is kept as the bytes that the client sent and written back as an equal value in ASCII, never through a number
// type: 2^53+1, 2^63 and escapes survive. Texts of rejections are fixed; none repeats the input.
//
// Needs: nothing. An attacker controls the whole line, up to the largest frame.
package envelope
