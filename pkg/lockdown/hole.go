//go:build lockdownhole

package lockdown

import (
	"os"
	"strconv"
	"strings"
)

// This file is in no program that is shipped. It plants holes, so that tests can see them found.

// leftOut says whether a step of the lock-down is to be skipped: MCP_TEST_HOLE=lockdown:STEP.
func leftOut(step string) bool { return os.Getenv("MCP_TEST_HOLE") == "lockdown:"+step }

// forTests says whether a variable steers a test build.
func forTests(name string) bool { return strings.HasPrefix(name, "MCP_TEST_") }

// fresh is how many new threads try each door: MCP_TEST_THREADS.
func fresh() int {
	if n, err := strconv.Atoi(os.Getenv("MCP_TEST_THREADS")); err == nil {
		return n
	}
	return freshThreads
}

// masked makes the kernel's Landlock look as old as MCP_TEST_ABI says.
func masked(abi int) int {
	if n, err := strconv.Atoi(os.Getenv("MCP_TEST_ABI")); err == nil {
		return min(abi, n)
	}
	return abi
}

// crash ends the process in one of the ways that programs end by mistake: MCP_TEST_CRASH. It is called when the process is
// sealed, and so the place for attempts as well.
func crash() {
	attempts()
	switch os.Getenv("MCP_TEST_CRASH") {
	case "panic":
		panic("planted")
	case "nil":
		var nowhere *int
		*nowhere = 1
	case "stack":
		var deeper func(int) int
		deeper = func(n int) int { return deeper(n+1) + 1 }
		deeper(0)
	case "map":
		shared := map[int]int{}
		for range 8 {
			go func() {
				for i := 0; ; i++ {
					shared[i] = i
				}
			}()
		}
		select {}
	}
}
