// Package admission bounds how much is going on at once: calls alive, calls running, bytes of answers.
//
// Three bounds, each with its own type. [Gate] counts the calls that are alive at all, running or waiting, and the bytes
// of their arguments; it never waits. [Slots] lets a fixed number run and the others wait in order of arrival for a
// bounded time. [Budget] reserves the bytes of an answer before the work begins; the reservation is shrunk to what the
// answer really takes and given back when the bytes are written or dropped, so a client that does not read its answers
// is refused new ones instead of filling the memory.
//
// It does not know what a call is, and it never runs one.
//
// Needs: nothing. An attacker controls how many calls come and how fast answers are read.
package admission
