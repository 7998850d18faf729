package session_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"mcp-server-suite/pkg/session"
)

// noCancel is for calls that the test does not expect to be cancelled.
func noCancel(t *testing.T) func() {
	return func() { t.Error("cancelled") }
}

// accept asks about a request that must be accepted.
func accept(t *testing.T, s *session.Session, key, method string, cancel func()) *session.Ticket {
	t.Helper()
	ticket, verdict := s.Request(key, method, cancel)
	if verdict != session.Accepted || ticket == nil {
		t.Fatalf("%s with key %s: verdict %d", method, key, verdict)
	}
	return ticket
}

// refuse asks about a request that must get this verdict.
func refuse(t *testing.T, s *session.Session, key, method string, want session.Verdict) {
	t.Helper()
	if ticket, verdict := s.Request(key, method, nil); verdict != want || ticket != nil {
		t.Errorf("%s with key %s: verdict %d, want %d", method, key, verdict, want)
	}
}

// opened is a session whose initialize has been answered.
func opened(t *testing.T) *session.Session {
	t.Helper()
	s := session.New()
	ticket := accept(t, s, "init", session.MethodInitialize, nil)
	s.Initialized()
	if !s.Claim(ticket) {
		t.Fatal("initialize may not be answered")
	}
	return s
}

func TestVerdictFollowsFromStateAndMethod(t *testing.T) {
	states := []struct {
		name  string
		make  func(t *testing.T) *session.Session
		ready bool
	}{
		{"fresh", func(*testing.T) *session.Session { return session.New() }, false},
		{"initialized", opened, true},
		{"closed", func(*testing.T) *session.Session { s := session.New(); s.Close(); return s }, false},
		{"initialized and closed", func(t *testing.T) *session.Session { s := opened(t); s.Close(); return s }, true},
	}
	methods := []struct {
		name string
		want [4]session.Verdict // by state
		why  string
	}{
		{"initialize", [4]session.Verdict{session.Accepted, session.AlreadyInitialized, session.Closing, session.Closing}, "seed: exactly once"},
		{"ping", [4]session.Verdict{session.Accepted, session.Accepted, session.Closing, session.Closing}, "seed: also before initialize"},
		{"tools/list", [4]session.Verdict{session.NotInitialized, session.Accepted, session.Closing, session.Closing}, "seed: not before initialize"},
		{"tools/call", [4]session.Verdict{session.NotInitialized, session.Accepted, session.Closing, session.Closing}, "seed: not before initialize"},
		{"server/discover", [4]session.Verdict{session.UnknownMethod, session.UnknownMethod, session.Closing, session.Closing}, "2026-07-28: the probe of newer clients, which then fall back to initialize"},
		{"notifications/initialized", [4]session.Verdict{session.UnknownMethod, session.UnknownMethod, session.Closing, session.Closing}, "no request"},
		{"notifications/cancelled", [4]session.Verdict{session.UnknownMethod, session.UnknownMethod, session.Closing, session.Closing}, "no request"},
		{"logging/setLevel", [4]session.Verdict{session.UnknownMethod, session.UnknownMethod, session.Closing, session.Closing}, "not offered"},
		{"resources/list", [4]session.Verdict{session.UnknownMethod, session.UnknownMethod, session.Closing, session.Closing}, "not offered"},
		{"prompts/list", [4]session.Verdict{session.UnknownMethod, session.UnknownMethod, session.Closing, session.Closing}, "not offered"},
		{"tasks/list", [4]session.Verdict{session.UnknownMethod, session.UnknownMethod, session.Closing, session.Closing}, "not offered"},
		{"rpc.discover", [4]session.Verdict{session.UnknownMethod, session.UnknownMethod, session.Closing, session.Closing}, "JSON-RPC reserves rpc., we have none"},
		{"PING", [4]session.Verdict{session.UnknownMethod, session.UnknownMethod, session.Closing, session.Closing}, "compared byte for byte"},
		{"tools/call ", [4]session.Verdict{session.UnknownMethod, session.UnknownMethod, session.Closing, session.Closing}, "compared byte for byte"},
		{"", [4]session.Verdict{session.UnknownMethod, session.UnknownMethod, session.Closing, session.Closing}, "no name"},
	}
	for i, state := range states {
		for _, method := range methods {
			s := state.make(t)
			if s.IsInitialized() != state.ready {
				t.Errorf("%s: initialized %t", state.name, s.IsInitialized())
			}
			ticket, verdict := s.Request("1", method.name, noCancel(t))
			if verdict != method.want[i] {
				t.Errorf("%s, %q (%s): verdict %d, want %d", state.name, method.name, method.why, verdict, method.want[i])
			}
			if (ticket != nil) != (verdict == session.Accepted) {
				t.Errorf("%s, %q: ticket %v with verdict %d", state.name, method.name, ticket, verdict)
			}
		}
	}
}

func TestRequestIsAnsweredOnce(t *testing.T) {
	s := opened(t)
	for _, method := range []string{session.MethodPing, session.MethodToolsList, session.MethodToolsCall} {
		ticket := accept(t, s, "1", method, noCancel(t))
		if !s.Claim(ticket) {
			t.Errorf("%s: may not be answered", method)
		}
		if s.Claim(ticket) {
			t.Errorf("%s: may be answered twice", method)
		}
	}
}

func TestIDIsTakenWhileItsRequestIsLive(t *testing.T) {
	s := opened(t)
	first := accept(t, s, "7", session.MethodToolsCall, noCancel(t))
	for _, method := range []string{
		session.MethodToolsCall, session.MethodPing, session.MethodToolsList, session.MethodInitialize, "no/such",
	} {
		refuse(t, s, "7", method, session.DuplicateID)
	}
	accept(t, s, `"7`, session.MethodToolsCall, noCancel(t)) // another key
	if !s.Claim(first) {
		t.Error("the duplicates took the first request's answer")
	}
}

func TestIDIsFreeOnceItsRequestIsAnswered(t *testing.T) {
	s := opened(t)
	first := accept(t, s, "3", session.MethodToolsCall, noCancel(t))
	if !s.Claim(first) {
		t.Error("the first may not be answered")
	}
	second := accept(t, s, "3", session.MethodToolsCall, noCancel(t))
	if s.Claim(first) {
		t.Error("the first may be answered in place of the second")
	}
	refuse(t, s, "3", session.MethodPing, session.DuplicateID) // the late Claim has not freed it
	if !s.Claim(second) {
		t.Error("the second may not be answered")
	}
}

func TestRefusedRequestTakesNoID(t *testing.T) {
	s := session.New()
	refuse(t, s, "1", session.MethodToolsCall, session.NotInitialized)
	refuse(t, s, "1", "no/such", session.UnknownMethod)
	accept(t, s, "1", session.MethodPing, nil)
}

func TestRefusedInitializeDoesNotUseUpTheOneAllowed(t *testing.T) {
	s := session.New()
	ticket := accept(t, s, "1", session.MethodInitialize, nil)
	if !s.Claim(ticket) { // its params were wrong
		t.Error("the refusal may not be sent")
	}
	if s.IsInitialized() {
		t.Error("initialized by a refused initialize")
	}
	refuse(t, s, "2", session.MethodToolsList, session.NotInitialized)
	ticket = accept(t, s, "1", session.MethodInitialize, nil)
	s.Initialized()
	if !s.Claim(ticket) || !s.IsInitialized() {
		t.Error("the second initialize does not count")
	}
	refuse(t, s, "3", session.MethodInitialize, session.AlreadyInitialized)
	accept(t, s, "4", session.MethodToolsList, nil)
}

func TestCancelledCallGetsNoAnswerAndFreesItsID(t *testing.T) {
	s := opened(t)
	cancelled := 0
	first := accept(t, s, "8", session.MethodToolsCall, func() { cancelled++ })
	s.Cancel("8")
	s.Cancel("8")
	if cancelled != 1 {
		t.Errorf("told to stop %d times", cancelled)
	}
	if s.Claim(first) {
		t.Error("a cancelled call may be answered")
	}
	second := accept(t, s, "8", session.MethodToolsCall, noCancel(t))
	if s.Claim(first) {
		t.Error("a cancelled call may be answered once its id is used again")
	}
	if !s.Claim(second) {
		t.Error("the second use of the id may not be answered")
	}
}

func TestOnlyALiveCallCanBeCancelled(t *testing.T) {
	s := session.New()
	initialize := accept(t, s, "i", session.MethodInitialize, nil)
	s.Cancel("i") // MCP: must not be cancelled
	s.Initialized()
	ping := accept(t, s, "p", session.MethodPing, nil)
	list := accept(t, s, "l", session.MethodToolsList, nil)
	call := accept(t, s, "c", session.MethodToolsCall, noCancel(t))
	for _, key := range []string{"i", "p", "l", "unknown", ""} {
		s.Cancel(key)
	}
	for name, ticket := range map[string]*session.Ticket{"initialize": initialize, "ping": ping, "list": list, "call": call} {
		if !s.Claim(ticket) {
			t.Errorf("%s may not be answered", name)
		}
	}
	s.Cancel("c") // has been answered
}

func TestCancelMayComeFromTheCallItself(t *testing.T) {
	s := opened(t)
	var ticket *session.Ticket
	ticket = accept(t, s, "1", session.MethodToolsCall, func() {
		if s.Claim(ticket) { // would hang, were the session locked
			t.Error("a cancelled call may be answered")
		}
	})
	s.Cancel("1")
	ticket = accept(t, s, "1", session.MethodToolsCall, func() { s.CancelAll() })
	s.CancelAll()
}

func TestCancelAllCancelsCallsOnly(t *testing.T) {
	s := opened(t)
	ping := accept(t, s, "p", session.MethodPing, nil)
	cancelled := map[string]int{}
	var calls []*session.Ticket
	for i := range 100 {
		key := fmt.Sprint(i)
		calls = append(calls, accept(t, s, key, session.MethodToolsCall, func() { cancelled[key]++ }))
	}
	s.Cancel("5")
	if !s.Claim(calls[6]) {
		t.Error("call 6 may not be answered")
	}
	s.CancelAll()
	s.CancelAll()
	for i, ticket := range calls {
		want := 1
		if i == 6 {
			want = 0
		}
		if n := cancelled[fmt.Sprint(i)]; n != want {
			t.Errorf("call %d was told to stop %d times, want %d", i, n, want)
		}
		if s.Claim(ticket) {
			t.Errorf("call %d may be answered", i)
		}
	}
	if !s.Claim(ping) {
		t.Error("ping may not be answered")
	}
	accept(t, s, "5", session.MethodToolsCall, noCancel(t)) // CancelAll does not close
}

func TestClosedSessionAnswersWhatItHasAccepted(t *testing.T) {
	s := opened(t)
	ping := accept(t, s, "p", session.MethodPing, nil)
	call := accept(t, s, "c", session.MethodToolsCall, noCancel(t))
	stopped := 0
	other := accept(t, s, "o", session.MethodToolsCall, func() { stopped++ })
	s.Close()
	s.Close()
	refuse(t, s, "new", session.MethodPing, session.Closing)
	refuse(t, s, "c", session.MethodPing, session.Closing) // before anything else
	s.Cancel("o")
	if stopped != 1 || s.Claim(other) {
		t.Errorf("told to stop %d times", stopped)
	}
	if !s.Claim(ping) || !s.Claim(call) {
		t.Error("an accepted request may not be answered")
	}
}

// Answering, cancelling and shutting down at once: each call is answered or told to stop, never both, never twice.
func TestCallIsAnsweredOrCancelledNeverBoth(t *testing.T) {
	const rounds, calls = 200, 32
	for range rounds {
		s := opened(t)
		var answered, cancelled [calls]atomic.Int32
		var all sync.WaitGroup
		for i := range calls {
			ticket := accept(t, s, fmt.Sprint(i), session.MethodToolsCall, func() { cancelled[i].Add(1) })
			for range 2 {
				all.Go(func() {
					if s.Claim(ticket) {
						answered[i].Add(1)
					}
				})
			}
			all.Go(func() { s.Cancel(fmt.Sprint(i)) })
		}
		all.Go(s.CancelAll)
		all.Go(s.Close)
		all.Go(func() { _ = s.IsInitialized() }) // for the race detector
		all.Wait()
		for i := range calls {
			if a, c := answered[i].Load(), cancelled[i].Load(); a+c != 1 {
				t.Fatalf("call %d was answered %d times and told to stop %d times", i, a, c)
			}
		}
	}
}

func TestOneOfManyRequestsWithTheSameIDIsAccepted(t *testing.T) {
	for range 100 {
		s := opened(t)
		var accepted, duplicate atomic.Int32
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				switch ticket, verdict := s.Request("1", session.MethodToolsCall, func() {}); {
				case verdict == session.Accepted && ticket != nil:
					accepted.Add(1)
				case verdict == session.DuplicateID && ticket == nil:
					duplicate.Add(1)
				}
			})
		}
		all.Wait()
		if accepted.Load() != 1 || duplicate.Load() != 15 {
			t.Fatalf("%d accepted, %d duplicates", accepted.Load(), duplicate.Load())
		}
	}
}

// model is the session written again as a list of everything that was ever accepted.
type model struct {
	initialized, closed bool
	requests            []*request
}

type request struct {
	key, method string
	live        bool
	stops       int // how often it should have been told to stop
	told        int // how often it was
	ticket      *session.Ticket
}

func (m *model) live(key string) *request {
	for _, r := range m.requests {
		if r.live && r.key == key {
			return r
		}
	}
	return nil
}

func (m *model) verdict(key, method string) session.Verdict {
	known := slices.Contains([]string{"initialize", "ping", "tools/list", "tools/call"}, method)
	switch {
	case m.closed:
		return session.Closing
	case m.live(key) != nil:
		return session.DuplicateID
	case !known:
		return session.UnknownMethod
	case method == "initialize" && m.initialized:
		return session.AlreadyInitialized
	case method[0] == 't' && !m.initialized:
		return session.NotInitialized
	}
	return session.Accepted
}

func (m *model) cancel(r *request) {
	if r != nil && r.live && r.method == "tools/call" {
		r.live = false
		r.stops++
	}
}

func TestSessionBehavesLikeAListOfRequests(t *testing.T) {
	methods := []string{"initialize", "ping", "tools/list", "tools/call", "tools/call", "tools/call", "no/such"}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		s, m := session.New(), &model{}
		var log []string
		for range 150 {
			key := fmt.Sprint(random.IntN(6))
			switch op := random.IntN(100); {
			case op < 45:
				method := methods[random.IntN(len(methods))]
				log = append(log, fmt.Sprintf("Request(%s, %s)", key, method))
				r := &request{key: key, method: method, live: true}
				want := m.verdict(key, method)
				ticket, got := s.Request(key, method, func() { r.told++ })
				if got != want || (ticket != nil) != (want == session.Accepted) {
					t.Fatalf("seed %d: verdict %d, want %d after %q", seed, got, want, log)
				}
				if want == session.Accepted {
					r.ticket = ticket
					m.requests = append(m.requests, r)
				}
			case op < 75 && len(m.requests) > 0:
				n := random.IntN(len(m.requests))
				r := m.requests[n]
				log = append(log, fmt.Sprintf("Claim(#%d)", n))
				if got := s.Claim(r.ticket); got != r.live {
					t.Fatalf("seed %d: Claim says %t, want %t after %q", seed, got, r.live, log)
				}
				r.live = false
			case op < 92:
				log = append(log, fmt.Sprintf("Cancel(%s)", key))
				s.Cancel(key)
				m.cancel(m.live(key))
			case op < 96:
				log = append(log, "Initialized()")
				s.Initialized()
				m.initialized = true
			case op < 99:
				log = append(log, "CancelAll()")
				s.CancelAll()
				for _, r := range m.requests {
					m.cancel(r)
				}
			case random.IntN(3) == 0:
				log = append(log, "Close()")
				s.Close()
				m.closed = true
			}
			if s.IsInitialized() != m.initialized {
				t.Fatalf("seed %d: initialized %t after %q", seed, s.IsInitialized(), log)
			}
			for n, r := range m.requests {
				if r.told != r.stops {
					t.Fatalf("seed %d: request #%d was told to stop %d times, want %d after %q", seed, n, r.told, r.stops, log)
				}
			}
		}
	}
}

func TestIsLiveUntilItIsAnsweredOrCancelled(t *testing.T) {
	s := session.New()
	s.Initialized()
	if s.IsLive("1") {
		t.Error("live before it came")
	}
	first, _ := s.Request("1", "ping", nil)
	_, _ = s.Request("2", "tools/call", func() {})
	if !s.IsLive("1") || !s.IsLive("2") || s.IsLive("3") {
		t.Error("two are live and one is not")
	}
	s.Claim(first)
	s.Cancel("2")
	if s.IsLive("1") || s.IsLive("2") {
		t.Error("live after the end")
	}
}
