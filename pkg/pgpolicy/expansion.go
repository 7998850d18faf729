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

// value is what is known of an expression: at most how long its text is, taking a column for one character, and, if it
// is made of constants, at most how large its number is; and of how many nodes it is made, see maxCopies.
type value struct {
	size   float64
	number float64
	known  bool
	items  float64 // the product of the numbers in it, if it is an array of such: dimensions
	nodes  float64
	width  float64 // how many columns it has if it is a row
}

// expander estimates. It errs to the small side wherever data decides: it is there for texts that are a few characters
// and a gigabyte, and statement_timeout for the rest.
type expander struct {
	total float64 // of the expressions that are results or conditions
	peak  float64 // the largest of all, length(repeat('x', 1000000000)) included

	*rules
	bound      map[*pg.WithClause]*named
	explained  bool    // a plan's text shows what each variable stands for, be it planned apart or not
	nodes      float64 // so far, of the query that is being looked at
	tree       float64 // the same, with columns as one
	calls      int     // of functions
	subqueries float64
	joins      float64 // that subqueries outside of FROM may become
}

// checkExpansion refuses a query whose constants grow beyond maxExpansion, or whose planning does beyond maxCopies; explained
// says that it is only to be explained.
func (r *rules) checkExpansion(query *pg.SelectStmt, explained bool) error {
	e := expander{rules: r, bound: map[*pg.WithClause]*named{}, explained: explained}
	cost := e.cost(query)
	if e.total > maxExpansion || e.peak > maxExpansion {
		return refuse("constant expressions (repeat, lpad, array_fill and the like) would grow beyond 1 MiB")
	}
	if !(cost <= maxCopies) { // nor what is no number
		return refuse("planning would take too much memory: subqueries that use each other's columns several times, or " +
			"very many joins; use fewer levels, or AS MATERIALIZED")
	}
	return nil
}

// add evaluates a whole expression and adds it to the total.
func (e *expander) add(node *pg.Node, here *names) value {
	v := e.node(node, here)
	e.total += v.size
	return v
}

func (e *expander) node(node *pg.Node, here *names) value {
	if node == nil {
		return value{}
	}
	return e.value(reflect.ValueOf(node), here)
}

// value gives the value of a message. Each is come to once. What becomes no node of the planner's tree does not count.
func (e *expander) value(v reflect.Value, here *names) value {
	before := e.nodes
	got := e.estimate(v, here)
	switch v.Interface().(type) {
	case *pg.Node, *pg.List, *pg.String, *pg.A_Star, *pg.SortBy, *pg.WindowDef, *pg.TypeName, *pg.Alias, *pg.SelectStmt:
	case *pg.ColumnRef:
		e.tree++
		e.weigh(got.nodes)
	case *pg.FuncCall:
		e.tree++
		e.weigh(2 + got.size/perValue) // its arguments may be cast
	default:
		e.tree++
		e.weigh(1 + got.size/perValue) // a value that is computed beforehand stays in memory
	}
	got.nodes = e.nodes - before
	return got
}

// estimate gives all of a value but its nodes. The messages that it has no rule for are as long as what they hold.
func (e *expander) estimate(v reflect.Value, here *names) value {
	switch x := v.Interface().(type) {
	case *pg.Node, *pg.List:
		return e.held(v, here)
	case *pg.SelectStmt:
		q := e.query(x, here, here.with)
		e.weigh(2*q.cost - perQuery + q.search()) // each copy is planned for itself, with what it takes from around it
		e.joins += 1 + q.joins
		e.tree = min(e.tree+q.tree, enough)
		e.subqueries++
		if len(q.columns) > 0 {
			return q.columns[0].value
		}
		return value{}
	case *pg.A_Const:
		return constant(x)
	case *pg.ColumnRef:
		return e.column(x.GetFields(), here)
	case *pg.TypeName, *pg.Alias:
		return value{}
	case *pg.TypeCast:
		return e.seen(e.cast(x, here))
	case *pg.A_Expr:
		return e.seen(e.operation(x, here))
	case *pg.FuncCall:
		return e.seen(e.call(x, here))
	case *pg.CoalesceExpr:
		return e.largest(x.Args, here)
	case *pg.MinMaxExpr:
		return e.largest(x.Args, here)
	case *pg.CaseExpr:
		arg := e.node(x.Arg, here)
		e.weigh(arg.size / perValue * float64(len(x.Args))) // a constant is put into each arm
		v := larger(e.node(x.Defresult, here), arg)
		for _, when := range x.Args {
			e.weigh(2)
			v = larger(v, larger(e.node(when.GetCaseWhen().GetResult(), here), e.node(when.GetCaseWhen().GetExpr(), here)))
		}
		return v
	case *pg.RowExpr:
		var columns []column
		for _, item := range x.Args {
			columns = few(append(columns, e.expand(item, here)...))
		}
		return row(columns)
	case *pg.A_ArrayExpr:
		return e.array(x, here)
	}
	sum := e.held(v, here)
	sum.items, sum.width = 0, perRowMost
	return sum
}

func (e *expander) seen(v value) value {
	e.peak = max(e.peak, v.size)
	return v
}

// held adds up what a message holds.
func (e *expander) held(v reflect.Value, here *names) (sum value) {
	e.shapes.each(v, func(x reflect.Value) {
		got := e.value(x, here)
		got.size, got.known = sum.size+got.size, got.known && sum.size == 0
		sum = got
	})
	return sum
}

// array adds up an array literal, and multiplies what is in it: it may be the dimensions of another one.
func (e *expander) array(x *pg.A_ArrayExpr, here *names) value {
	v := value{items: 1, width: perRowMost}
	for _, node := range x.GetElements() {
		got := e.node(node, here)
		if v.size += got.size; got.known {
			v.items *= max(0, got.number)
		}
	}
	return v
}

func (e *expander) largest(nodes []*pg.Node, here *names) (v value) {
	for _, node := range nodes {
		v = larger(v, e.node(node, here))
	}
	return v
}

func larger(a, b value) value {
	v := value{
		size: max(a.size, b.size), known: a.known || b.known, items: max(a.items, b.items),
		nodes: max(a.nodes, b.nodes), width: max(a.width, b.width),
	}
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
	v := value{size: float64(len(text)), items: 1}
	for part := range strings.SplitSeq(strings.Trim(text, "{} "), ",") { // '{1000,1000}'
		if n, err := strconv.ParseFloat(strings.TrimSpace(part), 64); err == nil {
			v.items *= max(0, n)
		}
	}
	if n, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && !math.IsNaN(n) {
		v.number, v.known = n, true
	}
	return v
}

// cast knows the types that fill a value up to the length that their modifier says (bit counts bits).
func (e *expander) cast(x *pg.TypeCast, here *names) value {
	v := e.node(x.GetArg(), here)
	v.width = perRowMost
	names := x.GetTypeName().GetNames()
	if len(names) == 0 || len(x.GetTypeName().GetTypmods()) != 1 {
		return v
	}
	width := e.node(x.TypeName.Typmods[0], here)
	switch names[len(names)-1].GetString_().GetSval() {
	case "bpchar", "char":
		v.size = max(v.size, width.number)
	case "bit":
		v.size = max(v.size, width.number/8)
	}
	return v
}

func (e *expander) operation(x *pg.A_Expr, here *names) value {
	a, b := e.node(x.GetLexpr(), here), e.node(x.GetRexpr(), here)
	v := value{size: a.size + b.size, width: perRowMost}
	e.analysed(x, a, b)
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

// analysed adds what parse analysis copies of an operator's sides, which are a and b.
func (e *expander) analysed(x *pg.A_Expr, a, b value) {
	switch items := x.GetRexpr().GetList().GetItems(); x.GetKind() {
	case pg.A_Expr_Kind_AEXPR_BETWEEN, pg.A_Expr_Kind_AEXPR_NOT_BETWEEN: // a >= x AND a <= y
		e.weigh(a.nodes + 3)
	case pg.A_Expr_Kind_AEXPR_BETWEEN_SYM, pg.A_Expr_Kind_AEXPR_NOT_BETWEEN_SYM: // either way round
		e.weigh(3*a.nodes + b.nodes + 6)
	case pg.A_Expr_Kind_AEXPR_IN:
		// a = x OR a = y, but for one array of all constants. With a type that has no array, like an array, they are no
		// exception, and only a number is sure to be of another type.
		for i, item := range items {
			if _, isText := item.GetAConst().GetVal().(*pg.A_Const_Sval); i > 0 && (item.GetAConst() == nil || isText) {
				e.weigh(a.nodes + 1)
			}
		}
	}
}

func (e *expander) call(x *pg.FuncCall, here *names) value {
	args := make([]value, len(x.GetArgs()))
	v := value{size: 1, width: perRowMost}
	before := e.nodes
	e.calls++
	for i, node := range x.GetArgs() {
		args[i] = e.node(node, here)
		v.size += args[i].size
	}
	for _, node := range x.GetAggOrder() {
		v.size += e.node(node, here).size
	}
	v.size += e.node(x.GetAggFilter(), here).size
	if x.GetOver() != nil {
		e.value(reflect.ValueOf(x.GetOver()), here)
	}
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
	case "overlaps":
		e.weigh(e.nodes - before) // a function in SQL that is put in place: start, and start + length
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
			v.size *= args[1].items
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
		v.size, v.number, v.known = 8, arg(0).size, true
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
