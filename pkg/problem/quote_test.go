package problem_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"mcp-server-suite/pkg/problem"
)

const maxQuoted = 256

func TestQuote(t *testing.T) {
	long := strings.Repeat("a", maxQuoted)
	cases := []struct{ name, text, want, why string }{
		{"plain", "a/b c.txt", `'a/b c.txt'`, "most echoes are this"},
		{"empty", "", `''`, ""},
		{"quote", `it's`, `'it\'s'`, "it would end the quote"},
		{"backslash", `a\u0041`, `'a\\u0041'`, "it would look like an escape of ours"},
		{"double quote", `"`, `'"'`, "it ends nothing here; JSON escapes it later"},
		{"line feed", "a\nb", `'a\u000ab'`, "one line"},
		{"escape sequence", "\x1b[31m", `'\u001b[31m'`, "a terminal obeys it (fs-025)"},
		{"delete", "\x7f", `'\u007f'`, ""},
		{"C1 control", "\u009b31m", `'\u009b31m'`, "some terminals read it as ESC ["},
		{"bidi override", "\u202e", `'\u202e'`, "Trojan Source, CVE-2021-42574"},
		{"bidi isolate", "\u2066x\u2069", `'\u2066x\u2069'`, "Trojan Source, CVE-2021-42574"},
		{"zero-width joiner", "a\u200db", `'a\u200db'`, "invisible"},
		{"line separator", "\u2028", `'\u2028'`, "shown as a line break"},
		{"no-break space", "\u00a0", `'\u00a0'`, "looks like a space and is none"},
		{"byte order mark", "\ufeff", `'\ufeff'`, "invisible"},
		{"tag letter", "\U000E0041", `'\U000e0041'`, "hidden ASCII"},
		{"Hangul filler", "\u3164", `'\u3164'`, "a letter by category, and nothing to see"},
		{"grapheme joiner", "\u034f", `'\u034f'`, "a mark by category, and nothing to see"},
		{"variation selector", "a\ufe0f", `'a\ufe0f'`, "a mark by category; a row of them carries a hidden text"},
		{"variation selector above U+FFFF", "\U000E0101", `'\U000e0101'`, "hidden bytes, one for each selector"},
		{"private use", "\ue000", `'\ue000'`, "no glyph that anybody agreed on"},
		{"unassigned", "\u0378", `'\u0378'`, ""},
		{"surrogate in WTF-8", "\xed\xa0\x80", `'\xed\xa0\x80'`, "no character at all"},
		{"stray byte", "a\xff", `'a\xff'`, "file names may be any bytes"},
		{"replacement character", "\ufffd", "'\ufffd'", "a character like any other"},
		{"other scripts", "za\u017c\u00f3\u0142\u0107 \u65e5\u672c \u05e9\u05dc", "'za\u017c\u00f3\u0142\u0107 \u65e5\u672c \u05e9\u05dc'", "people name files so"},
		{"emoji", "\U0001F600", "'\U0001F600'", ""},
		{"256 characters", long, "'" + long + "'", "all of it"},
		{"257 characters", long + "a", "'" + long + "'...", "the cut shows"},
		{"256 wide characters", strings.Repeat("\u65e5", 256), "'" + strings.Repeat("\u65e5", 256) + "'", "characters, not bytes"},
		{"an escape that would not fit whole", long[:maxQuoted-1] + "'", "'" + long[:maxQuoted-1] + "'...", "half an escape would leave the quote open"},
		{"an escape that just fits", long[:maxQuoted-2] + "'", "'" + long[:maxQuoted-2] + `\''`, ""},
		{"only escapes", strings.Repeat("\x00", 100), "'" + strings.Repeat(`\u0000`, 42) + "'...", "an escape counts as what it is written with"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := problem.Quote(c.text); got != c.want {
				t.Errorf("Quote(%+q) = %+q, want %+q %s", c.text, got, c.want, c.why)
			}
			checkQuote(t, c.text)
		})
	}
}

func TestQuoteOfEachCodePointIsSafe(t *testing.T) {
	for r := range rune(unicode.MaxRune + 1) {
		if plane := r >> 16; plane < 4 || plane == 14 || r&0xFFFF >= 0xFFF0 { // the other planes are empty or private
			checkQuote(t, string(r))
		}
	}
}

func FuzzQuote(f *testing.F) {
	for _, seed := range []string{
		"", "a", "'", `\`, "\\'", "\u202e\u2066", "\U000E0041\ufe0f", "\xed\xa0\x80\xff", strings.Repeat("'", 200),
		strings.Repeat("\u3164", 300), strings.Repeat("ab", 150), "%s%d", "\u0000\u009b[",
	} {
		f.Add(seed)
	}
	f.Fuzz(checkQuote)
}

// checkQuote holds the properties of every quote: bounded, whole, every character visible, and readable back to the
// text, so that two texts that differ within the bound are never shown alike.
func checkQuote(t *testing.T, text string) {
	t.Helper()
	quoted := problem.Quote(text)
	body, isCut := strings.CutSuffix(quoted, "'...")
	if !isCut {
		var isWhole bool
		if body, isWhole = strings.CutSuffix(quoted, "'"); !isWhole {
			t.Fatalf("Quote(%+q) = %+q does not end its quote", text, quoted)
		}
	}
	body, isOpen := strings.CutPrefix(body, "'")
	if !isOpen {
		t.Fatalf("Quote(%+q) = %+q does not begin with a quote", text, quoted)
	}
	if n := utf8.RuneCountInString(body); n > maxQuoted {
		t.Errorf("Quote(%+q) shows %d characters", text, n)
	}
	if !utf8.ValidString(quoted) {
		t.Errorf("Quote(%+q) = %+q is not UTF-8", text, quoted)
	}
	for _, r := range quoted {
		if !isSafe(r) {
			t.Errorf("Quote(%+q) shows %U", text, r)
		}
	}
	back, ok := unquote(body)
	if !ok || !strings.HasPrefix(text, back) || !isCut && text != back {
		t.Errorf("Quote(%+q) = %+q reads back as %+q, %t", text, quoted, back, ok)
	}
}

// isSafe is the test's own opinion, by category: a letter, mark, number, punctuation, symbol or plain space that is not
// default-ignorable.
func isSafe(r rune) bool {
	visible := r == ' ' || unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S)
	hidden := unicode.In(r, unicode.Cc, unicode.Cf, unicode.Bidi_Control, unicode.Join_Control,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
	return visible && !hidden
}

func unquote(body string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(body); {
		if body[i] == '\'' {
			return "", false // it would have ended the quote
		}
		if body[i] != '\\' {
			b.WriteByte(body[i])
			i++
			continue
		}
		digits := 0
		switch rest := body[i+1:]; {
		case rest == "":
			return "", false
		case rest[0] == '\'' || rest[0] == '\\':
			b.WriteByte(rest[0])
			i += 2
			continue
		case rest[0] == 'x':
			digits = 2
		case rest[0] == 'u':
			digits = 4
		case rest[0] == 'U':
			digits = 8
		}
		if digits == 0 || len(body) < i+2+digits {
			return "", false
		}
		n, err := strconv.ParseUint(body[i+2:i+2+digits], 16, 32)
		if err != nil {
			return "", false
		}
		if digits == 2 {
			b.WriteByte(byte(n))
		} else {
			b.WriteRune(rune(n))
		}
		i += 2 + digits
	}
	return b.String(), true
}
