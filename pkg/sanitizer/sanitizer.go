package sanitizer

import (
	"fmt"
	"unicode/utf8"

	"mcp-server-suite/pkg/problem"
	"mcp-server-suite/pkg/strictjson"
)

// maxKeyBytes bounds the name of an argument. The longest that any tool publishes is far below.
const maxKeyBytes = 128

// Settings are the bounds: MaxDepth counts the objects and arrays that may be open at once, the arguments object itself
// included (seed 000: 8); MaxItems the members or elements of any one of them (seed 000: 1000).
type Settings struct {
	MaxDepth int
	MaxItems int
}

// Sanitizer checks argument trees. It holds no state and may be shared.
type Sanitizer struct{ settings Settings }

// New checks the settings.
func New(s Settings) (*Sanitizer, error) {
	if s.MaxDepth < 1 || s.MaxItems < 1 {
		return nil, fmt.Errorf("depth %d and items %d must be positive", s.MaxDepth, s.MaxItems)
	}
	return &Sanitizer{s}, nil
}

// Check returns nil or the refusal of the raw arguments object. Refusals name no key: a key that is refused is the
// caller's own text.
func (s *Sanitizer) Check(arguments []byte) *problem.Problem { return s.value(arguments, 0) }

func (s *Sanitizer) value(value []byte, depth int) *problem.Problem {
	switch value[0] {
	case '"':
		return checkString(value)
	case '{', '[':
		return s.container(value, depth)
	}
	return nil
}

// NotAName is the detail of a refusal that is about a name. Who knows the tool can add which names there are.
const NotAName = "an argument name is not a plain identifier (ASCII letters, digits, underscores)"

func (s *Sanitizer) container(value []byte, depth int) *problem.Problem {
	if depth >= s.settings.MaxDepth {
		return refuse(fmt.Sprintf("the arguments are nested more than %d levels deep", s.settings.MaxDepth))
	}
	items := 0
	for c := strictjson.Open(value); c.Next(); {
		if items++; items > s.settings.MaxItems {
			return refuse(fmt.Sprintf("an object or array in the arguments has more than %d items", s.settings.MaxItems))
		}
		if c.Key() != nil && !isIdentifier(c.Key()) {
			return refuse(NotAName)
		}
		if p := s.value(c.Value(), depth+1); p != nil {
			return p
		}
	}
	return nil
}

func refuse(detail string) *problem.Problem {
	return problem.New(problem.BadParam, detail, "arguments")
}

// isIdentifier takes a raw key with its quotes. An escape is no part of an identifier, so none is decoded.
func isIdentifier(key []byte) bool {
	name := key[1 : len(key)-1]
	if len(name) == 0 || len(name) > maxKeyBytes || len(name) > 1 && name[0] == '_' && name[1] == '_' {
		return false
	}
	for i, c := range name {
		letter := c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func checkString(value []byte) *problem.Problem {
	if isPlain(value) {
		return nil
	}
	text, _ := strictjson.String(value)
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 {
			return refuse("an argument holds a lone surrogate, which is not text")
		}
		if what := classify(r); what != "" {
			return refuse("an argument holds " + what)
		}
		i += size
	}
	return nil
}

// isPlain is the common case: printable ASCII without escapes needs no decoding.
func isPlain(value []byte) bool {
	for _, c := range value {
		if c < 0x20 || c >= 0x7F || c == '\\' {
			return false
		}
	}
	return true
}

// span is an inclusive range of code points and what to call them.
type span struct {
	low, high rune
	what      string
}

const (
	control   = "a control character"
	bidi      = "a bidirectional control character"
	invisible = "an invisible character"
	tag       = "a tag character"
)

// refused lists every code point that is refused, in order. Besides C0, DEL and C1 these are Unicode's
// Default_Ignorable_Code_Point with two exceptions and two additions: the variation selectors U+FE0E and U+FE0F pass
// (emoji need them), and of the format characters (Cf) the interlinear annotation and the Egyptian joiners are refused
// too. Prepended marks such as U+0600 are visible and pass. The test compares this list with the tables of package
// unicode.
var refused = []span{
	{0x00, 0x08, control},
	{0x0B, 0x0C, control},
	{0x0E, 0x1F, control},
	{0x7F, 0x9F, control},
	{0xAD, 0xAD, invisible},
	{0x034F, 0x034F, invisible},
	{0x061C, 0x061C, bidi},
	{0x115F, 0x1160, invisible},
	{0x17B4, 0x17B5, invisible},
	{0x180B, 0x180F, invisible},
	{0x200B, 0x200D, invisible},
	{0x200E, 0x200F, bidi},
	{0x202A, 0x202E, bidi},
	{0x2060, 0x2065, invisible},
	{0x2066, 0x2069, bidi},
	{0x206A, 0x206F, invisible},
	{0x3164, 0x3164, invisible},
	{0xFE00, 0xFE0D, invisible},
	{0xFEFF, 0xFEFF, invisible},
	{0xFFA0, 0xFFA0, invisible},
	{0xFFF0, 0xFFFB, invisible},
	{0x13430, 0x1343F, invisible},
	{0x1BCA0, 0x1BCA3, invisible},
	{0x1D173, 0x1D17A, invisible},
	{0xE0000, 0xE007F, tag},
	{0xE0080, 0xE0FFF, invisible},
}

func classify(r rune) string {
	for _, s := range refused {
		if r < s.low {
			return ""
		}
		if r <= s.high {
			return s.what
		}
	}
	return ""
}
