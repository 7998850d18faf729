package envelope_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mcp-server-suite/pkg/envelope"
	"mcp-server-suite/pkg/framing"
)

// texts is the closed set of what a rejection may say.
var texts = map[string]int{
	"Parse error":                    envelope.ParseError,
	"Parse error: invalid UTF-8":     envelope.ParseError,
	"Parse error: nested too deeply": envelope.ParseError,

	"Invalid Request: frame too large":                   envelope.InvalidRequest,
	"Invalid Request: batches are not supported":         envelope.InvalidRequest,
	"Invalid Request: a message is an object":            envelope.InvalidRequest,
	"Invalid Request: duplicate object key":              envelope.InvalidRequest,
	`Invalid Request: jsonrpc must be "2.0"`:             envelope.InvalidRequest,
	"Invalid Request: id must be a string or an integer": envelope.InvalidRequest,
	"Invalid Request: id is too long":                    envelope.InvalidRequest,
	"Invalid Request: unknown envelope member":           envelope.InvalidRequest,
	"Invalid Request: method must be a string":           envelope.InvalidRequest,
	"Invalid Request: params must be an object":          envelope.InvalidRequest,
}

const (
	parse     = "Parse error"
	badUTF8   = "Parse error: invalid UTF-8"
	tooDeep   = "Parse error: nested too deeply"
	batch     = "Invalid Request: batches are not supported"
	noObject  = "Invalid Request: a message is an object"
	duplicate = "Invalid Request: duplicate object key"
	version   = `Invalid Request: jsonrpc must be "2.0"`
	badID     = "Invalid Request: id must be a string or an integer"
	unknown   = "Invalid Request: unknown envelope member"
	badMethod = "Invalid Request: method must be a string"
	badParams = "Invalid Request: params must be an object"
)

// rejections: text says which, id is what goes out in the answer.
var rejections = []struct{ name, line, text, id, why string }{
	{"not JSON", `{not json`, parse, `null`, "one bad line, one answer, the session goes on"},
	{"empty", ``, parse, `null`, "no value"},
	{"cut", `{"jsonrpc":"2.0","id":1,"method":"ping"`, parse, `null`, "the first line of a pretty-printed message too"},
	{"middle of a pretty-printed message", `  "method": "ping",`, parse, `null`, "one message per line"},
	{"two messages", `{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}`, parse, `null`, "neither runs"},
	{"two messages with a CR", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}", parse, `null`, "a CR ends no line"},
	{"trailing comma", `{"jsonrpc":"2.0","id":1,"method":"ping",}`, parse, `null`, "JavaScript"},
	{"single quotes", `{'jsonrpc':'2.0','id':1,'method':'ping'}`, parse, `null`, "Python"},
	{"comment", `{"jsonrpc":"2.0","id":1,"method":"ping"/*c*/}`, parse, `null`, "JSON5"},
	{"NaN", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"x":NaN}}}`, parse, `null`, "Python's default encoder writes it"},
	{"Infinity", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"x":-Infinity}}}`, parse, `null`, "Python's default encoder writes it"},
	{"id with a plus", `{"jsonrpc":"2.0","id":+1,"method":"ping"}`, parse, `null`, "no number of JSON"},
	{"id with a leading zero", `{"jsonrpc":"2.0","id":01,"method":"ping"}`, parse, `null`, "no number of JSON"},
	{"bad escape", `{"jsonrpc":"2.0","id":"\x41","method":"ping"}`, parse, `null`, "no escape of JSON"},
	{"raw TAB in the id", "{\"jsonrpc\":\"2.0\",\"id\":\"a\tb\",\"method\":\"ping\"}", parse, `null`, "control characters are escaped"},
	{"raw NUL between", "{\"jsonrpc\":\"2.0\",\x00\"id\":1,\"method\":\"ping\"}", parse, `null`, "no white space"},
	{"byte order mark", "\uFEFF{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", parse, `null`, "RFC 8259 section 8.1"},
	{"UTF-16", "{\x00\"\x00}\x00", parse, `null`, "NUL bytes"},
	{"FF FE", "\xff\xfe", badUTF8, `null`, "a bad line, not a read error"},
	{"overlong in the id", "{\"jsonrpc\":\"2.0\",\"id\":\"\xc0\xaf\",\"method\":\"ping\"}", badUTF8, `null`, "must not come back as U+FFFD"},
	{"cut sequence in the method", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\xe2\x82\"}", badUTF8, `null`, "strict everywhere"},
	{"FE in a key that nobody reads", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"_meta\":{\"\xfe\":1}}}", badUTF8, `null`, "strict everywhere"},
	{"65 levels", strings.Repeat("[", 65) + strings.Repeat("]", 65), tooDeep, `null`, "one more than strictjson allows"},
	{"100,000 levels", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}}}`, tooDeep, `null`, "balanced and still refused"},

	{"batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`, batch, `null`, "one answer for the line"},
	{"empty batch", `[]`, batch, `null`, "JSON-RPC 2.0 section 6"},
	{"batch with white space", ` [ ] `, batch, `null`, "the value decides, not the first byte of the line"},
	{"null", `null`, noObject, `null`, "a value, no message"},
	{"number", `1`, noObject, `null`, "a value, no message"},
	{"string", `"ping"`, noObject, `null`, "a value, no message"},
	{"true", `true`, noObject, `null`, "a value, no message"},

	{"two ids", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, duplicate, `null`, "which one is meant cannot be told"},
	{"two methods", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, duplicate, `null`, "a filter before us may have seen the other"},
	{"second method with an escape", `{"jsonrpc":"2.0","id":1,"method":"ping","meth\u006fd":"tools/list"}`, duplicate, `null`, "keys are compared decoded"},
	{"two of an unknown member", `{"jsonrpc":"2.0","id":1,"method":"ping","x":1,"x":1}`, duplicate, `null`, "any duplicate"},
	{"duplicate at the top and below", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":2},"id":2}`, duplicate, `null`, "the id is in doubt"},
	{"two ids in a response", `{"jsonrpc":"2.0","id":1,"id":2,"result":{}}`, duplicate, `null`, "no id comes back"},
	{"duplicate in arguments", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"q":1,"q":2}}}`, duplicate, `1`, "two parsers would run two queries; the id is not in doubt"},
	{"equal duplicate deep in arrays", `{"jsonrpc":"2.0","id":"a","method":"ping","params":{"_meta":{"k":[[{"z":1,"z":1}]]}}}`, duplicate, `"a"`, "the same value twice is two members"},
	{"duplicate in a notification", `{"jsonrpc":"2.0","method":"x","params":{"a":1,"a":2}}`, duplicate, `null`, "no id to send back"},

	{"nothing", `{}`, version, `null`, "no message of this protocol"},
	{"no jsonrpc", `{"id":1,"method":"ping"}`, version, `1`, "required"},
	{"jsonrpc 2.0 as a number", `{"jsonrpc":2.0,"id":1,"method":"ping"}`, version, `1`, "a string"},
	{"jsonrpc 1.0", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, version, `1`, "exactly 2.0"},
	{"jsonrpc 2", `{"jsonrpc":"2","id":1,"method":"ping"}`, version, `1`, "exactly 2.0"},
	{"jsonrpc with a space", `{"jsonrpc":"2.0 ","id":1,"method":"ping"}`, version, `1`, "exactly 2.0"},
	{"jsonrpc null", `{"jsonrpc":null,"id":1,"method":"ping"}`, version, `1`, "a string"},
	{"JSONRPC", `{"JSONRPC":"2.0","id":1,"method":"ping"}`, version, `1`, "member names are compared byte for byte"},
	{"no jsonrpc and a bad id", `{"id":1.5,"method":"ping"}`, version, `null`, "an id of another type is not sent back"},

	{"id null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, badID, `null`, "MCP: must not be null; it is no notification either"},
	{"id 1.0", `{"jsonrpc":"2.0","id":1.0,"method":"ping"}`, badID, `null`, "not written as an integer"},
	{"id 1.5", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, badID, `null`, "cut to 1 it would answer another request"},
	{"id 1e3", `{"jsonrpc":"2.0","id":1e3,"method":"ping"}`, badID, `null`, "not written as an integer"},
	{"id -0.0", `{"jsonrpc":"2.0","id":-0.0,"method":"ping"}`, badID, `null`, "not written as an integer"},
	{"id true", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, badID, `null`, "another type"},
	{"id array", `{"jsonrpc":"2.0","id":[1],"method":"ping"}`, badID, `null`, "another type"},
	{"id object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, badID, `null`, "another type"},

	{"id one byte too long", `{"jsonrpc":"2.0","id":"` + strings.Repeat("k", envelope.MaxIDBytes-1) + `","method":"ping"}`, "Invalid Request: id is too long", `null`, "it is kept and sent back six times as long"},
	{"id of too many digits", `{"jsonrpc":"2.0","id":` + strings.Repeat("1", envelope.MaxIDBytes+1) + `,"method":"ping"}`, "Invalid Request: id is too long", `null`, "integers have no other bound"},

	{"extra member", `{"jsonrpc":"2.0","id":1,"method":"ping","x":1}`, unknown, `1`, "seed: unknown envelope members are refused"},
	{"extra member of a notification", `{"jsonrpc":"2.0","method":"notifications/initialized","x":1}`, unknown, `null`, "no id to send back"},
	{"empty member name", `{"jsonrpc":"2.0","id":1,"method":"ping","":1}`, unknown, `1`, "a name like any other"},
	{"Method", `{"jsonrpc":"2.0","id":1,"Method":"ping"}`, unknown, `1`, "Go's decoder would take it for method"},
	{"Method beside method", `{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","PARAMS":{}}`, unknown, `1`, "CVE-2026-27896"},
	{"long s", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"param\u017f\":{}}", unknown, `1`, "folds to params"},
	{"long s as an escape", `{"jsonrpc":"2.0","id":1,"method":"ping","param\u017f":{}}`, unknown, `1`, "folds to params"},
	{"Kelvin sign", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"to\u212aen\":1}", unknown, `1`, "an unknown name, whatever it folds to"},
	{"ID beside id", `{"jsonrpc":"2.0","id":1,"ID":2,"method":"ping"}`, unknown, `1`, "Go's decoder would take the last"},
	{"request with a result", `{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, unknown, `1`, "either or"},
	{"request with an error", `{"jsonrpc":"2.0","id":1,"method":"ping","error":{"code":1,"message":"x"}}`, unknown, `1`, "either or"},
	{"notification with a result", `{"jsonrpc":"2.0","method":"ping","result":{}}`, unknown, `null`, "either or"},

	{"no method", `{"jsonrpc":"2.0","id":1}`, badMethod, `1`, "neither request nor response"},
	{"no method and no id", `{"jsonrpc":"2.0"}`, badMethod, `null`, "neither request nor response"},
	{"no method but params", `{"jsonrpc":"2.0","id":1,"params":{}}`, badMethod, `1`, "neither request nor response"},
	{"method number", `{"jsonrpc":"2.0","id":1,"method":1}`, badMethod, `1`, "another type"},
	{"method null", `{"jsonrpc":"2.0","id":"x","method":null}`, badMethod, `"x"`, "another type"},
	{"method array", `{"jsonrpc":"2.0","id":1,"method":["ping"]}`, badMethod, `1`, "another type"},

	{"params array", `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, badParams, `1`, "MCP has no positional params"},
	{"params string", `{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}`, badParams, `1`, "another type"},
	{"params null", `{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`, badParams, `1`, "JSON-RPC: structured, if present"},
	{"params number", `{"jsonrpc":"2.0","method":"x","params":0}`, badParams, `null`, "another type"},

	{"id with an emoji", "{\"jsonrpc\":\"2.0\",\"id\":\"\U0001F600\",\"method\":1}", badMethod, `"\ud83d\ude00"`, "comes back in ASCII"},
	{"id of 2^63", `{"jsonrpc":"2.0","id":9223372036854775808,"method":1}`, badMethod, `9223372036854775808`, "comes back exactly"},
}

func TestEachBadLineHasItsOneRejection(t *testing.T) {
	var p envelope.Parser
	for _, c := range rejections {
		m, r := p.Parse([]byte(c.line))
		if r == nil {
			t.Errorf("%s (%s): accepted as %+v", c.name, c.why, m)
			continue
		}
		if m.Kind != 0 || m.Method != "" || m.Params != nil || string(m.ID.Append(nil)) != "null" {
			t.Errorf("%s: a message came with the rejection", c.name)
		}
		code, known := texts[r.Text]
		if r.Text != c.text || !known || r.Code != code || r.Data != "" {
			t.Errorf("%s (%s): got %d %q %q, want %q", c.name, c.why, r.Code, r.Text, r.Data, c.text)
		}
		if id := string(r.ID.Append(nil)); id != c.id {
			t.Errorf("%s (%s): id %s, want %s", c.name, c.why, id, c.id)
		}
		want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`+"\n", c.id, code, quote(c.text))
		if got := string(r.Append([]byte("x"))); got != "x"+want {
			t.Errorf("%s: answer %s, want %s", c.name, got, want)
		}
		isAnswer(t, r.Append(nil))
	}
}

func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// isAnswer fails unless line is one line of printable ASCII and one JSON value with the members of a response.
func isAnswer(t *testing.T, line []byte) map[string]json.RawMessage {
	t.Helper()
	body, ended := bytes.CutSuffix(line, []byte("\n"))
	if !ended {
		t.Errorf("no newline ends %q", line)
	}
	for _, c := range body {
		if c < 0x20 || c >= 0x7F {
			t.Errorf("byte %#x in %q", c, line)
		}
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		t.Errorf("%q: %v", line, err)
	}
	_, result := members["result"]
	_, failure := members["error"]
	if len(members) != 3 || string(members["jsonrpc"]) != `"2.0"` || members["id"] == nil || result == failure {
		t.Errorf("%q is no response", line)
	}
	return members
}

func TestTooLongCarriesTheLimit(t *testing.T) {
	r := envelope.TooLong(framing.MaxFrameBytes)
	const want = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request: frame too large",` +
		`"data":{"max_frame_bytes":1048576}}}` + "\n"
	if got := string(r.Append(nil)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if texts[r.Text] != r.Code {
		t.Errorf("%d %q is not in the closed set", r.Code, r.Text)
	}
}

var messages = []struct {
	name, line string
	kind       envelope.Kind
	method     string
	params     string // "" if absent
	why        string
}{
	{"request", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, envelope.Request, "ping", "", "the least"},
	{"request with params", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, envelope.Request, "tools/call", `{"name":"x"}`, "raw"},
	{"any order", `{"params":{},"method":"ping","id":1,"jsonrpc":"2.0"}`, envelope.Request, "ping", `{}`, "members have no order"},
	{"white space", " {\t\"jsonrpc\" : \"2.0\" , \"id\" : 1 , \"method\" : \"ping\" , \"params\" : { } }\r ", envelope.Request, "ping", `{ }`, "around everything; a second CR of CR CR LF too"},
	{"escapes in names and values", `{"\u006asonrpc":"2.\u0030","id":1,"m\u0065thod":"p\u0069ng"}`, envelope.Request, "ping", "", "the same text"},
	{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"no/such"}`, envelope.Request, "no/such", "", "the session knows methods"},
	{"empty method", `{"jsonrpc":"2.0","id":1,"method":""}`, envelope.Request, "", "", "a string"},
	{"method in capitals", `{"jsonrpc":"2.0","id":1,"method":"PING"}`, envelope.Request, "PING", "", "another method, and unknown"},
	{"method with a lone surrogate", `{"jsonrpc":"2.0","id":1,"method":"\ud800"}`, envelope.Request, "\xed\xa0\x80", "", "no known method has one"},
	{"notification method as a request", `{"jsonrpc":"2.0","id":9,"method":"notifications/initialized"}`, envelope.Request, "notifications/initialized", "", "the id makes it a request"},
	{"30 levels", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"x":` + strings.Repeat("[", 30) + strings.Repeat("]", 30) + `}}}`, envelope.Request, "ping", `{"_meta":{"x":` + strings.Repeat("[", 30) + strings.Repeat("]", 30) + `}}`, "depth is fine outside arguments"},
	{"keys that differ in case, below", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"a":1,"A":2}}}`, envelope.Request, "ping", `{"_meta":{"a":1,"A":2}}`, "no duplicates"},
	{"lone surrogate in arguments", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":"\ud800"}}`, envelope.Request, "tools/call", `{"a":"\ud800"}`, "the sanitizer refuses it in band"},
	{"1e400 in arguments", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":1e400}}`, envelope.Request, "tools/call", `{"a":1e400}`, "the argument's type decides"},

	{"notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, envelope.Notification, "notifications/initialized", "", "no id"},
	{"notification with params", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, envelope.Notification, "notifications/cancelled", `{"requestId":1}`, "no id"},
	{"request method without an id", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}`, envelope.Notification, "tools/call", `{"name":"x"}`, "no id, no answer; nothing runs"},

	{"result", `{"jsonrpc":"2.0","id":1,"result":{}}`, envelope.Response, "", "", "we have asked nothing"},
	{"result null", `{"jsonrpc":"2.0","id":1,"result":null}`, envelope.Response, "", "", "a member like any other"},
	{"error", `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"x"}}`, envelope.Response, "", "", "we have asked nothing"},
	{"error with id null", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`, envelope.Response, "", "", "the answer to a line of ours that could not be read"},
	{"both", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}`, envelope.Response, "", "", "malformed, and ignored: an error with its id would answer a request of the client's"},
	{"result with a bad id", `{"jsonrpc":"2.0","id":[],"result":{}}`, envelope.Response, "", "", "ignored however malformed"},
	{"result without jsonrpc", `{"id":1,"result":{}}`, envelope.Response, "", "", "ignored however malformed"},
	{"result with more", `{"jsonrpc":"2.0","id":1,"result":{},"x":1}`, envelope.Response, "", "", "ignored however malformed"},
	{"result with a duplicate below", `{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}`, envelope.Response, "", "", "ignored however malformed"},
}

func TestEveryGoodLineIsOneMessage(t *testing.T) {
	var p envelope.Parser
	for _, c := range messages {
		m, r := p.Parse([]byte(c.line))
		if r != nil {
			t.Errorf("%s (%s): rejected: %d %s", c.name, c.why, r.Code, r.Text)
			continue
		}
		if m.Kind != c.kind || m.Method != c.method || string(m.Params) != c.params || (m.Params == nil) != (c.params == "") {
			t.Errorf("%s (%s): got kind %d %q %q, want %d %q %q", c.name, c.why, m.Kind, m.Method, m.Params, c.kind, c.method, c.params)
		}
		if hasID := string(m.ID.Append(nil)) != "null"; hasID != (c.kind == envelope.Request) {
			t.Errorf("%s: id %s of kind %d", c.name, m.ID.Append(nil), m.Kind)
		}
	}
}

func TestOneLineLeavesNothingForTheNext(t *testing.T) {
	var p envelope.Parser
	for _, before := range rejections {
		_, _ = p.Parse([]byte(before.line)) // tested above
		m, r := p.Parse([]byte(`{"jsonrpc":"2.0","method":"ping"}`))
		if r != nil || m.Kind != envelope.Notification || m.Method != "ping" || m.Params != nil {
			t.Errorf("after %s: %+v, %+v", before.name, m, r)
		}
	}
}

// idOf is the id of a request that is written so.
func idOf(t *testing.T, raw string) envelope.ID {
	t.Helper()
	m, r := new(envelope.Parser).Parse([]byte(`{"jsonrpc":"2.0","method":"ping","id":` + raw + `}`))
	if r != nil {
		t.Fatalf("id %s: %d %s", raw, r.Code, r.Text)
	}
	return m.ID
}

var ids = []struct{ name, raw, want, why string }{
	{"zero", `0`, `0`, "not to be mistaken for none"},
	{"minus zero", `-0`, `-0`, "as it came"},
	{"negative", `-7`, `-7`, "an integer"},
	{"2^53+1", `9007199254740993`, `9007199254740993`, "not through float64"},
	{"2^63", `9223372036854775808`, `9223372036854775808`, "not through int64"},
	{"-2^63-1", `-9223372036854775809`, `-9223372036854775809`, "not through int64"},
	{"400 digits", strings.Repeat("9", 400), strings.Repeat("9", 400), "as it came"},
	{"empty string", `""`, `""`, "a string, not none"},
	{"string", `"req-1"`, `"req-1"`, "as it came"},
	{"string of a number", `"1"`, `"1"`, "stays a string"},
	{"string null", `"null"`, `"null"`, "stays a string"},
	{"the longest", `"` + strings.Repeat("k", envelope.MaxIDBytes-2) + `"`, `"` + strings.Repeat("k", envelope.MaxIDBytes-2) + `"`, "at the bound"},
	{"300 characters", `"` + strings.Repeat("k", 300) + `"`, `"` + strings.Repeat("k", 300) + `"`, "as it came"},
	{"escapes", `"\u0061\/\n\"\\\u0000"`, `"\u0061\/\n\"\\\u0000"`, "as they came"},
	{"raw letter", "\"\u00e9\"", `"\u00e9"`, "in ASCII, an equal value"},
	{"U+2028", "\"\u2028\"", `"\u2028"`, "in ASCII: some readers end a line there"},
	{"raw DEL", "\"\x7f\"", `"\u007f"`, "no control character goes out"},
	{"raw emoji", "\"\U0001F600\"", `"\ud83d\ude00"`, "in ASCII, an equal value"},
	{"escaped emoji", `"\uD83D\uDE00"`, `"\uD83D\uDE00"`, "as it came"},
	{"lone surrogate", `"\ud800"`, `"\ud800"`, "as it came, not U+FFFD"},
}

func TestIDComesBackAsAnEqualValueInASCII(t *testing.T) {
	for _, c := range ids {
		id := idOf(t, c.raw)
		if got := string(id.Append([]byte("x"))); got != "x"+c.want {
			t.Errorf("%s (%s): got %s, want x%s", c.name, c.why, got, c.want)
		}
		if id.Size() != len(c.raw) || id.Clone().Size() != len(c.raw) {
			t.Errorf("%s: size %d, written in %d bytes", c.name, id.Size(), len(c.raw))
		}
		for _, line := range [][]byte{
			envelope.AppendError(nil, id, envelope.InternalError, "Internal error", nil),
			envelope.AppendResultTail(append(envelope.AppendResultHead(nil, id), `{}`...)),
		} {
			if got := string(isAnswer(t, line)["id"]); got != c.want {
				t.Errorf("%s: id of %q is %s", c.name, line, got)
			}
		}
	}
}

func TestIDOfNothingIsNull(t *testing.T) {
	if got := string(envelope.ID{}.Append(nil)); got != "null" {
		t.Errorf("got %s", got)
	}
	if got := string(envelope.ID{}.Clone().Append(nil)); got != "null" {
		t.Errorf("a clone is %s", got)
	}
	if n := (envelope.ID{}).Size(); n != 0 {
		t.Errorf("size %d", n)
	}
}

func TestKeysAreEqualWhenIDsAreTheSameValue(t *testing.T) {
	cases := []struct {
		a, b string
		same bool
		why  string
	}{
		{`1`, `1`, true, "the same text"},
		{`1`, `"1"`, false, "a number and a string"},
		{`0`, `-0`, true, "one number"},
		{`"0"`, `"-0"`, false, "two strings"},
		{`"-0"`, `0`, false, "a string and a number"},
		{`"a"`, `"\u0061"`, true, "one string"},
		{`"\u00e9"`, "\"\u00e9\"", true, "one string"},
		{`"\ud83d\ude00"`, "\"\U0001F600\"", true, "one string"},
		{`"\/"`, `"/"`, true, "one string"},
		{`"a"`, `"A"`, false, "two strings"},
		{"\"\u00e9\"", "\"e\u0301\"", false, "no normalization"},
		{`""`, `"\u0000"`, false, "nothing and NUL"},
		{`"\ud800"`, `"\ud801"`, false, "two lone surrogates, although a decoder makes both U+FFFD"},
		{`"\ud800"`, `"\ufffd"`, false, "a lone surrogate is not U+FFFD"},
		{`"\u0041\udc00"`, `"\u0042\udc01"`, false, "two strings with a lone low surrogate"},
		{`9007199254740992`, `9007199254740993`, false, "equal as float64 only"},
		{`"\"1"`, `1`, false, "a quote in a string"},
		{`""`, `"\""`, false, "a quote in a string"},
		{`"null"`, `"\u006eull"`, true, "one string"},
	}
	for _, c := range cases {
		a, b := idOf(t, c.a), idOf(t, c.b)
		if same := a.Key() == b.Key(); same != c.same {
			t.Errorf("%s and %s (%s): keys %q and %q", c.a, c.b, c.why, a.Key(), b.Key())
		}
	}
}

func TestCloneKeepsTheIDWhenTheLineIsReused(t *testing.T) {
	line := []byte(`{"jsonrpc":"2.0","id":"abc","method":"ping"}`)
	m, r := new(envelope.Parser).Parse(line)
	if r != nil {
		t.Fatal(r.Text)
	}
	id, key := m.ID.Clone(), m.ID.Key()
	for i := range line {
		line[i] = 'x'
	}
	if got := string(id.Append(nil)); got != `"abc"` || id.Key() != key {
		t.Errorf("id %s with key %q, want \"abc\" with %q", got, id.Key(), key)
	}
	if m.Method != "ping" {
		t.Errorf("method %q", m.Method)
	}
}

func TestAppendErrorWritesOneLineOfASCII(t *testing.T) {
	id := idOf(t, `7`)
	cases := []struct{ name, text, data, want, why string }{
		{"no data", "Method not found", "", `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found"}}`, "data is left out"},
		{"data", "x", `{"a":[1]}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"x","data":{"a":[1]}}}`, "raw JSON"},
		{"data of one byte", "x", `1`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"x","data":1}}`, "raw JSON"},
		{"text", "\u00e9\"\n", "", `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"\u00e9\"\n"}}`, "escaped"},
	}
	for _, c := range cases {
		got := envelope.AppendError([]byte{}, id, envelope.MethodNotFound, c.text, []byte(c.data))
		if string(got) != c.want+"\n" {
			t.Errorf("%s (%s): got %s, want %s", c.name, c.why, got, c.want)
		}
		isAnswer(t, got)
	}
}

func TestResultIsPutTogetherFromHeadAndTail(t *testing.T) {
	line := envelope.AppendResultHead([]byte("x"), idOf(t, `"a"`))
	line = envelope.AppendResultTail(append(line, `{"ok":true}`...))
	if want := `x{"jsonrpc":"2.0","id":"a","result":{"ok":true}}` + "\n"; string(line) != want {
		t.Errorf("got %s, want %s", line, want)
	}
	isAnswer(t, line[1:])
}

func TestCodesAreThoseOfJSONRPC(t *testing.T) {
	want := [...]int{-32700, -32600, -32601, -32602, -32603}
	got := [...]int{
		envelope.ParseError, envelope.InvalidRequest, envelope.MethodNotFound, envelope.InvalidParams, envelope.InternalError,
	}
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func BenchmarkParse(b *testing.B) {
	line := []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":{"q":"SELECT 1"}}}`)
	var p envelope.Parser
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, r := p.Parse(line); r != nil {
			b.Fatal(r.Text)
		}
	}
}
