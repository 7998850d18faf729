package strictjson

import (
	"errors"
	"unicode/utf8"
)

// MaxDepth is how many objects and arrays may be open at once. Arguments are held to fewer by the sanitizer; the rest of
// an MCP message (_meta above all) has no use for more.
const MaxDepth = 64

// manyKeys is from how many keys on an object's keys are looked up in a map: below it a linear search is faster, above
// it a line of 100,000 keys would cost quadratic time.
const manyKeys = 24

// What can be wrong with a text. The messages are fixed: none of them quotes the input.
var (
	ErrSyntax = errors.New("not one JSON value")
	ErrUTF8   = errors.New("not valid UTF-8")
	ErrDepth  = errors.New("nested too deeply")
)

// Where says at which level of a document something was found first.
type Where uint8

// The levels of a document that the reader of an envelope tells apart.
const (
	Nowhere Where = iota
	Below         // inside the value of a top-level member, or inside an array
	AtTop         // among the members of the outermost object
)

// Member is one name and value of an object. Key is decoded (a lone surrogate in WTF-8), Value is raw JSON text without
// surrounding white space. Both alias the text that was scanned, or the scanner's memory.
type Member struct {
	Key   []byte
	Value []byte
}

// Document is what Scan found: the raw value, its members if it is an object, and two properties that are legal JSON but
// that a careful reader refuses.
type Document struct {
	Value         []byte
	Members       []Member
	DuplicateKey  Where
	LoneSurrogate bool
}

// Scanner checks texts and keeps its scratch memory between them. The zero value is ready. It is not safe for concurrent
// use, and a Document is valid until the next Scan.
type Scanner struct {
	text    []byte
	at      int
	keys    [][]byte // keys of the objects that are open, outermost first
	members []Member
	doc     Document
}

// Scan checks that text is exactly one JSON value. It returns ErrSyntax, ErrUTF8 or ErrDepth, whichever comes first in
// the text. Duplicate keys do not stop it: the rest must be JSON too before anybody may trust the id of a message.
func (s *Scanner) Scan(text []byte) (Document, error) {
	*s = Scanner{text: text, keys: s.keys[:0], members: s.members[:0]}
	defer s.forget()
	s.space()
	start := s.at
	if err := s.value(0); err != nil {
		return Document{}, err
	}
	end := s.at
	s.space()
	if s.at != len(text) {
		return Document{}, s.wrong()
	}
	s.doc.Value, s.doc.Members = text[start:end], s.members
	return s.doc, nil
}

// forget drops what points into the caller's text, but for the members, which are in use until the next Scan, and the
// list of members that one hostile line has grown. The list of keys is bounded by MaxDepth times manyKeys.
func (s *Scanner) forget() {
	const keep = 1024
	clear(s.keys[:cap(s.keys)])
	if cap(s.members) > keep {
		s.members = nil
	}
	s.text, s.doc = nil, Document{}
}

func (s *Scanner) space() {
	for s.at < len(s.text) && isSpace(s.text[s.at]) {
		s.at++
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// value reads one value; depth counts the objects and arrays around it.
func (s *Scanner) value(depth int) error {
	if s.at >= len(s.text) {
		return ErrSyntax
	}
	switch c := s.text[s.at]; {
	case c == '{':
		return s.object(depth)
	case c == '[':
		return s.array(depth)
	case c == '"':
		_, _, err := s.str()
		return err
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	case c == '-' || isDigit(c):
		return s.number()
	}
	return s.wrong()
}

// wrong tells an unexpected byte that is no UTF-8 from one that is: both end the line, the second is the sender's grammar.
func (s *Scanner) wrong() error {
	if r, n := utf8.DecodeRune(s.text[s.at:]); r == utf8.RuneError && n == 1 {
		return ErrUTF8
	}
	return ErrSyntax
}

func (s *Scanner) object(depth int) error {
	if depth >= MaxDepth {
		return ErrDepth
	}
	s.at++
	s.space()
	if s.take('}') {
		return nil
	}
	base := len(s.keys)
	var many map[string]struct{}
	for {
		if s.at >= len(s.text) || s.text[s.at] != '"' {
			return s.wrong()
		}
		raw, escaped, err := s.str()
		if err != nil {
			return err
		}
		key := raw
		if escaped {
			key = appendUnescaped(make([]byte, 0, len(raw)), raw)
		}
		if many = s.note(key, base, many, depth); many == nil {
			s.keys = append(s.keys, key)
		}
		s.space()
		if !s.take(':') {
			return s.wrong()
		}
		s.space()
		start := s.at
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if depth == 0 {
			s.members = append(s.members, Member{key, s.text[start:s.at]})
		}
		s.space()
		if s.take('}') {
			s.keys = s.keys[:base]
			return nil
		}
		if !s.take(',') {
			return s.wrong()
		}
		s.space()
	}
}

// note records a duplicate of key among the keys of the object that begins at base. It returns the map to use from now
// on, or nil while the list is short enough to be searched.
func (s *Scanner) note(key []byte, base int, many map[string]struct{}, depth int) map[string]struct{} {
	duplicate := false
	if many == nil {
		for _, k := range s.keys[base:] {
			if string(k) == string(key) {
				duplicate = true
				break
			}
		}
		if len(s.keys)-base >= manyKeys {
			many = make(map[string]struct{}, 4*manyKeys)
			for _, k := range s.keys[base:] {
				many[string(k)] = struct{}{}
			}
		}
	}
	if many != nil {
		if _, there := many[string(key)]; there {
			duplicate = true
		}
		many[string(key)] = struct{}{}
	}
	if duplicate {
		where := Below
		if depth == 0 {
			where = AtTop
		}
		s.doc.DuplicateKey = max(s.doc.DuplicateKey, where)
	}
	return many
}

func (s *Scanner) array(depth int) error {
	if depth >= MaxDepth {
		return ErrDepth
	}
	s.at++
	s.space()
	if s.take(']') {
		return nil
	}
	for {
		if err := s.value(depth + 1); err != nil {
			return err
		}
		s.space()
		if s.take(']') {
			return nil
		}
		if !s.take(',') {
			return s.wrong()
		}
		s.space()
	}
}

func (s *Scanner) take(c byte) bool {
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *Scanner) literal(word string) error {
	for i := range len(word) {
		if !s.take(word[i]) {
			return s.wrong()
		}
	}
	return nil
}

// number reads RFC 8259 section 6: no plus sign, no leading zero, digits on both sides of a point.
func (s *Scanner) number() error {
	s.take('-')
	if !s.take('0') && !s.digits() {
		return s.wrong()
	}
	if s.take('.') && !s.digits() {
		return s.wrong()
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		if !s.digits() {
			return s.wrong()
		}
	}
	return nil
}

func (s *Scanner) digits() bool {
	start := s.at
	for s.at < len(s.text) && isDigit(s.text[s.at]) {
		s.at++
	}
	return s.at > start
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// str reads a string that begins at s.at. It returns the text between the quotes and whether it holds escapes.
func (s *Scanner) str() (raw []byte, escaped bool, err error) {
	text, i := s.text, s.at+1
	start := i
	for {
		i += plainPrefix(text[i:])
		if i >= len(text) {
			return nil, false, ErrSyntax
		}
		switch c := text[i]; {
		case c == '"':
			s.at = i + 1
			return text[start:i], escaped, nil
		case c == '\\':
			escaped = true
			n, lone := escapeLength(text[i:])
			if n == 0 {
				return nil, false, ErrSyntax
			}
			s.doc.LoneSurrogate = s.doc.LoneSurrogate || lone
			i += n
		case c < 0x20:
			return nil, false, ErrSyntax
		case c < utf8.RuneSelf: // only DEL: plainPrefix stops there because the writer escapes it
			i++
		default:
			r, n := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && n == 1 {
				return nil, false, ErrUTF8
			}
			i += n
		}
	}
}

// escapeLength returns the length of the escape sequence that text begins with, 0 if it is none. A surrogate pair is one
// sequence of 12 bytes; lone reports a surrogate without its partner.
func escapeLength(text []byte) (n int, lone bool) {
	if len(text) < 2 {
		return 0, false
	}
	switch text[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, false
	case 'u':
		u, ok := hex4(text[2:])
		if !ok {
			return 0, false
		}
		if !isSurrogate(u) {
			return 6, false
		}
		if _, ok := pair(u, text[6:]); ok {
			return 12, false
		}
		return 6, true
	}
	return 0, false
}

func isSurrogate(u rune) bool { return u >= 0xD800 && u < 0xE000 }

// pair joins hi, if it is a high surrogate, with an escape of a low one that rest begins with.
func pair(hi rune, rest []byte) (rune, bool) {
	if hi < 0xD800 || hi >= 0xDC00 || len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' {
		return 0, false
	}
	lo, ok := hex4(rest[2:])
	if !ok || lo < 0xDC00 || lo >= 0xE000 {
		return 0, false
	}
	return (hi-0xD800)<<10 | (lo - 0xDC00) + 0x10000, true
}

func hex4(text []byte) (rune, bool) {
	if len(text) < 4 {
		return 0, false
	}
	var u rune
	for _, c := range text[:4] {
		switch {
		case isDigit(c):
			u = u<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			u = u<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			u = u<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return u, true
}
