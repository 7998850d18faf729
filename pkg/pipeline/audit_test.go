package pipeline

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-server-suite/pkg/contract"
	"mcp-server-suite/pkg/problem"
)

// ends are all the ways in which a call can end.
var ends = []struct {
	name      string
	tool      string
	arguments string
	work      run
	cancel    error // after one second
	full      bool  // no slot is free
	overload  bool  // no room even to wait
	want      string
	reason    problem.Reason
	silent    bool
	elapsed   time.Duration
}{
	{name: "result", arguments: `{"text":"x"}`, work: echo, want: "result x"},
	{
		name: "slow result", arguments: `{"text":"x"}`, want: "result x", elapsed: 3 * time.Second,
		work: func(ctx context.Context, v contract.Values) (contract.Result, error) {
			time.Sleep(3 * time.Second)
			return echo(ctx, v)
		},
	},
	{name: "unknown tool", tool: secret, arguments: `{}`, want: "error UNKNOWN_NAME", reason: problem.UnknownName},
	{name: "refused by the sanitizer", arguments: `{"text":"\u202e"}`, want: "in-band BAD_PARAM", reason: problem.BadParam},
	{name: "refused by the schema", arguments: `{"number":11}`, want: "in-band BAD_PARAM", reason: problem.BadParam},
	{
		name: "refused by the tool", arguments: `{}`, want: "in-band SPECIAL_FILE", reason: problem.SpecialFile,
		work: func(context.Context, contract.Values) (contract.Result, error) {
			return nil, refusal(problem.SpecialFile)
		},
	},
	{
		name: "fault", arguments: `{}`, want: internalError, reason: problem.Internal,
		work: func(context.Context, contract.Values) (contract.Result, error) { return nil, errFault },
	},
	{
		name: "panic", arguments: `{}`, want: internalError, reason: problem.Internal,
		work: func(context.Context, contract.Values) (contract.Result, error) { panic(secret) },
	},
	{
		name: "result that breaks its contract", arguments: `{}`, want: internalError, reason: problem.Internal,
		work: func(context.Context, contract.Values) (contract.Result, error) { return contract.Result{}, nil },
	},
	{name: "no slot", arguments: `{}`, full: true, want: "in-band BUSY", reason: problem.Busy, elapsed: wait},
	{name: "no room to wait", arguments: `{}`, overload: true, want: "in-band BUSY", reason: problem.Busy},
	{name: "no room to wait, unknown tool", tool: secret, overload: true, want: "in-band BUSY", reason: problem.Busy},
	{
		name: "deadline", arguments: `{}`, want: deadlineAnswer, reason: problem.Deadline, elapsed: timeout,
		work: func(ctx context.Context, _ contract.Values) (contract.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	},
	{
		name: "deadline, ignored", arguments: `{}`, want: deadlineAnswer, reason: problem.Deadline, elapsed: timeout,
		work: func(context.Context, contract.Values) (contract.Result, error) {
			time.Sleep(time.Hour)
			return said(secret), nil
		},
	},
	{
		name: "cancelled while it runs", arguments: `{}`, cancel: ErrClientCancelled, want: "silence", silent: true, elapsed: time.Second,
		work: func(ctx context.Context, _ contract.Values) (contract.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	},
	{name: "cancelled in the queue", arguments: `{}`, full: true, cancel: ErrClientCancelled, want: "silence", silent: true, elapsed: time.Second},
	{name: "session over", arguments: `{}`, full: true, cancel: ErrShutdown, want: "silence", silent: true, elapsed: time.Second},
}

// end plays one of the ends and gives the answer.
func end(t *testing.T, s *stage, i int) Answer {
	t.Helper()
	c := ends[i]
	in := Call{Name: "tool"}
	if c.tool != "" {
		in.Name = c.tool
	}
	if c.arguments != "" {
		in.Arguments = []byte(c.arguments)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if c.cancel != nil {
		time.AfterFunc(time.Second, func() { cancel(c.cancel) })
	}
	if c.full {
		for range slots {
			if err := s.desk.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer s.desk.Release()
		}
	}
	if c.overload {
		return s.Overloaded(ctx, in, nil)
	}
	return s.Run(ctx, in, nil)
}

func TestTheRecorderSeesEveryOutcomeOnce(t *testing.T) {
	for i, c := range ends {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{}
				s := newStage(t, c.work, recording(r))
				if got := shape(t, end(t, s, i)); !strings.HasPrefix(got, c.want) {
					t.Errorf("got %s, want %s", got, c.want)
				}
				if len(r.events) != 1 {
					t.Fatalf("recorded %d times: %+v", len(r.events), r.events)
				}
				e := r.events[0]
				wantTool := c.tool
				if wantTool == "" {
					wantTool = "tool"
				}
				if e.Name != wantTool || string(e.Arguments) != c.arguments || (e.Arguments == nil) != (c.arguments == "") {
					t.Errorf("recorded as %q with %q", e.Name, e.Arguments)
				}
				if e.Reason != c.reason || e.Silent != c.silent || e.Elapsed != c.elapsed {
					t.Errorf("recorded %q, silent %t, after %v; want %q, %t, %v", e.Reason, e.Silent, e.Elapsed, c.reason, c.silent, c.elapsed)
				}
				if r.ctx != nil {
					t.Errorf("the record's own context has ended: %v; a cancelled call could not be recorded", r.ctx)
				}
				time.Sleep(2 * time.Hour)
				s.isWhole(t)
			})
		})
	}
}

// TestWithoutARecorderTheAnswersAreTheSame: the seat may be empty.
func TestWithoutARecorderTheAnswersAreTheSame(t *testing.T) {
	for i, c := range ends {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, c.work)
			if got := shape(t, end(t, s, i)); !strings.HasPrefix(got, c.want) {
				t.Errorf("%s: got %s, want %s", c.name, got, c.want)
			}
			time.Sleep(2 * time.Hour)
			s.isWhole(t)
		})
	}
}

// TestAnOutcomeThatCannotBeRecordedDoesNotLeave: neither result nor refusal nor fault; only silence stays silence.
func TestAnOutcomeThatCannotBeRecordedDoesNotLeave(t *testing.T) {
	const withheld = "in-band AUDIT_UNAVAILABLE: the call could not be recorded, so its result is withheld"
	for i, c := range ends {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, c.work, recording(&recorder{fails: errors.New("no space left on device")}))
				a := end(t, s, i)
				want := withheld
				if c.silent {
					want = "silence"
				}
				if got := shape(t, a); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if a.Release != nil {
					t.Error("the withheld result still holds bytes")
				}
				if text := whole(a); strings.Contains(text, `"said"`) || c.reason != "" && strings.Contains(text, `"`+string(c.reason)) {
					t.Errorf("the outcome is in the answer %s", text)
				}
				if log := s.log.String(); !strings.Contains(log, "no space left on device") {
					t.Errorf("the log %q lacks the cause", log)
				}
				time.Sleep(2 * time.Hour)
				s.isWhole(t)
			})
		})
	}
}

// TestTheRecordComesBeforeTheAnswer: when Run returns, the event is with the recorder.
func TestTheRecordComesBeforeTheAnswer(t *testing.T) {
	r := &recorder{}
	s := newStage(t, echo, recording(r))
	for i := range 100 {
		if shape(t, s.call(t.Context(), `{}`)); len(r.events) != i+1 {
			t.Fatalf("answer %d with %d events", i+1, len(r.events))
		}
	}
}
