package pgpolicy

import (
	"strconv"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// capRows sets the limit of the outermost SELECT, and reports whether the statement now asks for a row more than
// maxRows (a probe). A literal between 0 and maxRows stays: it is the query's own bound. No limit, ALL, NULL and a larger
// literal become maxRows+1, so that a result of exactly maxRows rows is told from a cut one. Everything else that may be a
// number (2 + 1, '3', a subselect, -1) becomes LEAST(it, maxRows+1): it means what it meant, errors of the server included,
// within the bound. WITH TIES, which gives more rows than it says and takes no such expression, becomes maxRows+1, as seed
// 000 has it. OFFSET and the limits of inner queries stay. The query is not wrapped in another SELECT: only the ORDER BY of
// the same SELECT decides which rows a LIMIT keeps.
func capRows(s *pg.SelectStmt, maxRows int) (probe bool) {
	bound := pg.MakeAConstIntNode(int64(maxRows)+1, 0)
	probe = true
	switch kind := limitKind(s, maxRows); kind {
	case ownLimit:
		return false
	case expressionLimit:
		s.LimitCount = &pg.Node{Node: &pg.Node_MinMaxExpr{MinMaxExpr: &pg.MinMaxExpr{
			Op: pg.MinMaxOp_IS_LEAST, Args: []*pg.Node{s.LimitCount, bound},
		}}}
	case boundedLimit: // our own text, sent again
	default:
		s.LimitCount = bound
	}
	s.LimitOption = pg.LimitOption_LIMIT_OPTION_COUNT
	return probe
}

type kindOfLimit int

const (
	noLimit kindOfLimit = iota // none, or one that bounds less than ours
	ownLimit
	expressionLimit
	boundedLimit
)

func limitKind(s *pg.SelectStmt, maxRows int) kindOfLimit {
	if s.LimitOption != pg.LimitOption_LIMIT_OPTION_COUNT || s.LimitCount == nil {
		return noLimit
	}
	if least := s.LimitCount.GetMinMaxExpr(); least.GetOp() == pg.MinMaxOp_IS_LEAST && len(least.GetArgs()) == 2 {
		if n, ok := least.Args[1].GetAConst().GetVal().(*pg.A_Const_Ival); ok && int(n.Ival.GetIval()) == maxRows+1 {
			return boundedLimit
		}
	}
	c := s.LimitCount.GetAConst()
	if c == nil {
		return expressionLimit
	}
	if c.Isnull {
		return noLimit
	}
	switch n := c.Val.(type) {
	case *pg.A_Const_Ival:
		switch value := int(n.Ival.GetIval()); {
		case value > maxRows:
			return noLimit
		case value >= 0:
			return ownLimit
		}
	case *pg.A_Const_Fval:
		if value, err := strconv.ParseFloat(n.Fval.GetFval(), 64); err == nil && value > float64(maxRows) {
			return noLimit
		}
	}
	return expressionLimit
}
