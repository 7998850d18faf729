// Package int80 enters the kernel the way 32-bit programs do, int $0x80, for the one test of whether that way is shut: its
// numbers mean other calls, and a filter that looked at numbers only would be passed by it.
//
// It is a package of its own because it is assembly. Only amd64 has the instruction.
package int80
