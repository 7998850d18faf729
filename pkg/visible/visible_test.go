package visible_test

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"mcp-server-suite/pkg/visible"
)

func TestWhatIsNotSeenIsWrittenAsAnEscape(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"plain", "a \u00e9\u4e2d~", "a \u00e9\u4e2d~"},
		{"what quotes and escapes is left", `'"\`, `'"\`},
		{"terminal", "\x1b[2J\a\u009b", `\x1b[2J\a\u009b`},
		{"bidirectional", "a\u202eb", `a\u202eb`},
		{"zero-width", "a\u200bb\u00ad", `a\u200bb\u00ad`},
		{"tag", "\U000e0041", `\U000e0041`},
		{"filler", "\u3164", `\u3164`},
		{"variation selector", "\ufe0f", `\ufe0f`},
		{"no-break space", "\u00a0", `\u00a0`},
		{"private use", "\ue000", `\ue000`},
		{"not UTF-8", "a\xffb", `a\xffb`},
		{"a replacement character that was written", "\ufffd", "\ufffd"},
		{"tab and return", "a\tb\rc", `a\tb\rc`},
	} {
		if got := visible.Text(c.text); got != c.want {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
		if got := visible.Line(c.text); got != c.want {
			t.Errorf("%s, as a line: %q, not %q", c.name, got, c.want)
		}
	}
	if got := visible.Text("a\nb"); got != "a\nb" {
		t.Errorf("a line break in a text: %q", got)
	}
	if got := visible.Line("a\nb"); got != `a\nb` {
		t.Errorf("a line break in a line: %q", got)
	}
}

func TestOnlyWhatTheUnicodeTablesShowComesThrough(t *testing.T) {
	t.Parallel()
	for r := range rune(unicode.MaxRune + 1) {
		if !utf8.ValidRune(r) {
			continue
		}
		shown := r == ' ' || unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S)
		hidden := unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
		if line := visible.Line(string(r)); (line == string(r)) != (shown && !hidden) {
			t.Fatalf("%U comes out as %q", r, line)
		}
	}
}
