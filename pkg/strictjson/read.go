package strictjson

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Cursor steps through the members of an object or the elements of an array. It trusts its text: it must be one value
// that Scan has accepted, or a part of one.
type Cursor struct {
	text   []byte
	at     int
	object bool
	key    []byte
	value  []byte
}

// Open returns a cursor before the first member or element of value. On a value that is no object and no array the
// cursor has nothing to step through.
func Open(value []byte) Cursor {
	if len(value) == 0 || value[0] != '{' && value[0] != '[' {
		return Cursor{}
	}
	return Cursor{text: value, at: 1, object: value[0] == '{'}
}

// Next steps on and reports whether there is a member or element.
func (c *Cursor) Next() bool {
	c.skipTo()
	if c.at >= len(c.text) || c.text[c.at] == '}' || c.text[c.at] == ']' {
		return false
	}
	if c.object {
		end := skipValue(c.text, c.at)
		c.key = c.text[c.at:end]
		c.at = end
		c.skipTo()
	}
	end := skipValue(c.text, c.at)
	c.value = c.text[c.at:end]
	c.at = end
	return true
}

// Key is the name of the member as raw JSON text with its quotes; nil in an array.
func (c *Cursor) Key() []byte { return c.key }

// Value is the raw JSON text of the member's value or of the element.
func (c *Cursor) Value() []byte { return c.value }

// skipTo steps over white space and the separators between values.
func (c *Cursor) skipTo() {
	for c.at < len(c.text) && (isSpace(c.text[c.at]) || c.text[c.at] == ',' || c.text[c.at] == ':') {
		c.at++
	}
}

// skipValue returns the index after the value that begins at i.
func skipValue(text []byte, i int) int {
	for depth := 0; i < len(text); {
		switch text[i] {
		case '"':
			i = skipString(text, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\r', '\n':
			i++
		default:
			for i < len(text) && !isDelimiter(text[i]) {
				i++
			}
		}
		if depth <= 0 {
			return i
		}
	}
	return len(text)
}

func isDelimiter(c byte) bool { return isSpace(c) || c == ',' || c == ':' || c == ']' || c == '}' }

func skipString(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// IsObject reports whether the raw value is an object.
func IsObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }

// IsString reports whether the raw value is a string.
func IsString(value []byte) bool { return len(value) > 1 && value[0] == '"' }

// String decodes a raw string value; ok is false for a value of another type. A lone surrogate becomes its three-byte
// WTF-8 form, which is not valid UTF-8, so that nobody can mistake it for a character.
func String(value []byte) (s string, ok bool) {
	if !IsString(value) {
		return "", false
	}
	raw := value[1 : len(value)-1]
	for i := range raw {
		if raw[i] == '\\' {
			return string(appendUnescaped(make([]byte, 0, len(raw)), raw)), true
		}
	}
	return string(raw), true
}

// IsInteger reports whether the raw value is a number written without point and exponent.
func IsInteger(value []byte) bool {
	digits := value
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	for _, c := range digits {
		if !isDigit(c) {
			return false
		}
	}
	return len(digits) > 0
}

// Int reads a raw integer. ok is false for another type, for 1.0 and 1e2 (strict: those are not written as integers) and
// outside the range of int64.
func Int(value []byte) (n int64, ok bool) {
	if !IsInteger(value) {
		return 0, false
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil
}

// Bool reads true or false.
func Bool(value []byte) (b, ok bool) {
	switch string(value) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

// CaseVariant reports whether key differs from one of the names by letter case alone, by Unicode's simple folding: Method,
// PARAMS and param\u017f are variants. An exact name is none. Go's own decoder folds such keys onto each other
// (CVE-2026-27896), so a filter in front of us may have read the message differently.
func CaseVariant[K ~string | ~[]byte](key K, names ...string) bool {
	for _, name := range names {
		if string(key) != name && strings.EqualFold(string(key), name) {
			return true
		}
	}
	return false
}

// appendUnescaped decodes the escapes of a string body that Scan has accepted.
func appendUnescaped(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			dst = append(dst, raw[i])
			i++
			continue
		}
		switch c := raw[i+1]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			u, _ := hex4(raw[i+2:])
			i += 6
			if joined, ok := pair(u, raw[i:]); ok {
				u = joined
				i += 6
			}
			dst = appendWTF8(dst, u)
			continue
		default:
			dst = append(dst, c)
		}
		i += 2
	}
	return dst
}

func appendWTF8(dst []byte, u rune) []byte {
	if isSurrogate(u) {
		return append(dst, 0xE0|byte(u>>12), 0x80|byte(u>>6)&0x3F, 0x80|byte(u)&0x3F)
	}
	return utf8.AppendRune(dst, u)
}
