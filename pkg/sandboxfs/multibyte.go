package sandboxfs

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
)

// stepper decodes what src, which is not empty, begins with: r is the character, or noRune for bytes that only switch,
// and n how many bytes that took. n is isCut where src ends too early and isBad where the bytes are no text.
type stepper func(src []byte) (r rune, n int)

const (
	noRune rune = -1

	isCut = 0
	isBad = -1
)

// stepwise decodes step by step; each text gets its own stepper, which may keep state.
func stepwise(begin func() stepper) decoder {
	return func(src []byte, more bool) (string, int, bool) {
		var b strings.Builder
		b.Grow(len(src))
		step := begin()
		for at := 0; at < len(src); {
			r, n := step(src[at:])
			if n <= 0 {
				return b.String(), at, more && n == isCut
			}
			if r != noRune {
				b.WriteRune(r)
			}
			at += n
		}
		return b.String(), len(src), true
	}
}

// multibyte is a charset of one or more bytes a character, ASCII below 0x80. x/text decodes it, one character at a
// time: its decoders never fail, they answer U+FFFD, and only so is it known which bytes that stands for.
type multibyte struct {
	charset encoding.Encoding
	length  func(src []byte) int // bytes of the character that src begins with, which is not ASCII
	euc     bool                 // no byte of a character is below 0xA1, though x/text's wider charset has such
	refused []span               // x/text decodes these, and Python does not, or otherwise
	other   map[uint32]rune      // x/text decodes these otherwise than Python
}

// span is a range of characters by their bytes, read as one big-endian number, both ends included.
type span struct{ from, to uint32 }

func (m *multibyte) decoder() decoder { return stepwise(m.stepper) }

func (m *multibyte) stepper() stepper {
	char := m.chars()
	return func(src []byte) (rune, int) {
		if src[0] < utf8.RuneSelf {
			return rune(src[0]), 1
		}
		n := m.length(src)
		if n > len(src) {
			return noRune, isCut
		}
		r := char(src[:n])
		if r == noRune {
			return noRune, isBad
		}
		return r, n
	}
}

// chars returns the function that decodes the bytes of one character, noRune where they are none.
func (m *multibyte) chars() func(raw []byte) rune {
	charset := m.charset.NewDecoder()
	out := make([]byte, 2*utf8.UTFMax)
	return func(raw []byte) rune {
		var value uint32
		for _, c := range raw {
			if m.euc && c <= 0xA0 {
				return noRune
			}
			value = value<<8 | uint32(c)
		}
		if r, ok := m.other[value]; ok {
			return r
		}
		for _, s := range m.refused {
			if s.from <= value && value <= s.to {
				return noRune
			}
		}
		n, _, _ := charset.Transform(out, raw, true) // at the end of the text, and with room for two characters, no error
		r, size := utf8.DecodeRune(out[:n])
		if r == utf8.RuneError || size < n { // or the bytes are two characters for x/text
			return noRune
		}
		return r
	}
}

// lengthPair: every byte above 0x7F begins a character of two.
func lengthPair([]byte) int { return 2 }

// lengthShiftJIS: the half-width katakana, and some bytes that mean nothing, stand alone.
func lengthShiftJIS(src []byte) int {
	if c := src[0]; c == 0x80 || 0xA0 <= c && c < 0xE0 || c >= 0xFD {
		return 1
	}
	return 2
}

// lengthEUCJP: 0x8F introduces JIS X 0212.
func lengthEUCJP(src []byte) int {
	if src[0] == 0x8F {
		return 3
	}
	return 2
}

// lengthGB18030: a digit in second place makes it four bytes.
func lengthGB18030(src []byte) int {
	if len(src) > 1 && '0' <= src[1] && src[1] <= '9' {
		return 4
	}
	return 2
}
