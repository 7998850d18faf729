package pgpolicy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestTheLimitOfTheOutermostSelectIsBounded(t *testing.T) {
	p := newPolicy(t, Settings{})
	for _, c := range []struct {
		sql, want string
		probe     bool
		why       string
	}{
		{"SELECT a FROM t", "SELECT a FROM t LIMIT 51", true, ""},
		{"SELECT a FROM t LIMIT 10", "SELECT a FROM t LIMIT 10", false, "the query's own bound"},
		{"SELECT a FROM t LIMIT 50", "SELECT a FROM t LIMIT 50", false, "the same"},
		{"SELECT a FROM t LIMIT 0", "SELECT a FROM t LIMIT 0", false, "column names alone"},
		{"SELECT a FROM t LIMIT 51", "SELECT a FROM t LIMIT 51", true, ""},
		{"SELECT a FROM t LIMIT 500", "SELECT a FROM t LIMIT 51", true, ""},
		{"SELECT a FROM t LIMIT 10000000000", "SELECT a FROM t LIMIT 51", true, "a Float in the tree"},
		{"SELECT a FROM t LIMIT -1", "SELECT a FROM t LIMIT LEAST(-1, 51)", true, "the server says what is wrong"},
		{"SELECT a FROM t LIMIT ALL", "SELECT a FROM t LIMIT 51", true, ""},
		{"SELECT a FROM t LIMIT NULL", "SELECT a FROM t LIMIT 51", true, ""},
		{"SELECT a FROM t LIMIT '3'", "SELECT a FROM t LIMIT LEAST('3', 51)", true, "no integer literal"},
		{"SELECT a FROM t LIMIT 2.5", "SELECT a FROM t LIMIT LEAST(2.5, 51)", true, ""},
		{"SELECT a FROM t LIMIT 2 + 1", "SELECT a FROM t LIMIT LEAST(2 + 1, 51)", true, "three rows, not fifty"},
		{"SELECT a FROM t LIMIT LEAST(2 + 1, 51)", "SELECT a FROM t LIMIT LEAST(2 + 1, 51)", true, "our own text, sent again"},
		{"SELECT a FROM t LIMIT LEAST(2 + 1, 52)", "SELECT a FROM t LIMIT LEAST(LEAST(2 + 1, 52), 51)", true, "another bound"},
		{"SELECT a FROM t LIMIT (SELECT 100000)", "SELECT a FROM t LIMIT LEAST((SELECT 100000), 51)", true, ""},
		{"SELECT a FROM t LIMIT 5 OFFSET 990", "SELECT a FROM t LIMIT 5 OFFSET 990", false, ""},
		{"SELECT a FROM t OFFSET 5", "SELECT a FROM t LIMIT 51 OFFSET 5", true, ""},
		{"SELECT a FROM t FETCH FIRST ROW ONLY", "SELECT a FROM t LIMIT 1", false, ""},
		{"SELECT a FROM t FETCH FIRST 200 ROWS ONLY", "SELECT a FROM t LIMIT 51", true, ""},
		{"SELECT a FROM t ORDER BY a FETCH FIRST 3 ROWS WITH TIES", "SELECT a FROM t ORDER BY a LIMIT 51", true, "gives more than 3"},
		{"(SELECT a FROM t LIMIT 3)", "SELECT a FROM t LIMIT 3", false, ""},
		{"((SELECT a FROM t) LIMIT 3)", "SELECT a FROM t LIMIT 3", false, ""},
		{
			"(SELECT 1 LIMIT 900) UNION (SELECT 2 LIMIT 900)", "(SELECT 1 LIMIT 900) UNION (SELECT 2 LIMIT 900) LIMIT 51", true,
			"branches keep theirs",
		},
		{"SELECT * FROM (SELECT 1 LIMIT 900) q LIMIT 1", "SELECT * FROM (SELECT 1 LIMIT 900) q LIMIT 1", false, "inner ones, too"},
		{"VALUES (1), (2)", "VALUES (1), (2) LIMIT 51", true, ""},
		{"TABLE t", "SELECT * FROM t LIMIT 51", true, ""},
		{"WITH c AS (SELECT 1) TABLE c LIMIT 3", "WITH c AS (SELECT 1) SELECT * FROM c LIMIT 3", false, ""},
	} {
		a, err := p.Approve(context.Background(), c.sql, 50)
		if a.DropsTies() != strings.Contains(c.sql, "WITH TIES") {
			t.Errorf("%s: drops ties: %v", c.sql, a.DropsTies())
		}
		if err != nil || a.Text() != c.want || a.Probe() != c.probe || a.MaxRows() != 50 || a.Explain() {
			t.Errorf("%s (%s)\n got %s, probe %v, %d rows, explain %v, %v\nwant %s, probe %v",
				c.sql, c.why, a.Text(), a.Probe(), a.MaxRows(), a.Explain(), err, c.want, c.probe)
		}
	}
}

func TestAnExplanationHasNoBoundOfItsOwn(t *testing.T) {
	p := newPolicy(t, Settings{})
	a, err := p.Approve(context.Background(), "EXPLAIN (FORMAT json) SELECT a FROM t LIMIT 500", 50)
	if want := `EXPLAIN (FORMAT "json") SELECT a FROM t LIMIT 500`; err != nil || a.Text() != want || !a.Explain() || a.Probe() {
		t.Errorf("%+v, %v; want %s", a, err, want)
	}
}

func TestRowsOutOfBoundsAreAFault(t *testing.T) {
	p := newPolicy(t, Settings{})
	for _, n := range []int{-1, 0, 1_000_001} {
		if _, err := p.Approve(context.Background(), "SELECT 1", n); err == nil {
			t.Errorf("%d rows", n)
		}
	}
}

func TestAnEndedContextIsNotWaitedFor(t *testing.T) {
	p := newPolicy(t, Settings{})
	cause, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := p.Approve(cause, "SELECT 1", 50); !errors.Is(err, context.Canceled) {
		t.Errorf("ended before: %v", err)
	}
	for range maxParses { // as if others were being looked at
		p.slots <- struct{}{}
	}
	late, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.Approve(late, "SELECT 1", 50); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while waiting: %v", err)
	}
	<-p.slots
	if _, err := p.Approve(context.Background(), "SELECT 1", 50); err != nil {
		t.Errorf("with a free slot: %v", err)
	}
	if len(p.slots) != maxParses-1 {
		t.Errorf("%d slots are taken", len(p.slots))
	}
}

func TestTheCacheKeepsAcceptedTextsWithinItsBytes(t *testing.T) {
	const bound = 4 << 10
	p := newPolicy(t, Settings{CacheBytes: bound})
	ask := func(sql string, rows int) Approved {
		t.Helper()
		a, err := p.Approve(context.Background(), sql, rows)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	ten, fifty := ask("SELECT a FROM t", 10), ask("SELECT a FROM t", 50)
	if ten.Text() == fifty.Text() || len(p.cache.entries) != 2 {
		t.Errorf("%s, %s, %d entries", ten.Text(), fifty.Text(), len(p.cache.entries))
	}
	if again := ask("SELECT a FROM t", 10); again != ten {
		t.Errorf("%+v", again)
	}
	_, err := p.Approve(context.Background(), "SELECT pg_sleep(1)", 50)
	if err == nil || len(p.cache.entries) != 2 {
		t.Errorf("%d entries after a refusal (%v)", len(p.cache.entries), err)
	}
	for i := range 100 {
		ask(fmt.Sprintf("SELECT %d", i), 50)
		ask("SELECT a FROM t", 10) // stays, because it is used
		total := 0
		for at := p.cache.order.Front(); at != nil; at = at.Next() {
			total += entryOf(at).bytes()
		}
		if total != p.cache.bytes || total > bound || len(p.cache.entries) != p.cache.order.Len() {
			t.Fatalf("%d bytes by count, %d by sum, %d in the map, %d in order",
				p.cache.bytes, total, len(p.cache.entries), p.cache.order.Len())
		}
	}
	if _, ok := p.cache.get(cacheKey{"SELECT a FROM t", 10}); !ok {
		t.Error("what is used all the time went")
	}
	if _, ok := p.cache.get(cacheKey{"SELECT a FROM t", 50}); ok {
		t.Error("what is not used stayed")
	}
	ask("SELECT '"+strings.Repeat("x", bound)+"'", 50)
	if _, ok := p.cache.get(cacheKey{"SELECT 99", 50}); !ok {
		t.Error("a text that can never fit displaced another")
	}
	if a, ok := newPolicy(t, Settings{}).cache.get(cacheKey{"SELECT 1", 50}); ok {
		t.Errorf("without a bound: %v", a)
	}
}

func TestManyCallersGetTheirOwnAnswer(t *testing.T) {
	p := newPolicy(t, Settings{CacheBytes: 16 << 10})
	var group sync.WaitGroup
	for caller := range 8 {
		group.Go(func() {
			for i := range 50 {
				n := (caller*7 + i) % 30
				a, err := p.Approve(context.Background(), fmt.Sprintf("SELECT %d", n), 50)
				if want := fmt.Sprintf("SELECT %d LIMIT 51", n); err != nil || a.Text() != want {
					t.Errorf("%s, %v; want %s", a.Text(), err, want)
				}
				if _, err := p.Approve(context.Background(), fmt.Sprintf("SELECT f%d()", n), 50); err == nil {
					t.Errorf("f%d() accepted", n)
				}
			}
		})
	}
	group.Wait()
}

// benchTexts are texts of the lengths that the finding measured.
func benchTexts() map[string]string {
	line := "SELECT u.id, count(*) AS n, sum(o.total * 1.19) FROM users u JOIN orders o ON o.user_id = u.id " +
		"WHERE o.total > 10.5 AND lower(u.name) LIKE 'a%' OR o.status IN ('paid', 'sent') GROUP BY u.id HAVING count(*) > 1"
	part := " UNION ALL " + line
	return map[string]string{
		"SELECT 1":      "SELECT 1",
		"500":           line + part,
		"10000":         line + strings.Repeat(part, 44),
		"10000 IN list": "SELECT a IN (1" + strings.Repeat(",1", 4_990) + ")",
	}
}

func BenchmarkApprove(b *testing.B) {
	p := newPolicy(b, Settings{})
	for name, sql := range benchTexts() {
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(float64(len(sql)), "chars")
			for b.Loop() {
				if _, err := p.Approve(context.Background(), sql, 50); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkApproveCached(b *testing.B) {
	p := newPolicy(b, Settings{CacheBytes: 1 << 20})
	for b.Loop() {
		if _, err := p.Approve(context.Background(), "SELECT a FROM t WHERE b = 1", 50); err != nil {
			b.Fatal(err)
		}
	}
}
