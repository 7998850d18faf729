package config

import (
	"strings"
	"testing"
)

func TestWrapFillsALineToColumn100AndNotToColumn101(t *testing.T) {
	for _, c := range []struct {
		name, why string
		second    int // length of the second word
		want      int // lines
	}{
		{"100 columns", "4 of indent, 50, a space, 45", 45, 1},
		{"101 columns", "one more goes to the next line", 46, 2},
	} {
		var b strings.Builder
		wrap(&b, "    ", strings.Repeat("a", 50)+" "+strings.Repeat("b", c.second))
		if got := strings.Count(b.String(), "\n"); got != c.want {
			t.Errorf("%s (%s): got %d lines: %q", c.name, c.why, got, b.String())
		}
	}
}
