package main

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// source is what a file says about itself.
type source struct {
	excuses []excuse
	counted bool // not of a program, not generated, and in what is shipped
	bodies  bool // has a function with statements
}

// excuse is one comment that says why its block is not reached.
type excuse struct {
	at       place
	reason   string
	byChance bool
}

// The fixed form of an excuse. The comment is the whole of a line, or the end of one.
const (
	excuseMark = "// coverage:"
	chanceMark = "by chance:"
)

// look reads one file of the module.
func (l law) look(path string) (source, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, fmt.Errorf("read source: %w", err)
	}
	s := source{counted: parsed.Name.Name != "main" && !ast.IsGenerated(parsed)}
	for _, group := range parsed.Comments {
		for _, comment := range group.List {
			if constraint.IsGoBuild(comment.Text) && comment.Pos() < parsed.Package {
				holds, err := constraint.Parse(comment.Text)
				if err != nil {
					return source{}, fmt.Errorf("read build constraint of %s: %w", path, err)
				}
				s.counted = s.counted && holds.Eval(func(tag string) bool {
					return slices.Contains(l.shipped, tag) || strings.HasPrefix(tag, "go1.")
				})
			}
			text, is := strings.CutPrefix(comment.Text, excuseMark)
			if !is {
				continue
			}
			at := files.Position(comment.Pos())
			reason, byChance := strings.CutPrefix(strings.TrimSpace(text), chanceMark)
			s.excuses = append(s.excuses, excuse{place{at.Line, at.Column}, strings.TrimSpace(reason), byChance})
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncDecl); ok && f.Body != nil && len(f.Body.List) > 0 {
			s.bodies = true
		}
		return !s.bodies
	})
	return s, nil
}

// sources reads every file of the module that is not a test, by its path from the root. Other modules within it, test
// data, and folders that begin with a dot are left out, as the go command does it, and so is what this machine's
// architecture and system leave out by the name of the file.
func (l law) sources(root string) (map[string]source, error) {
	all := map[string]source{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if path != root && (name[0] == '.' || name[0] == '_' || name == "testdata" || err == nil) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || !l.named(name) {
			return nil
		}
		file, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		s, err := l.look(path)
		s.counted = s.counted && !slices.Contains(l.support, filepath.ToSlash(filepath.Dir(file)))
		all[filepath.ToSlash(file)] = s
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read sources: %w", err)
	}
	return all, nil
}

// named says whether a file's name is one of what is shipped from here: only the other architecture has its own names.
func (l law) named(name string) bool {
	for _, other := range []string{"amd64", "arm64"} {
		if strings.HasSuffix(name, "_"+other+".go") && !slices.Contains(l.shipped, other) {
			return false
		}
	}
	return true
}
