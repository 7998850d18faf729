package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"mcp-server-suite/pkg/pgpolicy"
	"mcp-server-suite/pkg/problem"
)

// maxPlanBytes bounds the plan of one statement: a line of JSON per node and some. A longer one is of a statement that
// costs too much to look at.
const maxPlanBytes = 1 << 20

// affordable asks the planner what a statement will cost and refuses one above the bound. A plan is asked for in a
// transaction of its own: what it costs cannot change what the statement may do.
func (d *DB) affordable(ctx context.Context, statement pgpolicy.Approved) error {
	if statement.Explain() {
		return nil // it is planned and not run
	}
	plan, err := d.run(ctx, job{
		text: "EXPLAIN (FORMAT JSON) " + statement.Text(), rows: 1, bytes: maxPlanBytes, server: statement.Server(),
	})
	if err != nil {
		return err
	}
	if plan.TruncatedBy != "" {
		return problem.New(problem.TooCostly, "the plan of the query is too long to look at its cost (MCP_SQL_MAX_COST); narrow "+
			"the query", query)
	}
	// One row with one value of type json: [[[{"Plan": {"Total Cost": 8.29}}]]].
	var rows [][][]struct {
		Plan struct {
			Cost float64 `json:"Total Cost"`
		}
	}
	if err := json.Unmarshal(plan.Rows, &rows); err != nil || len(rows) != 1 || len(rows[0]) != 1 || len(rows[0][0]) != 1 {
		return errors.Join(errors.New("read plan: not in the form of EXPLAIN (FORMAT JSON)"), err)
	}
	if cost := rows[0][0][0].Plan.Cost; cost > d.settings.MaxCost {
		return problem.New(problem.TooCostly, fmt.Sprintf("the planner expects a cost of %.0f units, and %.0f are allowed "+
			"(MCP_SQL_MAX_COST); narrow the query", cost, d.settings.MaxCost), query)
	}
	return nil
}
