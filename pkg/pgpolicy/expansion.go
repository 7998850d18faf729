package pgpolicy

import (
	"math"
	"reflect"
	"strconv"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// maxExpansion bounds what the expressions of one query, evaluated once each, may come to, in bytes, as far as
// constants tell. The planner computes constant expressions, and statement_timeout looks between its steps only:
// repeat(repeat(repeat(chr(120),1000),1000),1000) took 2.0 to 2.7 s and 521 MB at a 2 s timeout (measured on 15.18).
const maxExpansion = 1 << 20

// maxCopies bounds how many nodes the expressions of one query come to when each column of a subquery is replaced by what
// it stands for. The planner does so, with all copies in memory, and no time limit or cancel reaches it meanwhile: twenty
// WITH queries of greatest(x, x) over each other, 890 characters, took 1.9 GiB, and two more than 4 GiB (measured on 15.18).
const maxCopies = 100_000

// value is what is known of an expression: at most how long its text is, taking a column for one character, and, if it
// is made of constants, at most how large its number is; and of how many nodes it is made, see maxCopies.
type value struct {
	size   float64
	number float64
	known  bool
	nodes  float64
}

type output struct {
	name string
	value
}

// sizes are the values of columns by name, and the columns of WITH queries by theirs. A name in two relations has the
// larger value.
type sizes struct {
	columns map[string]value
	with    map[string]source
}

// source is what a WITH query gives, and of how many nodes it is made.
type source struct {
	columns []output
	nodes   float64
}

// expander estimates. It errs to the small side wherever data decides: it is there for texts that are a few characters
// and a gigabyte, and statement_timeout for the rest.
type expander struct {
	shapes shapes
	total  float64 // of the expressions that are results or conditions
	peak   float64 // the largest of all, length(repeat('x', 1000000000)) included
	nodes  float64 // so far
}

// checkExpansion refuses a query whose constants grow beyond maxExpansion.
func (r *rules) checkExpansion(query *pg.SelectStmt) error {
	e := expander{shapes: r.shapes}
	e.query(query, sizes{})
	if e.total > maxExpansion || e.peak > maxExpansion {
		return refuse("constant expressions (repeat, lpad, array_fill and the like) would grow beyond 1 MiB")
	}
	if e.nodes > maxCopies {
		return refuse("subqueries that use each other's columns several times would grow beyond 100,000 nodes; use fewer levels")
	}
	return nil
}

// query adds up the expressions of a SELECT, and gives its columns.
func (e *expander) query(s *pg.SelectStmt, outer sizes) []output {
	env := sizes{map[string]value{}, map[string]source{}}
	for name, v := range outer.columns {
		env.columns[name] = v
	}
	for name, columns := range outer.with {
		env.with[name] = columns
	}
	for _, node := range s.GetWithClause().GetCtes() {
		cte := node.GetCommonTableExpr()
		delete(env.with, cte.GetCtename()) // a recursive one does not know itself yet
		before := e.nodes
		columns := e.query(cte.GetCtequery().GetSelectStmt(), env)
		env.with[cte.GetCtename()] = source{rename(columns, cte.GetAliascolnames()), e.nodes - before}
	}
	if s.GetLarg() != nil && s.GetRarg() != nil {
		left, right := e.query(s.Larg, env), e.query(s.Rarg, env)
		for i := range min(len(left), len(right)) {
			left[i].value = larger(left[i].value, right[i].value)
		}
		return left
	}
	for _, node := range s.GetFromClause() {
		e.from(node, env)
	}
	var columns []output
	star := false
	for _, node := range s.GetTargetList() {
		t := node.GetResTarget()
		v := e.add(t.GetVal(), env)
		columns = append(columns, output{columnName(t), v})
		fields := t.GetVal().GetColumnRef().GetFields()
		star = star || len(fields) > 0 && fields[len(fields)-1].GetAStar() != nil
	}
	if star {
		for name, v := range env.columns { // whichever of them it means
			columns = append(columns, output{name, v})
		}
	}
	for _, row := range s.GetValuesLists() {
		for i, node := range row.GetList().GetItems() {
			v := e.add(node, env)
			if i == len(columns) {
				columns = append(columns, output{"column" + strconv.Itoa(i+1), v})
			} else if i < len(columns) {
				columns[i].value = larger(columns[i].value, v)
			}
		}
	}
	for _, nodes := range [][]*pg.Node{s.DistinctClause, s.GroupClause, s.WindowClause, s.SortClause} {
		for _, node := range nodes {
			e.add(node, env)
		}
	}
	for _, node := range []*pg.Node{s.WhereClause, s.HavingClause, s.LimitCount, s.LimitOffset} {
		e.add(node, env)
	}
	return columns
}

// from puts the columns of one element of FROM into env.
func (e *expander) from(node *pg.Node, env sizes) {
	var columns []output
	var alias *pg.Alias
	switch x := node.GetNode().(type) {
	case *pg.Node_JoinExpr:
		e.from(x.JoinExpr.GetLarg(), env)
		e.from(x.JoinExpr.GetRarg(), env)
		e.add(x.JoinExpr.GetQuals(), env)
	case *pg.Node_RangeSubselect:
		columns, alias = e.query(x.RangeSubselect.GetSubquery().GetSelectStmt(), env), x.RangeSubselect.GetAlias()
	case *pg.Node_RangeVar:
		if x.RangeVar.GetSchemaname() == "" {
			with := env.with[x.RangeVar.GetRelname()]
			e.nodes += with.nodes
			columns, alias = with.columns, x.RangeVar.GetAlias()
		}
	case *pg.Node_RangeFunction:
		// An element of what the function returns is no longer than the whole.
		alias = x.RangeFunction.GetAlias()
		v := value{size: e.add(node, env).size, nodes: 1}
		columns = []output{{alias.GetAliasname(), v}}
		for range alias.GetColnames() {
			columns = append(columns, output{"", v})
		}
		if len(columns) > 1 {
			columns = columns[1:]
		}
	default:
		e.add(node, env)
	}
	for _, c := range rename(columns, alias.GetColnames()) {
		env.columns[c.name] = larger(env.columns[c.name], c.value)
	}
}

func rename(columns []output, names []*pg.Node) []output {
	columns = append([]output(nil), columns...)
	for i, node := range names {
		if i < len(columns) {
			columns[i].name = node.GetString_().GetSval()
		}
	}
	return columns
}

// columnName is the name that the server gives to a column (FigureColname), as far as it matters here.
func columnName(t *pg.ResTarget) string {
	if t.GetName() != "" {
		return t.GetName()
	}
	var fields []*pg.Node
	switch x := t.GetVal().GetNode().(type) {
	case *pg.Node_ColumnRef:
		fields = x.ColumnRef.GetFields()
	case *pg.Node_FuncCall:
		fields = x.FuncCall.GetFuncname()
	case *pg.Node_TypeCast:
		if inner := columnName(&pg.ResTarget{Val: x.TypeCast.GetArg()}); inner != "" {
			return inner
		}
		fields = x.TypeCast.GetTypeName().GetNames()
	}
	if len(fields) == 0 {
		return ""
	}
	return fields[len(fields)-1].GetString_().GetSval()
}

// add evaluates a whole expression and adds it to the total.
func (e *expander) add(node *pg.Node, env sizes) value {
	if node == nil {
		return value{}
	}
	v := e.value(reflect.ValueOf(node), env)
	e.total += v.size
	return v
}

func (e *expander) node(node *pg.Node, env sizes) value {
	if node == nil {
		return value{}
	}
	return e.value(reflect.ValueOf(node), env)
}

// value gives the value of a message, and counts its nodes: each is come to once, and a column stands for as many as it has.
func (e *expander) value(v reflect.Value, env sizes) value {
	before := e.nodes
	e.nodes++
	got := e.estimate(v, env)
	if column, ok := v.Interface().(*pg.ColumnRef); ok && len(column.Fields) > 0 {
		e.nodes += env.columns[column.Fields[len(column.Fields)-1].GetString_().GetSval()].nodes
	}
	got.nodes = e.nodes - before
	return got
}

// estimate gives all of a value but its nodes. The messages that it has no rule for are as long as what they hold.
func (e *expander) estimate(v reflect.Value, env sizes) value {
	switch x := v.Interface().(type) {
	case *pg.SelectStmt:
		if columns := e.query(x, env); len(columns) > 0 {
			return columns[0].value
		}
		return value{}
	case *pg.A_Const:
		return constant(x)
	case *pg.ColumnRef:
		if len(x.Fields) > 0 {
			if known, ok := env.columns[x.Fields[len(x.Fields)-1].GetString_().GetSval()]; ok {
				return known
			}
		}
		return value{size: 1}
	case *pg.TypeName, *pg.Alias:
		return value{}
	case *pg.TypeCast:
		return e.seen(e.cast(x, env))
	case *pg.A_Expr:
		return e.seen(e.operation(x, env))
	case *pg.FuncCall:
		return e.seen(e.call(x, env))
	case *pg.CoalesceExpr:
		return e.largest(x.Args, env)
	case *pg.MinMaxExpr:
		return e.largest(x.Args, env)
	case *pg.CaseExpr:
		v := larger(e.node(x.Defresult, env), e.node(x.Arg, env))
		for _, when := range x.Args {
			v = larger(v, larger(e.node(when.GetCaseWhen().GetResult(), env), e.node(when.GetCaseWhen().GetExpr(), env)))
		}
		return v
	}
	return e.held(v, env)
}

func (e *expander) seen(v value) value {
	e.peak = max(e.peak, v.size)
	return v
}

// held adds up what a message holds.
func (e *expander) held(v reflect.Value, env sizes) value {
	sh := e.shapes[v.Type().Elem()]
	var sum value
	if sh == nil || !sh.isBranch {
		return sum
	}
	one := func(x reflect.Value) {
		got := e.value(x, env)
		sum = value{size: sum.size + got.size, number: got.number, known: got.known && sum.size == 0}
	}
	v = v.Elem()
	for i := range sh.fields {
		f := &sh.fields[i]
		if f.kind == scalar || v.Field(f.index).IsNil() {
			continue
		}
		switch x := v.Field(f.index); f.kind {
		case message:
			one(x)
		case choice:
			one(x.Elem().Elem().Field(0))
		case messages:
			for j := range x.Len() {
				one(x.Index(j))
			}
		}
	}
	return sum
}

func (e *expander) largest(nodes []*pg.Node, env sizes) (v value) {
	for _, node := range nodes {
		v = larger(v, e.node(node, env))
	}
	return v
}

func larger(a, b value) value {
	v := value{size: max(a.size, b.size), known: a.known || b.known, nodes: max(a.nodes, b.nodes)}
	if a.known {
		v.number = a.number
	}
	if b.known {
		v.number = max(v.number, b.number)
	}
	return v
}

func constant(c *pg.A_Const) value {
	text := ""
	switch x := c.GetVal().(type) {
	case *pg.A_Const_Ival:
		text = strconv.Itoa(int(x.Ival.GetIval()))
	case *pg.A_Const_Fval:
		text = x.Fval.GetFval()
	case *pg.A_Const_Sval:
		text = x.Sval.GetSval()
	case *pg.A_Const_Bsval:
		text = x.Bsval.GetBsval()
	default:
		return value{size: 1}
	}
	v := value{size: float64(len(text))}
	if n, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && !math.IsNaN(n) {
		v.number, v.known = n, true
	}
	return v
}

// cast knows the types that fill a value up to the length that their modifier says (bit counts bits).
func (e *expander) cast(x *pg.TypeCast, env sizes) value {
	v := e.node(x.GetArg(), env)
	names := x.GetTypeName().GetNames()
	if len(names) == 0 || len(x.GetTypeName().GetTypmods()) != 1 {
		return v
	}
	width := e.node(x.TypeName.Typmods[0], env)
	switch names[len(names)-1].GetString_().GetSval() {
	case "bpchar", "char":
		v.size = max(v.size, width.number)
	case "bit":
		v.size = max(v.size, width.number/8)
	}
	return v
}

func (e *expander) operation(x *pg.A_Expr, env sizes) value {
	a, b := e.node(x.GetLexpr(), env), e.node(x.GetRexpr(), env)
	v := value{size: a.size + b.size}
	if x.GetKind() != pg.A_Expr_Kind_AEXPR_OP || len(x.GetName()) == 0 {
		return v
	}
	op := x.Name[len(x.Name)-1].GetString_().GetSval()
	if x.GetLexpr() == nil {
		a = value{known: true}
	}
	if !a.known || !b.known {
		return v
	}
	v.known = true
	switch op {
	case "+":
		v.number = a.number + b.number
	case "-":
		v.number = a.number - b.number
	case "*":
		v.number = a.number * b.number
	case "/":
		v.number = a.number / b.number
	case "^":
		v.number = math.Pow(a.number, b.number)
	case "%":
		v.number = math.Mod(a.number, b.number)
	case "<<":
		v.number = a.number * math.Exp2(b.number)
	default:
		v.known = false
	}
	if math.IsNaN(v.number) {
		v.number, v.known = 0, false
	}
	return v
}

func (e *expander) call(x *pg.FuncCall, env sizes) value {
	args := make([]value, len(x.GetArgs()))
	v := value{size: 1}
	for i, node := range x.GetArgs() {
		args[i] = e.node(node, env)
		v.size += args[i].size
	}
	for _, node := range x.GetAggOrder() {
		v.size += e.node(node, env).size
	}
	v.size += e.node(x.GetAggFilter(), env).size
	name := ""
	if n := len(x.GetFuncname()); n > 0 {
		name = x.Funcname[n-1].GetString_().GetSval()
	}
	arg := func(i int) value {
		if i < len(args) {
			return args[i]
		}
		return value{}
	}
	switch name {
	case "repeat":
		if n := arg(1); n.known {
			v.size = arg(0).size * max(0, n.number)
		}
	case "lpad", "rpad", "bpchar":
		if n := arg(1); n.known {
			v.size = max(0, n.number)
		}
	case "bit":
		if n := arg(1); n.known {
			v.size = max(0, n.number/8)
		}
	case "replace", "regexp_replace":
		v.size += arg(0).size * arg(2).size
	case "array_to_string", "string_agg":
		v.size += arg(0).size * arg(1).size
	case "concat_ws":
		v.size += arg(0).size * float64(len(args))
	case "array_fill":
		v.size = max(1, arg(0).size)
		if len(x.Args) > 1 {
			v.size *= e.product(x.Args[1], env)
		}
	case "format":
		v.size += formatWidths(x.Args, args)
	case "quote_literal", "quote_nullable", "quote_ident", "to_json", "to_jsonb":
		v.size *= 2 // each level doubles what the level below has put in
	case "encode":
		v.size *= 4
	case "md5", "sha224", "sha256", "sha384", "sha512", "chr":
		v.size = 128
	case "length", "char_length", "character_length", "octet_length":
		v = value{size: 8, number: arg(0).size, known: true}
	case "power", "pow":
		v.number, v.known = math.Pow(arg(0).number, arg(1).number), arg(0).known && arg(1).known
	case "abs", "round", "trunc", "floor", "ceil", "ceiling", "int2", "int4", "int8", "numeric", "float4", "float8":
		v.number, v.known = math.Abs(arg(0).number), arg(0).known
	}
	if math.IsNaN(v.size) {
		v.size = math.Inf(1) // zero characters, infinitely often
	}
	return v
}

// product multiplies the dimensions of an array literal.
func (e *expander) product(node *pg.Node, env sizes) float64 {
	if cast := node.GetTypeCast(); cast != nil {
		node = cast.GetArg()
	}
	if text := node.GetAConst().GetSval().GetSval(); text != "" { // '{1000,1000}'
		n := 1.0
		for part := range strings.SplitSeq(strings.Trim(text, "{} "), ",") {
			if f, err := strconv.ParseFloat(strings.TrimSpace(part), 64); err == nil {
				n *= max(0, f)
			}
		}
		return n
	}
	n := 1.0
	for _, dim := range node.GetAArrayExpr().GetElements() {
		if v := e.node(dim, env); v.known {
			n *= max(0, v.number)
		}
	}
	return n
}

// formatWidths adds up the widths in a format string; an asterisk takes one of the arguments.
func formatWidths(nodes []*pg.Node, args []value) (sum float64) {
	if len(nodes) == 0 {
		return 0
	}
	format := nodes[0].GetAConst().GetSval().GetSval()
	for rest := format; ; {
		_, after, ok := strings.Cut(rest, "%")
		if !ok {
			break
		}
		after = strings.TrimLeft(after, "-")
		if digits := len(after) - len(strings.TrimLeft(after, "0123456789")); digits > 0 {
			if n, err := strconv.ParseFloat(after[:digits], 64); err == nil {
				sum += n
			}
		}
		rest = strings.TrimPrefix(after, "%")
	}
	if strings.Contains(format, "*") || format == "" {
		for _, a := range args[1:] {
			if a.known {
				sum += math.Abs(a.number)
			}
		}
	}
	return sum
}
