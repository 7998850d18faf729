package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// layDown writes the tree as files below dir, which must not exist, with the owners, modes and times of the layer.
// images/Dockerfile copies the result into its last stage. It needs root, to give files away.
func layDown(tree []entry, dir string, when time.Time) error {
	if err := os.Mkdir(dir, 0o755); err != nil { // #nosec G301 -- the root of the image
		return err
	}
	for _, e := range tree {
		name := filepath.Join(dir, e.path)
		if e.dir() {
			if err := os.Mkdir(name, 0o700); err != nil {
				return err
			}
		} else if err := os.WriteFile(name, e.data, 0o600); err != nil {
			return err
		}
		// The umask would have a say in the modes above; chmod is exact, and comes after chown, which may clear bits.
		if err := os.Chown(name, e.uid, e.gid); err != nil {
			return fmt.Errorf("lay down (as root): %w", err)
		}
		if err := os.Chmod(name, fs.FileMode(e.mode)); err != nil { // #nosec G115 -- nine bits
			return err
		}
	}
	// After all is there: a new file changes the time of its folder.
	for _, e := range tree {
		if err := os.Chtimes(filepath.Join(dir, strings.TrimSuffix(e.path, "/")), when, when); err != nil {
			return err
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil { // #nosec G302 -- the root of the image
		return err
	}
	return os.Chtimes(dir, when, when)
}
