package contract

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"mcp-server-suite/pkg/problem"
	"mcp-server-suite/pkg/strictjson"
)

// Values are decoded arguments: one for each property of the schema, defaults applied.
type Values struct {
	names  []Property
	values []any
}

// String gives the argument of that name, which the schema must declare as a string.
func (v Values) String(name string) string { return v.get(name).(string) }

// Int gives the argument of that name, which the schema must declare as an integer.
func (v Values) Int(name string) int64 { return v.get(name).(int64) }

// Bool gives the argument of that name, which the schema must declare as true or false.
func (v Values) Bool(name string) bool { return v.get(name).(bool) }

func (v Values) get(name string) any {
	for i := range v.names {
		if v.names[i].name == name {
			return v.values[i]
		}
	}
	panic("contract: argument not in the schema: " + name)
}

// Decode reads the raw arguments object; nil stands for an empty one. It returns the values or the refusal: BAD_PARAM
// with the declared names that are at fault, or, for an undeclared argument, with the names that are allowed. Arguments
// are scalars; a schema with nested arguments has no decoder yet.
func (s Schema) Decode(arguments []byte) (Values, *problem.Problem) {
	v := Values{names: s.root.members, values: make([]any, len(s.root.members))}
	var faulty []string
	complaint := ""
	for c := strictjson.Open(arguments); c.Next(); {
		i := s.index(c.Key())
		if i < 0 {
			return Values{}, s.undeclared(c.Key())
		}
		value, wrong := s.root.members[i].decode(c.Value())
		if wrong == "" {
			wrong = s.root.members[i].complain(value)
		}
		if wrong != "" {
			faulty, complaint = append(faulty, s.root.members[i].name), wrong
			continue
		}
		v.values[i] = value
	}
	if len(faulty) > 1 {
		return Values{}, problem.New(problem.BadParam, "several arguments are of the wrong type or out of bounds", faulty...)
	}
	if len(faulty) == 1 {
		return Values{}, problem.New(problem.BadParam, faulty[0]+" "+complaint, faulty...)
	}
	var missing []string
	for i, p := range s.root.members {
		if v.values[i] != nil {
			continue
		}
		if p.fallback == nil {
			missing = append(missing, p.name)
		}
		v.values[i] = p.fallback
	}
	if missing != nil {
		return Values{}, problem.New(problem.BadParam, "missing: "+strings.Join(missing, ", "), missing...)
	}
	return v, nil
}

func (s Schema) index(key []byte) int {
	name := key[1 : len(key)-1]
	for i := range s.root.members {
		if string(name) == s.root.members[i].name {
			return i
		}
	}
	// The sanitizer has refused keys with escapes; without it a spelling such as "\u0061" still means the name.
	if decoded, _ := strictjson.String(key); decoded != string(name) {
		for i := range s.root.members {
			if decoded == s.root.members[i].name {
				return i
			}
		}
	}
	return -1
}

// Allowed is the end of a refusal that is about a name: "allowed: a, b".
func (s Schema) Allowed() string {
	names := make([]string, len(s.root.members))
	for i, p := range s.root.members {
		names[i] = p.name
	}
	if len(names) == 0 {
		return "it takes none"
	}
	return "allowed: " + strings.Join(names, ", ")
}

func (s Schema) undeclared(key []byte) *problem.Problem {
	allowed := s.Allowed()
	decoded, _ := strictjson.String(key)
	return problem.New(problem.BadParam, "an argument is not one that this tool takes; "+allowed, "arguments").
		About(decoded, "the argument %s is not one that this tool takes; "+allowed)
}

// decode reads a raw value by the property's type; wrong says what was expected.
func (p Property) decode(raw []byte) (value any, wrong string) {
	ok := false
	switch p.kind {
	case text:
		value, ok = asAny(strictjson.String(raw))
		wrong = "must be a string"
	case integer:
		value, ok = asAny(strictjson.Int(raw))
		wrong = p.expected("must be an integer")
	case boolean:
		value, ok = asAny(strictjson.Bool(raw))
		wrong = "must be true or false"
	default:
		panic("contract: no decoder for an argument of type " + string(p.kind))
	}
	if ok {
		wrong = ""
	}
	return value, wrong
}

func asAny[T any](v T, ok bool) (any, bool) { return v, ok }

func (p Property) expected(what string) string {
	if !p.bounded {
		return what
	}
	return fmt.Sprintf("%s from %s to %s", what, shown(p.low), shown(p.high))
}

func shown(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// complain says how a decoded value breaks the property's bounds; "" if it does not.
func (p Property) complain(value any) string {
	switch v := value.(type) {
	case string:
		if p.kind != text {
			return "must not be a string"
		}
		if !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
			return "must be text without NUL and surrogates"
		}
		if n := float64(utf8.RuneCountInString(v)); p.bounded && (n < p.low || n > p.high) {
			return p.expected("must have a length in characters")
		}
	case int64:
		if p.kind != integer {
			return "must not be an integer"
		}
		if p.bounded && (float64(v) < p.low || float64(v) > p.high) {
			return p.expected("must be an integer")
		}
	case bool:
		if p.kind != boolean {
			return "must not be true or false"
		}
	default: // only a default can be of another type
		return "must be a string, an integer or true or false"
	}
	return ""
}
