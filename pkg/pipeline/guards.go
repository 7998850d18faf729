package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"mcp-server-suite/pkg/admission"
	"mcp-server-suite/pkg/problem"
	"mcp-server-suite/pkg/sanitizer"
	"mcp-server-suite/pkg/strictjson"
)

func (p *Pipeline) audit(ctx context.Context, c *call, inner next) error {
	if p.Recorder == nil {
		return inner(ctx, c)
	}
	start := time.Now()
	err := inner(ctx, c)
	event := Event{Kind: c.Kind, Name: c.Name, Arguments: c.Arguments, Elapsed: time.Since(start)}
	refusal, silent := outcome(err)
	if event.Silent = silent; refusal != nil {
		event.Reason = refusal.Reason
	}
	// A cancelled call is recorded too, so the record must not be stopped by the same cancel.
	if failure := p.Recorder.Record(context.WithoutCancel(ctx), event); failure != nil {
		p.Log.Error("audit record failed", "error", failure)
		if silent { // nothing leaves anyway, and a cancelled call is not answered
			return err
		}
		return problem.New(problem.AuditUnavailable, "the call could not be recorded, so its result is withheld")
	}
	return err
}

func (p *Pipeline) role(ctx context.Context, c *call, inner next) error {
	found, refusal := find(p.Surface, c.Kind, c.Name)
	if refusal != nil {
		return protocolError{refusal}
	}
	c.target = found
	return inner(ctx, c)
}

func (p *Pipeline) sanitize(ctx context.Context, c *call, inner next) error {
	if c.Arguments != nil {
		if refusal := p.Sanitizer.Check(c.Arguments); refusal != nil {
			if t, is := c.target.(*tool); is && refusal.Detail == sanitizer.NotAName {
				refusal.Detail += "; " + t.Input.Allowed()
			}
			return refusal
		}
	}
	return inner(ctx, c)
}

// slot waits for the call's turn. The slot belongs to the work, not to the wait for it, so the deadline gives it back when
// the work has really ended: a tool that ignores its context keeps its slot.
func (p *Pipeline) slot(ctx context.Context, c *call, inner next) error {
	if c.Place == nil {
		c.Place = p.Join()
	}
	if err := c.Place.Wait(ctx); err != nil {
		return busyOr(err, "all places for running calls are taken")
	}
	return inner(ctx, c)
}

func busyOr(err error, detail string) error {
	if errors.Is(err, admission.ErrBusy) {
		return busy(detail)
	}
	return err
}

// deadline runs the rest in a goroutine of its own and stops waiting for it when the context ends. What the abandoned
// work still holds (its place, its reserved bytes, the buffer) it gives back when it ends.
func (p *Pipeline) deadline(ctx context.Context, c *call, inner next) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout, ErrDeadline)
	defer cancel()
	c.working = true
	work := *c // an abandoned call must not touch what the waiting side reads
	done := make(chan error, 1)
	go func() {
		err := ended(ctx, p.protected(ctx, &work, inner))
		if work.Place != nil {
			work.Place.Leave() // before the answer: a client that calls again upon it finds the slot free, even without a wait
		}
		done <- err
	}()
	select {
	case err := <-done:
		*c = work
		return err
	case <-ctx.Done():
		c.out = slices.Clone(c.out[:c.head]) // the work may still be writing behind it
		go release(done, &work)
		return context.Cause(ctx)
	}
}

// ended is how work has ended: where it gives back the end of its context, why that ended is in the cause.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return context.Cause(ctx)
	}
	return err
}

// release waits for abandoned work and gives its reserved bytes back.
func release(done <-chan error, work *call) {
	<-done
	if work.reserve != nil {
		work.reserve.Release()
	}
}

// protected turns a panic into a fault. The log gets the stack and the panic's type; its value may be the caller's text.
func (p *Pipeline) protected(ctx context.Context, c *call, inner next) (err error) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		what := fmt.Sprintf("%T", cause)
		if fault, ok := cause.(runtime.Error); ok {
			what = fault.Error()
		}
		p.Log.Error("panic in a call", c.subject(), "panic", what, "stack", string(debug.Stack()))
		err = internal
	}()
	return inner(ctx, c)
}

func (p *Pipeline) arguments(ctx context.Context, c *call, inner next) error {
	if refusal := c.target.decode(c); refusal != nil {
		return refusal
	}
	return inner(ctx, c)
}

func (p *Pipeline) replySize(ctx context.Context, c *call, inner next) error {
	c.promise = c.target.replyBytes(c)
	reserve, err := p.Budget.Reserve(ctx, room(c.head+c.promise))
	if err != nil {
		return busyOr(err, "the client has not read enough of its earlier answers")
	}
	c.reserve = reserve
	return inner(ctx, c)
}

func (p *Pipeline) work(ctx context.Context, c *call, inner next) error {
	if err := c.target.run(ctx, c); err != nil {
		return err
	}
	return inner(ctx, c)
}

func (p *Pipeline) encode(ctx context.Context, c *call, inner next) error {
	out, err := c.target.encode(c)
	if err != nil {
		return err
	}
	if len(out)-c.head > c.promise {
		return errors.New("the result is larger than had been said")
	}
	c.out = out
	return inner(ctx, c)
}

// outcome sorts an error into the refusal that it means (nil for success) and whether nothing is to be said.
func outcome(err error) (refusal *problem.Problem, silent bool) {
	switch {
	case err == nil:
		return nil, false
	case errors.Is(err, ErrDeadline):
		return problem.New(problem.Deadline, "the call took too long and was stopped; ask for less"), false
	case errors.Is(err, ErrClientCancelled), errors.Is(err, ErrShutdown):
		return nil, true
	case errors.As(err, &refusal) && refusal != nil: // a nil *Problem returned as an error is a tool's mistake
		return refusal, false
	}
	return internal, false
}

// answer turns the end of a call into what goes out.
func (p *Pipeline) answer(c *call, err error) Answer {
	refusal, silent := outcome(err)
	if refusal == nil && !silent {
		c.reserve.Shrink(cap(c.out))
		return Answer{Result: c.out, Release: c.reserve.Release}
	}
	if c.reserve != nil {
		c.reserve.Release()
	}
	if silent {
		return Answer{Silent: true}
	}
	if refusal == internal && err != internal {
		p.Log.Error("fault in a call", c.subject(), "error", err)
	}
	outside := protocolError{}
	if c.Kind != CallTool || refusal.Reason == problem.Internal || errors.As(err, &outside) {
		return Answer{Refusal: refusal}
	}
	out := append(c.out[:c.head], `{"content":[{"type":"text","text":`...)
	out = strictjson.AppendString(out, refusal.Append(nil, p.ErrorEcho))
	return Answer{Result: append(out, `}],"isError":true}`...)}
}
