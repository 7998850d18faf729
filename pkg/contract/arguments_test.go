package contract_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mcp-server-suite/pkg/contract"
	"mcp-server-suite/pkg/problem"
	"mcp-server-suite/pkg/strictjson"
)

// reading is a schema with every kind of argument, required and not.
func reading(t testing.TB) contract.Schema {
	t.Helper()
	return newSchema(t,
		contract.String("path", "").Between(1, 5),
		contract.Int("max_bytes", "").Between(1, 100).Default(65),
		contract.Int("offset", "").AtLeast(0).Default(0),
		contract.String("encoding", "").Default("utf-8"),
		contract.Bool("all", "").Default(true),
		contract.Int("any", "").Default(-1),
	)
}

// scanned returns what reaches the decoder: an object that strictjson takes.
func scanned(t testing.TB, text string) []byte {
	t.Helper()
	var scanner strictjson.Scanner
	doc, err := scanner.Scan([]byte(text))
	if err != nil || doc.DuplicateKey != strictjson.Nowhere || !strictjson.IsObject(doc.Value) {
		t.Fatalf("%.200q would not reach the decoder: %v", text, err)
	}
	return doc.Value
}

func TestDecodeTakes(t *testing.T) {
	const defaults = `"a" 65 0 "utf-8" true -1`
	cases := []struct{ name, arguments, want, why string }{
		{"required only", `{"path":"a"}`, defaults, "the rest has defaults"},
		{"all", `{"path":"abc","max_bytes":7,"offset":8,"encoding":"x","all":false,"any":9}`, `"abc" 7 8 "x" false 9`, ""},
		{"other order", `{"any":9,"all":false,"path":"abc"}`, `"abc" 65 0 "utf-8" false 9`, ""},
		{"white space", " {\n\t\"path\" : \"a\" , \"max_bytes\" : 65 } ", defaults, "JSON's own"},
		{"shortest", `{"path":"1"}`, `"1" 65 0 "utf-8" true -1`, ""},
		{"longest", `{"path":"12345"}`, `"12345" 65 0 "utf-8" true -1`, ""},
		{"longest in code points", "{\"path\":\"\u00e9\u65e5\U0001F600\U0001F600e\"}", `"` + "\u00e9\u65e5\U0001F600\U0001F600e" + `" 65 0 "utf-8" true -1`, "16 bytes, 7 UTF-16 units, 5 characters"},
		{"longest by escapes", `{"path":"\u00e9\ud83d\ude00\n\"\\"}`, `"` + "\u00e9\U0001F600" + `\n\"\\" 65 0 "utf-8" true -1`, "escapes are decoded before they are counted"},
		{"escaped key", `{"p\u0061th":"a"}`, defaults, "without the sanitizer it still means the name"},
		{"lower bounds", `{"path":"a","max_bytes":1,"offset":0}`, `"a" 1 0 "utf-8" true -1`, ""},
		{"upper bounds", `{"path":"a","max_bytes":100,"offset":9007199254740991}`, `"a" 100 9007199254740991 "utf-8" true -1`, "2^53-1 is exact"},
		{"minus zero", `{"path":"a","offset":-0}`, defaults, "an integer, and it is zero"},
		{"smallest int64", `{"path":"a","any":-9223372036854775808}`, `"a" 65 0 "utf-8" true -9223372036854775808`, "no float on the way"},
		{"largest int64", `{"path":"a","any":9223372036854775807}`, `"a" 65 0 "utf-8" true 9223372036854775807`, "no float on the way"},
		{"2^53+1", `{"path":"a","any":9007199254740993}`, `"a" 65 0 "utf-8" true 9007199254740993`, "the go-sdk makes 9007199254740992 of it"},
		{"empty text without a bound", `{"path":"a","encoding":""}`, `"a" 65 0 "" true -1`, "not the default: it was given"},
		{"false", `{"path":"a","all":false}`, `"a" 65 0 "utf-8" false -1`, "not the default: it was given"},
	}
	s := reading(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			v, refusal := s.Decode(scanned(t, c.arguments))
			if refusal != nil {
				t.Fatalf("%s: %v", c.arguments, refusal)
			}
			got := fmt.Sprintf("%q %d %d %q %t %d", v.String("path"), v.Int("max_bytes"), v.Int("offset"), v.String("encoding"), v.Bool("all"), v.Int("any"))
			if got != c.want {
				t.Errorf("%s: %s, want %s %s", c.arguments, got, c.want, c.why)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	const (
		integer = "max_bytes must be an integer from 1 to 100"
		several = "several arguments are of the wrong type or out of bounds"
		unknown = "an argument is not one that this tool takes; allowed: path, max_bytes, offset, encoding, all, any"
	)
	cases := []struct {
		name, arguments, want string
		params                []string
		why                   string
	}{
		{"nothing", `{}`, "missing: path", []string{"path"}, ""},
		{"only options", `{"all":true}`, "missing: path", []string{"path"}, ""},

		{"number for a text", `{"path":1}`, "path must be a string", []string{"path"}, ""},
		{"null for a text", `{"path":null}`, "path must be a string", []string{"path"}, "null is not absent"},
		{"object for a text", `{"path":{"path":"a"}}`, "path must be a string", []string{"path"}, ""},
		{"array for a text", `{"path":["a"]}`, "path must be a string", []string{"path"}, ""},
		{"null for an option", `{"path":"a","encoding":null}`, "encoding must be a string", []string{"encoding"}, "null is not absent, not even where absence would do"},
		{"too short", `{"path":""}`, "path must have a length in characters from 1 to 5", []string{"path"}, ""},
		{"too long", `{"path":"123456"}`, "path must have a length in characters from 1 to 5", []string{"path"}, ""},
		{"too long in code points", "{\"path\":\"\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\"}", "path must have a length in characters from 1 to 5", []string{"path"}, ""},
		{"NUL", `{"path":"a\u0000"}`, "path must be text without NUL and surrogates", []string{"path"}, "ends a C string; without the sanitizer"},
		{"NUL alone", `{"path":"a","encoding":"\u0000"}`, "encoding must be text without NUL and surrogates", []string{"encoding"}, "unbounded texts are looked at too"},
		{"surrogate", `{"path":"\ud800"}`, "path must be text without NUL and surrogates", []string{"path"}, "wire-014; without the sanitizer"},

		{"with a point", `{"path":"a","max_bytes":1.0}`, integer, []string{"max_bytes"}, "not written as an integer"},
		{"with an exponent", `{"path":"a","max_bytes":1e2}`, integer, []string{"max_bytes"}, "not written as an integer"},
		{"with a capital exponent", `{"path":"a","max_bytes":1E0}`, integer, []string{"max_bytes"}, ""},
		{"text", `{"path":"a","max_bytes":"1"}`, integer, []string{"max_bytes"}, "no conversions"},
		{"true", `{"path":"a","max_bytes":true}`, integer, []string{"max_bytes"}, "no conversions (a Python bool is an int)"},
		{"null", `{"path":"a","max_bytes":null}`, integer, []string{"max_bytes"}, ""},
		{"array", `{"path":"a","max_bytes":[1]}`, integer, []string{"max_bytes"}, ""},
		{"object", `{"path":"a","max_bytes":{}}`, integer, []string{"max_bytes"}, ""},
		{"fraction", `{"path":"a","max_bytes":1.5}`, integer, []string{"max_bytes"}, ""},
		{"below", `{"path":"a","max_bytes":0}`, integer, []string{"max_bytes"}, ""},
		{"minus zero below", `{"path":"a","max_bytes":-0}`, integer, []string{"max_bytes"}, "zero by any name"},
		{"above", `{"path":"a","max_bytes":101}`, integer, []string{"max_bytes"}, ""},
		{"beyond int64", `{"path":"a","max_bytes":9223372036854775808}`, integer, []string{"max_bytes"}, "no wrap-around"},
		{"2^64+1", `{"path":"a","max_bytes":18446744073709551617}`, integer, []string{"max_bytes"}, "no wrap-around to 1"},
		{"far beyond", `{"path":"a","any":1` + strings.Repeat("0", 400) + `}`, "any must be an integer", []string{"any"}, "wire-016"},
		{"float beyond", `{"path":"a","any":1e400}`, "any must be an integer", []string{"any"}, "wire-016"},
		{"negative offset", `{"path":"a","offset":-1}`, "offset must be an integer from 0 to 9007199254740991", []string{"offset"}, ""},
		{"2^53", `{"path":"a","offset":9007199254740992}`, "offset must be an integer from 0 to 9007199254740991", []string{"offset"}, ""},
		{"2^53+1", `{"path":"a","offset":9007199254740993}`, "offset must be an integer from 0 to 9007199254740991", []string{"offset"}, "as a float64 it is 2^53"},
		{"largest int64", `{"path":"a","offset":9223372036854775807}`, "offset must be an integer from 0 to 9007199254740991", []string{"offset"}, ""},

		{"number for a boolean", `{"path":"a","all":1}`, "all must be true or false", []string{"all"}, ""},
		{"text for a boolean", `{"path":"a","all":"true"}`, "all must be true or false", []string{"all"}, ""},
		{"null for a boolean", `{"path":"a","all":null}`, "all must be true or false", []string{"all"}, ""},

		{"two faults", `{"path":1,"max_bytes":0,"all":true}`, several, []string{"path", "max_bytes"}, "all of them at once, so that one repair is enough"},
		{"all faults", `{"any":"","all":"","encoding":1,"offset":-1,"max_bytes":0,"path":0}`, several, []string{"any", "all", "encoding", "offset", "max_bytes", "path"}, "as they came"},

		{"unknown", `{"path":"a","EVIL":1}`, unknown, []string{"arguments"}, "the allowed names, never the unknown one (wire-031)"},
		{"unknown before", `{"EVIL":1}`, unknown, []string{"arguments"}, ""},
		{"unknown behind a fault", `{"path":1,"EVIL":1}`, unknown, []string{"arguments"}, "more likely the cause"},
		{"capital", `{"Path":"a"}`, unknown, []string{"arguments"}, "byte for byte (wire-006)"},
		{"all capitals", `{"path":"a","ALL":false}`, unknown, []string{"arguments"}, "byte for byte"},
		{"folds onto a name", "{\"path\":\"a\",\"off\u017fet\":1}", unknown, []string{"arguments"}, "long s; Go's decoder folds it"},
		{"empty name", `{"":"a"}`, unknown, []string{"arguments"}, ""},
		{"prefix of a name", `{"pat":"a"}`, unknown, []string{"arguments"}, ""},
		{"name and more", `{"path2":"a"}`, unknown, []string{"arguments"}, ""},
		{"escaped unknown", `{"\u0045VIL":"a"}`, unknown, []string{"arguments"}, ""},
		{"_meta", `{"path":"a","_meta":{}}`, unknown, []string{"arguments"}, "it belongs beside the arguments (wire-032)"},
	}
	s := reading(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, refusal := s.Decode(scanned(t, c.arguments))
			if refusal == nil {
				t.Fatalf("%.200s was taken, want %q %s", c.arguments, c.want, c.why)
			}
			if refusal.Reason != problem.BadParam || refusal.Detail != c.want || !slices.Equal(refusal.Params, c.params) {
				t.Errorf("%.200s: %s %q %q, want %q %q %s", c.arguments, refusal.Reason, refusal.Detail, refusal.Params, c.want, c.params, c.why)
			}
			if strings.Contains(string(refusal.Append(nil, false)), "EVIL") {
				t.Errorf("%s: the caller's text is in the answer", c.arguments)
			}
		})
	}
}

func TestMissingArgumentsAreAllNamed(t *testing.T) {
	s := newSchema(t, contract.String("b", ""), contract.Int("n", "").Default(1), contract.Int("a", ""), contract.Bool("c", ""))
	for _, arguments := range [][]byte{nil, []byte(`{}`), []byte(`{"a":1}`)} {
		want := []string{"b", "a", "c"}
		if len(arguments) > 2 {
			want = []string{"b", "c"}
		}
		_, refusal := s.Decode(arguments)
		if refusal == nil || !slices.Equal(refusal.Params, want) || refusal.Detail != "missing: "+strings.Join(want, ", ") {
			t.Errorf("%s: %v, want %q", arguments, refusal, want)
		}
	}
}

func TestAbsentArgumentsAreAnEmptyObject(t *testing.T) {
	s := newSchema(t, contract.Bool("include_disk", "").Default(false))
	v, refusal := s.Decode(nil)
	if refusal != nil || v.Bool("include_disk") {
		t.Errorf("%v, %v", v, refusal)
	}
}

func TestAToolWithoutArgumentsTakesNone(t *testing.T) {
	_, refusal := newSchema(t).Decode([]byte(`{"a":1}`))
	if refusal == nil || refusal.Detail != "an argument is not one that this tool takes; it takes none" {
		t.Errorf("%v", refusal)
	}
}

func TestTheUnknownNameIsEchoedOnlyOnRequest(t *testing.T) {
	_, refusal := reading(t).Decode([]byte(`{"<b>ignore\u202e":1}`))
	if got := refusal.Text(false); strings.Contains(got, "ignore") {
		t.Errorf("without echo: %q", got)
	}
	want := `the argument '<b>ignore\u202e' is not one that this tool takes; allowed: path, max_bytes, offset, encoding, all, any`
	if got := refusal.Text(true); got != want {
		t.Errorf("with echo: %q, want %q", got, want)
	}
}

func TestDecodingCallsDoNotShareValues(t *testing.T) {
	s := reading(t)
	first, _ := s.Decode([]byte(`{"path":"one"}`))
	second, _ := s.Decode([]byte(`{"path":"two","max_bytes":2}`))
	if first.String("path") != "one" || first.Int("max_bytes") != 65 || second.String("path") != "two" || second.Int("max_bytes") != 2 {
		t.Errorf("%v, %v", first, second)
	}
}

func TestValuesOutliveTheLine(t *testing.T) {
	line := []byte(`{"path":"abc"}`)
	v, _ := reading(t).Decode(line)
	for i := range line {
		line[i] = 'X'
	}
	if got := v.String("path"); got != "abc" {
		t.Errorf("the value has become %q: an abandoned call reads it when the line is long reused", got)
	}
}

func panics(f func()) (cause any) {
	defer func() { cause = recover() }()
	f()
	return nil
}

func TestMistakesOfAToolPanic(t *testing.T) {
	v, refusal := reading(t).Decode([]byte(`{"path":"a"}`))
	if refusal != nil {
		t.Fatal(refusal)
	}
	nestedOne := newSchema(t, contract.Array("list", "", contract.Int("", "")))
	for name, f := range map[string]func(){
		"an argument that is not declared":  func() { v.String("other") },
		"a text read as an integer":         func() { v.Int("path") },
		"an integer read as a text":         func() { v.String("offset") },
		"an integer read as true or false":  func() { v.Bool("offset") },
		"a nested argument has no decoder":  func() { nestedOne.Decode([]byte(`{"list":[1]}`)) },
		"values of no schema have no names": func() { contract.Values{}.Bool("a") },
	} {
		if panics(f) == nil {
			t.Errorf("%s: no panic", name)
		}
	}
}

// FuzzDecode: never both values and refusal, nothing of the caller's in the refusal, and what the decoder takes the
// published schema takes too, as an independent validator reads it. The other way round it is not so: JSON Schema calls
// 1.0 an integer and lets NUL be text, and the upper end of AtLeast is not published.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"path":"a"}`, `{"path":"12345","max_bytes":100,"offset":9007199254740991,"encoding":"","all":false,"any":-5}`,
		`{"path":"123456"}`, `{"path":"\ud83d\ude00\ud83d\ude00"}`, `{"path":"\ud800"}`, `{"path":"a\u0000"}`,
		`{"path":"a","max_bytes":1.0}`, `{"path":"a","max_bytes":1e2}`, `{"path":"a","max_bytes":-0}`,
		`{"path":"a","offset":9007199254740993}`, `{"path":"a","any":9223372036854775808}`, `{"p\u0061th":"a"}`,
		`{"PATH":"a"}`, `{"path":null}`, `{"path":["a"],"all":{}}`, ` { "path" : "a" } `, `{"path":1,"all":1}`,
	} {
		f.Add([]byte(seed))
	}
	s := reading(f)
	published := oracle(f, s)
	var scanner strictjson.Scanner
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := scanner.Scan(text)
		if err != nil || doc.DuplicateKey != strictjson.Nowhere || !strictjson.IsObject(doc.Value) {
			return // stopped before
		}
		v, refusal := s.Decode(doc.Value)
		if refusal != nil {
			if panics(func() { v.String("path") }) == nil {
				t.Errorf("%q: values came with the refusal", doc.Value)
			}
			for _, name := range refusal.Params {
				if !slices.Contains([]string{"path", "max_bytes", "offset", "encoding", "all", "any", "arguments"}, name) {
					t.Errorf("%q: the refusal names %q", doc.Value, name)
				}
			}
			if len(refusal.Detail) > 200 {
				t.Errorf("%q: a refusal of %d bytes", doc.Value, len(refusal.Detail))
			}
			return
		}
		d := json.NewDecoder(bytes.NewReader(doc.Value))
		var tree map[string]any
		if err := d.Decode(&tree); err != nil {
			t.Fatalf("%q: taken, and not JSON: %v", doc.Value, err)
		}
		if err := published.Validate(tree); err != nil {
			t.Errorf("%q: taken, and against the published schema: %v", doc.Value, err)
		}
		if given, ok := tree["path"].(string); !ok || v.String("path") != given {
			t.Errorf("%q: path is %q", doc.Value, v.String("path"))
		}
		if given, ok := tree["all"].(bool); ok && v.Bool("all") != given || !ok && !v.Bool("all") {
			t.Errorf("%q: all is %t", doc.Value, v.Bool("all"))
		}
		if n := v.Int("max_bytes"); n < 1 || n > 100 {
			t.Errorf("%q: max_bytes is %d", doc.Value, n)
		}
	})
}
