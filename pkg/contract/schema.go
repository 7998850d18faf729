package contract

import (
	"fmt"
	"strconv"

	"mcp-server-suite/pkg/strictjson"
)

// kind is a JSON Schema type.
type kind string

const (
	text    kind = "string"
	integer kind = "integer"
	number  kind = "number"
	boolean kind = "boolean"
	object  kind = "object"
	array   kind = "array"

	// anything is the lack of a type, published as no keyword at all; the name is for faults.
	anything kind = "encoded values"
)

// Property is one named member of an object. It is made by String, Int, Number, Bool, Object, Array and Any and refined
// by its methods, each of which returns a changed copy.
type Property struct {
	name        string
	description string
	kind        kind
	nullable    bool
	bounded     bool    // low and high hold
	low, high   float64 // value of a number, characters of a string, items of an array; within maxExact
	fallback    any     // string, int64 or bool; nil: required
	members     []Property
}

// String is text.
func String(name, description string) Property {
	return Property{name: name, description: description, kind: text}
}

// Int is an integer within int64.
func Int(name, description string) Property {
	return Property{name: name, description: description, kind: integer}
}

// Number is a finite number.
func Number(name, description string) Property {
	return Property{name: name, description: description, kind: number}
}

// Bool is true or false.
func Bool(name, description string) Property {
	return Property{name: name, description: description, kind: boolean}
}

// Object has exactly these members.
func Object(name, description string, members ...Property) Property {
	return Property{name: name, description: description, kind: object, members: members}
}

// Array is a list of elements of one kind; the element's name is not used.
func Array(name, description string, element Property) Property {
	return Property{name: name, description: description, kind: array, members: []Property{element}}
}

// Any is whatever JSON has, null included. It stands only as the element of an array (of arrays) in a result, whose
// value is then an Encoded: cells of a table have types that nobody knows when the schema is published. It takes no
// bounds, no default and no OrNull; the name is not used.
func Any(name, description string) Property {
	return Property{name: name, description: description, kind: anything}
}

// Between bounds a number's value, a string's length in characters (code points) or an array's length in items, both
// ends included.
func (p Property) Between(low, high float64) Property {
	p.bounded, p.low, p.high = true, low, high
	return p
}

// AtLeast bounds a number from below; the upper end is the largest exact integer, which is not published.
func (p Property) AtLeast(low float64) Property { return p.Between(low, maxExact) }

// maxExact is 2^53-1, the last integer that every reader of JSON keeps exactly (RFC 8259, section 6). It is one less than
// float64 could hold: as a bound, 2^53 would let 2^53+1 pass, which rounds onto it.
const maxExact = 1<<53 - 1

// Default makes an argument optional; value is a string, int or bool.
func (p Property) Default(value any) Property {
	if n, ok := value.(int); ok {
		value = int64(n)
	}
	p.fallback = value
	return p
}

// OrNull lets a result be null.
func (p Property) OrNull() Property {
	p.nullable = true
	return p
}

// Name is the property's name.
func (p Property) Name() string { return p.name }

// Schema is an object schema: all that a tool takes, or all that it gives.
type Schema struct {
	root Property
	json []byte
}

// NewSchema checks the properties: names unique, bounds in order and exact, defaults of their type and within their own
// bounds.
func NewSchema(properties ...Property) (Schema, error) {
	root := Object("", "", properties...)
	if err := root.check("object"); err != nil {
		return Schema{}, err
	}
	return Schema{root: root, json: root.appendSchema(nil)}, nil
}

// JSON is the schema as JSON Schema in ASCII: type object, properties, required, additionalProperties false, and no
// keyword that strict clients choke on (no composition, no references).
func (s Schema) JSON() []byte { return s.json }

// Properties are the members in the order in which they are published.
func (s Schema) Properties() []Property { return append([]Property(nil), s.root.members...) }

// CheckArguments says why the schema cannot be that of arguments: they are strings, integers and booleans, and none is
// null. The decoder knows no others.
func (s Schema) CheckArguments() error {
	for _, p := range s.root.members {
		if p.kind != text && p.kind != integer && p.kind != boolean || p.nullable {
			return fmt.Errorf("argument %s: no decoder for its type", p.name)
		}
	}
	return nil
}

// CheckResult says why the schema cannot be that of a result, in which every member is always there.
func (s Schema) CheckResult() error { return s.root.checkPresent() }

func (p Property) checkPresent() error {
	if p.fallback != nil {
		return fmt.Errorf("result %s: a default makes it optional", p.name)
	}
	for _, m := range p.members {
		if err := m.checkPresent(); err != nil {
			return err
		}
	}
	return nil
}

func (p Property) check(path string) error {
	names := map[string]bool{}
	for _, m := range p.members {
		where := path + "." + m.name
		if p.kind == object && (m.name == "" || names[m.name]) {
			return fmt.Errorf("%s: name empty or used twice", where)
		}
		names[m.name] = true
		if m.kind == anything && (p.kind != array || m.bounded || m.nullable) {
			return fmt.Errorf("%s: any value is the plain element of an array", where)
		}
		if m.bounded && !(-maxExact <= m.low && m.low <= m.high && m.high <= maxExact) { // so that NaN fails too
			return fmt.Errorf("%s: bounds from %v to %v", where, m.low, m.high)
		}
		if m.fallback != nil {
			if complaint := m.complain(m.fallback); complaint != "" {
				return fmt.Errorf("%s: default %s", where, complaint)
			}
		}
		if err := m.check(where); err != nil {
			return err
		}
	}
	return nil
}

// isOpaque reports whether the property is an array in which an Encoded may stand: down to any values there are arrays
// alone, and nothing about the inner ones that would have to be looked up in its bytes.
func (p Property) isOpaque() bool {
	if p.kind != array {
		return false
	}
	element := &p.members[0]
	return element.kind == anything || !element.bounded && !element.nullable && element.isOpaque()
}

func (p Property) appendSchema(dst []byte) []byte {
	if p.kind == anything {
		if p.description == "" {
			return append(dst, "{}"...)
		}
		return append(strictjson.AppendString(append(dst, `{"description":`...), p.description), '}')
	}
	dst = append(dst, `{"type":`...)
	if p.nullable {
		dst = append(dst, `["`...)
		dst = append(dst, p.kind...)
		dst = append(dst, `","null"]`...)
	} else {
		dst = append(dst, '"')
		dst = append(dst, p.kind...)
		dst = append(dst, '"')
	}
	if p.description != "" {
		dst = append(dst, `,"description":`...)
		dst = strictjson.AppendString(dst, p.description)
	}
	if p.bounded {
		low, high := "minimum", "maximum"
		switch p.kind {
		case text:
			low, high = "minLength", "maxLength"
		case array:
			low, high = "minItems", "maxItems"
		}
		dst = append(dst, `,"`+low+`":`...)
		dst = appendNumber(dst, p.low)
		if p.high < maxExact {
			dst = append(dst, `,"`+high+`":`...)
			dst = appendNumber(dst, p.high)
		}
	}
	switch v := p.fallback.(type) {
	case string:
		dst = strictjson.AppendString(append(dst, `,"default":`...), v)
	case int64:
		dst = strconv.AppendInt(append(dst, `,"default":`...), v, 10)
	case bool:
		dst = strconv.AppendBool(append(dst, `,"default":`...), v)
	}
	switch p.kind {
	case object:
		dst = p.appendMembers(dst)
	case array:
		dst = p.members[0].appendSchema(append(dst, `,"items":`...))
	}
	return append(dst, '}')
}

// appendMembers writes properties and required even when they are empty: strict clients refuse a schema without them.
func (p Property) appendMembers(dst []byte) []byte {
	dst = append(dst, `,"properties":{`...)
	for i, m := range p.members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strictjson.AppendString(dst, m.name)
		dst = append(dst, ':')
		dst = m.appendSchema(dst)
	}
	dst = append(dst, `},"required":[`...)
	first := true
	for _, m := range p.members {
		if m.fallback != nil {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = strictjson.AppendString(dst, m.name)
	}
	return append(dst, `],"additionalProperties":false`...)
}
