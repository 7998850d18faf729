package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// The end of a complete file of counters (internal/coverage, CounterFileFooter): 16 bytes that begin with this.
const (
	footerBytes = 16
	footerMagic = "\x00cwm"
)

// complete removes counters that end in the middle: their process was killed. What it had executed is lost.
func complete(folder string, stdout, stderr io.Writer) int {
	kept, removed, err := sortOut(folder)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "coverage: look through the counters: %v\n", err) // nobody is left to tell
		return 1
	}
	// As above.
	_, _ = fmt.Fprintf(stdout, "%d processes have written what they executed, %d were ended before\n", kept, removed)
	return 0
}

func sortOut(folder string) (kept, removed int, err error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = root.Close() }() // removing is done when it returns
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return 0, 0, err
	}
	for _, e := range entries {
		whole := false
		switch {
		case strings.HasPrefix(e.Name(), "tmp."): // it gets its name when it is written
		case strings.HasPrefix(e.Name(), "covcounters."):
			text, err := root.ReadFile(e.Name())
			if err != nil {
				return 0, 0, err
			}
			whole = len(text) >= footerBytes && bytes.HasPrefix(text[len(text)-footerBytes:], []byte(footerMagic))
		default:
			continue
		}
		if whole {
			kept++
			continue
		}
		removed++
		if err := root.Remove(e.Name()); err != nil {
			return 0, 0, err
		}
	}
	return kept, removed, nil
}
