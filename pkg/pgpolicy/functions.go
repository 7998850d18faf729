package pgpolicy

import (
	_ "embed"
	"strings"
	"unicode/utf8"

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
	case (len(name) == 1 || len(name) == 2 && name[0] == catalog) && w.functions[last] && !setsAreShort(last, call.Args):
		return refuse("translate and the trim functions take sets of at most 100 characters that are written as literals " +
			"(other work of theirs cannot be interrupted)")
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

// sets are the functions that look for each character of their first argument in a set, without ever asking whether to
// stop, by the number of the argument where sets begin. translate of 60,000 characters by 60,000 kept a backend for 15 s that
// nothing ended (measured on 15.18), and it grows with the product.
var sets = map[string]int{"translate": 1, "btrim": 1, "ltrim": 1, "rtrim": 1}

const maxSetChars = 100

func setsAreShort(function string, args []*pg.Node) bool {
	from, has := sets[function]
	if !has {
		return true
	}
	for _, arg := range args[min(from, len(args)):] {
		if n, ok := literalChars(arg); !ok || n > maxSetChars {
			return false
		}
	}
	return true
}

// literalChars is how long a text is that is made of literals: 'a', 'a'::text, chr(10), 'a' || chr(10).
func literalChars(node *pg.Node) (n int, ok bool) {
	switch x := node.GetNode().(type) {
	case *pg.Node_AConst:
		return utf8.RuneCountInString(x.AConst.GetSval().GetSval()), true
	case *pg.Node_TypeCast:
		return literalChars(x.TypeCast.GetArg())
	case *pg.Node_FuncCall:
		name, _ := nameOf(x.FuncCall.GetFuncname())
		if len(name) > 0 && name[len(name)-1] == "chr" && len(x.FuncCall.GetArgs()) == 1 {
			_, ok = literalChars(x.FuncCall.Args[0])
			return 1, ok
		}
	case *pg.Node_AExpr:
		if name, _ := nameOf(x.AExpr.GetName()); len(name) == 1 && name[0] == "||" {
			left, one := literalChars(x.AExpr.GetLexpr())
			right, other := literalChars(x.AExpr.GetRexpr())
			return left + right, one && other
		}
	}
	return 0, false
}

// columnNotation refuses x.f and (x).f where f could be a function instead of a column. If x has no column f, the
// server calls f(x), also for an x that is no row: (10.0).pg_sleep sleeps, and so does g.pg_sleep if g is what a
// function in FROM returned (measured on 15.18). No tree shows the difference. So the names of functions that do more
// than compute are refused there, by a list (notation.txt) and by the prefixes that PostgreSQL gives to new ones.
func (w *walker) columnNotation(name string) *problem.Problem {
	name = strings.TrimLeft(name, "_") // _regclass is regclass[]
	// A send function takes its type, and text becomes reg* by itself: (x).regclasssend looks x up among the tables.
	bad := w.notation[name] || strings.HasPrefix(name, "reg") && strings.HasSuffix(name, "send")
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
