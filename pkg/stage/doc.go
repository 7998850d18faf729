// Package stage is where tests meet the daemon as it is shipped: the static binary, built once, started as another user
// who can read what the test has made for it, with nothing in its environment but what the test gives.
//
// Tests that use it hand over their TestMain to [Main], which takes the stage down at the end. It knows how to build and
// start, not how to speak (rawclient), and is imported by tests only.
//
// Needs: the Go tool (unless MCP_STAGE_BINARIES names a folder of daemons that are built already), a temporary folder
// that other users may pass through, and, to become another user, root.
package stage
