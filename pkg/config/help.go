package config

import (
	"cmp"
	"fmt"
	"strings"
)

const (
	helpColumns = 100
	unset       = "unset"
)

const helpHead = "Settings are environment variables. A wrong value stops the start, and so does an MCP_ name that is " +
	"not a setting but at most two edits away from one; all faults are listed at once. Numbers are plain digits such " +
	"as 5 or 0.1, without unit, exponent or spaces. Words may be in any letter case. An empty value counts as unset " +
	"where the default is unset, and is a fault elsewhere."

// Help returns the settings as plain ASCII text for a terminal of 100 columns, with a newline at its end.
func Help() string {
	var b strings.Builder
	wrap(&b, "", helpHead)
	b.WriteByte('\n')
	line := func(name, standard, constraint string) {
		fmt.Fprintf(&b, "%-32s  %-16s  %s\n", name, standard, constraint)
	}
	line("VARIABLE", "DEFAULT", "ALLOWED")
	for _, s := range Settings() {
		line(s.Name, cmp.Or(s.Default, unset), s.Constraint)
		wrap(&b, "    ", s.Effect)
	}
	return b.String()
}

// wrap writes the words of text in lines of at most helpColumns bytes that start with indent.
func wrap(b *strings.Builder, indent, text string) {
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > helpColumns {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	b.WriteString(line + "\n")
}

// Markdown returns the settings as the table of the README, with a newline at its end.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| Variable | Default | Constraint | Effect |\n| --- | --- | --- | --- |\n")
	for _, s := range Settings() {
		standard := unset
		if s.Default != "" {
			standard = "`" + s.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Name, standard, s.Constraint, s.Effect)
	}
	return b.String()
}
