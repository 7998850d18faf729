package rowjson

import (
	"unicode/utf8"

	"mcp-server-suite/pkg/strictjson"
)

// Column is what RowDescription says about a column. Names may be empty, equal, or anything else. OID is the type's;
// for a domain PostgreSQL sends the type below it.
type Column struct {
	Name string
	OID  uint32
}

// Limits is what all rows together may take. Rows counts the rows that are handed out; Bytes is the length of
// [Encoder.JSON], brackets and commas included. The empty result needs two bytes; it is there even if Bytes is less.
type Limits struct {
	Rows  int
	Bytes int
}

// What [Encoder.Truncated] says.
const (
	byRows = "rows"
	bySize = "size"
)

// Encoder collects rows. It is not safe for concurrent use.
type Encoder struct {
	columns []column
	rows    int // Limits.Rows
	room    int // how long out may get: Limits.Bytes without the last bracket
	out     []byte
	count   int
	by      string
	full    bool // the row being written does not fit
	scratch []byte
	scanner strictjson.Scanner
}

// column is the rule of a column, and whether something in it cannot be seen: in what is handed out, and in what was
// written, of which the last row may have been taken back.
type column struct {
	kind
	flagged, pending bool
}

// firstBytes is what an encoder reserves: 50 rows of six short values (the benchmark) are 4.5 KiB.
const firstBytes = 8 << 10

// New returns an encoder for rows of these columns. Negative limits count as zero.
func New(columns []Column, l Limits) *Encoder {
	e := &Encoder{
		columns: make([]column, len(columns)),
		rows:    l.Rows,
		room:    max(l.Bytes, 0) - len("]"),
		out:     make([]byte, 0, max(len("[]"), min(l.Bytes, firstBytes))),
	}
	for i, c := range columns {
		e.columns[i] = column{kind: kindOf(c.OID), flagged: hidesText([]byte(c.Name))}
	}
	e.out = append(e.out, '[')
	return e
}

// Row takes one row in text format, where nil is NULL and values keeps no reference. It takes a row whole or not at
// all, and reports whether another row would be looked at: false when this row lies beyond Limits.Rows, did not fit
// in Limits.Bytes, or does not have one value for each column (which no PostgreSQL sends; it counts as a row that did
// not fit). That the last allowed row was taken is no reason for false: whether there is one more decides
// [Encoder.Truncated].
func (e *Encoder) Row(values [][]byte) (more bool) {
	switch {
	case e.by != "":
		return false
	case e.count >= e.rows:
		e.by = byRows
		return false
	case len(values) != len(e.columns):
		e.by = bySize
		return false
	}
	start := len(e.out)
	if e.count > 0 {
		e.out = append(e.out, ',')
	}
	e.out = append(e.out, '[')
	for i, value := range values {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		if e.column(&e.columns[i], value); e.full {
			break
		}
	}
	e.out = append(e.out, ']')
	if e.full || len(e.out) > e.room {
		e.out, e.by = e.out[:start], bySize
		return false
	}
	for i := range e.columns {
		e.columns[i].flagged = e.columns[i].flagged || e.columns[i].pending
	}
	e.count++
	return true
}

// JSON returns the rows that were taken as [[1,"a"],[2,null]], in ASCII. It is valid until the next Row.
func (e *Encoder) JSON() []byte { return append(e.out, ']') }

// Count is how many rows were taken.
func (e *Encoder) Count() int { return e.count }

// Truncated returns "rows" if a row beyond Limits.Rows was offered, "size" if one did not fit in Limits.Bytes,
// whichever came first, and "" if every row that was offered is in the result.
func (e *Encoder) Truncated() (by string) { return e.by }

// Flagged returns the indexes of the columns, from zero and ascending, whose name or one of whose values in the
// result holds characters that a reader cannot see or that change how others are shown: control characters other than
// tab, line feed and carriage return, and all default-ignorable, format (Cf) and variation selector characters of
// Unicode. In json and jsonb values escapes such as \u202e count as what they stand for, lone surrogates, too.
func (e *Encoder) Flagged() []int {
	var flagged []int
	for i, c := range e.columns {
		if c.flagged {
			flagged = append(flagged, i)
		}
	}
	return flagged
}

func (e *Encoder) column(c *column, value []byte) {
	switch {
	case value == nil:
		word(e, "null")
	case c.array && isArray(value, c.delimiter):
		e.array(c, value)
	case c.array:
		e.text(c, value)
	default:
		e.value(c, value)
	}
}

// value writes one value that is not NULL by the rule of its column, or as a string of its text.
func (e *Encoder) value(c *column, value []byte) {
	switch c.rule {
	case asBool:
		switch string(value) {
		case "t":
			word(e, "true")
			return
		case "f":
			word(e, "false")
			return
		}
	case asInteger:
		if isInteger(value) && isExact(value) {
			word(e, value)
			return
		}
	case asFloat:
		if isNumber(value) && isExact(value) {
			word(e, value)
			return
		}
	case asJSON:
		c.pending = c.pending || hidesInJSON(value)
		if doc, ok := e.embeddable(value); ok {
			e.embed(doc)
			return
		}
	case asTimestamp, asTimestampTZ:
		var buf [maxTimestamp]byte
		if stamp := appendTimestamp(buf[:0], value, c.rule == asTimestampTZ); stamp != nil {
			e.text(c, stamp)
			return
		}
	case asText:
	}
	e.text(c, value)
}

// fits reports whether n more bytes have room, and otherwise gives the row up.
func (e *Encoder) fits(n int) bool {
	e.full = e.full || n > e.room-len(e.out)
	return !e.full
}

// word appends ASCII that is JSON already.
func word[S ~string | ~[]byte](e *Encoder, w S) {
	if e.fits(len(w)) {
		e.out = append(e.out, w...)
	}
}

// chunkBytes is how much text is escaped before the budget is looked at again. One byte makes up to six, and what a
// value would take beyond the budget must not be reserved.
const chunkBytes = 4 << 10

// chunk returns how many bytes to take from the beginning of text. It does not cut a character in two, nor a
// surrogate in WTF-8.
func chunk(text []byte) int {
	if len(text) <= chunkBytes {
		return len(text)
	}
	n := chunkBytes
	for n > chunkBytes-utf8.UTFMax+1 && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// text appends text as a JSON string.
func (e *Encoder) text(c *column, text []byte) {
	word(e, `"`)
	for e.fits(len(text)+len(`"`)) && len(text) > 0 { // an escape is never shorter than what it stands for
		n := chunk(text)
		e.escape(c, text[:n])
		text = text[n:]
	}
	word(e, `"`)
}

// escape appends a piece of a string. Most text needs no escape and therefore no second look: then it has not grown.
func (e *Encoder) escape(c *column, text []byte) {
	start := len(e.out)
	e.out = strictjson.AppendEscaped(e.out, text)
	if len(e.out)-start == len(text) {
		return
	}
	c.pending = c.pending || hidesText(text)
	if utf8.Valid(text) {
		return
	}
	// strictjson turns a surrogate in WTF-8 into its escape. Here it would be the half of a character that strict
	// readers refuse, and two of them a character that was never there.
	e.out = e.out[:start]
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError {
			e.out = append(e.out, `\ufffd`...)
		} else {
			e.out = strictjson.AppendEscaped(e.out, text[:size])
		}
		text = text[size:]
	}
}
