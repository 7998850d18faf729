package pgpolicy

import (
	"reflect"
	"strings"
	"testing"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// neutral takes positions, and pg_catalog before the name of a called function, out of a tree, and writes 't'::bool and
// 'f'::bool, and pg_typeof, as we do. It knows nothing of our own tables: it is the other half of a comparison with them.
func neutral(m protoreflect.Message) {
	call, ok := m.Interface().(*pg.FuncCall)
	if ok && len(call.Funcname) == 2 && call.Funcname[0].GetString_().GetSval() == "pg_catalog" {
		call.Funcname = call.Funcname[1:]
	}
	if node, ok := m.Interface().(*pg.Node); ok && isTypeOfAsText(node.GetTypeCast()) {
		node.Node = node.GetTypeCast().GetArg().Node
	}
	if cast, ok := m.Interface().(*pg.TypeCast); ok {
		names := cast.GetTypeName().GetNames()
		literal := cast.GetArg().GetAConst().GetSval()
		if literal != nil && len(names) > 0 && names[len(names)-1].GetString_().GetSval() == "bool" {
			if long, short := map[string]string{"t": "true", "f": "false"}[literal.Sval]; short {
				literal.Sval = long
			}
		}
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsList() && fd.Kind() == protoreflect.MessageKind:
			for i := range v.List().Len() {
				neutral(v.List().Get(i).Message())
			}
		case fd.Kind() == protoreflect.MessageKind:
			neutral(v.Message())
		case fd.Name() == "location" || strings.HasSuffix(string(fd.Name()), "_location") || fd.Name() == "stmt_len":
			m.Clear(fd)
		}
		return true
	})
}

// isTypeOfAsText tells pg_typeof(x)::text, which is what we write for pg_typeof(x).
func isTypeOfAsText(cast *pg.TypeCast) bool {
	call := cast.GetArg().GetFuncCall()
	if call == nil || len(cast.TypeName.Names) != 1 || cast.TypeName.Names[0].GetString_().GetSval() != "text" {
		return false
	}
	return call.Funcname[len(call.Funcname)-1].GetString_().GetSval() == "pg_typeof"
}

func protoEqual(a, b *pg.ParseResult) bool { return proto.Equal(a, b) }

func TestEveryMessageOfTheParserHasADecision(t *testing.T) {
	all, err := newShapes()
	if err != nil {
		t.Fatal(err)
	}
	decided := map[string]bool{}
	for name := range strings.FieldsSeq(allowedKinds) {
		decided[name] = true
	}
	for line := range strings.Lines(refusedKinds) {
		name, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != "" && strings.TrimSpace(why) == "" {
			t.Errorf("%s is refused without a word", name)
		}
		decided[name] = true
	}
	delete(decided, "")
	messages := (&pg.ParseResult{}).ProtoReflect().Descriptor().ParentFile().Messages()
	for i := range messages.Len() {
		name := string(messages.Get(i).Name())
		if !decided[name] {
			t.Errorf("nobody has decided about %s", name)
		}
		delete(decided, name)
	}
	for name := range decided {
		t.Errorf("the parser knows no %s", name)
	}
	// A kind that is not in the lists stops New: the table is made from the descriptors, not from the lists.
	for _, sh := range all {
		if sh.name == "" {
			t.Error("a kind without a name")
		}
	}
	t.Logf("%d kinds can be in a tree, %d messages in all", len(all), messages.Len())
}

func TestAllowedKindsAreRefusedWhenTheListLosesThem(t *testing.T) {
	// Each allowed kind that a corpus uses is needed: without it, its statements are refused. So a kind is walked as
	// itself and not as a part of something else.
	r, err := Settings{}.rules()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, sql := range append(everyday(t), seeds...) {
		tree, err := pg.Parse(sql)
		if err != nil {
			continue
		}
		count(tree.ProtoReflect(), used)
	}
	for _, sh := range r.shapes {
		if sh.refused != "" || !used[sh.name] || sh.name == "ParseResult" || sh.name == "RawStmt" {
			continue
		}
		sh.refused = "x"
		refused := false
		for _, sql := range append(everyday(t), seeds...) {
			if err := onBigStack(func() error { return r.regenerate(sql, &Approved{maxRows: 50}) }); err != nil {
				refused = refused || strings.Contains(err.Error(), "x is not allowed")
			}
			if refused {
				break
			}
		}
		if !refused {
			t.Errorf("%s is never met by the walk", sh.name)
		}
		sh.refused = ""
	}
	for name := range strings.FieldsSeq(allowedKinds) {
		if !used[name] {
			t.Errorf("no statement of the corpus uses %s: is it needed?", name)
		}
	}
}

func count(m protoreflect.Message, used map[string]bool) {
	used[string(m.Descriptor().Name())] = true
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsList() && fd.Kind() == protoreflect.MessageKind:
			for i := range v.List().Len() {
				count(v.List().Get(i).Message(), used)
			}
		case fd.Kind() == protoreflect.MessageKind:
			count(v.Message(), used)
		}
		return true
	})
}

func TestUnknownFieldsAreRefused(t *testing.T) {
	r, err := Settings{}.rules()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := pg.Parse("SELECT lower(a) FROM t WHERE b = 1")
	if err != nil {
		t.Fatal(err)
	}
	var planted int
	var plant func(m protoreflect.Message)
	plant = func(m protoreflect.Message) {
		m.SetUnknown(protoreflect.RawFields{0xf8, 0xff, 0xff, 0x01, 0x01}) // field 4194303, varint 1
		w := walker{rules: r}
		_, _, err := statement(tree)
		if err == nil {
			err = w.walk(reflect.ValueOf(tree.Stmts[0].Stmt), 0, nil)
		}
		if err == nil {
			t.Errorf("an unknown field of %s is not seen", m.Descriptor().Name())
		}
		other := proto.Clone(tree).(*pg.ParseResult)
		if r.shapes.equal(reflect.ValueOf(tree), reflect.ValueOf(other)) {
			t.Errorf("trees with an unknown field of %s are called equal", m.Descriptor().Name())
		}
		m.SetUnknown(nil)
		planted++
		m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case fd.IsList() && fd.Kind() == protoreflect.MessageKind:
				for i := range v.List().Len() {
					plant(v.List().Get(i).Message())
				}
			case fd.Kind() == protoreflect.MessageKind:
				plant(v.Message())
			}
			return true
		})
	}
	plant(tree.ProtoReflect())
	if planted < 20 {
		t.Errorf("only %d planted", planted)
	}
}

// TestTreesAreComparedLikeProtobufComparesThem changes each field of each message of a few trees in turn, and asks our
// comparison and protobuf's own whether the tree is still the same.
func TestTreesAreComparedLikeProtobufComparesThem(t *testing.T) {
	all, err := newShapes()
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for _, sql := range everyday(t) {
		tree, err := pg.Parse(sql)
		if err != nil {
			t.Fatal(err)
		}
		same, err := pg.Parse("/* moved */  " + sql)
		if err != nil {
			t.Fatal(err)
		}
		if !all.equal(reflect.ValueOf(tree), reflect.ValueOf(same)) {
			t.Errorf("%s\nposition alone makes it another", sql)
		}
		var change func(m protoreflect.Message)
		change = func(m protoreflect.Message) {
			m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
				old := v
				if fd.IsList() {
					list := v.List()
					last := list.Get(list.Len() - 1)
					list.Truncate(list.Len() - 1)
					if all.equal(reflect.ValueOf(tree), reflect.ValueOf(same)) {
						t.Errorf("%s\na list of %s is not compared", sql, fd.FullName())
					}
					changed++
					list.Append(last)
					if fd.Kind() == protoreflect.MessageKind {
						for i := range list.Len() {
							change(list.Get(i).Message())
						}
					}
					return true
				}
				m.Clear(fd)
				position := isPosition(string(fd.Name()))
				if all.equal(reflect.ValueOf(tree), reflect.ValueOf(same)) != position {
					t.Errorf("%s\n%s: compared is %v", sql, fd.FullName(), position)
				}
				changed++
				m.Set(fd, old)
				if fd.Kind() == protoreflect.MessageKind {
					change(v.Message())
				}
				return true
			})
		}
		change(tree.ProtoReflect())
		if t.Failed() {
			return
		}
	}
	t.Logf("%d changes", changed)
}
