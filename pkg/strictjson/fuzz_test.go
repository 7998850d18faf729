package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"mcp-server-suite/pkg/strictjson"
)

// seed gives a fuzz target every text of the tables that is not huge.
func seed(f *testing.F) {
	add := func(text string) {
		if len(text) <= 4<<10 {
			f.Add([]byte(text))
		}
	}
	for _, c := range accepted {
		add(c.text)
	}
	for _, c := range refused {
		add(c.text)
	}
	for _, c := range duplicates {
		add(c.text)
	}
	for _, c := range surrogates {
		add(c.text)
	}
}

// Scan agrees with jsontext on every text. jsontext stops at duplicates and lone surrogates, which Scan reports, and
// knows no limit of depth below 10,000.
func FuzzScan(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		given := bytes.Clone(text)
		var s strictjson.Scanner
		doc, err := s.Scan(text)
		if !bytes.Equal(text, given) {
			t.Fatal("the text was written to")
		}
		if errors.Is(err, strictjson.ErrDepth) {
			if bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) <= strictjson.MaxDepth {
				t.Fatalf("ErrDepth without %d brackets: %q", strictjson.MaxDepth+1, text)
			}
			return
		}
		value := jsontext.Value(text)
		lenient := utf8.Valid(text) && value.IsValid(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
		if (err == nil) != lenient {
			t.Fatalf("Scan says %v, jsontext says %t: %q", err, lenient, text)
		}
		if errors.Is(err, strictjson.ErrUTF8) && utf8.Valid(text) {
			t.Fatalf("ErrUTF8 on valid UTF-8: %q", text)
		}
		if err != nil {
			return
		}
		if lone := !value.IsValid(jsontext.AllowDuplicateNames(true)); doc.LoneSurrogate != lone {
			t.Fatalf("lone surrogate %t, jsontext says %t: %q", doc.LoneSurrogate, lone, text)
		}
		// With lone surrogates jsontext cannot tell: it sees U+FFFD in their place.
		if twice := !value.IsValid(); !doc.LoneSurrogate && (doc.DuplicateKey != strictjson.Nowhere) != twice {
			t.Fatalf("duplicate key %d, jsontext says %t: %q", doc.DuplicateKey, twice, text)
		}
		if !bytes.Equal(doc.Value, bytes.Trim(text, " \t\r\n")) {
			t.Fatalf("value %q of %q", doc.Value, text)
		}
		checkMembers(t, doc)
	})
}

// checkMembers compares the members of a document with what a cursor finds, and the report of duplicates at the top.
func checkMembers(t *testing.T, doc strictjson.Document) {
	t.Helper()
	c := strictjson.Open(doc.Value)
	keys := map[string]bool{}
	for i, m := range doc.Members {
		if !c.Next() {
			t.Fatalf("the cursor ends before member %d of %q", i, doc.Value)
		}
		key, ok := strictjson.String(c.Key())
		if !ok || key != string(m.Key) || !bytes.Equal(c.Value(), m.Value) {
			t.Fatalf("the cursor has %q=%q, the document %q=%q", key, c.Value(), m.Key, m.Value)
		}
		keys[key] = true
	}
	if strictjson.IsObject(doc.Value) && c.Next() {
		t.Fatalf("the document lacks the member %q of %q", c.Key(), doc.Value)
	}
	if twice := len(keys) < len(doc.Members); twice != (doc.DuplicateKey == strictjson.AtTop) {
		t.Fatalf("%d keys, %d members, duplicate key %d: %q", len(keys), len(doc.Members), doc.DuplicateKey, doc.Value)
	}
}

// What Scan accepts is written as ASCII that Scan accepts too and that means the same, to us and to encoding/json.
func FuzzRoundTrip(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		var s strictjson.Scanner
		doc, err := s.Scan(text)
		if err != nil {
			return
		}
		ascii := strictjson.AppendASCII(nil, doc.Value)
		for _, b := range ascii {
			if b >= 0x7F || b < 0x20 && b != '\t' && b != '\r' && b != '\n' {
				t.Fatalf("byte %#x in %q", b, ascii)
			}
		}
		again, err := new(strictjson.Scanner).Scan(ascii)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, ascii, err)
		}
		if again.DuplicateKey != doc.DuplicateKey || again.LoneSurrogate != doc.LoneSurrogate {
			t.Fatalf("%q became %q: %+v, was %+v", text, ascii, again, doc)
		}
		if twice := strictjson.AppendASCII(nil, ascii); !bytes.Equal(twice, ascii) {
			t.Fatalf("%q becomes %q", ascii, twice)
		}
		ours, want := decode(t, doc.Value, asIs), standard(t, doc.Value)
		if got := decode(t, ascii, asIs); !reflect.DeepEqual(got, ours) {
			t.Fatalf("%q became %q: %#v, was %#v", text, ascii, got, ours)
		}
		if got := standard(t, ascii); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q became %q: encoding/json reads %#v, was %#v", text, ascii, got, want)
		}
		if got := decode(t, doc.Value, replaceLone); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: we read %#v, encoding/json %#v", text, got, want)
		}
	})
}

// decode builds a value with nothing but this package; text is done to each key and string.
func decode(t *testing.T, value []byte, text func(string) string) any {
	switch value[0] {
	case '{':
		object := map[string]any{}
		for c := strictjson.Open(value); c.Next(); {
			key, ok := strictjson.String(c.Key())
			if !ok {
				t.Fatalf("key %q is no string", c.Key())
			}
			object[text(key)] = decode(t, c.Value(), text) // the last one wins, as in encoding/json
		}
		return object
	case '[':
		array := []any{}
		for c := strictjson.Open(value); c.Next(); {
			if c.Key() != nil {
				t.Fatalf("key %q in an array", c.Key())
			}
			array = append(array, decode(t, c.Value(), text))
		}
		return array
	}
	if s, ok := strictjson.String(value); ok {
		return text(s)
	}
	if b, ok := strictjson.Bool(value); ok {
		return b
	}
	if string(value) == "null" {
		return nil
	}
	return json.Number(value)
}

func standard(t *testing.T, text []byte) any {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("encoding/json refuses %q: %v", text, err)
	}
	return v
}

func asIs(s string) string { return s }

// replaceLone does what encoding/json does: a lone surrogate becomes U+FFFD.
func replaceLone(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 { // WTF-8 is the only invalid form that String gives
			size = 3
		}
		b.WriteRune(r)
		i += size
	}
	return b.String()
}

// Every text comes back from a JSON string; what is neither UTF-8 nor a WTF-8 surrogate as U+FFFD, byte for byte.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{
		"", "plain", "\x00\x1f\x7f\"\\/", "\u00e9\u20ac\U0001F600", "\xed\xa0\x80", "\xed\xa0\x80\xed\xb0\x80", "\xed\xa0\"",
		"0123456789\xff", "\xc0\xaf\xe2\x82", "\xf0\x9f\x98",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, s []byte) {
		raw := strictjson.AppendString(nil, s)
		if !isPrintable(raw) {
			t.Fatalf("%q is written as %q", s, raw)
		}
		if !bytes.Equal(raw, strictjson.AppendString(nil, string(s))) {
			t.Fatalf("string and bytes differ for %q", s)
		}
		checkLengths(t, string(s))
		if _, err := new(strictjson.Scanner).Scan(raw); err != nil {
			t.Fatalf("%q is written as %q: %v", s, raw, err)
		}
		got, ok := strictjson.String(raw)
		if want := wellFormed(s); !ok || got != want {
			t.Fatalf("%q is written as %s and read as %q, want %q", s, raw, got, want)
		}
	})
}

// wellFormed is what of s a JSON string can hold: surrogates in WTF-8 stay, two that make a pair are joined.
func wellFormed(s []byte) string {
	var out []byte
	var high rune // the surrogate just before, 0 if none
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRune(s[i:])
		if r != utf8.RuneError || size != 1 {
			out, high = utf8.AppendRune(out, r), 0
			i += size
			continue
		}
		if len(s)-i < 3 || s[i] != 0xED || s[i+1]&0xE0 != 0xA0 || s[i+2]&0xC0 != 0x80 {
			out, high = utf8.AppendRune(out, utf8.RuneError), 0
			i++
			continue
		}
		u := 0xD000 | rune(s[i+1]&0x3F)<<6 | rune(s[i+2]&0x3F)
		if high != 0 && u >= 0xDC00 {
			out = utf8.AppendRune(out[:len(out)-3], (high-0xD800)<<10+(u-0xDC00)+0x10000)
			high = 0
		} else {
			out = append(out, s[i:i+3]...)
			high = 0
			if u < 0xDC00 {
				high = u
			}
		}
		i += 3
	}
	return string(out)
}

// A cursor on bytes that nobody scanned comes to an end and stays inside them.
func FuzzCursor(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		n := 0
		for c := strictjson.Open(text); c.Next(); n++ {
			if n > len(text) {
				t.Fatalf("more steps than bytes: %q", text)
			}
		}
	})
}
