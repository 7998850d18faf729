package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// C code that a module has taken from others states its licence where it stands, in a comment at the head of its file.
// The licence files beside it do not repeat that: pg_query_go has PostgreSQL's parser with parts of the BSDs in it,
// protobuf-c, xxHash, and what Bison writes into every parser.
var (
	comment   = regexp.MustCompile(`(?s)/\*.*?\*/`)
	copyright = regexp.MustCompile(`(?i)copyright \(c\)`)
	terms     = regexp.MustCompile(`(?i)redistribut|permission (to|is)|special exception`)
	margin    = regexp.MustCompile(`(?m)^[ \t]*\*[ \t]?`)
)

// embeddedLicences returns the licences in the comments of all C files below a folder, each text once, in the order of
// the files. holders matches the copyright holders whose terms are in the module's own licence files: a comment that
// names another one and no terms is an error, because then nobody can say what holds.
func embeddedLicences(folder string, holders *regexp.Regexp) (texts []string, err error) {
	walk := func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !slices.Contains([]string{".c", ".h"}, filepath.Ext(path)) {
			return err
		}
		source, err := os.ReadFile(path) // #nosec G304 G122 -- the go command says where modules are
		if err != nil {
			return err
		}
		for _, block := range comment.FindAllString(string(source), -1) {
			switch {
			case terms.MatchString(block) && (copyright.MatchString(block) || strings.Contains(block, "special exception")):
				if text := plain(block); !slices.Contains(texts, text) {
					texts = append(texts, text)
				}
			case copyright.MatchString(block) && !holders.MatchString(block):
				return fmt.Errorf("%s: a copyright without terms: %.100q", filepath.Base(path), block)
			}
		}
		return nil
	}
	if err := filepath.WalkDir(folder, walk); err != nil {
		return nil, fmt.Errorf("read the licences in C files: %w", err)
	}
	if len(texts) == 0 {
		return nil, errors.New("read the licences in C files: there is none")
	}
	return texts, nil
}

// plain is a comment without its marks.
func plain(block string) string {
	block = strings.TrimSuffix(strings.TrimPrefix(block, "/*"), "*/")
	block = margin.ReplaceAllString(strings.TrimPrefix(block, "-"), "")
	return strings.TrimSpace(tidy(strings.ReplaceAll(block, "\t", "    ")))
}
