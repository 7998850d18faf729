package pgpolicy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"mcp-server-suite/pkg/problem"
)

// differs names the cases whose verdict is another one here, with the reason.
var differs = map[string]string{
	"text-02": "a lone surrogate is U+FFFD by the time that JSON has been read into a Go string; the layer that sees the " +
		"bytes refuses it",
}

func TestEveryCaseHasItsVerdict(t *testing.T) {
	p := newPolicy(t, Settings{})
	f, err := os.Open("testdata/sql.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		var c struct{ ID, SQL, Expect, Why string }
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		n++
		t.Run(c.ID, func(t *testing.T) {
			a, err := p.Approve(context.Background(), c.SQL, 50)
			var refusal *problem.Problem
			if err != nil && !errors.As(err, &refusal) {
				t.Fatalf("fault: %v", err)
			}
			got := "accept"
			if err != nil {
				got = "reject"
			}
			if why, ok := differs[c.ID]; ok {
				if got == c.Expect {
					t.Errorf("no longer differs: %s", why)
				}
				return
			}
			if got != c.Expect {
				t.Errorf("%.200s\n got %s (%v, %.200s)\nwant %s: %s", c.SQL, got, err, a.Text(), c.Expect, c.Why)
			}
			t.Logf("%.80s -> %.100s %v", c.SQL, a.Text(), err)
		})
	}
	if err := lines.Err(); err != nil || n < 90 {
		t.Fatalf("%d cases, %v", n, err)
	}
}

func newPolicy(t testing.TB, s Settings) *Policy {
	t.Helper()
	p, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// reason gives the reason of a refusal, "" for none, and fails for a fault.
func reason(t testing.TB, err error) problem.Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	var refusal *problem.Problem
	if !errors.As(err, &refusal) {
		t.Fatalf("fault instead of a refusal: %v", err)
	}
	if strings.Join(refusal.Params, ",") != "query" {
		t.Errorf("params %v", refusal.Params)
	}
	return refusal.Reason
}
