package pgpolicy

import pg "github.com/pganalyze/pg_query_go/v6"

// capRows sets the limit of the outermost SELECT, and reports whether the statement now asks for a row more than
// maxRows (a probe). A literal between 0 and maxRows stays: it is the query's own bound. Everything else (no limit,
// ALL, NULL, an expression, a larger or negative number, WITH TIES, which gives more rows than it says) becomes
// maxRows+1, so that a result of exactly maxRows rows is told from a cut one. OFFSET and the limits of inner queries
// stay. The query is not wrapped in another SELECT: only the ORDER BY of the same SELECT decides which rows a LIMIT
// keeps.
//
// A negative literal is an error at the server (2201W). It is replaced like every other unusable limit, as seed 000 has
// it: the caller gets rows instead of a riddle.
func capRows(s *pg.SelectStmt, maxRows int) (probe bool) {
	if s.LimitOption == pg.LimitOption_LIMIT_OPTION_COUNT {
		if c := s.LimitCount.GetAConst(); c != nil && !c.Isnull {
			if n, ok := c.Val.(*pg.A_Const_Ival); ok && n.Ival.GetIval() >= 0 && int(n.Ival.GetIval()) <= maxRows {
				return false
			}
		}
	}
	s.LimitCount = pg.MakeAConstIntNode(int64(maxRows)+1, 0)
	s.LimitOption = pg.LimitOption_LIMIT_OPTION_COUNT
	return true
}
