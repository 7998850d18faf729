package rowjson

import (
	"unicode"
	"unicode/utf8"
)

// hidden has what Flagged is about: of Unicode the categories Cc (but tab, line feed and carriage return) and Cf, and
// the properties Default_Ignorable_Code_Point and Variation_Selector. The test compares it with the tables of package
// unicode; one table is one lookup for each character instead of four.
//
// Unlike the sanitizer, which refuses, it spares neither the emoji's style selectors nor the visible format
// characters (U+0600): a flag asks for a second look, no more.
var hidden = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x00, Hi: 0x08, Stride: 1},
		{Lo: 0x0B, Hi: 0x0C, Stride: 1},
		{Lo: 0x0E, Hi: 0x1F, Stride: 1},
		{Lo: 0x7F, Hi: 0x9F, Stride: 1},
		{Lo: 0xAD, Hi: 0xAD, Stride: 1},
		{Lo: 0x034F, Hi: 0x034F, Stride: 1},
		{Lo: 0x0600, Hi: 0x0605, Stride: 1},
		{Lo: 0x061C, Hi: 0x061C, Stride: 1},
		{Lo: 0x06DD, Hi: 0x06DD, Stride: 1},
		{Lo: 0x070F, Hi: 0x070F, Stride: 1},
		{Lo: 0x0890, Hi: 0x0891, Stride: 1},
		{Lo: 0x08E2, Hi: 0x08E2, Stride: 1},
		{Lo: 0x115F, Hi: 0x1160, Stride: 1},
		{Lo: 0x17B4, Hi: 0x17B5, Stride: 1},
		{Lo: 0x180B, Hi: 0x180F, Stride: 1},
		{Lo: 0x200B, Hi: 0x200F, Stride: 1},
		{Lo: 0x202A, Hi: 0x202E, Stride: 1},
		{Lo: 0x2060, Hi: 0x206F, Stride: 1},
		{Lo: 0x3164, Hi: 0x3164, Stride: 1},
		{Lo: 0xFE00, Hi: 0xFE0F, Stride: 1},
		{Lo: 0xFEFF, Hi: 0xFEFF, Stride: 1},
		{Lo: 0xFFA0, Hi: 0xFFA0, Stride: 1},
		{Lo: 0xFFF0, Hi: 0xFFFB, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x110BD, Hi: 0x110BD, Stride: 1},
		{Lo: 0x110CD, Hi: 0x110CD, Stride: 1},
		{Lo: 0x13430, Hi: 0x1343F, Stride: 1},
		{Lo: 0x1BCA0, Hi: 0x1BCA3, Stride: 1},
		{Lo: 0x1D173, Hi: 0x1D17A, Stride: 1},
		{Lo: 0xE0000, Hi: 0xE0FFF, Stride: 1},
	},
	LatinOffset: 5,
}

// hidesText reports whether text holds characters that a reader cannot see.
func hidesText(text []byte) bool {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if isHidden(r) {
			return true
		}
		i += size
	}
	return false
}

func isHidden(r rune) bool { return (r < ' ' || r >= 0x7F) && unicode.Is(hidden, r) }

// hidesInJSON is hidesText for JSON text, in which an escape counts as what it stands for, and a lone surrogate as
// hidden. It takes any text, as a json value from a SQL_ASCII database is.
func hidesInJSON(text []byte) bool {
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		switch {
		case r >= utf8.RuneSelf:
			r, size = utf8.DecodeRune(text[i:])
		case r == '\\':
			r, size = unescape(text[i:])
		}
		if isHidden(r) || utf8.RuneLen(r) < 0 {
			return true
		}
		i += size
	}
	return false
}

// unescape returns the character of the escape that text begins with and the length of the escape.
func unescape(text []byte) (r rune, size int) {
	const u = len(`\u0000`)
	r, ok := hex4(text)
	if !ok {
		switch {
		case len(text) < 2:
			return '\\', 1
		case text[1] == 'b':
			return '\b', 2
		case text[1] == 'f':
			return '\f', 2
		}
		return '\\', 2 // n, r, t, and what stands for itself: all visible; other bytes only where text is no JSON
	}
	if r >= 0xD800 && r < 0xDC00 && len(text) > u {
		if low, ok := hex4(text[u:]); ok && low >= 0xDC00 && low < 0xE000 {
			return (r-0xD800)<<10 | (low - 0xDC00) + 0x10000, 2 * u
		}
	}
	return r, u
}

// hex4 reads \u and four hexadecimal digits.
func hex4(text []byte) (r rune, ok bool) {
	if len(text) < len(`\u0000`) || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	for _, c := range text[2:6] {
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
