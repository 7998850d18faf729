package latency

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"mcp-server-suite/pkg/rawclient"
)

// The queries that are measured. Their JSON is their text: no quotation mark, no backslash.
const (
	oneQuery   = "SELECT 1"
	fiftyQuery = "SELECT id, station_id, taken, level, valid, remark FROM reading ORDER BY id LIMIT 50"
	sumQuery   = "SELECT station_id, count(*), avg(level) FROM reading GROUP BY station_id ORDER BY station_id"
	valueQuery = "SELECT string_agg(repeat('heron ', 100000), '') FROM generate_series(1, 500)" // 300 MB, 600,000 at a time
	rowsQuery  = "SELECT n FROM generate_series(1, 10000000) AS n"
)

// longChars is how long a text must at least be whose second reading costs no parse.
const longChars = 2000

// longQuery is a text of longChars characters that takes long to parse and nothing to run. number, which has seven
// digits, makes it another text and changes nothing in the answer.
func longQuery(number int) string {
	const head, part = "SELECT id FROM station WHERE id = 1", " AND id + 2 > 1"
	tail := fmt.Sprintf(" AND id < %07d", number)
	return head + strings.Repeat(part, (longChars-len(head)-len(tail))/len(part)+1) + tail
}

// sqlArguments are those of read_only_sql.
func sqlArguments(query string) string { return `{"query":"` + query + `"}` }

const sqlTool = "read_only_sql"

// handDSN puts a copy of a DSN where the measured programs can read it: in a folder of its own, because what else is in
// the folder of a DSN file the daemon may read, too.
func handDSN(from, folder string) (to string, err error) {
	dsn, err := os.ReadFile(from)
	if err != nil {
		return "", fmt.Errorf("read the DSN: %w", err)
	}
	if err := errors.Join(os.Mkdir(folder, 0o755), os.Chmod(folder, 0o755)); err != nil { // whatever the umask says
		return "", fmt.Errorf("make a folder for the DSN: %w", err)
	}
	to = filepath.Join(folder, "dsn")
	if err := os.WriteFile(to, dsn, 0o400); err != nil {
		return "", fmt.Errorf("copy the DSN: %w", err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(to, rawclient.UnprivilegedID, rawclient.UnprivilegedID); err != nil {
			return "", fmt.Errorf("hand the DSN over: %w", err)
		}
	}
	return to, nil
}

// connect makes one connection to the database of a DSN file. settings are session parameters, name and value. An error
// does not repeat the DSN, which holds a password.
func connect(ctx context.Context, dsnFile string, settings ...string) (*pgconn.PgConn, error) {
	dsn, err := os.ReadFile(dsnFile)
	if err != nil {
		return nil, fmt.Errorf("read the DSN: %w", err)
	}
	c, err := pgconn.ParseConfig(strings.TrimSpace(string(dsn)))
	if err != nil {
		return nil, errors.New("read the DSN: it is none")
	}
	for i := 0; i+1 < len(settings); i += 2 {
		c.RuntimeParams[settings[i]] = settings[i+1]
	}
	conn, err := pgconn.ConnectConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return conn, nil
}

// databaseOf says what the database is, and fails unless it holds what the queries read.
func databaseOf(ctx context.Context, dsnFile string) (what string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := connect(ctx, dsnFile)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }() // it has said what it is
	const rows = "600000"
	result := conn.ExecParams(ctx, "SELECT count(*) FROM reading, station WHERE station.id = 1", nil, nil, nil, nil).Read()
	if result.Err != nil || len(result.Rows) != 1 || string(result.Rows[0][0]) != rows {
		return "", errors.New("the database does not hold what pkg/latency/readings.sql makes (see make bench)")
	}
	return "PostgreSQL " + conn.ParameterStatus("server_version") + " over " + conn.Conn().RemoteAddr().Network(), nil
}

// growth is the daemon's resident memory, in MiB, after a tenth of many mixed calls and after all of them.
type growth struct {
	Calls int       `json:"calls"`
	RSS   []float64 `json:"rss_mib"` // after each tenth
	Peak  float64   `json:"peak_rss_mib"`
	Rate  float64   `json:"calls_per_second"`
}

// mixed are the kinds of calls that take turns, one digit of the id each. 1000000 becomes the id of the call. The long
// literal fills what the daemon keeps of known texts (4 MiB) within the first tenth of 100,000 calls, so that what grows
// afterwards is something else.
var mixed = [10]struct {
	query   string
	refused bool
}{
	{oneQuery, false},
	{fiftyQuery, false},
	{"SELECT river, 1000000 FROM station WHERE name <> '" + strings.Repeat("heron ", 500) + "'", false}, // never seen
	{"SELECT a.id, b.remark FROM reading a, reading b", false},                                          // cut at fifty rows
	{"SELECT repeat('heron ', 30000)", false},                                                           // cut by its size
	{"SELECT river FROM FROM station", true},                                                            // no SQL
	{"SELECT pg_sleep(1)", true},                                                                        // not allowed
	{"SELECT 1 / (id - id), 1000000 FROM station", true},                                                // an error of the server's; a new text, too
	{"SELECT s.name, sum(g.herons) FROM station s JOIN sighting g ON g.station_id = s.id GROUP BY s.name", false},
	{"SELECT nothing FROM station", true}, // no such column
}

// mixedInFlight is how many of the mixed calls are unanswered at once.
const mixedInFlight = 16

// mix makes m.Calls mixed calls on one daemon and looks at its memory ten times.
func (m *measurement) mix(f *files) error {
	p, err := open("the daemon", f.daemon, f.environment(querying))
	if err != nil {
		return err
	}
	defer p.close()
	if err := p.handshake(); err != nil {
		return err
	}
	requests := make([]*call, len(mixed))
	for i, kind := range mixed {
		requests[i] = newCall(p, sqlTool, sqlArguments(kind.query)).changing()
	}
	g := growth{Calls: m.Calls}
	began := time.Now()
	for tenth := range 10 {
		n := (tenth+1)*m.Calls/10 - tenth*m.Calls/10
		if err := p.watched(mixPatience, func() error { return exchange(p, requests, n) }); err != nil {
			return err
		}
		now, err := readStatus(p.pid)
		if err != nil {
			return err
		}
		g.RSS, g.Peak = append(g.RSS, float64(now.rssBytes)/mib), float64(now.peakBytes)/mib
	}
	g.Rate = float64(g.Calls) / time.Since(began).Seconds()
	m.report.Mixed = append(m.report.Mixed, g)
	return nil
}

// mixPatience is how long a tenth of the mixed calls may take; 10,000 took some 2 s at a load of 9.
const mixPatience = 2 * time.Minute

// exchange makes n calls of all kinds in turns, mixedInFlight at a time, and looks at every answer.
func exchange(p *pipe, requests []*call, n int) error {
	sent, done := 0, 0
	send := func() error {
		sent++
		c := requests[(p.id+1)%len(requests)]
		if err := c.next(); err != nil {
			return err
		}
		return p.write(c.request)
	}
	for sent < min(mixedInFlight, n) {
		if err := send(); err != nil {
			return err
		}
	}
	return p.eachLine(func(line []byte) (more bool, err error) {
		done++
		if sent < n {
			err = send()
		}
		return done < n, errors.Join(checkMixed(line), err)
	})
}

// checkMixed says whether an answer is of the kind that its id asks for.
func checkMixed(line []byte) error {
	id := idDigits(line)
	if len(id) != digits {
		return fmt.Errorf("an answer without an id of ours: %.300s", line)
	}
	kind := mixed[id[digits-1]-'0']
	if !strings.HasSuffix(string(line), fmt.Sprintf("\"isError\":%t}}\n", kind.refused)) {
		return fmt.Errorf("another answer to %s: %.300s", kind.query, line)
	}
	return nil
}

// peakOf measures the memory of a daemon that was asked once for what this query gives, and began its answer like this.
func (m *measurement) peakOf(f *files, query, want string, to *[]memory) error {
	c, _, _, err := begin(f, querying)
	if err != nil {
		return err
	}
	defer end(c)
	answer, err := c.Call("tools/call", `{"name":"`+sqlTool+`","arguments":`+sqlArguments(query)+`}`)
	if err != nil {
		return err
	}
	if !succeeded(answer) || !strings.Contains(string(answer.Result), want) {
		return fmt.Errorf("another answer to %s: %.300s", query, answer.Result)
	}
	now, err := memoryOf(c)
	*to = append(*to, now)
	return err
}

func (m *measurement) value(f *files) error {
	return m.peakOf(f, valueQuery, `"rows":[],"row_count":0,"truncated":true,"truncated_by":"size"`, &m.report.Value)
}

func (m *measurement) manyRows(f *files) error {
	return m.peakOf(f, rowsQuery, `"row_count":50,"truncated":true,"truncated_by":"rows"`, &m.report.Rows10M)
}
