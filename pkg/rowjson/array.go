package rowjson

import "bytes"

// maxDimensions is PostgreSQL's MAXDIM (utils/array.h).
const maxDimensions = 6

// isArray reports whether text is an array as array_out writes it, without bounds: {} or the same number of elements
// in every part of a dimension, quoted wherever they would otherwise mean something else.
//
// Only that is taken. array_in reads more (white space, a backslash outside of quotes, null in small letters), but
// nothing that the server sends, and what two parsers may read in two ways is safer as the text it is.
func isArray(text []byte, delimiter byte) bool {
	if string(text) == "{}" {
		return true
	}
	var count, size [maxDimensions]int // of the part that is open, and of the first one that was closed, in each dimension
	depth, dimensions := 0, 0
	for i := 0; i < len(text); {
		if text[i] == '{' {
			if depth == maxDimensions || dimensions != 0 && depth == dimensions {
				return false
			}
			count[depth] = 0
			depth++
			i++
			continue
		}
		if depth == 0 || dimensions != 0 && depth != dimensions {
			return false
		}
		dimensions = depth
		end, ok := skipElement(text, i, delimiter)
		if !ok {
			return false
		}
		i = end
		for {
			count[depth-1]++
			if i >= len(text) {
				return false
			}
			c := text[i]
			i++
			if c == delimiter {
				break
			}
			depth--
			if c != '}' || size[depth] != 0 && size[depth] != count[depth] {
				return false
			}
			size[depth] = count[depth]
			if depth == 0 {
				return i == len(text)
			}
		}
	}
	return false
}

// skipElement returns the index after the element that begins at i, or false if array_out would have written it
// another way.
func skipElement(text []byte, i int, delimiter byte) (end int, ok bool) {
	if text[i] == '"' {
		for i++; i < len(text); i++ {
			switch text[i] {
			case '\\':
				i++
			case '"':
				return i + 1, true
			}
		}
		return 0, false
	}
	start := i
	for ; i < len(text) && text[i] != delimiter && text[i] != '}'; i++ {
		switch text[i] {
		case '{', '"', '\\', ' ', '\t', '\n', '\v', '\f', '\r':
			return 0, false
		}
	}
	word := text[start:i]
	return i, len(word) > 0 && (string(word) == "NULL" || !bytes.EqualFold(word, []byte("NULL")))
}

// array writes what isArray has accepted.
func (e *Encoder) array(c *column, text []byte) {
	for i := 0; i < len(text) && !e.full; {
		switch text[i] {
		case '{':
			word(e, "[")
			i++
		case '}':
			word(e, "]")
			i++
		case c.delimiter:
			word(e, ",")
			i++
		default:
			end, _ := skipElement(text, i, c.delimiter)
			e.element(c, text[i:end])
			i = end
		}
	}
}

func (e *Encoder) element(c *column, text []byte) {
	switch {
	case string(text) == "NULL":
		word(e, "null")
	case text[0] != '"':
		e.value(c, text)
	case bytes.IndexByte(text, '\\') < 0:
		e.value(c, text[1:len(text)-1])
	default:
		e.scratch = e.scratch[:0]
		for i := 1; i < len(text)-1; i++ {
			if text[i] == '\\' {
				i++
			}
			e.scratch = append(e.scratch, text[i])
		}
		e.value(c, e.scratch)
	}
}
