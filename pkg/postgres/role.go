package postgres

import (
	"context"
	_ "embed" // the questions
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
)

// Fault is a right of the role that a reader must not have. What counts is what the role could do after SET ROLE,
// too: no approved statement says that, but the role is the boundary that holds when the policy does not.
//
// Everything beyond SELECT on relations is a fault, also where a READ ONLY transaction would refuse to use it: that
// is another guard, and the role must not need it. Not faults, but for [DB.Inspect] to advise on: what every role has
// by default and would need a change that others notice (TEMPORARY on the database, EXECUTE on functions), what shows
// more without changing anything (pg_monitor), and what is no right (timeouts).
type Fault struct {
	Kind   string // one of the 17 in rights.sql
	Object string // the role, relation, ... that it is about, and how the right is held; for the operator's eyes only
	Fix    string // SQL that takes the right away, for a superuser in the same database
	Total  int    // of this kind; at most 10 are listed
}

// rights lists the faults. It is one statement, because it runs for each new connection. BenchmarkRole, connecting
// included: 70 ms with 20,000 tables of 10 columns, 0.3 s on the same two cores under a load of 11. Half of it is the
// reading of pg_attribute for grants on columns, which have no index.
//
//go:embed rights.sql
var rights string

// holders begins rights and advice: whose rights count.
//
//go:embed holders.sql
var holders string

// unsafeRole lists what the connected role may do beyond reading. It ends in an error where it cannot tell.
//
// Not seen, since nothing that every version and every role can read shows it: rights of PUBLIC on large objects
// (there may be millions) and on parameters (PostgreSQL 15).
func unsafeRole(ctx context.Context, c *pgconn.PgConn) ([]Fault, error) {
	rows, err := ask(ctx, c, 4, holders+rights)
	if err != nil {
		return nil, fmt.Errorf("look at the role: %w", err)
	}
	var faults []Fault
	for _, row := range rows {
		total, err := strconv.Atoi(row[3])
		if err != nil {
			return nil, fmt.Errorf("look at the role: %w", err)
		}
		faults = append(faults, Fault{Kind: row[0], Object: row[1], Fix: row[2], Total: total})
	}
	return faults, nil
}

// onlyCatalog pins what a question of ours looks names up in: a path that was set for the role, or that a pooler's
// last client has left, could put somebody's = or string_agg before the server's own. Behind pg_catalog, and not
// before it, come temporary relations. The workers: as for a statement, see pins.
//
// The time limit is ours alone: a role's own, which may be meant for short statements, would end the look on a busy
// machine, and with it every connection.
const onlyCatalog = `SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
	pg_catalog.set_config('max_parallel_workers_per_gather', '0', true),
	pg_catalog.set_config('statement_timeout', '30s', true)`

// ask runs one constant question in a transaction of its own, in one round trip, and returns its rows of so many columns;
// NULL, and what the server leaves out, is "".
// After an error the transaction may be open: the connection is of no more use.
func ask(ctx context.Context, c *pgconn.PgConn, columns int, question string, parameters ...string) ([][]string, error) {
	values := make([][]byte, len(parameters))
	for i, p := range parameters {
		values[i] = []byte(p)
	}
	p := c.StartPipeline(ctx)
	p.SendQueryParams(begin, nil, nil, nil, nil)
	p.SendQueryParams(onlyCatalog, nil, nil, nil, nil)
	p.SendQueryParams(question, values, nil, nil, nil)
	p.SendQueryParams(rollback, nil, nil, nil, nil)
	p.SendPipelineSync()
	rows, err := answer(p, columns)
	return rows, errors.Join(err, p.Close())
}

// questions is how many answers come before the synchronisation point.
const questions = 4

// maxAnswerRows is far more than an honest server answers with.
const maxAnswerRows = 10_000

func answer(p *pgconn.Pipeline, columns int) (rows [][]string, err error) {
	if err := p.Flush(); err != nil {
		return nil, err
	}
	for step := 0; ; step++ {
		results, err := p.GetResults()
		if err != nil {
			return nil, err
		}
		r, isRows := results.(*pgconn.ResultReader)
		if !isRows {
			if step != questions {
				return nil, errUnpinned
			}
			return rows, nil
		}
		for r.NextRow() {
			if step != statement || len(rows) > maxAnswerRows {
				continue // the meter ends what does not end
			}
			row := make([]string, max(len(r.Values()), columns))
			for i, v := range r.Values() {
				row[i] = string(v)
			}
			rows = append(rows, row[:columns])
		}
		if _, err := r.Close(); err != nil {
			return nil, err
		}
	}
}
