package mcpserve_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-server-suite/pkg/admission"
	"mcp-server-suite/pkg/contract"
	"mcp-server-suite/pkg/mcpserve"
	"mcp-server-suite/pkg/pipeline"
	"mcp-server-suite/pkg/sanitizer"
	"mcp-server-suite/pkg/surface"
)

const (
	grace       = 5 * time.Second
	afterCancel = time.Second // what Serve gives cancelled calls and the last answers
	budgetBytes = 1 << 20
	replyBytes  = 64 << 10
)

// rig is a session over two pipes, inside a bubble of testing/synctest: time stands still until everybody waits, so a
// bound is held exactly or not at all.
type rig struct {
	t      *testing.T
	gate   *admission.Gate
	budget *admission.Budget
	log    *text
	in     *io.PipeWriter // the client's end of the input
	out    *io.PipeReader // the client's end of the output
	drain  chan struct{}
	abort  chan struct{}
	hangup chan struct{}
	calls  chan *work // calls that have reached the tool, and reads that have reached a resource

	resources []surface.Resource // offered beside the tool

	served  error
	over    chan struct{} // Serve has returned
	reading sync.WaitGroup

	mu    sync.Mutex
	lines []string
}

// work is one call in the tool. It ends when the test says how, or with its context unless it is stubborn.
type work struct {
	name string
	ctx  context.Context
	end  chan error // nil is a result
}

// text is a log that is kept.
type text struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// inBubble runs a test against a session. read says whether the client reads what it gets.
func inBubble(t *testing.T, read bool, test func(*rig)) {
	t.Helper()
	inBubbleWith(t, read, func(*rig) {}, test)
}

// inBubbleWith lets the test change the rig before its server is made.
func inBubbleWith(t *testing.T, read bool, prepare, test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		prepare(r)
		server := r.server()
		in, theirIn := io.Pipe()
		theirOut, out := io.Pipe()
		r.in, r.out = theirIn, theirOut
		go func() {
			r.served = server.Serve(in, out, mcpserve.Control{Drain: r.drain, Abort: r.abort, Hangup: r.hangup})
			close(r.over)
			_ = out.Close() // as the end of the process does
		}()
		if read {
			r.read()
		}
		test(r)
		_ = r.in.Close()
		_ = r.out.Close()
		<-r.over
		r.reading.Wait()
	})
}

func newRig(t *testing.T) *rig {
	t.Helper()
	gate, err1 := admission.NewGate(8)
	budget, err2 := admission.NewBudget(budgetBytes, time.Second)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return &rig{
		t: t, gate: gate, budget: budget, log: &text{},
		drain: make(chan struct{}), abort: make(chan struct{}), hangup: make(chan struct{}), over: make(chan struct{}),
		calls: make(chan *work, 100),
	}
}

// server has one tool, which does what the test says; the name in its argument tells its calls apart.
func (r *rig) server() *mcpserve.Server {
	r.t.Helper()
	input, err1 := contract.NewSchema(contract.String("name", "").Default(""), contract.Bool("stubborn", "").Default(false),
		contract.Bool("panic", "").Default(false))
	output, err2 := contract.NewSchema(contract.String("said", ""))
	tool := surface.Tool{
		Name: "tool", Title: "A tool", Description: "Does what the test says.", Input: input, Output: output,
		ReplyBytes: func(contract.Values) int { return replyBytes },
		Run:        r.run,
	}
	sealed, err3 := surface.Seal(surface.Server{Name: "rig", Version: "1", Instructions: "None."},
		surface.Offer{Tools: []surface.Tool{tool}, Resources: r.resources})
	clean, err4 := sanitizer.New(sanitizer.Settings{MaxDepth: 8, MaxItems: 100})
	slots, err5 := admission.NewSlots(4, time.Second)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		r.t.Fatal(err)
	}
	log := slog.New(slog.NewJSONHandler(r.log, nil))
	calls, err := pipeline.New(pipeline.Settings{
		Surface: sealed, Sanitizer: clean, Slots: slots, Budget: r.budget, Timeout: time.Hour, Log: log,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	server, err := mcpserve.New(mcpserve.Settings{Surface: sealed, Pipeline: calls, Gate: r.gate, Grace: grace, Log: log})
	if err != nil {
		r.t.Fatal(err)
	}
	return server
}

func (r *rig) run(ctx context.Context, v contract.Values) (contract.Result, error) {
	if v.Bool("panic") {
		panic(v.String("name"))
	}
	w := &work{name: v.String("name"), ctx: ctx, end: make(chan error, 1)}
	r.calls <- w
	done := ctx.Done()
	if v.Bool("stubborn") {
		done = nil
	}
	select {
	case err := <-w.end:
		return contract.Result{{Name: "said", Value: w.name}}, err
	case <-done:
		return nil, fmt.Errorf("the tool was told to stop: %w", ctx.Err())
	}
}

// read takes the answers as they come.
func (r *rig) read() {
	r.reading.Go(func() {
		lines := bufio.NewScanner(r.out)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			r.mu.Lock()
			r.lines = append(r.lines, lines.Text())
			r.mu.Unlock()
		}
	})
}

// send writes lines as one piece and waits until all is quiet again.
func (r *rig) send(lines ...string) {
	r.t.Helper()
	if _, err := io.WriteString(r.in, strings.Join(lines, "\n")+"\n"); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

func (r *rig) endInput() {
	_ = r.in.Close()
	synctest.Wait()
}

// answers returns what has come since the last time.
func (r *rig) answers() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.lines
	r.lines = nil
	return got
}

// expect requires exactly these answers, in this order.
func (r *rig) expect(want ...string) {
	r.t.Helper()
	if got := r.answers(); !slices.Equal(got, want) {
		r.t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// open is the handshake.
func (r *rig) open() {
	r.t.Helper()
	r.send(initialize("0"), `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if got := r.answers(); len(got) != 1 || !strings.HasPrefix(got[0], `{"jsonrpc":"2.0","id":0,"result":{`) {
		r.t.Fatalf("handshake: %s", got)
	}
}

// next is the call that has reached the tool.
func (r *rig) next() *work {
	r.t.Helper()
	synctest.Wait()
	select {
	case w := <-r.calls:
		return w
	default:
		r.t.Fatal("no call has reached the tool")
		return nil
	}
}

// endsAfter requires that Serve returns after exactly this time, with this error.
func (r *rig) endsAfter(d time.Duration, want error) {
	r.t.Helper()
	begin := time.Now()
	select {
	case <-r.over:
	case <-time.After(time.Hour):
		r.t.Fatal("Serve does not return")
	}
	if took := time.Since(begin); took != d || !errors.Is(r.served, want) {
		r.t.Errorf("Serve returned %v after %v, want %v after %v", r.served, took, want, d)
	}
}

// nothingHeld requires that no call holds a place or bytes any more.
func (r *rig) nothingHeld() {
	r.t.Helper()
	synctest.Wait()
	held, err := r.budget.Reserve(r.t.Context(), budgetBytes)
	if err != nil {
		r.t.Errorf("reply bytes are still reserved: %v", err)
		return
	}
	held.Release()
	for range 8 {
		if !r.gate.Enter(0) {
			r.t.Error("a call is still counted as alive")
			return
		}
		defer r.gate.Leave(0)
	}
}

func initialize(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"t","version":"1"}}}`
}

func ping(id any) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"ping"}`, id) }

func pong(id any) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{}}`, id) }

func call(id any, name string) string { return callWith(id, fmt.Sprintf(`{"name":%q}`, name)) }

func callWith(id any, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"tools/call","params":{"name":"tool","arguments":%s}}`, id, arguments)
}

func said(id any, name string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{"structuredContent":{"said":%q},"content":[{"type":"text",`+
		`"text":"{\"said\":\"%s\"}"}],"isError":false}}`, id, name, name)
}

func cancelled(id any) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%v}}`, id)
}
