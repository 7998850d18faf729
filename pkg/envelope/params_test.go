package envelope_test

import (
	"slices"
	"strings"
	"testing"

	"mcp-server-suite/pkg/envelope"
)

// paramsOf are the params of a notification that is written so; "" stands for none.
func paramsOf(t *testing.T, raw string) []byte {
	t.Helper()
	line := `{"jsonrpc":"2.0","method":"x"}`
	if raw != "" {
		line = `{"jsonrpc":"2.0","method":"x","params":` + raw + `}`
	}
	m, r := new(envelope.Parser).Parse([]byte(line))
	if r != nil {
		t.Fatalf("params %s: %d %s", raw, r.Code, r.Text)
	}
	return m.Params
}

// metas hold for the params of every method: {{}} stands for the members that the method needs.
var metas = []struct{ name, raw, faulty, why string }{
	{"none", `{{{}}}`, "", "_meta is optional"},
	{"empty", `{"_meta":{},{{}}}`, "", "an object"},
	{"with keys", `{"_meta":{"progressToken":1,"traceparent":"00-0-0-00","vendor.example/x":[null]},{{}}}`, "", "hosts add it on their own"},
	{"written with an escape", `{"\u005fmeta":{},{{}}}`, "", "the same name"},
	{"of 2026-07-28", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},{{}}}`, "", "ignored: it opens no gate"},
	{"number", `{"_meta":5,{{}}}`, "_meta", "another type"},
	{"null", `{"_meta":null,{{}}}`, "_meta", "another type"},
	{"array", `{"_meta":[],{{}}}`, "_meta", "another type"},
	{"case variant", `{"_Meta":{},{{}}}`, "params", "a decoder that folds would read it"},
	{"behind the rest", `{{{}},"_meta":1}`, "_meta", "members have no order"},
}

func TestMetaIsAnObjectInTheParamsOfEveryMethod(t *testing.T) {
	needs := map[string]string{
		"initialize": `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}`,
		"tools/call": `"name":"x"`,
		"tools/list": `"x":1`,
		"ping":       `"x":1`,
		"cancelled":  `"requestId":1`,
	}
	for _, c := range metas {
		for method, members := range needs {
			raw := paramsOf(t, strings.Replace(c.raw, "{{}}", members, 1))
			var faulty string
			switch method {
			case "initialize":
				_, faulty = envelope.ParseInitialize(raw)
			case "tools/call":
				_, faulty = envelope.ParseCall(raw)
			case "tools/list":
				faulty = envelope.ParseList(raw)
			case "ping":
				faulty = envelope.ParseMeta(raw)
			default:
				if _, ok := envelope.ParseCancelled(raw); ok != (c.faulty == "") {
					t.Errorf("%s of %s (%s): taken %t", c.name, method, c.why, ok)
				}
				continue
			}
			if faulty != c.faulty {
				t.Errorf("%s of %s (%s): faulty %q, want %q", c.name, method, c.why, faulty, c.faulty)
			}
		}
	}
}

func TestInitializeNeedsVersionCapabilitiesAndClientInfo(t *testing.T) {
	whole := envelope.Initialize{ProtocolVersion: "2025-11-25", ClientName: "t", ClientVersion: "1"}
	cases := []struct {
		name, raw, faulty string
		want              envelope.Initialize
		why               string
	}{
		{"whole", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`, "", whole, "the least"},
		{"any order", `{"clientInfo":{"version":"1","name":"t"},"capabilities":{},"protocolVersion":"2025-11-25"}`, "", whole, "members have no order"},
		{"with more", `{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true},"x":1},"clientInfo":{"name":"t","version":"1","title":"T","icons":[]},"later":1}`, "", whole, "later revisions add members"},
		{"unknown version", `{"protocolVersion":"banana","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`, "", envelope.Initialize{ProtocolVersion: "banana", ClientName: "t", ClientVersion: "1"}, "is negotiated, not refused"},
		{"empty version", `{"protocolVersion":"","capabilities":{},"clientInfo":{"name":"","version":""}}`, "", envelope.Initialize{}, "strings"},
		{"no params", ``, "protocolVersion", envelope.Initialize{}, "all are required"},
		{"empty", `{}`, "protocolVersion", envelope.Initialize{}, "all are required"},
		{"no version", `{"capabilities":{},"clientInfo":{"name":"t","version":"1"}}`, "protocolVersion", envelope.Initialize{}, "required"},
		{"version number", `{"protocolVersion":20251125,"capabilities":{},"clientInfo":{"name":"t","version":"1"}}`, "protocolVersion", envelope.Initialize{}, "another type"},
		{"no capabilities", `{"protocolVersion":"2025-11-25","clientInfo":{"name":"t","version":"1"}}`, "capabilities", envelope.Initialize{}, "required"},
		{"capabilities null", `{"protocolVersion":"2025-11-25","capabilities":null,"clientInfo":{"name":"t","version":"1"}}`, "capabilities", envelope.Initialize{}, "another type"},
		{"no clientInfo", `{"protocolVersion":"2025-11-25","capabilities":{}}`, "clientInfo", envelope.Initialize{}, "required"},
		{"clientInfo string", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":"t"}`, "clientInfo", envelope.Initialize{}, "another type"},
		{"clientInfo without name", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"version":"1"}}`, "clientInfo", envelope.Initialize{}, "required"},
		{"clientInfo without version", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t"}}`, "clientInfo", envelope.Initialize{}, "required"},
		{"clientInfo with a number", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":1}}`, "clientInfo", envelope.Initialize{}, "another type"},
		{"clientInfo with null", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":null,"version":"1"}}`, "clientInfo", envelope.Initialize{}, "another type"},
		{"clientInfo with a case variant", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1","Name":"u"}}`, "clientInfo", envelope.Initialize{}, "a decoder that folds would read the other"},
		{"case variant", `{"protocolVersion":"2025-11-25","ProtocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`, "params", envelope.Initialize{}, "a decoder that folds would read the other"},
		{"long s", `{"protocolVersion":"2025-11-25","capabilities":{},"capabilitie\u017f":{},"clientInfo":{"name":"t","version":"1"}}`, "params", envelope.Initialize{}, "folds to s"},
	}
	for _, c := range cases {
		got, faulty := envelope.ParseInitialize(paramsOf(t, c.raw))
		if got != c.want || faulty != c.faulty {
			t.Errorf("%s (%s): got %+v, faulty %q, want %+v, %q", c.name, c.why, got, faulty, c.want, c.faulty)
		}
	}
}

func TestCallIsANameAndAnObjectOfArguments(t *testing.T) {
	cases := []struct{ name, raw, faulty, tool, arguments, why string }{
		{"name and arguments", `{"name":"system_metrics","arguments":{"x":1}}`, "", "system_metrics", `{"x":1}`, "arguments stay raw"},
		{"any order", `{"arguments":{ },"name":"x"}`, "", "x", `{ }`, "members have no order"},
		{"name alone", `{"name":"x"}`, "", "x", "", "a tool may need none"},
		{"empty name", `{"name":""}`, "", "", "", "a string; no tool has it"},
		{"name with an escape", `{"n\u0061me":"\u0078"}`, "", "x", "", "the same text"},
		{"task", `{"name":"x","task":{"ttl":60000}}`, "", "x", "", "MCP 2025-11-25: without task support an ordinary call"},
		{"lone surrogate in the name", `{"name":"\ud800"}`, "", "\xed\xa0\x80", "", "no tool has it"},

		{"no params", ``, "params", "", "", "required"},
		{"empty", `{}`, "name", "", "", "required"},
		{"no name", `{"arguments":{}}`, "name", "", "", "required"},
		{"name number", `{"name":1}`, "name", "", "", "another type"},
		{"name null", `{"name":null}`, "name", "", "", "another type"},
		{"arguments array", `{"name":"x","arguments":[1]}`, "arguments", "", "", "another type"},
		{"arguments string", `{"name":"x","arguments":"{}"}`, "arguments", "", "", "some models send JSON in a string: told, not guessed"},
		{"arguments null", `{"name":"x","arguments":null}`, "arguments", "", "", "another type"},
		{"task true", `{"name":"x","task":true}`, "task", "", "", "another type"},
		{"unknown member", `{"name":"x","zz_EVIL":1}`, "params", "", "", "seed: strict envelope; its name is not repeated"},
		{"arguments beside params", `{"name":"x","query":"SELECT 1"}`, "params", "", "", "seed: strict envelope"},
		{"Name", `{"Name":"x"}`, "params", "", "", "compared byte for byte"},
		{"case variant beside the name", `{"name":"x","ARGUMENTS":{}}`, "params", "", "", "compared byte for byte"},
		{"long s", "{\"name\":\"x\",\"argument\u017f\":{}}", "params", "", "", "folds to s"},
		{"Kelvin sign", `{"name":"x","tas\u212a":{}}`, "params", "", "", "folds to k"},
		{"the first fault counts", `{"name":1,"arguments":1}`, "name", "", "", "one is enough"},
	}
	for _, c := range cases {
		got, faulty := envelope.ParseCall(paramsOf(t, c.raw))
		if got.Name != c.tool || string(got.Arguments) != c.arguments || (got.Arguments == nil) != (c.arguments == "") || faulty != c.faulty {
			t.Errorf("%s (%s): got %q %q, faulty %q, want %q %q, %q", c.name, c.why, got.Name, got.Arguments, faulty, c.tool, c.arguments, c.faulty)
		}
	}
}

func TestCancelledNamesTheKeyOfARequest(t *testing.T) {
	cases := []struct {
		name, raw, id string // id: the request that is meant, "" if the notification is ignored
		why           string
	}{
		{"number", `{"requestId":8}`, `8`, "the id as it was sent"},
		{"string", `{"requestId":"8"}`, `"8"`, "not the number"},
		{"escape", `{"requestId":"\u0061"}`, `"a"`, "the same value"},
		{"reason", `{"reason":"user","requestId":8}`, `8`, "said to people"},
		{"reason of any type", `{"requestId":8,"reason":{"x":1}}`, `8`, "not read"},
		{"more members", `{"requestId":8,"later":1}`, `8`, "later revisions add members"},
		{"2^63", `{"requestId":9223372036854775808}`, `9223372036854775808`, "not through int64"},
		{"minus zero", `{"requestId":-0}`, `0`, "the same number"},

		{"no params", ``, "", "malformed"},
		{"empty", `{}`, "", "malformed"},
		{"8.0", `{"requestId":8.0}`, "", "no id that we accept is written so"},
		{"8.9", `{"requestId":8.9}`, "", "must not cancel 8"},
		{"null", `{"requestId":null}`, "", "malformed"},
		{"object", `{"requestId":{}}`, "", "malformed"},
		{"array", `{"requestId":[8]}`, "", "malformed"},
		{"case variant", `{"requestID":8}`, "", "compared byte for byte"},
		{"case variant beside it", `{"requestId":8,"RequestId":9}`, "", "a decoder that folds would cancel the other"},
		{"long s", `{"requestId":8,"rea\u017fon":"x"}`, "", "folds to s"},
	}
	for _, c := range cases {
		key, ok := envelope.ParseCancelled(paramsOf(t, c.raw))
		want := ""
		if c.id != "" {
			want = idOf(t, c.id).Key()
		}
		if ok != (c.id != "") || key != want {
			t.Errorf("%s (%s): got %q, %t, want %q", c.name, c.why, key, ok, want)
		}
	}
}

func TestListTakesNoCursor(t *testing.T) {
	cases := []struct{ name, raw, faulty, why string }{
		{"no params", ``, "", "the first and only page"},
		{"empty", `{}`, "", "the first and only page"},
		{"more members", `{"later":1}`, "", "later revisions add members"},
		{"cursor", `{"cursor":"abc"}`, "cursor", "we have given none out"},
		{"empty cursor", `{"cursor":""}`, "cursor", "we have given none out"},
		{"cursor null", `{"cursor":null}`, "cursor", "a string by the schema"},
		{"case variant", `{"Cursor":"abc"}`, "params", "compared byte for byte"},
	}
	for _, c := range cases {
		if faulty := envelope.ParseList(paramsOf(t, c.raw)); faulty != c.faulty {
			t.Errorf("%s (%s): faulty %q, want %q", c.name, c.why, faulty, c.faulty)
		}
	}
}

func TestPingTakesAnyParams(t *testing.T) {
	for _, raw := range []string{``, `{}`, `{"x":1}`} {
		if faulty := envelope.ParseMeta(paramsOf(t, raw)); faulty != "" {
			t.Errorf("%s: faulty %q", raw, faulty)
		}
	}
}

// faulties is the closed set of names that a refusal of params may repeat.
var faulties = []string{
	"", "params", "_meta", "protocolVersion", "capabilities", "clientInfo", "name", "arguments", "task", "cursor",
}

func isFaulty(name string) bool { return slices.Contains(faulties, name) }
