package postgres

import (
	"context"
	"testing"
)

// The plan of a table with thousands of partitions has thousands of lines, and no LIMIT.
func TestALongPlanIsCutAndNoFault(t *testing.T) {
	d, _, _, _ := readerPool(t, "", nil)
	long := job{text: "SELECT generate_series(1, 1000000)", rows: 50, bytes: d.settings.ResultBytes, plan: true}
	table, err := d.run(context.Background(), long)
	if err != nil || table.Count != 50 || table.TruncatedBy != "rows" {
		t.Errorf("%d rows, truncated by %q, %v", table.Count, table.TruncatedBy, err)
	}
	long.plan = false
	if _, err := d.run(context.Background(), long); err == nil {
		t.Error("the control: a statement without its LIMIT is a fault")
	}
	table, err = d.Query(context.Background(), approved(t, "EXPLAIN SELECT i FROM n", 50))
	if err != nil || table.Count == 0 || table.TruncatedBy != "" {
		t.Errorf("%d rows, truncated by %q, %v", table.Count, table.TruncatedBy, err)
	}
}
