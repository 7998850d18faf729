// Package problem is the closed list of refusals: what a caller may be told when the answer is no.
//
// A refusal is an answer, not a fault. It carries one of the [Reason] values below, a detail made of server-side facts
// only, and the names of the parameters to change. It becomes one RFC 9457 document at one place, [Problem.Append].
// The code, type, title and status of the document follow from the reason, so a code can never be sent with another
// meaning (seed 000, error model).
//
// What the caller sent is kept apart in the subject and appears in the document only when the operator has asked for
// it (MCP_ERROR_ECHO=bounded): a model reads error text as instructions.
//
// Needs: nothing. An attacker controls the subject.
package problem
