package admission_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcp-server-suite/pkg/admission"
)

const wait = 5 * time.Second

var errCause = errors.New("why it was cancelled")

// desk joins and waits in one step, and gives back the slot that was taken first.
type desk struct {
	*admission.Slots
	mu   sync.Mutex
	held []*admission.Place
}

func (d *desk) Acquire(ctx context.Context) error {
	p := d.Join()
	if err := p.Wait(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	d.held = append(d.held, p)
	d.mu.Unlock()
	return nil
}

func (d *desk) Release() {
	d.mu.Lock()
	p := d.held[0]
	d.held = d.held[1:]
	d.mu.Unlock()
	p.Leave()
}

func newSlots(t testing.TB, count int, wait time.Duration) *desk {
	t.Helper()
	s, err := admission.NewSlots(count, wait)
	if err != nil {
		t.Fatal(err)
	}
	return &desk{Slots: s}
}

func newBudget(t testing.TB, size int, wait time.Duration) *admission.Budget {
	t.Helper()
	b, err := admission.NewBudget(size, wait)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func reserve(t *testing.T, b *admission.Budget, size int) *admission.Reservation {
	t.Helper()
	r, err := b.Reserve(t.Context(), size)
	if err != nil {
		t.Fatalf("reserve %d bytes: %v", size, err)
	}
	if r.Bytes() != size {
		t.Fatalf("reserved %d bytes, holds %d", size, r.Bytes())
	}
	return r
}

// isWhole takes the whole budget and gives it back, which works only when nothing else is held. One byte too many given
// back would have made the semaphore panic.
func isWhole(b *admission.Budget, size int) bool {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	r, err := b.Reserve(ctx, size)
	if err == nil {
		r.Release()
	}
	return err == nil
}

func TestSettingsThatAdmitNothingAreRefused(t *testing.T) {
	for _, calls := range []int{0, -1} {
		if g, err := admission.NewGate(calls); err == nil || g != nil {
			t.Errorf("NewGate(%d) = %v, %v", calls, g, err)
		}
	}
	for _, c := range []struct {
		size int
		wait time.Duration
	}{{0, 0}, {-1, time.Second}, {1, -1}} {
		if s, err := admission.NewSlots(c.size, c.wait); err == nil || s != nil {
			t.Errorf("NewSlots(%d, %v) = %v, %v", c.size, c.wait, s, err)
		}
		if b, err := admission.NewBudget(c.size, c.wait); err == nil || b != nil {
			t.Errorf("NewBudget(%d, %v) = %v, %v", c.size, c.wait, b, err)
		}
	}
}

func newGate(t *testing.T, calls int) *admission.Gate {
	t.Helper()
	g, err := admission.NewGate(calls)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGateBoundsCalls(t *testing.T) {
	g := newGate(t, 2)
	if !g.Enter(0) || !g.Enter(10) {
		t.Fatal("two calls do not fit into a gate for two")
	}
	if g.Enter(0) {
		t.Error("a third call has entered")
	}
	g.Leave(10)
	if !g.Enter(5) || g.Enter(5) {
		t.Error("one call has left, so exactly one may enter")
	}
}

func TestGateBoundsArgumentBytes(t *testing.T) {
	const all = admission.MaxAliveArgumentBytes
	g := newGate(t, 100)
	if !g.Enter(all - 10) {
		t.Fatal("a call within the bound was refused")
	}
	if g.Enter(11) {
		t.Error("one byte more than the bound has entered")
	}
	if !g.Enter(10) {
		t.Error("the last bytes of the bound were refused: has the refused call been counted?")
	}
	if g.Enter(1) || !g.Enter(0) {
		t.Error("a call without arguments takes no bytes, another does")
	}
	g.Leave(all - 10)
	if !g.Enter(all-10) || g.Enter(1) {
		t.Error("a call that has left has not given exactly its bytes back")
	}
}

func TestGateForOneCallTakesTheLargestFrame(t *testing.T) {
	if g := newGate(t, 1); !g.Enter(1 << 20) {
		t.Error("refused")
	}
}

func TestGateNeverHoldsMoreThanItsBounds(t *testing.T) {
	const calls = 8
	g := newGate(t, calls)
	var alive atomic.Int64
	var all sync.WaitGroup
	for range 4 * calls {
		all.Go(func() {
			for range 500 {
				if !g.Enter(100) {
					continue
				}
				if n := alive.Add(1); n > calls {
					t.Errorf("%d calls are alive", n)
				}
				alive.Add(-1)
				g.Leave(100)
			}
		})
	}
	all.Wait()
	for i := range calls {
		if !g.Enter(admission.MaxAliveArgumentBytes / calls) {
			t.Fatalf("after everybody has left, call %d does not fit", i)
		}
	}
}

func TestSlotsAreGivenInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(t, 2, wait)
		for range 2 {
			if err := s.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		const waiting = 10
		var order []int
		turn := make(chan int)
		for i := range waiting {
			go func() {
				if err := s.Acquire(t.Context()); err != nil {
					t.Errorf("call %d: %v", i, err)
				}
				turn <- i
			}()
			synctest.Wait() // i waits before i+1 arrives
		}
		for range waiting {
			s.Release()
			order = append(order, <-turn)
		}
		if !slices.IsSorted(order) {
			t.Errorf("served in the order %v", order)
		}
		s.Release()
		s.Release()
	})
}

func TestTheOrderIsThatOfJoiningNotOfWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(t, 1, wait)
		if err := s.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		var places []*admission.Place
		for range 10 {
			places = append(places, s.Join())
		}
		var order []int
		turn := make(chan int)
		for i := range places { // the last begins to wait first, as the scheduler would have it
			i = len(places) - 1 - i
			go func() {
				if err := places[i].Wait(t.Context()); err != nil {
					t.Errorf("call %d: %v", i, err)
				}
				turn <- i
				places[i].Leave()
			}()
			synctest.Wait()
		}
		s.Release()
		for range places {
			order = append(order, <-turn)
		}
		if !slices.IsSorted(order) {
			t.Errorf("served in the order %v", order)
		}
	})
}

func TestWhoLeavesTheLineIsPassedOver(t *testing.T) {
	s := newSlots(t, 1, wait)
	first, second, third := s.Join(), s.Join(), s.Join()
	second.Leave()
	second.Leave()
	first.Leave()
	first.Leave() // must not give a second slot
	if err := third.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	fourth := s.Join()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCause)
	if err := fourth.Wait(ctx); err != errCause {
		t.Errorf("beside the only slot: %v", err)
	}
	third.Leave()
	if err := s.Acquire(t.Context()); err != nil {
		t.Errorf("the slot is lost: %v", err)
	}
}

func TestAnArrivalDoesNotOvertakeThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(t, 100, wait)
		held := reserve(t, b, 90)
		var order []string
		var mu sync.Mutex
		take := func(name string, size int) {
			r, err := b.Reserve(t.Context(), size)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			mu.Lock()
			order = append(order, name)
			mu.Unlock()
			time.Sleep(time.Second)
			r.Release()
		}
		var all sync.WaitGroup
		all.Go(func() { take("large", 100) })
		synctest.Wait()
		all.Go(func() { take("small", 5) }) // would fit into what is left
		synctest.Wait()
		all.Go(func() { take("smaller", 1) })
		synctest.Wait()
		if len(order) != 0 {
			t.Errorf("%v got in before the large one that waits", order)
		}
		held.Release()
		all.Wait()
		if order[0] != "large" || len(order) != 3 {
			t.Errorf("order %v, want the large one first", order)
		}
		if !isWhole(b, 100) {
			t.Error("bytes are missing")
		}
	})
}

func TestSmallReservationsThatWaitAreNotOvertakenByLargeOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(t, 100, wait)
		held := reserve(t, b, 100)
		order := make(chan string, 2)
		var all sync.WaitGroup
		for _, c := range []struct {
			name string
			size int
		}{{"small", 1}, {"large", 100}} {
			all.Go(func() {
				r, err := b.Reserve(t.Context(), c.size)
				if err != nil {
					t.Errorf("%s: %v", c.name, err)
					return
				}
				order <- c.name
				r.Release()
			})
			synctest.Wait()
		}
		held.Release()
		all.Wait()
		if first := <-order; first != "small" {
			t.Errorf("%s was first", first)
		}
	})
}

func TestTheWaitIsBounded(t *testing.T) {
	cases := []struct {
		name string
		wait time.Duration
		why  string
	}{
		{"no wait", 0, "MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS=0 refuses at once"},
		{"a nanosecond", 1, "the shortest wait"},
		{"five seconds", wait, "seed 000's default"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, b := newSlots(t, 1, c.wait), newBudget(t, 10, c.wait)
				if err := s.Acquire(t.Context()); err != nil {
					t.Fatalf("the free slot: %v", err)
				}
				held := reserve(t, b, 10)
				start := time.Now()
				if err := s.Acquire(t.Context()); err != admission.ErrBusy {
					t.Errorf("slot: %v, want ErrBusy itself", err)
				}
				if waited := time.Since(start); waited != c.wait {
					t.Errorf("waited %v for a slot, want %v (%s)", waited, c.wait, c.why)
				}
				start = time.Now()
				if r, err := b.Reserve(t.Context(), 1); err != admission.ErrBusy || r != nil {
					t.Errorf("reservation: %v, %v, want ErrBusy itself", r, err)
				}
				if waited := time.Since(start); waited != c.wait {
					t.Errorf("waited %v for bytes, want %v (%s)", waited, c.wait, c.why)
				}
				s.Release()
				held.Release()
				if err := s.Acquire(t.Context()); err != nil {
					t.Errorf("after the busy time: %v", err)
				}
				s.Release()
				if !isWhole(b, 10) {
					t.Error("bytes are missing after a wait in vain")
				}
			})
		})
	}
}

func TestTheContextsCauseEndsTheWait(t *testing.T) {
	cases := []struct {
		name string
		end  func(context.Context) (context.Context, func())
		want error
		why  string
	}{
		{"cancelled with a cause", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { time.Sleep(time.Second); cancel(errCause) }
		}, errCause, "the cause decides whether anything is answered"},
		{"cancelled without a cause", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancel(ctx)
			return ctx, func() { time.Sleep(time.Second); cancel() }
		}, context.Canceled, "never ErrBusy: nobody shall retry for it"},
		{"a deadline before the wait is over", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeoutCause(ctx, time.Second, errCause)
			return ctx, func() { time.Sleep(time.Minute); cancel() }
		}, errCause, "the shorter of the two counts"},
		{"a deadline after the wait is over", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeoutCause(ctx, time.Hour, errCause)
			return ctx, func() { time.Sleep(time.Minute); cancel() }
		}, admission.ErrBusy, "the shorter of the two counts"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, b := newSlots(t, 1, wait), newBudget(t, 10, wait)
				if err := s.Acquire(t.Context()); err != nil {
					t.Fatal(err)
				}
				held := reserve(t, b, 10)
				ctx, end := c.end(t.Context())
				var all sync.WaitGroup
				all.Go(end)
				all.Go(func() {
					if err := s.Acquire(ctx); err != c.want {
						t.Errorf("slot: %v, want %v (%s)", err, c.want, c.why)
					}
				})
				all.Go(func() {
					if r, err := b.Reserve(ctx, 10); err != c.want || r != nil {
						t.Errorf("reservation: %v, %v, want %v (%s)", r, err, c.want, c.why)
					}
				})
				all.Wait()
				held.Release()
				if !isWhole(b, 10) {
					t.Error("bytes are missing after a cancelled wait")
				}
				s.Release()
				if err := s.Acquire(t.Context()); err != nil {
					t.Errorf("the slot is lost after a cancelled wait: %v", err)
				}
			})
		})
	}
}

func TestACancelledCallTakesNothingEvenIfThereIsRoom(t *testing.T) {
	s, b := newSlots(t, 1, wait), newBudget(t, 10, wait)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCause)
	if err := s.Acquire(ctx); err != errCause {
		t.Errorf("slot: %v", err)
	}
	if r, err := b.Reserve(ctx, 10); err != errCause || r != nil {
		t.Errorf("reservation: %v, %v", r, err)
	}
	if err := newSlots(t, 1, 0).Acquire(ctx); err != errCause {
		t.Errorf("slot without a wait: %v", err)
	}
	if err := s.Acquire(t.Context()); err != nil {
		t.Errorf("the slot is taken: %v", err)
	}
	if !isWhole(b, 10) {
		t.Error("bytes are taken")
	}
}

// TestThoseBehindACancelledWaiterAreWoken: the head of the queue wants more than there is, so those behind it wait too;
// when it goes away, there is room for them and nobody else will release anything.
func TestThoseBehindACancelledWaiterAreWoken(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(context.CancelCauseFunc)
		want error
	}{
		{"cancelled", func(cancel context.CancelCauseFunc) { cancel(errCause) }, errCause},
		{"tired of waiting", func(context.CancelCauseFunc) {}, admission.ErrBusy},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBudget(t, 100, wait)
				held := reserve(t, b, 50)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				var all sync.WaitGroup
				all.Go(func() {
					if _, err := b.Reserve(ctx, 100); err != c.want {
						t.Errorf("the head: %v, want %v", err, c.want)
					}
				})
				time.Sleep(time.Second) // the others arrive later and are more patient
				var woken atomic.Int64
				for range 5 {
					all.Go(func() {
						r, err := b.Reserve(t.Context(), 10)
						if err != nil {
							t.Errorf("behind it: %v", err)
							return
						}
						woken.Add(1)
						r.Release()
					})
				}
				synctest.Wait()
				if n := woken.Load(); n != 0 {
					t.Errorf("%d have overtaken the head", n)
				}
				c.end(cancel)
				all.Wait()
				if n := woken.Load(); n != 5 {
					t.Errorf("%d of 5 were woken", n)
				}
				held.Release()
				if !isWhole(b, 100) {
					t.Error("bytes are missing")
				}
			})
		})
	}
}

func TestMoreThanTheWholeBudgetIsBusyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(t, 10, wait)
		start := time.Now()
		if r, err := b.Reserve(t.Context(), 11); err != admission.ErrBusy || r != nil {
			t.Errorf("%v, %v", r, err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %v for what can never be had", waited)
		}
		reserve(t, b, 10).Release() // the whole is possible
	})
}

func TestAReservationIsGivenBackOnce(t *testing.T) {
	const size = 100
	cases := []struct {
		name  string
		steps func(*admission.Reservation)
		held  int
		why   string
	}{
		{"kept", func(*admission.Reservation) {}, size, ""},
		{"released", func(r *admission.Reservation) { r.Release() }, 0, ""},
		{"released twice", func(r *admission.Reservation) { r.Release(); r.Release() }, 0, "two paths may both clean up"},
		{"shrunk", func(r *admission.Reservation) { r.Shrink(30) }, 30, ""},
		{"shrunk to nothing", func(r *admission.Reservation) { r.Shrink(0) }, 0, "an empty answer"},
		{"shrunk to the same", func(r *admission.Reservation) { r.Shrink(size) }, size, ""},
		{"shrunk to more", func(r *admission.Reservation) { r.Shrink(size + 1) }, size, "shrinking never takes"},
		{"shrunk twice", func(r *admission.Reservation) { r.Shrink(50); r.Shrink(20) }, 20, ""},
		{"shrunk back up", func(r *admission.Reservation) { r.Shrink(20); r.Shrink(50) }, 20, "what is given back may be taken by others"},
		{"shrunk, released", func(r *admission.Reservation) { r.Shrink(30); r.Release() }, 0, ""},
		{"released, shrunk", func(r *admission.Reservation) { r.Release(); r.Shrink(30) }, 0, "not taken again"},
		{"released, shrunk to nothing", func(r *admission.Reservation) { r.Release(); r.Shrink(0) }, 0, "not given back again"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBudget(t, size, 0)
			r := reserve(t, b, size)
			c.steps(r)
			if r.Bytes() != c.held {
				t.Errorf("holds %d, want %d %s", r.Bytes(), c.held, c.why)
			}
			if c.held < size && !isWhole(b, size-c.held) || isWhole(b, size-c.held+1) {
				t.Errorf("the budget has not exactly %d bytes left %s", size-c.held, c.why)
			}
			r.Release()
			if !isWhole(b, size) {
				t.Error("bytes are missing at the end")
			}
		})
	}
}

// TestShrinkAndReleaseAtOnceGiveBackOnce: an answer is dropped while it is being shrunk. One byte given back twice makes
// the semaphore panic; one lost shows in the end.
func TestShrinkAndReleaseAtOnceGiveBackOnce(t *testing.T) {
	const size = 1000
	b := newBudget(t, size, 0)
	for range 2000 {
		r := reserve(t, b, size)
		var all sync.WaitGroup
		for _, step := range []func(){
			func() { r.Shrink(300) }, func() { r.Shrink(700) }, r.Release, func() { r.Shrink(0) }, r.Release,
		} {
			all.Go(step)
		}
		all.Wait()
		if r.Bytes() != 0 || !isWhole(b, size) {
			t.Fatalf("the reservation holds %d, whole is %t", r.Bytes(), isWhole(b, size))
		}
	}
}

// TestAFloodLeavesSlotsAndBudgetWhole: many calls, some cancelled, some tired, and never more at once than allowed.
func TestAFloodLeavesSlotsAndBudgetWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, size, calls = 16, 1000, 1000 // wire-034
		s, b := newSlots(t, slots, wait), newBudget(t, size, wait)
		var running, bytes, served, busy, cancelled atomic.Int64
		var all sync.WaitGroup
		for i := range calls {
			all.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(i)))
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if random.IntN(4) == 0 {
					time.AfterFunc(time.Duration(random.IntN(6000))*time.Millisecond, func() { cancel(errCause) })
				}
				if err := s.Acquire(ctx); err != nil {
					count(t, err, &busy, &cancelled)
					return
				}
				defer s.Release()
				if n := running.Add(1); n > slots {
					t.Errorf("%d calls run", n)
				}
				defer running.Add(-1)
				want := 1 + random.IntN(size/4)
				r, err := b.Reserve(ctx, want)
				if err != nil {
					count(t, err, &busy, &cancelled)
					return
				}
				if n := bytes.Add(int64(want)); n > size {
					t.Errorf("%d bytes are reserved", n)
				}
				time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
				bytes.Add(-int64(want))
				r.Shrink(want / 2)
				time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
				r.Release()
				served.Add(1)
			})
		}
		all.Wait()
		if served.Load()+busy.Load()+cancelled.Load() != calls || served.Load() == 0 || busy.Load() == 0 || cancelled.Load() == 0 {
			t.Errorf("served %d, busy %d, cancelled %d of %d", served.Load(), busy.Load(), cancelled.Load(), calls)
		}
		if !isWhole(b, size) {
			t.Error("bytes are missing")
		}
		for i := range slots {
			if err := s.Acquire(t.Context()); err != nil {
				t.Fatalf("slot %d is lost: %v", i, err)
			}
		}
	})
}

func count(t *testing.T, err error, busy, cancelled *atomic.Int64) {
	switch {
	case errors.Is(err, admission.ErrBusy):
		busy.Add(1)
	case errors.Is(err, errCause):
		cancelled.Add(1)
	default:
		t.Error(fmt.Errorf("neither busy nor cancelled: %w", err))
	}
}
