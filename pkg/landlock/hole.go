//go:build lockdownhole

package landlock

import "golang.org/x/sys/unix"

// holeVariable plants a hole, so that tests can show who notices: "landlock:truncate" leaves that right out of every
// new ruleset. Builds without the tag do not contain it.
const holeVariable = "MCP_TEST_HOLE"

func leftOut(r Right) bool {
	value, _ := unix.Getenv(holeVariable)
	return value == "landlock:"+r.Name
}
