// Package framing cuts a byte stream into bounded lines and puts whole lines back.
//
// One line is one frame (seed 000, wire specification; MCP stdio transport). A line longer than [MaxFrameBytes] is
// dropped while it streams and reported once; reading then goes on at the next newline. It does not look into a line.
//
// Needs: an io.Reader and an io.Writer. An attacker controls every byte and the pace of both ends: how slowly the
// input comes and whether the output is read at all. The reader holds at most one frame and one chunk; the writer holds
// what was handed to it, and lets senders of small unreserved frames wait once MaxBacklogBytes of them are due.
package framing
