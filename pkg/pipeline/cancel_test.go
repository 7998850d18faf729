package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-server-suite/pkg/admission"
	"mcp-server-suite/pkg/contract"
	"mcp-server-suite/pkg/problem"
)

const deadlineAnswer = "in-band DEADLINE: the call took too long and was stopped; ask for less"

// ways are how a tool may take it when its context ends.
var ways = []struct {
	name string
	work run
	why  string
}{
	{"gives the context's error", func(ctx context.Context, _ contract.Values) (contract.Result, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}, "the usual way"},
	{"wraps the context's error", func(ctx context.Context, _ contract.Values) (contract.Result, error) {
		<-ctx.Done()
		return nil, fmt.Errorf("read file: %w", ctx.Err())
	}, "wire-026: errors.Is, not =="},
	{"gives the cause", func(ctx context.Context, _ contract.Values) (contract.Result, error) {
		<-ctx.Done()
		return nil, fmt.Errorf("read file: %w", context.Cause(ctx))
	}, "it may know about causes"},
	{"gives a result all the same", func(ctx context.Context, _ contract.Values) (contract.Result, error) {
		<-ctx.Done()
		return said("too late"), nil
	}, "the end of the context came first"},
	{"gives another fault", func(ctx context.Context, _ contract.Values) (contract.Result, error) {
		<-ctx.Done()
		time.Sleep(time.Second)
		return nil, errFault
	}, "broken by the cancel, some libraries do not say so"},
	{"ignores it", func(context.Context, contract.Values) (contract.Result, error) {
		time.Sleep(time.Hour)
		return said("much too late"), nil
	}, "a bug, or a system call that cannot be interrupted"},
	{"panics", func(ctx context.Context, _ contract.Values) (contract.Result, error) {
		<-ctx.Done()
		time.Sleep(time.Second)
		panic(secret)
	}, "nobody is there to be told, and the process lives"},
}

// TestTheCauseDecidesWhatIsSaid: whatever the tool makes of it, a cancel by the client or the session is silence and
// the deadline is a refusal.
func TestTheCauseDecidesWhatIsSaid(t *testing.T) {
	causes := []struct {
		name  string
		cause error // nil: the deadline
		want  string
	}{
		{"client", ErrClientCancelled, "silence"},
		{"shutdown", ErrShutdown, "silence"},
		{"wrapped", fmt.Errorf("session 1: %w", ErrClientCancelled), "silence"},
		{"deadline", nil, deadlineAnswer},
	}
	for _, way := range ways {
		for _, c := range causes {
			t.Run(c.name+", the tool "+way.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStage(t, way.work)
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					after := timeout
					if c.cause != nil {
						after = time.Second
						time.AfterFunc(after, func() { cancel(c.cause) })
					}
					start := time.Now()
					a := s.call(ctx, `{}`)
					// The tool may finish in the very moment of the end, and then its result counts or not.
					got := shape(t, a)
					if got != c.want && !(strings.Contains(way.name, "all the same") && got == "result too late") {
						t.Errorf("got %s, want %s: %s", got, c.want, way.why)
					}
					if took := time.Since(start); took != after {
						t.Errorf("answered after %v, want %v", took, after)
					}
					time.Sleep(2 * time.Hour)
					s.isWhole(t)
				})
			})
		}
	}
}

// TestACancelEndsEveryWait: a call may be cancelled before it begins, in the queue for a slot and in the queue for reply
// bytes; the tool is not reached.
func TestACancelEndsEveryWait(t *testing.T) {
	stations := []struct {
		name string
		take func(*testing.T, *stage) (give func())
		wait time.Duration
	}{
		{"before it begins", func(*testing.T, *stage) func() { return func() {} }, 0},
		{"waiting for a slot", func(t *testing.T, s *stage) func() {
			for range slots {
				if err := s.desk.Acquire(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			return func() {
				for range slots {
					s.desk.Release()
				}
			}
		}, time.Second},
		{"waiting for reply bytes", func(t *testing.T, s *stage) func() {
			return must(s.Budget.Reserve(t.Context(), budgetBytes)).Release
		}, time.Second},
	}
	causes := []struct {
		name  string
		cause error
		want  string
		why   string
	}{
		{"client", ErrClientCancelled, "silence", "a cancelled request gets no answer (MCP, cancellation)"},
		{"shutdown", ErrShutdown, "silence", "the session is gone"},
		{"no cause", nil, internalError, "whoever cancels says why; else it is our mistake"},
		{"another cause", errFault, internalError, "only the three causes mean something"},
	}
	for _, station := range stations {
		for _, c := range causes {
			t.Run(station.name+", "+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStage(t, echo)
					give := station.take(t, s)
					ctx, cancel := context.WithCancelCause(t.Context())
					if station.wait == 0 {
						cancel(c.cause)
					} else {
						time.AfterFunc(station.wait, func() { cancel(c.cause) })
					}
					start := time.Now()
					if got := shape(t, s.call(ctx, `{}`)); got != c.want {
						t.Errorf("got %s, want %s: %s", got, c.want, c.why)
					}
					if took := time.Since(start); took != station.wait {
						t.Errorf("ended after %v, want %v", took, station.wait)
					}
					if s.ran.Load() != 0 {
						t.Error("the tool was reached")
					}
					if isLogged := s.log.String() != ""; isLogged != (c.want == internalError) {
						t.Errorf("the log is %q", s.log.String())
					}
					give()
					s.isWhole(t)
				})
			})
		}
	}
}

// TestADeadlineInTheQueueForReplyBytesIsADeadline: the clock runs from the slot on.
func TestADeadlineInTheQueueForReplyBytesIsADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, echo, func(s *Settings) { s.Timeout = time.Second })
		held := must(s.Budget.Reserve(t.Context(), budgetBytes))
		if got := shape(t, s.call(t.Context(), `{}`)); got != deadlineAnswer {
			t.Errorf("got %s", got)
		}
		held.Release()
		s.isWhole(t)
	})
}

// TestTheClockDoesNotRunInTheQueueForASlot: who has waited long may still use all of its time.
func TestTheClockDoesNotRunInTheQueueForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, func(context.Context, contract.Values) (contract.Result, error) {
			time.Sleep(timeout - time.Nanosecond)
			return said("in time"), nil
		})
		for range slots {
			if err := s.desk.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		time.AfterFunc(wait-time.Nanosecond, func() {
			for range slots {
				s.desk.Release()
			}
		})
		if got := shape(t, s.call(t.Context(), `{}`)); got != "result in time" {
			t.Errorf("got %s", got)
		}
	})
}

// TestAbandonedWorkKeepsItsPlaceAndBytesUntilItEnds: otherwise tools that hang would pile up without a bound.
func TestAbandonedWorkKeepsItsPlaceAndBytesUntilItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const late = time.Hour
		s := newStage(t, func(_ context.Context, v contract.Values) (contract.Result, error) {
			if v.String("text") == "hang" {
				time.Sleep(late)
			}
			return echo(context.Background(), v)
		}, func(s *Settings) {
			s.Slots = must(admission.NewSlots(1, wait))
			s.Budget = must(admission.NewBudget(replyBytes, wait))
		})
		start := time.Now()
		if got := shape(t, s.call(t.Context(), `{"text":"hang"}`)); got != deadlineAnswer {
			t.Errorf("got %s", got)
		}
		if took := time.Since(start); took != timeout {
			t.Errorf("answered after %v", took)
		}
		if got := shape(t, s.call(t.Context(), `{}`)); got != "in-band BUSY: all places for running calls are taken" {
			t.Errorf("while it still hangs: %s", got)
		}
		if _, err := s.Budget.Reserve(t.Context(), 1); !errors.Is(err, admission.ErrBusy) {
			t.Errorf("its bytes are free while it still hangs: %v", err)
		}
		time.Sleep(time.Until(start.Add(late)))
		synctest.Wait()
		if got := shape(t, s.call(t.Context(), `{}`)); got != "result " {
			t.Errorf("after it has ended: %s", got)
		}
	})
}

// TestAbandonedWorkDoesNotTouchTheAnswer: the answer has its own memory, whatever the work still writes; -race watches.
func TestAbandonedWorkDoesNotTouchTheAnswer(t *testing.T) {
	const head = `{"jsonrpc":"2.0","id":1,"result":`
	release := make(chan struct{})
	s := newStage(t, func(context.Context, contract.Values) (contract.Result, error) {
		<-release
		return said(strings.Repeat(secret, 10)), nil
	}, func(s *Settings) { s.Timeout = time.Millisecond })
	buffer := make([]byte, 0, 4096)
	a := s.Run(t.Context(), Call{Name: "tool"}, append(buffer, head...))
	before := string(a.Result)
	close(release)
	s.isWhole(t) // the work has ended
	if string(a.Result) != before || !strings.HasPrefix(before, head+`{"content"`) || strings.Contains(before, secret) {
		t.Errorf("the answer was %q and is %q", before, a.Result)
	}
}

func TestARefusalMayCrossACancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, func(context.Context, contract.Values) (contract.Result, error) {
			return nil, refusal(problem.NotFound)
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		if got := shape(t, s.call(ctx, `{}`)); got != "in-band NOT_FOUND: the tool says not_found" {
			t.Errorf("got %s", got)
		}
		cancel(ErrClientCancelled) // too late: nothing happens
		synctest.Wait()
		s.isWhole(t)
	})
}

// TestAToolThatNoticesFirstIsNoFault: the end of the context and the tool's answer to it may both be there when the
// waiting side looks, and it takes either; both must mean the same.
func TestAToolThatNoticesFirstIsNoFault(t *testing.T) {
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(ErrClientCancelled)
	late, stop := context.WithTimeoutCause(t.Context(), -1, ErrDeadline)
	defer stop()
	cases := []struct {
		name      string
		ctx       context.Context
		err, want error
		why       string
	}{
		{"result", cancelled, nil, nil, "it was in time"},
		{"the context's error", cancelled, context.Canceled, ErrClientCancelled, ""},
		{"the context's error, wrapped", cancelled, fmt.Errorf("read: %w", context.Canceled), ErrClientCancelled, "wire-026"},
		{"the deadline's error", late, context.DeadlineExceeded, ErrDeadline, ""},
		{"the deadline's error, wrapped", late, fmt.Errorf("read: %w", context.DeadlineExceeded), ErrDeadline, ""},
		{"the cause", late, ErrDeadline, ErrDeadline, ""},
		{"a fault in the last moment", late, errFault, errFault, "logged like any other"},
		{"a deadline of its own", cancelled, context.DeadlineExceeded, context.DeadlineExceeded, "not this context's"},
		{"a cancel without a cancel", t.Context(), context.Canceled, context.Canceled, "a mistake of the tool"},
	}
	for _, c := range cases {
		if got := ended(c.ctx, c.err); got != c.want {
			t.Errorf("%s: %v, want %v %s", c.name, got, c.want, c.why)
		}
	}
}
