package pgpolicy

import (
	"math"
	"reflect"
	"strconv"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// maxCopies bounds what the planner makes of one query, in nodes of its tree (see the weights below). When it pulls
// subqueries up, it replaces each column by a copy of what the column stands for; all copies stay in memory, and no time
// limit, cancel or pg_terminate_backend reaches it meanwhile: twenty WITH queries of greatest(x, x) over each other, 890
// characters, took 1.9 GiB (measured on 15.18). A node comes to 0.2 to 0.4 KB as it is counted here: of 698 nestings at the
// bound (PGPOLICY_COPIES_SEED=7 and 8, 40 s each) the largest took 362 MB, the slowest 1.0 s. That needs jit = off: with it,
// LLVM adds 8 to 30 KB for each node, and time that no time limit ends (12,000 nodes: 361 MB, 14 s at a limit of 2 s).
const maxCopies = 1_000_000

// Weights, in nodes of a select list that are planned once. Measured on 15.18 as VmHWM of a backend.
const (
	perQuery  = 125 // a subquery or a relation: 50 KB. 2,047 of them, cross-joined by eight, took 106 MB
	perCopy   = 0.3 // a node that one more pull-up copies: 110 bytes. 50 times 11,700 nodes took 65 MB
	perWhere  = 2   // a node of WHERE, GROUP BY or HAVING: 0.7 KB. It is kept in several forms (canonical, by clause)
	perJoin   = 4   // a node of ON: 1.3 KB, 2.0 KB below an outer join. The sides of = are kept by relation, too
	perSearch = 250 // times the square of the joins in one list: 0.1 MB. 40 tables that share a key took 150 MB
	perOrder  = 120 // a set of relations whose joins are kept: eight tables that share a key took 16 MB
	perValue  = 400 // bytes of a constant's value that are as much as a node
	perRow    = 64  // columns of a relation that we do not know; most have fewer

	// perRowMost is how many columns a row has at most (MaxTupleAttributeNumber). (x).* is as many copies of x, so that
	// nothing less than the bound will do there.
	perRowMost = 1664
)

// maxNatural is how many columns both sides of a NATURAL JOIN may have to be compared by name; with more, any may be any.
const maxNatural = 400

// enough is where counting ends: what comes to so much is refused, whatever else there is.
const enough = 1e15

// named is a WITH query by its name, in front of those that it may hide.
type named struct {
	*withQuery
	next *named
}

func (n *named) find(name string) *withQuery {
	for ; n != nil; n = n.next {
		if n.cte.GetCtename() == name {
			return n.withQuery
		}
	}
	return nil
}

// withQuery is evaluated when it is first named, once.
type withQuery struct {
	cte     *pg.CommonTableExpr
	with    *named // the names that it sees
	outer   *names // and the columns
	refs    int    // as the server counts: in the text, and not in itself
	begun   bool
	done    bool
	loops   bool // it names itself
	planned subquery
}

// barrier reports whether the server plans the query once and apart. It does so since 12 for one that is referenced more
// than once and not said to be NOT MATERIALIZED; its columns are then variables for the reader, and no condition is pushed
// into it.
func (w *withQuery) barrier() bool {
	switch w.cte.GetCtematerialized() {
	case pg.CTEMaterialize_CTEMaterializeAlways:
		return true
	case pg.CTEMaterialize_CTEMaterializeNever:
		return w.loops
	default:
		return w.loops || w.refs > 1
	}
}

// subquery is what is known of a query that another one reads.
type subquery struct {
	columns []column
	cost    float64 // of planning it
	joins   float64 // with a condition, of the query and what is pulled up into it
	tree    float64 // nodes before anything is pulled up: each level copies those of all levels below
	carried float64 // nodes of conditions, joins and functions that each pull-up above copies, too
	spread  float64 // how many further copies a condition of the reader finds below: one in each query that stays apart
}

// search is what finding an order of the joins comes to. Up to join_collapse_limit, eight, all orders are tried.
func (s subquery) search() float64 {
	return perSearch*s.joins*s.joins + perOrder*(math.Exp2(min(s.joins, 8))-1)
}

// variables are the columns of a query that stays apart for good.
func (s subquery) variables() []column {
	columns := append([]column(nil), s.columns...)
	for i := range columns {
		columns[i].nodes = 1
	}
	return columns
}

// bind notes the queries of a WITH clause once, and gives the names that its statement sees.
func (e *expander) bind(clause *pg.WithClause, with *named) *named {
	if clause == nil {
		return with
	}
	if bound, ok := e.bound[clause]; ok {
		return bound
	}
	var all []*withQuery
	for _, node := range clause.GetCtes() {
		w := &withQuery{cte: node.GetCommonTableExpr(), with: with}
		all = append(all, w)
		with = &named{w, with}
	}
	if clause.GetRecursive() { // each sees all of them, itself included
		for _, w := range all {
			w.with = with
		}
	}
	e.bound[clause] = with
	return with
}

// cost is what planning a whole statement comes to, in nodes.
func (e *expander) cost(query *pg.SelectStmt) float64 {
	e.count(reflect.ValueOf(query), nil)
	q := e.query(query, nil, nil)
	return q.cost + q.search()
}

// count counts how often each WITH query is named.
func (e *expander) count(v reflect.Value, with *named) {
	switch x := v.Interface().(type) {
	case *pg.SelectStmt:
		with = e.bind(x.GetWithClause(), with)
	case *pg.CommonTableExpr:
		for n := with; n != nil; n = n.next {
			if n.cte == x {
				with = n.with
				break
			}
		}
	case *pg.RangeVar:
		if w := with.find(x.GetRelname()); w != nil && x.GetSchemaname() == "" {
			w.refs++
		}
	}
	e.shapes.each(v, func(held reflect.Value) { e.count(held, with) })
}

// each calls f for the messages that v holds.
func (s shapes) each(v reflect.Value, f func(reflect.Value)) {
	sh := s[v.Type().Elem()]
	if sh == nil || !sh.isBranch || v.IsNil() {
		return
	}
	v = v.Elem()
	for i := range sh.fields {
		field := &sh.fields[i]
		if field.kind == scalar || v.Field(field.index).IsNil() {
			continue
		}
		switch x := v.Field(field.index); field.kind {
		case message:
			f(x)
		case choice:
			f(x.Elem().Elem().Field(0))
		case messages:
			for j := range x.Len() {
				f(x.Index(j))
			}
		}
	}
}

// aside evaluates something that counts for itself, and gives what it comes to.
func (e *expander) aside(f func()) (nodes, tree float64) {
	outerNodes, outerTree := e.nodes, e.tree
	e.nodes, e.tree = 0, 0
	f()
	nodes, tree = e.nodes, e.tree
	e.nodes, e.tree = outerNodes, outerTree
	return nodes, tree
}

func (e *expander) weigh(n float64) { e.nodes = min(e.nodes+n, enough) }

// query estimates a SELECT. Nothing of it is in e.nodes afterwards.
func (e *expander) query(s *pg.SelectStmt, outer *names, with *named) (q subquery) {
	_, q.tree = e.aside(func() { e.statement(s, outer, with, &q) })
	q.tree += perRow / 2 // the lists that each query has
	q.cost = min(q.cost+perQuery, enough)
	if s.GetLimitCount() != nil || s.GetLimitOffset() != nil {
		if q.spread = 0; !e.explained {
			q.columns = q.variables()
		}
		q.cost, q.joins, q.carried = q.cost+q.search(), 0, 0
	}
	return q
}

func (e *expander) statement(s *pg.SelectStmt, outer *names, with *named, q *subquery) {
	var own []*withQuery
	with = e.bind(s.GetWithClause(), with)
	for n := with; n != nil && len(own) < len(s.GetWithClause().GetCtes()); n = n.next {
		n.outer = outer
		own = append(own, n.withQuery)
	}
	here := &names{with: with, outer: outer}
	if s.GetLarg() != nil && s.GetRarg() != nil {
		left, right := e.query(s.Larg, outer, with), e.query(s.Rarg, outer, with)
		q.columns = union(left.columns, right.columns)
		q.cost = left.cost + right.cost + left.search() + right.search()
		q.spread = left.spread + right.spread + 2
		all := row(q.columns).nodes // UNION ALL keeps them for each side as long as it is read, and each pull-up copies them
		q.cost += 2 * all
		q.carried = left.carried + right.carried + 2*all
		e.tree += left.tree + right.tree
	} else {
		e.simple(s, here, q)
	}
	// The sort of a union names its columns alone.
	nodes, _ := e.aside(func() {
		e.add(s.GetLimitCount(), here)
		e.add(s.GetLimitOffset(), here)
	})
	q.cost += nodes
	for _, w := range own {
		if planned := e.planned(w); w.barrier() || w.refs == 0 {
			q.cost += planned.cost + planned.search()
			e.tree += planned.tree
		}
	}
}

// planned is what a WITH query comes to. One that names itself sees columns that are not known: they are variables.
func (e *expander) planned(w *withQuery) subquery {
	switch {
	case w.done:
		return w.planned
	case w.begun:
		w.loops = true
		return subquery{columns: unknownColumns()}
	}
	w.begun = true
	e.aside(func() { w.planned = e.query(w.cte.GetCtequery().GetSelectStmt(), w.outer, w.with) })
	w.planned.columns = rename(w.planned.columns, w.cte.GetAliascolnames())
	if w.cte.GetSearchClause() != nil || w.cte.GetCycleClause() != nil {
		w.planned.columns = append(w.planned.columns, unknownColumns()...)
	}
	w.done = true
	return w.planned
}

// from is a FROM clause that is being added up.
type from struct {
	cost    float64
	spread  float64 // of the relation that has the most
	pulled  float64 // subqueries that may be pulled up: each copies all expressions of the query
	on      float64 // nodes of ON
	aliases float64 // nodes of the columns of joins, each of which has all of both sides
	carried float64 // see subquery
	joins   float64
	outer   bool // there is an outer join
}

// simple estimates a SELECT that is no set operation.
func (e *expander) simple(s *pg.SelectStmt, here *names, q *subquery) {
	var f from
	for _, node := range s.GetFromClause() {
		here.visible = here.and(e.from(node, here.visible, &names{with: here.with, outer: here.outer}, &f))
	}
	calls := e.calls
	targets, _ := e.aside(func() {
		for _, node := range s.GetTargetList() {
			t := node.GetResTarget()
			columns := e.expand(t.GetVal(), here)
			if len(columns) == 1 && !isStar(t.GetVal()) {
				columns[0].name = columnName(t)
			}
			q.columns = few(append(q.columns, columns...))
		}
		for i, node := range s.GetValuesLists() {
			var values []column
			for _, item := range node.GetList().GetItems() {
				values = few(append(values, e.expand(item, here)...))
			}
			known := true // a star of a table may be any number of columns
			for j := range values {
				if known, values[j].name = known && values[j].many == 1, ""; known {
					values[j].name = "column" + strconv.Itoa(j+1)
				}
			}
			if i > 0 {
				values = union(values, q.columns)
			}
			q.columns = values
		}
	})
	apart := e.calls > calls // an aggregate, a set, a window, a volatile function: no pull-up, but conditions go down
	subs, joins := e.subqueries, e.joins
	where, _ := e.aside(func() { e.add(s.GetWhereClause(), here) })
	f.pulled += e.subqueries - subs // EXISTS and IN become joins
	f.joins += e.joins - joins
	if s.GetWhereClause() != nil {
		if f.joins += float64(max(0, len(s.GetFromClause())-1)); f.joins > 0 {
			f.joins++ // the condition is weighed in each order
		}
	}
	having, _ := e.aside(func() { e.add(s.GetHavingClause(), here) })
	group, _ := e.aside(func() { e.keys(s.GetGroupClause(), here, q.columns, false) })
	sorted, _ := e.aside(func() {
		e.keys(s.GetDistinctClause(), here, q.columns, true)
		e.keys(s.GetSortClause(), here, q.columns, true)
		for _, node := range s.GetWindowClause() {
			e.add(node, here)
		}
	})
	if len(s.GetDistinctClause()) > 0 {
		sorted += targets
	}
	certain := len(s.GetDistinctClause())+len(s.GetGroupClause())+len(s.GetSortClause()) > 0 || s.GetWithClause() != nil
	f.carried += where + f.on + f.aliases
	all := targets + having + group + sorted + f.carried
	q.cost = f.cost + targets + sorted + perWhere*(group+(where+having)*(1+f.spread)) + perJoin*f.on*(1+f.spread) +
		perCopy*(f.aliases+all*f.pulled)
	if f.outer {
		q.cost += targets * (1 + f.spread) // what comes from an outer join is wrapped, and kept by relation
	}
	if q.spread = f.spread; apart || certain {
		q.spread++
	}
	if q.joins, q.carried = f.joins, f.carried; certain {
		q.cost, q.joins, q.carried = q.cost+q.search(), 0, 0
	}
	q.cost = min(q.cost, enough)
}

// keys weighs GROUP BY, DISTINCT ON or ORDER BY. What stands in the select list, by name or number, is not copied but kept
// by its number.
func (e *expander) keys(nodes []*pg.Node, here *names, columns []column, ownFirst bool) {
	for _, node := range nodes {
		key := node
		if sort := node.GetSortBy(); sort != nil {
			key = sort.GetNode()
		}
		fields := key.GetColumnRef().GetFields()
		switch {
		case key.GetAConst() != nil:
			e.weigh(widest(columns).nodes)
		case len(fields) == 1:
			v, found, _ := find(columns, fields[0].GetString_().GetSval())
			if !found || !ownFirst {
				v = larger(v, e.column(fields, here))
			}
			e.weigh(v.nodes)
		default:
			e.add(key, here)
		}
	}
}

// from estimates one element of FROM, and gives what it makes visible. before is what LATERAL sees.
func (e *expander) from(node *pg.Node, before visible, here *names, f *from) visible {
	lateral := &names{before, here.with, here.outer}
	var columns []column
	var alias *pg.Alias
	plain := false
	switch x := node.GetNode().(type) {
	case *pg.Node_JoinExpr:
		return e.join(x.JoinExpr, before, here, f)
	case *pg.Node_RangeTableSample:
		nodes, _ := e.aside(func() {
			for _, arg := range x.RangeTableSample.GetArgs() {
				e.add(arg, lateral)
			}
			e.add(x.RangeTableSample.GetRepeatable(), lateral)
		})
		f.cost += nodes
		return e.from(x.RangeTableSample.GetRelation(), before, here, f)
	case *pg.Node_RangeSubselect:
		outer := here.outer
		if x.RangeSubselect.GetLateral() {
			outer = lateral
		}
		q := e.query(x.RangeSubselect.GetSubquery().GetSelectStmt(), outer, here.with)
		if x.RangeSubselect.GetLateral() {
			q.spread++ // it is not always pulled up
		}
		e.reads(q, f)
		columns, alias = q.columns, x.RangeSubselect.GetAlias()
	case *pg.Node_RangeVar:
		columns, alias = unknownColumns(), x.RangeVar.GetAlias()
		name := x.RangeVar.GetRelname()
		plain = true
		if w := here.with.find(name); w != nil && x.RangeVar.GetSchemaname() == "" {
			plain = false
			if q := e.planned(w); w.barrier() {
				if columns = q.columns; !e.explained {
					columns = q.variables()
				}
			} else {
				e.reads(q, f)
				columns = q.columns
			}
		}
		if alias.GetAliasname() == "" {
			alias = &pg.Alias{Aliasname: name}
		}
		f.cost += perQuery
		e.tree += perRow / 2
	default: // a function, JSON_TABLE. An element of what it returns is no longer than the whole.
		columns = unknownColumns()
		nodes, _ := e.aside(func() { columns[0].size = e.add(node, lateral).size })
		f.cost += perQuery + perWhere*nodes
		f.carried += nodes
		f.pulled++ // a constant one
		alias, plain = aliasOf(node), true
	}
	columns = rename(columns, alias.GetColnames())
	return visible{columns, []relation{{alias.GetAliasname(), columns, plain}}}
}

// reads adds a subquery of FROM, or a WITH query that is put where its name stands.
func (e *expander) reads(q subquery, f *from) {
	f.cost = min(f.cost+q.cost+perCopy*q.tree, enough)
	f.spread = max(f.spread, q.spread)
	f.pulled++
	f.joins += q.joins
	f.carried += q.carried
	e.subqueries++
	e.tree = min(e.tree+q.tree, enough)
}

// join estimates a JOIN. Its columns are those that USING or NATURAL merges, then the rest of both sides.
func (e *expander) join(x *pg.JoinExpr, before visible, here *names, f *from) visible {
	left := e.from(x.GetLarg(), before, here, f)
	inner := f.joins
	right := e.from(x.GetRarg(), before.and(left), here, f)
	if x.GetIsNatural() && len(left.columns)+len(right.columns) > maxNatural {
		left.columns, right.columns = one(left.columns), one(right.columns)
	}
	both := left.and(right)
	f.outer = f.outer || x.GetJointype() != pg.JoinType_JOIN_INNER
	subs, joins := e.subqueries, e.joins
	on, _ := e.aside(func() { e.add(x.GetQuals(), &names{both, here.with, here.outer}) })
	f.pulled += e.subqueries - subs
	if f.joins += e.joins - joins; x.GetQuals() != nil || len(x.GetUsingClause()) > 0 || x.GetIsNatural() {
		f.joins++
		if x.GetJointype() != pg.JoinType_JOIN_INNER && f.joins > inner+1 {
			f.joins += 2 // joins within an outer one: what comes from them is wrapped, and kept for each
		}
	}
	var merged []column
	for _, node := range x.GetUsingClause() {
		merged = append(merged, column{node.GetString_().GetSval(), 1, value{}})
	}
	if x.GetIsNatural() {
		for _, c := range append(left.columns[:len(left.columns):len(left.columns)], right.columns...) {
			_, inLeft, maybeLeft := find(left.columns, c.name)
			_, inRight, maybeRight := find(right.columns, c.name)
			_, twice, _ := find(merged, c.name)
			if c.name != "" && !twice && (inLeft || maybeLeft) && (inRight || maybeRight) {
				merged = append(merged, column{c.name, 1, value{}})
			}
		}
	}
	for i, c := range merged {
		l, _, _ := find(left.columns, c.name)
		r, _, _ := find(right.columns, c.name)
		v := larger(l, r)
		v.nodes++ // the types may differ
		if x.GetJointype() == pg.JoinType_JOIN_FULL {
			v.nodes = l.nodes + r.nodes + 3 // COALESCE of both
		}
		merged[i].value = v
		on += l.nodes + r.nodes + 3
	}
	columns := merged
	if x.GetIsNatural() && (open(left.columns) || open(right.columns)) {
		columns = append(columns, unknownColumns()...) // any place may be another one's
		columns[len(columns)-1].value = widest(append(columns, both.columns...))
		columns[len(columns)-1].nodes = widest(left.columns).nodes + widest(right.columns).nodes + 3
		columns[0], columns[len(columns)-1] = columns[len(columns)-1], columns[0]
	}
	for _, c := range both.columns {
		if _, twice, _ := find(merged, c.name); !twice {
			columns = append(columns, c)
		}
	}
	f.on += on
	f.aliases += row(columns).nodes
	v := visible{columns, both.relations}
	if alias := x.GetJoinUsingAlias(); alias != nil {
		v.relations = append(v.relations, relation{alias.GetAliasname(), merged, false})
	}
	if alias := x.GetAlias(); alias != nil { // it hides what is in it
		columns = rename(columns, alias.GetColnames())
		v = visible{columns, []relation{{alias.GetAliasname(), columns, false}}}
	}
	return v
}
