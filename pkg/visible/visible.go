// Package visible tells which characters a reader sees, and writes the others as escapes.
//
// It does not judge what a text means, and what is visible can still mislead: combining marks crowd, and right-to-left
// letters run backwards.
//
// Needs: nothing. An attacker controls every text; time and memory are linear in it, at ten bytes for one.
package visible

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Rune is false for what a reader does not see but a model or a terminal takes in: control, format (bidirectional,
// zero-width, tag), private-use and unassigned characters, which unicode.IsPrint refuses, and the fillers and variation
// selectors, which it does not. Of the spaces only U+0020 is visible.
func Rune(r rune) bool {
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Text is a text that a terminal shows and does not obey: characters that are not visible, bytes that are not UTF-8 and
// tabs are written as Go's escapes (\t, \x1b, \u202e), line breaks (\n) stay.
func Text(text string) string { return escaped(text, true) }

// Line is Text without line breaks: what was written elsewhere must not begin a line that looks like ours.
func Line(text string) string { return escaped(text, false) }

func escaped(text string, breaks bool) string {
	var b strings.Builder
	for i, size := 0, 0; i < len(text); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\n' && breaks, Rune(r) && (r != utf8.RuneError || size > 1):
			b.WriteString(text[i : i+size])
		default:
			quoted := strconv.QuoteToASCII(text[i : i+size])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}
