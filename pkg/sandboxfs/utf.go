package sandboxfs

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeUTF8 accepts what Python accepts: no overlong form, no surrogate, nothing above U+10FFFF.
func decodeUTF8(src []byte, more bool) (string, int, bool) {
	n := len(src)
	if more {
		n -= cutUTF8(src)
	}
	if utf8.Valid(src[:n]) {
		return string(src[:n]), n, true
	}
	at := 0
	for {
		r, size := utf8.DecodeRune(src[at:])
		if r == utf8.RuneError && size == 1 {
			return "", at, false
		}
		at += size
	}
}

// cutUTF8 returns how many bytes at the end begin a character and do not finish it.
func cutUTF8(src []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(src); n++ {
		if tail := src[len(src)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// insideUTF8: a continuation byte never begins a character.
func insideUTF8(_, after []byte) bool { return len(after) > 0 && !utf8.RuneStart(after[0]) }

func decodeASCII(src []byte, _ bool) (string, int, bool) {
	for i, c := range src {
		if c >= utf8.RuneSelf {
			return "", i, false
		}
	}
	return string(src), len(src), true
}

// decodeUTF16 decodes UTF-16 in one byte order; a byte order mark is a character like any other. A surrogate without its
// partner is refused.
func decodeUTF16(order binary.ByteOrder) decoder {
	return func(src []byte, more bool) (string, int, bool) {
		var b strings.Builder
		b.Grow(len(src))
		at := 0
		for len(src)-at >= 2 {
			r, size := rune(order.Uint16(src[at:])), 2
			if isHigh(r) && len(src)-at < 4 {
				break
			}
			if utf16.IsSurrogate(r) {
				low := utf8.RuneError
				if isHigh(r) {
					low = rune(order.Uint16(src[at+2:]))
				}
				if r, size = utf16.DecodeRune(r, low), 4; r == utf8.RuneError {
					return "", at, false
				}
			}
			b.WriteRune(r)
			at += size
		}
		return b.String(), at, more || at == len(src)
	}
}

func isHigh(r rune) bool { return r&^0x3FF == 0xD800 }
func isLow(r rune) bool  { return r&^0x3FF == 0xDC00 }

// insideUTF16: a low surrogate behind a high one. Both slices begin at a code unit.
func insideUTF16(order binary.ByteOrder) func(before, after []byte) bool {
	return func(before, after []byte) bool {
		return len(after) >= 2 && isHigh(rune(order.Uint16(before))) && isLow(rune(order.Uint16(after)))
	}
}

// decodeUTF32 decodes UTF-32 in one byte order. Surrogates and what is above U+10FFFF are refused.
func decodeUTF32(order binary.ByteOrder) decoder {
	return func(src []byte, more bool) (string, int, bool) {
		var b strings.Builder
		b.Grow(len(src) / 2)
		at := 0
		for ; len(src)-at >= 4; at += 4 {
			r := rune(order.Uint32(src[at:])) // #nosec G115 -- what overflows is negative, and ValidRune refuses that
			if !utf8.ValidRune(r) {
				return "", at, false
			}
			b.WriteRune(r)
		}
		return b.String(), at, more || at == len(src)
	}
}

// marked reads the byte order mark, U+FEFF in the order of what follows, and drops it. Without one Python takes the
// machine's own order; we take little endian, which is that on every machine that we build for, so that a file reads the
// same everywhere.
func marked(little, big string, in func(binary.ByteOrder) decoder) decoder {
	return func(src []byte, more bool) (string, int, bool) {
		decode, skip := in(binary.LittleEndian), 0
		switch {
		case bytes.HasPrefix(src, []byte(little)):
			skip = len(little)
		case bytes.HasPrefix(src, []byte(big)):
			decode, skip = in(binary.BigEndian), len(big)
		}
		text, used, ok := decode(src[skip:], more)
		return text, skip + used, ok
	}
}
