package latency

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-server-suite/pkg/pgstage"
	"mcp-server-suite/pkg/stage"
)

// dsnFile makes a database like the one of make bench, with these statements run in it, and the file with its DSN.
func dsnFile(t *testing.T, more string) string {
	t.Helper()
	sample, err := os.ReadFile("../../compose/postgres/init/10-sample.sql")
	if err != nil {
		t.Fatal(err)
	}
	server := pgstage.Start(t, pgstage.Options{MaxConnections: 64})
	db := server.Database(t, string(sample)+more)
	role := server.Role(t, db, pgstage.Reader{Password: "weir", Connections: 48})
	path := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(path, []byte(server.DSN(db, role, "weir", true)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readings(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("readings.sql")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The rest of the database's figures needs a server, so it is another run than TestQuickRunMeasuresEveryFigure.
func TestQuickRunOnADatabaseMeasuresEveryQuery(t *testing.T) { // not parallel: it sets TMPDIR
	dsn, daemon := dsnFile(t, readings(t)), stage.Binary(t, "")
	folder := stage.Dir(t)
	t.Setenv("TMPDIR", folder)
	var queries []string
	for _, measure := range measures {
		if isQuery(measure) {
			queries = append(queries, measure)
		}
	}
	args := []string{"--rounds", "2", "--block", "50ms", "--calls", "1000", "--json", "--daemon", daemon, "--dsn-file", dsn}
	code, stdout, stderr := run(append(args, "--only", strings.Join(queries, ","))...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	t.Logf("what took how long:\n%s", stderr)
	if strings.Contains(stdout+stderr, "weir@") || strings.Contains(stdout+stderr, ":weir") {
		t.Error("the password is shown")
	}
	var r report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(r.Database, "PostgreSQL 1") || !strings.HasSuffix(r.Database, " over unix") {
		t.Errorf("the database is %q", r.Database)
	}
	got := map[string]int{}
	for _, f := range r.Figures {
		got[f.Measure]++
		if f.Median <= 0 || len(f.Each) == 0 || (f.Verdict == free) != (f.Bound == 0) {
			t.Errorf("%s: %+v", f.Name, f)
		}
	}
	for _, measure := range queries {
		want := map[string]int{measureSum: 2, measureText: 2, measureFlight: 2}[measure]
		if got[measure] != max(want, 1) {
			t.Errorf("%d figures of %s", got[measure], measure)
		}
	}
	programs := map[string][]string{
		measureOne: {bare, daemonName}, measureFifty: {bare, daemonName}, measureSum: {bare, daemonName, serial},
		measureText: {bare, daemonName, fresh}, measureFlight: {bare, daemonName, narrow},
	}
	for measure, names := range programs {
		var have []string
		for _, s := range r.Series {
			if s.Measure == measure {
				have = append(have, s.Program)
				if len(s.Blocks) != 2 || s.AnswerBytes == 0 {
					t.Errorf("%s %s: %+v", s.Measure, s.Program, s)
				}
			}
		}
		if !slices.Equal(have, names) {
			t.Errorf("%s is measured on %q", measure, have)
		}
	}
	if len(r.Mixed) != 1 || r.Mixed[0].Calls != 1000 || len(r.Mixed[0].RSS) != 10 || r.Mixed[0].Rate <= 0 {
		t.Errorf("mixed: %+v", r.Mixed)
	}
	// That the daemon asks PostgreSQL's parser for a new text only is milliseconds against microseconds.
	for _, f := range r.Figures {
		if f.Measure == measureText && f.Bound > 0 && f.Verdict != met {
			t.Errorf("%s: %+v", f.Name, f)
		}
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

const daemonName = daemon // where daemon is a path

func TestADatabaseThatCannotBeMeasuredIsNoFigure(t *testing.T) {
	t.Parallel()
	binary := stage.Binary(t, "")
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "dsn")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	without := dsnFile(t, "CREATE TABLE reading (id integer)")
	changed := func(sed string) string { return script(t, binary+" | sed -u '1!{"+sed+"}'\n") }
	cases := []struct{ name, daemon, dsn, only, want string }{
		{"no file", binary, "/nonexistent/dsn", measureOne, "read the DSN"},
		{"no DSN", binary, file("postgresql://egret:weir@["), measureOne, "read the DSN: it is none"},
		{
			"nobody there", binary, file("postgresql://egret:weir@127.0.0.1:1/app?sslmode=disable"), measureOne,
			"connect to the database",
		},
		{"another database", binary, without, measureOne, "pkg/latency/readings.sql"},
		{
			"a daemon that refuses mixed queries that are fine", changed(`s/"isError":false/"isError":true/`), "", measureMixed,
			"another answer",
		},
		{"a daemon that cuts nothing", changed(`s/"truncated":true/"truncated":false/`), "", measureRows, "another answer"},
		{
			"a daemon that answers at length", changed(`s/"note":null/"note":"` + strings.Repeat("long", 40) + `"/`), "", measureOne,
			"bytes, ",
		},
	}
	whole := dsnFile(t, readings(t))
	for _, c := range cases {
		if c.dsn == "" {
			c.dsn = whole
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := run("--only", c.only, "--rounds", "1", "--block", "20ms", "--calls", "100",
				"--daemon", c.daemon, "--dsn-file", c.dsn)
			if code != 1 || stdout != "" || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "weir") {
				t.Errorf("exit %d, stdout %q, stderr %q; want %q", code, stdout, stderr, c.want)
			}
		})
	}
}

func TestTheBareQueryProgramAnswersTheRowsOfEachQuery(t *testing.T) {
	t.Parallel()
	dsn := dsnFile(t, "")
	query := func(id int, text string) string {
		return answerHead + strconv.Itoa(id) + `,"method":"tools/call","params":{"name":"read_only_sql","arguments":` +
			sqlArguments(text) + "}}\n"
	}
	const text = "SELECT id, name, NULL AS nothing FROM station ORDER BY id LIMIT 2"
	for _, connections := range []int{1, 3} {
		var in strings.Builder
		for id := range 40 {
			in.WriteString(query(id, text) + "no id\n")
		}
		var out bytes.Buffer
		if err := serveSQL(strings.NewReader(in.String()), &out, dsn, connections); err != nil {
			t.Fatal(err)
		}
		seen := map[int]bool{}
		for _, a := range answers(t, out.String()) {
			seen[a.ID] = true
			var result struct {
				StructuredContent json.RawMessage
				Content           []struct{ Text string }
			}
			var table struct {
				Columns  []string
				Rows     [][]*string
				RowCount int `json:"row_count"`
			}
			if err := json.Unmarshal(a.Result, &result); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(result.StructuredContent, &table); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(table.Columns, []string{"id", "name", "nothing"}) || table.RowCount != 2 || len(table.Rows) != 2 ||
				*table.Rows[1][0] != "2" || *table.Rows[1][1] != "mill" || table.Rows[1][2] != nil ||
				result.Content[0].Text != string(result.StructuredContent) {
				t.Fatalf("%d connections: %s", connections, a.Result)
			}
		}
		if len(seen) != 40 {
			t.Errorf("%d connections: %d answers", connections, len(seen))
		}
		for _, bad := range []string{query(1, "SELECT nothing"), `{"id":1}` + "\n", strings.Repeat("x", peerLineBytes+1)} {
			if err := serveSQL(strings.NewReader(bad), &out, dsn, connections); err == nil {
				t.Errorf("%d connections: no error of %.80q", connections, bad)
			}
		}
	}
	if err := serveSQL(strings.NewReader(""), &bytes.Buffer{}, "/nonexistent/dsn", 1); err == nil {
		t.Error("no DSN and no error")
	}
	setting := query(1, "SELECT setting FROM pg_settings WHERE name = $$max_parallel_workers_per_gather$$")
	var out bytes.Buffer
	if err := serveSQL(strings.NewReader(setting), &out, dsn, 1, "max_parallel_workers_per_gather", "0"); err != nil ||
		!strings.Contains(out.String(), `"rows":[["0"]]`) {
		t.Errorf("%s, %v", out.String(), err)
	}
}

func TestALongQueryIsAsLongAsItsNameSaysWhateverItsNumber(t *testing.T) {
	t.Parallel()
	one, other := longQuery(firstID), longQuery(lastID)
	if len(one) < longChars || len(one) > longChars+50 || len(one) != len(other) || one == other {
		t.Errorf("%d and %d characters", len(one), len(other))
	}
}

func TestAChangingTextHasTheIDInItAndAnotherHasNot(t *testing.T) {
	t.Parallel()
	p := &pipe{id: firstID}
	changing, still := queryOf(p, longQuery(firstID)).changing(), queryOf(p, oneQuery).changing()
	for range 3 {
		for _, c := range []*call{changing, still} {
			if err := c.next(); err != nil {
				t.Fatal(err)
			}
			want := 1
			if c == changing {
				want = 2
			}
			if n := bytes.Count(c.request, []byte(strconv.Itoa(p.id))); n != want {
				t.Errorf("the id stands %d times in %s", n, c.request)
			}
		}
	}
}

func TestAnswersToMixedQueriesAreHeldAgainstTheirKind(t *testing.T) {
	t.Parallel()
	line := func(id, isError string) []byte {
		return []byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[],"isError":` + isError + "}}\n")
	}
	for _, c := range []struct {
		line []byte
		fine bool
	}{
		{line("1000000", "false"), true},
		{line("1000000", "true"), false},
		{line("1000005", "true"), true},
		{line("1000005", "false"), false},
		{line("5", "true"), false},
		{[]byte("{}\n"), false},
	} {
		if err := checkMixed(c.line); (err == nil) != c.fine {
			t.Errorf("%s: %v", c.line, err)
		}
	}
}

func TestEachLineGivesWholeLinesHoweverTheyArrive(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3<<20)
	p, err := open("writer", "/bin/sh", []string{"PATH=/usr/bin:/bin"}, "-c",
		`printf 'one\ntw'; sleep 0.05; printf 'o\nthree\n'; cat; sleep 60`)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	defer p.kill()
	go func() {
		_ = p.write([]byte(long + "\nlast\n")) // what is missing fails the test
	}()
	want := []string{"one\n", "two\n", "three\n", long + "\n"}
	err = p.watched(patience, func() error {
		return p.eachLine(func(line []byte) (bool, error) {
			if string(line) != want[0] {
				return false, errors.New("another line")
			}
			want = want[1:]
			return len(want) > 0, nil
		})
	})
	if err != nil || len(want) != 0 {
		t.Errorf("%v, %d lines are missing", err, len(want))
	}
	broken := errors.New("broken")
	if err := p.watched(patience, func() error {
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		for began := time.Now(); time.Since(began) < patience; {
			if err := p.eachLine(func([]byte) (bool, error) { return false, broken }); err != nil {
				return err
			}
		}
		return nil
	}); err == nil {
		t.Error("the program has ended and no error comes")
	}
}
