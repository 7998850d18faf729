// Coverage holds coverage profiles against the law of this module: how much of it the tests have to execute, and which
// parts entirely.
//
// A block of statements that no test can reach is excused by a comment inside of it, `// coverage: REASON`. An excused
// block counts in neither direction; an excuse in a block that a test has reached, or without a reason, is an error. An
// excuse that begins with `by chance:` may be reached, or not: it is for what depends on the moment.
//
// It does not run tests, and cannot know whether a test that executes a statement looks at what came of it. Programs
// (package main), generated files, test support and files that only test builds have are not counted.
//
// Needs: the sources and the profiles; run by scripts/coverage-gate.sh. Nothing in it comes from outside of the
// repository.
package main
