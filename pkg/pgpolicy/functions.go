package pgpolicy

import (
	_ "embed"
	"strings"

	"mcp-server-suite/pkg/problem"

	pg "github.com/pganalyze/pg_query_go/v6"
)

//go:embed functions.txt
var functionsText string

//go:embed notation.txt
var notationText string

// words gives the words of a list, without its comments.
func words(text string) map[string]bool {
	set := map[string]bool{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for word := range strings.FieldsSeq(line) {
			set[word] = true
		}
	}
	return set
}

const catalog = "pg_catalog"

func (w *walker) funcCall(call *pg.FuncCall) error {
	name, ok := nameOf(call.Funcname)
	if !ok || len(name) > 2 {
		return refuse("a function is named by at most a schema and a name")
	}
	last := name[len(name)-1]
	switch {
	case len(name) == 1 && w.functions[last]:
		if last == "unnest" && len(call.Args) > 1 {
			// The analyzer takes several arguments for unnest apart only in FROM, only under the plain name, and only in
			// its plainest form. There no function of that name in another schema is looked for; elsewhere it would be.
			if !w.inFrom[call] || call.FuncVariadic || call.AggFilter != nil || call.Over != nil || call.AggDistinct ||
				call.AggStar || call.AggWithinGroup || len(call.AggOrder) > 0 {
				return refuse("unnest of several arrays is allowed in FROM alone")
			}
			return nil
		}
		if w.rewrite {
			call.Funcname = []*pg.Node{pg.MakeStrNode(catalog), call.Funcname[0]}
		}
		return nil
	case len(name) == 2 && name[0] == catalog && w.functions[last]:
		return nil
	case len(name) == 2 && w.ownFunctions[qualified{name[0], last}]:
		return nil
	case len(name) == 1 && w.ownNames[last]:
		return refuse("the function"+w.at(call.Location)+" must be written with its schema").
			About(last+"()", "function %s must be written with its schema")
	}
	return refuse("functions are refused unless listed, and the one"+w.at(call.Location)+" is not").
		About(strings.Join(name, ".")+"()", "function %s is not allowed")
}

// columnNotation refuses x.f and (x).f where f could be a function instead of a column. If x has no column f, the
// server calls f(x), also for an x that is no row: (10.0).pg_sleep sleeps, and so does g.pg_sleep if g is what a
// function in FROM returned (measured on 15.18). No tree shows the difference. So the names of functions that do more
// than compute are refused there, by a list (notation.txt) and by the prefixes that PostgreSQL gives to new ones.
func (w *walker) columnNotation(name string) *problem.Problem {
	name = strings.TrimLeft(name, "_") // _regclass is regclass[]
	bad := w.notation[name]
	for _, prefix := range notationPrefixes {
		bad = bad || strings.HasPrefix(name, prefix)
	}
	if !bad {
		return nil
	}
	return refuse("a column that is written after a dot has the name of a function that is not allowed").
		About(name, "%s after a dot would call a function that is not allowed")
}

// notationPrefixes are few: people have columns lo_revenue, has_children and to_region.
var notationPrefixes = []string{"pg_", "binary_upgrade_", "dblink", "crosstab"}

// nameOf gives the parts of a name; false if one is no string.
func nameOf(nodes []*pg.Node) ([]string, bool) {
	name := make([]string, len(nodes))
	for i, n := range nodes {
		s, ok := n.GetNode().(*pg.Node_String_)
		if !ok {
			return nil, false
		}
		name[i] = s.String_.GetSval()
	}
	return name, len(name) > 0
}
