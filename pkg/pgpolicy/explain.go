package pgpolicy

import (
	"reflect"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// explained gives the SELECT that a plain EXPLAIN is about. The allowed options only shape the plan: FORMAT (text,
// json, xml, yaml), COSTS, SUMMARY (the time to plan), VERBOSE (columns and schemas, which information_schema shows as
// well, and what a view selects, which a plain plan half shows already).
// ANALYZE runs the query, and BUFFERS, WAL, TIMING and SERIALIZE go with it; SETTINGS shows the server's configuration;
// GENERIC_PLAN is about bind parameters; MEMORY and whatever comes later have not been asked for.
func explained(e *pg.ExplainStmt) (*pg.Node, error) {
	for _, node := range e.Options {
		opt := node.GetDefElem()
		if opt == nil || hasUnknown(reflect.ValueOf(opt)) || opt.Defnamespace != "" {
			return nil, notAllowed(internalKind)
		}
		switch opt.Defname {
		case "verbose", "costs", "summary":
			if !isSwitch(opt.Arg) {
				return nil, badSQL("an option of EXPLAIN is true or false")
			}
		case "format":
			switch opt.Arg.GetString_().GetSval() {
			case "text", "json", "xml", "yaml":
			default:
				return nil, badSQL("FORMAT of EXPLAIN is text, json, xml or yaml")
			}
		case "analyze":
			return nil, refuse("EXPLAIN ANALYZE is off by policy, because it runs the query; plain EXPLAIN works")
		default:
			return nil, refuse("of EXPLAIN's options, only FORMAT, COSTS, SUMMARY and VERBOSE are allowed")
		}
	}
	if e.Query.GetSelectStmt() == nil {
		return nil, refuse("EXPLAIN is allowed on a SELECT alone")
	}
	return e.Query, nil
}

// isSwitch reports whether an option's value is none, a word or a number.
func isSwitch(arg *pg.Node) bool {
	switch x := arg.GetNode().(type) {
	case nil:
		return true
	case *pg.Node_String_:
		switch x.String_.GetSval() {
		case "true", "false", "on", "off":
			return true
		}
	case *pg.Node_Integer:
		return x.Integer.GetIval() == 0 || x.Integer.GetIval() == 1
	}
	return false
}
