package pgpolicy

import (
	"fmt"
	"reflect"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// shape says how one message of the tree is walked and compared. It is made once from the generated descriptor and the
// Go struct that belongs to it, so no field can be forgotten; walking by it costs less than half of what
// protoreflect's Range does.
type shape struct {
	name     string
	refused  string // "" if the kind is allowed, else the words that name it
	fields   []field
	isBranch bool // it holds messages
}

type field struct {
	index    int // in the Go struct
	kind     fieldKind
	position bool // a place in the text: two trees may differ in it
}

type fieldKind int

const (
	scalar   fieldKind = iota
	message            // a pointer to a message
	messages           // a slice of them
	choice             // a oneof: an interface that holds a pointer to a struct with one field
)

// shapes has one entry for each struct type of the parser's protobuf.
type shapes map[reflect.Type]*shape

var messageType = reflect.TypeFor[proto.Message]()

// newShapes makes the table, and fails if a message has no decision in kinds.go: the parser has learnt something new.
func newShapes() (shapes, error) {
	refused := map[string]string{}
	for line := range strings.Lines(refusedKinds) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if text = strings.TrimSpace(text); text == "-" {
			text = internalKind
		}
		refused[name] = text
	}
	for name := range strings.FieldsSeq(allowedKinds) {
		if _, both := refused[name]; both {
			return nil, fmt.Errorf("read kinds: %s is allowed and refused", name)
		}
		refused[name] = ""
	}
	all := shapes{}
	err := all.add(reflect.TypeFor[pg.ParseResult](), refused)
	return all, err
}

// add adds the struct type t and everything that it can hold.
func (s shapes) add(t reflect.Type, refused map[string]string) error {
	if s[t] != nil {
		return nil
	}
	m, ok := reflect.New(t).Interface().(proto.Message)
	if !ok {
		return fmt.Errorf("read tree type: %s is no message", t)
	}
	desc := m.ProtoReflect().Descriptor()
	words, ok := refused[string(desc.Name())]
	if !ok {
		return fmt.Errorf("read kinds: no decision about %s", desc.Name())
	}
	sh := &shape{name: string(desc.Name()), refused: words}
	s[t] = sh
	seen := 0
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		fl := field{index: i}
		switch {
		case f.Type.Implements(messageType):
			fl.kind = message
			seen++
			if err := s.add(f.Type.Elem(), refused); err != nil {
				return err
			}
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Implements(messageType):
			fl.kind = messages
			seen++
			if err := s.add(f.Type.Elem().Elem(), refused); err != nil {
				return err
			}
		case f.Type.Kind() == reflect.Interface:
			fl.kind = choice
			one := desc.Oneofs().ByName(protoreflect.Name(f.Tag.Get("protobuf_oneof")))
			if one == nil {
				return fmt.Errorf("read tree type: %s.%s is no oneof", t, f.Name)
			}
			for j := range one.Fields().Len() {
				fd := one.Fields().Get(j)
				seen++
				if fd.Kind() != protoreflect.MessageKind {
					return fmt.Errorf("read tree type: %s.%s holds something else than messages", t, f.Name)
				}
				held := m.ProtoReflect().NewField(fd).Message().Interface()
				if err := s.add(reflect.TypeOf(held).Elem(), refused); err != nil {
					return err
				}
			}
		default:
			switch f.Type.Kind() {
			case reflect.Bool, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64, reflect.Float64, reflect.String:
			case reflect.Slice: // of plain values
			default:
				return fmt.Errorf("read tree type: %s.%s has an unexpected type", t, f.Name)
			}
			_, name, _ := strings.Cut(f.Tag.Get("protobuf"), "name=")
			name, _, _ = strings.Cut(name, ",")
			fl.position = isPosition(name)
			seen++
		}
		sh.isBranch = sh.isBranch || fl.kind != scalar
		sh.fields = append(sh.fields, fl)
	}
	if want := desc.Fields().Len(); seen != want {
		return fmt.Errorf("read tree type: %s has %d fields, %d of them found", t, want, seen)
	}
	return nil
}

// isPosition reports whether a field says where in the text something stood.
func isPosition(name string) bool {
	return name == "location" || strings.HasSuffix(name, "_location") || name == "stmt_len"
}

// equal reports whether two trees are equal but for positions, and hold no field that we do not know. Both are messages
// by pointer and not nil.
func (s shapes) equal(a, b reflect.Value) bool {
	if a.Type() != b.Type() {
		return false
	}
	sh := s[a.Type().Elem()]
	if sh == nil || hasUnknown(a) || hasUnknown(b) {
		return false
	}
	a, b = a.Elem(), b.Elem()
	for i := range sh.fields {
		f := &sh.fields[i]
		x, y := a.Field(f.index), b.Field(f.index)
		switch f.kind {
		case message:
			if x.IsNil() || y.IsNil() {
				if x.IsNil() != y.IsNil() {
					return false
				}
				continue
			}
			if !s.equal(x, y) {
				return false
			}
		case messages:
			if x.Len() != y.Len() {
				return false
			}
			for j := range x.Len() {
				if x.Index(j).IsNil() || y.Index(j).IsNil() || !s.equal(x.Index(j), y.Index(j)) {
					return false
				}
			}
		case choice:
			if x.IsNil() || y.IsNil() {
				if x.IsNil() != y.IsNil() {
					return false
				}
				continue
			}
			x, y = x.Elem().Elem(), y.Elem().Elem()
			if x.Type() != y.Type() || x.Field(0).IsNil() || y.Field(0).IsNil() || !s.equal(x.Field(0), y.Field(0)) {
				return false
			}
		default:
			if !f.position && !equalScalar(x, y) {
				return false
			}
		}
	}
	return true
}

func equalScalar(x, y reflect.Value) bool {
	switch x.Kind() {
	case reflect.String:
		return x.String() == y.String()
	case reflect.Bool:
		return x.Bool() == y.Bool()
	case reflect.Int32, reflect.Int64:
		return x.Int() == y.Int()
	case reflect.Uint32, reflect.Uint64:
		return x.Uint() == y.Uint()
	default:
		return reflect.DeepEqual(x.Interface(), y.Interface())
	}
}

func hasUnknown(v reflect.Value) bool {
	m, ok := v.Interface().(proto.Message)
	return !ok || len(m.ProtoReflect().GetUnknown()) > 0
}
