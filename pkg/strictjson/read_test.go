package strictjson_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"mcp-server-suite/pkg/strictjson"
)

// steps lists what a cursor gives: key=value for members, value alone for elements.
func steps(text string) []string {
	var got []string
	for c := strictjson.Open([]byte(text)); c.Next(); {
		if c.Key() != nil {
			got = append(got, string(c.Key())+"="+string(c.Value()))
		} else {
			got = append(got, string(c.Value()))
		}
	}
	return got
}

func TestCursorStepsThroughMembersAndElements(t *testing.T) {
	cases := []struct {
		name, text string
		want       []string
		why        string
	}{
		{"object", `{"a":1,"b":true,"c":null}`, []string{`"a"=1`, `"b"=true`, `"c"=null`}, "scalars"},
		{"array", `[1,-2.5e+3,"x",false]`, []string{`1`, `-2.5e+3`, `"x"`, `false`}, "no keys"},
		{"white space", "{ \"a\"\t:\n1\r,\"b\" : [ 2 , 3 ] }", []string{`"a"=1`, `"b"=[ 2 , 3 ]`}, "none around a value, untouched within"},
		{"white space in an array", "[\n\t1\r\n, 2 ]", []string{`1`, `2`}, "none around a value"},
		{"nested", `{"a":{"b":[{"c":1}]},"d":[[],{}]}`, []string{`"a"={"b":[{"c":1}]}`, `"d"=[[],{}]`}, "one level at a time"},
		{"brackets in strings", `{"a":"}]","]":{"b":"{\"["},"c":1}`, []string{`"a"="}]"`, `"]"={"b":"{\"["}`, `"c"=1`}, "strings are skipped whole"},
		{"separators in strings", `[",:",":",", "]`, []string{`",:"`, `":"`, `", "`}, "strings are skipped whole"},
		{"escapes", `{"\"":"\\","\\\"":"\\\\\""}`, []string{`"\""="\\"`, `"\\\""="\\\\\""`}, "a backslash takes the next character with it"},
		{"raw key", `{"\u0061":1}`, []string{`"\u0061"=1`}, "keys are raw here"},
		{"duplicates", `{"a":1,"a":2}`, []string{`"a"=1`, `"a"=2`}, "each is a member"},
		{"empty key and values", `{"":"","a":{},"b":[]}`, []string{`""=""`, `"a"={}`, `"b"=[]`}, "empty is something"},
		{"empty object", `{}`, nil, "nothing to step through"},
		{"empty object with a space", "{ \n}", nil, "nothing to step through"},
		{"empty array", `[]`, nil, "nothing to step through"},
		{"array of one empty array", `[[]]`, []string{`[]`}, "the inner bracket is not the end"},
		{"string", `"{}"`, nil, "no object and no array"},
		{"number", `1`, nil, "no object and no array"},
		{"null", `null`, nil, "no object and no array"},
		{"nothing", ``, nil, "an absent value"},
	}
	for _, c := range cases {
		if got := steps(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s (%s): got %q, want %q", c.name, c.why, got, c.want)
		}
	}
}

func TestCursorStaysAtItsEnd(t *testing.T) {
	c := strictjson.Open([]byte(`[1]`))
	if !c.Next() {
		t.Fatal("no element")
	}
	for range 3 {
		if c.Next() {
			t.Error("stepped over the end")
		}
	}
}

// It trusts its text, but not with its life: on a text that nobody scanned it may give anything, and comes to an end.
func TestCursorEndsOnTextsThatWereNotScanned(t *testing.T) {
	for _, text := range []string{`{`, `{"a`, `{"a\`, `{"a"`, `{"a":`, `{"a":[1,`, `{"a":"x`, `[`, `[1`, `[{]`, `{"a":}`, `{]`, `[,,`, `{{{{`} {
		if n := len(steps(text)); n > len(text) {
			t.Errorf("%q: %d steps", text, n)
		}
	}
}

func TestStringDecodesStringsOnly(t *testing.T) {
	cases := []struct {
		name, raw, want string
		ok              bool
		why             string
	}{
		{"plain", `"abc"`, "abc", true, "as it is"},
		{"empty", `""`, "", true, "a string of nothing"},
		{"short escapes", `"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t", true, "RFC 8259 section 7"},
		{"letters", `"\u0061\u00E9\u20ac"`, "a\u00e9\u20ac", true, "one, two and three bytes"},
		{"NUL", `"a\u0000b"`, "a\x00b", true, "decoded, not judged"},
		{"raw UTF-8", "\"\u00e9\U0001F600\"", "\u00e9\U0001F600", true, "as it is"},
		{"raw UTF-8 beside an escape", "\"\u00e9\\n\U0001F600\"", "\u00e9\n\U0001F600", true, "bytes between escapes are copied"},
		{"pair", `"\ud83d\ude00"`, "\U0001F600", true, "joined"},
		{"first pair", `"\ud800\udc00"`, "\U00010000", true, "U+10000"},
		{"last pair", `"\udbff\udfff"`, "\U0010FFFF", true, "U+10FFFF"},
		{"high alone", `"\ud800"`, "\xed\xa0\x80", true, "WTF-8: not valid UTF-8"},
		{"last high alone", `"\udbff"`, "\xed\xaf\xbf", true, "WTF-8"},
		{"low alone", `"\udc00"`, "\xed\xb0\x80", true, "WTF-8"},
		{"last low alone", `"\udfff"`, "\xed\xbf\xbf", true, "WTF-8"},
		{"low after a letter's escape", `"\u0041\udc00"`, "A\xed\xb0\x80", true, "a letter is no half of a pair: the sanitizer must see the surrogate"},
		{"low after an escape above the range", `"\ue000\udc00"`, "\ue000\xed\xb0\x80", true, "no half of a pair"},
		{"low before high", `"\udc00\ud800"`, "\xed\xb0\x80\xed\xa0\x80", true, "the wrong way round"},
		{"low before low", `"\udc00\udc00"`, "\xed\xb0\x80\xed\xb0\x80", true, "a low one is no first half"},
		{"high before another escape and four digits", `"\ud83d\ndc00"`, "\xed\xa0\xbd\ndc00", true, "only an escape by number is a half"},
		{"high before text like an escape", `"\ud83dxudc00"`, "\xed\xa0\xbdxudc00", true, "only an escape by number is a half"},
		{"high before a letter", `"\ud83dx"`, "\xed\xa0\xbdx", true, "the letter stays"},
		{"high before a letter's escape", `"\ud83d\u0078"`, "\xed\xa0\xbdx", true, "the letter stays"},
		{"two high and a low", `"\ud83d\ud83d\ude00"`, "\xed\xa0\xbd\U0001F600", true, "the second is half of a pair"},
		{"escaped backslash", `"\\u0061"`, `\u0061`, true, "the text of an escape"},
		{"quote alone", `"`, "", false, "no string"},
		{"number", `1`, "", false, "another type"},
		{"object", `{"a":"b"}`, "", false, "another type"},
		{"null", `null`, "", false, "another type"},
		{"absent", ``, "", false, "an absent member"},
	}
	for _, c := range cases {
		if got, ok := strictjson.String([]byte(c.raw)); got != c.want || ok != c.ok {
			t.Errorf("%s (%s): got %q, %t, want %q, %t", c.name, c.why, got, ok, c.want, c.ok)
		}
	}
}

func TestEveryEscapeDecodesToItsCodePoint(t *testing.T) {
	for r := rune(0); r <= 0xFFFF; r++ {
		raw := fmt.Sprintf(`"\u%04x"`, r)
		got, ok := strictjson.String([]byte(raw))
		if !ok {
			t.Fatalf("%s is no string", raw)
		}
		want := string(r)
		if r >= 0xD800 && r < 0xE000 {
			want = string([]byte{0xED, 0x80 | byte(r>>6)&0x3F, 0x80 | byte(r)&0x3F})
			if utf8.ValidString(got) {
				t.Errorf("%s decodes to valid UTF-8 %q", raw, got)
			}
		}
		capitals, _ := strictjson.String(fmt.Appendf(nil, `"\u%04X"`, r))
		if got != want || capitals != want {
			t.Errorf("%s: got %q and %q, want %q", raw, got, capitals, want)
		}
	}
}

func TestIntReadsOnlyWhatIsWrittenAsAnInteger(t *testing.T) {
	cases := []struct {
		raw         string
		integer, ok bool
		want        int64
		why         string
	}{
		{`0`, true, true, 0, "an integer"},
		{`-0`, true, true, 0, "an integer, though its sign is lost"},
		{`42`, true, true, 42, "an integer"},
		{`-7`, true, true, -7, "an integer"},
		{`9007199254740993`, true, true, 9007199254740993, "2^53+1: not through float64"},
		{`9223372036854775807`, true, true, math.MaxInt64, "the largest"},
		{`-9223372036854775808`, true, true, math.MinInt64, "the smallest"},
		{`9223372036854775808`, true, false, 0, "one more: refused, not wrapped"},
		{`-9223372036854775809`, true, false, 0, "one less"},
		{strings.Repeat("9", 400), true, false, 0, "far too large"},
		{`1.0`, false, false, 0, "strict: written with a point"},
		{`1e2`, false, false, 0, "strict: written with an exponent"},
		{`1E0`, false, false, 0, "strict: written with an exponent"},
		{`"1"`, false, false, 0, "a string"},
		{`true`, false, false, 0, "not 1"},
		{`null`, false, false, 0, "not 0"},
		{`[]`, false, false, 0, "another type"},
		{`-`, false, false, 0, "no digits"},
		{``, false, false, 0, "absent"},
	}
	for _, c := range cases {
		if got := strictjson.IsInteger([]byte(c.raw)); got != c.integer {
			t.Errorf("IsInteger(%s) = %t (%s)", c.raw, got, c.why)
		}
		if n, ok := strictjson.Int([]byte(c.raw)); ok != c.ok || ok && n != c.want {
			t.Errorf("Int(%s) = %d, %t, want %d, %t (%s)", c.raw, n, ok, c.want, c.ok, c.why)
		}
	}
}

func TestBoolReadsTheTwoLiteralsOnly(t *testing.T) {
	cases := []struct {
		raw         string
		want, valid bool
	}{
		{`true`, true, true},
		{`false`, false, true},
		{`null`, false, false},
		{`0`, false, false},
		{`1`, false, false},
		{`"true"`, false, false},
		{``, false, false},
	}
	for _, c := range cases {
		if b, ok := strictjson.Bool([]byte(c.raw)); b != c.want || ok != c.valid {
			t.Errorf("Bool(%s) = %t, %t, want %t, %t", c.raw, b, ok, c.want, c.valid)
		}
	}
}

func TestTypesAreToldByTheFirstCharacter(t *testing.T) {
	for _, c := range []struct {
		raw            string
		object, string bool
	}{
		{`{}`, true, false},
		{`{"a":1}`, true, false},
		{`""`, false, true},
		{`"{"`, false, true},
		{`[]`, false, false},
		{`null`, false, false},
		{`1`, false, false},
		{``, false, false},
	} {
		if strictjson.IsObject([]byte(c.raw)) != c.object || strictjson.IsString([]byte(c.raw)) != c.string {
			t.Errorf("%s: object %t, string %t", c.raw, strictjson.IsObject([]byte(c.raw)), strictjson.IsString([]byte(c.raw)))
		}
	}
}

func TestCaseVariantsAreNamesThatAnotherDecoderWouldFold(t *testing.T) {
	cases := []struct {
		key   string
		names []string
		want  bool
		why   string
	}{
		{"method", []string{"method"}, false, "the name itself"},
		{"Method", []string{"id", "method"}, true, "one letter"},
		{"PARAMS", []string{"params"}, true, "all letters"},
		{"param\u017f", []string{"params"}, true, "long s folds to s"},
		{"to\u212aen", []string{"token"}, true, "the Kelvin sign folds to k"},
		{"m\u0435thod", []string{"method"}, false, "Cyrillic e is another letter"},
		{"meth\u00f6d", []string{"method"}, false, "another letter"},
		{"method ", []string{"method"}, false, "another name"},
		{"metho", []string{"method"}, false, "another name"},
		{"", []string{"method"}, false, "another name"},
		{"A", []string{"a", "A"}, true, "exact for one name, a variant of another"},
		{"\xed\xa0\x80", []string{"\uFFFD"}, false, "a lone surrogate is no replacement character"},
		{"x", nil, false, "no names, no variants"},
	}
	for _, c := range cases {
		if got := strictjson.CaseVariant(c.key, c.names...); got != c.want {
			t.Errorf("CaseVariant(%q, %q) = %t (%s)", c.key, c.names, got, c.why)
		}
		if got := strictjson.CaseVariant([]byte(c.key), c.names...); got != c.want {
			t.Errorf("CaseVariant([]byte(%q), %q) = %t (%s)", c.key, c.names, got, c.why)
		}
	}
}

// What CaseVariant is for: every key that it names sets the field of another name in Go's own decoder.
func TestGoFoldsCaseVariants(t *testing.T) {
	for _, key := range []string{"Params", "PARAMS", "param\u017f"} {
		var v struct {
			Params int `json:"params"`
		}
		if err := json.Unmarshal([]byte(`{"`+key+`":1}`), &v); err != nil {
			t.Fatal(err)
		}
		if (v.Params == 1) != strictjson.CaseVariant(key, "params") {
			t.Errorf("%q: the decoder sets %d, CaseVariant says %t", key, v.Params, strictjson.CaseVariant(key, "params"))
		}
	}
}
