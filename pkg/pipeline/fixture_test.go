package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-server-suite/pkg/admission"
	"mcp-server-suite/pkg/contract"
	"mcp-server-suite/pkg/problem"
	"mcp-server-suite/pkg/sanitizer"
	"mcp-server-suite/pkg/surface"
)

// Bounds of the stage. The reply of the tool takes about 1 KiB of the budget.
const (
	slots       = 2
	wait        = 5 * time.Second
	timeout     = 30 * time.Second
	budgetBytes = 4 << 10
	replyBytes  = 1 << 10
)

// run is a tool's work.
type run func(context.Context, contract.Values) (contract.Result, error)

// stage is a pipeline with one tool whose work the test decides, and everything that can be seen of it from outside.
type stage struct {
	*Pipeline
	desk *desk
	log  *logged
	ran  atomic.Int64 // how often the tool was reached
}

// logged is the log's text.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newSchema(t testing.TB, properties ...contract.Property) contract.Schema {
	t.Helper()
	s, err := contract.NewSchema(properties...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// aTool has the name "tool", takes a text and a number, and gives a text.
func aTool(t testing.TB, work run) surface.Tool {
	t.Helper()
	return surface.Tool{
		Name: "tool", Title: "A tool", Description: "Does what the test says.",
		Input:      newSchema(t, contract.String("text", "").Default(""), contract.Int("number", "").Between(0, 10).Default(0)),
		Output:     newSchema(t, contract.String("said", "")),
		ReplyBytes: func(contract.Values) int { return replyBytes - frameBytes },
		Run:        work,
	}
}

func said(text string) contract.Result { return contract.Result{{Name: "said", Value: text}} }

// echo gives back what it was given.
func echo(_ context.Context, v contract.Values) (contract.Result, error) {
	return said(v.String("text")), nil
}

func newStage(t testing.TB, work run, change ...func(*Settings)) *stage {
	t.Helper()
	s := &stage{log: &logged{}}
	tool := aTool(t, func(ctx context.Context, v contract.Values) (contract.Result, error) {
		s.ran.Add(1)
		return work(ctx, v)
	})
	settings := Settings{
		Surface:   must(surface.Seal(surface.Server{Name: "test", Version: "1"}, surface.Offer{Tools: []surface.Tool{tool}})),
		Sanitizer: must(sanitizer.New(sanitizer.Settings{MaxDepth: 8, MaxItems: 1000})),
		Slots:     must(admission.NewSlots(slots, wait)),
		Budget:    must(admission.NewBudget(budgetBytes, wait)),
		Timeout:   timeout,
		Log:       slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&settings)
	}
	s.Pipeline = must(New(settings))
	s.desk = &desk{Slots: settings.Slots}
	return s
}

// desk joins the line and waits in one step, and gives back the slot that was taken first.
type desk struct {
	*admission.Slots
	mu   sync.Mutex
	held []*admission.Place
}

func (d *desk) Acquire(ctx context.Context) error {
	p := d.Join()
	if err := p.Wait(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	d.held = append(d.held, p)
	d.mu.Unlock()
	return nil
}

func (d *desk) Release() {
	d.mu.Lock()
	p := d.held[0]
	d.held = d.held[1:]
	d.mu.Unlock()
	p.Leave()
}

// must is for the making of parts, where an error is a mistake of the test.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// call runs the tool with these arguments and gives back what the answer holds.
func (s *stage) call(ctx context.Context, arguments string) Answer {
	in := Call{Name: "tool"}
	if arguments != "" {
		in.Arguments = []byte(arguments)
	}
	return s.Run(ctx, in, nil)
}

// isWhole says whether nothing is held any more: every slot and every byte can be taken. It waits for work that was
// abandoned.
func (s *stage) isWhole(t testing.TB) bool {
	t.Helper()
	for range slots {
		if err := s.desk.Acquire(context.Background()); err != nil {
			t.Errorf("a slot is lost: %v", err)
			return false
		}
	}
	for range slots {
		s.desk.Release()
	}
	r, err := s.Budget.Reserve(context.Background(), budgetBytes)
	if err != nil {
		t.Errorf("reply bytes are lost: %v", err)
		return false
	}
	r.Release()
	return true
}

// shape is an answer in one line, for tables: "result TEXT" (what the tool said), "in-band REASON: DETAIL",
// "error REASON: DETAIL" or "silence". It holds what must be so of every answer, and releases it.
func shape(t testing.TB, a Answer) string {
	t.Helper()
	ways := 0
	for _, holds := range []bool{a.Result != nil, a.Refusal != nil, a.Silent} {
		if holds {
			ways++
		}
	}
	if ways != 1 {
		t.Errorf("an answer in %d ways: %+v", ways, a)
	}
	if a.Release != nil {
		defer a.Release()
		if a.Result == nil {
			t.Error("bytes are reserved for no result")
		}
	}
	switch {
	case a.Silent:
		return "silence"
	case a.Refusal != nil:
		return "error " + string(a.Refusal.Reason) + ": " + a.Refusal.Detail
	}
	got := readResult(t, a.Result)
	if !got.IsError {
		if a.Release == nil {
			t.Error("no bytes are reserved for a result")
		}
		return "result " + got.Structured.Said
	}
	var document struct{ Reason, Detail string }
	if err := json.Unmarshal([]byte(got.Content[0].Text), &document); err != nil {
		t.Errorf("the text of %s is no problem document: %v", a.Result, err)
	}
	return "in-band " + document.Reason + ": " + document.Detail
}

// result is a tools/call result as a client reads it.
type result struct {
	Raw        json.RawMessage `json:"structuredContent"`
	Structured struct{ Said string }
	Content    []struct{ Type, Text string }
	IsError    bool
}

// readResult holds what must be so of every result: ASCII on one line, no unknown member, one text block; structured
// content beside an identical text, or none beside an error.
func readResult(t testing.TB, raw []byte) (r result) {
	t.Helper()
	for _, c := range raw {
		if c < ' ' || c > '~' {
			t.Errorf("byte %#x in the result %q", c, raw)
		}
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil || d.More() {
		t.Fatalf("the result %q: %v", raw, err)
	}
	if len(r.Content) != 1 || r.Content[0].Type != "text" {
		t.Fatalf("the result %q has not exactly one text block", raw)
	}
	switch {
	case r.IsError && r.Raw != nil:
		t.Errorf("the error %q has structured content, which would not match the schema", raw)
	case r.IsError:
	case string(r.Raw) != r.Content[0].Text:
		t.Errorf("the text block of %q is not the structured content", raw)
	default:
		if err := json.Unmarshal(r.Raw, &r.Structured); err != nil {
			t.Errorf("structured content of %q: %v", raw, err)
		}
	}
	return r
}

// recorder is an audit that keeps everything, or fails.
type recorder struct {
	mu     sync.Mutex
	events []Event
	fails  error
	ctx    error // the error of the context that the last event came with
}

func (r *recorder) Record(ctx context.Context, e Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	r.ctx = ctx.Err()
	return r.fails
}

func recording(r *recorder) func(*Settings) { return func(s *Settings) { s.Recorder = r } }

func withEcho(s *Settings) { s.ErrorEcho = true }

// secret stands for what a caller may send and must not find in an error or a log.
const secret = "IGNORE-ALL-RULES"

var errFault = errors.New("the disk is on fire")

// whole is everything that an answer says, in one string.
func whole(a Answer) string {
	text := string(a.Result)
	if a.Refusal != nil {
		text += a.Refusal.Error() + string(a.Refusal.Append(nil, false))
	}
	return text
}

func refusal(reason problem.Reason) *problem.Problem {
	return problem.New(reason, "the tool says "+strings.ToLower(string(reason)))
}
