package sanitizer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"mcp-server-suite/pkg/strictjson"
)

// mustRefuse is the oracle: which code points must be refused, from the tables of package unicode alone. It follows the
// derivation of Default_Ignorable_Code_Point in Unicode's DerivedCoreProperties.txt, and the exceptions of package
// sanitizer's documentation.
func mustRefuse(r rune) bool {
	switch {
	case r == '\t' || r == '\n' || r == '\r':
		return false
	case 0xFE0E <= r && r <= 0xFE0F:
		return false
	case unicode.In(r, unicode.Cc, unicode.Cs):
		return true
	case 0xFFF9 <= r && r <= 0xFFFB:
		return true
	case 0x13430 <= r && r <= 0x13440 && unicode.Is(unicode.Cf, r):
		return true
	}
	derived := unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Cf, unicode.Variation_Selector)
	return derived && !unicode.In(r, unicode.White_Space, unicode.Prepended_Concatenation_Mark)
}

// TestEveryCodePointMeetsTheUnicodeTables walks all of them, each as the text that a client would send: by escape, and,
// where that is legal JSON, as itself. Where the tables let a whole block pass, the block is one text.
func TestEveryCodePointMeetsTheUnicodeTables(t *testing.T) {
	s := newSanitizer(t, maxDepth, maxItems)
	check := func(first rune, text string, want bool) {
		if got := s.Check([]byte(`{"a":"`+text+`"}`)) != nil; got != want {
			t.Errorf("%U as %.20s: refused is %t, by Unicode %s it must be %t", first, text, got, unicode.Version, want)
		}
	}
	const block = 256
	refused := 0
	for first := rune(0); first <= unicode.MaxRune; first += block {
		passes := make([]rune, 0, block)
		for r := first; r < first+block; r++ {
			if mustRefuse(r) {
				refused++
				check(r, byEscape(r), true)
				if r >= ' ' && utf8.ValidRune(r) {
					check(r, string(r), true)
				}
			} else {
				passes = append(passes, r)
			}
		}
		var escapes, plain strings.Builder
		for _, r := range passes {
			escapes.WriteString(byEscape(r))
			if r >= ' ' && r != '"' && r != '\\' {
				plain.WriteRune(r)
			}
		}
		check(first, escapes.String(), false)
		check(first, plain.String(), false)
	}
	// Controls but three, surrogates, the default-ignorable code points of Unicode 15.0 but the two style selectors, and
	// the interlinear and Egyptian additions.
	if want := 65 - 3 + 2048 + 4174 - 2 + 3 + 16; refused != want {
		t.Errorf("the tables refuse %d code points, want %d: has Unicode changed?", refused, want)
	}
}

func byEscape(r rune) string {
	if r < 0x10000 {
		return fmt.Sprintf(`\u%04x`, r)
	}
	r -= 0x10000
	return fmt.Sprintf(`\u%04x\u%04x`, 0xD800+r>>10, 0xDC00+r&0x3FF)
}

var plainIdentifier = regexp.MustCompile(`^([A-Za-z]|_($|[A-Za-z0-9]))[A-Za-z0-9_]*$`)

// expected walks the tree with encoding/json and says whether it must be refused. The decoder replaces lone surrogates,
// so those are told by strictjson, which has its own tests.
func expected(t *testing.T, raw []byte, depth, items int, loneSurrogate bool) bool {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	var walk func(any, int) bool
	walk = func(value any, open int) bool {
		var below []any
		switch v := value.(type) {
		case string:
			return strings.ContainsFunc(v, mustRefuse)
		case []any:
			below = v
		case map[string]any:
			for key, inner := range v {
				if !plainIdentifier.MatchString(key) || len(key) > 128 {
					return true
				}
				below = append(below, inner)
			}
		default:
			return false
		}
		return open >= depth || len(below) > items ||
			slices.ContainsFunc(below, func(inner any) bool { return walk(inner, open+1) })
	}
	return loneSurrogate || walk(tree, 0)
}

// FuzzCheck compares the verdict on any tree with that of the oracle, with small bounds so that the fuzzer meets them.
func FuzzCheck(f *testing.F) {
	for _, c := range texts {
		if len(c.body) < 100 {
			f.Add([]byte(`{"text":"` + c.body + `"}`))
			f.Add([]byte(`{"a":["x",{"b":"` + c.body + `"}]}`))
		}
	}
	for _, seed := range []string{
		`{}`, `{"a":[[[]]]}`, `{"a":[[[[]]]]}`, `{"a":[1,2,3,4,5]}`, `{"a":[1,2,3,4,5,6]}`, `{"__proto__":1}`, `{"_":1}`,
		`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}`, `{"a":{"\u0061":1}}`, ` { "a" : [ true , null , -1.5e9 ] } `,
		`{"\ud800":1}`, `{"a":"\\u202e"}`,
		`{"A":"\u0000\udC00"}`, `{"A":"\ud7c0\udc2e"}`,
	} {
		f.Add([]byte(seed))
	}
	const depth, items = 4, 5
	s := newSanitizer(f, depth, items)
	fixed := []string{
		badKey, surrogate, control, bidi, invisible, tag,
		"the arguments are nested more than 4 levels deep", "an object or array in the arguments has more than 5 items",
	}
	var scanner strictjson.Scanner
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := scanner.Scan(text)
		if err != nil || doc.DuplicateKey != strictjson.Nowhere || !strictjson.IsObject(doc.Value) {
			return // stopped before
		}
		before := string(doc.Value)
		refusal := s.Check(doc.Value)
		if string(doc.Value) != before {
			t.Errorf("%q was changed to %q", before, doc.Value)
		}
		// A key is refused for its backslash although it decodes to an identifier: two readers may disagree about it.
		want := expected(t, doc.Value, depth, items, doc.LoneSurrogate) || hasEscapedKey(doc.Value)
		if got := refusal != nil; got != want {
			t.Errorf("%q: refused is %t (%v), want %t", doc.Value, got, refusal, want)
		}
		if refusal != nil && !slices.Contains(fixed, refusal.Text(true)) {
			t.Errorf("%q: the refusal %q is none of the fixed texts", doc.Value, refusal.Text(true))
		}
	})
}

func hasEscapedKey(raw []byte) bool {
	for c := strictjson.Open(raw); c.Next(); {
		if bytes.ContainsRune(c.Key(), '\\') || hasEscapedKey(c.Value()) {
			return true
		}
	}
	return false
}
