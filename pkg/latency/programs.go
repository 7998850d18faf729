package latency

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// The programs that take turns, by their names in the report. Those behind daemon are the same binary with other settings.
const (
	bare       = "bare"
	daemon     = "daemon"
	unlocked   = "unlocked daemon" // without Landlock and without the system-call filter; stage 1, re-exec and limits stay
	locked     = "locked daemon"   // as it starts by itself
	filterOnly = "seccomp only"    // without Landlock; the filter then refuses openat2, and files are opened by a walk
	querying   = "querying daemon" // locked, with a database and everything else as it is by default
	wide       = "wide daemon"     // the same with queryWindow connections to the database
)

// environment is all that the daemon gets under one of the names above.
func (f *files) environment(program string) []string {
	environ := []string{"MCP_SAFE_DATA_DIR=" + f.tree}
	switch program {
	case unlocked:
		environ = append(environ, "MCP_LANDLOCK=off", "MCP_SECCOMP=off")
	case filterOnly:
		environ = append(environ, "MCP_LANDLOCK=off")
	case querying:
		environ = append(environ, "MCP_SQL_DSN_FILE="+f.dsn)
	case wide:
		environ = append(environ, "MCP_SQL_DSN_FILE="+f.dsn, fmt.Sprint("MCP_SQL_POOL_MAX_SIZE=", queryWindow))
	}
	return environ
}

// layer is one layer of the lock-down in the posture that the daemon logs when it starts.
type layer struct{ Enforced bool }

// proveLocks starts each of the programs once and holds the posture that it logs against its name, so that no figure
// compares a program with itself.
func proveLocks(f *files, programs ...string) error {
	for _, program := range programs {
		c, _, _, err := begin(f, program)
		if err != nil {
			return err
		}
		end(c) // it has no more to say, and all of that is here
		landlock, seccomp, err := posture(c.Stderr())
		if err != nil {
			return fmt.Errorf("%s: %w", program, err)
		}
		if landlock != (program == locked || program == querying) || seccomp != (program != unlocked) {
			return fmt.Errorf("%s: it is none; it says Landlock %t and seccomp %t", program, landlock, seccomp)
		}
	}
	return nil
}

// posture finds the daemon's line about its own locks in its log.
func posture(log string) (landlock, seccomp bool, err error) {
	for line := range strings.Lines(log) {
		var entry struct {
			Posture *struct{ Landlock, Seccomp layer }
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Posture != nil { // other lines may be anything
			return entry.Posture.Landlock.Enforced, entry.Posture.Seccomp.Enforced, nil
		}
	}
	return false, false, errors.New("it logs no posture: does it not lock itself down?")
}
