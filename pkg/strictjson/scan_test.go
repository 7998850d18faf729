package strictjson_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-server-suite/pkg/strictjson"
)

// nest puts inner into n containers.
func nest(open string, n int, inner, closing string) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(closing, n)
}

// manyMembers is an object whose members have the keys that key makes of 0 to n-1.
func manyMembers(n int, key func(int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(",\"" + key(i) + "\":" + fmt.Sprint(i))
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}

func short(i int) string { return fmt.Sprintf("k%d", i) }

// accepted are texts without duplicate keys and without lone surrogates that Scan takes.
var accepted = []struct{ name, text, why string }{
	{"null", `null`, "any value may stand alone"},
	{"true", `true`, "a literal"},
	{"false", `false`, "a literal"},
	{"white space around", " \t\r\n 1 \n\r\t ", "RFC 8259 section 2: four characters, before and after"},
	{"white space within", "[ 1 ,\t{ \"a\"\n:\r2 } ]", "and around every structural character"},
	{"empty object", `{}`, "no members"},
	{"empty object with a space", `{ }`, "white space is no member"},
	{"empty array", `[]`, "no elements"},
	{"empty array with a space", "[\t]", "white space is no element"},
	{"empty string", `""`, "no characters"},
	{"empty key", `{"":1}`, "a key is any string"},

	{"zero", `0`, "the one number that begins with 0"},
	{"minus zero", `-0`, "a sign is allowed before any int"},
	{"integer", `1234567890`, "digits"},
	{"above 2^53", `9007199254740993`, "a number is its text, no float64"},
	{"above 2^63", `9223372036854775808`, "a number is its text, no int64"},
	{"300 digits", strings.Repeat("9", 300), "no limit of its own"},
	{"fraction", `-0.10`, "digits on both sides, trailing zeros are fine"},
	{"exponent", `1e3`, "no sign needed"},
	{"exponent with plus", `1E+03`, "capital, plus, leading zero: all allowed in an exponent"},
	{"exponent with minus", `1.5e-7`, "after a fraction"},
	{"1e400", `1e400`, "beyond float64: who decodes it decides"},

	{"all short escapes", `"\"\\\/\b\f\n\r\t"`, "RFC 8259 section 7"},
	{"escape of NUL", `"\u0000"`, "legal JSON; the sanitizer judges characters"},
	{"escape in both cases", `"\u00e9\u00E9\uABCDEF\uabcdef"`, "hex digits of either case"},
	{"surrogate pair", `"\ud83d\ude00"`, "one code point above U+FFFF"},
	{"two pairs", `"\uD83D\uDE00\ud83d\ude00"`, "the second pair is not read as a lone one"},
	{"last code point", `"\udbff\udfff"`, "U+10FFFF"},
	{"DEL", "\"a\x7fb\"", "RFC 8259 forbids raw characters below U+0020 only"},
	{"raw UTF-8", "\"\u00e9 \u20ac \U0001F600\"", "two, three and four bytes"},
	{"U+2028", "\"\u2028\u2029\"", "no line ends in JSON"},
	{"U+FFFD", "\"\uFFFD\"", "the replacement character itself is a character"},
	{"noncharacters", "\"\uFFFE\uFFFF\"", "valid UTF-8 like any other"},
	{"around the surrogates", "\"\uD7FF\uE000\"", "the neighbours of the forbidden range"},
	{"highest code point", "\"\U0010FFFF\"", "F4 8F BF BF"},
	{"string of eight and more", `"0123456789abcdef"`, "more than one word of the fast path"},
	{"escape late in a word", `"0123456\n89abcde\"f"`, "the fast path stops inside a word"},

	{"keys that differ in case", `{"a":1,"A":2}`, "compared byte for byte"},
	{"same key in two objects", `[{"a":1},{"a":1}]`, "each object has its own names"},
	{"same key above and below", `{"a":{"a":{"a":1}}}`, "each object has its own names"},
	{"same key after a sibling closed", `{"a":{"b":1},"b":2}`, "the names of a closed object are forgotten"},
	{"composed and decomposed", "{\"\u00e9\":1,\"e\u0301\":2}", "no Unicode normalization"},
	{"24 keys", manyMembers(24, short), "the longest list that is searched one by one"},
	{"25 keys", manyMembers(25, short), "the first that goes into a map"},
	{"many keys twice", "[" + manyMembers(60, short) + "," + manyMembers(60, short) + "]", "the map ends with its object"},
	{"many keys around many keys", `{"k0":` + manyMembers(60, short) + `,"k1":` + manyMembers(60, short) + `}`, "maps nest"},

	{"64 arrays", nest("[", 64, "", "]"), "MaxDepth containers may be open"},
	{"64 objects", nest(`{"a":`, 63, "{}", "}"), "MaxDepth containers may be open"},
	{"64 mixed", nest(`[{"a":`, 32, "1", "}]"), "objects and arrays count alike"},
	{"64 levels twice", "[" + nest("[", 63, "", "]") + "," + nest("[", 63, "", "]") + "]", "depth is what is open, not what was"},
}

// refused are texts that Scan refuses, with what it says.
var refused = []struct {
	name, text string
	want       error
	why        string
}{
	{"nothing", ``, strictjson.ErrSyntax, "no value"},
	{"only white space", " \t\r\n", strictjson.ErrSyntax, "no value"},
	{"two values", `{} {}`, strictjson.ErrSyntax, "exactly one"},
	{"two values touching", `{}{}`, strictjson.ErrSyntax, "exactly one"},
	{"text behind", `1 x`, strictjson.ErrSyntax, "exactly one value and nothing else"},
	{"comma behind", `1,`, strictjson.ErrSyntax, "exactly one value and nothing else"},
	{"byte order mark", "\uFEFF{}", strictjson.ErrSyntax, "RFC 8259 section 8.1: no BOM; it is no white space"},
	{"UTF-16", "{\x00}\x00", strictjson.ErrSyntax, "NUL bytes between"},
	{"NUL behind", "{}\x00", strictjson.ErrSyntax, "NUL is no white space"},
	{"no-break space", "{}\u00a0", strictjson.ErrSyntax, "only four characters are white space"},
	{"form feed", "\f{}", strictjson.ErrSyntax, "white space for C, not for JSON"},
	{"bare CR between values", "{}\r{}", strictjson.ErrSyntax, "a CR is white space, no end of a message"},
	{"NaN", `NaN`, strictjson.ErrSyntax, "no number of JSON"},
	{"NaN within", `{"a":NaN}`, strictjson.ErrSyntax, "no number of JSON"},
	{"Infinity", `Infinity`, strictjson.ErrSyntax, "no number of JSON"},
	{"minus Infinity", `-Infinity`, strictjson.ErrSyntax, "no number of JSON"},
	{"undefined", `undefined`, strictjson.ErrSyntax, "no literal of JSON"},
	{"None", `None`, strictjson.ErrSyntax, "Python"},
	{"True", `True`, strictjson.ErrSyntax, "literals are lower case"},
	{"cut literal", `tru`, strictjson.ErrSyntax, "ends in a literal"},
	{"literal with a tail", `nullx`, strictjson.ErrSyntax, "one value"},
	{"misspelt literal", `falze`, strictjson.ErrSyntax, "not the word"},
	{"comment", `{}/**/`, strictjson.ErrSyntax, "no comments in JSON"},
	{"line comment", "//\n{}", strictjson.ErrSyntax, "no comments in JSON"},
	{"single quotes", `{'a':1}`, strictjson.ErrSyntax, "JavaScript"},
	{"bare key", `{a:1}`, strictjson.ErrSyntax, "JavaScript"},
	{"number as key", `{1:1}`, strictjson.ErrSyntax, "keys are strings"},

	{"plus", `+1`, strictjson.ErrSyntax, "no plus sign"},
	{"minus alone", `-`, strictjson.ErrSyntax, "no digits"},
	{"two minus", `--1`, strictjson.ErrSyntax, "one sign"},
	{"leading zero", `01`, strictjson.ErrSyntax, "octal to some readers"},
	{"leading zero within", `[-01]`, strictjson.ErrSyntax, "octal to some readers"},
	{"hexadecimal", `0x10`, strictjson.ErrSyntax, "no other bases"},
	{"point without digits", `1.`, strictjson.ErrSyntax, "digits on both sides"},
	{"point first", `.5`, strictjson.ErrSyntax, "digits on both sides"},
	{"point and exponent", `1.e5`, strictjson.ErrSyntax, "digits on both sides"},
	{"exponent without digits", `1e`, strictjson.ErrSyntax, "digits needed"},
	{"exponent with sign only", `1e+`, strictjson.ErrSyntax, "digits needed"},
	{"exponent with two signs", `1e+-1`, strictjson.ErrSyntax, "one sign"},
	{"underscore", `1_000`, strictjson.ErrSyntax, "Go, not JSON"},
	{"Arabic digit", "\u0661", strictjson.ErrSyntax, "ASCII digits only"},

	{"open object", `{`, strictjson.ErrSyntax, "unterminated"},
	{"object without colon", `{"a" 1}`, strictjson.ErrSyntax, "colon missing"},
	{"object after key", `{"a"`, strictjson.ErrSyntax, "unterminated"},
	{"object after colon", `{"a":`, strictjson.ErrSyntax, "unterminated"},
	{"object without value", `{"a":}`, strictjson.ErrSyntax, "value missing"},
	{"object after value", `{"a":1`, strictjson.ErrSyntax, "unterminated"},
	{"object after comma", `{"a":1,`, strictjson.ErrSyntax, "unterminated"},
	{"trailing comma in object", `{"a":1,}`, strictjson.ErrSyntax, "JavaScript"},
	{"comma first in object", `{,"a":1}`, strictjson.ErrSyntax, "member missing"},
	{"object with two commas", `{"a":1,,"b":2}`, strictjson.ErrSyntax, "member missing"},
	{"object without comma", `{"a":1 "b":2}`, strictjson.ErrSyntax, "comma missing"},
	{"object closed as array", `{"a":1]`, strictjson.ErrSyntax, "wrong bracket"},
	{"open array", `[`, strictjson.ErrSyntax, "unterminated"},
	{"array after value", `[1`, strictjson.ErrSyntax, "unterminated"},
	{"array after comma", `[1,`, strictjson.ErrSyntax, "unterminated"},
	{"trailing comma in array", `[1,]`, strictjson.ErrSyntax, "JavaScript"},
	{"comma first in array", `[,1]`, strictjson.ErrSyntax, "value missing"},
	{"array without comma", `[1 2]`, strictjson.ErrSyntax, "comma missing"},
	{"array closed as object", `[1}`, strictjson.ErrSyntax, "wrong bracket"},
	{"closing bracket alone", `]`, strictjson.ErrSyntax, "nothing is open"},
	{"one bracket too many", `[]]`, strictjson.ErrSyntax, "nothing is open"},

	{"open string", `"abc`, strictjson.ErrSyntax, "unterminated"},
	{"quote alone", `"`, strictjson.ErrSyntax, "unterminated"},
	{"quote escaped away", `"abc\"`, strictjson.ErrSyntax, "unterminated"},
	{"backslash last", `"abc\`, strictjson.ErrSyntax, "ends in an escape"},
	{"unknown escape", `"\x41"`, strictjson.ErrSyntax, "C"},
	{"escaped apostrophe", `"\'"`, strictjson.ErrSyntax, "JavaScript"},
	{"capital U", `"\U0041"`, strictjson.ErrSyntax, "only a small u"},
	{"cut escape", `"\u00e`, strictjson.ErrSyntax, "ends in an escape"},
	{"three hex digits", `"\u00e"`, strictjson.ErrSyntax, "four are needed"},
	{"no hex digit", `"\u00g0"`, strictjson.ErrSyntax, "g"},
	{"braces", `"\u{41}"`, strictjson.ErrSyntax, "JavaScript"},
	{"pair cut in its second half", `"\ud83d\ude0"`, strictjson.ErrSyntax, "the second half is an escape too"},
	{"pair with a bad second half", `"\ud83d\x00"`, strictjson.ErrSyntax, "the second half is an escape too"},
	{"raw newline", "\"a\nb\"", strictjson.ErrSyntax, "control characters must be escaped"},
	{"raw TAB", "\"a\tb\"", strictjson.ErrSyntax, "control characters must be escaped"},
	{"raw NUL", "\"a\x00b\"", strictjson.ErrSyntax, "control characters must be escaped"},
	{"raw U+001F", "\"\x1f\"", strictjson.ErrSyntax, "the last control character"},
	{"raw NUL in a key", "{\"a\x00\":1}", strictjson.ErrSyntax, "keys are strings"},

	{"FF FE", "\xff\xfe", strictjson.ErrUTF8, "a UTF-16 byte order mark"},
	{"FF in a string", "\"\xff\"", strictjson.ErrUTF8, "never in UTF-8"},
	{"FF in a key", "{\"\xff\":1}", strictjson.ErrUTF8, "also where nobody looks"},
	{"FF for a key", "{\xff:1}", strictjson.ErrUTF8, "outside a string"},
	{"FF for a colon", "{\"a\"\xff1}", strictjson.ErrUTF8, "outside a string"},
	{"FF for a comma", "[1\xff1]", strictjson.ErrUTF8, "outside a string"},
	{"FF in an object for a comma", "{\"a\":1\xff}", strictjson.ErrUTF8, "outside a string"},
	{"FF in a literal", "[nul\xff]", strictjson.ErrUTF8, "outside a string"},
	{"FF for a digit", "[-\xff]", strictjson.ErrUTF8, "outside a string"},
	{"FF behind the value", "{} \xff", strictjson.ErrUTF8, "the text is the whole line"},
	{"cut sequence", "\"\xe2\x82\"", strictjson.ErrUTF8, "the third byte is missing"},
	{"cut sequence at the end", "\"\xe2\x82", strictjson.ErrUTF8, "the third byte is missing"},
	{"continuation alone", "\"\x80\"", strictjson.ErrUTF8, "no first byte"},
	{"overlong slash", "\"\xc0\xaf\"", strictjson.ErrUTF8, "two bytes for one"},
	{"overlong NUL", "\"\xc0\x80\"", strictjson.ErrUTF8, "Java's modified UTF-8"},
	{"overlong in three bytes", "\"\xe0\x80\xaf\"", strictjson.ErrUTF8, "three bytes for one"},
	{"encoded surrogate", "\"\xed\xa0\x80\"", strictjson.ErrUTF8, "what String makes of a lone one must not come in"},
	{"encoded pair", "\"\xed\xa0\xbd\xed\xb8\x80\"", strictjson.ErrUTF8, "CESU-8"},
	{"above U+10FFFF", "\"\xf4\x90\x80\x80\"", strictjson.ErrUTF8, "beyond Unicode"},
	{"five bytes", "\"\xf8\x88\x80\x80\x80\"", strictjson.ErrUTF8, "old UTF-8"},
	{"syntax before UTF-8", "[,\xff]", strictjson.ErrSyntax, "what comes first is told"},
	{"UTF-8 before syntax", "[\"\xff\",,]", strictjson.ErrUTF8, "what comes first is told"},

	{"65 arrays", nest("[", 65, "", "]"), strictjson.ErrDepth, "one more than MaxDepth"},
	{"65 objects", nest(`{"a":`, 64, "{}", "}"), strictjson.ErrDepth, "one more than MaxDepth"},
	{"65 mixed", nest(`[{"a":`, 32, "[]", "}]"), strictjson.ErrDepth, "objects and arrays count alike"},
	{"65 at the end", "[1,{\"a\":2}," + nest("[", 64, "", "]") + "]", strictjson.ErrDepth, "wherever it is"},
	{"1,000,000 open", strings.Repeat("[", 1000000), strictjson.ErrDepth, "no stack is used up"},
	{"1,000,000 open objects", strings.Repeat(`{"a":`, 200000), strictjson.ErrDepth, "no stack is used up"},
	{"65 levels and then rubbish", nest("[", 65, "\xff", ""), strictjson.ErrDepth, "what comes first is told"},
}

func TestScanAcceptsEveryJSONText(t *testing.T) {
	var s strictjson.Scanner
	for _, c := range accepted {
		doc, err := s.Scan([]byte(c.text))
		if err != nil {
			t.Errorf("%s (%s): refused with %q: %.80q", c.name, c.why, err, c.text)
			continue
		}
		if doc.DuplicateKey != strictjson.Nowhere || doc.LoneSurrogate {
			t.Errorf("%s (%s): duplicate %d, lone surrogate %t", c.name, c.why, doc.DuplicateKey, doc.LoneSurrogate)
		}
		if want := strings.Trim(c.text, " \t\r\n"); string(doc.Value) != want {
			t.Errorf("%s: value %.80q, want %.80q", c.name, doc.Value, want)
		}
	}
}

func TestScanRefusesEverythingElse(t *testing.T) {
	var s strictjson.Scanner
	for _, c := range refused {
		doc, err := s.Scan([]byte(c.text))
		if !errors.Is(err, c.want) {
			t.Errorf("%s (%s): got %v, want %q: %.80q", c.name, c.why, err, c.want, c.text)
		}
		if doc.Value != nil || doc.Members != nil || doc.DuplicateKey != strictjson.Nowhere || doc.LoneSurrogate {
			t.Errorf("%s: a document came with the error", c.name)
		}
	}
}

// A refusal must not depend on whether the text ends the slice: what lies behind it is the next line.
func TestScanDoesNotLookBehindTheText(t *testing.T) {
	var s strictjson.Scanner
	for _, c := range refused {
		line := []byte(c.text + `"}]1ull000 `)
		if _, err := s.Scan(line[:len(c.text)]); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %q with more text behind", c.name, err, c.want)
		}
	}
}

var duplicates = []struct {
	name, text string
	want       strictjson.Where
	why        string
}{
	{"top", `{"id":1,"id":2}`, strictjson.AtTop, "which one is meant cannot be told"},
	{"top with equal values", `{"id":1,"id":1}`, strictjson.AtTop, "still two members"},
	{"top, not neighbours", `{"id":1,"x":[],"id":2}`, strictjson.AtTop, "all earlier keys are compared"},
	{"three times", `{"a":1,"a":2,"a":3}`, strictjson.AtTop, "one report"},
	{"empty key", `{"":1,"":2}`, strictjson.AtTop, "a key like any other"},
	{"one spelt with an escape", `{"a":1,"\u0061":2}`, strictjson.AtTop, "keys are compared decoded"},
	{"both spelt with escapes", `{"\u0061b":1,"a\u0062":2}`, strictjson.AtTop, "keys are compared decoded"},
	{"escape of another case", `{"\u00e9":1,"\u00E9":2}`, strictjson.AtTop, "keys are compared decoded"},
	{"escape and raw", "{\"\\u00e9\":1,\"\u00e9\":2}", strictjson.AtTop, "keys are compared decoded"},
	{"slash", `{"a/b":1,"a\/b":2}`, strictjson.AtTop, "keys are compared decoded"},
	{"pair and raw", "{\"\\ud83d\\ude00\":1,\"\U0001F600\":2}", strictjson.AtTop, "keys are compared decoded"},
	{"same lone surrogate", `{"\ud800":1,"\uD800":2}`, strictjson.AtTop, "lone surrogates are compared too"},
	{"two lone surrogates", `{"\ud800":1,"\ud801":2}`, strictjson.Nowhere, "they differ, although both would become U+FFFD"},
	{"lone surrogate and U+FFFD", "{\"\\ud800\":1,\"\uFFFD\":2}", strictjson.Nowhere, "they differ"},
	{"lone low after a letter", `{"\u0041\udc00":1,"\u0042\udc01":2}`, strictjson.Nowhere, "a letter is no half of a pair"},
	{"below", `{"p":{"a":1,"a":2}}`, strictjson.Below, "inside a member"},
	{"in an array", `[{"a":1,"a":2}]`, strictjson.Below, "the outermost value is no object"},
	{"deep in arrays", `{"p":[[1,{"z":1,"z":1}]]}`, strictjson.Below, "inside a member"},
	{"after a good object", `{"p":{"a":1},"q":{"a":1,"b":2,"a":3}}`, strictjson.Below, "each object has its own names"},
	{"behind a nested object", `{"p":{"a":{"b":1},"a":2}}`, strictjson.Below, "the names of the outer one survive the inner one"},
	{"below, then top", `{"p":{"a":1,"a":2},"p":1}`, strictjson.AtTop, "the top counts more"},
	{"top, then below", `{"p":1,"p":{"a":1,"a":2}}`, strictjson.AtTop, "the top counts more"},
	{"24th of 24", strings.TrimSuffix(manyMembers(23, short), "}") + `,"k22":0}`, strictjson.AtTop, "list"},
	{"25th of 25", strings.TrimSuffix(manyMembers(24, short), "}") + `,"k0":0}`, strictjson.AtTop, "the step from list to map"},
	{"26th of 26", strings.TrimSuffix(manyMembers(25, short), "}") + `,"k24":0}`, strictjson.AtTop, "map"},
	{"first of 1,000", strings.TrimSuffix(manyMembers(1000, short), "}") + `,"k0":0}`, strictjson.AtTop, "map"},
	{"escaped in 1,000", strings.TrimSuffix(manyMembers(1000, short), "}") + `,"\u006b7":0}`, strictjson.AtTop, "map"},
	{"in 100 keys below", `[` + strings.TrimSuffix(manyMembers(100, short), "}") + `,"k99":0}]`, strictjson.Below, "map"},
	{"in the list before the map", `{"k0":1,` + manyMembers(100, short)[1:], strictjson.AtTop, "list"},
}

func TestDuplicateKeysAreFoundAndPlaced(t *testing.T) {
	var s strictjson.Scanner
	for _, c := range duplicates {
		doc, err := s.Scan([]byte(c.text))
		if err != nil {
			t.Errorf("%s (%s): %v", c.name, c.why, err)
			continue
		}
		if doc.DuplicateKey != c.want {
			t.Errorf("%s (%s): found %d, want %d", c.name, c.why, doc.DuplicateKey, c.want)
		}
	}
}

// The rest must be JSON too before anybody may trust the id of a message.
func TestDuplicateKeyDoesNotEndTheScan(t *testing.T) {
	var s strictjson.Scanner
	if _, err := s.Scan([]byte(`{"a":1,"a":2,"b":}`)); !errors.Is(err, strictjson.ErrSyntax) {
		t.Errorf("got %v, want %q", err, strictjson.ErrSyntax)
	}
}

var surrogates = []struct {
	name, text string
	want       bool
	why        string
}{
	{"high alone", `"\ud800"`, true, "no partner"},
	{"high at the end of a longer string", `"abc\udbff"`, true, "no partner"},
	{"high before a letter", `"\ud83dx"`, true, "no partner"},
	{"high before another escape", `"\ud83d\n"`, true, "no partner"},
	{"high before a letter's escape", `"\ud83d\u0041"`, true, "no partner"},
	{"high before an escape above the range", `"\ud83d\ue000"`, true, "no partner"},
	{"low alone", `"\udc00"`, true, "no partner"},
	{"low before high", `"\ude00\ud83d"`, true, "the wrong way round"},
	{"two low", `"\udc00\udc00"`, true, "a low one is no first half"},
	{"high before another escape and four digits", `"\ud83d\ndc00"`, true, "only an escape by number is a half"},
	{"high before text like an escape", `"\ud83dxudc00"`, true, "only an escape by number is a half"},
	{"low after a letter's escape", `"\u0041\udc00"`, true, "a letter is no half of a pair"},
	{"two high and a low", `"\ud83d\ud83d\ude00"`, true, "the first has no partner"},
	{"pair and a low", `"\ud83d\ude00\ude00"`, true, "the last has no partner"},
	{"in a key", `{"\ud800":1}`, true, "keys are strings"},
	{"deep", `[[{"a":["\udfff"]}]]`, true, "anywhere"},
	{"pair", `"\ud83d\ude00"`, false, "one code point"},
	{"escaped backslash", `"\\ud800"`, false, "the text of an escape is none"},
}

func TestLoneSurrogatesAreReported(t *testing.T) {
	var s strictjson.Scanner
	for _, c := range surrogates {
		doc, err := s.Scan([]byte(c.text))
		if err != nil {
			t.Errorf("%s (%s): %v", c.name, c.why, err)
			continue
		}
		if doc.LoneSurrogate != c.want {
			t.Errorf("%s (%s): %t, want %t", c.name, c.why, doc.LoneSurrogate, c.want)
		}
	}
}

func TestMembersAreThoseOfTheOutermostObject(t *testing.T) {
	cases := []struct {
		name, text string
		want       []string // key, value, key, value ...
		why        string
	}{
		{"plain", `{"a":1,"b":"x"}`, []string{"a", "1", "b", `"x"`}, "in the order of the text"},
		{"white space", "\n{ \"a\" :\t{ \"b\" : 1 } , \"c\":[ ]\r} ", []string{"a", `{ "b" : 1 }`, "c", "[ ]"}, "none around a value, untouched within"},
		{"escaped key", `{"\u006da\n":1}`, []string{"ma\n", "1"}, "keys are decoded"},
		{"lone surrogate in a key", `{"\ud800":1}`, []string{"\xed\xa0\x80", "1"}, "in WTF-8"},
		{"escaped value", `{"a":"\u0061"}`, []string{"a", `"\u0061"`}, "values are raw"},
		{"duplicates", `{"a":1,"a":2}`, []string{"a", "1", "a", "2"}, "both, nobody chooses"},
		{"empty", `{}`, nil, "none"},
		{"array", `[{"a":1}]`, nil, "no outermost object"},
		{"string", `"a"`, nil, "no outermost object"},
	}
	var s strictjson.Scanner
	for _, c := range cases {
		doc, err := s.Scan([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for _, m := range doc.Members {
			got = append(got, string(m.Key), string(m.Value))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s (%s): got %q, want %q", c.name, c.why, got, c.want)
		}
	}
}

func TestOneScanLeavesNothingForTheNext(t *testing.T) {
	var s strictjson.Scanner
	for _, before := range []string{
		`{"a":1,"a":2}`, `{"a":"\ud800"}`, `{"a":1,"b":`, nest("[", 65, "", "]"), "\"\xff", `{"b":{"a":{`,
		manyMembers(3000, short), strings.Repeat(`{"a":1,"b":`, 64),
	} {
		_, _ = s.Scan([]byte(before)) // whatever it says
		doc, err := s.Scan([]byte(`{"a":1}`))
		if err != nil || doc.DuplicateKey != strictjson.Nowhere || doc.LoneSurrogate {
			t.Errorf("after %.40q: %+v, %v", before, doc, err)
		}
		if len(doc.Members) != 1 || string(doc.Members[0].Key) != "a" || string(doc.Members[0].Value) != "1" {
			t.Errorf("after %.40q: members %q", before, doc.Members)
		}
	}
}

func TestScanKeepsNoMemoryOfAHostileLine(t *testing.T) {
	var s strictjson.Scanner
	members := strings.TrimSuffix(manyMembers(23, short), "}") + `,"k23":`
	for name, make := range map[string]func() string{
		"many members":           func() string { return manyMembers(60000, short) },
		"many members, then bad": func() string { return manyMembers(60000, short) + "x" },
		"many open keys":         func() string { return "[" + nest(members, 63, "1", "}") + strings.Repeat(" ", mebibyte) + "]" },
		"many open keys, cut":    func() string { return "[" + nest(members, 63, strings.Repeat(" ", mebibyte), "") },
		"long array":             func() string { return "[" + strings.Repeat(" ", mebibyte) + "]" },
	} {
		_, _ = s.Scan([]byte(`{"a":1}`)) // cannot fail
		idle := heap()
		_, _ = s.Scan([]byte(make())) // whatever it says
		if grown := int64(heap()) - int64(idle); grown > 256<<10 {
			t.Errorf("%s: %d bytes stay", name, grown)
		}
	}
	runtime.KeepAlive(&s)
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

const mebibyte = 1 << 20

// cpuTime is what this process has had of all cores: the clock on the wall also counts what the neighbours had.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// longKey makes keys of equal length that differ at the end only.
func longKey(n int) func(int) string {
	return func(i int) string { return strings.Repeat("k", n-4) + fmt.Sprintf("%04d", i) }
}

func TestHostileLinesTakeLinearTimeAndMemory(t *testing.T) {
	cases := []struct {
		name, text string
		want       error
		why        string
	}{
		{"100,000 keys", manyMembers(100000, func(i int) string { return fmt.Sprintf("%x", i) }), nil, "quadratic if each key were compared with all before"},
		{"200,000 equal keys", `{"":1` + strings.Repeat(`,"":1`, 200000) + `}`, nil, "a duplicate is no way around the map"},
		{"100,000 keys with escapes", manyMembers(100000, func(i int) string { return fmt.Sprintf(`\n%x`, i) }), nil, "each is decoded once"},
		{"key of 1 MiB", `{"` + strings.Repeat("k", mebibyte) + `":1}`, nil, "one long string"},
		{"key of 1 MiB in escapes", `{"` + strings.Repeat(`\u0061`, mebibyte/6) + `":1}`, nil, "one long decoding"},
		{"24 keys of 40 KiB", manyMembers(24, longKey(40<<10)), nil, "each compared with 23 others to the last byte"},
		{"1,000 keys of 1 KiB", manyMembers(1000, longKey(1<<10)), nil, "each copied into the map"},
		{"7,000 objects of 25 keys", "[" + strings.TrimSuffix(strings.Repeat(manyMembers(25, short)+",", 7000), ",") + "]", nil, "a map for each"},
		{"string of 1 MiB", `"` + strings.Repeat("a", mebibyte) + `"`, nil, "the fast path"},
		{"string of quotes", `"` + strings.Repeat(`\"`, mebibyte/2) + `"`, nil, "the slow path"},
		{"string of three-byte characters", `"` + strings.Repeat("\u20ac", mebibyte/3) + `"`, nil, "the slow path"},
		{"500,000 elements", "[0" + strings.Repeat(",0", mebibyte/2) + "]", nil, "no memory for elements"},
		{"1 MiB of white space", strings.Repeat(" ", mebibyte) + "1", nil, "no recursion"},
		{"1 MiB of digits", strings.Repeat("1", mebibyte), nil, "no arithmetic"},
		{"1 MiB of brackets", strings.Repeat("[", mebibyte), strictjson.ErrDepth, "no recursion"},
		{"350,000 small objects", "[{}" + strings.Repeat(",{}", mebibyte/3) + "]", nil, "nothing for each"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var s strictjson.Scanner
			text := []byte(c.text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := cpuTime(t)
			_, err := s.Scan(text)
			took := cpuTime(t) - start
			runtime.ReadMemStats(&after)
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			// 70 ms at the worst when measured, ten times that under the race detector; quadratic would be a minute.
			if took > 5*time.Second {
				t.Errorf("%v for %d bytes (%s)", took, len(text), c.why)
			}
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 64*uint64(len(text)) {
				t.Errorf("%d bytes allocated for %d bytes (%s)", allocated, len(text), c.why)
			}
			t.Logf("%d bytes: %v, %d bytes allocated", len(text), took, after.TotalAlloc-before.TotalAlloc)
		})
	}
}

func TestOrdinaryLinesAreScannedWithoutAllocation(t *testing.T) {
	text := []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":{"q":"a \"b\" \u00e9"}}}`)
	var s strictjson.Scanner
	allocations := testing.AllocsPerRun(100, func() {
		if _, err := s.Scan(text); err != nil {
			t.Error(err)
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}

func TestMessagesOfErrorsDoNotQuoteTheText(t *testing.T) {
	var s strictjson.Scanner
	texts := map[string]bool{}
	for _, c := range refused {
		if _, err := s.Scan([]byte(c.text)); err != nil {
			texts[err.Error()] = true
		}
	}
	if len(texts) != 3 {
		t.Errorf("%d texts, want the three fixed ones: %v", len(texts), texts)
	}
}

func BenchmarkScan(b *testing.B) {
	line := []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":{"q":"SELECT 1"}}}`)
	long := slices.Concat([]byte(`{"q":"`), bytes.Repeat([]byte("a \\\"b "), 16<<10), []byte(`"}`))
	for name, text := range map[string][]byte{"100B": line, "97KB": long} {
		b.Run(name, func(b *testing.B) {
			var s strictjson.Scanner
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Scan(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
