package session

import "sync"

// The methods that a session knows (seed 000, wire specification).
const (
	MethodInitialize = "initialize"
	MethodPing       = "ping"
	MethodToolsList  = "tools/list"
	MethodToolsCall  = "tools/call"
	NoteCancelled    = "notifications/cancelled"
	NoteInitialized  = "notifications/initialized"
)

// Verdict is what a session says to a request.
type Verdict uint8

// The verdicts. Everything but Accepted is answered with an error.
const (
	Accepted Verdict = iota
	UnknownMethod
	NotInitialized     // only initialize and ping may come before initialize has been answered
	AlreadyInitialized // initialize comes exactly once
	DuplicateID        // a request with this id is still live
	Closing            // the session takes nothing more
)

// Ticket stands for one accepted request and holds the right to answer it once.
type Ticket struct {
	key    string
	call   bool
	done   bool
	cancel func()
}

// Session is the state of one conversation. Its methods may be called from any goroutine.
type Session struct {
	mu          sync.Mutex
	initialized bool
	closing     bool
	live        map[string]*Ticket
}

// New returns a session that has seen nothing yet.
func New() *Session { return &Session{live: make(map[string]*Ticket)} }

// Request asks whether a request may come now, and registers it as live if so. cancel is what ends the work of a
// tools/call; it is called at most once, by Cancel or CancelAll, and is nil for other methods.
func (s *Session) Request(key, method string, cancel func()) (*Ticket, Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, Closing
	}
	if _, live := s.live[key]; live {
		return nil, DuplicateID
	}
	switch method {
	case MethodPing:
	case MethodInitialize:
		if s.initialized {
			return nil, AlreadyInitialized
		}
	case MethodToolsList, MethodToolsCall:
		if !s.initialized {
			return nil, NotInitialized
		}
	default:
		return nil, UnknownMethod
	}
	ticket := &Ticket{key: key, call: method == MethodToolsCall, cancel: cancel}
	s.live[key] = ticket
	return ticket, Accepted
}

// IsLive reports whether a request with this key is live.
func (s *Session) IsLive(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[key] != nil
}

// Initialized records that initialize was accepted. A refused one does not use up the one that is allowed. Whoever reads
// calls it, or not, before it asks about the next request: between the two a second initialize would be accepted too.
func (s *Session) Initialized() {
	s.mu.Lock()
	s.initialized = true
	s.mu.Unlock()
}

// IsInitialized reports whether initialize has been accepted.
func (s *Session) IsInitialized() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.initialized
}

// Claim takes the right to answer a request and frees its id. It returns false when the request was cancelled or has
// been answered: then nothing may be sent for it.
func (s *Session) Claim(t *Ticket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.done {
		return false
	}
	s.end(t)
	return true
}

// Cancel ends the live tools/call with this key: its id is free, it gets no answer, its work is told to stop. Requests
// of other methods cannot be cancelled (MCP: initialize must not be), and an unknown key is ignored.
func (s *Session) Cancel(key string) {
	s.mu.Lock()
	t := s.live[key]
	if t == nil || !t.call {
		s.mu.Unlock()
		return
	}
	s.end(t)
	s.mu.Unlock()
	t.cancel()
}

// Close makes the session refuse everything that comes from now on. Live requests stay live.
func (s *Session) Close() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
}

// CancelAll cancels every live tools/call, as Cancel does.
func (s *Session) CancelAll() {
	s.mu.Lock()
	var cancelled []*Ticket
	for _, t := range s.live {
		if t.call {
			cancelled = append(cancelled, t)
			s.end(t)
		}
	}
	s.mu.Unlock()
	for _, t := range cancelled {
		t.cancel()
	}
}

func (s *Session) end(t *Ticket) {
	t.done = true
	delete(s.live, t.key)
}
