package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"mcp-server-suite/pkg/admission"
	"mcp-server-suite/pkg/contract"
	"mcp-server-suite/pkg/problem"
	"mcp-server-suite/pkg/sanitizer"
	"mcp-server-suite/pkg/surface"
)

// Why a call's context ended. The session cancels with one of the first two as the cause; the third is the pipeline's
// own deadline.
var (
	ErrClientCancelled = errors.New("cancelled by the client")
	ErrShutdown        = errors.New("the session is ending")
	ErrDeadline        = errors.New("the deadline of the call has passed")
)

// Kind says what a call wants. Everything that leads to work is a call, and walks the same list of guards.
type Kind uint8

// The kinds of calls. The zero value calls a tool.
const (
	CallTool     Kind = iota // tools/call
	ReadResource             // resources/read; no arguments but the URI, no channel for a refusal in its result
)

// Event is what the audit gets to see of one call, after everything is decided and before anything leaves.
type Event struct {
	Kind      Kind
	Name      string // of the tool, or the resource's URI, as the caller wrote it; may be the name of nothing
	Arguments []byte // raw JSON, nil if absent
	Reason    problem.Reason
	Silent    bool // cancelled: nothing is answered
	Elapsed   time.Duration
}

// Recorder is the audit's seat. An error means that the event is not recorded; its outcome is then withheld.
type Recorder interface {
	Record(context.Context, Event) error
}

// Settings are the parts of a pipeline. All but Recorder are required.
type Settings struct {
	Surface   *surface.Surface
	Sanitizer *sanitizer.Sanitizer
	Slots     *admission.Slots
	Budget    *admission.Budget
	Timeout   time.Duration // of one call, from its slot to its encoded answer
	ErrorEcho bool          // repeat the caller's text in refusals, quoted and bounded
	Log       *slog.Logger
	Recorder  Recorder
}

// Call is what comes in: a kind, a name, and for a tool a raw object of arguments (nil if absent), which belongs to the
// call from then on: work that was abandoned at its deadline may still read it when the answer has long left.
type Call struct {
	Kind      Kind
	Name      string           // of a tool, or the URI of a resource
	Place     *admission.Place // its place in the line for a slot; nil joins the line when the call comes to that guard
	Arguments []byte
}

// Answer is what goes out. Exactly one of Result, Refusal and Silent holds.
type Answer struct {
	Result  []byte           // what stood in the given buffer, with one raw JSON result object appended
	Refusal *problem.Problem // goes out as a JSON-RPC error with the document in its data
	Silent  bool             // nothing goes out

	// Release gives back the bytes that are reserved for Result; it must be called once they are written or dropped. It
	// is nil where nothing is reserved: a refusal is short.
	Release func()
}

// Pipeline runs calls. It may be shared.
type Pipeline struct {
	Settings
	run next
}

// call is the state of one call on its way through the guards.
type call struct {
	Call
	target  target // nil until role has found it
	values  contract.Values
	promise int // the most bytes that the answer may take
	reserve *admission.Reservation
	result  contract.Result // of a tool
	text    []byte          // of a resource
	out     []byte          // the caller's buffer; the encoder appends to it
	head    int             // bytes that stood in out before
	working bool            // the work has the slot and gives it back
}

// next is the rest of the list from some guard on. The error says how the call ended: nil is a result in out.
type next func(context.Context, *call) error

// guard decides and hands on.
type guard func(*Pipeline, context.Context, *call, next) error

// order is the list, outermost guard first.
var order = []guard{
	(*Pipeline).audit,     // sees every outcome; one that it cannot record does not leave
	(*Pipeline).role,      // may this session call the tool, or read the resource, at all
	(*Pipeline).sanitize,  // shape and code points of the arguments
	(*Pipeline).slot,      // one of the places of running calls, in order of arrival
	(*Pipeline).deadline,  // from here on the clock runs, and the work has a goroutine of its own
	(*Pipeline).arguments, // strict decoding against the published schema
	(*Pipeline).replySize, // bytes of the answer, reserved before the work
	(*Pipeline).work,      // the tool or the resource
	(*Pipeline).encode,    // the result contract, checked while the answer is written, once
}

// New checks the settings and puts the list together.
func New(s Settings) (*Pipeline, error) {
	if s.Surface == nil || s.Sanitizer == nil || s.Slots == nil || s.Budget == nil || s.Log == nil {
		return nil, errors.New("pipeline: a part is missing")
	}
	if s.Timeout <= 0 {
		return nil, fmt.Errorf("pipeline: timeout of %v", s.Timeout)
	}
	p := &Pipeline{Settings: s}
	p.run = p.chain(order)
	return p, nil
}

// chain puts a list together, outermost guard first.
func (p *Pipeline) chain(guards []guard) next {
	run := func(context.Context, *call) error { return nil }
	for i := len(guards) - 1; i >= 0; i-- {
		guard, inner := guards[i], run
		run = func(ctx context.Context, c *call) error { return guard(p, ctx, c, inner) }
	}
	return run
}

// Run takes a call through the guards and returns its answer. The result object is appended to buffer, which Run takes
// over: only what comes back as Result may be used again.
func (p *Pipeline) Run(ctx context.Context, in Call, buffer []byte) Answer {
	c := &call{Call: in, out: buffer, head: len(buffer)}
	err := p.protected(ctx, c, p.run)
	if c.Place != nil && !c.working {
		c.Place.Leave() // refused before its turn
	}
	return p.answer(c, err)
}

// Join takes the next place in the line for a slot, for a call that Run will be given.
func (p *Pipeline) Join() *admission.Place { return p.Slots.Join() }

// Overloaded answers a call for which there was no room even to wait. It is recorded like any other.
func (p *Pipeline) Overloaded(ctx context.Context, in Call, buffer []byte) Answer {
	c := &call{Call: in, out: buffer, head: len(buffer)}
	busy := func(context.Context, *call) error { return busy("too many calls are waiting already") }
	return p.answer(c, p.protected(ctx, c, func(ctx context.Context, c *call) error { return p.audit(ctx, c, busy) }))
}

// retryAfterMS is the advice in a BUSY refusal, in milliseconds: long enough for a slot to come free in ordinary use.
const retryAfterMS = 1000

func busy(detail string) *problem.Problem {
	refusal := problem.New(problem.Busy, detail)
	refusal.RetryAfterMS = retryAfterMS
	return refusal
}

// protocolError is a refusal that goes out as a JSON-RPC error, because the message is wrong and not the call. The
// result of a read cannot say that it is a refusal, so there every refusal goes out like that.
type protocolError struct{ *problem.Problem }

func (e protocolError) Unwrap() error { return e.Problem }

// internal is the one answer to every fault. A panic is logged where it is caught and returned as this very value.
var internal = problem.New(problem.Internal, "the server failed; its log has the cause")
