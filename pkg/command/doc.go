// Package command is the command line of the daemon: arguments, environment and streams in, exit code out. main passes
// what it has and does nothing itself, so that tests run the same function.
//
// Exit codes: 0 done, 1 a verdict against, 2 configuration or usage, 3 hardening. They are the same for every subcommand.
package command
