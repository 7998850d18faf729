package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// place is a position in a file; both begin at 1.
type place struct{ line, column int }

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.line, q.line), cmp.Compare(p.column, q.column))
}

// block is a run of statements that are executed together.
type block struct {
	file       string // import path of the package, and the file's name
	begin, end place
	statements int
}

// counts says of every block whether it was executed in any of the profiles.
type counts map[block]bool

// read adds a profile as `go test -coverprofile` and `go tool covdata textfmt` write it:
//
//	mode: atomic
//	FILE:LINE.COLUMN,LINE.COLUMN STATEMENTS COUNT
func (c counts) read(from io.Reader) error {
	lines := bufio.NewScanner(from)
	for n := 1; lines.Scan(); n++ {
		text := lines.Text()
		if strings.HasPrefix(text, "mode: ") {
			continue
		}
		var b block
		var times uint64
		file, rest, _ := strings.Cut(text, ":")
		b.file = file
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d",
			&b.begin.line, &b.begin.column, &b.end.line, &b.end.column, &b.statements, &times); err != nil {
			return fmt.Errorf("read line %d of the profile: %w", n, err)
		}
		c[b] = c[b] || times > 0
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read profile: %w", err)
	}
	return nil
}

func (c counts) readFile(path string) error {
	f, err := os.Open(path) // #nosec G304 G703 -- who runs the gate says which profiles are read
	if err != nil {
		return fmt.Errorf("open profile: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	return c.read(f)
}

// byFile returns the blocks of each file, in order.
func (c counts) byFile() map[string][]block {
	files := map[string][]block{}
	for b := range c {
		files[b.file] = append(files[b.file], b)
	}
	for _, blocks := range files {
		slices.SortFunc(blocks, func(a, b block) int { return cmp.Or(a.begin.compare(b.begin), a.end.compare(b.end)) })
	}
	return files
}
