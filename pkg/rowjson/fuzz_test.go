package rowjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"mcp-server-suite/pkg/rowjson"
	"mcp-server-suite/pkg/strictjson"
)

// checkOutput holds whatever was taken to what the package promises: JSON in printable ASCII within the budget, as
// many rows as were counted, each of the same width, no lone surrogates, and no number that a float64 changes.
func checkOutput(t *testing.T, e *rowjson.Encoder, width, limit int) {
	t.Helper()
	out := e.JSON()
	if len(out) > max(limit, 2) {
		t.Fatalf("%d bytes for a budget of %d", len(out), limit)
	}
	for _, c := range out {
		if c < 0x20 || c >= 0x7F {
			t.Fatalf("byte %#x in %.200q", c, out)
		}
	}
	if !json.Valid(out) {
		t.Fatalf("no JSON: %.200s", out)
	}
	d := json.NewDecoder(bytes.NewReader(out))
	d.UseNumber()
	var rows [][]any
	if err := d.Decode(&rows); err != nil {
		t.Fatalf("%v: %.200s", err, out)
	}
	if len(rows) != e.Count() {
		t.Fatalf("%d rows, %d counted: %.200s", len(rows), e.Count(), out)
	}
	for _, row := range rows {
		if len(row) != width {
			t.Fatalf("%d items in a row of %d: %.200s", len(row), width, out)
		}
		checkNumbers(t, row)
	}
	if doc, err := new(strictjson.Scanner).Scan(out); err != nil || doc.LoneSurrogate {
		t.Fatalf("strictly read: %v, lone surrogate %t: %.200s", err, doc.LoneSurrogate, out)
	}
}

func checkNumbers(t *testing.T, value any) {
	t.Helper()
	switch v := value.(type) {
	case json.Number:
		if !throughJavaScript(v.String()) {
			t.Fatalf("%.60s is another number in JavaScript", v)
		}
	case []any:
		for _, inner := range v {
			checkNumbers(t, inner)
		}
	case map[string]any:
		for _, inner := range v {
			checkNumbers(t, inner)
		}
	}
}

// throughJavaScript is the oracle: read as a float64 and written in its shortest form, a number has the same value.
func throughJavaScript(number string) bool {
	if mantissa, _, _ := strings.Cut(strings.ToLower(number), "e"); strings.Trim(mantissa, "-0.") == "" {
		return true // math/big would not read the exponent of some zeros
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return false
	}
	want, ok := new(big.Rat).SetString(number)
	if !ok {
		return false
	}
	got, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return ok && got.Cmp(want) == 0
}

// FuzzRow puts two values of any types through any budget. Whatever they are, the result is what the same rows give
// without a budget, up to the last row that fits.
func FuzzRow(f *testing.F) {
	for i, c := range valueCases {
		j := (i*7 + 3) % len(valueCases)
		other := valueCases[j]
		if len(c.value)+len(other.value) < 4<<10 {
			f.Add([]byte(c.value), []byte(other.value), uint8(i), uint8(j), c.name, uint8(i%5), uint16(i*3))
		}
	}
	f.Fuzz(func(t *testing.T, a, b []byte, typeA, typeB uint8, name string, rows uint8, size uint16) {
		// By their place in the table, or else the fuzzer would hardly ever meet an oid that has a rule.
		oidA, oidB := valueCases[int(typeA)%len(valueCases)].oid, valueCases[int(typeB)%len(valueCases)].oid
		columns := []rowjson.Column{{name, oidA}, {"b", oidB}, {"c", oidA}}
		offered := [][][]byte{{a, b, nil}, {nil, b, a}, {a, nil, a}, {b, a, b}}
		givenA, givenB := bytes.Clone(a), bytes.Clone(b)
		limits := rowjson.Limits{Rows: int(rows % 6), Bytes: int(size)}
		e, whole := rowjson.New(columns, limits), rowjson.New(columns, rowjson.Limits{Rows: 9, Bytes: plenty})
		fits, by := 0, ""
		for _, values := range offered {
			if !whole.Row(values) {
				t.Fatalf("a row does not fit into %d bytes", plenty)
			}
			size := len(whole.JSON())
			switch {
			case by != "":
			case fits == limits.Rows:
				by = "rows"
			case size > limits.Bytes:
				by = "size"
			default:
				fits++
			}
			if more := e.Row(values); more != (by == "") {
				t.Fatalf("more is %t, but truncated by %q", more, by)
			}
			checkOutput(t, e, len(columns), limits.Bytes)
			checkOutput(t, whole, len(columns), plenty)
			if by == "" && !bytes.Equal(e.JSON(), whole.JSON()) {
				t.Fatalf("with a budget %.200s, without %.200s", e.JSON(), whole.JSON())
			}
		}
		if e.Count() != fits || e.Truncated() != by {
			t.Fatalf("%d rows, truncated by %q, want %d and %q", e.Count(), e.Truncated(), fits, by)
		}
		if !bytes.Equal(a, givenA) || !bytes.Equal(b, givenB) {
			t.Fatal("a value was written to")
		}
		checkValue(t, oidA, a)
		checkValue(t, oidB, b)
	})
}

// checkValue compares what a value became with its text: nothing else may be made of it.
func checkValue(t *testing.T, oid uint32, value []byte) {
	t.Helper()
	got := encode(t, oid, string(value))
	text, isString := strictjson.String([]byte(got))
	name := rowjson.TypeName(oid)
	switch {
	case isString && text == repaired(string(value)):
	case strings.HasSuffix(name, "[]"):
		if got[0] != '[' {
			t.Fatalf("the array %.60q became %.60s", value, got)
		}
	case name == "json" || name == "jsonb":
		if ours, want := decode(t, got), decode(t, string(value)); !equal(ours, want) {
			t.Fatalf("%.60q became %.60s", value, got)
		}
	case name == "bool":
		if got != map[string]string{"t": "true", "f": "false"}[string(value)] {
			t.Fatalf("%.60q became %.60s", value, got)
		}
	case name == "timestamp":
		if !isString || strings.Replace(text, "T", " ", 1) != string(value) {
			t.Fatalf("%.60q became %.60s", value, got)
		}
	case name == "timestamptz":
		back := strings.Replace(text, "T", " ", 1)
		if z, cut := strings.CutSuffix(back, "Z"); cut {
			back = z + "+00"
		}
		if back != string(value) && strings.TrimSuffix(back, ":00") != string(value) && back != string(value[:len(value)-3]) {
			t.Fatalf("%.60q became %.60s", value, got)
		}
	case isString || got != string(value):
		t.Fatalf("%.60q of type %d became %.60s", value, oid, got)
	}
}

// repaired replaces each byte that is no UTF-8.
func repaired(s string) string { return string([]rune(s)) }

func decode(t *testing.T, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%.60q: %v", text, err)
	}
	return v
}

func equal(a, b any) bool {
	ours, err := json.Marshal(a)
	theirs, err2 := json.Marshal(b)
	return errors.Join(err, err2) == nil && bytes.Equal(ours, theirs)
}

// FuzzExact compares the rule for numbers with math/big on any JSON number.
func FuzzExact(f *testing.F) {
	for _, s := range []string{
		"0", "-0", "1", "0.1", "9007199254740991", "9007199254740992", "1e22", "1e23", "123456789012345678e-5",
		"5e-324", "4e-324",
		"2.2250738585072014e-308", "2.225073858507201e-308", "1.7976931348623157e308", "1.7976931348623159e308",
		"0.00001e-320",
		"5.684341886080802e-14", "5.684341886080801e-14", "9007199254740993.0", "9007199254740992.0", "100000e-330", "1e-323",
		"0.1000000000000000055511151231257827", "0e999", "1E+5", "1.0e-0", "0.3", "0.30000000000000004", "8.41e21", "9.5e-5",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, number string) {
		got := encode(t, oidFloat8, number)
		if len(number) == 0 || number[0] != '-' && (number[0] < '0' || number[0] > '9') || !json.Valid([]byte(number)) ||
			strings.TrimSpace(number) != number {
			if text, ok := strictjson.String([]byte(got)); !ok || text != repaired(number) {
				t.Fatalf("%.60q is no number and became %.60s", number, got)
			}
			return
		}
		want := number
		exponent := number[strings.LastIndexAny(number, "eE")+1:]
		switch {
		case len(number) > 500 || strings.ContainsAny(number, "eE") && len(exponent) > 5:
			return // math/big would write out all the zeros
		case !strings.ContainsAny(number, ".eE"):
			n, ok := new(big.Int).SetString(number, 10)
			if !ok || n.CmpAbs(big.NewInt(1<<53-1)) > 0 {
				want = `"` + number + `"`
			}
		case !throughJavaScript(number):
			want = `"` + number + `"`
		}
		if got != want {
			t.Fatalf("%s became %s", number, got)
		}
	})
}

var errMalformed = errors.New("malformed")

// slowArray reads an array literal by recursive descent. It gives a tree of []any, string and nil.
type slowArray struct {
	rest      string
	delimiter string
}

func (p *slowArray) take(prefix string) bool {
	rest, ok := strings.CutPrefix(p.rest, prefix)
	p.rest = rest
	return ok
}

func (p *slowArray) item() (any, error) {
	if p.take("{") {
		items := []any{}
		for {
			inner, err := p.item()
			if err != nil {
				return nil, err
			}
			items = append(items, inner)
			if p.take("}") {
				return items, nil
			}
			if !p.take(p.delimiter) {
				return nil, errMalformed
			}
		}
	}
	if p.take(`"`) {
		var text []byte
		for !p.take(`"`) {
			p.take(`\`)
			if p.rest == "" {
				return nil, errMalformed
			}
			text = append(text, p.rest[0])
			p.rest = p.rest[1:]
		}
		return string(text), nil
	}
	end := strings.IndexAny(p.rest, p.delimiter+"}")
	if end < 0 {
		return nil, errMalformed
	}
	text := p.rest[:end]
	p.rest = p.rest[end:]
	if text == "NULL" {
		return nil, nil
	}
	if text == "" || strings.EqualFold(text, "NULL") && len(text) == 4 || strings.ContainsAny(text, "{\"\\ \t\n\v\f\r") {
		return nil, errMalformed
	}
	return text, nil
}

// shape returns the sizes of a tree's dimensions, which must be the same in every part.
func shape(tree any) ([]int, error) {
	items, ok := tree.([]any)
	if !ok {
		return nil, nil
	}
	var first []int
	for i, item := range items {
		inner, err := shape(item)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			first = inner
		}
		if len(inner) != len(first) {
			return nil, errMalformed
		}
		for j := range inner {
			if inner[j] != first[j] {
				return nil, errMalformed
			}
		}
	}
	return append([]int{len(items)}, first...), nil
}

func readSlowly(text, delimiter string) (any, error) {
	if text == "{}" {
		return []any{}, nil
	}
	p := slowArray{text, delimiter}
	tree, err := p.item()
	if err != nil || p.rest != "" {
		return nil, errMalformed
	}
	sizes, err := shape(tree)
	if err != nil || len(sizes) < 1 || len(sizes) > 6 {
		return nil, errMalformed
	}
	return tree, nil
}

// FuzzArray compares the array parser with the slow one, with commas and with semicolons.
func FuzzArray(f *testing.F) {
	for _, c := range valueCases {
		if strings.HasSuffix(rowjson.TypeName(c.oid), "[]") {
			f.Add(c.value)
		}
	}
	f.Add(`{{{a,"b"},{c,d}},{{e,f},{NULL,h}}}`)
	f.Add(`{{{a;"b"};{c;d}};{{e;f};{NULL;h}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || strings.Count(text, "{") > 1000 {
			return
		}
		for oid, delimiter := range map[uint32]string{oidTextArray: ",", oidBoxArray: ";"} {
			got := decode(t, encode(t, oid, text))
			want, err := readSlowly(text, delimiter)
			if err != nil {
				want = text
			}
			if !equal(got, want) {
				t.Fatalf("%q of %s became %v, want %v", text, rowjson.TypeName(oid), got, want)
			}
		}
	})
}
