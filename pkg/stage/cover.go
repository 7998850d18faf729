package stage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// CoverVariable names an environment variable of the tests: a folder that every user may write to. Every daemon is
	// then built to count which of its statements are executed, and told to write that there (as files of GOCOVERDIR; see
	// go tool covdata). A daemon that is killed writes nothing. scripts/coverage-gate.sh sets it.
	CoverVariable = "MCP_STAGE_COVER"

	coverTag = "lockdowncover" // pkg/lockdown/cover.go
)

// Coverage is what a program has to have in its environment to write what it has covered: GOCOVERDIR=FOLDER under
// [CoverVariable], else nothing. Daemon gives it. A test gives it to a daemon that it starts in another way, and to
// processes of its own, which could not write to the folder that go test has made for the test.
func Coverage() []string {
	if folder := os.Getenv(CoverVariable); folder != "" {
		return []string{"GOCOVERDIR=" + folder}
	}
	return nil
}

// covering adds the tag of the build that counts, unless it is there.
func covering(tags string) string {
	switch {
	case slices.Contains(strings.Split(tags, ","), coverTag):
		return tags
	case tags == "":
		return coverTag
	}
	return tags + "," + coverTag
}

// A locked daemon cannot open the files of GOCOVERDIR: it writes to a descriptor (pkg/lockdown/cover.go). Go's own code
// complains of that on stderr, where tests look for what the daemon says; partly before any code of ours runs. So the
// daemon for coverage is built with these lines taken out.
const complaintsFile = "src/internal/coverage/cfile/emit.go" // below GOROOT, seen in Go 1.26

func complaints() []string {
	return []string{
		`fmt.Fprintf(os.Stderr, "warning: GOCOVERDIR not set, no coverage data emitted\n")`, // stage 2
		`fmt.Fprintf(os.Stderr, "error: coverage counter data emit failed: %v\n", err)`,     // stage 1, inside its domain
	}
}

// silence writes what `go build -overlay` (go help build) needs for that into a new folder, and returns the value of
// the flag. A Go release that words the line in another way is an error, not a failure of tests far from here.
func silence(folder string) (overlay string, err error) {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return "", fmt.Errorf("make a folder for the overlay: %w", err)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("ask for GOROOT: %w", err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), complaintsFile)
	text, err := os.ReadFile(original)
	if err != nil {
		return "", fmt.Errorf("read the source of Go's coverage: %w", err)
	}
	for _, complaint := range complaints() {
		if bytes.Count(text, []byte(complaint)) != 1 {
			return "", errors.New("the coverage of Go complains in other words: correct pkg/stage/cover.go")
		}
		text = bytes.Replace(text, []byte(complaint), nil, 1)
	}
	quiet, overlay := filepath.Join(folder, "emit.go"), filepath.Join(folder, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: quiet}})
	if err == nil {
		err = os.WriteFile(quiet, text, 0o600)
	}
	if err == nil {
		err = os.WriteFile(overlay, replace, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("write the overlay for coverage: %w", err)
	}
	return overlay, nil
}
