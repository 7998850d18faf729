package pgpolicy

import (
	"context"
	"os"
	"strings"
	"testing"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// everyday gives the statements that an analyst writes, one a line.
func everyday(t testing.TB) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/everyday.sql")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func TestEverydayStatementsAreAccepted(t *testing.T) {
	p := newPolicy(t, Settings{})
	accepted := 0
	all := everyday(t)
	for _, sql := range all {
		a, err := p.Approve(context.Background(), sql, 50)
		if err != nil {
			t.Errorf("%s\n%v", sql, err)
			continue
		}
		accepted++
		mustMeanTheSame(t, sql, a)
	}
	t.Logf("%d of %d everyday statements accepted (%.1f%%)", accepted, len(all), 100*float64(accepted)/float64(len(all)))
	if len(all) < 150 {
		t.Errorf("only %d statements", len(all))
	}
}

// mustMeanTheSame holds the approved text against the caller's, by fresh parses of both: they may differ in the limit of
// the outermost SELECT and in pg_catalog before a function's name, and in nothing else.
func mustMeanTheSame(t testing.TB, sql string, a Approved) {
	t.Helper()
	theirs, err := pg.Parse(sql)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := pg.Parse(a.Text())
	if err != nil {
		t.Errorf("%s\nbecame no SQL: %s", sql, a.Text())
		return
	}
	for _, tree := range []*pg.ParseResult{theirs, ours} {
		if len(tree.Stmts) != 1 {
			t.Fatalf("%s\nbecame %d statements: %s", sql, len(tree.Stmts), a.Text())
		}
		if s := tree.Stmts[0].Stmt.GetSelectStmt(); s != nil {
			s.LimitCount, s.LimitOption = nil, 0
		}
		neutral(tree.ProtoReflect())
	}
	if !protoEqual(theirs, ours) {
		t.Errorf("%s\nchanged its meaning: %s", sql, a.Text())
	}
}
