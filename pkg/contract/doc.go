// Package contract is the type of what a tool takes and gives: one [Schema] is published as JSON Schema, decodes
// arguments strictly, and checks results while it writes them. The three cannot drift apart, because they walk the same
// value.
//
// Strict means (seed 000): no unknown argument, no argument of another type (an integer is written as one, 1.0 is not),
// every bound held, defaults applied. A result that does not fit its schema is a fault of the server and never leaves it.
//
// It does not judge shape and code points (sanitizer did) and knows no tool.
//
// Needs: arguments that strictjson has accepted. An attacker controls the arguments; refusals name declared parameters
// only.
package contract
