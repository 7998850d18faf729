package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-server-suite/pkg/pgstage"
	"mcp-server-suite/pkg/problem"
)

// several is the DSN of servers in order, by their ports on 127.0.0.1, or by their sockets.
func several(db, role string, viaSocket bool, servers ...*pgstage.Server) string {
	var hosts, ports []string
	for _, s := range servers {
		host := pgstage.Host
		if viaSocket {
			host = s.SocketDir
		}
		hosts, ports = append(hosts, host), append(ports, strconv.Itoa(s.Port))
	}
	return (&url.URL{
		Scheme: "postgres", User: url.UserPassword(role, readerPassword), Path: "/" + db,
		RawQuery: url.Values{
			"host": {strings.Join(hosts, ",")}, "port": {strings.Join(ports, ",")}, "sslmode": {"disable"},
		}.Encode(),
	}).String()
}

// settle calls until a server of this kind answers, and returns how many calls have failed before. A wrong answer
// ends the test, and so does a call that takes longer than its limits.
func settle(t *testing.T, d *DB, standby bool) (failed int) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		began := time.Now()
		table, err := sumOfN(t, context.Background(), d)
		if took := time.Since(began); took > 3*d.settings.ConnectTimeout+slack/2 {
			t.Errorf("a call took %v", took)
		}
		switch {
		case err == nil && table.InRecovery == standby:
			return failed
		case err != nil:
			refused(t, err, problem.DBInterrupted, problem.DBUnavailable, problem.StatementTimeout)
			failed++
		}
		if time.Since(start) > slack {
			t.Fatalf("no server with in_recovery %v answers: %+v, %v", standby, table, err)
		}
	}
}

// TestReadsGoToAServerThatLives walks a primary and its standby through what happens to them. Before each step the pool
// is full of connections to the server that goes.
func TestReadsGoToAServerThatLives(t *testing.T) {
	t.Parallel()
	for _, viaSocket := range []bool{false, true} {
		t.Run(fmt.Sprintf("socket %v", viaSocket), func(t *testing.T) {
			t.Parallel()
			primary := pgstage.Start(t, pgstage.Options{})
			db, role := reader(t, primary, "")
			standby := primary.Standby(t) // a copy, so it has the table
			d := pool(t, several(db, role, viaSocket, primary, standby), func(s *Settings) { s.PoolSize = 3 })
			lasts := d.lifetime.Load()
			for _, step := range []struct {
				name    string
				do      func()
				standby bool // who answers then
			}{
				{"both are there", func() {}, true},
				{"the standby is killed", func() { standby.Kill(t) }, false},
				{"the standby is back, but connections last", func() { standby.Restart(t) }, false},
				{"connections have lasted", func() {
					d.lifetime.Store(int64(time.Second))
					time.Sleep(time.Second)
				}, true},
				{"the standby is stopped", func() { d.lifetime.Store(lasts); standby.Stop(t) }, false},
				{"the primary is killed, the standby back", func() { standby.Restart(t); primary.Kill(t) }, true},
				{"the standby is promoted", func() { standby.Promote(t) }, false},
				{"the new primary restarts", func() { standby.Restart(t) }, false},
			} {
				if d.lifetime.Load() == lasts {
					fillPool(t, d)
				}
				begun := time.Now()
				step.do()
				start := time.Now()
				failed := settle(t, d, step.standby)
				t.Logf("%s (%v): %d calls failed, %v", step.name, start.Sub(begun), failed, time.Since(start))
				if failed > 1 {
					t.Errorf("%s: %d calls failed", step.name, failed)
				}
			}
		})
	}
}

// TestACancelReachesTheServerOfTheConnection, which is not the first of the list: the request must go there.
func TestACancelReachesTheServerOfTheConnection(t *testing.T) {
	first, second := pgstage.Start(t, pgstage.Options{}), pgstage.Shared(t)
	db, role := reader(t, second, "")
	for _, viaSocket := range []bool{false, true} {
		first.Kill(t)
		d := pool(t, several(db, role, viaSocket, first, second), nil)
		pid := single(t, d, backend)
		first.Restart(t)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() {
			_, err := unpoliced(ctx, d, "SELECT pg_sleep(30)")
			ended <- err
		}()
		busy(t, second, db, "pg_sleep")
		cancel()
		t.Logf("idle after %v", quiet(t, second, db))
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if now := single(t, d, backend); now != pid {
			t.Errorf("socket %v: backend %s, was %s: the request went elsewhere", viaSocket, now, pid)
		}
	}
}

// quit ends a server at once (SIGQUIT, "immediate shutdown"): its backends say 57P02 and exit.
func quit(t testing.TB, s *pgstage.Server) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.DataDir, "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	await(t, "the server has ended", func() bool { return !s.Running() })
}

func TestARestartCostsNoCall(t *testing.T) {
	s := pgstage.Start(t, pgstage.Options{})
	db, role := reader(t, s, "")
	for _, viaSocket := range []bool{true, false} {
		d := pool(t, s.DSN(db, role, readerPassword, viaSocket), nil)
		for _, c := range []struct {
			name string
			end  func()
		}{
			{"fast", func() { s.Stop(t) }},
			{"immediate", func() { quit(t, s) }},
			{"killed", func() { s.Kill(t) }},
		} {
			fillPool(t, d)
			c.end()
			s.Restart(t)
			if _, err := sumOfN(t, context.Background(), d); err != nil {
				t.Errorf("socket %v, %s: %v", viaSocket, c.name, err)
			}
		}
	}
}

func TestAServerThatIsGoneSaysSoAtOnce(t *testing.T) {
	s := pgstage.Start(t, pgstage.Options{})
	db, role := reader(t, s, "")
	for _, viaSocket := range []bool{true, false} {
		d := pool(t, s.DSN(db, role, readerPassword, viaSocket), nil)
		fillPool(t, d)
		s.Stop(t)
		for range 3 {
			start := time.Now()
			_, err := sumOfN(t, context.Background(), d)
			refused(t, err, problem.DBUnavailable)
			if took := time.Since(start); took > time.Second {
				t.Errorf("took %v", took)
			}
		}
		s.Restart(t)
		if _, err := sumOfN(t, context.Background(), d); err != nil {
			t.Error(err)
		}
	}
}

func TestAConnectionThatIsEndedByTheServerCostsAtMostItsCall(t *testing.T) {
	s := pgstage.Start(t, pgstage.Options{})
	db, role := reader(t, s, "")
	d := pool(t, s.DSN(db, role, readerPassword, true), func(s *Settings) { s.PoolSize = 2 })
	terminate := func() {
		s.Exec(t, db, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '"+role+"'")
	}
	// A sleeper that is met by do must end like this, and the next call must not notice.
	met := func(t *testing.T, do func(pid string), check func(error)) {
		t.Helper()
		ended := make(chan error)
		go func() {
			_, err := unpoliced(context.Background(), d, "SELECT pg_sleep(2)")
			ended <- err
		}()
		do(busy(t, s, db, "pg_sleep"))
		select {
		case err := <-ended:
			check(err)
		case <-time.After(slack):
			t.Fatal("no answer")
		}
	}
	t.Run("idle terminated", func(t *testing.T) {
		fillPool(t, d)
		terminate()
		if _, err := sumOfN(t, context.Background(), d); err != nil {
			t.Error(err)
		}
	})
	t.Run("idle timed out", func(t *testing.T) { // 57P05
		s.Exec(t, db, "ALTER ROLE "+role+" SET idle_session_timeout = '200ms'")
		terminate()
		if _, err := sumOfN(t, context.Background(), d); err != nil {
			t.Error(err)
		}
		await(t, "the server has closed them", func() bool {
			return s.Query(t, db, "SELECT count(*) FROM pg_stat_activity WHERE usename = '"+role+"'")[0][0] == "0"
		})
		if _, err := sumOfN(t, context.Background(), d); err != nil {
			t.Error(err)
		}
		s.Exec(t, db, "ALTER ROLE "+role+" RESET idle_session_timeout")
		terminate()
	})
	t.Run("busy terminated", func(t *testing.T) {
		met(t, func(string) { terminate() }, func(err error) {
			if err != nil { // it runs again: the server may be shutting down, and another one take over
				t.Error(err)
			}
		})
	})
	t.Run("busy killed", func(t *testing.T) {
		met(t, func(pid string) {
			n, err := strconv.Atoi(pid)
			if err == nil {
				err = syscall.Kill(n, syscall.SIGKILL)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, func(err error) { refused(t, err, problem.DBInterrupted) }) // run again, it would have ended well
		// All other backends have been ended, too, and the server recovers.
		await(t, "the server has seen it", func() bool { return strings.Contains(s.Log(), "was terminated by signal 9") })
		await(t, "the server is back", func() bool {
			_, err := pgstage.QueryAt(s.DSN(db, "postgres", "", true), "SELECT 1")
			return err == nil
		})
		if _, err := sumOfN(t, context.Background(), d); err != nil {
			t.Error(err)
		}
	})
}

// TestALookAtAConnectionDoesNotWait: somebody else may be reading from it, see silent.
func TestALookAtAConnectionDoesNotWait(t *testing.T) {
	d, s, db, role := readerPool(t, "", func(s *Settings) { s.PoolSize = 1 })
	pid := single(t, d, backend)
	r, err := d.acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	c := r.Value()
	r.Release()
	read := make(chan error)
	go func() {
		_, err := c.Conn().Read(make([]byte, 1))
		read <- err
	}()
	time.Sleep(50 * time.Millisecond) // it reads
	looked := make(chan bool)
	go func() { looked <- c.silent() }()
	select {
	case silent := <-looked:
		if !silent {
			t.Error("something is said to have come")
		}
	case <-time.After(slack):
		t.Fatal("the look has not ended")
	}
	s.Exec(t, db, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '"+role+"'")
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the connection is seen", func() bool { return !c.silent() })
	if now := single(t, d, backend); now == pid {
		t.Error("the connection is still used")
	}
}

// TestASilentServerIsNotWaitedForLong: connections are accepted and nothing comes back, as behind a firewall that has
// forgotten them, or of a host that is frozen.
func TestASilentServerIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	s := pgstage.Shared(t)
	db, role := reader(t, s, "")
	for _, viaSocket := range []bool{false, true} {
		t.Run(fmt.Sprintf("socket %v", viaSocket), func(t *testing.T) {
			t.Parallel()
			proxy := pgstage.NewProxy(t, s.Address(true))
			folder := ""
			if viaSocket {
				folder = proxy.SocketDir
			}
			d := pool(t, pgstage.DSNAt(proxy.Port, folder, db, role, readerPassword), func(s *Settings) {
				s.ConnectTimeout, s.QueryTimeout = 2*time.Second, time.Second
			})
			// silent calls once, which must end within the limit, and twice when the server speaks again.
			silent := func(name string, limit time.Duration, call func() error, check func(error)) {
				start := time.Now()
				err := call()
				check(err)
				took := time.Since(start)
				t.Logf("%s: %v after %v", name, err, took)
				if took > limit {
					t.Errorf("%s: took %v of %v", name, took, limit)
				}
				proxy.Resume()
				for range 2 {
					if _, err := sumOfN(t, context.Background(), d); err != nil {
						t.Errorf("%s: afterwards: %v", name, err)
					}
				}
			}
			ask := func() error {
				_, err := sumOfN(t, context.Background(), d)
				return err
			}
			const most = 500 * time.Millisecond // beside the limits
			proxy.Pause()
			silent("before connecting", 4*time.Second+most, ask, func(err error) { refused(t, err, problem.DBUnavailable) })
			fillPool(t, d)
			proxy.Pause()
			silent("idle", time.Second+2*cancelWait+most, ask, func(err error) { refused(t, err, problem.StatementTimeout) })
			fillPool(t, d)
			proxy.Pause()
			silent("idle, with a deadline", 300*time.Millisecond+cancelWait+most, func() error {
				ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
				defer cancel()
				_, err := sumOfN(t, ctx, d)
				return err
			}, func(err error) {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
			fillPool(t, d)
			silent("in the middle of a query", time.Second+2*cancelWait+most, func() error {
				time.AfterFunc(300*time.Millisecond, proxy.Pause)
				_, err := unpoliced(context.Background(), d, "SELECT pg_sleep(0.6)")
				return err
			}, func(err error) { refused(t, err, problem.StatementTimeout) })
			fillPool(t, d)
			silent("reset in the middle of a query", time.Second, func() error {
				time.AfterFunc(300*time.Millisecond, proxy.Cut)
				_, err := unpoliced(context.Background(), d, "SELECT pg_sleep(0.6)")
				return err
			}, func(err error) { refused(t, err, problem.DBInterrupted) })
			fillPool(t, d)
			proxy.Cut()
			silent("all idle reset", time.Second, ask, func(err error) {
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestASilentStandbyCostsOneCall: the primary behind it in the list answers the next one, with connections to the
// standby still in the pool.
func TestASilentStandbyCostsOneCall(t *testing.T) {
	t.Parallel()
	s := pgstage.Shared(t)
	db, role := reader(t, s, "")
	proxy := pgstage.NewProxy(t, s.Address(true))
	dsn := fmt.Sprintf("postgres://%s@127.0.0.1:%d,127.0.0.1:%d/%s?sslmode=disable&target_session_attrs=any",
		url.UserPassword(role, readerPassword), proxy.Port, s.Port, db)
	d := pool(t, dsn, func(s *Settings) { s.ConnectTimeout, s.QueryTimeout = time.Second, time.Second })
	fillPool(t, d)
	if n := proxy.Connections(); n != d.settings.PoolSize {
		t.Fatalf("%d connections go to the first host", n)
	}
	proxy.Pause()
	if failed := settle(t, d, false); failed != 1 {
		t.Errorf("%d calls failed", failed)
	}
	if _, err := sumOfN(t, context.Background(), d); err != nil {
		t.Error(err)
	}
}

func TestARotatedPasswordIsReadFromTheFile(t *testing.T) {
	s := pgstage.Shared(t)
	db, role := reader(t, s, "")
	file := filepath.Join(t.TempDir(), "dsn")
	write := func(dsn string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(dsn+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write(s.DSN(db, role, readerPassword, false))
	log := &strings.Builder{}
	d := pool(t, "", func(s *Settings) { s.DSNFile, s.Log = file, textLog(log) })
	fillPool(t, d)
	drop := func() {
		s.Exec(t, db, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '"+role+"'")
	}
	s.Exec(t, db, "ALTER ROLE "+role+" PASSWORD 'another one'")
	if _, err := sumOfN(t, context.Background(), d); err != nil {
		t.Errorf("connections that are open need no password: %v", err)
	}
	drop()
	_, err := sumOfN(t, context.Background(), d)
	refused(t, err, problem.DBRejected)
	write(s.DSN(db, role, "another one", false))
	if _, err := sumOfN(t, context.Background(), d); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
	// Another server in the file was never asked for leave.
	elsewhere, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	accepted := make(chan struct{}, 100)
	go func() {
		for {
			c, err := elsewhere.Accept()
			if err != nil {
				return
			}
			accepted <- struct{}{}
			_ = c.Close() // it has said all
		}
	}()
	port := elsewhere.Addr().(*net.TCPAddr).Port
	write(pgstage.DSNAt(port, "", db, role, "another one"))
	drop()
	var known *problem.Problem
	if _, err = sumOfN(t, context.Background(), d); err == nil || errors.As(err, &known) {
		t.Errorf("got %v, want a fault", err)
	}
	if !strings.Contains(log.String(), "another server") {
		t.Errorf("the log does not tell why: %s", log)
	}
	if len(accepted) > 0 {
		t.Error("the other server was called")
	}
	for _, secret := range []string{readerPassword, url.QueryEscape(readerPassword), "another one"} {
		if strings.Contains(log.String(), secret) {
			t.Error("the log holds a password")
		}
	}
	write(s.DSN(db, role, "another one", false))
	if _, err := sumOfN(t, context.Background(), d); err != nil {
		t.Errorf("with the old server again: %v", err)
	}
}
