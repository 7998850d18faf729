package sandboxfs

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// decodeLatin1 is ISO 8859-1 proper: each byte is the code point of its value. x/text's names latin1 and ascii mean
// windows-1252, as browsers want it, so they are not used.
func decodeLatin1(src []byte, more bool) (string, int, bool) {
	return single(func(b byte) rune { return rune(b) })(src, more)
}

// single decodes charsets of one byte a character. The function says U+FFFD for bytes that mean nothing; no charset of
// this kind has a byte for U+FFFD itself.
func single(char func(byte) rune) decoder {
	return func(src []byte, _ bool) (string, int, bool) {
		var b strings.Builder
		b.Grow(len(src))
		for i, c := range src {
			r := char(c)
			if r == utf8.RuneError {
				return "", i, false
			}
			b.WriteRune(r)
		}
		return b.String(), len(src), true
	}
}

// page decodes by a table of our own: the characters of all 256 bytes, or of the upper 128 over ASCII.
func page(table string) decoder {
	return func(src []byte, more bool) (string, int, bool) {
		chars := []rune(table)
		ascii := byte(256 - len(chars)) // 128, or 0 for a full table
		return single(func(b byte) rune {
			if b < ascii {
				return rune(b)
			}
			return chars[b-ascii]
		})(src, more)
	}
}

// withC1 adds the control characters 0x80 to 0x9F, which ISO 8859 has and x/text leaves out of most of its parts.
func withC1(m *charmap.Charmap) decoder {
	return single(func(b byte) rune {
		if 0x80 <= b && b < 0xA0 {
			return rune(b)
		}
		return m.DecodeByte(b)
	})
}

// except replaces what x/text has for some bytes; U+FFFD refuses one.
func except(m *charmap.Charmap, other map[byte]rune) decoder {
	return single(func(b byte) rune {
		if r, ok := other[b]; ok {
			return r
		}
		return m.DecodeByte(b)
	})
}
