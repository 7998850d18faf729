package command_test

import (
	"encoding/json"
	"strings"
	"testing"

	"mcp-server-suite/pkg/command"
	"mcp-server-suite/pkg/pgstage"
)

func TestDoctorSaysWhatTheRoleMayDo(t *testing.T) {
	t.Parallel()
	server := pgstage.Start(t, pgstage.Options{})
	db := server.Database(t, "CREATE TABLE t (a int)")
	role := server.Role(t, db, pgstage.Reader{Password: "s3cr3t", Connections: 8})
	reader := "MCP_SQL_DSN=" + server.DSN(db, role, "s3cr3t", true)
	super := "MCP_SQL_DSN=" + server.DSN(db, "postgres", "", true)

	code, stdout, stderr := locked(t, "", []string{reader}, "doctor")
	if code != command.ExitDone || stderr != "" || !strings.Contains(stdout, "faults: 0, ") || strings.Contains(stdout, "s3cr3t") {
		t.Errorf("a reader: exit %d, %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = locked(t, "", []string{super}, "doctor")
	if code != command.ExitVerdict || stderr != "" || !strings.Contains(stdout, "superuser") || !strings.Contains(stdout, "CREATE ROLE") {
		t.Errorf("a superuser: exit %d, %s%s", code, stdout, stderr)
	}
	server.Exec(t, db, "GRANT DELETE ON t TO "+role)
	code, stdout, stderr = locked(t, "", []string{reader}, "doctor", "--json")
	var report struct {
		Checks []struct{ Name, Status, Found, Fix string }
		SQL    string
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != command.ExitVerdict || stderr != "" {
		t.Errorf("a writer: exit %d, %v, %s%s", code, err, stdout, stderr)
	}
	found := false
	for _, c := range report.Checks {
		found = found || c.Status == "fault" && strings.Contains(c.Fix, "REVOKE")
	}
	if !found || report.SQL == "" {
		t.Errorf("the right to delete is not reported: %s", stdout)
	}
	code, stdout, stderr = locked(t, "", []string{"MCP_SQL_DSN=postgres://u:s3cr3t@127.0.0.1:1/d"}, "doctor")
	if code != command.ExitVerdict || stdout != "" || !strings.Contains(stderr, "DB_UNAVAILABLE") || strings.Contains(stderr, "s3cr3t") {
		t.Errorf("nobody there: exit %d, %s%s", code, stdout, stderr)
	}
	code, _, stderr = locked(t, "", []string{"MCP_SQL_DSN=" + server.DSN(db, role, "wrong", true)}, "doctor")
	if code != command.ExitVerdict || !strings.Contains(stderr, "DB_REJECTED") || strings.Contains(stderr, "wrong") {
		t.Errorf("a wrong password: exit %d, %s", code, stderr)
	}
}

// Of the environment only the settings count, for the certificates that are trusted, too.
func TestVariablesOfLibpqDoNotCount(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := locked(t, "", []string{
		"PGSERVICE=x", "PGCONNECT_TIMEOUT=zz", "PGMINPROTOCOLVERSION=9", "PGHOST=203.0.113.1", "PGSSLMODE=verify-full",
		"MCP_SQL_DSN=postgres://u@127.0.0.1:1/d",
	}, "doctor")
	if code != command.ExitVerdict || stdout != "" || !strings.Contains(stderr, "DB_UNAVAILABLE") {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
}

func TestDoctorIsConfinedAsTheServerIs(t *testing.T) {
	t.Parallel()
	dsn := "MCP_SQL_DSN=postgres://u@127.0.0.1:1/d"
	code, stdout, stderr := run("", []string{dsn}, "doctor") // this test is root
	if code != command.ExitHardening || stdout != "" || !strings.Contains(stderr, "uid 0") {
		t.Errorf("as root: exit %d, %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = locked(t, "", nil, "doctor")
	if code != command.ExitConfig || stdout != "" || !strings.Contains(stderr, "MCP_SQL_DSN") {
		t.Errorf("without a database: exit %d, %s%s", code, stdout, stderr)
	}
}
