package pipeline

import (
	"strings"
	"testing"

	"mcp-server-suite/pkg/strictjson"
)

// FuzzRun sends any object as arguments through the whole list: the answer is one of the four, its JSON is what shape
// holds of it, what the tool says is what the caller wrote, and nothing stays held.
func FuzzRun(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"text":"hello"}`, `{"text":"\u00e9\"\\\n","number":5}`, `{"text":"\ud83d\ude00"}`, `{"text":"\ud800"}`,
		`{"number":11}`, `{"number":1.0}`, `{"x":1}`, `{"__proto__":{}}`, `{"text":"` + strings.Repeat("\\u0009", 300) + `"}`,
	} {
		f.Add([]byte(seed))
	}
	s := newStage(f, echo)
	var scanner strictjson.Scanner
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := scanner.Scan(text)
		if err != nil || doc.DuplicateKey != strictjson.Nowhere || !strictjson.IsObject(doc.Value) {
			return // stopped before
		}
		got := shape(t, s.call(t.Context(), string(doc.Value)))
		given := ""
		for c := strictjson.Open(doc.Value); c.Next(); {
			if string(c.Key()) == `"text"` {
				given, _ = strictjson.String(c.Value())
			}
		}
		switch {
		case strings.HasPrefix(got, "result "):
			if got != "result "+given || doc.LoneSurrogate {
				t.Errorf("%q: %q", doc.Value, got)
			}
		case strings.HasPrefix(got, "in-band BAD_PARAM: "):
		case got == internalError && len(given) > replyBytes/13-50: // echo promises 1 KiB for any text
		default:
			t.Errorf("%q: %s", doc.Value, got)
		}
		s.isWhole(t)
	})
}
