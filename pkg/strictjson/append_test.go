package strictjson_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"mcp-server-suite/pkg/strictjson"
)

// isPrintable tells text that may go out on the wire: ASCII without control characters.
func isPrintable(text []byte) bool {
	for _, c := range text {
		if c < 0x20 || c >= 0x7F {
			return false
		}
	}
	return true
}

func TestAppendStringWritesASCII(t *testing.T) {
	cases := []struct{ name, s, want, why string }{
		{"empty", "", `""`, "a string of nothing"},
		{"plain", "SELECT 'a' < \x60b\x60 & 1", "\"SELECT 'a' < \x60b\x60 & 1\"", "no HTML escapes"},
		{"quote and backslash", `a"b\c`, `"a\"b\\c"`, "must be escaped"},
		{"slash", "a/b", `"a/b"`, "may be escaped, is not"},
		{"short escapes", "\n\r\t", `"\n\r\t"`, "the three that a reader knows"},
		{"other control characters", "\x00\b\f\x1f", `"\u0000\u0008\u000c\u001f"`, "by number"},
		{"DEL", "\x7f", `"\u007f"`, "legal, but no terminal should get it"},
		{"C1", "\u009b", `"\u009b"`, "CSI"},
		{"two bytes", "\u00e9", `"\u00e9"`, "escaped"},
		{"three bytes", "\u20ac\u2028", `"\u20ac\u2028"`, "escaped"},
		{"four bytes", "\U0001F600", `"\ud83d\ude00"`, "a pair"},
		{"first above U+FFFF", "\U00010000", `"\ud800\udc00"`, "a pair"},
		{"last code point", "\U0010FFFF", `"\udbff\udfff"`, "a pair"},
		{"U+FFFD", "\uFFFD", `"\ufffd"`, "itself"},
		{"lone surrogates", "\xed\xa0\x80 \xed\xbf\xbf", `"\ud800 \udfff"`, "WTF-8 goes back to the escape it came from"},
		{"invalid byte", "a\xffb", `"a\ufffdb"`, "replaced"},
		{"two invalid bytes", "\xc0\xaf", `"\ufffd\ufffd"`, "each replaced"},
		{"cut sequence", "\xe2\x82", `"\ufffd\ufffd"`, "each replaced"},
		{"cut surrogate", "\xed\xa0", `"\ufffd\ufffd"`, "not a whole WTF-8 form"},
		{"cut surrogate before a quote", "\xed\xa0\"", `"\ufffd\ufffd\""`, "the quote is not swallowed"},
		{"cut surrogate before a letter", "\xed\xbf\x41", `"\ufffd\ufffdA"`, "the letter is not swallowed"},
		{"cut surrogate before a lead byte", "\xed\xa0\xc3\xa9", `"\ufffd\ufffd\u00e9"`, "the character is not swallowed"},
		{"escape late in a word", "0123456\n89abcde\"f", `"0123456\n89abcde\"f"`, "the fast path stops inside a word"},
	}
	for _, c := range cases {
		if got := strictjson.AppendString(nil, c.s); string(got) != c.want {
			t.Errorf("%s (%s): got %s, want %s", c.name, c.why, got, c.want)
		}
		if got := strictjson.AppendString([]byte("x"), []byte(c.s)); string(got) != "x"+c.want {
			t.Errorf("%s: bytes behind a prefix: got %s, want x%s", c.name, got, c.want)
		}
	}
}

func TestAppendEscapedPutsJSONIntoAString(t *testing.T) {
	inner := `{"a":"\u00e9\n","b":[1,"\"\\"]}`
	quoted := "\"" + string(strictjson.AppendEscaped(nil, inner)) + "\""
	if got, ok := strictjson.String([]byte(quoted)); !ok || got != inner {
		t.Errorf("got %q, want %q", got, inner)
	}
}

// checkLengths compares EscapedLen with what AppendEscaped does.
func checkLengths(t *testing.T, s string) {
	t.Helper()
	text := strictjson.AppendEscaped(nil, s)
	again := strictjson.AppendEscaped(nil, text)
	if once, twice := strictjson.EscapedLen(s); once != len(text) || twice != len(again) {
		t.Errorf("EscapedLen(%.40q) = %d, %d, want %d, %d", s, once, twice, len(text), len(again))
	}
	if once, twice := strictjson.EscapedLen([]byte(s)); once != len(text) || twice != len(again) {
		t.Errorf("EscapedLen([]byte(%.40q)) = %d, %d, want %d, %d", s, once, twice, len(text), len(again))
	}
}

func TestEscapedLenIsWhatAppendEscapedMakes(t *testing.T) {
	for _, s := range []string{
		"", "plain", "0123456789abcdef", `a"b\c`, "\n\r\t", "\x00\b\x1f\x7f", "\u00e9", "\u20ac\u2028", "\U0001F600", "\uFFFD",
		"\xed\xa0\x80", "\xed\xa0\"", "\xed\xa0", "\xff", "a\xe2\x82", strings.Repeat(`"\`, 1000), `{"a":"\u00e9\n"}`,
		strings.Repeat("plain text and \u00e9, ", 100), "0123456\n89abcde\"f\U0001F600",
	} {
		checkLengths(t, s)
	}
	for c := range 0x100 {
		checkLengths(t, "x"+string([]byte{byte(c)})+"y")
	}
}

// The pipeline escapes a part of the very buffer that it appends to.
func TestAppendEscapedMayReadWhatDstHolds(t *testing.T) {
	text := strings.Repeat("{\"a\":\"\\\u00e9\"}", 1000)
	want := string(strictjson.AppendEscaped(nil, text))
	for _, room := range []int{0, len(text), 10 * len(text)} {
		buf := append(make([]byte, 0, len(text)+room), text...)
		if got := string(strictjson.AppendEscaped(buf, buf)); got != text+want {
			t.Errorf("with %d bytes of room: got %.60q, want %.60q", room, got[len(text):], want)
		}
	}
}

// slowEscape is AppendEscaped for one byte below 0x80, written the plain way.
func slowEscape(c byte) string {
	switch {
	case c == '"' || c == '\\':
		return `\` + string(c)
	case c == '\n':
		return `\n`
	case c == '\r':
		return `\r`
	case c == '\t':
		return `\t`
	case c < 0x20 || c == 0x7F:
		return fmt.Sprintf(`\u%04x`, c)
	}
	return string(c)
}

// The fast path looks at eight bytes at once: every byte, at every place of a word, beside every kind of neighbour.
func TestEveryByteIsEscapedWhereverItStands(t *testing.T) {
	for _, filler := range []string{" ", "~", "a", "!", "#", "[", "]", "\x20\x7e"} {
		for c := range 0x80 {
			for at := range 18 {
				s := strings.Repeat(filler, at) + string(rune(c)) + strings.Repeat(filler, 18-at)
				want := strings.Repeat(filler, at) + slowEscape(byte(c)) + strings.Repeat(filler, 18-at)
				if got := string(strictjson.AppendEscaped(nil, s)); got != want {
					t.Fatalf("byte %#x at %d among %q: got %q, want %q", c, at, filler, got, want)
				}
			}
		}
		for c := 0x80; c < 0x100; c++ {
			for at := range 18 {
				s := strings.Repeat(filler, at) + string([]byte{byte(c)}) + strings.Repeat(filler, 18-at)
				want := strings.Repeat(filler, at) + `\ufffd` + strings.Repeat(filler, 18-at)
				if got := string(strictjson.AppendEscaped(nil, s)); got != want {
					t.Fatalf("byte %#x at %d among %q: got %q, want %q", c, at, filler, got, want)
				}
			}
		}
	}
}

func TestEveryCodePointComesBack(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		s := string(r)
		if r >= 0xD800 && r < 0xE000 {
			s = string([]byte{0xED, 0x80 | byte(r>>6)&0x3F, 0x80 | byte(r)&0x3F})
		}
		raw := strictjson.AppendString(nil, s)
		if !isPrintable(raw) {
			t.Fatalf("U+%04X is written as %q", r, raw)
		}
		if got, ok := strictjson.String(raw); !ok || got != s {
			t.Fatalf("U+%04X: %s decodes to %q, want %q", r, raw, got, s)
		}
	}
}

func TestAppendASCIIKeepsTheValue(t *testing.T) {
	cases := []struct{ name, text, want, why string }{
		{"ASCII", `{"a":[1,"\n\u00e9"]}`, `{"a":[1,"\n\u00e9"]}`, "as it is"},
		{"empty", ``, ``, "nothing"},
		{"two bytes", "\"\u00e9\"", `"\u00e9"`, "escaped"},
		{"three bytes", "\"\u2028x\u20ac\"", `"\u2028x\u20ac"`, "escaped"},
		{"four bytes", "\"\U0001F600\"", `"\ud83d\ude00"`, "a pair"},
		{"DEL", "\"\x7f\"", `"\u007f"`, "escaped"},
		{"key", "{\"\u00e9\":\"\u00e9\"}", `{"\u00e9":"\u00e9"}`, "keys too"},
		{"lone surrogate", `"\ud800"`, `"\ud800"`, "the same escape"},
		{"lone high before a raw character", "\"\\ud83d\u00e9\"", `"\ud83d\u00e9"`, "no pair comes into being"},
		{"white space", "{ \"a\" : 1 }", "{ \"a\" : 1 }", "stays"},
		{"2^53+1", `9007199254740993`, `9007199254740993`, "numbers are text"},
		{"at both ends", "\u00e9\u00e9", `\u00e9\u00e9`, "a body without quotes works too"},
	}
	for _, c := range cases {
		if got := string(strictjson.AppendASCII([]byte("x"), []byte(c.text))); got != "x"+c.want {
			t.Errorf("%s (%s): got %s, want x%s", c.name, c.why, got, c.want)
		}
	}
}

func BenchmarkAppendEscaped(b *testing.B) {
	text := []byte(strings.Repeat("func main() { fmt.Println(\"hello\", 1) }\n", 1600))
	b.SetBytes(int64(len(text)))
	dst := make([]byte, 0, 2*len(text))
	for b.Loop() {
		dst = strictjson.AppendEscaped(dst[:0], text)
	}
}
