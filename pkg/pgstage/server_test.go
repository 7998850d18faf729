package pgstage

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// holdVariable names an environment variable that makes the test binary, begun anew, hold a server and a bouncer
// until it is killed, and report them in the file that it names.
const holdVariable = "PGSTAGE_TEST_HOLD"

func TestMain(m *testing.M) {
	if report := os.Getenv(holdVariable); report != "" {
		fmt.Fprintln(os.Stderr, hold(report))
		os.Exit(1)
	}
	Main(m)
}

func hold(report string) error {
	bin, program, _ := strings.Cut(os.Getenv(holdVariable+"_PROGRAMS"), " ")
	s := &Server{options: Options{Bin: bin}}
	if err := s.create(); err != nil {
		return err
	}
	if err := (&bouncer{program: program, server: s}).create(BouncerOptions{}); err != nil {
		return err
	}
	list := s.folder + "\n" + strconv.Itoa(s.process.cmd.Process.Pid)
	if err := os.WriteFile(report+".new", []byte(list), 0o600); err != nil {
		return err
	}
	if err := os.Rename(report+".new", report); err != nil {
		return err
	}
	time.Sleep(patience)
	return errors.New("nobody has killed this process")
}

func TestNothingStaysOfAKilledTestProcess(t *testing.T) {
	t.Parallel()
	programs := Bin(t) + " " + findBouncer(t)
	report := filepath.Join(t.TempDir(), "report")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), holdVariable+"="+report, holdVariable+"_PROGRAMS="+programs)
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var folder string
	var pid int
	within(t, "the child starts a server", func() bool {
		text, err := os.ReadFile(report)
		if err != nil {
			return false
		}
		name, number, _ := strings.Cut(string(text), "\n")
		folder = filepath.Dir(name)
		pid, err = strconv.Atoi(number)
		return err == nil
	})
	if n := len(programsNaming(t, folder)); n < 3 { // the control: server, bouncer, shell
		t.Fatalf("%d programs run", n)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	within(t, "server and bouncer end", func() bool {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) && len(programsNaming(t, folder)) == 0
	})
	within(t, "the folder goes", func() bool {
		_, err := os.Stat(folder)
		return errors.Is(err, os.ErrNotExist)
	})
}

// programsNaming returns the numbers of the processes whose command line holds the text.
func programsNaming(t *testing.T, text string) []string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for _, path := range lines {
		if line, err := os.ReadFile(path); err == nil && strings.Contains(string(line), text) {
			pids = append(pids, filepath.Base(filepath.Dir(path)))
		}
	}
	return pids
}

func within(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !f(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func code(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

func TestAServerAnswersOnBothWaysAndGoesWithItsTest(t *testing.T) {
	t.Parallel()
	var s *Server
	t.Run("while the test runs", func(t *testing.T) {
		s = Start(t, Options{Settings: []string{"max_connections = 7"}})
		db := s.Database(t, "CREATE TABLE n (i int); INSERT INTO n VALUES (1), (NULL)")
		for _, viaSocket := range []bool{true, false} {
			rows, err := QueryAt(s.DSN(db, superuser, "", viaSocket), "TABLE n")
			if err != nil || !slices.EqualFunc(rows, [][]string{{"1"}, {""}}, slices.Equal) {
				t.Errorf("via socket %v: %v, %v", viaSocket, rows, err)
			}
		}
		if got := s.Query(t, db, "SHOW max_connections")[0][0]; got != "7" {
			t.Errorf("the test's own setting did not win: %s", got)
		}
		info, err := os.Stat(s.Address(true))
		if err != nil || info.Mode().Perm() != 0o777 {
			t.Errorf("the socket: %v, %v", info.Mode(), err)
		}
		if status := s.process.cmd.SysProcAttr; os.Geteuid() == 0 && status.Credential.Uid != uint32(servant().uid) {
			t.Errorf("the server runs as %d", status.Credential.Uid)
		}
	})
	if s.Running() {
		t.Error("the server still runs")
	}
	if _, err := os.Stat(s.folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is left: %v", err)
	}
}

func TestNobodyComesInWithoutAPassword(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	db := s.Database(t, "")
	name := s.Role(t, db, Reader{Password: "right"})
	for _, c := range []struct {
		name, user, password, want string
		why                        string
	}{
		{"the role's", name, "right", "", "the control"},
		{"wrong", name, "wrong", "28P01", "SCRAM is asked for"},
		{"the superuser's, wrong", superuser, "wrong", "28P01", "a superuser is an account of whoever runs the tests"},
		{"the superuser's", superuser, "", "", "DSN knows it"},
	} {
		for _, viaSocket := range []bool{true, false} {
			_, err := QueryAt(s.DSN(db, c.user, c.password, viaSocket), "SELECT 1")
			if (err == nil) != (c.want == "") || code(err) != c.want {
				t.Errorf("%s, via socket %v: %v (%s)", c.name, viaSocket, err, c.why)
			}
		}
	}
}

func TestAuthenticationIsWhatTheTestAsksFor(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{Auth: "trust"})
	name := s.Role(t, superuser, Reader{})
	if _, err := QueryAt(s.DSN(superuser, name, "", false), "SELECT 1"); err != nil {
		t.Error(err)
	}
	if _, err := QueryAt(s.DSN(superuser, superuser, "wrong", false), "SELECT 1"); code(err) != "28P01" {
		t.Errorf("the superuser came in, too: %v", err)
	}
}

func TestTLSIsCheckedInFull(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{TLSOnly: true})
	db := s.Database(t, "")
	const how = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
	dsn := s.DSN(db, superuser, "", false)
	if rows, err := QueryAt(dsn, how); err != nil || rows[0][0] != "t" {
		t.Errorf("%v, %v", rows, err)
	}
	if _, err := QueryAt(strings.Replace(dsn, Host, "localhost", 1), how); err != nil {
		t.Errorf("by name: %v", err)
	}
	plain := strings.Replace(dsn, "verify-full", "disable", 1)
	if _, err := QueryAt(plain, how); code(err) != "28000" {
		t.Errorf("without TLS: %v", err)
	}
	other := Start(t, Options{TLS: true})
	foreign := strings.Replace(dsn, strings.ReplaceAll(s.CA, "/", "%2F"), strings.ReplaceAll(other.CA, "/", "%2F"), 1)
	if _, err := QueryAt(foreign, how); foreign == dsn || err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("by an authority that has not signed it: %v", err)
	}
}

func TestTheRoleReadsItsSchemaAndNothingElse(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	db := s.Database(t, `CREATE SCHEMA reporting; CREATE SCHEMA private;
		CREATE TABLE reporting.users (id int); CREATE TABLE private.secrets (id int);
		CREATE FUNCTION reporting.evil(reporting.users) RETURNS int LANGUAGE sql AS 'SELECT 1'`)
	name := s.Role(t, db, Reader{Password: "p", Schemas: []string{"reporting"}})
	s.Exec(t, db, `CREATE TABLE reporting.later (id int);
		CREATE FUNCTION reporting.late(reporting.later) RETURNS int LANGUAGE sql AS 'SELECT 1'`)
	loose := s.Role(t, s.Database(t, ""), Reader{Password: "p"}) // the other database is not its own
	for _, c := range []struct{ user, sql, want, why string }{
		{name, "SELECT * FROM reporting.users", "", "is granted"},
		{name, "SELECT * FROM reporting.later", "", "by default privileges"},
		{name, "SELECT * FROM private.secrets", "42501", "no USAGE on the schema"},
		{name, "SET search_path = reporting; SELECT u.evil FROM reporting.users u", "42501", "a call without parentheses"},
		{name, "SET search_path = reporting; SELECT l.late FROM reporting.later l", "42501", "of a function that came later"},
		{name, "INSERT INTO reporting.users VALUES (1)", "25006", "default_transaction_read_only"},
		{name, "BEGIN READ WRITE; INSERT INTO reporting.users VALUES (1)", "42501", "no right to, either"},
		{name, "CREATE TEMP TABLE t ()", "25006", "default_transaction_read_only"},
		{name, "SELECT pg_read_file('PG_VERSION')", "42501", "no server program or file"},
		{loose, "SELECT * FROM reporting.users", "42501", "of another database"},
	} {
		if _, err := QueryAt(s.DSN(db, c.user, "p", true), c.sql); code(err) != c.want || (err != nil) != (c.want != "") {
			t.Errorf("%s: %v, want %q: %s", c.sql, err, c.want, c.why)
		}
	}
	rows := s.Query(t, db, "SELECT array_to_string(setconfig, ' ') FROM pg_db_role_setting WHERE setrole = "+
		literal(name)+"::regrole")
	want := "default_transaction_read_only=on statement_timeout=10s lock_timeout=1s " +
		"idle_in_transaction_session_timeout=15s"
	if len(rows) != 1 || rows[0][0] != want {
		t.Errorf("settings %v", rows)
	}
}

func TestARoleMayBeTheOneOfTheDesignsOwnScript(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	db := s.Database(t, `CREATE TABLE users (id int);
		CREATE FUNCTION evil(users) RETURNS int LANGUAGE sql AS 'SELECT 1'`)
	name := s.Role(t, db, Reader{Password: "p", PublicFunctions: true})
	if _, err := QueryAt(s.DSN(db, name, "p", true), "SELECT u.evil FROM users u"); err != nil {
		t.Error(err)
	}
}

func TestTheSharedServerIsOneAndForgets(t *testing.T) {
	t.Parallel()
	var db, name string
	var s *Server
	t.Run("a test", func(t *testing.T) {
		s = Shared(t)
		db = s.Database(t, "")
		name = s.Role(t, db, Reader{Name: "a Role's"})
	})
	again := Shared(t)
	if again != s {
		t.Error("there are two")
	}
	if rows := again.Query(t, superuser, "SELECT FROM pg_database WHERE datname = "+literal(db)+
		" UNION ALL SELECT FROM pg_roles WHERE rolname = "+literal(name)); len(rows) != 0 {
		t.Errorf("%d of database and role are left", len(rows))
	}
}

func TestAServerComesBackWhereItWas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(*Server, *testing.T)
	}{
		{"stopped", func(s *Server, t *testing.T) { s.Stop(t) }},
		{"killed", func(s *Server, t *testing.T) { s.Kill(t) }},
		{"running", func(*Server, *testing.T) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := Start(t, Options{})
			db := s.Database(t, "CREATE TABLE n AS SELECT 1 AS i")
			tcp, before := s.DSN(db, superuser, "", false), s.process.cmd.Process.Pid
			asleep := make(chan error, 1)
			go func() {
				_, err := QueryAt(tcp, "SELECT pg_sleep(50)")
				asleep <- err
			}()
			within(t, "a query runs", func() bool { return slices.Contains(s.Activity(t), "SELECT pg_sleep(50)") })
			c.end(s, t)
			if _, err := QueryAt(tcp, "TABLE n"); (err != nil) != (c.name != "running") {
				t.Errorf("after it was %s: %v", c.name, err)
			}
			s.Restart(t)
			if err := <-asleep; err == nil {
				t.Error("the query came to its end")
			}
			if rows, err := QueryAt(tcp, "TABLE n"); err != nil || len(rows) != 1 { // what was committed is there
				t.Errorf("%v, %v", rows, err)
			}
			if s.process.cmd.Process.Pid == before {
				t.Error("the server was not started again")
			}
		})
	}
}

func TestAKilledServerLeavesNothing(t *testing.T) {
	t.Parallel()
	var s *Server
	var segment string
	t.Run("kill", func(t *testing.T) {
		s = Start(t, Options{})
		go func() { _, _ = QueryAt(s.DSN(superuser, superuser, "", true), "SELECT pg_sleep(50)") }()
		within(t, "a query runs", func() bool { return len(s.Activity(t)) == 1 })
		text, err := os.ReadFile(filepath.Join(s.DataDir, "postmaster.pid"))
		if err != nil {
			t.Fatal(err)
		}
		segment = strings.Fields(strings.Split(string(text), "\n")[6])[1]
		if !segmentExists(t, segment) { // the control
			t.Fatal("there is no segment to leave")
		}
		s.Kill(t)
		if len(s.orphans) < 5 {
			t.Errorf("only %d processes were left", len(s.orphans))
		}
	})
	if segmentExists(t, segment) {
		t.Error("its segment is left")
	}
	if pids := programsNaming(t, s.folder); len(pids) > 0 {
		t.Errorf("processes are left: %v", pids)
	}
}

func segmentExists(t *testing.T, id string) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == id {
			return true
		}
	}
	return false
}

func TestAStandbyFollowsAndIsPromoted(t *testing.T) {
	t.Parallel()
	primary := Start(t, Options{})
	standby := primary.Standby(t)
	const recovering = "SELECT pg_is_in_recovery()"
	db := primary.Database(t, "CREATE TABLE n AS SELECT 1 AS i")
	standby.CatchUp(t)
	if rows := standby.Query(t, db, "TABLE n"); len(rows) != 1 {
		t.Errorf("the standby has %v", rows)
	}
	if got := standby.Query(t, db, recovering)[0][0]; got != "t" {
		t.Error("the standby is none")
	}
	if _, err := standby.query(db, "INSERT INTO n VALUES (2)"); code(err) != "25006" {
		t.Errorf("the standby wrote: %v", err)
	}
	primary.Kill(t)
	standby.Promote(t)
	standby.Exec(t, db, "INSERT INTO n VALUES (2)")
	if got := standby.Query(t, db, recovering)[0][0]; got != "f" {
		t.Error("the standby still is one")
	}
}

func TestABouncerGivesEachTransactionAnyConnection(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{})
	db := s.Database(t, "CREATE TABLE n AS SELECT 1 AS i")
	name := s.Role(t, db, Reader{Password: "p"})
	port, socketDir := s.Bouncer(t, BouncerOptions{PoolSize: 1})
	const pid = "SELECT pg_backend_pid() FROM n"
	seen := map[string]bool{}
	for _, dsn := range []string{DSNAt(port, "", db, name, "p"), DSNAt(port, socketDir, db, name, "p")} {
		rows, err := QueryAt(dsn, pid)
		if err != nil {
			t.Fatal(err)
		}
		seen[rows[0][0]] = true
	}
	if len(seen) != 1 { // two clients, one connection: it is the bouncer that answers
		t.Errorf("%d connections to the server", len(seen))
	}
	if _, err := QueryAt(DSNAt(port, "", db, name, "wrong"), pid); code(err) != "08P01" && code(err) != "28P01" {
		t.Errorf("with a wrong password: %v", err)
	}
	if _, err := QueryAt(DSNAt(port, "", db, superuser, ""), pid); err != nil {
		t.Errorf("as the superuser: %v", err)
	}
	// What it is needed for: a parameter of the start that it does not know ends the connection.
	_, err := QueryAt(DSNAt(port, "", db, name, "p")+"&default_transaction_read_only=on", pid)
	if err == nil || !strings.Contains(err.Error(), "unsupported startup parameter") {
		t.Errorf("a startup parameter: %v", err)
	}
}

func TestAPausedProxySaysNothingAndResumes(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{})
	for _, viaSocket := range []bool{true, false} {
		p := NewProxy(t, s.Address(viaSocket))
		dsn := DSNAt(p.Port, "", superuser, superuser, "")
		if viaSocket {
			dsn = DSNAt(p.Port, p.SocketDir, superuser, superuser, "")
		}
		if _, err := QueryAt(dsn, "SELECT 1"); err != nil {
			t.Fatal(err)
		}
		p.Pause()
		p.Pause() // is no second pause
		answered := make(chan error, 1)
		go func() {
			_, err := QueryAt(dsn, "SELECT 1")
			answered <- err
		}()
		within(t, "the client is accepted", func() bool { return p.Connections() == 1 })
		select {
		case err := <-answered:
			t.Errorf("answered while paused: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		p.Resume()
		if err := <-answered; err != nil {
			t.Errorf("after the pause: %v", err)
		}
		within(t, "the connections end", func() bool { return p.Connections() == 0 })
	}
}

func TestAPausedProxyHidesTheEndOfTheServer(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{})
	p := NewProxy(t, s.Address(false))
	answered := make(chan error, 1)
	go func() {
		_, err := QueryAt(DSNAt(p.Port, "", superuser, superuser, ""), "SELECT pg_sleep(50)")
		answered <- err
	}()
	within(t, "the query runs", func() bool { return len(s.Activity(t)) == 1 })
	p.Pause()
	s.Stop(t)
	select {
	case err := <-answered:
		t.Errorf("the client heard of it: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	p.Resume()
	if err := <-answered; code(err) != "57P01" { // admin_shutdown, held by the proxy until now
		t.Errorf("after the pause: %v", err)
	}
}

func TestACutProxyEndsWhatIsOpenAndTakesNew(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{})
	p := NewProxy(t, s.Address(false))
	dsn := DSNAt(p.Port, "", superuser, superuser, "")
	for _, paused := range []bool{false, true} {
		answered := make(chan error, 1)
		go func() {
			_, err := QueryAt(dsn, "SELECT pg_sleep(50)")
			answered <- err
		}()
		within(t, "the query runs", func() bool { return len(s.Activity(t)) == 1 })
		if paused {
			p.Pause()
		}
		raw, err := net.Dial("tcp", net.JoinHostPort(Host, strconv.Itoa(p.Port)))
		if err != nil {
			t.Fatal(err)
		}
		within(t, "both are connected", func() bool { return p.Connections() == 2 })
		p.Cut()
		if err := <-answered; err == nil || code(err) != "" {
			t.Errorf("paused %v: %v", paused, err)
		}
		if _, err := raw.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("paused %v, on the wire: %v", paused, err)
		}
		_ = raw.Close() // it has been read to its end
		p.Resume()
		if _, err := QueryAt(dsn, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%sleep(50)'"+
			" AND pid <> pg_backend_pid()"); err != nil {
			t.Errorf("paused %v, a new connection: %v", paused, err)
		}
		within(t, "the server has given up", func() bool { return len(s.Activity(t)) == 0 })
	}
}

func TestAProxyDelaysAndLeadsElsewhere(t *testing.T) {
	t.Parallel()
	first, second := Start(t, Options{}), Start(t, Options{})
	p := NewProxy(t, first.Address(false))
	port := func() string {
		rows, err := QueryAt(DSNAt(p.Port, "", superuser, superuser, ""), "SHOW port")
		if err != nil {
			t.Fatal(err)
		}
		return rows[0][0]
	}
	if got := port(); got != strconv.Itoa(first.Port) {
		t.Errorf("it leads to %s", got)
	}
	p.Target(second.Address(true))
	if got := port(); got != strconv.Itoa(second.Port) {
		t.Errorf("it leads to %s instead of %d", got, second.Port)
	}
	const delay = 20 * time.Millisecond
	p.Delay(delay)
	began := time.Now()
	port()
	if took := time.Since(began); took < 6*delay { // three steps of SCRAM, one query, there and back
		t.Errorf("a conversation took %v", took)
	}
	p.Target(net.JoinHostPort(Host, "1"))
	if _, err := QueryAt(DSNAt(p.Port, "", superuser, superuser, ""), "SELECT 1"); err == nil {
		t.Error("it leads nowhere and answers")
	}
}

func TestASecondMajorVersionStarts(t *testing.T) {
	t.Parallel()
	bin := Second(t)
	first, second := Start(t, Options{}), Start(t, Options{Bin: bin, TLS: true})
	if first.Version >= second.Version {
		t.Errorf("versions %d and %d", first.Version, second.Version)
	}
	db := second.Database(t, "CREATE TABLE n AS SELECT 1 AS i")
	if rows, err := QueryAt(second.DSN(db, superuser, "", false), "SHOW server_version"); err != nil ||
		!strings.HasPrefix(rows[0][0], strconv.Itoa(second.Version)) {
		t.Errorf("%v, %v", rows, err)
	}
}

// verdict is a test that remembers how it was ended.
type verdict struct {
	testing.TB
	said string
}

func (v *verdict) Skip(args ...any)                  { v.said = "SKIP " + fmt.Sprint(args...) }
func (v *verdict) Fatalf(format string, args ...any) { v.said = "FAIL " + fmt.Sprintf(format, args...) }

func TestWhatIsMissingIsSkippedUnlessItIsRequired(t *testing.T) {
	for value, want := range map[string]string{"": "SKIP", "0": "SKIP", "1": "FAIL"} {
		t.Setenv(RequireVariable, value)
		v := &verdict{TB: t}
		missing(v, "apt install nothing")
		if !strings.HasPrefix(v.said, want) || !strings.Contains(v.said, "apt install nothing") {
			t.Errorf("%s=%s: %s", RequireVariable, value, v.said)
		}
	}
}

// What the stage costs: go test -run '^$' -bench . -benchtime 5x ./pkg/pgstage.
func BenchmarkStart(b *testing.B) {
	Start(b, Options{}) // the template is made once
	for b.Loop() {
		Start(b, Options{})
	}
}

func BenchmarkStandby(b *testing.B) {
	s := Start(b, Options{Settings: []string{"max_wal_senders = 20"}})
	for b.Loop() {
		s.Standby(b)
	}
}

func BenchmarkBouncer(b *testing.B) {
	s := Start(b, Options{})
	for b.Loop() {
		s.Bouncer(b, BouncerOptions{})
	}
}

func BenchmarkDatabase(b *testing.B) {
	s := Shared(b)
	for b.Loop() {
		s.Database(b, "")
	}
}
