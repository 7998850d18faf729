package mcpserve_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-server-suite/pkg/framing"
	"mcp-server-suite/pkg/mcpserve"
	"mcp-server-suite/pkg/pipeline"
)

func TestTheConversationIsAnsweredInOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, true, func(r *rig) {
		r.open()
		var lines, want []string
		for i := range 50 {
			lines = append(lines, ping(2*i), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"no/such"}`, 2*i+1))
			want = append(want, pong(2*i),
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"Method not found"}}`, 2*i+1))
		}
		r.send(lines...)
		r.expect(want...)
	})
}

func TestAListAndAPingOvertakeARunningCall(t *testing.T) {
	t.Parallel()
	inBubble(t, true, func(r *rig) {
		r.open()
		r.send(call(1, "a"), ping(2), `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
		got := r.answers()
		if len(got) != 2 || got[0] != pong(2) || !strings.HasPrefix(got[1], `{"jsonrpc":"2.0","id":3,"result":{"tools":[{`) {
			t.Errorf("%s", got)
		}
		r.next().end <- nil
		r.expect(said(1, "a"))
		r.nothingHeld()
	})
}

func TestCallsAreAnsweredAsTheyFinish(t *testing.T) {
	t.Parallel()
	inBubble(t, true, func(r *rig) {
		r.open()
		r.send(call(1, "a"))
		a := r.next()
		r.send(call(2, "b"))
		b := r.next()
		b.end <- nil
		r.expect(said(2, "b"))
		a.end <- nil
		r.expect(said(1, "a"))
	})
}

func TestACancelledCallIsToldWhyAndNeverAnswered(t *testing.T) {
	t.Parallel()
	inBubble(t, true, func(r *rig) {
		r.open()
		r.send(callWith(1, `{"name":"a","stubborn":true}`))
		a := r.next()
		r.send(cancelled(1))
		if cause := context.Cause(a.ctx); cause != pipeline.ErrClientCancelled {
			t.Errorf("cause %v", cause)
		}
		r.send(call(1, "b")) // the id is free although the tool goes on
		r.next().end <- nil
		r.expect(said(1, "b"))
		a.end <- nil // too late
		r.expect()
		r.nothingHeld()
	})
}

// The tool may end in the very moment of the cancel: an answer or none, never two, and never one after the id was given
// away again.
func TestACancelThatCrossesTheAnswerLosesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, true, func(r *rig) {
		r.open()
		for i := range 300 {
			r.send(call(7, "a"))
			a := r.next()
			go func() { a.end <- nil }()
			r.send(cancelled(7), ping(i))
			got := strings.Join(r.answers(), "\n")
			switch got {
			case pong(i), said(7, "a") + "\n" + pong(i), pong(i) + "\n" + said(7, "a"):
			default:
				t.Fatalf("round %d: %s", i, got)
			}
		}
		r.nothingHeld()
	})
}

func TestTheEndOfTheInputWaitsForTheCallsInFlight(t *testing.T) {
	t.Parallel()
	inBubble(t, true, func(r *rig) {
		r.open()
		r.send(call(1, "a"))
		a := r.next()
		r.endInput()
		time.Sleep(grace - time.Nanosecond)
		synctest.Wait()
		if a.ctx.Err() != nil {
			t.Error("cancelled before the grace time was over")
		}
		a.end <- nil
		r.endsAfter(0, nil)
		r.expect(said(1, "a"))
		r.nothingHeld()
	})
}

func TestWhatOutlivesTheGraceTimeIsCancelledWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, true, func(r *rig) {
		r.open()
		r.send(call(1, "a"), call(2, "b"))
		a, b := r.next(), r.next()
		close(r.drain)
		r.endsAfter(grace, nil)
		for _, w := range []*work{a, b} {
			if context.Cause(w.ctx) == nil {
				t.Errorf("%s goes on", w.name)
			}
		}
		r.expect()
		r.nothingHeld()
	})
}

func TestADrainNeedsNoEndOfTheInput(t *testing.T) {
	t.Parallel()
	inBubble(t, true, func(r *rig) { // the reader stays blocked in Read
		r.open()
		close(r.drain)
		r.endsAfter(0, nil)
	})
}

// A line that is no message may carry the id of a call that is still running.
func TestARejectionDoesNotAnswerALiveCall(t *testing.T) {
	t.Parallel()
	inBubble(t, true, func(r *rig) {
		r.open()
		r.send(call(7, "a"))
		a := r.next()
		const noMethod = `{"jsonrpc":"2.0","id":%d,"method":5}`
		const refusal = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"Invalid Request: method must be a string"}}`
		r.send(fmt.Sprintf(noMethod, 7), fmt.Sprintf(noMethod, 8))
		r.expect(fmt.Sprintf(refusal, "null"), fmt.Sprintf(refusal, "8"))
		a.end <- nil
		r.expect(said(7, "a"))
		r.send(fmt.Sprintf(noMethod, 7))
		r.expect(fmt.Sprintf(refusal, "7"))
	})
}

func TestNothingIsTakenDuringADrain(t *testing.T) {
	t.Parallel()
	inBubble(t, true, func(r *rig) {
		r.open()
		r.send(call(1, "a"))
		a := r.next()
		close(r.drain)
		synctest.Wait()
		go func() { _, _ = io.WriteString(r.in, ping(2)+"\n"+call(3, "b")+"\n") }() // may never be read
		time.Sleep(time.Second)
		a.end <- nil
		r.endsAfter(0, nil)
		r.expect(said(1, "a"))
		if len(r.calls) != 0 {
			t.Error("a call was begun")
		}
	})
}

func TestAnAbortCancelsAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, true, func(r *rig) {
		r.open()
		r.send(call(1, "a"))
		close(r.drain)
		time.Sleep(time.Second)
		close(r.abort)
		r.endsAfter(0, nil)
		r.expect()
	})
}

func TestAHangupEndsTheSessionThoughNothingIsWritten(t *testing.T) {
	t.Parallel()
	inBubble(t, true, func(r *rig) {
		r.open()
		r.send(call(1, "a"))
		a := r.next()
		close(r.hangup)
		r.endsAfter(0, nil)
		if a.ctx.Err() == nil {
			t.Error("the call goes on for nobody")
		}
		r.nothingHeld()
	})
}

func TestAToolThatIgnoresItsCancelDoesNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, true, func(r *rig) {
		r.open()
		r.send(callWith(1, `{"name":"a","stubborn":true}`))
		a := r.next()
		close(r.drain)
		r.endsAfter(grace, nil) // the pipeline stops waiting for it when it is cancelled
		a.end <- nil
		r.expect()
		r.nothingHeld()
	})
}

func TestAFailingOutputEndsTheSession(t *testing.T) {
	t.Parallel()
	inBubble(t, true, func(r *rig) {
		r.open()
		r.send(call(1, "a"))
		a := r.next()
		gone := errors.New("the client has gone")
		_ = r.out.CloseWithError(gone)
		r.send(ping(2)) // its answer is the first that meets the error
		r.endsAfter(0, gone)
		if a.ctx.Err() == nil {
			t.Error("the call goes on for nobody")
		}
		r.nothingHeld()
	})
}

// A client that takes nothing is waited for as long as the drain may take, and no longer.
func TestAnOutputThatNobodyReadsIsGivenUp(t *testing.T) {
	t.Parallel()
	inBubble(t, false, func(r *rig) {
		_, err := io.WriteString(r.in, ping(1)+"\n"+ping(2)+"\n")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		close(r.drain)
		r.endsAfter(grace+afterCancel, framing.ErrStuck)
	})
}

// Answers that wait to be written keep their reservation, and lose it when they are dropped.
func TestAnswersThatAreDroppedGiveTheirBytesBack(t *testing.T) {
	t.Parallel()
	inBubble(t, false, func(r *rig) {
		r.send(initialize("0"))
		if _, err := bufio.NewReader(r.out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		for i := range 3 { // the first answer is being written, the others wait
			r.send(call(i, "a"))
			r.next().end <- nil
			synctest.Wait()
		}
		if held, err := r.budget.Reserve(r.t.Context(), budgetBytes); err == nil { // the control
			held.Release()
			t.Error("answers that wait hold no bytes")
		}
		close(r.drain)
		// The call whose answer is being written counts as in flight.
		r.endsAfter(grace+afterCancel, framing.ErrStuck)
		_ = r.out.Close() // lets the writer go, as the end of the process does
		r.nothingHeld()
	})
}

func TestAPanicIsOneAnswerAndNoMore(t *testing.T) {
	t.Parallel()
	inBubble(t, true, func(r *rig) {
		r.open()
		r.send(callWith(1, `{"name":"EVIL","panic":true}`), ping(2))
		got := strings.Join(r.answers(), "\n")
		if !strings.Contains(got, `"id":1,"error":{"code":-32603,"message":"Internal error","data":{`) ||
			!strings.Contains(got, `"reason":"INTERNAL"`) || !strings.Contains(got, pong(2)) {
			t.Errorf("%s", got)
		}
		if log := r.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "serve_test.go") &&
			!strings.Contains(log, "rig_test.go") || strings.Contains(got+log, "EVIL") {
			t.Errorf("log: %s", log)
		}
		r.nothingHeld()
	})
}

// A tool that fails is a fault of ours: the client gets one fixed sentence, the log the cause.
func TestAFaultIsLoggedAndNotTold(t *testing.T) {
	t.Parallel()
	inBubble(t, true, func(r *rig) {
		r.open()
		r.send(call(1, "a"))
		r.next().end <- errors.New("disk on fire")
		got := strings.Join(r.answers(), "\n")
		if !strings.Contains(got, `"code":-32603`) || strings.Contains(got, "fire") || !strings.Contains(r.log.String(), "disk on fire") {
			t.Errorf("%s; log: %s", got, r.log.String())
		}
	})
}

// Cancellation travels wrapped: errors.Is, not == (grafana/mcp-grafana#1180).
func TestAWrappedCancellationIsSilence(t *testing.T) {
	t.Parallel()
	inBubble(t, true, func(r *rig) {
		r.open()
		r.send(callWith(1, `{"name":"a","stubborn":true}`))
		a := r.next()
		go func() {
			<-a.ctx.Done()
			a.end <- fmt.Errorf("query: %w", fmt.Errorf("connection: %w", a.ctx.Err()))
		}()
		r.send(cancelled(1))
		r.expect()
		if log := r.log.String(); log != "" {
			t.Errorf("log: %s", log)
		}
		r.nothingHeld()
	})
}

// A call for which there is no room even to wait is answered by the reader, and what it is given back counts once.
func TestACallTooManyIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, true, func(r *rig) {
		r.open()
		for i := range 8 { // 4 run and 4 wait
			r.send(call(i, "a"))
		}
		r.send(call(8, "b"))
		if got := r.answers(); len(got) != 1 || !strings.Contains(got[0], `"id":8,`) || !strings.Contains(got[0], `BUSY`) {
			t.Errorf("%s", got)
		}
		for range 8 {
			r.next().end <- nil
		}
		if got := r.answers(); len(got) != 8 {
			t.Errorf("%d answers: %s", len(got), got)
		}
		r.nothingHeld()
	})
}

// Two sessions with one server know nothing of each other's ids, and share the gate.
func TestSessionsAreApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		server := r.server()
		var sessions [2]*rig
		for i := range sessions {
			s := newRig(t)
			s.calls = r.calls
			in, theirIn := io.Pipe()
			theirOut, out := io.Pipe()
			s.in, s.out = theirIn, theirOut
			go func() {
				s.served = server.Serve(in, out, mcpserve.Control{})
				close(s.over)
				_ = out.Close()
			}()
			s.read()
			s.open()
			sessions[i] = s
		}
		sessions[0].send(call(1, "first"))
		first := r.next()
		sessions[1].send(call(1, "second"))
		second := r.next()
		sessions[0].send(cancelled(1))
		if first.ctx.Err() == nil || second.ctx.Err() != nil {
			t.Error("a cancel reached the other session")
		}
		sessions[0].endInput()
		sessions[0].endsAfter(0, nil)
		second.end <- nil
		sessions[1].expect(said(1, "second"))
		sessions[1].endInput()
		sessions[1].endsAfter(0, nil)
		for _, s := range sessions {
			s.reading.Wait()
		}
		r.nothingHeld()
	})
}

func TestAServerWithoutAPartIsNotMade(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	whole := r.server().Settings
	for name, remove := range map[string]func(*mcpserve.Settings){
		"nothing":  func(*mcpserve.Settings) {}, // the control
		"surface":  func(s *mcpserve.Settings) { s.Surface = nil },
		"pipeline": func(s *mcpserve.Settings) { s.Pipeline = nil },
		"gate":     func(s *mcpserve.Settings) { s.Gate = nil },
		"log":      func(s *mcpserve.Settings) { s.Log = nil },
		"grace":    func(s *mcpserve.Settings) { s.Grace = 0 },
	} {
		s := whole
		remove(&s)
		if server, err := mcpserve.New(s); (err == nil) != (name == "nothing") || (server == nil) != (err != nil) {
			t.Errorf("without %s: %v, %v", name, server, err)
		}
	}
}
