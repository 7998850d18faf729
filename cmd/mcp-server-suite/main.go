// Command mcp-server-suite is the daemon. See its --help, or package command.
package main

import (
	"os"

	"mcp-server-suite/pkg/command"
)

// version is set by the linker in a release build.
var version = "dev"

func main() {
	os.Exit(command.Main(command.Process{
		Args: os.Args[1:], Environ: command.Environ(), Version: version,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	}))
}
