package daemon_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-server-suite/pkg/rawclient"
	"mcp-server-suite/pkg/stage"
)

func TestMain(m *testing.M) { stage.Main(m) }

const (
	// wiretest is the tag of the build with the tool rows, which sleeps and answers with as much as it is told.
	wiretest = "wiretest"

	newest = "2025-11-25" // protocol version
)

// session is a conversation with the real daemon. When the test ends it must end well: see start.
type session struct {
	*rawclient.Client
	t *testing.T
}

// start starts the wiretest daemon with these settings. At the end of the test, if the test has not ended the daemon
// itself: its input is closed, it must exit with 0, and it must not have said anything that nobody has read.
func start(t *testing.T, env ...string) session {
	t.Helper()
	return startAs(t, stage.Options{Tags: wiretest, Env: env})
}

func startAs(t *testing.T, o stage.Options) session {
	t.Helper()
	s := launch(t, stage.Daemon(t, o))
	t.Cleanup(func() {
		if t.Failed() {
			if log := s.Stderr(); log != "" {
				t.Logf("stderr: %.4000s", log)
			}
			return
		}
		_ = s.CloseInput() // closed already if the test did it
		if e := s.wait(); e.Code != 0 {
			t.Errorf("exit %d, signal %v; stderr: %s", e.Code, e.Signal, s.Stderr())
		}
		for _, line := range s.rest() {
			t.Errorf("left over: %.300s", line)
		}
		if log := s.Stderr(); strings.Contains(log, "panic") {
			t.Errorf("stderr: %s", log)
		}
	})
	return s
}

// launch starts a daemon for tests that look at its end themselves.
func launch(t *testing.T, cmd *exec.Cmd) session {
	t.Helper()
	c, err := rawclient.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return session{c, t}
}

// open is start and the handshake.
func open(t *testing.T, env ...string) session {
	t.Helper()
	s := start(t, env...)
	s.handshake(newest)
	return s
}

// handshake opens the session and returns the result of initialize.
func (s session) handshake(version string) json.RawMessage {
	s.t.Helper()
	a, err := s.Handshake(version)
	if err != nil {
		s.t.Fatalf("handshake: %v; stderr: %s", err, s.Stderr())
	}
	if a.Error != nil {
		s.t.Fatalf("handshake: %+v", a.Error)
	}
	return a.Result
}

func (s session) send(text string) {
	s.t.Helper()
	if err := s.Send([]byte(text)); err != nil {
		s.t.Fatalf("send: %v", err)
	}
}

// request sends a request whose answer will be awaited.
func (s session) request(id any, method, params string) {
	s.t.Helper()
	if err := s.Request(fmt.Sprint(id), method, params); err != nil {
		s.t.Fatalf("request %v: %v", id, err)
	}
}

func (s session) await(id any) rawclient.Answer {
	s.t.Helper()
	line, err := s.Await(fmt.Sprint(id))
	if err != nil {
		s.t.Fatalf("await: %v; stderr: %s", err, s.Stderr())
	}
	return decode(s.t, line)
}

func (s session) notify(method, params string) {
	s.t.Helper()
	if err := s.Notify(method, params); err != nil {
		s.t.Fatalf("notify: %v", err)
	}
}

// cancel cancels a request; no answer to it may come any more, which start checks at the end.
func (s session) cancel(id any) {
	s.t.Helper()
	s.Forget(fmt.Sprint(id))
	s.notify("notifications/cancelled", fmt.Sprintf(`{"requestId":%v}`, id))
}

// ping sends a ping and returns how long the answer took.
func (s session) ping() time.Duration {
	s.t.Helper()
	begin := time.Now()
	a, err := s.Call("ping", "")
	if err != nil {
		s.t.Fatalf("ping: %v; stderr: %s", err, s.Stderr())
	}
	if string(a.Result) != "{}" {
		s.t.Fatalf("ping: %s", a.Result)
	}
	return time.Since(begin)
}

// call calls a tool and waits for the outcome.
func (s session) call(tool, arguments string) outcome {
	s.t.Helper()
	a, err := s.Call("tools/call", callParams(tool, arguments))
	if err != nil {
		s.t.Fatalf("call: %v; stderr: %s", err, s.Stderr())
	}
	return outcomeOf(s.t, a)
}

func callParams(tool, arguments string) string {
	return fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments)
}

func (s session) wait() rawclient.Exit {
	s.t.Helper()
	e, err := s.Wait()
	if err != nil {
		s.t.Fatalf("%v; stderr: %s", err, s.Stderr())
	}
	return e
}

// rest returns the lines that are left until the output ends.
func (s session) rest() (lines [][]byte) {
	s.t.Helper()
	for {
		line, err := s.Line()
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
			return lines
		}
		if err != nil {
			s.t.Fatalf("output: %v", err)
		}
		lines = append(lines, line)
	}
}

func (s session) figures() rawclient.Figures {
	s.t.Helper()
	f, err := s.Figures()
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

func decode(t *testing.T, line []byte) rawclient.Answer {
	t.Helper()
	a, err := rawclient.Decode(line)
	if err != nil {
		t.Fatalf("%v: %.300s", err, line)
	}
	return a
}

// outcome is what a tools/call has come to: a result, or a refusal inside it or beside it.
type outcome struct {
	Structured json.RawMessage // nil for a refusal
	Refusal    *document
	Code       int // of the JSON-RPC error; 0 if the refusal is in the result
}

// document is the RFC 9457 document of a refusal.
type document struct {
	Type          string   `json:"type"`
	Title         string   `json:"title"`
	Status        int      `json:"status"`
	Detail        string   `json:"detail"`
	Code          string   `json:"code"`
	Reason        string   `json:"reason"`
	InvalidParams []string `json:"invalid_params"`
	Metadata      struct {
		Retryable    bool `json:"retryable"`
		RetryAfterMS int  `json:"retry_after_ms"`
	} `json:"metadata"`
}

// classes is seed 000's table of codes, written down once more so that a change of ours shows.
var classes = map[string]struct {
	kind, title string
	status      int
}{
	"MCP_VALIDATION_ERROR":  {"validation-error", "Invalid tool arguments", 422},
	"MCP_ACCESS_DENIED":     {"access-denied", "Access to the requested resource is denied", 403},
	"MCP_QUERY_VIOLATION":   {"query-violation", "Query violates the read-only policy", 403},
	"MCP_EXECUTION_TIMEOUT": {"execution-timeout", "Execution timed out", 504},
	"MCP_INTERNAL_ERROR":    {"internal-error", "Internal error", 500},
}

// readDocument decodes a refusal and checks it against the table of codes.
func readDocument(text []byte) (*document, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var doc document
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("not a problem document: %w: %.300s", err, text)
	}
	class, known := classes[doc.Code]
	if !known || doc.Type != "urn:mcp-server-suite:problem:"+class.kind || doc.Title != class.title ||
		doc.Status != class.status || doc.Detail == "" || doc.Reason == "" || doc.InvalidParams == nil {
		return nil, fmt.Errorf("a problem document that contradicts the table: %s", text)
	}
	return &doc, nil
}

// outcomeOf checks the form of an answer to tools/call (seed 000, tool contracts and error model).
func outcomeOf(t *testing.T, a rawclient.Answer) outcome {
	t.Helper()
	if a.Error != nil {
		doc, err := readDocument(a.Error.Data)
		if err != nil {
			t.Fatalf("error %d %q: %v", a.Error.Code, a.Error.Message, err)
		}
		return outcome{Refusal: doc, Code: a.Error.Code}
	}
	var r struct {
		Structured json.RawMessage `json:"structuredContent"`
		Content    []struct{ Type, Text string }
		IsError    *bool
	}
	d := json.NewDecoder(bytes.NewReader(a.Result))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil || r.IsError == nil || len(r.Content) != 1 || r.Content[0].Type != "text" {
		t.Fatalf("not the form of a result: %v: %.300s", err, a.Result)
	}
	if !*r.IsError {
		if string(r.Structured) != r.Content[0].Text {
			t.Fatalf("the text block is not the structured content: %.300s", a.Result)
		}
		return outcome{Structured: r.Structured}
	}
	doc, err := readDocument([]byte(r.Content[0].Text))
	if err != nil || r.Structured != nil {
		t.Fatalf("refusal: %v, structured content %.300s", err, r.Structured)
	}
	return outcome{Refusal: doc}
}

// reason is the reason of a refusal, "" for a result.
func (o outcome) reason() string {
	if o.Refusal == nil {
		return ""
	}
	return o.Refusal.Reason
}

// refused requires a refusal inside a result, with this reason and these parameters.
func (o outcome) refused(t *testing.T, reason string, params ...string) {
	t.Helper()
	switch {
	case o.Refusal == nil:
		t.Errorf("not refused: %.300s", o.Structured)
	case o.Refusal.Reason != reason || !slices.Equal(o.Refusal.InvalidParams, params) || o.Code != 0:
		t.Errorf("refused with %s %v (error %d: %s), want %s %v", o.Refusal.Reason, o.Refusal.InvalidParams, o.Code,
			o.Refusal.Detail, reason, params)
	}
}

// into decodes the structured content of a result.
func into[T any](t *testing.T, o outcome) (v T) {
	t.Helper()
	if o.Refusal != nil {
		t.Fatalf("refused: %s: %s", o.Refusal.Reason, o.Refusal.Detail)
	}
	d := json.NewDecoder(bytes.NewReader(o.Structured))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %.300s", err, o.Structured)
	}
	return v
}
