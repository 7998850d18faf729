package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcp-server-suite/pkg/rawclient"
)

// database is where read_only_sql is shown: one with the sample of compose/postgres/init.
type database struct {
	file       string // with the DSN, for the daemon
	user, name string // as they stand in the titles of the server's processes
	port       int
}

// openDatabase reads a DSN and puts a copy of it where only the daemon's user can read it.
func openDatabase(dsnFile, copyTo string) (*database, error) {
	dsn, err := os.ReadFile(dsnFile)
	if err != nil {
		return nil, fmt.Errorf("read the DSN: %w", err)
	}
	u, err := url.Parse(strings.TrimSpace(string(dsn)))
	if err != nil || u.User == nil {
		return nil, errors.New("read the DSN: it is no URL with a user") // err would repeat the password
	}
	d := &database{file: copyTo, user: u.User.Username(), name: strings.TrimPrefix(u.Path, "/")}
	// By TCP, because only from Landlock's ABI 9 on can all sockets but one folder's be taken away.
	if d.port, err = strconv.Atoi(u.Port()); err != nil {
		return nil, errors.New("read the DSN: it has no port")
	}
	// A folder of its own: what else is in the folder of a DSN file, the daemon may read, too.
	if err := errors.Join(os.Mkdir(filepath.Dir(copyTo), 0o755), os.Chmod(filepath.Dir(copyTo), 0o755)); err != nil {
		return nil, fmt.Errorf("make a folder for the DSN: %w", err)
	}
	if err := os.WriteFile(copyTo, dsn, 0o400); err != nil {
		return nil, fmt.Errorf("copy the DSN: %w", err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(copyTo, rawclient.UnprivilegedID, rawclient.UnprivilegedID); err != nil {
			return nil, fmt.Errorf("hand the DSN over: %w", err)
		}
	}
	return d, nil
}

// ports are those that the daemon may connect to.
func (s *scene) ports() []int {
	if s.database == nil {
		return []int{}
	}
	return []int{s.database.port}
}

// sockets are those that the daemon may make, as its posture names them.
func (s *scene) sockets() []string {
	if s.database == nil {
		return []string{}
	}
	return []string{"socket AF_INET, stream", "socket AF_INET6, stream"}
}

// activities says what the server's processes for the daemon's role are doing, as their titles tell (a title ends in
// "idle" or in the kind of statement; PostgreSQL, update_process_title).
func (d *database) activities() (all []string, err error) {
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, path := range list {
		title, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		text := strings.TrimRight(strings.ReplaceAll(string(title), "\x00", " "), " ")
		if rest, is := strings.CutPrefix(text, "postgres: "+d.user+" "+d.name+" "); is {
			_, doing, _ := strings.Cut(rest, " ")
			all = append(all, doing)
		}
	}
	return all, nil
}

// serverPatience is how long a server's process may take to begin or to end a statement: less than the daemon's own limit
// for one (MCP_SQL_QUERY_TIMEOUT, 10 s), which would end it, too.
const serverPatience = 4 * time.Second

// await looks at the server's processes until one does this, or none when absent is true.
func (d *database) await(doing string, absent bool) (took time.Duration, err error) {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		all, err := d.activities()
		if err != nil {
			return 0, err
		}
		if slices.Contains(all, doing) != absent {
			return time.Since(began), nil
		}
		if time.Since(began) > serverPatience {
			return 0, fmt.Errorf("the server's processes for %s are at %q", d.user, all)
		}
	}
}

func databaseSteps() []step {
	return []step{
		{"schema", "A resource says what there is to ask for: tables, columns and keys that the role may read.", schema},
		{"query", "It runs one SELECT on PostgreSQL, and the rows come with the types of their columns.", query},
		{"truncated", "It returns fifty rows at most, and says so when there are more.", truncated},
		{"writes", "What would write is refused before it reaches the database, also where it is hidden.", writes},
		{"functions", "So are functions that reach beyond the tables.", functions},
		{"cancel query", "A query that is cancelled ends on the server, too.", cancelledQuery},
	}
}

func schema(s *session) error {
	s.asked(`resources/read {"uri":"postgres://schema"}`)
	answer, err := s.request("resources/read", `{"uri":"postgres://schema"}`)
	if err != nil {
		return err
	}
	if answer.Error != nil {
		return fmt.Errorf("it answers with the error %d: %s", answer.Error.Code, answer.Error.Message)
	}
	var read struct {
		Contents []struct {
			URI      string `json:"uri"`
			MIMEType string `json:"mimeType"`
			Text     string `json:"text"`
		} `json:"contents"`
	}
	if err := decode(answer.Result, &read); err != nil {
		return err
	}
	if len(read.Contents) != 1 || read.Contents[0].MIMEType != "application/json" {
		return errors.New("that is not one JSON document")
	}
	text := read.Contents[0].Text
	s.answered("%s", short(indented(text), 600))
	if !json.Valid([]byte(text)) {
		return errors.New("that is no JSON")
	}
	for _, name := range []string{"sighting", "station", "herons", "station_id"} {
		if !strings.Contains(text, `"`+name+`"`) {
			return fmt.Errorf("%s is not in it", name)
		}
	}
	s.checked("both tables are in it, with their columns")
	return nil
}

// table is the result of read_only_sql.
type table struct {
	Columns        []string            `json:"columns"`
	Types          []*string           `json:"types"`
	Rows           [][]json.RawMessage `json:"rows"`
	RowCount       int                 `json:"row_count"`
	Truncated      bool                `json:"truncated"`
	TruncatedBy    *string             `json:"truncated_by"`
	MaxRows        int                 `json:"max_rows"`
	InRecovery     bool                `json:"in_recovery"`
	FlaggedColumns []int               `json:"flagged_columns"`
	Note           *string             `json:"note"`
}

func sqlArguments(query string) string {
	text, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		return "{}" // a string can always be encoded
	}
	return string(text)
}

// ask calls read_only_sql, which it shows.
func (s *session) ask(query string) (rawclient.Answer, error) {
	s.asked("read_only_sql: %s", query)
	return s.request("tools/call", callParams("read_only_sql", sqlArguments(query)))
}

func (s *session) askTable(query string) (t table, err error) {
	answer, err := s.ask(query)
	if err != nil {
		return t, err
	}
	if err := result(answer, &t); err != nil {
		return t, err
	}
	if t.RowCount != len(t.Rows) || len(t.Types) != len(t.Columns) {
		return t, errors.New("the counts of rows or columns do not fit")
	}
	return t, nil
}

const herons = `SELECT s.name, count(*) AS days, sum(g.herons) AS herons, round(avg(g.herons), 2) AS mean ` +
	`FROM station s JOIN sighting g ON g.station_id = s.id GROUP BY s.name ORDER BY herons DESC`

// heronsRows is what the sample holds: herons are n*n%7 + n%3 for n from 0 to 89, at station 1 + n%3.
var heronsRows = [][]string{
	{`"ferry"`, `30`, `124`, `"4.13"`},
	{`"mill"`, `30`, `89`, `"2.97"`},
	{`"weir"`, `30`, `58`, `"1.93"`},
}

func query(s *session) error {
	t, err := s.askTable(herons)
	if err != nil {
		return err
	}
	var types []string
	for i, name := range t.Columns {
		of := "?"
		if t.Types[i] != nil {
			of = *t.Types[i]
		}
		types = append(types, name+" "+of)
	}
	s.answered("%s", strings.Join(types, ", "))
	if !slices.Equal(types, []string{"name text", "days int8", "herons int8", "mean numeric"}) {
		return errors.New("those are not the columns and their types")
	}
	var got [][]string
	for _, row := range t.Rows {
		var values []string
		for _, value := range row {
			values = append(values, string(value))
		}
		got = append(got, values)
		s.answered("%s", strings.Join(values, ", "))
	}
	if !slices.EqualFunc(got, heronsRows, slices.Equal) || t.Truncated || t.Note != nil {
		return errors.New("those are not the rows of the sample")
	}
	s.checked("the rows are those of the sample; what is exact in the database stays so: a mean is text, not a float")
	return nil
}

func truncated(s *session) error {
	t, err := s.askTable("SELECT id, day, herons FROM sighting ORDER BY id")
	if err != nil {
		return err
	}
	by, note := "null", "null"
	if t.TruncatedBy != nil {
		by = *t.TruncatedBy
	}
	if t.Note != nil {
		note = *t.Note
	}
	s.answered("%d rows, truncated: %t, truncated_by: %s", t.RowCount, t.Truncated, by)
	s.answered("note: %s", note)
	const most = 50
	if t.RowCount != most || !t.Truncated || by != "rows" || t.Note == nil {
		return errors.New("that is not fifty rows of ninety")
	}
	all, err := s.askTable("SELECT id FROM sighting ORDER BY id LIMIT 50")
	if err != nil {
		return err
	}
	s.answered("%d rows, truncated: %t", all.RowCount, all.Truncated)
	if all.RowCount != most || all.Truncated {
		return errors.New("fifty rows of fifty are all")
	}
	s.checked("fifty of ninety are cut, and fifty of fifty are not: one row more is looked at to know")
	return nil
}

// askRefused runs a query that the policy must refuse.
func (s *session) askRefused(query string) error {
	answer, err := s.ask(query)
	if err != nil {
		return err
	}
	d, text, err := refusal(answer, "MCP_QUERY_VIOLATION", "UNSAFE_QUERY")
	if err != nil {
		return err
	}
	s.answered("%s: %s", d.Reason, d.Detail)
	for _, secret := range []string{"sighting", "/etc/passwd"} {
		if strings.Contains(text, secret) {
			return errors.New("the answer repeats what was sent")
		}
	}
	return nil
}

func (s *session) countHerons() (string, error) {
	t, err := s.askTable("SELECT count(*), sum(herons) FROM sighting")
	if err != nil || len(t.Rows) != 1 || len(t.Rows[0]) != 2 {
		return "", errors.Join(errors.New("the table cannot be counted"), err)
	}
	return string(t.Rows[0][0]) + " rows, " + string(t.Rows[0][1]) + " herons", nil
}

func writes(s *session) error {
	before, err := s.countHerons()
	if err != nil {
		return err
	}
	for _, sql := range []string{
		"WITH gone AS (DELETE FROM sighting RETURNING *) SELECT count(*) FROM gone",
		"SELECT 1; DROP TABLE sighting",
	} {
		if err := s.askRefused(sql); err != nil {
			return err
		}
	}
	after, err := s.countHerons()
	if err != nil {
		return err
	}
	s.answered("%s", after)
	if before != after || before != "90 rows, 271 herons" {
		return fmt.Errorf("there were %s, and are %s", before, after)
	}
	s.checked("the table is as it was; behind the policy, a transaction and the role refuse the same")
	return nil
}

func functions(s *session) error {
	for _, sql := range []string{"SELECT pg_read_file('/etc/passwd')", "SELECT pg_sleep(3600)"} {
		if err := s.askRefused(sql); err != nil {
			return err
		}
	}
	s.checked("a function runs only if it is on the list; neither text is repeated")
	return nil
}

func cancelledQuery(s *session) error {
	const id, endless = "7", "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b"
	d := s.scene.database
	s.asked("read_only_sql, id %s: %s", id, endless)
	if err := s.send(request(id, "tools/call", callParams("read_only_sql", sqlArguments(endless)))); err != nil {
		return err
	}
	took, err := d.await("SELECT", false)
	if err != nil {
		return err
	}
	s.answered("nothing yet; the server's process for it is at SELECT after %d ms", took.Milliseconds())
	s.asked("notifications/cancelled, id %s", id)
	if err := s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + "}}\n"); err != nil {
		return err
	}
	if took, err = d.await("SELECT", true); err != nil {
		return err
	}
	s.answered("nothing; no process of the server is at SELECT any more after %d ms", took.Milliseconds())
	s.asked("read_only_sql, id 8: SELECT 8")
	if err := s.send(request("8", "tools/call", callParams("read_only_sql", sqlArguments("SELECT 8")))); err != nil {
		return err
	}
	line, err := s.Line()
	if err != nil {
		return err
	}
	s.answered("%s", short(string(line), 110))
	if !strings.HasPrefix(string(line), `{"jsonrpc":"2.0","id":8,"result":`) ||
		!strings.Contains(string(line), `"rows":[[8]]`) {
		return errors.New("that is not the result for id 8")
	}
	s.checked("it would have computed for minutes; it was not answered, and the next query was")
	return nil
}
