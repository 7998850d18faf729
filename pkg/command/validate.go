package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"mcp-server-suite/pkg/daemon"
	"mcp-server-suite/pkg/problem"
	"mcp-server-suite/pkg/strictjson"
	"mcp-server-suite/pkg/visible"
)

// seedRows is the cap that read_only_sql has without max_rows.
const seedRows = 50

// verdict is what validate prints.
type verdict struct {
	Accepted bool   `json:"accepted"`
	Reason   string `json:"reason,omitempty"`
	Detail   string `json:"detail,omitempty"`
	SQL      string `json:"sql,omitempty"` // what would run
	MaxRows  int    `json:"max_rows,omitempty"`
	Probe    bool   `json:"asks_one_row_more,omitempty"` // the text asks for max_rows + 1, to see whether there are more
	Ties     bool   `json:"drops_with_ties,omitempty"`
	Server   int    `json:"needs_postgresql,omitempty"` // a major version: an older server would not be asked
}

// validate says what the policy makes of one SQL text. It connects to nothing and needs no database; the settings that
// count are MCP_SQL_ALLOW_FUNCTIONS, _TYPES and _RELATIONS, MCP_SQL_SEARCH_PATH and MCP_SQL_RECURSIVE. Its user has
// written the text, so the answer may quote it.
func validate(p Process, args []string) int {
	asJSON, rows, texts := false, seedRows, []string(nil)
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--json":
			asJSON = true
		case args[i] == "--max-rows" && i+1 < len(args):
			i++
			n, err := strconv.Atoi(args[i])
			if err != nil || n < 1 || n > seedRows {
				return p.refuse(ExitConfig, "validate --max-rows takes a number from 1 to", seedRows)
			}
			rows = n
		case args[i] == "--" && i+2 == len(args):
			texts = append(texts, args[i+1])
			i++
		default:
			texts = append(texts, args[i])
		}
	}
	if len(texts) != 1 {
		return p.refuse(ExitConfig, `validate takes one SQL text, for instance: validate "SELECT 1" (see validate --help)`)
	}
	settings, ok := readSettings(p)
	if !ok {
		return ExitConfig
	}
	policy, err := daemon.Policy(settings)
	if err != nil {
		return p.refuse(ExitConfig, err)
	}
	v := verdict{MaxRows: rows}
	statement, err := policy.Approve(context.Background(), texts[0], rows)
	var refusal *problem.Problem
	switch {
	case errors.As(err, &refusal):
		v = verdict{Reason: string(refusal.Reason), Detail: refusal.Text(true)}
	case err != nil:
		return p.refuse(ExitConfig, err)
	default:
		v.Accepted, v.SQL, v.Probe = true, statement.Text(), statement.Probe()
		v.Ties, v.Server = statement.DropsTies(), statement.Server()
	}
	if code := p.print(v.text(asJSON)); code != ExitDone || v.Accepted {
		return code
	}
	return ExitVerdict
}

func (v verdict) text(asJSON bool) string {
	switch {
	case asJSON:
		line, err := json.Marshal(v)
		if err != nil {
			panic(err) // strings, a number and booleans
		}
		return string(strictjson.AppendASCII(nil, line)) + "\n"
	case !v.Accepted:
		return fmt.Sprintf("refused: %s\n%s\n", v.Reason, visible.Line(v.Detail))
	}
	text := fmt.Sprintf("accepted\nwould run: %s\n", visible.Text(v.SQL))
	if v.Probe {
		text += fmt.Sprintf("of these rows at most %d are returned; one more tells whether there are more\n", v.MaxRows)
	}
	if v.Ties {
		text += "WITH TIES and its number are left out of the outermost SELECT; in a subselect they stay\n"
	}
	if v.Server > 0 {
		text += fmt.Sprintf("needs PostgreSQL %d: an older server is not asked\n", v.Server)
	}
	return text
}

func validateHelp(p Process) int { return p.print(validateText) }

const validateText = `mcp-server-suite validate says what the policy makes of one SQL text: the verdict, its reason, and the text that
would run in place of what was written. It needs no database and connects to nothing.

Usage: mcp-server-suite validate [--json] [--max-rows N] "SQL"

  --json        one line of JSON
  --max-rows N  as the argument of read_only_sql, 1 to 50 (default 50)

MCP_SQL_ALLOW_FUNCTIONS, MCP_SQL_ALLOW_TYPES, MCP_SQL_ALLOW_RELATIONS, MCP_SQL_SEARCH_PATH and MCP_SQL_RECURSIVE count
as they do for the server.

Try it:
  mcp-server-suite validate "SELECT count(*) FROM users"
  mcp-server-suite validate "DELETE FROM users"

Exit codes: 0 accepted, 1 refused, 2 configuration or usage.
`
