// Notices writes images/THIRD_PARTY_NOTICES.md: what the daemon links that others wrote, under which licence, with the
// texts that have to go along with a binary.
//
// The Go modules are asked of the go command, for each architecture that is shipped, and their texts are taken from
// the module cache. A module whose licence nobody has read yet (the table in modules.go) is an error. The C libraries
// stand in a table, because nothing in a static program says which they were; their versions are compared with those
// of the machine.
//
// It does not decide whether a licence is acceptable, and it says nothing of tools that only build or test.
//
// Needs: the go command, and the modules in its cache or a network. An attacker who controls the module cache controls
// the text; go.sum guards that.
package main
