package postgres

import (
	"bytes"
	"context"
	_ "embed" // the questions
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"mcp-server-suite/pkg/strictjson"
)

const (
	// MaxSchemaBytes is the most that [DB.Schema] returns, in bytes of JSON.
	MaxSchemaBytes = 256 << 10

	maxRelations = 200
	maxComment   = 256 // characters

	// What the questions may yield: 5,000 names (relations.sql); 200 relations, 2,000 columns and 1,000 keys
	// (details.sql).
	maxNames   = 5000
	maxDetails = maxRelations + 2000 + 1000
	// answerBytes bounds each of the two answers.
	answerBytes = 1 << 20
)

var (
	//go:embed relations.sql
	relations string
	//go:embed details.sql
	details string
)

// Visible says what of a relation may be shown: the columns (nil: all), or that it may not. It is asked with names as
// the server has them.
type Visible func(schema, table string) (columns []string, ok bool)

// schema is what Schema returns.
type schema struct {
	Relations []*relation `json:"relations"` // by schema and name
	Omitted   omitted     `json:"omitted"`
}

// omitted counts what is visible and was left out for its amount. Columns and keys of relations that were left out
// are not known.
type omitted struct {
	Relations int `json:"relations"`
	Columns   int `json:"columns"`
	Keys      int `json:"keys"`
}

type relation struct {
	Schema     string   `json:"schema"`
	Name       string   `json:"name"`
	Kind       string   `json:"kind"` // one of kinds
	Comment    *comment `json:"comment,omitempty"`
	Rows       *int64   `json:"rows"` // the planner's estimate; null where there is none
	Partitions int      `json:"partitions,omitempty"`
	Flagged    bool     `json:"flagged,omitempty"` // the name holds control or invisible characters
	Columns    []column `json:"columns"`
	Keys       []key    `json:"keys,omitempty"`

	columns, keys int // how many there are
}

type column struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"` // as format_type writes it
	NotNull bool     `json:"not_null"`
	Comment *comment `json:"comment,omitempty"`
	Flagged bool     `json:"flagged,omitempty"` // the name or the type
}

// comment is what somebody has written about a relation or column: data, never more.
type comment struct {
	Text    string `json:"text"`
	Cut     bool   `json:"cut,omitempty"`     // there is more
	Flagged bool   `json:"flagged,omitempty"` // it holds control or invisible characters
}

type key struct {
	Kind       string     `json:"kind"` // primary, unique or foreign
	Columns    []string   `json:"columns"`
	References *reference `json:"references,omitempty"` // of a foreign key
}

type reference struct {
	Schema  string   `json:"schema"`
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
}

var (
	kinds = map[string]string{
		"r": "table", "p": "partitioned table", "v": "view", "m": "materialized view", "f": "foreign table",
	}
	keyKinds = map[string]string{"p": "primary", "u": "unique", "f": "foreign"}
)

// Schema returns what the role may read outside of the catalogs, as JSON in ASCII of at most [MaxSchemaBytes]:
//
//	{"relations": [{"schema": "reporting", "name": "sales", "kind": "table", "comment": {"text": "...", "cut": true,
//	"flagged": true}, "rows": 1200, "partitions": 3, "columns": [{"name": "id", "type": "bigint", "not_null": true}],
//	"keys": [{"kind": "primary", "columns": ["id"]}]}], "omitted": {"relations": 0, "columns": 0, "keys": 0}}
//
// Names and comments are what others have written. It holds at most 200 relations, 2,000 columns, 1,000 keys, and 256
// characters of a comment, and nothing that is not visible (nil: all is); a key shows if all of its columns do, on both
// sides. It takes two statements, each in a transaction of its own; errors are those of [DB.Query].
func (d *DB) Schema(ctx context.Context, visible Visible) ([]byte, error) {
	if visible == nil {
		visible = func(string, string) ([]string, bool) { return nil, true }
	}
	s := schema{Relations: []*relation{}}
	byID, err := d.names(ctx, visible, &s)
	if err != nil {
		return nil, err
	}
	if len(byID) > 0 {
		if err := d.details(ctx, visible, byID, &s); err != nil {
			return nil, err
		}
	}
	return s.json(), nil
}

// names fills in the relations without their details, and returns them by oid.
func (d *DB) names(ctx context.Context, visible Visible, s *schema) (map[string]*relation, error) {
	rows, err := d.lines(ctx, relations, maxNames)
	if err != nil {
		return nil, err
	}
	byID := map[string]*relation{}
	seen := 0
	for _, row := range rows {
		id, total := row.text(0), row.text(3)
		all, err := strconv.Atoi(total)
		if _, wrong := strconv.ParseUint(id, 10, 32); wrong != nil || err != nil {
			return nil, errors.New("read schema: an identifier or count is no number")
		}
		if seen == 0 {
			// Of those beyond the list it is not known whether they are visible.
			s.Omitted.Relations = all - len(rows)
		}
		seen++
		r := &relation{Schema: row.text(1), Name: row.text(2), Columns: []column{}}
		if _, ok := visible(r.Schema, r.Name); !ok {
			continue
		}
		if len(byID) == maxRelations {
			s.Omitted.Relations++
			continue
		}
		r.Flagged = hides(r.Schema) || hides(r.Name)
		byID[id] = r
		s.Relations = append(s.Relations, r)
	}
	return byID, nil
}

// details fills in the rest. A relation that has gone in between, or did not fit the answer, is taken out.
func (d *DB) details(ctx context.Context, visible Visible, byID map[string]*relation, s *schema) error {
	ids := make([]string, 0, len(byID))
	for id := range byID { // the order of relations is that of the list
		ids = append(ids, id)
	}
	position := func(id string) int { return slices.Index(s.Relations, byID[id]) }
	slices.SortFunc(ids, func(a, b string) int { return position(a) - position(b) })
	// The flight takes no parameters: its text is all there is. What is written into it are numbers.
	rows, err := d.lines(ctx, fmt.Sprintf(details, strings.Join(ids, ",")), maxDetails)
	if err != nil {
		return err
	}
	for _, row := range rows {
		r := byID[row.text(0)]
		if r == nil {
			return errors.New("read schema: a detail of nothing that was asked for")
		}
		columns, _ := visible(r.Schema, r.Name)
		switch part, _ := row[1].(float64); part {
		case 0:
			r.describe(row)
		case 1:
			if columns == nil || slices.Contains(columns, row.text(2)) {
				r.Columns = append(r.Columns, row.column())
			} else {
				r.columns--
			}
		case 2:
			k := row.key()
			if k.shows(columns, visible) {
				r.Keys = append(r.Keys, k)
			} else {
				r.keys--
			}
		}
	}
	s.Relations = slices.DeleteFunc(s.Relations, func(r *relation) bool {
		if r.Kind == "" {
			s.Omitted.Relations++
		}
		return r.Kind == ""
	})
	for _, r := range s.Relations {
		s.Omitted.Columns += max(0, r.columns-len(r.Columns))
		s.Omitted.Keys += max(0, r.keys-len(r.Keys))
	}
	return nil
}

// line is one row of an answer: texts, numbers, lists of texts, or nil.
type line []any

func (d *DB) lines(ctx context.Context, text string, rows int) ([]line, error) {
	table, err := d.run(ctx, job{text: text, rows: rows, bytes: answerBytes})
	if err != nil {
		return nil, err
	}
	var lines []line
	if err := json.Unmarshal(table.Rows, &lines); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	for _, l := range lines {
		if len(l) != len(table.Columns) || len(l) < 4 {
			return nil, errors.New("read schema: a row is not as long as its head")
		}
	}
	return lines, nil
}

func (l line) text(i int) string { s, _ := l.item(i).(string); return s }

// item is nil where there is none: how long a line is, the server says.
func (l line) item(i int) any {
	if i >= len(l) {
		return nil
	}
	return l[i]
}

func (l line) texts(i int) []string {
	items, _ := l.item(i).([]any)
	texts := make([]string, len(items))
	for n, item := range items {
		texts[n], _ = item.(string)
	}
	return texts
}

func (l line) comment() *comment {
	text := l.text(5)
	if text == "" {
		return nil
	}
	c := comment{Text: text}
	if utf8.RuneCountInString(text) > maxComment {
		c.Text, c.Cut = string([]rune(text)[:maxComment]), true
	}
	c.Flagged = hides(c.Text)
	return &c
}

func (r *relation) describe(l line) {
	r.Kind, r.Comment = kinds[l.text(2)], l.comment()
	if n, err := strconv.ParseInt(l.text(3), 10, 64); err == nil {
		r.Rows = &n
	}
	r.Partitions, _ = strconv.Atoi(l.text(4))
	if counts := l.texts(6); len(counts) == 2 {
		columns, _ := strconv.Atoi(counts[0])
		keys, _ := strconv.Atoi(counts[1])
		r.columns += columns
		r.keys += keys
	}
}

func (l line) column() column {
	c := column{Name: l.text(2), Type: l.text(3), NotNull: l.text(4) == "t", Comment: l.comment()}
	c.Flagged = hides(c.Name) || hides(c.Type)
	return c
}

func (l line) key() key {
	k := key{Kind: keyKinds[l.text(2)], Columns: l.texts(6)}
	if k.Kind == "foreign" {
		k.References = &reference{Schema: l.text(3), Table: l.text(4), Columns: l.texts(7)}
	}
	return k
}

// shows says whether all columns of a key are visible.
func (k key) shows(columns []string, visible Visible) bool {
	within := func(names, columns []string) bool {
		return columns == nil || !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(columns, n) })
	}
	if !within(k.Columns, columns) {
		return false
	}
	if k.References == nil {
		return true
	}
	target, ok := visible(k.References.Schema, k.References.Table)
	return ok && within(k.References.Columns, target)
}

// tailBytes is room for what stands around the relations.
const tailBytes = 256

// json writes as many relations as there is room for.
func (s *schema) json() []byte {
	out := []byte(`{"relations":[`)
	for i, r := range s.Relations {
		text := strictjson.AppendASCII(nil, encode(r))
		if len(out)+1+len(text)+tailBytes > MaxSchemaBytes {
			for _, left := range s.Relations[i:] {
				s.Omitted.Relations++
				s.Omitted.Columns += len(left.Columns)
				s.Omitted.Keys += len(left.Keys)
			}
			break
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, text...)
	}
	out = append(out, `],"omitted":`...)
	out = append(out, encode(s.Omitted)...)
	return append(out, '}')
}

// encode is for values of this file, which have no part that could not be written.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // see above; a bytes.Buffer takes all
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// hides says whether a text holds characters that a reader does not see, or that a terminal obeys.
func hides(text string) bool {
	for _, r := range text {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			return true
		}
	}
	return false
}
