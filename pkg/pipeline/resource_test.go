package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-server-suite/pkg/admission"
	"mcp-server-suite/pkg/problem"
	"mcp-server-suite/pkg/surface"
)

const (
	uri       = "test://schema"
	textBytes = 600 // of the resource, escaped; with its frame about as much as the tool's reply
)

// text is a resource's work.
type text func(context.Context) ([]byte, error)

func says(s string) text { return func(context.Context) ([]byte, error) { return []byte(s), nil } }

func aResource(work text) surface.Resource {
	return surface.Resource{
		URI: uri, Name: "schema", Title: "A schema", Description: "Says what the test says.", MIMEType: "application/json",
		ReplyBytes: textBytes, Read: work,
	}
}

// newShelf is a stage with a resource, whose work counts as the tool's does.
func newShelf(t testing.TB, work text, change ...func(*Settings)) *stage {
	t.Helper()
	var s *stage
	r := aResource(func(ctx context.Context) ([]byte, error) {
		s.ran.Add(1)
		return work(ctx)
	})
	s = newStage(t, echo, append([]func(*Settings){func(s *Settings) {
		s.Surface = must(surface.Seal(surface.Server{Name: "test", Version: "1"}, surface.Offer{
			Tools: []surface.Tool{aTool(t, echo)}, Resources: []surface.Resource{r},
		}))
	}}, change...)...)
	return s
}

func (s *stage) read(ctx context.Context) Answer {
	return s.Run(ctx, Call{Kind: ReadResource, Name: uri}, nil)
}

// readShape is the answer to a read in one line: "text TEXT", "error REASON: DETAIL" or "silence". It holds what must be
// so of every one, above all that no refusal looks like a text.
func readShape(t testing.TB, a Answer) string {
	t.Helper()
	if a.Result == nil {
		return shape(t, a)
	}
	if a.Refusal != nil || a.Silent || a.Release == nil {
		t.Errorf("an answer in several ways, or without its bytes reserved: %+v", a)
	} else {
		defer a.Release()
	}
	for _, c := range a.Result {
		if c < ' ' || c > '~' {
			t.Errorf("byte %#x in the result %q", c, a.Result)
		}
	}
	var result struct {
		Contents []struct {
			URI, MIMEType string
			Text          *string
		}
	}
	d := json.NewDecoder(bytes.NewReader(a.Result))
	d.DisallowUnknownFields()
	if err := d.Decode(&result); err != nil || d.More() {
		t.Fatalf("the result %q: %v", a.Result, err)
	}
	if c := result.Contents; len(c) != 1 || c[0].URI != uri || c[0].MIMEType != "application/json" || c[0].Text == nil {
		t.Fatalf("the result %q has not exactly one text of this resource", a.Result)
	}
	return "text " + *result.Contents[0].Text
}

func TestATextTravelsOnceAndEscaped(t *testing.T) {
	const head, tail = `{"contents":[{"uri":"test://schema","mimeType":"application/json","text":"`, `"}]}`
	for _, c := range []struct{ name, text, want, why string }{
		{"JSON", `{"tables":["a\n"]}`, `{\"tables\":[\"a\\n\"]}`, "the text is JSON, its place is a string"},
		{"empty", ``, ``, "a text all the same"},
		{"beyond ASCII", "\u00e9\U0001F600\x7f\x00", `\u00e9\ud83d\ude00\u007f\u0000`, "the wire is ASCII"},
		{"no UTF-8", "a\xffb\xed\xa0\x80c", `a\ufffdb\ufffdc`, "a lone surrogate breaks clients"},
	} {
		s := newShelf(t, says(c.text))
		a := s.read(t.Context())
		if string(a.Result) != head+c.want+tail {
			t.Errorf("%s: %s %s", c.name, a.Result, c.why)
		}
		readShape(t, a)
		s.isWhole(t)
	}
}

// TestAReadWalksTheSameList notes the name of each guard when a read comes to it.
func TestAReadWalksTheSameList(t *testing.T) {
	s := newShelf(t, says("x"), recording(&recorder{}))
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
	if got := readShape(t, s.read(t.Context())); got != "text x" || !slices.Equal(ran, wanted) {
		t.Errorf("%s after %q", got, ran)
	}
}

// readEnds are all the ways in which a read can end. None is a result with a refusal inside.
var readEnds = []struct {
	name     string
	kind     Kind
	uri      string
	work     text
	cancel   error // after one second
	full     bool  // no slot is free
	unread   bool  // no reply bytes are free
	overload bool  // no room even to wait
	want     string
	reason   problem.Reason
	silent   bool
	elapsed  time.Duration
}{
	{name: "text", work: says("x"), want: "text x"},
	{name: "unknown resource", uri: secret + ":x", want: "error UNKNOWN_NAME: no resource of that name is offered to this session", reason: problem.UnknownName},
	{name: "another spelling", uri: "TEST://schema", want: "error UNKNOWN_NAME: no resource", reason: problem.UnknownName},
	{name: "no URI", uri: " ", want: "error UNKNOWN_NAME: no resource", reason: problem.UnknownName},
	{name: "a tool's name", uri: "tool", want: "error UNKNOWN_NAME: no resource", reason: problem.UnknownName},
	{name: "a kind of no call", kind: 7, want: internalError, reason: problem.Internal},
	{
		name: "refused by the resource", want: "error DB_UNAVAILABLE: the tool says db_unavailable", reason: problem.DBUnavailable,
		work: func(context.Context) ([]byte, error) { return []byte(secret), refusal(problem.DBUnavailable) },
	},
	{
		name: "fault", want: internalError, reason: problem.Internal,
		work: func(context.Context) ([]byte, error) { return []byte(secret), errFault },
	},
	{name: "panic", want: internalError, reason: problem.Internal, work: func(context.Context) ([]byte, error) { panic(secret) }},
	{name: "larger than had been said", want: internalError, reason: problem.Internal, work: says(strings.Repeat(secret, 1000))},
	{name: "no slot", full: true, want: "error BUSY: all places for running calls are taken", reason: problem.Busy, elapsed: wait},
	{
		name: "no reply bytes", unread: true, want: "error BUSY: the client has not read enough of its earlier answers",
		reason: problem.Busy, elapsed: wait,
	},
	{name: "no room to wait", overload: true, want: "error BUSY: too many calls are waiting already", reason: problem.Busy},
	{
		name: "deadline", want: "error DEADLINE: the call took too long", reason: problem.Deadline, elapsed: timeout,
		work: func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	},
	{
		name: "deadline, ignored", want: "error DEADLINE: the call took too long", reason: problem.Deadline, elapsed: timeout,
		work: func(context.Context) ([]byte, error) {
			time.Sleep(time.Hour)
			return []byte(secret), nil
		},
	},
	{
		name: "cancelled while it runs", cancel: ErrClientCancelled, want: "silence", silent: true, elapsed: time.Second,
		work: func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("query: %w", ctx.Err())
		},
	},
	{name: "cancelled in the queue", full: true, cancel: ErrClientCancelled, want: "silence", silent: true, elapsed: time.Second},
	{name: "session over", full: true, cancel: ErrShutdown, want: "silence", silent: true, elapsed: time.Second},
}

func readEnd(t *testing.T, s *stage, i int) Answer {
	t.Helper()
	c := readEnds[i]
	in := Call{Kind: ReadResource, Name: uri}
	if c.uri != "" {
		in.Name = c.uri
	}
	if c.kind != CallTool {
		in.Kind = c.kind
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
	if c.unread {
		defer must(s.Budget.Reserve(t.Context(), budgetBytes)).Release()
	}
	if c.overload {
		return s.Overloaded(ctx, in, nil)
	}
	return s.Run(ctx, in, nil)
}

func TestEveryEndOfAReadIsSaidOutsideOfAResultAndRecorded(t *testing.T) {
	for i, c := range readEnds {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work := c.work
				if work == nil {
					work = says(secret)
				}
				r := &recorder{}
				s := newShelf(t, work, recording(r))
				a := readEnd(t, s, i)
				if got := readShape(t, a); !strings.HasPrefix(got, c.want) {
					t.Errorf("got %s, want %s", got, c.want)
				}
				if len(r.events) != 1 {
					t.Fatalf("recorded %d times: %+v", len(r.events), r.events)
				}
				e := r.events[0]
				wantURI, wantKind := uri, ReadResource
				if c.uri != "" {
					wantURI = c.uri
				}
				if c.kind != CallTool {
					wantKind = c.kind
				}
				if e.Kind != wantKind || e.Name != wantURI || e.Arguments != nil {
					t.Errorf("recorded as %d %q with %q", e.Kind, e.Name, e.Arguments)
				}
				if e.Reason != c.reason || e.Silent != c.silent || e.Elapsed != c.elapsed {
					t.Errorf("recorded %q, silent %t, after %v; want %q, %t, %v", e.Reason, e.Silent, e.Elapsed, c.reason, c.silent, c.elapsed)
				}
				if text := whole(a); strings.Contains(text, secret) || strings.Contains(s.log.String(), secret) {
					t.Errorf("the caller's or the resource's text is in %q or the log %q", text, s.log.String())
				}
				if isLogged := s.log.String() != ""; isLogged != (c.reason == problem.Internal) {
					t.Errorf("the log is %q", s.log.String())
				}
				if c.reason == problem.Internal && c.kind == CallTool && !strings.Contains(s.log.String(), "resource="+uri) {
					t.Errorf("the log %q does not say which resource", s.log.String())
				}
				time.Sleep(2 * time.Hour)
				s.isWhole(t)
			})
		})
	}
}

// TestAReadThatCannotBeRecordedDoesNotLeave: neither text nor refusal nor fault; only silence stays silence.
func TestAReadThatCannotBeRecordedDoesNotLeave(t *testing.T) {
	for i, c := range readEnds {
		synctest.Test(t, func(t *testing.T) {
			work := c.work
			if work == nil {
				work = says(secret)
			}
			s := newShelf(t, work, recording(&recorder{fails: errors.New("no space left on device")}))
			a := readEnd(t, s, i)
			want := "error AUDIT_UNAVAILABLE: the call could not be recorded, so its result is withheld"
			if c.silent {
				want = "silence"
			}
			if got := readShape(t, a); got != want || a.Release != nil {
				t.Errorf("%s: got %s, want %s", c.name, got, want)
			}
			time.Sleep(2 * time.Hour)
			s.isWhole(t)
		})
	}
}

func TestAnUnknownURIIsRepeatedOnlyWhereTheOperatorWantsIt(t *testing.T) {
	for _, echo := range []bool{false, true} {
		s := newShelf(t, says("x"), func(s *Settings) { s.ErrorEcho = echo })
		a := s.Run(t.Context(), Call{Kind: ReadResource, Name: "x://" + secret + "'\u202e"}, nil)
		document := string(a.Refusal.Append(nil, s.ErrorEcho))
		want := `"detail":"no resource of that name is offered to this session"`
		if echo {
			want = `"detail":"no resource of the name 'x://` + secret + `\\'\\u202e' is offered to this session"`
		}
		if !strings.Contains(document, want) || !strings.Contains(document, `"invalid_params":["uri"]`) {
			t.Errorf("echo %t: %s", echo, document)
		}
	}
}

// TestEachGuardStopsItsAttackOnAResource: as for tools, once with the guard and once without.
func TestEachGuardStopsItsAttackOnAResource(t *testing.T) {
	large := must(admission.NewBudget(1<<30, 0))
	cases := []struct {
		guard    string
		off      guard
		change   func(*Settings)
		attack   func(*testing.T, *stage) string
		on, gone string
		why      string
	}{
		{
			"audit", nil, recording(&recorder{fails: errors.New("disk full")}),
			func(t *testing.T, s *stage) string { return readShape(t, s.read(t.Context())) },
			"error AUDIT_UNAVAILABLE: the call could not be recorded, so its result is withheld", "text x",
			"a read that leaves no trace gives no text",
		},
		{
			"role", func(p *Pipeline, ctx context.Context, c *call, inner next) error {
				hidden := aResource(says("reached"))
				c.target = (*resource)(&hidden)
				return inner(ctx, c)
			}, nil,
			func(t *testing.T, s *stage) string {
				return readShape(t, s.Run(t.Context(), Call{Kind: ReadResource, Name: "test://hidden"}, nil))
			},
			"error UNKNOWN_NAME: no resource of that name is offered to this session", "text reached",
			"a resource that is not offered is not there",
		},
		{
			"deadline", func(p *Pipeline, ctx context.Context, c *call, inner next) error {
				defer c.Place.Leave()
				return inner(ctx, c)
			}, nil,
			func(t *testing.T, s *stage) string {
				start := time.Now()
				got := readShape(t, s.read(t.Context()))
				return fmt.Sprintf("%s after %v", got, time.Since(start))
			},
			"error DEADLINE: the call took too long and was stopped; ask for less after 30s", "text x after 1h0m0s",
			"a resource that ignores its context is not waited for",
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
				var answers []Answer
				last := "text"
				for len(answers) < 100 && strings.HasPrefix(last, "text") {
					a := s.read(t.Context())
					answers = append(answers, a)
					if last = "text"; a.Result == nil {
						last = readShape(t, a)
					}
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
			"stopped: error BUSY: the client has not read enough of its earlier answers", "100 answers pile up",
			"unread answers are memory",
		},
		{
			"encode", func(p *Pipeline, ctx context.Context, c *call, inner next) (err error) {
				c.out, err = c.target.encode(c)
				return err
			}, func(s *Settings) {
				short := aResource(says(strings.Repeat("x", textBytes)))
				short.ReplyBytes = 1
				s.Surface = must(surface.Seal(s.Surface.Server(), surface.Offer{Resources: []surface.Resource{short}}))
			},
			func(t *testing.T, s *stage) string { return readShape(t, s.read(t.Context()))[:10] },
			internalError[:10], "text xxxxx", "what was not reserved does not leave",
		},
	}
	for _, c := range cases {
		t.Run(c.guard, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work := says("x")
				if c.guard == "deadline" {
					work = func(context.Context) ([]byte, error) {
						time.Sleep(time.Hour)
						return []byte("x"), nil
					}
				}
				var change []func(*Settings)
				if c.change != nil {
					change = append(change, c.change)
				}
				s := newShelf(t, work, change...)
				if got := c.attack(t, s); got != c.on {
					t.Errorf("with the guard: %s, want %s (%s)", got, c.on, c.why)
				}
				time.Sleep(2 * time.Hour)
				s.isWhole(t)

				s = newShelf(t, work, change...)
				s.Pipeline.run = s.chain(replaced(t, c.guard, c.off))
				if got := c.attack(t, s); got != c.gone {
					t.Errorf("without the guard: %s, want %s: does anything else stop it?", got, c.gone)
				}
			})
		})
	}
}

// TestToolsAndReadsShareTheSlots: a read that runs takes a place from the tools.
func TestToolsAndReadsShareTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t, func(context.Context) ([]byte, error) {
			time.Sleep(wait + time.Second)
			return []byte("x"), nil
		})
		var all sync.WaitGroup
		for range slots {
			all.Go(func() {
				if got := readShape(t, s.read(t.Context())); got != "text x" {
					t.Errorf("the read: %s", got)
				}
			})
		}
		synctest.Wait()
		if got := shape(t, s.call(t.Context(), `{}`)); got != "in-band BUSY: all places for running calls are taken" {
			t.Errorf("the call: %s", got)
		}
		all.Wait()
		s.isWhole(t)
	})
}

func TestATextTakesWhatWasSaidAndNoMore(t *testing.T) {
	for _, c := range []struct {
		text string
		each int // bytes in the answer for each of text
	}{{"x", 1}, {`"`, 2}, {"\x01", 6}, {"\u00e9", 3}, {"\u65e5", 2}, {"\U0001F600", 3}} {
		fits := strings.Repeat(c.text, textBytes/c.each/len(c.text))
		s := newShelf(t, says(fits))
		a := s.read(t.Context())
		if cap(a.Result) > room(textBytes+(*resource)(s.Surface.Resource(uri)).frameBytes()) {
			t.Errorf("%q: %d bytes of memory for a promise of %d", c.text, cap(a.Result), textBytes)
		}
		if got := readShape(t, a); got != "text "+fits {
			t.Errorf("%q: %s", c.text, got)
		}
		s.isWhole(t)
		s = newShelf(t, says(fits+strings.Repeat("x", envelopeBytes+textBytes)))
		if got := readShape(t, s.read(t.Context())); got != internalError {
			t.Errorf("%q and more: %.100s", c.text, got)
		}
		s.isWhole(t)
	}
}

// FuzzRead: whatever a text holds, a client reads it back, in an answer within six bytes for each of its own.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"", "{}", "\"\\\n", "\x00\x7f", "\u00e9\u65e5\U0001F600", "\xff\xed\xa0\x80"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := newShelf(t, says(text), func(s *Settings) {
			r := aResource(says(text))
			r.ReplyBytes = 6*len(text) + 1
			s.Surface = must(surface.Seal(s.Surface.Server(), surface.Offer{Resources: []surface.Resource{r}}))
			s.Budget = must(admission.NewBudget(1<<30, 0))
		})
		if got := readShape(t, s.read(t.Context())); got != "text "+strings.ToValidUTF8(text, "\uFFFD") {
			t.Errorf("%q: %q", text, got)
		}
	})
}
