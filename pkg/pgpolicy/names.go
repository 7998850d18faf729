package pgpolicy

// Which column a name means, for the estimates of sizes (expansion.go) and of copies (copies.go): columns in their order, with
// the names that the server gives them.

import (
	pg "github.com/pganalyze/pg_query_go/v6"
)

// column is a column of a relation. One whose name is not known ("") may have any; there are many of it at most.
type column struct {
	name string
	many float64
	value
}

// relation is what can be named in FROM, its columns in their order. The whole row of a plain one, a table or a function,
// is a variable; that of another is made of what its columns stand for.
type relation struct {
	name    string
	columns []column
	plain   bool
}

func (r relation) row() value {
	v := row(r.columns)
	if r.plain {
		v = widest(r.columns)
		v.width = perRowMost
	}
	return v
}

// visible is what one place in FROM gives: columns that may stand alone and for *, and relations before a dot.
type visible struct {
	columns   []column
	relations []relation
}

// and is both; neither changes.
func (v visible) and(w visible) visible {
	return visible{
		few(append(v.columns[:len(v.columns):len(v.columns)], w.columns...)),
		append(v.relations[:len(v.relations):len(v.relations)], w.relations...),
	}
}

// names is the names that an expression can see: those of its query, then those of the queries around it.
type names struct {
	visible
	with  *named
	outer *names
}

// union is the columns of a set operation. A condition is copied to both sides, each with its own; so is nothing else.
func union(left, right []column) []column {
	if len(left) != len(right) || open(left) || open(right) {
		// Which belong together is not known.
		worst := widest(right)
		for i := range left {
			left[i].value = larger(left[i].value, worst)
		}
		return left
	}
	for i := range left {
		left[i].value = larger(left[i].value, right[i].value)
	}
	return left
}

func unknownColumns() []column {
	return []column{{many: perRow, value: value{size: 1, nodes: 1, width: perRowMost}}}
}

// open reports whether some of the columns have unknown names, and so unknown places.
func open(columns []column) bool {
	for _, c := range columns {
		if c.name == "" {
			return true
		}
	}
	return false
}

// few is the columns, or one that stands for all where they are more than the server lets pass: SELECT *, * doubles them
// with each level.
func few(columns []column) []column {
	if len(columns) <= perRowMost {
		return columns
	}
	return one(columns)
}

func one(columns []column) []column {
	all := column{value: widest(columns)}
	for _, c := range columns {
		all.many = min(all.many+c.many, enough)
	}
	return []column{all}
}

// widest is the largest of the columns.
func widest(columns []column) (v value) {
	for _, c := range columns {
		v = larger(v, c.value)
	}
	return v
}

// row is all columns in one.
func row(columns []column) value {
	v := value{nodes: 1}
	for _, c := range columns {
		v.size += c.size * c.many
		v.nodes = min(v.nodes+c.nodes*c.many, enough)
		if v.width++; c.many > 1 {
			v.width = perRowMost
		}
	}
	v.width = min(v.width, perRowMost)
	return v
}

// rename gives names by position. From the first column on that may be several, each name may be any of them.
func rename(columns []column, aliases []*pg.Node) []column {
	columns = append([]column(nil), columns...)
	for i, node := range aliases {
		switch name := node.GetString_().GetSval(); {
		case i >= len(columns):
			return columns
		case columns[i].many == 1:
			columns[i].name = name
		default:
			rest, worst := columns[i:], widest(columns[i:])
			columns = columns[:i:i]
			for _, node := range aliases[i:] {
				columns = append(columns, column{node.GetString_().GetSval(), 1, worst})
			}
			return append(columns, rest...)
		}
	}
	return columns
}

func aliasOf(node *pg.Node) *pg.Alias {
	if x := node.GetRangeFunction(); x != nil {
		if alias := x.GetAlias(); alias != nil {
			return alias
		}
		if items := x.GetFunctions(); len(items) == 1 && len(items[0].GetList().GetItems()) > 0 {
			name, _, _ := figure(items[0].GetList().Items[0])
			return &pg.Alias{Aliasname: name}
		}
	}
	return node.GetJsonTable().GetAlias()
}

// find gives the largest column that has the name or may have it, and whether there is one of the former, or the latter.
func find(columns []column, name string) (v value, found, maybe bool) {
	for _, c := range columns {
		if c.name == name || c.name == "" {
			v = larger(v, c.value)
			found = found || c.name != ""
			maybe = maybe || c.name == ""
		}
	}
	return v, found, maybe
}

// column is what a name can mean, at most.
func (e *expander) column(fields []*pg.Node, here *names) value {
	v := value{size: 1, nodes: 1}
	switch len(fields) {
	case 1:
		name := fields[0].GetString_().GetSval()
		for level := here; level != nil; level = level.outer {
			got, found, maybe := find(level.columns, name)
			if found || maybe {
				v = larger(v, got)
			}
			if found {
				return v
			}
		}
		_, whole := here.relation(name)
		return larger(v, whole)
	case 2:
		columns, whole := here.relation(fields[0].GetString_().GetSval())
		if fields[1].GetAStar() != nil {
			return larger(v, whole)
		}
		name := fields[1].GetString_().GetSval()
		got, found, maybe := find(columns, name)
		if v = larger(v, got); !found && (!maybe || e.functions[name] || e.ownNames[name]) {
			v = larger(v, whole) // name(t)
			v.nodes++
		}
		if columns == nil { // the server will say so
			for level := here; level != nil; level = level.outer {
				got, _, _ := find(level.columns, name)
				v = larger(v, got)
			}
		}
	default: // with a schema it is the column of a table, or the table
		v.width = perRowMost
	}
	return v
}

// relation gives the columns of what stands before a dot, and its whole row.
func (n *names) relation(name string) (columns []column, whole value) {
	for ; n != nil && whole.nodes == 0; n = n.outer {
		for _, r := range n.relations {
			if r.name == name {
				columns, whole = append(columns, r.columns...), larger(whole, r.row())
			}
		}
	}
	return columns, whole
}

func isStar(node *pg.Node) bool {
	last := node.GetColumnRef().GetFields()
	if x := node.GetAIndirection(); x != nil {
		last = x.GetIndirection()
	}
	return len(last) > 0 && last[len(last)-1].GetAStar() != nil
}

// expand evaluates an element of a list in which a star is all columns.
func (e *expander) expand(node *pg.Node, here *names) (columns []column) {
	if !isStar(node) {
		v := e.add(node, here)
		return []column{{"?column?", 1, v}}
	}
	if x := node.GetAIndirection(); x != nil { // as many copies as the row has columns
		if len(x.GetIndirection()) == 1 {
			node = x.GetArg()
		}
		nodes, _ := e.aside(func() { columns = []column{{"", 1, e.node(node, here)}} })
		columns[0].many = max(1, columns[0].width)
		columns[0].nodes, columns[0].width = nodes+1, perRowMost
	} else {
		fields := node.GetColumnRef().GetFields()
		switch len(fields) {
		case 1:
			columns = here.columns
		case 2:
			columns, _ = here.relation(fields[0].GetString_().GetSval())
		default:
			columns = unknownColumns()
		}
	}
	e.weigh(row(columns).nodes)
	return append([]column(nil), columns...)
}

// columnName is the name that the server gives to a column (FigureColname); "" is one that we do not know.
func columnName(t *pg.ResTarget) string {
	if t.GetName() != "" {
		return t.GetName()
	}
	name, _, known := figure(t.GetVal())
	if known && name == "" {
		return "?column?"
	}
	return name
}

// figure is FigureColnameInternal: a name, and whether something outside may be stronger. What the versions of the server
// name differently (EXTRACT, JSON) is not known.
func figure(node *pg.Node) (name string, weak, known bool) {
	var fields []*pg.Node
	switch x := node.GetNode().(type) {
	case *pg.Node_ColumnRef:
		fields = x.ColumnRef.GetFields()
	case *pg.Node_AIndirection:
		for i := len(x.AIndirection.GetIndirection()) - 1; i >= 0; i-- {
			if s := x.AIndirection.Indirection[i].GetString_(); s != nil {
				return s.GetSval(), false, true
			}
		}
		return figure(x.AIndirection.GetArg())
	case *pg.Node_FuncCall:
		if fields = x.FuncCall.GetFuncname(); x.FuncCall.GetFuncformat() == pg.CoercionForm_COERCE_SQL_SYNTAX {
			return "", false, false
		}
	case *pg.Node_TypeCast:
		if name, weak, known = figure(x.TypeCast.GetArg()); !known || name != "" && !weak {
			return name, weak, known
		}
		fields, weak = x.TypeCast.GetTypeName().GetNames(), true
	case *pg.Node_CollateClause:
		return figure(x.CollateClause.GetArg())
	case *pg.Node_CaseExpr:
		if name, weak, known = figure(x.CaseExpr.GetDefresult()); !known || name != "" && !weak {
			return name, weak, known
		}
		return "case", true, true
	case *pg.Node_SubLink:
		switch x.SubLink.GetSubLinkType() {
		case pg.SubLinkType_EXISTS_SUBLINK:
			return "exists", false, true
		case pg.SubLinkType_ARRAY_SUBLINK:
			return "array", false, true
		case pg.SubLinkType_EXPR_SUBLINK:
			name = firstName(x.SubLink.GetSubselect().GetSelectStmt())
			return name, false, name != ""
		}
		return "", true, true
	case *pg.Node_AExpr:
		if x.AExpr.GetKind() == pg.A_Expr_Kind_AEXPR_NULLIF {
			return "nullif", false, true
		}
		return "", true, true
	case nil, *pg.Node_AConst, *pg.Node_BoolExpr, *pg.Node_NullTest, *pg.Node_BooleanTest:
		return "", true, true
	case *pg.Node_GroupingFunc:
		return "grouping", false, true
	case *pg.Node_AArrayExpr:
		return "array", false, true
	case *pg.Node_RowExpr:
		return "row", false, true
	case *pg.Node_CoalesceExpr:
		return "coalesce", false, true
	case *pg.Node_MinMaxExpr:
		if x.MinMaxExpr.GetOp() == pg.MinMaxOp_IS_LEAST {
			return "least", false, true
		}
		return "greatest", false, true
	}
	for i := len(fields) - 1; i >= 0; i-- {
		if s := fields[i].GetString_(); s != nil {
			return s.GetSval(), weak, true
		}
	}
	return "", false, false
}

// firstName is the name of a query's first column.
func firstName(s *pg.SelectStmt) string {
	for s.GetLarg() != nil {
		s = s.Larg
	}
	if len(s.GetValuesLists()) > 0 {
		return "column1"
	}
	if len(s.GetTargetList()) == 0 || isStar(s.TargetList[0].GetResTarget().GetVal()) {
		return ""
	}
	return columnName(s.TargetList[0].GetResTarget())
}
