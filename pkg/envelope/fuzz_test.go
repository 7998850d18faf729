package envelope_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"mcp-server-suite/pkg/envelope"
	"mcp-server-suite/pkg/strictjson"
)

// Every line is a message or has a rejection, never both. What is accepted is what encoding/json reads from the line,
// with the same id on the way back. What is rejected is answered by one line of ASCII whose texts are from a closed set.
func FuzzParse(f *testing.F) {
	for _, c := range rejections {
		if len(c.line) < 4<<10 {
			f.Add([]byte(c.line))
		}
	}
	for _, c := range messages {
		f.Add([]byte(c.line))
	}
	for _, c := range ids {
		f.Add([]byte(`{"jsonrpc":"2.0","method":"ping","id":` + c.raw + `}`))
	}
	for _, c := range metas {
		f.Add([]byte(`{"jsonrpc":"2.0","method":"x","params":` + strings.Replace(c.raw, "{{}}", `"name":"x"`, 1) + `}`))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, r := new(envelope.Parser).Parse(line)
		if r != nil {
			if m.Kind != 0 || m.Method != "" || m.Params != nil || string(m.ID.Append(nil)) != "null" {
				t.Fatalf("%q: both %+v and %+v", line, m, r)
			}
			checkRejection(t, line, r)
			return
		}
		members := standard(t, line)
		_, hasID := members["id"]
		_, hasMethod := members["method"]
		switch m.Kind {
		case envelope.Request:
			sameID(t, members["id"], m.ID)
		case envelope.Notification:
			if hasID {
				t.Fatalf("%q: a notification with an id", line)
			}
		case envelope.Response:
			_, result := members["result"]
			_, failure := members["error"]
			if hasMethod || !result && !failure || m.Params != nil || m.Method != "" {
				t.Fatalf("%q: taken for a response: %+v", line, m)
			}
			return
		}
		if string(members["jsonrpc"]) == "" || text(t, members["jsonrpc"]) != "2.0" || !hasMethod {
			t.Fatalf("%q is accepted", line)
		}
		if method, ok := strictjson.String(members["method"]); !ok || method != m.Method {
			t.Fatalf("%q: method %q, want %q", line, m.Method, method)
		}
		if !bytes.Equal(members["params"], m.Params) {
			t.Fatalf("%q: params %q, want %q", line, m.Params, members["params"])
		}
		for name := range members {
			if name != "jsonrpc" && name != "id" && name != "method" && name != "params" {
				t.Fatalf("%q is accepted with the member %q", line, name)
			}
		}
		checkParams(t, m.Params)
	})
}

func standard(t *testing.T, line []byte) (members map[string]json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal(line, &members); err != nil {
		t.Fatalf("encoding/json does not read %q: %v", line, err)
	}
	return members
}

func text(t *testing.T, raw []byte) (s string) {
	t.Helper()
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatalf("%q is no string: %v", raw, err)
	}
	return s
}

// sameID fails unless the id goes out as ASCII that encoding/json reads as the value of raw.
func sameID(t *testing.T, raw []byte, id envelope.ID) {
	t.Helper()
	out := id.Append(nil)
	if !reflect.DeepEqual(number(t, out), number(t, raw)) {
		t.Fatalf("id %.200q goes out as %.200q", raw, out)
	}
	// encoding/json cannot tell lone surrogates apart.
	was, wasString := strictjson.String(raw)
	is, isString := strictjson.String(out)
	if was != is || wasString != isString {
		t.Fatalf("id %.200q goes out as %.200q", raw, out)
	}
	if len(out) <= envelope.MaxIDBytes { // escapes are longer: what goes out is not always short enough to come in again
		again, r := new(envelope.Parser).Parse(append(append([]byte(`{"jsonrpc":"2.0","method":"x","id":`), out...), '}'))
		if r != nil || again.ID.Key() != id.Key() {
			t.Fatalf("id %.200q goes out as %.200q, which has another key: %+v", raw, out, r)
		}
	}
	if clone := id.Clone(); clone.Key() != id.Key() || !bytes.Equal(clone.Append(nil), out) {
		t.Fatalf("id %.200q has the clone %.200q", raw, clone.Append(nil))
	}
	isAnswer(t, envelope.AppendResultTail(append(envelope.AppendResultHead(nil, id), "{}"...)))
}

func number(t *testing.T, raw []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("encoding/json does not read %q: %v", raw, err)
	}
	switch v.(type) {
	case string, json.Number:
		return v
	}
	t.Fatalf("%q is no id", raw)
	return nil
}

func checkRejection(t *testing.T, line []byte, r *envelope.Rejection) {
	t.Helper()
	code, known := texts[r.Text]
	if !known || r.Code != code || r.Data != "" {
		t.Fatalf("%q: %d %q %q is not in the closed set", line, r.Code, r.Text, r.Data)
	}
	answer := isAnswer(t, r.Append(nil))
	if string(answer["id"]) == "null" {
		return
	}
	if r.Code == envelope.ParseError {
		t.Fatalf("%q: an id comes back from what is no JSON", line)
	}
	members := standard(t, line)
	sameID(t, members["id"], r.ID)
	if _, hasMethod := members["method"]; !hasMethod && (members["result"] != nil || members["error"] != nil) {
		t.Fatalf("%q: the id of a response comes back", line)
	}
}

// checkParams gives params to every parser of them, whatever the method.
func checkParams(t *testing.T, raw []byte) {
	t.Helper()
	in, faulty := envelope.ParseInitialize(raw)
	if !isFaulty(faulty) || faulty != "" && in != (envelope.Initialize{}) {
		t.Fatalf("initialize %q: %+v, %q", raw, in, faulty)
	}
	call, faulty := envelope.ParseCall(raw)
	if !isFaulty(faulty) || faulty != "" && (call.Name != "" || call.Arguments != nil) {
		t.Fatalf("call %q: %+v, %q", raw, call, faulty)
	}
	if call.Arguments != nil && !json.Valid(call.Arguments) {
		t.Fatalf("call %q: arguments %q", raw, call.Arguments)
	}
	if key, ok := envelope.ParseCancelled(raw); ok == (key == "") {
		t.Fatalf("cancelled %q: %q, %t", raw, key, ok)
	}
	if faulty := envelope.ParseList(raw); !isFaulty(faulty) {
		t.Fatalf("list %q: %q", raw, faulty)
	}
	if faulty := envelope.ParseMeta(raw); !isFaulty(faulty) {
		t.Fatalf("meta %q: %q", raw, faulty)
	}
}
