package strictjson

import (
	"encoding/binary"
	"unicode/utf8"
)

// AppendString appends s as a JSON string in ASCII: everything outside printable ASCII is escaped, DEL too, code points
// above U+FFFF as a surrogate pair, a lone surrogate in WTF-8 as the escape it came from. Other invalid bytes become
// U+FFFD; callers that must not lose them have checked before.
func AppendString[S ~string | ~[]byte](dst []byte, s S) []byte {
	dst = append(dst, '"')
	dst = AppendEscaped(dst, s)
	return append(dst, '"')
}

// AppendEscaped is AppendString without the quotes: it makes a string's text from any text, also from JSON that is to
// travel inside a string.
func AppendEscaped[S ~string | ~[]byte](dst []byte, s S) []byte {
	for i := 0; i < len(s); {
		n := plainPrefix(s[i:])
		dst = append(dst, s[i:i+n]...)
		i += n
		if i >= len(s) {
			break
		}
		if c := s[i]; c < utf8.RuneSelf {
			dst = appendEscape(dst, c)
			i++
			continue
		}
		var tail [utf8.UTFMax]byte
		w := copy(tail[:], s[i:])
		var size int
		dst, size = appendRune(dst, tail[:w])
		i += size
	}
	return dst
}

// EscapedLen returns how many bytes AppendEscaped makes of s, and how many it makes of those when they are escaped once
// more, as JSON inside a JSON string is.
func EscapedLen[S ~string | ~[]byte](s S) (once, twice int) {
	for i := 0; i < len(s); {
		n := plainPrefix(s[i:])
		once, twice, i = once+n, twice+n, i+n
		if i >= len(s) {
			break
		}
		var escape [12]byte // of one character; its backslashes double
		var tail [utf8.UTFMax]byte
		piece, size := appendEscape(escape[:0], s[i]), 1
		if s[i] >= utf8.RuneSelf {
			piece, size = appendRune(escape[:0], tail[:copy(tail[:], s[i:])])
		}
		for _, c := range piece {
			if c == '\\' || c == '"' {
				twice++
			}
		}
		once, twice, i = once+len(piece), twice+len(piece), i+size
	}
	return once, twice
}

// AppendASCII appends JSON text that Scan has accepted, with DEL and what is not ASCII turned into escapes. Such bytes
// occur only inside strings, so the value stays equal. White space between values stays, a newline too.
func AppendASCII(dst, text []byte) []byte {
	start := 0
	for i := 0; i < len(text); {
		if text[i] < 0x7F {
			i++
			continue
		}
		dst = append(dst, text[start:i]...)
		if text[i] == 0x7F {
			dst = appendU(dst, 0x7F)
			i++
		} else {
			var size int
			dst, size = appendRune(dst, text[i:])
			i += size
		}
		start = i
	}
	return append(dst, text[start:]...)
}

const hexDigits = "0123456789abcdef"

func appendU(dst []byte, u rune) []byte {
	return append(dst, '\\', 'u', hexDigits[u>>12&15], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return appendU(dst, rune(c))
}

// appendRune appends the escape of the first code point of text and returns how many bytes it took.
func appendRune(dst, text []byte) ([]byte, int) {
	r, size := utf8.DecodeRune(text)
	if r == utf8.RuneError && size == 1 && isWTF8Surrogate(text) {
		return appendU(dst, 0xD000|rune(text[1]&0x3F)<<6|rune(text[2]&0x3F)), 3
	}
	if r >= 0x10000 {
		r -= 0x10000
		return appendU(appendU(dst, 0xD800+r>>10), 0xDC00+r&0x3FF), size
	}
	return appendU(dst, r), size
}

func isWTF8Surrogate(text []byte) bool {
	return len(text) >= 3 && text[0] == 0xED && text[1]&0xE0 == 0xA0 && text[2]&0xC0 == 0x80
}

// plainPrefix returns how many bytes at the beginning of s stand for themselves in a JSON string: printable ASCII
// without quote and backslash. It looks at eight bytes at a time; a 64 KiB file is escaped twice on its way out, and
// this loop is most of that.
func plainPrefix[S ~string | ~[]byte](s S) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	i := 0
	var word [8]byte
	for len(s)-i >= 8 {
		copy(word[:], s[i:i+8])
		w := binary.LittleEndian.Uint64(word[:])
		quote := w ^ ones*'"'
		backslash := w ^ ones*'\\'
		del := w ^ ones*0x7F
		// A byte below 0x20, or equal to the one looked for, borrows from its high bit; any byte from 0x80 has it set.
		bad := (w-ones*0x20)&^w | (quote-ones)&^quote | (backslash-ones)&^backslash | (del-ones)&^del | w
		if bad&highs != 0 {
			break
		}
		i += 8
	}
	for i < len(s) && isPlain(s[i]) {
		i++
	}
	return i
}

func isPlain(c byte) bool { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\' }
