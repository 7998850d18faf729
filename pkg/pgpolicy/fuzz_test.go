package pgpolicy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"mcp-server-suite/pkg/problem"
)

// seeds are statements that use the kinds which everyday ones do not.
var seeds = []string{
	"SELECT JSON('1'), JSON_SCALAR(1), JSON_SERIALIZE('1' RETURNING bytea FORMAT JSON), a IS JSON OBJECT WITH UNIQUE KEYS FROM t",
	"SELECT JSON_ARRAY(SELECT 1), JSON_OBJECTAGG('k': a ABSENT ON NULL), JSON_ARRAYAGG(a ORDER BY a) FROM t",
	"SELECT xmlserialize(CONTENT a AS text), xmlpi(name php, 'x'), xmlconcat(a, b), a IS DOCUMENT FROM t",
	"SELECT * FROM t, XMLTABLE('/r' PASSING d COLUMNS a int PATH 'a' DEFAULT 1 NOT NULL, n FOR ORDINALITY) x",
	"SELECT JSON_VALUE(j, '$.a' PASSING 1 AS x RETURNING int ERROR ON ERROR) FROM t",
	"SELECT make_interval(days => 3)",
	"SELECT * FROM secret.hidden, open.limited WHERE a = $1",
	"SELECT 1; SELECT 2",
	"SELECT (10.5).pg_sleep",
	"EXPLAIN (FORMAT JSON) VALUES (1)",
	"SELECT repeat(repeat('x', 1000), 1000)",
	"SELECT (NOT a) IS NULL",
	"SELECT 'a\\'::text || E'\\x41' || U&'\\0041'",
	"WITH limited AS (SELECT * FROM limited) SELECT * FROM limited",
}

// slow is far beyond what the worst text takes, on a machine that is busy with other things.
const slow = 10 * time.Second

// FuzzApprove: never a panic or a fault; what is accepted is accepted again as it is, and with the same meaning.
func FuzzApprove(f *testing.F) {
	open := newPolicy(f, Settings{})
	closed := newPolicy(f, listed)
	for _, sql := range append(everyday(f), seeds...) {
		f.Add(sql, 50)
	}
	f.Fuzz(func(t *testing.T, sql string, maxRows int) {
		maxRows = 1 + (maxRows&0x7fffffff)%1_000_000
		defer time.AfterFunc(slow, func() { panic(fmt.Sprintf("still at it: %q", sql)) }).Stop()
		for _, p := range []*Policy{open, closed} {
			a, err := p.Approve(context.Background(), sql, maxRows)
			if err != nil {
				var refusal *problem.Problem
				if !errors.As(err, &refusal) {
					t.Fatalf("fault: %v", err)
				}
				if a != (Approved{}) {
					t.Fatal("an error and a statement")
				}
				continue
			}
			if p == open {
				mustMeanTheSame(t, sql, a)
			}
			if len(a.Text()) > MaxChars {
				continue // too long to come from a caller
			}
			again, err := p.Approve(context.Background(), a.Text(), maxRows)
			if err != nil || again.Text() != a.Text() {
				t.Fatalf("%q\nbecame %q\nand then %q, %v", sql, a.Text(), again.Text(), err)
			}
		}
	})
}
