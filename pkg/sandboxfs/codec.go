package sandboxfs

import (
	"strings"
	"unicode/utf8"
)

// Encoding is one text encoding as the documentation shows it.
type Encoding struct {
	Name    string   // as Python's codecs.lookup gives it
	Aliases []string // the other names, in lower case with underscores
	Decoder string   // what decodes it: "own", "x/text", "x/text, corrected to Python's" or "table from Python"
	// Offsets says that a read may begin at an offset above 0. Otherwise a character's beginning cannot be told there,
	// or the meaning of the bytes depends on those before.
	Offsets bool
	// Refused names what Python would decode and we do not; "" when nothing. Nothing is decoded that Python refuses.
	Refused string
}

// Encodings returns the table of all encodings that Read knows, for documentation. Every name and alias may be spelled
// in any case and with any other characters than letters, digits and dots between its parts, as in Python: " UTF-8",
// "utf 8" and "Utf_8" are one.
func Encodings() []Encoding {
	list := make([]Encoding, len(codecs))
	for i, c := range codecs {
		list[i] = Encoding{Name: c.name, Aliases: strings.Fields(c.aliases), Decoder: string(c.by), Offsets: c.unit > 0, Refused: c.refused}
	}
	return list
}

// codec is one row of the table.
type codec struct {
	name    string
	aliases string // separated by spaces
	by      origin
	decode  decoder
	unit    int // bytes; a character begins at multiples of it. 0: only offset 0 is accepted
	// inside reports whether a character is cut between the unit before and the bytes after; nil where none can be.
	inside  func(before, after []byte) bool
	signed  bool   // a byte order mark at the file's beginning is dropped
	refused string // see Encoding
}

// origin is whose table a codec is.
type origin string

const (
	own       origin = "own"
	xtext     origin = "x/text"
	corrected origin = "x/text, corrected to Python's"
	pages     origin = "table from Python"
)

// decoder turns bytes into text, strictly. more says that the file goes on behind them; then a character that they cut
// is left out. used is how many bytes were decoded; where ok is false, it is the index of the first bad byte.
type decoder func(src []byte, more bool) (text string, used int, ok bool)

// lookup finds the codec that the caller's name means; nil when there is none. Binary codecs (base64, zlib, rot13) are in
// no table and so not found.
func lookup(name string) *codec { return byName[normalize(name)] }

var byName = func() map[string]*codec {
	index := make(map[string]*codec, 512)
	for i := range codecs {
		c := &codecs[i]
		index[normalize(c.name)] = c
		for _, alias := range strings.Fields(c.aliases) {
			index[alias] = c
		}
	}
	return index
}()

// maxNameBytes is longer than every name in the table.
const maxNameBytes = 40

// normalize spells a name as Python's codec registry does (Python/codecs.c, encodings/__init__.py): ASCII letters in
// lower case, everything between runs of letters and digits one underscore, none at the ends. A dot counts like the
// rest; Python keeps it in the single alias that has one. NUL and text that is not Unicode are no name at all, and
// neither is one longer than maxNameBytes.
func normalize(name string) string {
	if !utf8.ValidString(name) || strings.IndexByte(name, 0) >= 0 {
		return ""
	}
	var buf [maxNameBytes]byte
	out, gap := buf[:0], false
	for i := 0; i < len(name); i++ {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			gap = len(out) > 0
			continue
		}
		if len(out)+2 > maxNameBytes {
			return ""
		}
		if gap {
			out = append(out, '_')
			gap = false
		}
		out = append(out, c)
	}
	return string(out)
}
