package pgpolicy

import (
	"strings"
	"testing"
)

func TestPrescanRefusesWhatNestsThousandsOfLevels(t *testing.T) {
	deep := maxPrescanDepth + 1
	for _, c := range []struct {
		name, sql string
		want      bool
		why       string
	}{
		{"brackets", "SELECT " + strings.Repeat("(", deep) + "1", false, ""},
		{"fewer brackets", "SELECT " + strings.Repeat("(", 3_000) + "1" + strings.Repeat(")", 3_000), true, "they vanish in the tree"},
		{"subscripts", "SELECT " + strings.Repeat("a[", deep), false, ""},
		{"operators", "SELECT 1" + strings.Repeat("+1", deep), false, ""},
		{"operators in list elements", "SELECT (-1" + strings.Repeat(",-1", deep) + ")", true, "they do not nest"},
		{"operators in targets", "SELECT -1" + strings.Repeat(",-1", deep), true, ""},
		{"brackets side by side", "VALUES (1)" + strings.Repeat(",(1)", deep), true, ""},
		{"unions", "SELECT 1" + strings.Repeat(" UNION SELECT 1,2", deep), false, "a comma does not end them"},
		{"not", "SELECT " + strings.Repeat("NOT ", deep) + "a", false, ""},
		{"not in capitals and small letters", "SELECT " + strings.Repeat("nOt ", deep) + "a", false, ""},
		{"casts", "SELECT 1" + strings.Repeat("::int", deep), false, ""},
		{"in a literal", "SELECT '" + strings.Repeat("(", deep) + "'", true, ""},
		{"in a literal with quotes", "SELECT 'it''s" + strings.Repeat("(", deep) + "'", true, ""},
		{"in an E literal", `SELECT E'it\'s` + strings.Repeat("(", deep) + "'", true, ""},
		{"behind a literal with a backslash", `SELECT 'a\'` + strings.Repeat("(", deep), false, "the backslash escapes nothing"},
		{"in a name", `SELECT "` + strings.Repeat("(", deep) + `"`, true, ""},
		{"in a word", "SELECT " + strings.Repeat("not", deep), true, "notnotnot is a name"},
		{"in a dollar literal", "SELECT $a$" + strings.Repeat("(", deep) + "$a$", true, ""},
		{"behind a dollar literal", "SELECT $a$x$a$" + strings.Repeat("(", deep), false, ""},
		{"behind a parameter", "SELECT $1" + strings.Repeat("(", deep) + "$1", false, "$1 begins no literal"},
		{"in a comment", "SELECT 1 /* /* */ " + strings.Repeat("(", deep) + "*/", true, "comments nest"},
		{"behind a comment", "SELECT /* */ " + strings.Repeat("(", deep), false, ""},
		{"in a line comment", "SELECT 1 --" + strings.Repeat("(", deep), true, ""},
		{"behind a line comment", "SELECT 1 --x\n" + strings.Repeat("(", deep), false, ""},
		{"behind a line comment of a carriage return", "SELECT 1 --x\r" + strings.Repeat("(", deep), false, "it ends there, too"},
		{"closing brackets alone", "SELECT " + strings.Repeat(")", deep), true, "the parser says what is wrong"},
		{"empty", "", true, ""},
		{"a lone dollar", "$", true, ""},
	} {
		if got := prescan(c.sql); got != c.want {
			t.Errorf("%s: %v (%s)", c.name, got, c.why)
		}
	}
}
