package sandboxfs

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// set7 is what the bytes from 0x21 to 0x7E mean in an encoding that switches its charset.
type set7 int

const (
	setASCII set7 = iota
	setRoman      // JIS X 0201: ASCII with yen and overline
	setKana       // JIS X 0201: half-width katakana
	setKanji      // JIS X 0208, or GB 2312: pairs
	setExtra      // JIS X 0212: pairs
)

// designation is an escape sequence, without the escape, that switches to a charset.
type designation struct {
	text string
	set  set7
}

const escape = 0x1B

// iso2022 decodes the seven-bit forms of Japanese (RFC 1468, RFC 2237). Like Python it passes control characters
// through whatever the charset and keeps the charset over line ends. Unlike Python it refuses other escape sequences
// than its own, which Python passes through together with all bytes up to the next capital.
func iso2022(known ...designation) decoder {
	return stepwise(func() stepper {
		char := eucJP.chars()
		set := setASCII
		return func(src []byte) (rune, int) {
			if src[0] == escape {
				next, n := designated(known, src[1:])
				if n > 0 {
					set = next
					n++
				}
				return noRune, n
			}
			if src[0] < ' ' {
				return rune(src[0]), 1
			}
			return char7(set, src, char)
		}
	})
}

// designated finds the designation that src begins with.
func designated(known []designation, src []byte) (set7, int) {
	n := isBad
	for _, d := range known {
		if bytes.HasPrefix(src, []byte(d.text)) {
			return d.set, len(d.text)
		}
		if strings.HasPrefix(d.text, string(src)) {
			n = isCut
		}
	}
	return setASCII, n
}

// char7 decodes the character that src begins with in a charset.
func char7(set set7, src []byte, char func(raw []byte) rune) (rune, int) {
	c := src[0]
	switch {
	case c >= utf8.RuneSelf:
		return noRune, isBad
	case set == setKanji || set == setExtra:
		return pair7(set, src, char)
	case set == setKana && '!' <= c && c <= '_':
		return '\uFF61' + rune(c-'!'), 1
	case set == setKana:
		return noRune, isBad
	case set == setRoman && c == '\\':
		return '\u00A5', 1
	case set == setRoman && c == '~':
		return '\u203E', 1
	}
	return rune(c), 1
}

// pair7 decodes a pair by its eight-bit form.
func pair7(set set7, src []byte, char func(raw []byte) rune) (rune, int) {
	if len(src) == 1 {
		return noRune, isCut
	}
	raw := []byte{src[0] | 0x80, src[1] | 0x80}
	if set == setExtra {
		raw = slices.Insert(raw, 0, 0x8F)
	}
	if r := char(raw); r != noRune && isGraphic7(src[0]) && isGraphic7(src[1]) {
		return r, 2
	}
	return noRune, isBad
}

func isGraphic7(c byte) bool { return '!' <= c && c <= '~' }

// decodeHZ decodes RFC 1843: GB 2312 between ~{ and ~}, ~~ is a tilde, and a tilde takes the line end behind it away. As
// in Python no line end may stand inside.
var decodeHZ = stepwise(func() stepper {
	char := gb2312.chars()
	set := setASCII
	return func(src []byte) (rune, int) {
		if src[0] != '~' {
			return char7(set, src, char)
		}
		if len(src) == 1 {
			return noRune, isCut
		}
		switch {
		case src[1] == '{' && set == setASCII:
			set = setKanji
			return noRune, 2
		case src[1] == '}' && set == setKanji:
			set = setASCII
			return noRune, 2
		case src[1] == '~' && set == setASCII:
			return '~', 2
		case src[1] == '\n' && set == setASCII:
			return noRune, 2
		}
		return noRune, isBad
	}
})
