package contract_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"mcp-server-suite/pkg/contract"
)

func newSchema(t testing.TB, properties ...contract.Property) contract.Schema {
	t.Helper()
	s, err := contract.NewSchema(properties...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// oracle is the published text as an independent validator of JSON Schema reads it, defaults checked.
func oracle(t testing.TB, s contract.Schema) *jsonschema.Resolved {
	t.Helper()
	var published jsonschema.Schema
	if err := json.Unmarshal(s.JSON(), &published); err != nil {
		t.Fatalf("%s: %v", s.JSON(), err)
	}
	resolved, err := published.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatalf("%s: %v", s.JSON(), err)
	}
	return resolved
}

func TestPublishedSchemaIsThisText(t *testing.T) {
	const head, tail = `{"type":"object","properties":{`, `,"additionalProperties":false}`
	cases := []struct {
		name       string
		properties []contract.Property
		want       string
		why        string
	}{
		{"nothing", nil, `},"required":[]`, "strict clients want properties and required even when there are none (wire-023)"},
		{
			"string",
			[]contract.Property{contract.String("s", "A text.")},
			`"s":{"type":"string","description":"A text."}},"required":["s"]`, "",
		},
		{
			"string with bounds",
			[]contract.Property{contract.String("s", "").Between(1, 4096)},
			`"s":{"type":"string","minLength":1,"maxLength":4096}},"required":["s"]`, "an empty description is not sent",
		},
		{
			"string with a default",
			[]contract.Property{contract.String("s", "").Default("utf-8")},
			`"s":{"type":"string","default":"utf-8"}},"required":[]`, "what has a default is not required",
		},
		{
			"empty default",
			[]contract.Property{contract.String("s", "").Default("")},
			`"s":{"type":"string","default":""}},"required":[]`, "an empty default is one too",
		},
		{
			"integer with bounds and default",
			[]contract.Property{contract.Int("n", "").Between(1, 1<<20).Default(65536)},
			`"n":{"type":"integer","minimum":1,"maximum":1048576,"default":65536}},"required":[]`, "no exponents",
		},
		{
			"integer with an int64 default",
			[]contract.Property{contract.Int("n", "").Default(int64(-5))},
			`"n":{"type":"integer","default":-5}},"required":[]`, "",
		},
		{
			"negative bounds",
			[]contract.Property{contract.Int("n", "").Between(-1, 0)},
			`"n":{"type":"integer","minimum":-1,"maximum":0}},"required":["n"]`, "",
		},
		{
			"at least",
			[]contract.Property{contract.Int("n", "").AtLeast(0)},
			`"n":{"type":"integer","minimum":0}},"required":["n"]`, "the upper end is the number format's, not the tool's",
		},
		{
			"boolean",
			[]contract.Property{contract.Bool("b", "").Default(false)},
			`"b":{"type":"boolean","default":false}},"required":[]`, "",
		},
		{
			"number or null",
			[]contract.Property{contract.Number("p", "").Between(0, 99.5).OrNull()},
			`"p":{"type":["number","null"],"minimum":0,"maximum":99.5}},"required":["p"]`, "null is not the same as absent",
		},
		{
			"array with bounds",
			[]contract.Property{contract.Array("a", "", contract.String("ignored", "")).Between(0, 50)},
			`"a":{"type":"array","minItems":0,"maxItems":50,"items":{"type":"string"}}},"required":["a"]`,
			"the element's name is not used",
		},
		{
			"array of arrays",
			[]contract.Property{contract.Array("rows", "", contract.Array("", "", contract.Int("", "").OrNull()))},
			`"rows":{"type":"array","items":{"type":"array","items":{"type":["integer","null"]}}}},"required":["rows"]`, "",
		},
		{
			"array of any values",
			[]contract.Property{contract.Array("a", "", contract.Any("ignored", ""))},
			`"a":{"type":"array","items":{}}},"required":["a"]`, "no type: every value of JSON fits, null too",
		},
		{
			"rows of any values",
			[]contract.Property{contract.Array("rows", "", contract.Array("", "", contract.Any("", "A \u00e9."))).Between(0, 5).OrNull()},
			`"rows":{"type":["array","null"],"minItems":0,"maxItems":5,"items":{"type":"array",` +
				`"items":{"description":"A \u00e9."}}}},"required":["rows"]`, "the types of cells are not known beforehand",
		},
		{
			"object in an object",
			[]contract.Property{contract.Object("o", "Inner.", contract.Bool("b", ""), contract.Object("e", ""))},
			`"o":{"type":"object","description":"Inner.","properties":{"b":{"type":"boolean"},` +
				`"e":{"type":"object","properties":{},"required":[],"additionalProperties":false}},` +
				`"required":["b","e"],"additionalProperties":false}},"required":["o"]`, "strict on every level",
		},
		{
			"order",
			[]contract.Property{contract.Int("z", ""), contract.Int("a", "").Default(1), contract.Int("m", "")},
			`"z":{"type":"integer"},"a":{"type":"integer","default":1},"m":{"type":"integer"}},"required":["z","m"]`,
			"as declared: short options come before long texts (client-012)",
		},
		{
			"texts beyond ASCII",
			[]contract.Property{contract.String("s", "a \"b\" \u00e9\n").Default("\u65e5")},
			`"s":{"type":"string","description":"a \"b\" \u00e9\n","default":"\u65e5"}},"required":[]`, "the wire is ASCII",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newSchema(t, c.properties...)
			if got, want := string(s.JSON()), head+c.want+tail; got != want {
				t.Errorf("got  %s\nwant %s\n%s", got, want, c.why)
			}
			checkForStrictClients(t, s.JSON())
			oracle(t, s)
		})
	}
}

// checkForStrictClients holds what wire-023 collects from clients that refuse a whole server over one odd schema.
func checkForStrictClients(t *testing.T, raw []byte) {
	t.Helper()
	for _, c := range raw {
		if c < ' ' || c > '~' {
			t.Errorf("byte %#x in %s", c, raw)
		}
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		t.Fatal(err)
	}
	known := []string{
		"type", "description", "default", "properties", "required", "additionalProperties", "items",
		"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
	}
	var walk func(any)
	walk = func(node any) {
		schema, ok := node.(map[string]any)
		if !ok {
			t.Fatalf("%v is no schema in %s", node, raw)
		}
		for keyword, value := range schema {
			if !slices.Contains(known, keyword) || value == nil {
				t.Errorf("keyword %s with %v in %s", keyword, value, raw)
			}
		}
		if schema["type"] == "object" {
			_, hasProperties := schema["properties"].(map[string]any)
			_, hasRequired := schema["required"].([]any)
			if !hasProperties || !hasRequired || schema["additionalProperties"] != false {
				t.Errorf("an object without its three members in %s", raw)
			}
		}
		if properties, ok := schema["properties"].(map[string]any); ok {
			for _, p := range properties {
				walk(p)
			}
		}
		if items, ok := schema["items"]; ok {
			walk(items)
		}
	}
	walk(tree)
}

func TestSchemasThatContradictThemselvesAreRefused(t *testing.T) {
	cases := []struct {
		name       string
		properties []contract.Property
		want       string
		why        string
	}{
		{"no name", []contract.Property{contract.Int("", "")}, "object.: name empty or used twice", "nobody could give it"},
		{"name twice", []contract.Property{contract.Int("a", ""), contract.Bool("a", "")}, "object.a: name empty or used twice", ""},
		{
			"name twice inside",
			[]contract.Property{contract.Object("o", "", contract.Int("a", ""), contract.Int("a", ""))},
			"object.o.a: name empty or used twice", "every level is looked at",
		},
		{
			"name twice in an element",
			[]contract.Property{contract.Array("l", "", contract.Object("", "", contract.Int("a", ""), contract.Int("a", "")))},
			"object.l..a: name empty or used twice", "every level is looked at",
		},
		{"default below the bound", []contract.Property{contract.Int("n", "").Between(1, 5).Default(0)}, "object.n: default must be an integer from 1 to 5", ""},
		{"default too long", []contract.Property{contract.String("s", "").Between(0, 2).Default("abc")}, "object.s: default must have a length in characters from 0 to 2", ""},
		{"default with NUL", []contract.Property{contract.String("s", "").Default("a\x00")}, "object.s: default must be text without NUL and surrogates", ""},
		{"text for an integer", []contract.Property{contract.Int("n", "").Default("1")}, "object.n: default must not be a string", ""},
		{"integer for a text", []contract.Property{contract.String("s", "").Default(1)}, "object.s: default must not be an integer", ""},
		{"boolean for an integer", []contract.Property{contract.Int("n", "").Default(true)}, "object.n: default must not be true or false", ""},
		{"float for an integer", []contract.Property{contract.Int("n", "").Default(1.0)}, "object.n: default must be a string, an integer or true or false", "nothing would decode or publish it"},
		{"list", []contract.Property{contract.Array("l", "", contract.Int("", "")).Default([]any{})}, "object.l: default must be a string, an integer or true or false", "nothing would publish it"},
		{"bounds in the wrong order", []contract.Property{contract.Int("n", "").Between(2, 1)}, "object.n: bounds from 2 to 1", "no value would do"},
		{"bound beyond 2^53", []contract.Property{contract.Int("n", "").Between(0, 1<<53)}, "object.n: bounds from 0 to 9.007199254740992e+15", "2^53+1 would round onto it and pass"},
		{"bound below -2^53", []contract.Property{contract.Int("n", "").Between(-1<<53, 0)}, "object.n: bounds from -9.007199254740992e+15 to 0", ""},
		{"NaN below", []contract.Property{contract.Number("n", "").Between(math.NaN(), 1)}, "object.n: bounds from NaN to 1", "every comparison with it is false"},
		{"NaN above", []contract.Property{contract.Number("n", "").Between(0, math.NaN())}, "object.n: bounds from 0 to NaN", ""},
		{"infinity", []contract.Property{contract.Number("n", "").Between(0, math.Inf(1))}, "object.n: bounds from 0 to +Inf", "no JSON number"},
		{"any value", []contract.Property{contract.Any("v", "")}, "object.v: any value is the plain element of an array", "only what is encoded has no type"},
		{
			"any value in an object below",
			[]contract.Property{contract.Array("l", "", contract.Object("", "", contract.Any("v", "")))},
			"object.l..v: any value is the plain element of an array", "only what is encoded has no type",
		},
		{"any value with bounds", []contract.Property{contract.Array("l", "", contract.Any("", "").Between(0, 1))}, "object.l.: any value is the plain element of an array", "of what?"},
		{"any value or null", []contract.Property{contract.Array("l", "", contract.Any("", "").OrNull())}, "object.l.: any value is the plain element of an array", "null is one"},
		{"any value with a default", []contract.Property{contract.Array("l", "", contract.Any("", "").Default(1))}, "object.l.: default must not be an integer", "a result has every member"},
		{"bounds of an element", []contract.Property{contract.Array("l", "", contract.Int("", "").Between(2, 1))}, "object.l.: bounds from 2 to 1", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, err := contract.NewSchema(c.properties...)
			if err == nil || err.Error() != c.want {
				t.Errorf("%v, want %q %s", err, c.want, c.why)
			}
			if s.JSON() != nil {
				t.Errorf("a schema came with the error: %s", s.JSON())
			}
		})
	}
}

func TestPropertiesAreCopies(t *testing.T) {
	plain := contract.Int("n", "")
	_ = plain.Between(1, 5).OrNull().Default(2)
	s := newSchema(t, plain, contract.Bool("b", ""))
	if got := string(s.JSON()); strings.Contains(got, "minimum") || strings.Contains(got, "null") || strings.Contains(got, "default") {
		t.Errorf("refining a copy has changed the property: %s", got)
	}
	properties := s.Properties()
	if len(properties) != 2 || properties[0].Name() != "n" || properties[1].Name() != "b" {
		t.Errorf("properties %v", properties)
	}
	properties[0] = contract.String("other", "")
	if s.Properties()[0].Name() != "n" {
		t.Error("a caller has changed the schema")
	}
}

func TestASchemaThatNeitherDecoderNorWriterKnowsIsNamed(t *testing.T) {
	inner := contract.Object("inner", "", contract.Bool("b", ""))
	cases := []struct {
		name              string
		property          contract.Property
		arguments, result string
		why               string
	}{
		{"text", contract.String("p", ""), "", "", ""},
		{"whole number", contract.Int("p", ""), "", "", ""},
		{"switch", contract.Bool("p", ""), "", "", ""},
		{"number", contract.Number("p", ""), "argument p: no decoder for its type", "", "a strict number would need a rule for 1e400"},
		{"object", inner, "argument inner: no decoder for its type", "", "no tool has asked for one"},
		{"list", contract.Array("p", "", contract.Int("", "")), "argument p: no decoder for its type", "", "no tool has asked for one"},
		{"list of any values", contract.Array("p", "", contract.Any("", "")), "argument p: no decoder for its type", "", "a caller's values have types"},
		{"or null", contract.String("p", "").OrNull(), "argument p: no decoder for its type", "", "null is refused"},
		{"with a default", contract.Int("p", "").Default(1), "", "result p: a default makes it optional", "a result has every member"},
		{"default below", contract.Object("p", "", contract.Int("q", "").Default(1)), "argument p: no decoder for its type", "result q: a default makes it optional", "at every level"},
	}
	for _, c := range cases {
		s := newSchema(t, c.property)
		if got := fmt.Sprint(s.CheckArguments()); got != cmp.Or(c.arguments, "<nil>") {
			t.Errorf("%s as an argument: %s (%s)", c.name, got, c.why)
		}
		if got := fmt.Sprint(s.CheckResult()); got != cmp.Or(c.result, "<nil>") {
			t.Errorf("%s as a result: %s (%s)", c.name, got, c.why)
		}
	}
}
