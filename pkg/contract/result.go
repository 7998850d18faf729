package contract

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"mcp-server-suite/pkg/strictjson"
)

// Member is one named value of a result. Value is a string, int64, float64, bool, nil, a Result (an object), a []any of
// those or an Encoded. Bytes of a string that are not UTF-8 become U+FFFD.
type Member struct {
	Name  string
	Value any
}

// Result is what a tool gives: the members of an object in the order of its schema.
type Result []Member

// Encoded is an array that its maker has written already: JSON, in ASCII and without white space, and how many items it
// has. It may stand where the schema has an array of Any, or an array of such arrays without bounds of their own. Its
// brackets and Items are checked; for the rest the maker is trusted (rows of a database are too many to read twice).
type Encoded struct {
	JSON  []byte
	Items int
}

// isWhole tells an array from the mistakes that are cheap to see: nothing, a value of another type, a wrong empty.
func (e Encoded) isWhole() bool {
	n := len(e.JSON)
	return n >= 2 && e.JSON[0] == '[' && e.JSON[n-1] == ']' && (n == 2) == (e.Items == 0) && e.Items >= 0
}

// Append appends the result as one JSON object in ASCII, checked against the schema on the way: every declared member,
// in order, of its type and within its bounds, and no other. An error is a fault of the tool; it names the member.
func (s Schema) Append(dst []byte, r Result) ([]byte, error) {
	return s.root.appendValue(dst, r, "result")
}

// Sizes estimates the bytes that Append will add, and those of the same JSON escaped into a string. Large texts and
// what is encoded already are measured exactly, so that their buffer is allocated once and not much larger than it must
// be; a short text is taken for ordinary ASCII, which costs less than looking.
func (r Result) Sizes() (plain, escaped int) { return sizes(r) }

// estimatedBytes is the longest text that is not measured: seed 000's default of sandbox_fs_read, and some.
const estimatedBytes = 100 << 10

// maxNumberBytes is the longest number that appendValue writes: sign, 17 digits, point and exponent of a float64.
const maxNumberBytes = 24

func sizes(value any) (plain, escaped int) {
	switch v := value.(type) {
	case string:
		if len(v) <= estimatedBytes {
			n := len(v) + len(v)/32 + 16
			return n, n + len(v)/32
		}
		plain, escaped = strictjson.EscapedLen(v)
		return plain + len(`""`), escaped + len(`\"\"`)
	case Encoded:
		escaped, _ = strictjson.EscapedLen(v.JSON)
		return len(v.JSON), escaped
	case Result:
		for _, m := range v {
			p, e := sizes(m.Value)
			plain += p + len(m.Name) + len(`"":,`)
			escaped += e + len(m.Name) + len(`\"\":,`)
		}
		return plain + len(`{}`), escaped + len(`{}`)
	case []any:
		for _, item := range v {
			p, e := sizes(item)
			plain, escaped = plain+p+len(`,`), escaped+e+len(`,`)
		}
		return plain + len(`[]`), escaped + len(`[]`)
	}
	return maxNumberBytes, maxNumberBytes
}

// wrongResult is the fault of a tool that does not keep its own schema. It names the place, not the value.
func wrongResult(path, what string) error {
	return fmt.Errorf("result contract: %s %s", path, what)
}

func (p Property) appendValue(dst []byte, value any, path string) ([]byte, error) {
	if value == nil {
		if !p.nullable {
			return nil, wrongResult(path, "is null")
		}
		return append(dst, "null"...), nil
	}
	switch v := value.(type) {
	case string:
		if p.kind == text {
			if !utf8.ValidString(v) {
				// A file name may be any bytes. AppendString would write those of a surrogate as its escape, which is no text.
				v = strings.ToValidUTF8(v, "\uFFFD")
			}
			if p.bounded && p.outside(float64(utf8.RuneCountInString(v))) {
				return nil, wrongResult(path, "has a length out of bounds")
			}
			return strictjson.AppendString(dst, v), nil
		}
	case int64:
		if p.kind == integer || p.kind == number {
			if p.outside(float64(v)) {
				return nil, wrongResult(path, "is out of bounds")
			}
			return strconv.AppendInt(dst, v, 10), nil
		}
	case float64:
		if p.kind == number {
			if math.IsNaN(v) || math.IsInf(v, 0) || p.outside(v) {
				return nil, wrongResult(path, "is out of bounds")
			}
			return appendNumber(dst, v), nil
		}
	case bool:
		if p.kind == boolean {
			return strconv.AppendBool(dst, v), nil
		}
	case Result:
		if p.kind == object {
			return p.appendObject(dst, v, path)
		}
	case []any:
		if p.kind == array {
			return p.appendArray(dst, v, path)
		}
	case Encoded:
		if p.isOpaque() {
			if !v.isWhole() {
				return nil, wrongResult(path, "is encoded as something else than an array of so many items")
			}
			if p.outside(float64(v.Items)) {
				return nil, wrongResult(path, "has too many or too few items")
			}
			return append(dst, v.JSON...), nil
		}
	}
	return nil, wrongResult(path, fmt.Sprintf("is a %T where the schema has %s", value, p.kind))
}

func (p Property) outside(v float64) bool { return p.bounded && (v < p.low || v > p.high) }

func (p Property) appendObject(dst []byte, r Result, path string) (_ []byte, err error) {
	if len(r) != len(p.members) {
		return nil, wrongResult(path, fmt.Sprintf("has %d members where the schema has %d", len(r), len(p.members)))
	}
	dst = append(dst, '{')
	for i, m := range r {
		want := &p.members[i]
		if m.Name != want.name {
			return nil, wrongResult(path, "lacks "+want.name+" in its place")
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strictjson.AppendString(dst, m.Name)
		dst = append(dst, ':')
		if dst, err = want.appendValue(dst, m.Value, want.name); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func (p Property) appendArray(dst []byte, items []any, path string) (_ []byte, err error) {
	if p.outside(float64(len(items))) {
		return nil, wrongResult(path, "has too many or too few items")
	}
	dst = append(dst, '[')
	for i, item := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = p.members[0].appendValue(dst, item, path); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

// appendNumber writes the shortest text that reads back as the same float64, without an exponent where ECMAScript has
// none (Number::toString), so that 65536 is written as such.
func appendNumber(dst []byte, v float64) []byte {
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, v, format, -1, 64)
}

// ReplyBytes bounds what a result takes in an answer that holds it twice, as JSON and as the same JSON escaped into a
// string. plainBytes is its own JSON without texts from outside (names, numbers, punctuation), of which at worst every
// byte is a quote; textBytes is the texts from outside, of which at worst every byte is a control character: six bytes
// (backslash u 0001) in the first copy and seven in the second.
func ReplyBytes(plainBytes, textBytes int) int { return 3*plainBytes + 13*textBytes }
