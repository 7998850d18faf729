package contract_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"mcp-server-suite/pkg/contract"
	"mcp-server-suite/pkg/strictjson"
)

// figures is a schema with every kind of result.
func figures(t testing.TB) contract.Schema {
	t.Helper()
	return newSchema(t,
		contract.String("name", "").Between(0, 5),
		contract.Int("count", "").AtLeast(0).OrNull(),
		contract.Number("share", "").Between(0, 100),
		contract.Bool("truncated", ""),
		contract.Object("inner", "", contract.Int("any", ""), contract.String("free", "")).OrNull(),
		contract.Array("rows", "", contract.Array("", "", contract.Number("", "").OrNull())).Between(0, 2),
	)
}

// result is one that fits figures; change replaces the value of a member.
func result(change ...contract.Member) contract.Result {
	r := contract.Result{
		{"name", "abc"},
		{"count", int64(7)},
		{"share", 12.5},
		{"truncated", true},
		{"inner", contract.Result{{"any", int64(-1)}, {"free", "x"}}},
		{"rows", []any{[]any{1.5, nil}, []any{}}},
	}
	for _, c := range change {
		for i := range r {
			if r[i].Name == c.Name {
				r[i].Value = c.Value
			}
		}
	}
	return r
}

func TestResultsThatFitAreWritten(t *testing.T) {
	inner := func(n int64, free string) contract.Result { return contract.Result{{"any", n}, {"free", free}} }
	cases := []struct {
		name   string
		change contract.Member
		want   string
		why    string
	}{
		{"as it is", contract.Member{}, `"inner":{"any":-1,"free":"x"},"rows":[[1.5,null],[]]}`, ""},
		{"empty text", contract.Member{"name", ""}, `{"name":"",`, ""},
		{"text at its bound", contract.Member{"name", "\u00e9\u65e5\U0001F600ab"}, `{"name":"\u00e9\u65e5\ud83d\ude00ab",`, "characters are counted, and escaped"},
		{"text with quotes and controls", contract.Member{"name", "\"\\\n\x00\x7f"}, `{"name":"\"\\\n\u0000\u007f",`, "the wire is ASCII, without raw controls"},
		{"text that is not UTF-8", contract.Member{"name", "a\xffb"}, `{"name":"a\ufffdb",`, "file names may be any bytes"},
		{"bytes of a surrogate", contract.Member{"name", "a\xed\xa0\x80b"}, `{"name":"a\ufffdb",`, "a lone surrogate escape breaks clients (seed 000, threat model)"},
		{"null", contract.Member{"count", nil}, `"count":null,`, ""},
		{"zero", contract.Member{"count", int64(0)}, `"count":0,`, ""},
		{"largest exact", contract.Member{"count", int64(1<<53 - 1)}, `"count":9007199254740991,`, ""},
		{"integer for a number", contract.Member{"share", int64(100)}, `"share":100,`, "an integer is a number"},
		{"whole number", contract.Member{"share", 100.0}, `"share":100,`, ""},
		{"smallest int64", contract.Member{"inner", inner(math.MinInt64, "")}, `"any":-9223372036854775808,`, "exact digits"},
		{"largest int64", contract.Member{"inner", inner(math.MaxInt64, "")}, `"any":9223372036854775807,`, "exact digits"},
		{"2^53+1", contract.Member{"inner", inner(1<<53+1, "")}, `"any":9007199254740993,`, "no float on the way"},
		{"object or null", contract.Member{"inner", nil}, `"inner":null,`, ""},
		{"no rows", contract.Member{"rows", []any{}}, `"rows":[]}`, ""},
		{"nil rows", contract.Member{"rows", []any(nil)}, `"rows":[]}`, "a list without items, never null"},
		{"integer in a row", contract.Member{"rows", []any{[]any{int64(3)}}}, `"rows":[[3]]}`, ""},
	}
	s := figures(t)
	published := oracle(t, s)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			raw, err := s.Append([]byte("kept:"), result(c.change))
			if err != nil {
				t.Fatal(err)
			}
			text, isKept := strings.CutPrefix(string(raw), "kept:")
			if !isKept || !strings.Contains(text, c.want) {
				t.Errorf("%s lacks %s %s", raw, c.want, c.why)
			}
			checkWritten(t, published.Validate, []byte(text))
		})
	}
}

// checkWritten holds for everything that Append writes: ASCII, one JSON value without a lone surrogate, and right by the
// published schema as an independent validator reads it.
func checkWritten(t *testing.T, validate func(any) error, raw []byte) {
	t.Helper()
	for _, c := range raw {
		if c < ' ' || c > '~' {
			t.Fatalf("byte %#x in %q", c, raw)
		}
	}
	var scanner strictjson.Scanner
	doc, err := scanner.Scan(raw)
	if err != nil || doc.LoneSurrogate || doc.DuplicateKey != strictjson.Nowhere {
		t.Fatalf("%q: %v, lone surrogate %t", raw, err, doc.LoneSurrogate)
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	if err := validate(tree); err != nil {
		t.Errorf("%q is against the published schema: %v", raw, err)
	}
}

func TestResultsThatDoNotFitAreFaults(t *testing.T) {
	inner := func(m ...contract.Member) contract.Member { return contract.Member{"inner", contract.Result(m)} }
	cases := []struct {
		name   string
		result contract.Result
		want   string
		why    string
	}{
		{"nil", nil, "result has 0 members where the schema has 6", ""},
		{"member missing", result()[:5], "result has 5 members where the schema has 6", ""},
		{"member too many", append(result(), contract.Member{"more", "SECRET"}), "result has 7 members where the schema has 6", "additionalProperties false"},
		{"another name", append(contract.Result{{"SECRET", "a"}}, result()[1:]...), "result lacks name in its place", ""},
		{"another order", append(contract.Result{result()[1], result()[0]}, result()[2:]...), "result lacks name in its place", "the order is published too"},
		{"null", result(contract.Member{"name", nil}), "name is null", "not nullable"},
		{"null in an element", result(contract.Member{"rows", []any{nil}}), "rows is null", "the rows are not nullable, their cells are"},
		{"text too long", result(contract.Member{"name", "SECRET"}), "name has a length out of bounds", ""},
		{"integer for a text", result(contract.Member{"name", int64(1)}), "name is a int64 where the schema has string", ""},
		{"bytes for a text", result(contract.Member{"name", []byte("SECRET")}), "name is a []uint8 where the schema has string", "not base64 by accident"},
		{"text for an integer", result(contract.Member{"count", "SECRET"}), "count is a string where the schema has integer", ""},
		{"int for an int64", result(contract.Member{"count", 7}), "count is a int where the schema has integer", "one Go type for each"},
		{"float for an integer", result(contract.Member{"count", 7.0}), "count is a float64 where the schema has integer", ""},
		{"below", result(contract.Member{"count", int64(-1)}), "count is out of bounds", ""},
		{"2^53+1", result(contract.Member{"count", int64(1<<53 + 1)}), "count is out of bounds", "as a float64 it is 2^53"},
		{"above", result(contract.Member{"share", 100.00001}), "share is out of bounds", ""},
		{"integer above", result(contract.Member{"share", int64(101)}), "share is out of bounds", ""},
		{"NaN", result(contract.Member{"share", math.NaN()}), "share is out of bounds", "no JSON"},
		{"infinity", result(contract.Member{"share", math.Inf(1)}), "share is out of bounds", "no JSON"},
		{"NaN without bounds", result(contract.Member{"rows", []any{[]any{math.NaN()}}}), "rows is out of bounds", "no JSON"},
		{"infinity without bounds", result(contract.Member{"rows", []any{[]any{math.Inf(-1)}}}), "rows is out of bounds", "no JSON"},
		{"text for a number", result(contract.Member{"share", "1"}), "share is a string where the schema has number", ""},
		{"integer for a boolean", result(contract.Member{"truncated", int64(1)}), "truncated is a int64 where the schema has boolean", ""},
		{"boolean for a text", result(contract.Member{"name", true}), "name is a bool where the schema has string", ""},
		{"list for an object", result(contract.Member{"inner", []any{}}), "inner is a []interface {} where the schema has object", ""},
		{"object for a list", result(contract.Member{"rows", contract.Result{}}), "rows is a contract.Result where the schema has array", ""},
		{"map for an object", result(contract.Member{"inner", map[string]any{}}), "inner is a map[string]interface {} where the schema has object", "it has no order"},
		{"list of texts for a list", result(contract.Member{"rows", []string{"a"}}), "rows is a []string where the schema has array", ""},
		{"too many items", result(contract.Member{"rows", []any{[]any{}, []any{}, []any{}}}), "rows has too many or too few items", ""},
		{"wrong item", result(contract.Member{"rows", []any{[]any{}, "SECRET"}}), "rows is a string where the schema has array", ""},
		{"member missing inside", result(inner(contract.Member{"any", int64(1)})), "inner has 1 members where the schema has 2", ""},
		{"null inside", result(inner(contract.Member{"any", nil}, contract.Member{"free", ""})), "any is null", ""},
		{"wrong type inside", result(inner(contract.Member{"any", int64(1)}, contract.Member{"free", 1.5})), "free is a float64 where the schema has string", ""},
	}
	s := figures(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			raw, err := s.Append([]byte("kept:"), c.result)
			if err == nil || err.Error() != "result contract: "+c.want {
				t.Errorf("%v, want %q %s", err, c.want, c.why)
			}
			if raw != nil {
				t.Errorf("bytes came with the error: %q", raw)
			}
			if err != nil && strings.Contains(err.Error(), "SECRET") {
				t.Errorf("the log would hold the value: %v", err)
			}
		})
	}
}

// table is a schema of rows whose cells are encoded by somebody else, as a database's are.
func table(t testing.TB) contract.Schema {
	t.Helper()
	return newSchema(t,
		contract.Array("list", "", contract.Any("", "A value.")).OrNull(),
		contract.Array("rows", "", contract.Array("", "", contract.Any("", ""))).Between(0, 2),
		contract.Array("deep", "", contract.Array("", "", contract.Array("", "", contract.Any("", "")))),
	)
}

func encoded(json string, items int) contract.Encoded {
	return contract.Encoded{JSON: []byte(json), Items: items}
}

func TestWhatIsEncodedAlreadyIsWrittenAsItIs(t *testing.T) {
	none := encoded(`[]`, 0)
	cases := []struct {
		name             string
		list, rows, deep any
		want             string
		why              string
	}{
		{"empty", none, none, none, `{"list":[],"rows":[],"deep":[]}`, ""},
		{"cells", none, encoded(`[[1,"\u00e9",null],[]]`, 2), none, `{"list":[],"rows":[[1,"\u00e9",null],[]],"deep":[]}`, "rows at their bound"},
		{
			"digits", encoded(`[9007199254740993,1.10,1e400,-0]`, 4), none, none,
			`{"list":[9007199254740993,1.10,1e400,-0],"rows":[],"deep":[]}`, "no number is read on the way",
		},
		{
			"every depth", encoded(`["a",{"b":[]}]`, 2), encoded(`[[{}]]`, 1), encoded(`[[[1],[2]],[]]`, 2),
			`{"list":["a",{"b":[]}],"rows":[[{}]],"deep":[[[1],[2]],[]]}`, "",
		},
		{"null", nil, none, none, `{"list":null,"rows":[],"deep":[]}`, "the array is nullable"},
		{"a list without items", []any{}, []any{[]any{}}, []any{}, `{"list":[],"rows":[[]],"deep":[]}`, "empty needs no encoder"},
		{"encoded inside a list", none, []any{encoded(`[1]`, 1), encoded(`["x"]`, 1)}, none, `{"list":[],"rows":[[1],["x"]],"deep":[]}`, "rows made one by one"},
	}
	s := table(t)
	published := oracle(t, s)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			raw, err := s.Append([]byte("kept:"), contract.Result{{"list", c.list}, {"rows", c.rows}, {"deep", c.deep}})
			if err != nil || string(raw) != "kept:"+c.want {
				t.Fatalf("%s, %v, want %s %s", raw, err, c.want, c.why)
			}
			if strings.Contains(c.want, "1e400") {
				return // no Go program can look at it
			}
			checkWritten(t, published.Validate, raw[len("kept:"):])
		})
	}
}

func TestWhatIsEncodedWronglyOrElsewhereIsAFault(t *testing.T) {
	const wrong = "rows is encoded as something else than an array of so many items"
	rows := func(value any) (contract.Schema, contract.Result) {
		return table(t), contract.Result{{"list", nil}, {"rows", value}, {"deep", []any{}}}
	}
	in := func(p contract.Property, value any) (contract.Schema, contract.Result) {
		return newSchema(t, p), contract.Result{{"rows", value}}
	}
	one := encoded(`[1]`, 1)
	cells := contract.Array("", "", contract.Any("", ""))
	cases := []struct {
		name string
		make func() (contract.Schema, contract.Result)
		want string
		why  string
	}{
		{"nothing", func() (contract.Schema, contract.Result) { return rows(contract.Encoded{}) }, wrong, "the answer would be no JSON"},
		{"a bracket", func() (contract.Schema, contract.Result) { return rows(encoded(`[`, 0)) }, wrong, ""},
		{"no end", func() (contract.Schema, contract.Result) { return rows(encoded(`[[1],`, 1)) }, wrong, "an encoder stopped half-way"},
		{"no beginning", func() (contract.Schema, contract.Result) { return rows(encoded(`1]`, 1)) }, wrong, ""},
		{"an object", func() (contract.Schema, contract.Result) { return rows(encoded(`{"SECRET":1}`, 1)) }, wrong, ""},
		{"no items, but some said", func() (contract.Schema, contract.Result) { return rows(encoded(`[]`, 1)) }, wrong, ""},
		{"items, but none said", func() (contract.Schema, contract.Result) { return rows(encoded(`["SECRET"]`, 0)) }, wrong, "the bound would hold nothing"},
		{"fewer than none", func() (contract.Schema, contract.Result) { return rows(encoded(`[1]`, -1)) }, wrong, ""},
		{"too many", func() (contract.Schema, contract.Result) { return rows(encoded(`[[],[],["SECRET"]]`, 3)) }, "rows has too many or too few items", ""},
		{"a pointer", func() (contract.Schema, contract.Result) { return rows(&one) }, "rows is a *contract.Encoded where the schema has array", "one Go type for each"},
		{"a cell that nobody has encoded", func() (contract.Schema, contract.Result) { return rows([]any{[]any{int64(1)}}) }, "rows is a int64 where the schema has encoded values", "its type would be unchecked"},
		{"null for a cell", func() (contract.Schema, contract.Result) { return rows([]any{[]any{nil}}) }, "rows is null", "unchecked too"},
		{"encoded for a cell", func() (contract.Schema, contract.Result) { return rows([]any{[]any{one}}) }, "rows is a contract.Encoded where the schema has encoded values", "an array is one only where the schema has it"},
		{"array of integers", func() (contract.Schema, contract.Result) {
			return in(contract.Array("rows", "", contract.Int("", "")), one)
		}, "rows is a contract.Encoded where the schema has array", "its elements have a type to be checked"},
		{"array of objects", func() (contract.Schema, contract.Result) {
			return in(contract.Array("rows", "", contract.Object("", "")), encoded(`[{}]`, 1))
		}, "rows is a contract.Encoded where the schema has array", "its elements have members to be checked"},
		{"bounds inside", func() (contract.Schema, contract.Result) {
			return in(contract.Array("rows", "", cells.Between(1, 2)), encoded(`[[1]]`, 1))
		}, "rows is a contract.Encoded where the schema has array", "nobody would hold them"},
		{"null inside", func() (contract.Schema, contract.Result) {
			return in(contract.Array("rows", "", cells.OrNull()), encoded(`[null]`, 1))
		}, "rows is a contract.Encoded where the schema has array", "the schema says more than is looked at"},
		{"text", func() (contract.Schema, contract.Result) { return in(contract.String("rows", ""), one) }, "rows is a contract.Encoded where the schema has string", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, r := c.make()
			raw, err := s.Append([]byte("kept:"), r)
			if err == nil || err.Error() != "result contract: "+c.want || raw != nil {
				t.Errorf("%q, %v, want %q %s", raw, err, c.want, c.why)
			}
		})
	}
}

func TestSizesOfWhatIsEncodedAreExact(t *testing.T) {
	for _, text := range []string{``, `"`, `\`, `"\"\\\u0001"`, strings.Repeat(`["a\n",1.50],`, 50_000)} {
		e := encoded(`[`+text+`]`, 1)
		plain, escaped := contract.Result{{"rows", e}}.Sizes()
		plainRest, escapedRest := contract.Result{{"rows", encoded(``, 0)}}.Sizes()
		if twice := len(strictjson.AppendEscaped(nil, e.JSON)); plain-plainRest != len(e.JSON) || escaped-escapedRest != twice {
			t.Errorf("%.50s: %d and %d bytes for %d and %d", text, plain-plainRest, escaped-escapedRest, len(e.JSON), twice)
		}
		if both := len(e.JSON) + escaped - escapedRest; both > contract.ReplyBytes(len(e.JSON), 0) {
			t.Errorf("%.50s: %d bytes where ReplyBytes allows %d", text, both, contract.ReplyBytes(len(e.JSON), 0))
		}
	}
}

func TestTheZeroSchemaWritesNothing(t *testing.T) {
	var s contract.Schema
	if raw, err := s.Append(nil, contract.Result{}); err == nil || raw != nil {
		t.Errorf("%q, %v", raw, err)
	}
	if _, refusal := s.Decode([]byte(`{"a":1}`)); refusal == nil {
		t.Error("an argument was taken")
	}
}

func TestNumbersAreShortAndExact(t *testing.T) {
	s := newSchema(t, contract.Number("n", ""))
	cases := []struct {
		value float64
		want  string
		why   string
	}{
		{0, "0", ""},
		{1, "1", ""},
		{-1.5, "-1.5", ""},
		{0.1, "0.1", "not 0.1000000000000000055"},
		{65536, "65536", "not 65536e0 or 65536.0"},
		{100, "100", ""},
		{1 << 53, "9007199254740992", ""},
		{1e20, "100000000000000000000", "ECMAScript's last without an exponent"},
		{1e21, "1e+21", "ECMAScript's first with one"},
		{1e-6, "0.000001", "ECMAScript's last without an exponent"},
		{1e-7, "1e-07", "ECMAScript's first with one"},
		{1.0 / 3, "0.3333333333333333", ""},
		{math.MaxFloat64, "1.7976931348623157e+308", ""},
		{math.SmallestNonzeroFloat64, "5e-324", ""},
		{math.Copysign(0, -1), "-0", "legal JSON, and equal to 0"},
	}
	for _, c := range cases {
		raw, err := s.Append(nil, contract.Result{{"n", c.value}})
		if got := string(raw); err != nil || got != `{"n":`+c.want+`}` {
			t.Errorf("%v: %s, %v, want %s %s", c.value, got, err, c.want, c.why)
		}
		if back, err := strconv.ParseFloat(c.want, 64); err != nil || back != c.value {
			t.Errorf("%s reads back as %v, %v", c.want, back, err)
		}
	}
}

func TestSizesBoundBothCopiesClosely(t *testing.T) {
	rows := make([]any, 500)
	for i := range rows {
		rows[i] = []any{float64(i) * 1.25, nil}
	}
	schema := newSchema(t,
		contract.String("text", ""), contract.Array("rows", "", contract.Array("", "", contract.Number("", "").OrNull())),
		contract.Object("inner", "", contract.Bool("b", "")),
	)
	for name, r := range map[string]contract.Result{
		"text":    {{"text", strings.Repeat("a line of ordinary length, in ASCII\n", 2000)}, {"rows", []any{}}, {"inner", contract.Result{{"b", true}}}},
		"rows":    {{"text", ""}, {"rows", rows}, {"inner", contract.Result{{"b", true}}}},
		"quotes":  {{"text", strings.Repeat("\"\\\n\x01\u00e9\U0001F600", 20_000)}, {"rows", []any{}}, {"inner", contract.Result{{"b", true}}}},
		"no text": {{"text", strings.Repeat("\xed\xa0\x80 ", 30_000)}, {"rows", []any{}}, {"inner", contract.Result{{"b", true}}}},
		"empty":   {{"text", ""}, {"rows", []any{}}, {"inner", contract.Result{{"b", true}}}},
	} {
		raw, err := schema.Append(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		plain, escaped := r.Sizes()
		twice := len(strictjson.AppendEscaped(nil, raw))
		if plain < len(raw) || plain > 10*len(raw)+1000 || escaped < twice || escaped > 10*twice+1000 {
			t.Errorf("%s: bounds of %d and %d bytes for %d and %d", name, plain, escaped, len(raw), twice)
		}
	}
}

func TestReplyBytesBoundsTheWorstTexts(t *testing.T) {
	s := textSchema(t)
	for _, c := range []struct {
		name, text string
		each       int // bytes in both copies for each byte of text
		why        string
	}{
		{"letters", "aaaa", 2, ""},
		{"quotes", `""""`, 6, `\" and \\\"`},
		{"backslashes", `\\\\`, 6, `\\ and \\\\`},
		{"line feeds", "\n\n\n\n", 5, `\n and \\n`},
		{"controls", "\x01\x01\x01\x01", 13, `\u0001 and \\u0001`},
		{"delete", "\x7f\x7f\x7f\x7f", 13, ""},
		{"stray bytes", "\xff\x00\xff\x00", 13, `\ufffd and \\ufffd: one byte becomes six`},
	} {
		c.text = strings.Repeat(c.text, 100) // so that the slack in the bound of the plain part hides nothing
		structured, copied := bothCopies(t, s, c.text)
		plain, plainCopied := bothCopies(t, s, "")
		grown := len(structured) + len(copied) - len(plain) - len(plainCopied)
		if grown != c.each*len(c.text) {
			t.Errorf("%s: %d bytes of text take %d, want %d each %s", c.name, len(c.text), grown, c.each, c.why)
		}
		if got, bound := len(structured)+len(copied), contract.ReplyBytes(len(plain), len(c.text)); got > bound {
			t.Errorf("%s: %d bytes where ReplyBytes allows %d", c.name, got, bound)
		}
	}
}

func textSchema(t testing.TB) contract.Schema {
	t.Helper()
	return newSchema(t, contract.String("content", ""), contract.Int("bytes_read", ""))
}

func bothCopies(t testing.TB, s contract.Schema, text string) (structured, copied []byte) {
	t.Helper()
	structured, err := s.Append(nil, contract.Result{{"content", text}, {"bytes_read", int64(0)}})
	if err != nil {
		t.Fatal(err)
	}
	return structured, strictjson.AppendEscaped(nil, structured)
}

// FuzzReplyBytes: whatever a text holds, the two copies of the answer stay within the bound; and the second copy is the
// first one as a string.
func FuzzReplyBytes(f *testing.F) {
	for _, seed := range []string{"", "a", "\"\\", "\x00\x01\x1f\x7f", "\u00e9\u65e5\U0001F600", "\xff\xfe", "\xed\xa0\x80", "\n\r\t", "\u2028"} {
		f.Add(seed)
	}
	s := textSchema(f)
	plain, _ := bothCopies(f, s, "")
	f.Fuzz(func(t *testing.T, text string) {
		structured, copied := bothCopies(t, s, text)
		if got, bound := len(structured)+len(copied), contract.ReplyBytes(len(plain), len(text)); got > bound {
			t.Errorf("%q: %d bytes where ReplyBytes allows %d", text, got, bound)
		}
		var back string
		if err := json.Unmarshal([]byte(`"`+string(copied)+`"`), &back); err != nil || back != string(structured) {
			t.Errorf("%q: the text block reads %q, %v", text, back, err)
		}
	})
}

// FuzzAppend: never both bytes and an error; what is written is right by the published schema and reads back exactly.
func FuzzAppend(f *testing.F) {
	f.Add("abc", int64(7), 12.5, true, uint8(1))
	f.Add("\xed\xa0\x80", int64(-1), math.NaN(), false, uint8(2))
	f.Add("\u00e9\u65e5\U0001F600ab", int64(1<<53-1), 1e-7, false, uint8(0))
	f.Add("\x00\"\\\n\u2028", int64(1<<53+1), math.Inf(1), true, uint8(3))
	f.Add("abcdef", int64(math.MaxInt64), 100.1, true, uint8(255))
	s := figures(f)
	published := oracle(f, s)
	f.Fuzz(func(t *testing.T, text string, n int64, share float64, flag bool, items uint8) {
		rows := make([]any, items%4)
		for i := range rows {
			rows[i] = []any{share, nil, n}
		}
		r := result(
			contract.Member{"name", text}, contract.Member{"count", n}, contract.Member{"share", share},
			contract.Member{"truncated", flag}, contract.Member{"rows", rows},
			contract.Member{"inner", contract.Result{{"any", n}, {"free", text}}},
		)
		valid := strings.ToValidUTF8(text, "\uFFFD")
		fits := utf8.RuneCountInString(valid) <= 5 && n >= 0 && n < 1<<53 && share >= 0 && share <= 100 && len(rows) <= 2
		raw, err := s.Append(nil, r)
		if (err == nil) != fits || (err == nil) != (raw != nil) {
			t.Fatalf("%v with %d bytes, fits is %t", err, len(raw), fits)
		}
		if err != nil {
			return
		}
		checkWritten(t, published.Validate, raw)
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		var back struct {
			Name         string
			Count, Share json.Number
			Truncated    bool
		}
		if err := d.Decode(&back); err != nil {
			t.Fatal(err)
		}
		count, _ := back.Count.Int64()
		read, _ := back.Share.Float64()
		if back.Name != valid || count != n || read != share || back.Truncated != flag {
			t.Errorf("%q reads back as %+v", raw, back)
		}
	})
}
