package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// report is what came of it, and the form of --json.
type report struct {
	OK       bool      `json:"ok"`
	Percent  float64   `json:"percent"`  // of the statements that are not excused
	Minimum  float64   `json:"minimum"`  // percent
	Packages []figures `json:"packages"` // by name
	Rules    []figures `json:"rules"`    // what has to be reached entirely, by name
	Total    figures   `json:"total"`
	Excused  []remark  `json:"excused"` // blocks, by place
	Open     []remark  `json:"open"`    // blocks that have to be reached and are not
	Faults   []string  `json:"faults"`  // why it is not OK
}

// figures count statements.
type figures struct {
	Name       string `json:"name"`
	Statements int    `json:"statements"`
	Reached    int    `json:"reached"`
	Excused    int    `json:"excused"` // of those that are not reached
}

func (f *figures) add(statements int, reached, excused bool) {
	f.Statements += statements
	switch {
	case reached:
		f.Reached += statements
	case excused:
		f.Excused += statements
	}
}

// percent is rounded down to a hundredth, so that 100 means all of them.
func (f figures) percent() float64 {
	counted := f.Statements - f.Excused
	if counted == 0 {
		return 100
	}
	return float64(f.Reached*10000/counted) / 100
}

func (f figures) missing() int { return f.Statements - f.Excused - f.Reached }

// remark is about one block.
type remark struct {
	At         string `json:"at"` // FILE:LINE
	Statements int    `json:"statements"`
	Text       string `json:"text,omitempty"` // the reason of an excuse
}

// judge holds the counts against the law. root is the folder of the module.
func (l law) judge(c counts, root string) (report, error) {
	sources, err := l.sources(root)
	if err != nil {
		return report{}, err
	}
	r := report{Minimum: l.minimum, Total: figures{Name: "all"}, Excused: []remark{}, Open: []remark{}, Faults: []string{}}
	packages, rules := map[string]*figures{}, map[string]*figures{}
	for _, name := range l.full {
		rules[name] = &figures{Name: name}
	}
	blocks := c.byFile()
	for file, s := range sources {
		if !s.counted {
			continue
		}
		of := path.Dir(file)
		if packages[of] == nil {
			packages[of] = &figures{Name: of}
		}
		here := blocks[l.module+"/"+file]
		if len(here) == 0 && s.bodies {
			r.fault("%s is in no profile", file)
		}
		excused := r.excuses(file, s.excuses, here, c)
		for _, b := range here {
			_, has := excused[b]
			packages[of].add(b.statements, c[b], has)
			r.Total.add(b.statements, c[b], has)
			for name, rule := range rules {
				if name != file && name != of {
					continue
				}
				rule.add(b.statements, c[b], has)
				if !c[b] && !has && b.statements > 0 {
					r.Open = append(r.Open, remark{fmt.Sprintf("%s:%d", file, b.begin.line), b.statements, ""})
				}
			}
		}
	}
	r.Packages, r.Rules = inOrder(packages), inOrder(rules)
	for _, rule := range r.Rules {
		switch {
		case rule.Statements == 0:
			r.fault("%s has no statements: correct the law", rule.Name)
		case rule.missing() > 0:
			r.fault("%s: %d of %d statements are not reached", rule.Name, rule.missing(), rule.Statements)
		}
	}
	if r.Percent = r.Total.percent(); r.Percent < l.minimum {
		r.fault("%.2f %% of all statements are reached, %g %% have to be", r.Percent, l.minimum)
	}
	for _, list := range [][]remark{r.Excused, r.Open} {
		slices.SortFunc(list, func(a, b remark) int { return natural(a.At, b.At) })
	}
	slices.Sort(r.Faults)
	r.OK = len(r.Faults) == 0
	return r, nil
}

func (r *report) fault(format string, args ...any) {
	r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
}

// excuses finds the block of each excuse of one file: the smallest that the comment is in. Blocks after the first of a
// function have no room around their statements: there it is the one that ends in the comment's line, or else the first
// that begins in the next.
func (r *report) excuses(file string, all []excuse, blocks []block, c counts) map[block]excuse {
	excused := map[block]excuse{}
	for _, e := range all {
		at := fmt.Sprintf("%s:%d", file, e.at.line)
		var in []block
		for _, b := range blocks {
			if b.begin.compare(e.at) <= 0 && e.at.compare(b.end) < 0 && b.statements > 0 {
				in = append(in, b)
			}
		}
		for _, b := range blocks {
			if len(in) == 0 && b.statements > 0 &&
				(b.end.line == e.at.line && b.end.compare(e.at) <= 0 || b.begin.line == e.at.line+1) {
				in = append(in, b)
			}
		}
		if len(in) == 0 {
			r.fault("%s: the excuse is inside of no block of statements", at)
			continue
		}
		b := slices.MinFunc(in, func(a, b block) int {
			return cmp.Or(cmp.Compare(a.end.line-a.begin.line, b.end.line-b.begin.line), b.begin.compare(a.begin))
		})
		_, twice := excused[b]
		excused[b] = e
		switch {
		case e.reason == "":
			r.fault("%s: the excuse gives no reason", at)
		case twice:
			r.fault("%s: the block has an excuse already", at)
		case c[b] && !e.byChance:
			r.fault("%s: the excuse is none, a test reaches the block", at)
		case !c[b]:
			r.Excused = append(r.Excused, remark{at, b.statements, e.reason})
		}
	}
	return excused
}

func inOrder(all map[string]*figures) []figures {
	list := make([]figures, 0, len(all))
	for _, f := range all {
		list = append(list, *f)
	}
	slices.SortFunc(list, func(a, b figures) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// natural compares FILE:LINE with the line as a number.
func natural(a, b string) int {
	fileA, lineA, _ := strings.Cut(a, ":")
	fileB, lineB, _ := strings.Cut(b, ":")
	return cmp.Or(cmp.Compare(fileA, fileB), cmp.Compare(len(lineA), len(lineB)), cmp.Compare(lineA, lineB))
}

// writeText writes the report for a reader.
func (r report) writeText(to io.Writer) error {
	var b strings.Builder
	row := func(f figures) {
		fmt.Fprintf(&b, "%-30s %6d %6d %7d  %6.2f %%\n", f.Name, f.Statements, f.Reached, f.Excused, f.percent())
	}
	fmt.Fprintf(&b, "%-30s %6s %6s %7s\n", "package", "stmts", "tested", "excused")
	for _, f := range r.Packages {
		if f.Statements > 0 {
			row(f)
		}
	}
	row(r.Total)
	fmt.Fprintf(&b, "\nto be reached entirely\n")
	for _, f := range r.Rules {
		row(f)
	}
	fmt.Fprintf(&b, "\nexcused: %d blocks, %d statements\n", len(r.Excused), r.Total.Excused)
	for _, e := range r.Excused {
		fmt.Fprintf(&b, "  %s (%d) %s\n", e.At, e.Statements, e.Text)
	}
	if len(r.Open) > 0 {
		fmt.Fprintf(&b, "\nnot reached, and has to be\n")
	}
	for _, o := range r.Open {
		fmt.Fprintf(&b, "  %s (%d)\n", o.At, o.Statements)
	}
	fmt.Fprintln(&b)
	for _, fault := range r.Faults {
		fmt.Fprintf(&b, "coverage: %s\n", fault)
	}
	if r.OK {
		fmt.Fprintf(&b, "coverage: ok, %.2f %% of all statements, %g %% have to be\n", r.Percent, r.Minimum)
	}
	_, err := io.WriteString(to, b.String())
	return err
}

// writeJSON writes the report as one line for a program.
func (r report) writeJSON(to io.Writer) error { return json.NewEncoder(to).Encode(r) }
