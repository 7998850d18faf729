package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/puddle/v2"

	"mcp-server-suite/pkg/pgpolicy"
	"mcp-server-suite/pkg/problem"
	"mcp-server-suite/pkg/rowjson"
)

// Table is a result.
type Table struct {
	Columns     []string // names in order; two may be equal
	Types       []string // of the columns, as PostgreSQL names them; "" where the type is not built in
	Rows        []byte   // JSON in ASCII: an array of arrays
	Count       int      // of the rows
	TruncatedBy string   // "", "rows" or "size"
	Flagged     []int    // columns that hold control or invisible characters, by index
	InRecovery  bool     // the server is a standby: the rows may be behind the primary's
}

// Query runs a statement and returns its rows, at most as many as were approved. An error is a *problem.Problem for the
// caller, the context's where that has ended, or a fault.
//
// A statement that is interrupted before the first row because the server is being shut down (57P01) is run once more
// on a new connection, which may lead to another server. One whose connection breaks without a word is not: a statement
// for which the server's memory is too small would kill it twice.
func (d *DB) Query(ctx context.Context, statement pgpolicy.Approved) (Table, error) {
	if d.settings.MaxCost > 0 {
		if err := d.affordable(ctx, statement); err != nil {
			return Table{}, err
		}
	}
	return d.run(ctx, job{
		text: statement.Text(), rows: statement.MaxRows(), bytes: d.settings.ResultBytes, plan: statement.Explain(),
		server: statement.Server(),
	})
}

// job is one statement for the server.
type job struct {
	text        string
	rows, bytes int
	plan        bool // it has no LIMIT of its own: more rows than the bound are dropped
	server      int  // the oldest major version that it may be sent to
}

func (d *DB) run(ctx context.Context, j job) (Table, error) {
	for attempt := 0; ; attempt++ {
		r, err := d.acquire(ctx)
		if err != nil {
			return Table{}, err
		}
		if major(r.Value().ParameterStatus("server_version")) < j.server {
			r.ReleaseUnused()
			return Table{}, problem.New(problem.BadSQL, fmt.Sprintf("the query has syntax of PostgreSQL %d (JSON_VALUE, JSON_ARRAY "+
				"and the like), and the server is older: it would read it as something else", j.server), query)
		}
		f := flight{db: d, conn: r.Value(), job: j, begun: time.Now()}
		// The server itself must have ended the statement before this: it or the network is gone, or a pooler has no
		// connection free.
		limit, cancel := context.WithTimeout(ctx, d.settings.QueryTimeout+cancelWait)
		r.Value().meter.left.Store(flightBytes(max(d.settings.ResultBytes, j.bytes)))
		broken := false
		err = func() error {
			defer func() { // also behind a panic: the connection would be missing for ever
				broken = f.conn.IsClosed() // now: released, it is somebody else's
				d.release(r, f.clean)
			}()
			return f.fly(limit)
		}()
		silent := limit.Err() != nil
		cancel()
		if err == nil {
			return f.table, nil
		}
		if broken && lost(err) {
			d.pool.Reset() // the others are broken, too, or will be soon
			if attempt == 0 && !silent && f.mayRepeat(err) {
				continue
			}
		}
		if silent && ctx.Err() == nil {
			return Table{}, problem.New(problem.StatementTimeout, "the database, or a pooler in between, did not answer within its "+
				"time limit; repeat, or ask for less", query)
		}
		return Table{}, refusal(ctx, err)
	}
}

func (d *DB) release(r *puddle.Resource[*conn], clean bool) {
	if !clean || r.Value().IsClosed() {
		r.Destroy()
		return
	}
	r.Release()
}

// lost says of an error that has come with the end of the connection that it is the reason, and not the statement.
func lost(err error) bool {
	var tooLong *pgproto3.ExceededMaxBodyLenErr
	return !errors.As(err, &tooLong) && !errors.Is(err, errEscaped) && !errors.Is(err, errTooMany)
}

// repeatWithin is how long a statement may have run to be run again: who ends one that has run for longer may have meant it.
const repeatWithin = time.Second

// mayRepeat says whether a flight that has lost its connection may be flown again.
func (f *flight) mayRepeat(err error) bool {
	var server *pgconn.PgError
	return !f.landed && time.Since(f.begun) < repeatWithin && errors.As(err, &server) && server.Code == "57P01"
}

var (
	// errEscaped: the caller's statement ended the transaction that was put around it.
	errEscaped = errors.New("run statement: the transaction ended inside the statement")
	// errTooMany: more rows came than the statement could give, so it is not the one that was approved.
	errTooMany = errors.New("run statement: more rows than were approved")
	// errUnpinned: a step before the statement did not answer as it must, so the statement, had it run, would have run with
	// other settings than ours; the server skips it, and the caller is not to blame.
	errUnpinned = errors.New("run statement: the session could not be pinned")
)

// flight is one statement on its way.
type flight struct {
	db   *DB
	conn *conn
	job  job

	begun  time.Time
	table  Table
	landed bool // a row has come
	ended  bool // the server has ended a statement at our request, or at its time limit
	clean  bool // the session is as it was at its start
}

// fly sends all and reads all. Where it fails the connection is not clean, unless the server refused the statement and
// everything after it went well.
func (f *flight) fly(ctx context.Context) error {
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	p := f.conn.StartPipeline(stop)
	p.SendQueryParams(begin, nil, nil, nil, nil)
	p.SendQueryParams(f.conn.limits, nil, nil, nil, nil)
	p.SendQueryParams(f.job.text, nil, nil, nil, nil)
	p.SendPipelineSync()
	p.SendQueryParams(rollback, nil, nil, nil, nil)
	p.SendPipelineSync()
	if !f.db.settings.Pooler {
		p.SendQueryParams(discard, nil, nil, nil, nil)
		p.SendPipelineSync()
	}
	if err := p.Flush(); err != nil {
		return err
	}
	outcome := f.read(p, cancel)
	escaped := f.conn.TxStatus() == idle && !f.conn.IsClosed()
	rest := f.land(p)
	if err := p.Close(); rest == nil {
		rest = err
	}
	if escaped {
		f.db.settings.Log.Log(ctx, level, "the statement ended its transaction", "consequence", "connection destroyed")
		return errEscaped
	}
	// A cancel request that has ended nothing came too late, or is to come: it must not meet the next statement.
	f.clean = rest == nil && f.conn.TxStatus() == idle && (stop.Err() == nil || f.ended)
	return outcome
}

// idle is the transaction status outside of a transaction (PostgreSQL protocol, ReadyForQuery).
const idle = 'I'

// read takes the answers up to the first synchronisation point. It returns the first error; what follows one on the
// server is skipped up to that point.
func (f *flight) read(p *pgconn.Pipeline, stop context.CancelFunc) error {
	var first error
	for step := 0; ; step++ {
		answer, err := p.GetResults()
		if err != nil {
			if first == nil {
				first = before(step, err)
			}
			if !f.survives(err) {
				return first
			}
			continue
		}
		switch r := answer.(type) {
		case *pgconn.PipelineSync:
			if first == nil && step < steps {
				return errUnpinned
			}
			return first
		case *pgconn.ResultReader:
			if err := f.take(step, r, stop); err != nil && first == nil {
				first = before(step, err)
			}
			if f.conn.IsClosed() {
				return first // also nil: a row was too long
			}
		default:
			return errUnpinned
		}
	}
}

// before marks what goes wrong before the caller's statement, unless it is the server that ends or is out of something
// (classes 08, 40, 53 and 57, as for any statement).
func before(step int, err error) error {
	var server *pgconn.PgError
	if step >= statement || !errors.As(err, &server) {
		return err
	}
	switch server.Code[:min(2, len(server.Code))] {
	case "08", "40", "53", "57":
		return err
	}
	return fmt.Errorf("%w (SQLSTATE %s)", errUnpinned, printable(server.Code))
}

// survives says whether the connection goes on after an error.
func (f *flight) survives(err error) bool {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return false
	}
	f.ended = f.ended || server.Code == cancelled
	return !f.conn.IsClosed()
}

// cancelled is the SQLSTATE of a statement that the server has ended at the client's request or at a time limit.
const cancelled = "57014"

// close takes the rest of an answer.
func (f *flight) close(r *pgconn.ResultReader) error {
	_, err := r.Close()
	if err != nil {
		_ = f.survives(err) // whoever reads on will see
	}
	return err
}

// steps are the answers before the first synchronisation point; the last is the statement's.
const (
	statement = 2
	steps     = statement + 1
)

func (f *flight) take(step int, r *pgconn.ResultReader, stop context.CancelFunc) error {
	switch step {
	case 1:
		return f.pinned(r)
	case 2:
		return f.rows(r, stop)
	}
	return f.close(r)
}

func (f *flight) pinned(r *pgconn.ResultReader) error {
	if !r.NextRow() || len(r.Values()) == 0 {
		return errors.Join(errUnpinned, f.close(r))
	}
	f.table.InRecovery = string(r.Values()[0]) == "t"
	return f.close(r)
}

// rows encodes rows up to the bounds. One beyond them shows that there are more and is not kept; a statement that goes on
// has lost its LIMIT on the way, and is stopped.
func (f *flight) rows(r *pgconn.ResultReader, stop context.CancelFunc) error {
	fields := r.FieldDescriptions()
	if len(fields) > maxColumns {
		stop()
		_ = f.close(r) // it is stopped, and that is the error
		return errTooMany
	}
	columns := make([]rowjson.Column, len(fields))
	for i, field := range fields {
		columns[i] = rowjson.Column{Name: field.Name, OID: field.DataTypeOID}
		f.table.Columns = append(f.table.Columns, field.Name)
		f.table.Types = append(f.table.Types, rowjson.TypeName(field.DataTypeOID))
	}
	encoder := rowjson.New(columns, rowjson.Limits{Rows: f.job.rows, Bytes: f.job.bytes})
	over := false
	for n := 0; r.NextRow(); n++ {
		f.landed = true
		if over = n > f.job.rows+spareRows; over {
			stop()
			break
		}
		encoder.Row(r.Values())
	}
	err := f.close(r)
	switch {
	case over && f.job.plan:
		err = nil // that it was stopped
	case over:
		return errTooMany
	}
	f.table.Rows, f.table.Count, f.table.Flagged = encoder.JSON(), encoder.Count(), encoder.Flagged()
	f.table.TruncatedBy = encoder.Truncated()
	var tooLong *pgproto3.ExceededMaxBodyLenErr
	if f.conn.meter.inRow() && (errors.As(err, &tooLong) || errors.Is(err, errFlood)) {
		// The row that is too long is not kept, nor is what follows; the rows before it are whole.
		f.table.TruncatedBy = "size"
		return nil
	}
	return err
}

// maxColumns is how many columns a result can have (PostgreSQL, MaxTupleAttributeNumber); a server that says more is none.
const maxColumns = 1664

// spareRows is how many rows beyond the bound are read and dropped before the statement is stopped: a plan (EXPLAIN) has no
// LIMIT, and reading the rest of a short one is cheaper than a new connection.
const spareRows = 2000

// land reads what follows the first synchronisation point. An error means that the session may not be as it was.
func (f *flight) land(p *pgconn.Pipeline) error {
	var first error
	for !f.conn.IsClosed() {
		answer, err := p.GetResults()
		if err == nil && answer == nil {
			return first // all is read
		}
		if r, isRows := answer.(*pgconn.ResultReader); isRows {
			_, err = r.Close()
		}
		if first == nil && err != nil {
			first = fmt.Errorf("end transaction: %w", err)
		}
	}
	return errors.Join(first, pgconn.ErrConnClosed)
}
