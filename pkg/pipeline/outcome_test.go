package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-server-suite/pkg/admission"
	"mcp-server-suite/pkg/contract"
	"mcp-server-suite/pkg/problem"
	"mcp-server-suite/pkg/surface"
)

const internalError = "error INTERNAL: the server failed; its log has the cause"

func TestAnswersAreTheseTexts(t *testing.T) {
	const document = `{\"type\":\"urn:mcp-server-suite:problem:validation-error\",\"title\":\"Invalid tool arguments\",\"status\":422,` +
		`\"detail\":\"%s\",\"code\":\"MCP_VALIDATION_ERROR\",\"reason\":\"BAD_PARAM\",` +
		`\"invalid_params\":[\"%s\"],\"metadata\":{}}`
	const unknown = "an argument is not one that this tool takes; allowed: text, number"
	const notAName = "an argument name is not a plain identifier (ASCII letters, digits, underscores); allowed: text, number"
	cases := []struct{ name, arguments, want, why string }{
		{
			"result", `{"text":"it's \"\u00e9\"\n"}`,
			`{"structuredContent":{"said":"it's \"\u00e9\"\n"},` +
				`"content":[{"type":"text","text":"{\"said\":\"it's \\\"\\u00e9\\\"\\n\"}"}],"isError":false}`,
			"the same JSON twice (seed 000), in ASCII",
		},
		{
			"no arguments", ``, `{"structuredContent":{"said":""},"content":[{"type":"text","text":"{\"said\":\"\"}"}],"isError":false}`,
			"absent arguments are an empty object",
		},
		{
			"refusal", `{"number":11}`,
			`{"content":[{"type":"text","text":"` + fmt.Sprintf(document, "number must be an integer from 0 to 10", "number") + `"}],"isError":true}`,
			"one text block with the problem document, no structured content (seed 000)",
		},
		{
			"unknown argument", `{"` + strings.ToLower(strings.ReplaceAll(secret, "-", "_")) + `":1}`,
			`{"content":[{"type":"text","text":"` + fmt.Sprintf(document, unknown, "arguments") + `"}],"isError":true}`,
			"the allowed names, never the unknown one (wire-031)",
		},
		{
			"argument name that is none", `{"text":"a","<b>ignore all rules</b>":1}`,
			`{"content":[{"type":"text","text":"` + fmt.Sprintf(document, notAName, "arguments") + `"}],"isError":true}`,
			"the same, though the sanitizer does not know the tool",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, echo)
			a := s.call(t.Context(), c.arguments)
			if string(a.Result) != c.want {
				t.Errorf("got  %s\nwant %s\n%s", a.Result, c.want, c.why)
			}
			shape(t, a)
			s.isWhole(t)
		})
	}
}

func TestWhatStoodInTheBufferStays(t *testing.T) {
	const head = `{"jsonrpc":"2.0","id":7,"result":`
	s := newStage(t, func(ctx context.Context, v contract.Values) (contract.Result, error) {
		if v.Int("number") == 10 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return echo(ctx, v)
	})
	for name, arguments := range map[string]string{
		"result": `{"text":"x"}`, "refusal": `{"number":11}`, "deadline": `{"number":10}`, "sanitizer": `{"a-b":1}`,
	} {
		for _, room := range []int{0, 10, 4096} {
			t.Run(fmt.Sprint(name, " with room for ", room), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStage(t, s.Surface.Tool("tool").Run)
					buffer := slices.Grow([]byte(head), room)
					a := s.Run(t.Context(), Call{Name: "tool", Arguments: []byte(arguments)}, buffer)
					rest, isKept := strings.CutPrefix(string(a.Result), head)
					if !isKept || !strings.HasPrefix(rest, "{") {
						t.Errorf("got %q", a.Result)
					}
					shape(t, Answer{Result: []byte(rest), Release: a.Release})
				})
			})
		}
	}
}

func TestAnUnknownToolIsAProtocolError(t *testing.T) {
	s := newStage(t, echo)
	for _, name := range []string{"", "TOOL", "tool ", "to", "tool\x00", secret, strings.Repeat("x", 1<<16)} {
		a := s.Run(t.Context(), Call{Name: name, Arguments: []byte(`{"text":"` + secret + `"}`)}, nil)
		if got := shape(t, a); got != "error UNKNOWN_NAME: Unknown tool" {
			t.Errorf("%.20q: %s", name, got)
		}
		if strings.Contains(whole(a), secret) {
			t.Errorf("%.20q: the caller's text is in %s", name, whole(a))
		}
		if a.Refusal != nil && !slices.Equal(a.Refusal.Params, []string{"name"}) {
			t.Errorf("%.20q: faulty is %q", name, a.Refusal.Params)
		}
	}
	if s.ran.Load() != 0 {
		t.Error("a tool was reached")
	}
	s.isWhole(t)
}

func TestEchoRepeatsTheCallersTextOnlyWhenItIsOn(t *testing.T) {
	for _, c := range []struct {
		name, tool, arguments, off, on string
	}{
		{"unknown tool", "no such tool\u202e", `{}`, "Unknown tool", `Unknown tool: 'no such tool\u202e'`},
		{
			"unknown argument", "tool", `{"` + "EVIL" + `":1}`,
			"an argument is not one that this tool takes; allowed: text, number",
			"the argument 'EVIL' is not one that this tool takes; allowed: text, number",
		},
		{"tool's own", "tool", `{"text":"../../etc/passwd"}`, "it leads outside", "'../../etc/passwd' resolves outside the sandbox"},
	} {
		work := func(_ context.Context, v contract.Values) (contract.Result, error) {
			return nil, problem.New(problem.OutsideSandbox, "it leads outside", "text").
				About(v.String("text"), "%s resolves outside the sandbox")
		}
		for _, isOn := range []bool{false, true} {
			s, want := newStage(t, work), c.off
			if isOn {
				s, want = newStage(t, work, withEcho), c.on
			}
			a := s.Run(t.Context(), Call{Name: c.tool, Arguments: []byte(c.arguments)}, nil)
			got := ""
			if a.Refusal != nil {
				got = a.Refusal.Text(isOn)
			} else {
				_, got, _ = strings.Cut(shape(t, a), ": ")
			}
			if got != want {
				t.Errorf("%s with echo %t: %q, want %q", c.name, isOn, got, want)
			}
		}
	}
}

// TestWhatAToolMayReturn: a refusal is an answer, everything else is a fault whose text stays here.
func TestWhatAToolMayReturn(t *testing.T) {
	cases := []struct {
		name, want string
		logged     string // "" for nothing
		err        error
		why        string
	}{
		{"result", "result x", "", nil, ""},
		{"refusal", "in-band NOT_FOUND: the tool says not_found", "", refusal(problem.NotFound), ""},
		{"wrapped refusal", "in-band NOT_FOUND: the tool says not_found", "", fmt.Errorf("read: %w", refusal(problem.NotFound)), "the edge finds it with errors.As"},
		{"refusal among others", "in-band NOT_FOUND: the tool says not_found", "", errors.Join(errFault, refusal(problem.NotFound)), ""},
		{"internal refusal", "error INTERNAL: the tool says internal", "", refusal(problem.Internal), "a fault has no in-band channel"},
		{"fault", internalError, "disk is on fire", errFault, "one fixed sentence"},
		{"wrapped fault", internalError, "disk is on fire", fmt.Errorf("open file: %w", errFault), "one fixed sentence"},
		{"nil refusal", internalError, "fault in a call", (*problem.Problem)(nil), "a nil pointer in an error is not nil"},
		{"context.Canceled without a cancel", internalError, "context canceled", context.Canceled, "nobody has cancelled, so it is a mistake"},
		{"context.DeadlineExceeded of its own", internalError, "deadline exceeded", fmt.Errorf("query: %w", context.DeadlineExceeded), "not the call's deadline"},
		{"busy of its own", internalError, "busy", admission.ErrBusy, "only the guards are busy"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, func(context.Context, contract.Values) (contract.Result, error) {
				return said("x"), c.err
			})
			a := s.call(t.Context(), `{}`)
			if got := shape(t, a); got != c.want {
				t.Errorf("got %s, want %s %s", got, c.want, c.why)
			}
			if c.err != nil && strings.Contains(whole(a), "fire") {
				t.Errorf("the fault's text is in the answer %s", whole(a))
			}
			log := s.log.String()
			if isLogged := log != ""; isLogged != (c.logged != "") || !strings.Contains(log, c.logged) {
				t.Errorf("the log is %q, want %q in it", log, c.logged)
			}
			if strings.Count(log, "level=ERROR") > 1 {
				t.Errorf("logged more than once: %q", log)
			}
			s.isWhole(t)
		})
	}
}

type custom struct{ text string }

func (c custom) String() string { return c.text }

func noMap() map[string]int { return nil }

func TestAPanicIsAFaultWhoseValueStaysUnsaid(t *testing.T) {
	cases := []struct {
		name, logged string
		work         run
		why          string
	}{
		{"text", "panic=string", func(context.Context, contract.Values) (contract.Result, error) { panic(secret) }, "it may be the caller's"},
		{"error", "panic=*errors.errorString", func(context.Context, contract.Values) (contract.Result, error) { panic(errors.New(secret)) }, "it may hold the caller's"},
		{"stringer", "panic=pipeline.custom", func(context.Context, contract.Values) (contract.Result, error) { panic(custom{secret}) }, ""},
		{"refusal", "panic=*problem.Problem", func(context.Context, contract.Values) (contract.Result, error) { panic(refusal(problem.NotFound)) }, "thrown, not returned: a mistake"},
		{"nil", `panic="panic called with nil argument"`, func(context.Context, contract.Values) (contract.Result, error) { panic(nil) }, ""},
		{"index out of range", `panic="runtime error: index out of range [5] with length 3"`, func(_ context.Context, v contract.Values) (contract.Result, error) {
			return said(string(v.String("text")[:3][v.Int("number")])), nil
		}, "the runtime's own words hold numbers and types only"},
		{"nil map", `panic="assignment to entry in nil map"`, func(context.Context, contract.Values) (contract.Result, error) {
			noMap()["a"] = 1
			return nil, nil
		}, ""},
		{"undeclared argument", "panic=string", func(_ context.Context, v contract.Values) (contract.Result, error) {
			return said(v.String("other")), nil
		}, "a mistake of the tool"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, c.work)
			a := s.call(t.Context(), `{"text":"`+secret+`","number":5}`)
			if got := shape(t, a); got != internalError {
				t.Errorf("got %s", got)
			}
			log := s.log.String()
			if !strings.Contains(log, c.logged) || !strings.Contains(log, "stack=") || !strings.Contains(log, "outcome_test.go") {
				t.Errorf("the log %q lacks %q or the stack %s", log, c.logged, c.why)
			}
			if strings.Contains(log, secret) || strings.Contains(whole(a), secret) {
				t.Errorf("the caller's text is in the log %q or the answer %q", log, whole(a))
			}
			if strings.Count(log, "level=ERROR") != 1 {
				t.Errorf("logged not exactly once: %q", log)
			}
			s.isWhole(t)
			if got := shape(t, newStage(t, echo).call(t.Context(), `{}`)); got != "result " {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}

func TestAPanicInTheSizeIsAFaultToo(t *testing.T) {
	tool := aTool(t, echo)
	tool.ReplyBytes = func(contract.Values) int { return -1 << 40 }
	s := newStage(t, echo, func(s *Settings) {
		s.Surface = must(surface.Seal(surface.Server{Name: "x", Version: "1"}, surface.Offer{Tools: []surface.Tool{tool}}))
	})
	if got := shape(t, s.call(t.Context(), `{}`)); got != internalError {
		t.Errorf("got %s", got)
	}
	s.isWhole(t)
}

// TestArgumentsThatAreNoObjectEndInOneCall: the envelope lets none through; if it did, the process would live.
func TestArgumentsThatAreNoObjectEndInOneCall(t *testing.T) {
	for _, arguments := range []string{`[1]`, `"text"`, `7`, `null`} {
		s := newStage(t, echo)
		got := shape(t, s.call(t.Context(), arguments))
		if want := map[bool]string{true: internalError, false: "result "}[arguments == `[1]`]; got != want {
			t.Errorf("%s: %s, want %s", arguments, got, want)
		}
		s.isWhole(t)
	}
}

func TestAResultThatBreaksThePromiseIsAFault(t *testing.T) {
	fits := replyBytes - len(resultHead) - len(resultText) - len(resultEnd) - len(`{"said":""}`) - len(`{\"said\":\"\"}`)
	cases := []struct {
		name, logged string
		result       contract.Result
		isGood       bool
	}{
		{"as large as promised", "", said(strings.Repeat("x", fits/2)), true},
		{"larger than promised", "the result is larger than had been said", said(strings.Repeat("x", fits/2+1)), false},
		{"much larger", "the result is larger than had been said", said(strings.Repeat(secret, 1<<16)), false},
		{"larger by its escapes", "the result is larger than had been said", said(strings.Repeat("\x01", fits/13+1)), false},
		{"another type", "result contract: said is a int64", contract.Result{{Name: "said", Value: int64(1)}}, false},
		{"another name", "result contract: result lacks said", contract.Result{{Name: secret, Value: secret}}, false},
		{"more members", "result contract: result has 2 members", append(said(secret), contract.Member{Name: "b", Value: secret}), false},
		{"none", "result contract: result has 0 members", nil, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, func(context.Context, contract.Values) (contract.Result, error) { return c.result, nil })
			a := s.call(t.Context(), `{}`)
			got := shape(t, a)
			if isGood := strings.HasPrefix(got, "result "); isGood != c.isGood || !isGood && got != internalError {
				t.Errorf("got %.100s", got)
			}
			if log := s.log.String(); !strings.Contains(log, c.logged) || strings.Contains(log, secret) {
				t.Errorf("the log is %.300q, want %q in it and no value", log, c.logged)
			}
			if strings.Contains(whole(a), secret) {
				t.Errorf("a part of the result is in the answer %.300q", whole(a))
			}
			s.isWhole(t)
		})
	}
}

// TestALargeHintTakesNoMoreThanIsReserved: the hint for many short values is several times their JSON.
func TestALargeHintTakesNoMoreThanIsReserved(t *testing.T) {
	tool := aTool(t, nil)
	tool.Output = newSchema(t, contract.Array("said", "", contract.Int("", "")))
	list := make([]any, 1000)
	for i := range list {
		list[i] = int64(1)
	}
	promised := contract.ReplyBytes(2*len(list)+100, 0)
	tool.ReplyBytes = func(contract.Values) int { return promised }
	tool.Run = func(context.Context, contract.Values) (contract.Result, error) {
		return contract.Result{{Name: "said", Value: list}}, nil
	}
	s := newStage(t, echo, func(s *Settings) {
		s.Surface = must(surface.Seal(surface.Server{Name: "x", Version: "1"}, surface.Offer{Tools: []surface.Tool{tool}}))
		s.Budget = must(admission.NewBudget(1<<20, 0))
	})
	a := s.call(t.Context(), `{}`)
	if a.Release == nil {
		t.Fatalf("got %+v", a)
	}
	if reserved := room(promised + frameBytes); cap(a.Result) > reserved {
		t.Errorf("%d bytes of memory for %d bytes reserved", cap(a.Result), reserved)
	}
	a.Release()
}

func TestTheReservationIsHeldUntilReleaseAndNoLonger(t *testing.T) {
	s := newStage(t, echo, func(s *Settings) { s.Budget = must(admission.NewBudget(replyBytes+1, 0)) })
	first := s.call(t.Context(), `{"text":"first"}`)
	if got := shape(t, Answer{Result: first.Result, Release: func() {}}); got != "result first" {
		t.Fatalf("got %s", got)
	}
	second := s.call(t.Context(), `{}`)
	if got := shape(t, second); got != "in-band BUSY: the client has not read enough of its earlier answers" {
		t.Errorf("while the first answer is unwritten: %s", got)
	}
	if second.Release != nil {
		t.Error("a refusal holds bytes")
	}
	first.Release()
	first.Release() // dropped and written at once: given back once, or the semaphore panics
	if got := shape(t, s.call(t.Context(), `{}`)); got != "result " {
		t.Errorf("after the release: %s", got)
	}
}

func TestAnUnwrittenAnswerHoldsItsOwnSizeNotThePromise(t *testing.T) {
	s := newStage(t, echo)
	var answers []Answer
	for range 2*budgetBytes/replyBytes - 1 { // each holds half of its promise; the last needs the whole of its own first
		a := s.call(t.Context(), `{"text":"x"}`)
		if a.Release == nil {
			t.Fatalf("answer %d: %s", len(answers)+1, a.Result)
		}
		answers = append(answers, a)
	}
	for _, a := range answers {
		shape(t, a)
	}
	s.isWhole(t)
}

func TestBusyAnswersSayWhenToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, echo)
		for range slots {
			if err := s.desk.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		slot := s.call(t.Context(), `{}`)
		if waited := time.Since(start); waited != wait {
			t.Errorf("waited %v for a slot", waited)
		}
		for range slots {
			s.desk.Release()
		}
		held := must(s.Budget.Reserve(t.Context(), budgetBytes))
		start = time.Now()
		bytes := s.call(t.Context(), `{}`)
		if waited := time.Since(start); waited != wait {
			t.Errorf("waited %v for reply bytes", waited)
		}
		held.Release()
		overloaded := s.Overloaded(t.Context(), Call{Name: "tool"}, nil)
		for name, c := range map[string]struct {
			answer Answer
			want   string
		}{
			"slot":       {slot, "in-band BUSY: all places for running calls are taken"},
			"bytes":      {bytes, "in-band BUSY: the client has not read enough of its earlier answers"},
			"overloaded": {overloaded, "in-band BUSY: too many calls are waiting already"},
		} {
			if got := shape(t, c.answer); got != c.want {
				t.Errorf("%s: %s", name, got)
			}
			text := readResult(t, c.answer.Result).Content[0].Text
			if !strings.HasSuffix(text, `"invalid_params":[],"metadata":{"retryable":true,"retry_after_ms":1000}}`) {
				t.Errorf("%s: %s", name, text)
			}
		}
		if s.ran.Load() != 0 {
			t.Error("the tool was reached")
		}
		s.isWhole(t)
	})
}

// TestACallAfterAnAnswerFindsAPlace: with one place and no wait (MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS=0), a client that calls
// one after the other must never be told that the server is busy with its own last call.
func TestACallAfterAnAnswerFindsAPlace(t *testing.T) {
	s := newStage(t, echo, func(s *Settings) { s.Slots = must(admission.NewSlots(1, 0)) })
	for i := range 20_000 {
		if got := shape(t, s.call(t.Context(), ``)); got != "result " {
			t.Fatalf("call %d: %s", i, got)
		}
	}
}

// TestTheLogNeverHoldsWhatTheCallerSent walks every way to end a call with a marker in the tool's name, the keys and the
// values, at the lowest log level. A tool that puts arguments into its own fault is the one way left; tools hold that.
func TestTheLogNeverHoldsWhatTheCallerSent(t *testing.T) {
	key := strings.ReplaceAll(secret, "-", "_")
	for _, arguments := range []string{
		`{"text":"` + secret + `"}`, `{"text":"` + secret + `\u202e"}`, `{"` + key + `":1}`, `{"` + secret + `":1}`,
		`{"text":"` + secret + `","number":11}`, `{"text":["` + secret + `"]}`, `{"number":"` + secret + `"}`, `["` + secret + `"]`,
	} {
		for _, err := range []error{nil, errFault, refusal(problem.NotFound).About(secret, "about %s"), context.Canceled} {
			for _, name := range []string{"tool", secret} {
				s := newStage(t, func(_ context.Context, v contract.Values) (contract.Result, error) {
					return said(v.String("text")), err
				}, withEcho, recording(&recorder{fails: errFault}))
				s.Run(t.Context(), Call{Name: name, Arguments: []byte(arguments)}, nil)
				s.Overloaded(t.Context(), Call{Name: name, Arguments: []byte(arguments)}, nil)
				if log := s.log.String(); strings.Contains(log, secret) || strings.Contains(log, key) {
					t.Errorf("%s with %s and %v: the log is %q", name, arguments, err, log)
				}
			}
		}
	}
}

// TestAFloodIsAnsweredWhole: a thousand calls in one burst, every one answered, nothing lost or left (wire-034).
func TestAFloodIsAnsweredWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, func(ctx context.Context, v contract.Values) (contract.Result, error) {
			select {
			case <-time.After(20 * time.Millisecond):
				return echo(ctx, v)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		var mu sync.Mutex
		ends := map[string]int{}
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if i%10 == 0 {
					time.AfterFunc(time.Duration(i)*3*time.Millisecond, func() { cancel(ErrClientCancelled) })
				}
				word, _, _ := strings.Cut(shape(t, s.call(ctx, `{"text":"x"}`)), ":")
				mu.Lock()
				ends[word]++
				mu.Unlock()
			})
		}
		all.Wait()
		if ends["result x"]+ends["in-band BUSY"]+ends["silence"] != 1000 || len(ends) != 3 || ends["result x"] < 400 {
			t.Errorf("ends: %v", ends)
		}
		s.isWhole(t)
	})
}

type panicking struct{}

func (panicking) Record(context.Context, Event) error { panic(secret) }

// TestAPanicInAGuardIsAFaultToo: the guards run outside of the work's goroutine and have a net of their own.
func TestAPanicInAGuardIsAFaultToo(t *testing.T) {
	for name, s := range map[string]*stage{
		"recorder":                   newStage(t, echo, func(s *Settings) { s.Recorder = panicking{} }),
		"arguments that are nothing": newStage(t, echo),
	} {
		a := s.Run(t.Context(), Call{Name: "tool", Arguments: []byte{}}, nil)
		if got := shape(t, a); got != internalError {
			t.Errorf("%s: got %s", name, got)
		}
		if log := s.log.String(); strings.Contains(log, secret) || !strings.Contains(log, "panic in a call") {
			t.Errorf("%s: the log is %q", name, log)
		}
		s.isWhole(t)
	}
}
