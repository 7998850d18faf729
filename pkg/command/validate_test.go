package command_test

import (
	"encoding/json"
	"strings"
	"testing"

	"mcp-server-suite/pkg/command"
)

func TestValidateSaysTheVerdictAndTheTextThatWouldRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		environ []string
		args    []string
		code    int
		stdout  []string // parts
	}{
		{"accepted", nil, []string{"SELECT lower(a) FROM t"}, 0, []string{"accepted", "SELECT pg_catalog.lower(a) FROM t LIMIT 51", "at most 50"}},
		{"fewer rows", nil, []string{"--max-rows", "7", "SELECT a FROM t"}, 0, []string{"LIMIT 8", "at most 7"}},
		{"its own limit", nil, []string{"SELECT a FROM t LIMIT 3"}, 0, []string{"LIMIT 3"}},
		{"refused", nil, []string{"DELETE FROM t"}, 1, []string{"refused: UNSAFE_QUERY", "DELETE"}},
		{"refused, quoting what was written", nil, []string{"SELECT pg_sleep(1)"}, 1, []string{"UNSAFE_QUERY", "pg_sleep"}},
		{"no SQL", nil, []string{"SELECT FROM WHERE"}, 1, []string{"BAD_SQL"}},
		{"a text that looks like an option", nil, []string{"--", "--json SELECT 1"}, 1, []string{"BAD_SQL"}},
		{"the operator's function", []string{"MCP_SQL_ALLOW_FUNCTIONS=app.f"}, []string{"SELECT app.f(1)"}, 0, []string{"app.f(1)"}},
		{"and without the setting", nil, []string{"SELECT app.f(1)"}, 1, []string{"UNSAFE_QUERY"}},
		{"relations", []string{"MCP_SQL_ALLOW_RELATIONS=app.t(a, b)"}, []string{"SELECT * FROM app.t"}, 0, []string{"(SELECT a, b FROM app.t)"}},
		{"other relations", []string{"MCP_SQL_ALLOW_RELATIONS=app.t(a, b)"}, []string{"SELECT * FROM app.u"}, 1, []string{"UNSAFE_QUERY"}},
		{"recursion", []string{"MCP_SQL_RECURSIVE=false"}, []string{"WITH RECURSIVE r AS (SELECT 1) SELECT * FROM r"}, 1, []string{"UNSAFE_QUERY"}},
		{"what a terminal would obey", nil, []string{"SELECT '\x1b[2J\u202e' AS \"\a\""}, 0, []string{`\x1b[2J\u202e`, `\a`}},
		{"WITH TIES", nil, []string{"SELECT a FROM t ORDER BY a FETCH FIRST 1 ROW WITH TIES"}, 0, []string{"WITH TIES and its number are left out"}},
		{"a newer server", nil, []string{"SELECT JSON_ARRAY(1)"}, 0, []string{"needs PostgreSQL 16"}},
		{"and in a refusal", nil, []string{"SELECT \"\x1b[2J\"(1)"}, 1, []string{`UNSAFE_QUERY`, `\u001b[2J`}},
		{"search path", []string{"MCP_SQL_ALLOW_RELATIONS=app.*", "MCP_SQL_SEARCH_PATH=x, app"}, []string{"SELECT 1 FROM t"}, 0, []string{"app.t"}},
	} {
		code, stdout, stderr := run("", c.environ, append([]string{"validate"}, c.args...)...)
		if code != c.code || stderr != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", c.name, code, stdout, stderr)
		}
		for _, part := range c.stdout {
			if !strings.Contains(stdout, part) {
				t.Errorf("%s: %q is not in %q", c.name, part, stdout)
			}
		}
	}
}

func TestValidateIsReadByPrograms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"SELECT 1 LIMIT 1": `{"accepted":true,"sql":"SELECT 1 LIMIT 1","max_rows":50}`,
		"SELECT JSON_SCALAR(a) FROM t ORDER BY a FETCH FIRST 1 ROW WITH TIES": `{"accepted":true,"sql":` +
			`"SELECT JSON_SCALAR(a) FROM t ORDER BY a LIMIT 51","max_rows":50,"asks_one_row_more":true,"drops_with_ties":true,"needs_postgresql":17}`,
		"TABLE t": `{"accepted":true,"sql":"SELECT * FROM t LIMIT 51","max_rows":50,"asks_one_row_more":true}`,
	} {
		if _, stdout, _ := run("", nil, "validate", "--json", text); stdout != want+"\n" {
			t.Errorf("%s: %s", text, stdout)
		}
	}
	var v struct {
		Accepted bool
		Reason   string
		SQL      string
	}
	_, stdout, _ := run("", nil, "validate", "--json", "DROP TABLE t")
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || v.Accepted || v.Reason != "UNSAFE_QUERY" || v.SQL != "" {
		t.Errorf("%v: %s", err, stdout)
	}
}

func TestASubcommandOnSQLRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	const secret = "postgres://u:SECRET@h/d"
	for _, c := range []struct {
		name    string
		environ []string
		args    string
		says    string
	}{
		{"no text", nil, "validate", "one SQL text"},
		{"two texts", nil, "validate SELECT 1", "one SQL text"},
		{"rows", nil, "validate --max-rows 51 TABLE", "1 to 50"},
		{"rows that are none", nil, "validate --max-rows x TABLE", "1 to 50"},
		{"a wrong setting", []string{"MCP_SQL_RECURSIVE=maybe"}, "validate TABLE", "MCP_SQL_RECURSIVE"},
		{"a function that is none", []string{"MCP_SQL_ALLOW_FUNCTIONS=a.g,f"}, "validate TABLE", "MCP_SQL_ALLOW_FUNCTIONS: entry 2: it is not schema.name"},
		{"a type that is none", []string{"MCP_SQL_ALLOW_TYPES=a.b.c"}, "validate TABLE", "MCP_SQL_ALLOW_TYPES: entry 1"},
		{"a relation that is none", []string{"MCP_SQL_ALLOW_RELATIONS=t"}, "validate TABLE", "MCP_SQL_ALLOW_RELATIONS: entry 1"},
		{"a schema of the system", []string{"MCP_SQL_SEARCH_PATH=pg_temp"}, "validate TABLE", "MCP_SQL_SEARCH_PATH: entry 1"},
		{"doctor with a word", nil, "doctor SECRET", "doctor takes"},
		{"doctor with a wrong setting", []string{"MCP_SQL_POOLER=x"}, "doctor", "MCP_SQL_POOLER"},
		{"doctor with a DSN that is refused", []string{"MCP_SQL_DSN=" + secret + "?options=x"}, "doctor", "MCP_SQL_DSN: "},
		{"two DSNs", []string{"MCP_SQL_DSN=" + secret, "MCP_SQL_DSN_FILE=/SECRET"}, "doctor", "keep one"},
	} {
		code, stdout, stderr := run("", c.environ, strings.Fields(c.args)...)
		if code != command.ExitConfig || stdout != "" || !strings.Contains(stderr, c.says) || strings.Contains(stderr, "SECRET") {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", c.name, code, stdout, stderr)
		}
	}
}

func TestHelpOfSQLSubcommandsTeaches(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]string{"validate": `validate "SELECT`, "doctor": "changes nothing"} {
		code, stdout, stderr := run("", nil, name, "--help")
		if code != 0 || stderr != "" || !strings.Contains(stdout, "Usage: mcp-server-suite "+name) || !strings.Contains(stdout, part) {
			t.Errorf("%s: exit %d, %q, %q", name, code, stdout, stderr)
		}
	}
}
