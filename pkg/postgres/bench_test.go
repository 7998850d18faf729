package postgres

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"mcp-server-suite/pkg/pgstage"
)

const benchTables = `
CREATE TABLE fifty AS SELECT i AS id, 'customer ' || i AS name, i * 12.34 AS total, i % 2 = 0 AS active,
	timestamptz '2024-01-01 10:00+00' + i * interval '1 hour' AS created,
	i / 3.0::float8 AS ratio FROM generate_series(1, 50) i;
CREATE TABLE facts AS SELECT i, i % 100 AS k, i * 1.5::float8 AS v FROM generate_series(1, 600000) i;
ANALYZE;
`

// BenchmarkQuery compares a call of ours with the same text on a bare connection over the same socket, which pins
// nothing and is in no transaction. They take turns call by call, so that both meet the same load of the machine: the
// unit "ratio" is the one of the medians.
//
//	go test -run '^$' -bench Query -benchtime 2000x ./pkg/postgres
func BenchmarkQuery(b *testing.B) {
	s := pgstage.Shared(b)
	db, role := reader(b, s, benchTables)
	dsn := s.DSN(db, role, readerPassword, true)
	for _, c := range []struct {
		name, sql string
		pooler    bool
	}{
		{"one", "SELECT 1", false},
		{"one without DISCARD ALL", "SELECT 1", true},
		{"fifty rows", "SELECT * FROM fifty ORDER BY id", false},
		{"aggregate", "SELECT k, sum(v), count(*) FROM facts GROUP BY k ORDER BY k LIMIT 10", false},
	} {
		b.Run(c.name, func(b *testing.B) {
			d := pool(b, dsn, func(s *Settings) { s.Pooler = c.pooler })
			statement, ctx := approved(b, c.sql, 50), context.Background()
			alone := bare(b, dsn)
			var ours, theirs []time.Duration
			for b.Loop() {
				start := time.Now()
				if _, err := d.Query(ctx, statement); err != nil {
					b.Fatal(err)
				}
				half := time.Now()
				if r := alone.ExecParams(ctx, statement.Text(), nil, nil, nil, nil).Read(); r.Err != nil {
					b.Fatal(r.Err)
				}
				ours, theirs = append(ours, half.Sub(start)), append(theirs, time.Since(half))
			}
			mine, bare := median(ours), median(theirs)
			b.ReportMetric(float64(mine.Microseconds()), "us/ours")
			b.ReportMetric(float64(bare.Microseconds()), "us/bare")
			b.ReportMetric(float64(mine)/float64(bare), "ratio")
		})
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkParallel has 16 calls in flight, on as many connections as a pool has by default.
func BenchmarkParallel(b *testing.B) {
	const inFlight, connections = 16, 4
	s := pgstage.Shared(b)
	db, role := reader(b, s, benchTables)
	dsn := s.DSN(db, role, readerPassword, true)
	ctx := context.Background()
	statement := approved(b, "SELECT * FROM fifty ORDER BY id", 50)
	run := func(b *testing.B, call func() error) {
		left := atomic.Int64{}
		left.Store(int64(b.N))
		done := make(chan error, inFlight)
		b.ResetTimer()
		for range inFlight {
			go func() {
				var err error
				for err == nil && left.Add(-1) >= 0 {
					err = call()
				}
				done <- err
			}()
		}
		for range inFlight {
			if err := <-done; err != nil {
				b.Error(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	}
	b.Run("ours", func(b *testing.B) {
		d := pool(b, dsn, func(s *Settings) { s.PoolSize = connections })
		fillPool(b, d)
		run(b, func() error {
			_, err := d.Query(ctx, statement)
			return err
		})
	})
	b.Run("bare", func(b *testing.B) {
		free := make(chan *pgconn.PgConn, connections)
		for range connections {
			free <- bare(b, dsn)
		}
		run(b, func() error {
			c := <-free
			defer func() { free <- c }()
			return c.ExecParams(ctx, statement.Text(), nil, nil, nil, nil).Read().Err
		})
	})
}

// BenchmarkParts shows where the time of SELECT 1 goes: what is sent with it, part by part, on bare connections.
func BenchmarkParts(b *testing.B) {
	s := pgstage.Shared(b)
	db, role := reader(b, s, "")
	dsn := s.DSN(db, role, readerPassword, true)
	d := pool(b, dsn, func(s *Settings) { s.Log = slog.New(slog.NewTextHandler(io.Discard, nil)) })
	r, err := d.acquire(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	limits := r.Value().limits
	r.Release()
	fixed, _, _ := strings.Cut(limits, ", pg_catalog.set_config('statement_timeout'")
	four := "SELECT pg_catalog.pg_is_in_recovery()"
	for _, name := range []string{
		"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "client_connection_check_interval",
	} {
		four += ", pg_catalog.set_config('" + name + "', '1000', true)"
	}
	for _, c := range []struct {
		name string
		sent [][]string // flights of statements, each ended by a synchronisation point
	}{
		{"statement", [][]string{{"SELECT 1"}}},
		{"transaction", [][]string{{begin, "SELECT 1"}, {rollback}}},
		{"pins", [][]string{{begin, limits, "SELECT 1"}, {rollback}}},
		{"pins of settings that are constants", [][]string{{begin, fixed, "SELECT 1"}, {rollback}}},
		{"pins of four constants", [][]string{{begin, four, "SELECT 1"}, {rollback}}},
		{"recovery only", [][]string{{begin, "SELECT pg_is_in_recovery()", "SELECT 1"}, {rollback}}},
		{"recovery only and discard", [][]string{{begin, "SELECT pg_is_in_recovery()", "SELECT 1"}, {rollback}, {discard}}},
		{"discard", [][]string{{"SELECT 1"}, {discard}}},
		{"all", [][]string{{begin, limits, "SELECT 1"}, {rollback}, {discard}}},
		{"ping", [][]string{{""}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			alone := bare(b, dsn)
			for b.Loop() {
				p := alone.StartPipeline(context.Background())
				for _, group := range c.sent {
					for _, sql := range group {
						p.SendQueryParams(sql, nil, nil, nil, nil)
					}
					p.SendPipelineSync()
				}
				if err := p.Flush(); err != nil {
					b.Fatal(err)
				}
				if err := p.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
