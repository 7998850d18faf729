package pipeline

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-server-suite/pkg/admission"
	"mcp-server-suite/pkg/contract"
)

// nameOf is the name of a guard's function.
func nameOf(g guard) string {
	name := runtime.FuncForPC(reflect.ValueOf(g).Pointer()).Name()
	return strings.TrimSuffix(name[strings.LastIndex(name, ".")+1:], "-fm")
}

// wanted is the list once more, from the design: "The path of one tools/call".
var wanted = []string{"audit", "role", "sanitize", "slot", "deadline", "arguments", "replySize", "work", "encode"}

func TestTheListIsTheOneOfTheDesign(t *testing.T) {
	var names []string
	for _, g := range order {
		names = append(names, nameOf(g))
	}
	if !slices.Equal(names, wanted) {
		t.Errorf("got %q", names)
	}
}

// TestTheOrderIsTheListThatRuns notes the name of each guard when a call comes to it.
func TestTheOrderIsTheListThatRuns(t *testing.T) {
	s := newStage(t, echo, recording(&recorder{}))
	var mu sync.Mutex
	var ran []string
	var noting []guard
	for _, g := range order {
		noting = append(noting, func(p *Pipeline, ctx context.Context, c *call, inner next) error {
			mu.Lock()
			ran = append(ran, nameOf(g))
			mu.Unlock()
			return g(p, ctx, c, inner)
		})
	}
	s.Pipeline.run = s.chain(noting)
	if got := shape(t, s.call(t.Context(), `{"text":"hello"}`)); got != "result hello" {
		t.Errorf("got %s", got)
	}
	if !slices.Equal(ran, wanted) {
		t.Errorf("ran %q", ran)
	}
}

// TestTheGuardInFrontAnswers sends calls with two things wrong at once through the pipeline as New makes it. Which of
// the two is answered shows the order from outside.
func TestTheGuardInFrontAnswers(t *testing.T) {
	takeSlots := func(t *testing.T, s *stage) func() {
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
	}
	takeBudget := func(t *testing.T, s *stage) func() {
		r, err := s.Budget.Reserve(t.Context(), budgetBytes)
		if err != nil {
			t.Fatal(err)
		}
		return r.Release
	}
	nothing := func(*testing.T, *stage) func() { return func() {} }
	failing := recording(&recorder{fails: errors.New("disk full")})
	cases := []struct {
		name      string
		tool      string
		arguments string
		take      func(*testing.T, *stage) func()
		change    func(*Settings)
		want      string
		why       string
	}{
		{"audit before role", "other", `{}`, nothing, failing, "in-band AUDIT_UNAVAILABLE", "an outcome that cannot be recorded does not leave"},
		{"role before sanitizer", "other", `{"a-b":1}`, nothing, nil, "error UNKNOWN_NAME", "what may not be called is not looked at"},
		{"role before slot", "other", `{}`, takeSlots, nil, "error UNKNOWN_NAME", "a stranger takes no place"},
		{"sanitizer before slot", "tool", `{"a-b":1}`, takeSlots, nil, "in-band BAD_PARAM", "hostile arguments take no place"},
		{"slot before arguments", "tool", `{"number":11}`, takeSlots, nil, "in-band BUSY", "decoding is work"},
		{"arguments before reply budget", "tool", `{"number":11}`, takeBudget, nil, "in-band BAD_PARAM", "what cannot run reserves nothing"},
		{"reply budget before the tool", "tool", `{"number":1}`, takeBudget, nil, "in-band BUSY", "work whose answer has no room is not begun"},
		{"everything in order", "tool", `{"number":1}`, nothing, nil, "result ", "the tool is reached"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				change := []func(*Settings){}
				if c.change != nil {
					change = append(change, c.change)
				}
				s := newStage(t, echo, change...)
				give := c.take(t, s)
				got := shape(t, s.Run(t.Context(), Call{Name: c.tool, Arguments: []byte(c.arguments)}, nil))
				if !strings.HasPrefix(got, c.want) {
					t.Errorf("got %s, want %s: %s", got, c.want, c.why)
				}
				if reached := s.ran.Load() > 0; reached != strings.HasPrefix(c.want, "result") {
					t.Errorf("the tool was reached: %t", reached)
				}
				give()
				s.isWhole(t)
			})
		})
	}
}

// replaced is the list with another function in a guard's place; nil takes it out.
func replaced(t *testing.T, name string, by guard) []guard {
	t.Helper()
	var list []guard
	found := false
	for _, g := range order {
		switch {
		case nameOf(g) != name:
			list = append(list, g)
		case by != nil:
			list = append(list, by)
			fallthrough
		default:
			found = true
		}
	}
	if !found {
		t.Fatalf("no guard is called %s", name)
	}
	return list
}

// TestEachGuardStopsItsAttack runs one attack for each guard twice: through the list, where it must be stopped, and
// through the list without that guard, where it must get through; so it is this guard that stops it. A guard that also
// makes something which the others need (the tool, the values, the reservation) is replaced by one that makes it
// without looking.
func TestEachGuardStopsItsAttack(t *testing.T) {
	loose := newSchema(t, contract.String("text", "").Default(""), contract.Int("number", "").Default(0))
	large := must(admission.NewBudget(1<<30, 0))
	cases := []struct {
		guard  string
		off    guard
		change func(*Settings)
		attack func(*testing.T, *stage) string
		on     string
		why    string
		gone   string // what the attack achieves with the guard off
	}{
		{
			"audit", nil, recording(&recorder{fails: errors.New("disk full")}),
			func(t *testing.T, s *stage) string { return shape(t, s.call(t.Context(), `{"text":"unrecorded"}`)) },
			"in-band AUDIT_UNAVAILABLE: the call could not be recorded, so its result is withheld",
			"a call that leaves no trace gives no result", "result unrecorded",
		},
		{
			"role", func(p *Pipeline, ctx context.Context, c *call, inner next) error {
				hidden := aTool(t, echo) // of another role's surface
				c.target = (*tool)(&hidden)
				return inner(ctx, c)
			}, nil,
			func(t *testing.T, s *stage) string {
				return shape(t, s.Run(t.Context(), Call{Name: "hidden", Arguments: []byte(`{"text":"reached"}`)}, nil))
			},
			"error UNKNOWN_NAME: Unknown tool", "a tool that is not offered is not there", "result reached",
		},
		{
			"sanitize", nil, nil,
			func(t *testing.T, s *stage) string { return shape(t, s.call(t.Context(), `{"text":"a\u202eb"}`)) },
			"in-band BAD_PARAM: an argument holds a bidirectional control character",
			"the schema alone takes any text", "result a\u202eb",
		},
		{
			"deadline", func(p *Pipeline, ctx context.Context, c *call, inner next) error {
				defer c.Place.Leave()
				return inner(ctx, c)
			}, nil,
			func(t *testing.T, s *stage) string {
				start := time.Now()
				got := shape(t, s.call(t.Context(), `{"text":"hang"}`))
				return fmt.Sprintf("%s after %v", got, time.Since(start))
			},
			"in-band DEADLINE: the call took too long and was stopped; ask for less after 30s",
			"a tool that ignores its context is not waited for", "result hang after 1h0m0s",
		},
		{
			"arguments", func(p *Pipeline, ctx context.Context, c *call, inner next) error {
				c.values, _ = loose.Decode(c.Arguments)
				return inner(ctx, c)
			}, nil,
			func(t *testing.T, s *stage) string {
				return shape(t, s.call(t.Context(), `{"text":"x","number":1000000}`))
			},
			"in-band BAD_PARAM: number must be an integer from 0 to 10",
			"the tool itself checks no bounds", "result x",
		},
		{
			"replySize", func(p *Pipeline, ctx context.Context, c *call, inner next) (err error) {
				c.promise = replyBytes
				if c.reserve, err = large.Reserve(ctx, replyBytes); err != nil {
					return err
				}
				return inner(ctx, c)
			}, nil,
			func(t *testing.T, s *stage) string {
				// A client that does not read: answers are made and not written.
				var answers []Answer
				last := "result"
				for len(answers) < 100 && strings.HasPrefix(last, "result") {
					a := s.call(t.Context(), `{"text":"`+strings.Repeat("x", 200)+`"}`)
					answers = append(answers, a)
					last = shape(t, Answer{Result: a.Result, Release: func() {}})
				}
				for _, a := range answers {
					if a.Release != nil {
						a.Release()
					}
				}
				if len(answers) < 20 {
					return "stopped: " + last
				}
				return fmt.Sprintf("%d answers pile up", len(answers))
			},
			"stopped: in-band BUSY: the client has not read enough of its earlier answers",
			"unread answers are memory", "100 answers pile up",
		},
		{
			"encode", func(p *Pipeline, ctx context.Context, c *call, inner next) error {
				c.out = fmt.Appendf(c.out, `{"structuredContent":{"said":"%v"},"content":[{"type":"text","text":"{\"said\":\"%v\"}"}],"isError":false}`,
					c.result[0].Value, c.result[0].Value)
				return inner(ctx, c)
			}, nil,
			func(t *testing.T, s *stage) string {
				return shape(t, s.call(t.Context(), `{"text":"break the contract"}`))
			},
			"error INTERNAL: the server failed; its log has the cause",
			"a result that is not what was published never leaves", "result 42",
		},
	}
	work := func(_ context.Context, v contract.Values) (contract.Result, error) {
		switch v.String("text") {
		case "hang":
			time.Sleep(time.Hour)
		case "panic":
			panic("mistake")
		case "break the contract":
			return contract.Result{{Name: "said", Value: int64(42)}}, nil
		}
		return said(v.String("text")), nil
	}
	for _, c := range cases {
		t.Run(c.guard, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				change := []func(*Settings){}
				if c.change != nil {
					change = append(change, c.change)
				}
				s := newStage(t, work, change...)
				if got := c.attack(t, s); got != c.on {
					t.Errorf("with the guard: %s, want %s (%s)", got, c.on, c.why)
				}
				time.Sleep(2 * time.Hour) // abandoned work ends
				s.isWhole(t)

				s = newStage(t, work, change...)
				s.Pipeline.run = s.chain(replaced(t, c.guard, c.off))
				if got := c.attack(t, s); got != c.gone {
					t.Errorf("without the guard: %s, want %s: does anything else stop it?", got, c.gone)
				}
			})
		})
	}
}

// TestTheSlotStopsAFlood: the slot is taken by one guard and given back by the next, which knows when the work has
// ended, so both are taken out.
func TestTheSlotStopsAFlood(t *testing.T) {
	most := func(t *testing.T, list []guard) (running int) {
		synctest.Test(t, func(t *testing.T) {
			now := 0
			var mu sync.Mutex
			s := newStage(t, func(ctx context.Context, v contract.Values) (contract.Result, error) {
				mu.Lock()
				now++
				running = max(running, now)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				now--
				mu.Unlock()
				return said(""), nil
			}, func(s *Settings) { s.Budget = must(admission.NewBudget(1<<30, 0)) })
			s.Pipeline.run = s.chain(list)
			var all sync.WaitGroup
			for range 5 * slots {
				all.Go(func() { shape(t, s.Run(t.Context(), Call{Name: "tool"}, nil)) })
			}
			all.Wait()
		})
		return running
	}
	if got := most(t, order); got != slots {
		t.Errorf("%d calls ran at once, want %d", got, slots)
	}
	var without []guard
	for _, g := range order {
		if name := nameOf(g); name != "slot" && name != "deadline" {
			without = append(without, g)
		}
	}
	if got := most(t, without); got != 5*slots {
		t.Errorf("without the guard %d calls ran at once, want all %d", got, 5*slots)
	}
}

func TestNewWantsAllParts(t *testing.T) {
	good := newStage(t, echo).Settings
	for name, change := range map[string]func(*Settings){
		"surface": func(s *Settings) { s.Surface = nil }, "sanitizer": func(s *Settings) { s.Sanitizer = nil },
		"slots": func(s *Settings) { s.Slots = nil }, "budget": func(s *Settings) { s.Budget = nil },
		"log": func(s *Settings) { s.Log = nil }, "timeout": func(s *Settings) { s.Timeout = 0 },
		"negative timeout": func(s *Settings) { s.Timeout = -1 },
	} {
		settings := good
		change(&settings)
		if p, err := New(settings); err == nil || p != nil {
			t.Errorf("without %s: %v, %v", name, p, err)
		}
	}
	if _, err := New(good); err != nil {
		t.Errorf("without a recorder: %v", err)
	}
}
