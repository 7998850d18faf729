package pgpolicy

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"mcp-server-suite/pkg/problem"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// SelfTest measures that a thread that parses has [StackBytes] of stack, and shows that the worst texts of [MaxChars]
// characters end in a verdict: with a smaller stack this process would die here, at its start, and not in a session.
// It costs some 50 ms of processor time, once in a process.
func SelfTest() error { return selfTest() }

// worstShapes are the shapes that end the process on 8 MiB (TestASmallStackEndsTheProcess): in the tree's writer, with
// trees that are just below the 10,000 levels that protobuf reads. Subscripts take the most stack for a level.
func worstShapes() []string {
	return []string{
		"SELECT 1" + strings.Repeat("+1", 4_940),
		"SELECT " + strings.Repeat("a[", 2_490) + "1" + strings.Repeat("]", 2_490),
	}
}

var selfTest = sync.OnceValue(func() error {
	if _, err := measureStack(); err != nil {
		return err
	}
	for i, text := range worstShapes() {
		var verdict *problem.Problem
		err := onBigStack(func() error {
			tree, err := parse(text)
			if err != nil {
				return err
			}
			if _, err = pg.Deparse(tree); err != nil {
				return notRegenerable()
			}
			return nil
		})
		if err != nil && !errors.As(err, &verdict) {
			return fmt.Errorf("parse worst shape %d: %w", i, err)
		}
	}
	return nil
})
