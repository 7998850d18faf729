package admission

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"
)

// Slots let a fixed number of calls run, and the others stand in one line. Joining the line and waiting in it are two
// steps: whoever reads the calls joins for each at once, so that the order is that of arrival and not that in which the
// scheduler starts their goroutines (a semaphore would take the last of a burst first).
type Slots struct {
	wait time.Duration

	mu   sync.Mutex
	free int       // above 0 only while nobody is in line
	line list.List // of *Place, first come first
}

// NewSlots makes count slots, 1 at least, for which a call waits at most wait; 0 refuses at once.
func NewSlots(count int, wait time.Duration) (*Slots, error) {
	if count < 1 || wait < 0 {
		return nil, fmt.Errorf("%d slots with a wait of %v", count, wait)
	}
	return &Slots{wait: wait, free: count}, nil
}

// Place is a place in the line and, when its turn has come, a slot. It is held until Leave.
type Place struct {
	slots *Slots
	turn  chan struct{} // closed when the slot is given; nil if it was given at once

	// Guarded by slots.mu.
	held  bool          // the slot is ours
	entry *list.Element // in the line; nil when held or left
}

// Join takes the next place. It never waits.
func (s *Slots) Join() *Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &Place{slots: s}
	if s.free > 0 {
		s.free--
		p.held = true
		return p
	}
	p.turn = make(chan struct{})
	p.entry = s.line.PushBack(p)
	return p
}

// Wait returns when the slot is ours. It returns ErrBusy after the wait, or the context's cause if that ends first; the
// place is left then.
func (p *Place) Wait(ctx context.Context) error {
	if ctx.Err() != nil {
		p.Leave()
		return context.Cause(ctx)
	}
	if p.turn == nil {
		return nil
	}
	select {
	case <-p.turn: // given before the wait begins; that must win even where the wait is 0
		return nil
	default:
	}
	patience := time.NewTimer(p.slots.wait)
	defer patience.Stop()
	select {
	case <-p.turn:
		return nil
	case <-patience.C:
		p.Leave()
		return ErrBusy
	case <-ctx.Done():
		p.Leave()
		return context.Cause(ctx)
	}
}

// Leave gives the slot to the next in line, or steps out of the line. A second Leave does nothing.
func (p *Place) Leave() {
	s := p.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.entry != nil {
		s.line.Remove(p.entry)
		p.entry = nil
		return
	}
	if !p.held {
		return
	}
	p.held = false
	first := s.line.Front()
	if first == nil {
		s.free++
		return
	}
	next := s.line.Remove(first).(*Place)
	next.entry, next.held = nil, true
	close(next.turn)
}
