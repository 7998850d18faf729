package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mcp-server-suite/pkg/pgstage"
)

const (
	secret = "Tr0ub4dor-of-the-test"

	// population is a schema as an application has it: owned by a role that is no superuser, with all that may be right
	// or wrong.
	population = `
CREATE SCHEMA reporting AUTHORIZATION %[1]s;
SET ROLE %[1]s;
CREATE TABLE reporting.sales (id int PRIMARY KEY, amount numeric, note text);
CREATE SEQUENCE reporting.numbers;
CREATE VIEW reporting.totals AS SELECT sum(amount) AS total FROM reporting.sales;
CREATE FUNCTION reporting.plain(int) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION reporting.changed() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE SCHEMA other;
CREATE TABLE other.secrets (id int, value text);
RESET ROLE`
)

// psql runs a script as the superuser.
func psql(t *testing.T, s *pgstage.Server, db, script string, args ...string) (output string, err error) {
	t.Helper()
	program, err := exec.LookPath("psql")
	if err != nil {
		program = filepath.Join(pgstage.Bin(t), "psql")
	}
	file := filepath.Join(t.TempDir(), "script.sql")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{"-X", "-q", "-d", s.DSN(db, "postgres", "", true), "-f", file}, args...)...)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// shipped is the script as it is given to operators.
func shipped(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../compose/postgres/roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// onEach runs a test on a server of each major version that there is.
func onEach(t *testing.T, f func(t *testing.T, i *inspected)) {
	t.Run("first", func(t *testing.T) { f(t, newInspected(t)) })
	t.Run("second", func(t *testing.T) {
		f(t, newInspectedOn(t, pgstage.Start(t, pgstage.Options{Bin: pgstage.Second(t), MaxConnections: 50})))
	})
}

func newInspected(t *testing.T) *inspected {
	t.Helper()
	return newInspectedOn(t, pgstage.Shared(t))
}

// newInspectedOn makes the database, and the role by the shipped script.
func newInspectedOn(t *testing.T, s *pgstage.Server) *inspected {
	t.Helper()
	i := &inspected{server: s}
	owner := fmt.Sprintf("owner of %s", strings.ToLower(t.Name()))
	owner = owner[:min(len(owner), 60)]
	i.role = "reader" + owner[5:]
	s.Exec(t, "postgres", "CREATE ROLE "+identifier(owner))
	t.Cleanup(func() { s.Exec(t, "postgres", "DROP ROLE "+identifier(owner)) })
	i.database = s.Database(t, "")
	s.Exec(t, "postgres", "ALTER DATABASE "+i.database+" OWNER TO "+identifier(owner))
	s.Exec(t, i.database, fmt.Sprintf(population, identifier(owner)))
	t.Cleanup(func() {
		s.Exec(t, i.database, fmt.Sprintf("DROP OWNED BY %s; DROP ROLE %[1]s; REASSIGN OWNED BY %s TO postgres; DROP OWNED BY %[2]s",
			identifier(i.role), identifier(owner)))
	})
	if text, err := psql(t, s, i.database, shipped(t), "-v", "role="+i.role, "-v", "schemas={reporting}"); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	s.Exec(t, i.database, "ALTER ROLE "+identifier(i.role)+" PASSWORD "+literal(secret))
	i.settings = inspectSettings(s.DSN(i.database, i.role, secret, true))
	return i
}

func (i *inspected) inspect(t *testing.T) Report {
	t.Helper()
	r, err := i.look(t).Inspect(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wrong are the checks that are not ok.
func wrong(r Report) (checks []Check) {
	for _, c := range r.Checks {
		if c.Status != StatusOK {
			checks = append(checks, c)
		}
	}
	return checks
}

func TestTheShippedScriptIsTheOneThatDoctorFillsIn(t *testing.T) {
	if shipped(t) != script {
		t.Error("compose/postgres/roles.sql and pkg/postgres/roles.sql differ")
	}
	if strings.Count(script, "\n-- The names are settled.\n") != 1 {
		t.Error("the line that ends the names does not stand there once")
	}
}

func TestTheScriptMakesARoleWithNothingToAdvise(t *testing.T) { onEach(t, theScriptMakesARole) }

func theScriptMakesARole(t *testing.T, i *inspected) {
	r := i.inspect(t)
	for _, c := range wrong(r) {
		t.Errorf("%+v", c)
	}
	if faults := i.faultsOf(t); len(faults) > 0 {
		t.Errorf("faults: %+v", faults)
	}
	rows, err := pgstage.QueryAt(i.settings.DSN, "SELECT count(*) FROM sales, totals")
	if err != nil || rows[0][0] != "0" {
		t.Errorf("the role reads nothing: %v %v", rows, err)
	}
	if text, err := psql(t, i.server, i.database, shipped(t), "-v", "role="+i.role, "-v", "schemas={reporting}"); err != nil {
		t.Errorf("the script cannot be run again: %v\n%s", err, text)
	}
	if text, err := psql(t, i.server, "postgres", shipped(t), "-v", "role="+i.role, "-v", "database="+i.database); err == nil {
		t.Errorf("the script runs in another database than the one it names:\n%s", text)
	}
}

func TestTheScriptOfTheReportMakesARoleWithNothingToAdvise(t *testing.T) {
	i := newInspected(t)
	// As it was before: all defaults, and a name that needs quoting everywhere.
	odd := `o'dd "role" \ ` + "\t:x"
	i.server.Exec(t, i.database, fmt.Sprintf(`CREATE ROLE %s LOGIN PASSWORD %s; GRANT TEMP ON DATABASE %s TO PUBLIC;
		GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA reporting TO PUBLIC; GRANT CREATE ON SCHEMA public TO PUBLIC;
		GRANT INSERT ON reporting.sales TO %[1]s`, identifier(odd), literal(secret), i.database))
	t.Cleanup(func() {
		i.server.Exec(t, i.database, fmt.Sprintf("DROP OWNED BY %s; DROP ROLE %[1]s", identifier(odd)))
	})
	i.settings.DSN = i.server.DSN(i.database, odd, secret, true)
	before := i.inspect(t)
	if !before.Faulty() {
		t.Error("nothing is wrong before")
	}
	// A role with a fault may be somebody's: it is not taken away from him. This one is ours, to see the quoting.
	const another = `\set role 'mcp_reader'` + "\n"
	if !strings.Contains(before.SQL, another) || !strings.Contains(before.Text(), "This makes mcp_reader") {
		t.Fatal(before.Text())
	}
	script := strings.Replace(before.SQL, another, `\set role `+variable(odd)+"\n", 1)
	if text, err := psql(t, i.server, i.database, script); err != nil {
		t.Fatalf("%v\n%s\n%s", err, text, script)
	}
	for _, c := range wrong(i.inspect(t)) {
		t.Errorf("%+v", c)
	}
}

func TestTheReportOfASuperuserNamesAnotherRole(t *testing.T) {
	i := newInspected(t)
	i.settings.DSN = i.server.DSN(i.database, "postgres", "", true)
	r := i.inspect(t)
	if !r.Faulty() || !strings.Contains(r.SQL, `\set role 'mcp_reader'`) || strings.Contains(r.Text(), "NOSUPERUSER;\n    ") {
		t.Errorf("%s", r.Text())
	}
	for _, c := range r.Checks {
		if c.Name == "rights" && (c.Fix != "" || !strings.HasPrefix(c.Found, "is superuser")) {
			t.Errorf("%+v", c)
		}
	}
}

// TestEachRightGivenBackIsFound plants one wrong after the other in what the script has made. The control of all is
// that nothing is found before, and nothing after the report's own cure.
func TestEachRightGivenBackIsFound(t *testing.T) { onEach(t, eachRightGivenBack) }

func eachRightGivenBack(t *testing.T, i *inspected) {
	r := identifier(i.role)
	owner := identifier("owner" + i.role[6:])
	// Names of this test in the texts below: R the role, O the owner, D the database.
	names := strings.NewReplacer("@R", r, "@O", owner, "@D", i.database)
	for _, x := range []struct {
		name   string
		plant  string
		status string
		check  string // of the check
		found  string // what it must hold
		undo   string // where the cure leaves something behind
	}{
		{"superuser", "ALTER ROLE @R SUPERUSER", StatusFault, "rights", "is superuser", ""},
		{"create role", "ALTER ROLE @R CREATEROLE", StatusFault, "rights", "may create roles", ""},
		{"create database", "ALTER ROLE @R CREATEDB", StatusFault, "rights", "may create databases", ""},
		{"replication", "ALTER ROLE @R REPLICATION", StatusFault, "rights", "may replicate", ""},
		{"bypass", "ALTER ROLE @R BYPASSRLS", StatusFault, "rights", "bypasses row level security", ""},
		{"files", "GRANT pg_read_server_files TO @R", StatusFault, "rights", "pg_read_server_files", ""},
		{"programs", "GRANT pg_execute_server_program TO @R", StatusFault, "rights", "pg_execute_server_program", ""},
		{"signals", "GRANT pg_signal_backend TO @R", StatusFault, "rights", "pg_signal_backend", ""},
		{"all data", "GRANT pg_read_all_data TO @R", StatusFault, "rights", "pg_read_all_data", ""},
		{"checkpoint", "GRANT pg_checkpoint TO @R", StatusFault, "rights", "pg_checkpoint", ""},
		{
			"files by way of a group", "CREATE ROLE g1; CREATE ROLE g2; GRANT pg_write_server_files TO g2; GRANT g2 TO g1; GRANT g1 TO @R",
			StatusFault, "rights", "pg_write_server_files", "DROP ROLE g1; DROP ROLE g2",
		},
		{
			"a superuser to become", "CREATE ROLE g1 SUPERUSER; GRANT g1 TO @R", StatusFault, "rights", "is superuser: g1",
			"DROP ROLE g1",
		},
		{
			"writes by way of a group", "CREATE ROLE g1; GRANT DELETE ON reporting.sales TO g1; GRANT g1 TO @R", StatusFault,
			"rights", "sales: DELETE by g1", "DROP OWNED BY g1; DROP ROLE g1",
		},
		{
			"a role to hand on", "CREATE ROLE g1; GRANT g1 TO @R WITH ADMIN OPTION", StatusFault, "rights",
			"may hand on a role: g1", "DROP ROLE g1",
		},
		{
			"the owner's group", "GRANT @O TO @R", StatusFault, "rights", "owns objects", "",
		},
		{"insert", "GRANT INSERT ON reporting.sales TO @R", StatusFault, "rights", "sales: INSERT", ""},
		{"update", "GRANT UPDATE ON reporting.sales TO @R", StatusFault, "rights", "sales: UPDATE", ""},
		{"truncate", "GRANT TRUNCATE ON reporting.sales TO @R", StatusFault, "rights", "sales: TRUNCATE", ""},
		{"trigger", "GRANT TRIGGER ON reporting.sales TO @R", StatusFault, "rights", "sales: TRIGGER", ""},
		{"public insert", "GRANT INSERT ON other.secrets TO PUBLIC", StatusFault, "rights", "secrets: INSERT by PUBLIC", ""},
		{"view", "GRANT DELETE ON reporting.totals TO @R", StatusFault, "rights", "totals: DELETE", ""},
		{"sequence", "GRANT UPDATE ON SEQUENCE reporting.numbers TO @R", StatusFault, "rights", "numbers: UPDATE", ""},
		{"column", "GRANT UPDATE (note) ON reporting.sales TO @R", StatusFault, "rights", "UPDATE (note)", ""},
		{"column of all", "GRANT INSERT (note, id) ON reporting.sales TO PUBLIC", StatusFault, "rights", "INSERT (id)", ""},
		{
			"grant option", "GRANT SELECT ON reporting.sales TO @R WITH GRANT OPTION", StatusFault, "rights",
			"may hand on a right", "",
		},
		{
			"grant of somebody else", `CREATE ROLE g1; GRANT USAGE ON SCHEMA reporting TO g1;
				GRANT INSERT ON reporting.sales TO g1 WITH GRANT OPTION; SET ROLE g1; GRANT INSERT ON reporting.sales TO @R; RESET ROLE`,
			StatusFault, "rights", "sales: INSERT", "DROP OWNED BY g1; DROP ROLE g1",
		},
		{
			"table of its own", "CREATE TABLE other.mine (); ALTER TABLE other.mine OWNER TO @R", StatusFault, "rights",
			"owns objects: table other.mine", "DROP TABLE other.mine",
		},
		{
			"function of its own", "CREATE FUNCTION other.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'; ALTER FUNCTION other.mine() OWNER TO @R",
			StatusFault, "rights", "owns objects: function other.mine()", "DROP FUNCTION other.mine()",
		},
		{
			"large object", "SELECT lo_create(4711); GRANT UPDATE ON LARGE OBJECT 4711 TO @R", StatusFault, "rights",
			"large object 4711: UPDATE", "SELECT lo_unlink(4711)",
		},
		{"create in the path", "GRANT CREATE ON SCHEMA reporting TO @R", StatusFault, "rights", "schema reporting: CREATE", ""},
		{"everybody creates", "GRANT CREATE ON SCHEMA public TO PUBLIC", StatusFault, "rights", "schema public: CREATE by PUBLIC", ""},
		{"create schemas", "GRANT CREATE ON DATABASE @D TO @R", StatusFault, "rights", "may create in the database", ""},
		{
			"foreign server", "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w; GRANT USAGE ON FOREIGN SERVER s TO @R",
			StatusFault, "rights", "foreign server s", "DROP FOREIGN DATA WRAPPER w CASCADE",
		},
		{"parameter", "GRANT SET ON PARAMETER log_statement TO @R", StatusFault, "rights", "log_statement", ""},
		{"files by function", "GRANT EXECUTE ON FUNCTION pg_read_file(text) TO @R", StatusFault, "rights", "pg_read_file(text)", ""},
		{"files by function of all", "GRANT EXECUTE ON FUNCTION pg_ls_dir(text) TO PUBLIC", StatusFault, "rights", "pg_ls_dir(text)", ""},
		{"passwords", "GRANT SELECT ON pg_authid TO @R", StatusFault, "rights", "pg_authid: SELECT", ""},

		{"monitor", "GRANT pg_monitor TO @R", StatusAdvice, "memberships", "pg_monitor", ""},
		{
			"others create in the path", "CREATE ROLE g1; GRANT CREATE ON SCHEMA reporting TO g1", StatusAdvice,
			"creators in the search path", "g1 may create in reporting", "DROP ROLE g1",
		},
		{
			"definer", `CREATE FUNCTION reporting.definer() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1';
				GRANT EXECUTE ON FUNCTION reporting.definer() TO @R`, StatusAdvice, "SECURITY DEFINER functions",
			"reporting.definer()", "DROP FUNCTION reporting.definer()",
		},
		{"function", "GRANT EXECUTE ON FUNCTION reporting.plain(int) TO PUBLIC", StatusAdvice, "functions", "reporting.plain(integer)", ""},
		{
			"functions to come", "ALTER DEFAULT PRIVILEGES FOR ROLE @O GRANT EXECUTE ON FUNCTIONS TO PUBLIC", StatusAdvice,
			"functions to come", "everybody", "",
		},
		{
			"tables to come", "ALTER DEFAULT PRIVILEGES FOR ROLE @O IN SCHEMA reporting GRANT INSERT ON TABLES TO @R", StatusAdvice,
			"relations to come", "INSERT", "",
		},
		{"temporary tables", "GRANT TEMP ON DATABASE @D TO PUBLIC", StatusAdvice, "temporary tables", "PUBLIC", ""},
		{"no usage", "REVOKE USAGE ON SCHEMA reporting FROM @R", StatusAdvice, "schemas", "no USAGE on reporting", ""},
		{"nothing to read", "REVOKE ALL ON ALL TABLES IN SCHEMA reporting FROM @R", StatusAdvice, "relations", "none", ""},
		{
			"writes by default", "ALTER ROLE @R RESET default_transaction_read_only", StatusAdvice, "default_transaction_read_only",
			"not set", "",
		},
		{"no time limit", "ALTER ROLE @R SET statement_timeout = 0", StatusAdvice, "statement_timeout", "not set", ""},
		{"no lock limit", "ALTER ROLE @R RESET lock_timeout", StatusAdvice, "lock_timeout", "not set", ""},
		{
			"no idle limit", "ALTER ROLE @R RESET idle_in_transaction_session_timeout", StatusAdvice,
			"idle_in_transaction_session_timeout", "not set", "",
		},
		{"no limit of files", "ALTER ROLE @R SET temp_file_limit = -1", StatusAdvice, "temp_file_limit", "not set", ""},
		{"no connection limit", "ALTER ROLE @R CONNECTION LIMIT -1", StatusAdvice, "connection limit", "none", ""},
		{"connection limit below the pool", "ALTER ROLE @R CONNECTION LIMIT 3", StatusAdvice, "connection limit", "3", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			if i.server.Version < 15 && strings.Contains(x.plant, "PARAMETER") {
				t.Skip("parameters can be granted since PostgreSQL 15")
			}
			if checks := wrong(i.inspect(t)); len(checks) > 0 {
				t.Fatalf("before: %+v", checks)
			}
			i.server.Exec(t, i.database, names.Replace(x.plant))
			report := i.inspect(t)
			met := false
			for _, c := range wrong(report) {
				met = met || c.Name == x.check && c.Status == x.status && strings.Contains(c.Found, x.found)
				if c.Fix == "" {
					t.Errorf("no cure for %+v", c)
				}
			}
			if !met {
				t.Errorf("not found; what was: %+v", wrong(report))
			}
			connection, err := i.look(t).acquire(within(t))
			if (err != nil) != (x.status == StatusFault) {
				t.Errorf("served: %v", err)
			}
			if err == nil {
				connection.Release()
			}
			done := map[string]bool{}
			for _, c := range wrong(report) {
				if c.Fix != "" && !done[c.Fix] { // one cure may be that of several
					done[c.Fix] = true
					i.server.Exec(t, i.database, c.Fix)
				}
			}
			if checks := wrong(i.inspect(t)); len(checks) > 0 {
				t.Errorf("after %v: %+v", done, checks)
			}
			if x.undo != "" {
				i.server.Exec(t, i.database, names.Replace(x.undo))
			}
		})
	}
}

func TestAShadowedOperatorCannotHideAFault(t *testing.T) {
	i := newInspected(t)
	r := identifier(i.role)
	i.server.Exec(t, i.database, `CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC;
		CREATE FUNCTION evil.no(name, name) RETURNS boolean LANGUAGE sql AS 'SELECT false';
		CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = name, FUNCTION = evil.no);
		GRANT INSERT ON reporting.sales TO `+r+`; ALTER ROLE `+r+` SET search_path = evil, pg_catalog`)
	rows, err := pgstage.QueryAt(i.settings.DSN, "SELECT 'a'::name = 'a'::name")
	if err != nil || rows[0][0] != "f" {
		t.Fatalf("the shadow does not work: %v %v", rows, err)
	}
	if faults := i.faultsOf(t); len(faults) != 1 || faults[0].Kind != "may write relations" {
		t.Errorf("%+v", faults)
	}
}

func TestALongListOfFaultsIsCut(t *testing.T) {
	i := newInspected(t)
	i.server.Exec(t, i.database, `DO $$ BEGIN FOR n IN 1..25 LOOP EXECUTE format('CREATE TABLE other.t%s ()', n);
		EXECUTE format('GRANT INSERT ON other.t%s TO PUBLIC', n); END LOOP; END $$`)
	faults := i.faultsOf(t)
	if len(faults) != listed || faults[0].Total != 25 {
		t.Errorf("%d of %+v", len(faults), faults[0])
	}
	if text := i.inspect(t).Text(); strings.Count(text, "(25 in all)") != 1 {
		t.Error(text)
	}
}

func TestInspectTellsAPoolerFromAServer(t *testing.T) {
	i := newInspected(t)
	find := func(r Report) Check {
		for _, c := range r.Checks {
			if c.Name == "pooler" {
				return c
			}
		}
		t.Fatal("no check of the pooler")
		return Check{}
	}
	direct := i.settings
	port, socket := i.server.Bouncer(t, pgstage.BouncerOptions{})
	bounced := i.settings
	bounced.DSN = pgstage.DSNAt(port, socket, i.database, i.role, secret)
	for _, x := range []struct {
		name     string
		settings Settings
		pooler   bool
		status   string
	}{
		{"direct", direct, false, StatusOK},
		{"direct, but expected", direct, true, StatusAdvice},
		{"bounced", bounced, true, StatusOK},
		{"bounced, but not expected", bounced, false, StatusAdvice},
	} {
		i.settings = x.settings
		i.settings.Pooler = x.pooler
		if c := find(i.inspect(t)); c.Status != x.status {
			t.Errorf("%s: %+v", x.name, c)
		}
	}
}

func TestTheReportHoldsNoSecret(t *testing.T) {
	i := newInspected(t)
	r := i.inspect(t)
	text, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(i.settings.DSN, secret) {
		t.Fatal("the DSN does not hold the secret")
	}
	if strings.Contains(r.Text(), secret) || bytes.Contains(text, []byte(secret)) {
		t.Error("the password is in the report")
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil || len(back.Checks) != len(r.Checks) || back.SQL != r.SQL {
		t.Errorf("the report does not come back: %v", err)
	}
}

func TestNamesOfTheServerCannotWriteToTheTerminal(t *testing.T) {
	r := Report{Checks: []Check{{Name: "rights", Status: StatusFault, Found: "\x1b[2J\u202e", Fix: "a\nb\r"}}}
	text := r.Text()
	if strings.ContainsAny(text, "\x1b\u202e") || !strings.Contains(text, `\x1b[2J\u202e`) {
		t.Errorf("%q", text)
	}
	asJSON, err := r.JSON()
	if err != nil || bytes.ContainsFunc(asJSON, func(c rune) bool { return c > 0x7e || c < ' ' }) {
		t.Errorf("%s %v", asJSON, err)
	}
}

func TestInspectSaysWhyItCannotConnect(t *testing.T) {
	i := newInspected(t)
	i.settings.DSN = i.server.DSN(i.database, i.role, "wrong", true)
	_, err := i.look(t).Inspect(context.Background())
	if err == nil || !strings.Contains(err.Error(), "password") {
		t.Errorf("%v", err)
	}
}
