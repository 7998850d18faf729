package rowjson

import "mcp-server-suite/pkg/strictjson"

// MaxJSONDepth is how many objects and arrays may be open at once in a json or jsonb value that is handed out as
// such. With the six dimensions of an array, the row and the result around it that stays below what strictjson reads
// (64).
const MaxJSONDepth = 32

// keptScanner is the longest text, in bytes, after which the scanner is used again. With every text it clears the
// memory that it has grown for an earlier one: 200,000 array elements "{}" behind one object of 720 keys took 74 ms,
// with a fresh scanner 16 ms.
const keptScanner = 1 << 10

// embeddable returns a json value without the white space around it, and whether it may stand in the result as it is.
// One number that is not exact keeps the whole value out: a tree in which some numbers are strings would look like
// the database's own.
func (e *Encoder) embeddable(text []byte) (value []byte, ok bool) {
	doc, err := e.scanner.Scan(text)
	if len(text) > keptScanner {
		e.scanner = strictjson.Scanner{}
	}
	if err != nil || doc.DuplicateKey != strictjson.Nowhere || doc.LoneSurrogate {
		return nil, false
	}
	return doc.Value, survives(doc.Value)
}

// survives reports whether the depth and every number of a value are within bounds. The value is valid JSON.
func survives(value []byte) bool {
	depth := 0
	for i := 0; i < len(value); {
		switch c := value[i]; {
		case c == '{' || c == '[':
			if depth++; depth > MaxJSONDepth {
				return false
			}
			i++
		case c == '}' || c == ']':
			depth--
			i++
		case c == '"':
			i = skipString(value, i)
		case c == '-' || isDigit(c):
			start := i
			for i++; i < len(value) && isNumeral(value[i]); i++ {
			}
			if !isExact(value[start:i]) {
				return false
			}
		default: // white space, comma, colon, letters of true, false and null
			i++
		}
	}
	return true
}

func isNumeral(c byte) bool {
	return isDigit(c) || c == '.' || c == '+' || c == '-' || c|0x20 == 'e'
}

func skipString(value []byte, i int) int {
	for i++; value[i] != '"'; i++ {
		if value[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// embed writes a valid JSON value without white space: a line feed would end the message, and jsonb has a space after
// every comma and colon.
func (e *Encoder) embed(value []byte) {
	start := 0
	for i := 0; i < len(value); {
		switch value[i] {
		case '"':
			i = skipString(value, i)
		case ' ', '\t', '\n', '\r':
			e.ascii(value[start:i])
			i++
			start = i
		default:
			i++
		}
	}
	e.ascii(value[start:])
}

// ascii writes a piece of valid JSON.
func (e *Encoder) ascii(text []byte) {
	for len(text) > 0 && e.fits(len(text)) {
		n := chunk(text)
		e.out = strictjson.AppendASCII(e.out, text[:n])
		text = text[n:]
	}
}
