package main

// law is what the tests of a module have to reach.
type law struct {
	module  string
	minimum float64 // percent of all statements that are not excused
	// full are the folders and files, from the root of the module, of which every statement has to be reached or
	// excused. A name of which there is no statement is an error.
	full []string
	// support are folders of test support: tests by another name, which no program links (a test holds that each imports
	// testing, and pkg/floors_test.go that the daemon has none of them).
	support []string
	// shipped are the build tags of what is shipped: a file that they leave out is a file of test builds.
	shipped []string
}

// ours is the law of this module. In full stand the packages that read what a client sends or decide what it gets, and
// the rules of the lock-down: tables, decisions and proofs, but not the steps of the start, of which most branches are
// a kernel that refuses what it has just allowed.
func ours() law {
	return law{
		module: "mcp-server-suite", minimum: 95,
		full: []string{
			"pkg/strictjson", "pkg/framing", "pkg/envelope", "pkg/session", "pkg/sanitizer", "pkg/admission", "pkg/contract",
			"pkg/sandboxfs",
			"pkg/landlock", "pkg/seccomp",
			"pkg/lockdown/denials.go", "pkg/lockdown/denials_amd64.go", "pkg/lockdown/doors.go", "pkg/lockdown/facts.go",
			"pkg/lockdown/fatal.go", "pkg/lockdown/fatal_amd64.go", "pkg/lockdown/filter.go", "pkg/lockdown/plan.go",
			"pkg/lockdown/privileges.go", "pkg/lockdown/status.go", "pkg/lockdown/threads.go",
		},
		support: []string{"pkg/stage", "pkg/pgstage"},
		shipped: []string{"linux", "amd64", "unix", "cgo", "gc", "netgo", "osusergo"},
	}
}
