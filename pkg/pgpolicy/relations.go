package pgpolicy

import (
	"reflect"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

const informationSchema = "information_schema"

// relation checks the relation that node holds, and writes it out as the list of allowed relations demands.
func (w *walker) relation(node *pg.Node, r *pg.RangeVar, depth int, names *scope) error {
	v := reflect.ValueOf(r)
	sh, err := w.enter(v, depth)
	if err != nil {
		return err
	}
	if err := w.below(v, sh, depth, names, nil); err != nil { // the alias
		return err
	}
	if r.Catalogname != "" {
		return refuse("a relation is named by at most a schema and a name")
	}
	if r.Schemaname == "" && names.has(r.Relname) && !strings.HasPrefix(r.Relname, "pg_") {
		return nil
	}
	switch {
	case strings.HasPrefix(r.Schemaname, "pg_") || r.Schemaname == "" && strings.HasPrefix(r.Relname, "pg_"):
		return refuse("the system catalogs are not served; information_schema.tables and information_schema.columns are")
	case r.Schemaname == informationSchema:
		// They show what the role may read, by name and type; the other views show definitions, grants, passwords
		// of user mappings. Under a list of relations they stay: names alone, and an agent needs them to find its way.
		switch {
		case r.Relname == "tables" || r.Relname == "columns" && !w.listed:
			return nil
		case r.Relname != "columns":
			return refuse("of information_schema, only tables and columns are served")
		}
	case !w.listed:
		return nil
	}
	name, columns, ok := w.find(r)
	if !ok {
		return refuse("relations are refused unless listed, and the one"+w.at(r.Location)+" is not").
			About(strings.TrimPrefix(r.Schemaname+"."+r.Relname, "."), "relation %s is not allowed")
	}
	if columns == nil {
		if !w.rewrite && r.Schemaname == "" {
			return refuse("a relation was not written with its schema") // our own fault: the second walk sees what we wrote
		}
		r.Schemaname = name.schema
		return nil
	}
	if node == w.sampled {
		return refuse("TABLESAMPLE is not allowed on a relation of which only some columns are served")
	}
	if !w.rewrite {
		return refuse("a relation was not written as its columns") // our own fault
	}
	node.Node = &pg.Node_RangeSubselect{RangeSubselect: columnFilter(r, name, columns)}
	return nil
}

// columnsOfColumns are those of information_schema.columns that are served beside a list of relations: names and types. The
// others show expressions (column_default, generation_expression), in which people keep what nobody else shall see.
var columnsOfColumns = []string{
	"table_catalog", "table_schema", "table_name", "column_name", "ordinal_position", "is_nullable", "data_type",
	"character_maximum_length", "numeric_precision", "numeric_scale", "datetime_precision", "udt_schema", "udt_name",
	"is_identity", "is_generated",
}

// find looks a relation up in the list; an unqualified name along the search path.
func (w *walker) find(r *pg.RangeVar) (name qualified, columns []string, ok bool) {
	if r.Schemaname == informationSchema && r.Relname == "columns" {
		return qualified{informationSchema, "columns"}, columnsOfColumns, true
	}
	schemas := w.searchPath
	if r.Schemaname != "" {
		schemas = []string{r.Schemaname}
	}
	for _, schema := range schemas {
		name = qualified{schema, r.Relname}
		if columns, ok = w.relations[name]; ok {
			return name, columns, true
		}
		if w.schemas[schema] {
			return name, nil, true
		}
	}
	return qualified{}, nil, false
}

// Visible says what of a relation a statement may read: the columns (nil: all), or that it may not. Names are as the server
// has them. What the role may read is the server's to say.
func (p *Policy) Visible(schema, table string) (columns []string, ok bool) {
	if isSystemSchema(schema) {
		return nil, false
	}
	if !p.rules.listed {
		return nil, true
	}
	w := walker{rules: p.rules}
	_, columns, ok = w.find(&pg.RangeVar{Schemaname: schema, Relname: table})
	return columns, ok
}

// columnFilter is (SELECT columns FROM name) AS alias. Nothing but the columns can be named through it: no other
// column, no system column, and the whole row is made of them.
func columnFilter(r *pg.RangeVar, name qualified, columns []string) *pg.RangeSubselect {
	alias := r.Alias
	if alias == nil {
		alias = &pg.Alias{Aliasname: r.Relname}
	}
	targets := make([]*pg.Node, len(columns))
	for i, c := range columns {
		ref := &pg.ColumnRef{Fields: []*pg.Node{pg.MakeStrNode(c)}}
		targets[i] = pg.MakeResTargetNodeWithVal(&pg.Node{Node: &pg.Node_ColumnRef{ColumnRef: ref}}, 0)
	}
	from := &pg.RangeVar{
		Schemaname: name.schema, Relname: name.name, Inh: r.Inh, Relpersistence: r.Relpersistence,
	}
	return &pg.RangeSubselect{
		Alias: alias,
		Subquery: &pg.Node{Node: &pg.Node_SelectStmt{SelectStmt: &pg.SelectStmt{
			TargetList:  targets,
			FromClause:  []*pg.Node{{Node: &pg.Node_RangeVar{RangeVar: from}}},
			LimitOption: pg.LimitOption_LIMIT_OPTION_DEFAULT,
			Op:          pg.SetOperation_SETOP_NONE,
		}}},
	}
}

// isColumnFilter reports whether a subselect is just what columnFilter makes. It is then as good as the relation
// itself: the second walk meets it, and so does a caller who sends a regenerated text again.
func (w *walker) isColumnFilter(sub *pg.RangeSubselect) bool {
	if !w.listed || sub.GetAlias() == nil {
		return false
	}
	from := sub.GetSubquery().GetSelectStmt().GetFromClause()
	if len(from) != 1 {
		return false
	}
	r := from[0].GetRangeVar()
	if r.GetSchemaname() == "" {
		return false
	}
	name, columns, ok := w.find(r)
	if !ok || columns == nil {
		return false
	}
	for _, c := range sub.Alias.Colnames {
		if _, isString := c.GetNode().(*pg.Node_String_); !isString {
			return false
		}
	}
	same := &pg.RangeVar{Relname: r.Relname, Inh: r.Inh, Relpersistence: "p", Alias: sub.Alias}
	return w.shapes.equal(reflect.ValueOf(sub), reflect.ValueOf(columnFilter(same, name, columns)))
}
