package pgpolicy

import (
	"reflect"
	"strconv"
	"unicode/utf8"

	"mcp-server-suite/pkg/problem"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// maxTreeDepth bounds how deep the messages of a tree may nest. Of 12,542 SELECTs of PostgreSQL's regression suite, the
// deepest has 50 levels (p99: 21). Left-deep chains cost two levels an operator, so about 190 terms may be added up or
// concatenated; AND, OR and IN lists are flat.
const maxTreeDepth = 400

func refuse(detail string) *problem.Problem { return problem.New(problem.UnsafeQuery, detail, param) }

func badSQL(detail string) *problem.Problem { return problem.New(problem.BadSQL, detail, param) }

func notAllowed(words string) *problem.Problem {
	return refuse(words + " is not allowed; one plain SELECT is")
}

// walker holds one tree against the rules. With rewrite it also writes names of functions and relations out in full.
type walker struct {
	*rules
	text    string // what the caller wrote; its positions are those of the first tree
	rewrite bool
	sampled *pg.Node              // the relation of the TABLESAMPLE that is being walked
	inFrom  map[*pg.FuncCall]bool // calls that are an element of FROM, or of ROWS FROM
	asText  map[*pg.FuncCall]bool // calls of pg_typeof whose result is cast to text
	server  int                   // the oldest major version that reads what has been walked as it is meant; 0 is any
}

// at says where in the caller's text something stands, in characters from 1 as psql counts: a number tells a caller what to
// change, and repeats nothing. It is "" for what has no place there.
func (w *walker) at(location int32) string {
	if location < 0 || int(location) >= len(w.text) {
		return ""
	}
	return " at character " + strconv.Itoa(utf8.RuneCountInString(w.text[:location])+1)
}

// scope is the names of WITH that a place in the tree can see.
type scope struct {
	name  string
	outer *scope
}

func (s *scope) has(name string) bool {
	for ; s != nil; s = s.outer {
		if s.name == name {
			return true
		}
	}
	return false
}

// walk checks the message v (a pointer) and everything below it.
func (w *walker) walk(v reflect.Value, depth int, names *scope) error {
	sh, err := w.enter(v, depth)
	if err != nil {
		return err
	}
	switch x := v.Interface().(type) {
	case *pg.Node:
		switch held := x.GetNode().(type) {
		case *pg.Node_FuncCall:
			if err := w.typeOf(x, held.FuncCall); err != nil {
				return err
			}
		case nil:
			// An element of a list that is not there: the dimension of int[], a missing element of a
			// DISTINCT without ON. It holds nothing.
			return nil
		case *pg.Node_RangeVar:
			return w.relation(x, held.RangeVar, depth+1, names)
		case *pg.Node_RangeSubselect:
			if w.isColumnFilter(held.RangeSubselect) {
				return nil // what relation writes, down to the last field
			}
		}
	case *pg.RangeVar:
		return notAllowed(internalKind) // only as what a Node holds, see above
	case *pg.SelectStmt:
		if x.WithClause != nil {
			if names, err = w.with(x.WithClause, depth+1, names); err != nil {
				return err
			}
			return w.below(v, sh, depth, names, x.WithClause)
		}
	case *pg.FuncCall:
		if err := w.funcCall(x); err != nil {
			return err
		}
	case *pg.RangeFunction:
		w.fromCalls(x)
	case *pg.TypeCast:
		if w.rewrite {
			spellOut(x)
		}
		if call := x.GetArg().GetFuncCall(); call != nil && isText(x.GetTypeName()) {
			w.asText = mark(w.asText, call)
		}
	case *pg.TypeName:
		if err := w.typeName(x); err != nil {
			return err
		}
	case *pg.RangeTableSample:
		method, _ := nameOf(x.Method)
		if len(method) == 2 && method[0] == catalog {
			method = method[1:]
		}
		if len(method) != 1 || method[0] != "bernoulli" && method[0] != "system" {
			return refuse("TABLESAMPLE is allowed with bernoulli and system alone")
		}
		w.sampled = x.Relation
	default:
		if p := w.plain(x); p != nil {
			return p
		}
	}
	return w.below(v, sh, depth, names, nil)
}

// spellOut writes 't'::bool as 'true'::bool and 'f' likewise. The C writer takes them for what older grammars made of TRUE
// and FALSE and writes the keywords, whose trees are others.
func spellOut(cast *pg.TypeCast) {
	name, ok := nameOf(cast.GetTypeName().GetNames())
	text, isText := cast.GetArg().GetAConst().GetVal().(*pg.A_Const_Sval)
	if !ok || !isText || name[len(name)-1] != "bool" {
		return
	}
	switch text.Sval.GetSval() {
	case "t":
		text.Sval.Sval = "true"
	case "f":
		text.Sval.Sval = "false"
	}
}

func mark(set map[*pg.FuncCall]bool, call *pg.FuncCall) map[*pg.FuncCall]bool {
	if set == nil {
		set = map[*pg.FuncCall]bool{}
	}
	set[call] = true
	return set
}

// fromCalls notes the functions that FROM calls.
func (w *walker) fromCalls(x *pg.RangeFunction) {
	for _, item := range x.Functions {
		if items := item.GetList().GetItems(); len(items) > 0 {
			if call := items[0].GetFuncCall(); call != nil {
				w.inFrom = mark(w.inFrom, call)
			}
		}
	}
}

func isText(t *pg.TypeName) bool {
	name, ok := nameOf(t.GetNames())
	return ok && name[len(name)-1] == "text" && len(t.ArrayBounds) == 0 && (len(name) == 1 || len(name) == 2 && name[0] == catalog)
}

// typeOf writes pg_typeof(x) as pg_typeof(x)::text. Its result is a regtype, and what is put beside it (CASE, COALESCE, UNION)
// becomes one, too: numbers would turn into the names of everybody's tables.
func (w *walker) typeOf(node *pg.Node, call *pg.FuncCall) error {
	name, ok := nameOf(call.Funcname)
	if !ok || name[len(name)-1] != "pg_typeof" || w.asText[call] {
		return nil
	}
	if !w.rewrite || w.inFrom[call] {
		return refuse("pg_typeof is allowed where its result is text")
	}
	node.Node = &pg.Node_TypeCast{TypeCast: &pg.TypeCast{
		Arg:      &pg.Node{Node: &pg.Node_FuncCall{FuncCall: call}},
		TypeName: &pg.TypeName{Names: []*pg.Node{pg.MakeStrNode("text")}, Typemod: -1},
	}}
	w.asText = mark(w.asText, call)
	return nil
}

// enter checks what holds for each message: its kind, its depth, and that it has no field that we do not know.
func (w *walker) enter(v reflect.Value, depth int) (*shape, error) {
	if depth > maxTreeDepth {
		return nil, badSQL("the query is nested too deeply")
	}
	if v.IsNil() {
		return nil, notAllowed(internalKind)
	}
	sh := w.shapes[v.Type().Elem()]
	if sh == nil || hasUnknown(v) {
		return nil, notAllowed("something that this server does not know")
	}
	if sh.refused != "" {
		if sh.name == "ParamRef" {
			return nil, refuse("bind parameters are not allowed here; write the values into the query")
		}
		return nil, notAllowed(sh.refused)
	}
	w.server = max(w.server, laterKinds[sh.name])
	return sh, nil
}

// below walks the messages that v holds, but for done.
func (w *walker) below(v reflect.Value, sh *shape, depth int, names *scope, done *pg.WithClause) error {
	if !sh.isBranch {
		return nil
	}
	v = v.Elem()
	for i := range sh.fields {
		f := &sh.fields[i]
		if f.kind == scalar {
			continue
		}
		x := v.Field(f.index)
		if x.IsNil() {
			continue
		}
		switch f.kind {
		case message:
			if done != nil && x.Pointer() == reflect.ValueOf(done).Pointer() {
				continue
			}
			if err := w.walk(x, depth+1, names); err != nil {
				return err
			}
		case messages:
			for j := range x.Len() {
				if err := w.walk(x.Index(j), depth+1, names); err != nil {
					return err
				}
			}
		case choice:
			if err := w.walk(x.Elem().Elem().Field(0), depth+1, names); err != nil {
				return err
			}
		}
	}
	return nil
}

// with walks a WITH clause and gives the names that its statement sees. A query in it sees those that stand before it;
// under RECURSIVE all of them, itself included (transformWithClause sorts forward references out).
func (w *walker) with(clause *pg.WithClause, depth int, names *scope) (*scope, error) {
	if _, err := w.enter(reflect.ValueOf(clause), depth); err != nil {
		return nil, err
	}
	if clause.Recursive {
		if w.noRecursive {
			return nil, refuse("WITH RECURSIVE is switched off on this server")
		}
		for _, node := range clause.Ctes {
			names = &scope{node.GetCommonTableExpr().GetCtename(), names}
		}
	}
	for _, node := range clause.Ctes {
		if node.GetCommonTableExpr() == nil {
			return nil, notAllowed(internalKind)
		}
		if err := w.walk(reflect.ValueOf(node), depth+1, names); err != nil {
			return nil, err
		}
		if !clause.Recursive {
			names = &scope{node.GetCommonTableExpr().GetCtename(), names}
		}
	}
	return names, nil
}

// plain holds the rules about fields of the kinds that need nothing but themselves.
func (w *walker) plain(m any) *problem.Problem {
	switch x := m.(type) {
	case *pg.A_Expr:
		return operator(x.Name)
	case *pg.SubLink:
		return operator(x.OperName)
	case *pg.SortBy:
		return operator(x.UseOp)
	case *pg.CollateClause:
		if !plainOrCatalog(x.Collname) {
			return refuse("a collation is named alone or in pg_catalog")
		}
	case *pg.ColumnRef:
		if len(x.Fields) > 1 {
			if s, ok := x.Fields[len(x.Fields)-1].GetNode().(*pg.Node_String_); ok {
				return w.columnNotation(s.String_.GetSval())
			}
		}
	case *pg.A_Indirection:
		for _, step := range x.Indirection {
			if s, ok := step.GetNode().(*pg.Node_String_); ok {
				if s.String_.GetSval() == "xml" { // many a table has a column xml, and t.xml is no A_Indirection
					return refuse("the field xml of an expression is not allowed: on a text it would be a function")
				}
				if p := w.columnNotation(s.String_.GetSval()); p != nil {
					return p
				}
			}
		}
	case *pg.XmlExpr:
		if x.Op == pg.XmlExprOp_IS_XMLPARSE {
			return notAllowed("XMLPARSE (its work cannot be interrupted)")
		}
	case *pg.ResTarget:
		if len(x.Indirection) > 0 {
			return notAllowed("an assignment")
		}
	case *pg.ColumnDef:
		if x.Compression != "" || x.Storage != "" || x.StorageName != "" || x.RawDefault != nil || x.CookedDefault != nil ||
			x.Identity != "" || x.IdentitySequence != nil || x.Generated != "" || len(x.Constraints) > 0 ||
			len(x.Fdwoptions) > 0 {
			return refuse("a column list of a function holds names and types alone")
		}
	}
	return nil
}

func operator(name []*pg.Node) *problem.Problem {
	if len(name) > 0 && !plainOrCatalog(name) {
		return refuse("an operator is named alone or in pg_catalog")
	}
	return nil
}

func plainOrCatalog(nodes []*pg.Node) bool {
	name, ok := nameOf(nodes)
	return ok && (len(name) == 1 || len(name) == 2 && name[0] == catalog)
}
