package pgpolicy

import "strings"

// maxPrescanDepth bounds how deep a text may nest by the guess of [prescan]. Measured on 8 MiB of stack: the first
// shape dies between 1,830 and 2,330 levels; on the 64 MiB that we have, 10,000 characters of any shape pass. So this
// is the outer of two guards, and it keeps the C code away from its quadratic cases. 3,000 nested brackets, which leave
// nothing in the tree, still pass.
const maxPrescanDepth = 3_200

// level is one open bracket: what may nest inside of it.
type level struct {
	steps  int // since the last comma: elements of a list are siblings
	setOps int // UNION and the like nest across commas
}

// prescan guesses, in one pass, how deep the syntax tree of sql can become, and reports whether that is bearable. It
// counts each operator character, bracket and nesting keyword as a level, skips literals and comments, and counts a
// list's elements apart. It errs on both sides where it misreads a literal. It only spares the parser: nothing may be
// allowed because of what it found.
func prescan(sql string) bool {
	levels := []level{{}}
	depth, deepest := 0, 0
	add := func(n int) {
		levels[len(levels)-1].steps += n
		if depth += n; depth > deepest {
			deepest = depth
		}
	}
	for i := 0; i < len(sql); {
		c := sql[i]
		switch {
		case c == '\'':
			escape := i > 0 && (sql[i-1]|0x20) == 'e' && (i < 2 || !isWordByte(sql[i-2]))
			i = skipQuoted(sql, i, '\'', escape)
		case c == '"':
			i = skipQuoted(sql, i, '"', false)
		case c == '$':
			i = skipDollar(sql, i)
		case strings.HasPrefix(sql[i:], "--"):
			if end := strings.IndexAny(sql[i:], "\r\n"); end >= 0 {
				i += end
			} else {
				i = len(sql)
			}
		case strings.HasPrefix(sql[i:], "/*"):
			i = skipComment(sql, i)
		case c == '(' || c == '[':
			levels = append(levels, level{})
			add(1)
			i++
		case c == ')' || c == ']':
			if last := levels[len(levels)-1]; len(levels) > 1 {
				levels = levels[:len(levels)-1]
				depth -= last.steps + last.setOps
			}
			if c == ']' {
				add(1) // a[1][2] may nest to the right of the bracket
			}
			i++
		case c == ',':
			last := &levels[len(levels)-1]
			depth -= last.steps
			last.steps = 0
			if len(levels) > 1 {
				add(1) // the bracket itself
			}
			i++
		case c == ':' || strings.IndexByte("+-*/<>=~!@#%^&|`?", c) >= 0:
			add(1)
			i++
		case isWordByte(c):
			end := i + 1
			for end < len(sql) && (isWordByte(sql[end]) || sql[end] == '$') {
				end++
			}
			switch word := sql[i:end]; {
			case len(word) > maxNestingWord: // no keyword of ours
			case setOperation(word):
				last := &levels[len(levels)-1]
				last.setOps++
				if depth++; depth > deepest {
					deepest = depth
				}
			case nestingWord(word):
				add(1)
			}
			i = end
		default:
			i++
		}
		if deepest > maxPrescanDepth {
			return false
		}
	}
	return true
}

const maxNestingWord = len("intersect")

func setOperation(word string) bool {
	switch strings.ToLower(word) {
	case "union", "intersect", "except":
		return true
	}
	return false
}

func nestingWord(word string) bool {
	switch strings.ToLower(word) {
	case "not", "case", "when", "else", "select", "join", "collate", "at", "is", "in", "like", "ilike", "similar",
		"between", "and", "or", "isnull", "notnull", "any", "all", "some", "exists", "array", "row", "with", "overlaps", "escape",
		"distinct", "operator", "values", "table":
		return true
	}
	return false
}

func isWordByte(c byte) bool {
	return c == '_' || c >= 0x80 || c-'0' <= 9 || (c|0x20)-'a' <= 'z'-'a'
}

// skipQuoted gives the offset after the literal that begins at start; the end of the text if it is not closed.
func skipQuoted(sql string, start int, quote byte, escape bool) int {
	for i := start + 1; i < len(sql); i++ {
		switch {
		case escape && sql[i] == '\\':
			i++
		case sql[i] == quote && i+1 < len(sql) && sql[i+1] == quote:
			i++
		case sql[i] == quote:
			return i + 1
		}
	}
	return len(sql)
}

// skipDollar gives the offset after $tag$...$tag$, or after the dollar sign if that begins no literal.
func skipDollar(sql string, start int) int {
	end := start + 1
	for end < len(sql) && isWordByte(sql[end]) {
		end++
	}
	if end >= len(sql) || sql[end] != '$' || sql[start+1]-'0' <= 9 {
		return start + 1
	}
	tag := sql[start : end+1]
	if body := strings.Index(sql[end+1:], tag); body >= 0 {
		return end + 1 + body + len(tag)
	}
	return len(sql)
}

// skipComment gives the offset after the comment that begins at start; comments nest.
func skipComment(sql string, start int) int {
	depth := 0
	for i := start; i < len(sql); {
		switch {
		case strings.HasPrefix(sql[i:], "/*"):
			depth++
			i += 2
		case strings.HasPrefix(sql[i:], "*/"):
			if depth--; depth == 0 {
				return i + 2
			}
			i += 2
		default:
			i++
		}
	}
	return len(sql)
}
