//go:build lockdownhole

package seccomp

import (
	"os"
	"strings"
)

// plantedHole reads MCP_TEST_HOLE: "seccomp:ROW" leaves the row out of the filter, "seccomp-args:ROW" its conditions.
// Only in builds that test whether the holes are found.
func plantedHole() hole {
	kind, row, _ := strings.Cut(os.Getenv("MCP_TEST_HOLE"), ":")
	switch kind {
	case "seccomp":
		return hole{row: row}
	case "seccomp-args":
		return hole{argsOf: row}
	}
	return hole{}
}
