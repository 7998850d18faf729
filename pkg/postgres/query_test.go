package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-server-suite/pkg/pgstage"
	"mcp-server-suite/pkg/problem"
)

const backend = "SELECT pg_backend_pid()"

func TestACancelledStatementEndsOnTheServerAndTheConnectionStays(t *testing.T) {
	d, s, db, _ := readerPool(t, "", func(s *Settings) { s.QueryTimeout = time.Minute })
	for _, c := range []struct{ name, sql, why string }{
		{"series", "SELECT count(*) FROM generate_series(1, 1000000000000)", "it fills a temporary file"},
		{"cross join", "SELECT count(*) FROM n a, n b, n c, n d, n e, n f", "it computes"},
		{"large values", "SELECT sum(length(repeat('x' || i, 60000000))) FROM n", "it fills memory"},
		{"sleep", "SELECT pg_sleep(100)", "it waits"},
	} {
		for _, way := range []string{"cancel", "deadline"} {
			t.Run(c.name+" "+way, func(t *testing.T) {
				// The backend's number shows as a comment, which pg_stat_activity keeps.
				pid := single(t, d, backend)
				ctx, cancel := context.WithCancelCause(context.Background())
				want := context.Canceled
				if way == "deadline" {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, 700*time.Millisecond)
					defer stop()
					want = context.DeadlineExceeded
				}
				ended := make(chan error)
				go func() {
					_, err := unpoliced(ctx, d, c.sql)
					ended <- err
				}()
				if way == "cancel" {
					busy(t, s, db, c.sql[:12])
					cancel(nil)
				} else {
					<-ctx.Done()
				}
				idle := quiet(t, s, db)
				err := <-ended
				cancel(nil)
				if !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
				t.Logf("idle after %v (%s)", idle, c.why)
				if now := single(t, d, backend); now != pid {
					t.Errorf("backend %s, was %s", now, pid)
				}
			})
		}
	}
}

// TestACancelNeverReachesALaterStatement: 200 statements are cancelled at any moment of their lives, each followed on
// the same connection by one that must not notice.
func TestACancelNeverReachesALaterStatement(t *testing.T) {
	d, _, _, _ := readerPool(t, "", nil)
	fillPool(t, d)
	var cancelled, answered atomic.Int32
	var all sync.WaitGroup
	for worker := range d.settings.PoolSize {
		all.Go(func() {
			for i := range 50 {
				want := strconv.Itoa(worker*1000 + i)
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(4000))*time.Microsecond)
				table, err := unpoliced(ctx, d, "SELECT "+want+" FROM (SELECT pg_sleep(0.003)) s")
				cancel()
				switch {
				case err == nil && onlyValue(t, table) == want:
					answered.Add(1)
				case err != nil && errors.Is(err, context.DeadlineExceeded):
					cancelled.Add(1)
				default:
					t.Errorf("statement %s: %s, %v", want, table.Rows, err)
				}
				table, err = unpoliced(context.Background(), d, "SELECT -"+want+" FROM (SELECT pg_sleep(0.01)) s")
				if err != nil || onlyValue(t, table) != strings.TrimPrefix("-"+want, "-0") && want != "0" {
					t.Errorf("statement after %s: %s, %v", want, table.Rows, err)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d cancelled, %d answered before", cancelled.Load(), answered.Load())
	if cancelled.Load() < 20 {
		t.Error("hardly anything was cancelled")
	}
}

// TestALateCancelFindsNobody: a cancel request that is still under way when its statement has ended by itself would end
// the next one of the connection. Here it travels for 2.4 s, longer than anybody waits for it, and arrives 0.4 s after
// the next statement has begun.
func TestALateCancelFindsNobody(t *testing.T) {
	t.Parallel()
	d, s, _, _ := readerPool(t, "", nil)
	detour := pgstage.NewProxy(t, s.Address(true))
	detour.Delay(1200 * time.Millisecond) // to connect, and again for what is sent
	var slow atomic.Bool
	dial := d.base.DialFunc
	d.base.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if slow.Load() {
			network, address = "tcp", net.JoinHostPort(pgstage.Host, strconv.Itoa(detour.Port))
		}
		return dial(ctx, network, address)
	}
	pid := single(t, d, backend)
	slow.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := unpoliced(ctx, d, "SELECT pg_sleep(0.3)"); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	slow.Store(false)
	if _, err := unpoliced(context.Background(), d, "SELECT pg_sleep(1)"); err != nil {
		t.Errorf("the next statement was hit: %v", err)
	}
	if now := single(t, d, backend); now == pid {
		t.Error("the connection is still used")
	}
}

func TestTheSmallerTimeLimitWins(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, role string
		ours       time.Duration
		want       string
		why        string
	}{
		{"ours", "10s", 300 * time.Millisecond, "300ms", "the role's is the design's"},
		{"the role's", "300ms", 5 * time.Second, "300ms", "its owner wants less than we would allow"},
		{"none of the role", "0", 300 * time.Millisecond, "300ms", "0 is no limit and not the smallest one"},
		{"in other units", "2min", time.Hour, "2min", "the setting shows with the unit that fits"},
		{"in hours", "1d", time.Hour, "1h", "the same"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := pgstage.Shared(t)
			db, role := reader(t, s, "")
			s.Exec(t, db, "ALTER ROLE "+role+" SET statement_timeout = '"+c.role+"'")
			d := pool(t, s.DSN(db, role, readerPassword, true), func(s *Settings) {
				s.QueryTimeout = c.ours
				s.AllowUnsafeRole = true // on a busy machine the look at the role takes longer than the role's 300 ms
			})
			if got := single(t, d, "SELECT current_setting('statement_timeout')"); got != c.want {
				t.Errorf("got %s, want %s: %s", got, c.want, c.why)
			}
			if c.want != "300ms" {
				return
			}
			pid, start := single(t, d, backend), time.Now()
			_, err := unpoliced(context.Background(), d, "SELECT pg_sleep(60)")
			refused(t, err, problem.StatementTimeout)
			if took := time.Since(start); took < 300*time.Millisecond || took > 3*time.Second {
				t.Errorf("took %v", took)
			}
			if now := single(t, d, backend); now != pid {
				t.Errorf("backend %s, was %s", now, pid)
			}
		})
	}
}

func TestALockIsNotWaitedForLong(t *testing.T) {
	d, s, db, _ := readerPool(t, "", nil)
	owner := bare(t, s.DSN(db, "postgres", "", true))
	if _, err := owner.Exec(context.Background(), "BEGIN; LOCK TABLE n IN ACCESS EXCLUSIVE MODE").ReadAll(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err := sumOfN(t, context.Background(), d)
	refused(t, err, problem.StatementTimeout)
	if took := time.Since(start); took < lockWait || took > lockWait+slack/2 {
		t.Errorf("took %v", took)
	}
	if _, err := owner.Exec(context.Background(), "ROLLBACK").ReadAll(); err != nil {
		t.Fatal(err)
	}
	if _, err := sumOfN(t, context.Background(), d); err != nil {
		t.Error(err)
	}
}

func TestAStatementThatLeavesItsTransactionCostsTheConnection(t *testing.T) {
	for _, text := range []string{"COMMIT", "ROLLBACK", "END"} {
		t.Run(text, func(t *testing.T) {
			log := &strings.Builder{}
			d, _, _, _ := readerPool(t, "", func(s *Settings) { s.Log = textLog(log) })
			pid := single(t, d, backend)
			_, err := unpoliced(context.Background(), d, text)
			if !errors.Is(err, errEscaped) {
				t.Errorf("got %v, want %v", err, errEscaped)
			}
			if now := single(t, d, backend); now == pid {
				t.Error("the connection is still used")
			}
			if n := strings.Count(log.String(), "the statement ended its transaction"); n != 1 {
				t.Errorf("logged %d times: %s", n, log)
			}
		})
	}
}

// TestARefusedStatementLeavesTheConnection: what is the statement's fault must not cost a connection.
func TestARefusedStatementLeavesTheConnection(t *testing.T) {
	d, s, db, role := readerPool(t, "CREATE TABLE w (i int); CREATE TABLE hidden (i int);", nil)
	s.Exec(t, db, "REVOKE ALL ON hidden FROM "+role)
	pid := single(t, d, backend)
	for _, c := range []struct {
		sql    string
		reason problem.Reason
		why    string
	}{
		{"SELECT 1/0", problem.QueryFailed, "22012 while it runs"},
		{"SELECT nothing FROM n", problem.QueryFailed, "42703 while it is parsed"},
		{"INSERT INTO w VALUES (1)", problem.UnsafeQuery, "25006 comes before the look at the rights"},
		{"TABLE hidden", problem.DBDenied, "no right"},
		{"SELECT 1/(i - 50) FROM n ORDER BY i", problem.QueryFailed, "after rows have come"},
		{"SELECT $1", problem.QueryFailed, "a parameter that has no value"},
		{"SELECT 1; SELECT 2", problem.QueryFailed, "two statements: the extended protocol takes one"},
		{"BEGIN", problem.QueryFailed, "only a warning: there is a transaction"},
		{"CREATE TEMP TABLE x (i int)", problem.UnsafeQuery, "25006"},
	} {
		_, err := unpoliced(context.Background(), d, c.sql)
		if c.sql == "BEGIN" {
			if err != nil {
				t.Errorf("%s: %v", c.sql, err)
			}
		} else if refused(t, err, c.reason, problem.DBRejected); t.Failed() {
			t.Fatalf("%s: %v (%s)", c.sql, err, c.why)
		}
		if now := single(t, d, backend); now != pid {
			t.Errorf("%s: backend %s, was %s", c.sql, now, pid)
			pid = now
		}
	}
}

func TestAResultEndsAtItsRows(t *testing.T) {
	d, _, _, _ := readerPool(t, "", nil)
	for _, c := range []struct {
		sql, by string
		count   int
	}{
		{"SELECT i FROM n WHERE i <= 49", "", 49},
		{"SELECT i FROM n WHERE i <= 50", "", 50},
		{"SELECT i FROM n WHERE i <= 51", "rows", 50},
		{"SELECT i FROM n LIMIT 50", "", 50},
		{"SELECT i FROM n LIMIT 51", "rows", 50},
		{"SELECT i FROM n WHERE i > 100", "", 0},
	} {
		table, err := d.Query(context.Background(), approved(t, c.sql, 50))
		if err != nil || table.Count != c.count || table.TruncatedBy != c.by {
			t.Errorf("%s: %d rows, truncated by %q, %v; want %d, %q", c.sql, table.Count, table.TruncatedBy, err, c.count, c.by)
		}
	}
}

// allocated is how many bytes f makes this process allocate.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestARunawayResultIsStopped(t *testing.T) {
	d, s, db, _ := readerPool(t, "", nil)
	pid := single(t, d, backend)
	start := time.Now()
	var err error
	bytes := allocated(func() {
		_, err = unpoliced(context.Background(), d, "SELECT generate_series(1, 10000000), repeat('x', 100)")
	})
	if !errors.Is(err, errTooMany) {
		t.Errorf("got %v, want %v", err, errTooMany)
	}
	t.Logf("%v, %d KiB allocated", time.Since(start), bytes>>10)
	if took := time.Since(start); took > 3*time.Second || bytes > 16<<20 {
		t.Errorf("%v, %d bytes allocated", took, bytes)
	}
	quiet(t, s, db)
	if now := single(t, d, backend); now != pid {
		t.Errorf("backend %s, was %s", now, pid)
	}
}

func TestARowThatIsTooLongEndsTheResultBeforeItself(t *testing.T) {
	d, s, db, _ := readerPool(t, "", nil)
	for _, c := range []struct {
		name, sql string
		count     int
	}{
		{"first", "SELECT repeat('x', i * 3000000) FROM n WHERE i = 100", 0},
		{"third", "SELECT i, repeat('x', CASE i WHEN 3 THEN i * 20000000 ELSE 10 END) FROM n ORDER BY i", 2},
		{"each a little", "SELECT repeat('x', 250000) FROM n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			statement := approved(t, c.sql, 50)
			single(t, d, "SELECT 1")
			var table Table
			var err error
			bytes := allocated(func() { table, err = d.Query(context.Background(), statement) })
			if err != nil || table.TruncatedBy != "size" || table.Count != c.count {
				t.Errorf("%d rows, truncated by %q, %v; want %d", table.Count, table.TruncatedBy, err, c.count)
			}
			t.Logf("%d KiB allocated", bytes>>10)
			if bytes > 16<<20 {
				t.Errorf("%d bytes allocated", bytes)
			}
			quiet(t, s, db)
			if _, err := sumOfN(t, context.Background(), d); err != nil {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

// longRunVariable asks for ten times as many calls.
const longRunVariable = "MCP_TEST_LONG"

func TestManyCallsLeaveNothingBehind(t *testing.T) {
	calls := 10_000
	if os.Getenv(longRunVariable) != "" {
		calls = 100_000
	}
	d, s, db, _ := readerPool(t, "", nil)
	p, err := onePolicy()
	if err != nil {
		t.Fatal(err)
	}
	call := func(i int) {
		sql := []string{
			"SELECT %d, i FROM n LIMIT 10", "SELECT count(*) + %d FROM n a JOIN n b USING (i)",
			"SELECT 1/(%d - i) FROM n WHERE i < 0", "SELECT nothing_%d FROM n", "SELECT repeat('x', %d) FROM n",
			"SELECT '{\"a\": %d}'::jsonb", "DELETE FROM n WHERE i = %d",
		}[i%7]
		ctx := context.Background()
		if i%500 == 0 { // each costs 100 ms, see ctxwatch in pgconn
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			sql = "SELECT count(*) + %d FROM n a, n b, n c, n d"
		}
		statement, err := p.Approve(ctx, fmt.Sprintf(sql, i), 50)
		if err == nil {
			_, err = d.Query(ctx, statement)
		}
		if fails := i%7 == 3 || i%7 == 6 || i%500 == 0; err != nil && !fails {
			t.Errorf("%s: %v", fmt.Sprintf(sql, i), err)
		}
	}
	run := func(from, to int) (resident int, goroutines int) {
		var all sync.WaitGroup
		for worker := range 4 {
			all.Go(func() {
				for i := from + worker; i < to; i += 4 {
					call(i)
				}
			})
		}
		all.Wait()
		runtime.GC()
		return residentBytes(t), runtime.NumGoroutine()
	}
	warm, routines := run(1, calls/5)
	end, after := run(calls/5, calls)
	t.Logf("resident: %d KiB after %d calls, %d KiB after %d", warm>>10, calls/5, end>>10, calls)
	if end-warm > 16<<20 || after > routines+8 {
		t.Errorf("resident %d bytes, was %d; %d goroutines, were %d", end, warm, after, routines)
	}
	quiet(t, s, db)
}

// residentBytes is the second number of /proc/self/statm (proc(5)).
func residentBytes(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// PostgreSQL 17 has JSON_SCALAR(1) as syntax; an older server calls whatever function has that name on the search path.
func TestSyntaxThatTheServerDoesNotKnowIsNotSentToIt(t *testing.T) {
	t.Parallel()
	d, s, db, role := readerPool(t, `
		CREATE TABLE called (a int);
		CREATE FUNCTION public.json_scalar(int) RETURNS text LANGUAGE sql AS $$SELECT 'called'$$;
		CREATE FUNCTION public.json_array(int, int) RETURNS text LANGUAGE sql AS $$SELECT 'called'$$;`, nil)
	s.Exec(t, db, "GRANT EXECUTE ON FUNCTION public.json_scalar(int), public.json_array(int, int) TO "+role)
	d.settings.AllowUnsafeRole = true // it may call functions, and that is the point
	for _, c := range []struct {
		sql   string
		since int
	}{{"SELECT JSON_SCALAR(1)", 17}, {"SELECT JSON_ARRAY(1, 2)", 16}} {
		statement := approved(t, c.sql, 50)
		if statement.Server() != c.since {
			t.Errorf("%s needs %d", c.sql, statement.Server())
		}
		table, err := d.Query(context.Background(), statement)
		switch {
		case s.Version < c.since:
			refused(t, err, problem.BadSQL)
		case err != nil || strings.Contains(string(table.Rows), "called"):
			t.Errorf("%s: %s, %v", c.sql, table.Rows, err)
		}
		if s.Version < c.since { // the control
			if got := single(t, d, c.sql); got != "called" {
				t.Errorf("%s without the rule: %s", c.sql, got)
			}
		}
	}
	d.settings.MaxCost = 1e6
	if s.Version < 17 {
		_, err := d.Query(context.Background(), approved(t, "SELECT JSON_SCALAR(1)", 50))
		refused(t, err, problem.BadSQL)
	}
	if n := d.pool.Stat().AcquiredResources(); n != 0 {
		t.Errorf("%d connections are missing", n)
	}
}

func TestAVersionIsItsFirstNumber(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"15.18 (Debian 15.18-0+deb12u1)": 15, "19beta1": 19, "16": 16, "": 0, "x": 0, "devel 17": 0} {
		if got := major(text); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}
