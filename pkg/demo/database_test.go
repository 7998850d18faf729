package demo_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"mcp-server-suite/pkg/pgstage"
	"mcp-server-suite/pkg/stage"
)

var roles atomic.Int64

// dsnFile makes a database like the one of scripts/with-postgres.sh, and the file with its DSN. The name of its role is its
// own: by it the demonstration finds the server's processes.
func dsnFile(t *testing.T) string {
	t.Helper()
	sample, err := os.ReadFile("../../compose/postgres/init/10-sample.sql")
	if err != nil {
		t.Fatal(err)
	}
	server := pgstage.Shared(t)
	db := server.Database(t, string(sample))
	role := server.Role(t, db, pgstage.Reader{Name: fmt.Sprintf("demo_%d_%d", os.Getpid(), roles.Add(1)), Password: "weir"})
	path := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(path, []byte(server.DSN(db, role, "weir", false)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEveryClaimAboutTheDatabaseHolds(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := play("--daemon", stage.Binary(t, ""), "--dsn-file", dsnFile(t), "--json")
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d, stderr %q, stdout:\n%s", code, stderr, stdout)
	}
	if all := records(t, stdout); len(all) != 20 {
		t.Errorf("%d steps", len(all))
	}
	if strings.Contains(stdout, "weir@") {
		t.Error("the password is shown")
	}
}

// The lines of the daemon are those of TestALieFailsItsStep up to the last step.
func TestALieAboutTheDatabaseFailsItsStep(t *testing.T) {
	t.Parallel()
	binary := stage.Binary(t, "")
	for _, lie := range []struct{ step, why, script string }{
		{"handshake", "no resources", `1s/"resources":{[^}]*},*//`},
		{"tools", "no read_only_sql", `2s/"name":"read_only_sql"/"name":"sql"/`},
		{"schema", "a column that is missing", `21s/herons/geese/g`},
		{"query", "another sum", `22s/4\.13/4.14/g`},
		{"query", "a type that is not exact", `22s/numeric/float8/g`},
		{"truncated", "a cut that is not told", `23s/"truncated\(\\*\)":true/"truncated\1":false/g`},
		{"truncated", "a cut that is none", `24s/"truncated\(\\*\)":false/"truncated\1":true/g`},
		{"writes", "another reason", `26s/UNSAFE_QUERY/BAD_SQL/`},
		{"writes", "a statement that was run", `27s/"isError":true/"isError":false/`},
		{"writes", "a table that has changed", `28s/271/270/g`},
		{"functions", "an answer that repeats the text", `29s/functions are/sighting is/`},
		{"cancel query", "an answer to the cancelled call", `31i {"jsonrpc":"2.0","id":7,"result":{}}`},
	} {
		t.Run(lie.step+"/"+lie.why, func(t *testing.T) {
			t.Parallel()
			failsAt(t, program(t, fmt.Sprintf("%s | sed -u '%s'\n", binary, lie.script)), lie.step, "--dsn-file", dsnFile(t))
		})
	}
	t.Run("cancel query/a query that goes on", func(t *testing.T) {
		t.Parallel()
		deaf := program(t, "sed -u '/cancelled.*\"requestId\":7/d' | "+binary+"\n")
		failsAt(t, deaf, "cancel query", "--dsn-file", dsnFile(t))
	})
	for why, script := range map[string]string{
		"another port":             `s/"connect_tcp":.[0-9]*/&,22/`,
		"a socket of another kind": `s/"socket AF_INET6, stream"/"socket AF_NETLINK"/`,
	} {
		t.Run("locked/"+why, func(t *testing.T) {
			t.Parallel()
			liar := program(t, fmt.Sprintf("{ %s 2>&1 1>&3 | sed -u '%s' >&2; } 3>&1\n", binary, script))
			failsAt(t, liar, "locked", "--dsn-file", dsnFile(t))
		})
	}
}

func TestADSNThatCannotBeUsedIsNotRepeated(t *testing.T) {
	t.Parallel()
	for name, dsn := range map[string]string{
		"no URL":   "postgresql://me:tamarind@[::1/x",
		"no user":  "postgresql://127.0.0.1:5432/tamarind",
		"a socket": "postgresql://me:tamarind@/app?host=/run",
	} {
		path := filepath.Join(t.TempDir(), "dsn")
		if err := os.WriteFile(path, []byte(dsn), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := play("--daemon", stage.Binary(t, ""), "--dsn-file", path)
		if code != 1 || strings.Contains(stdout+stderr, "tamarind") || !strings.Contains(stderr, "DSN") {
			t.Errorf("%s: exit %d, %q", name, code, stderr)
		}
	}
}
