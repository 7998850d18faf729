package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// ErrBusy says that the wait for a slot or for reply bytes was longer than allowed.
var ErrBusy = errors.New("busy")

// MaxAliveArgumentBytes bounds the arguments of all calls that are alive: 16 running calls of the largest frame, and as
// many waiting ones.
const MaxAliveArgumentBytes = 32 << 20

// Gate counts calls from their arrival until their answer has been handed over.
type Gate struct {
	maxCalls int

	mu    sync.Mutex
	calls int
	bytes int
}

// NewGate allows maxCalls calls to be alive, one at least.
func NewGate(maxCalls int) (*Gate, error) {
	if maxCalls < 1 {
		return nil, fmt.Errorf("gate for %d calls", maxCalls)
	}
	return &Gate{maxCalls: maxCalls}, nil
}

// Enter counts a call with so many bytes of arguments, or reports false if there are too many already.
func (g *Gate) Enter(argumentBytes int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls >= g.maxCalls || g.bytes+argumentBytes > MaxAliveArgumentBytes {
		return false
	}
	g.calls++
	g.bytes += argumentBytes
	return true
}

// Leave takes back one Enter with the same number of bytes.
func (g *Gate) Leave(argumentBytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls--
	g.bytes -= argumentBytes
}

// Budget is a stock of reply bytes.
type Budget struct {
	stock *semaphore.Weighted
	size  int
	wait  time.Duration
}

// NewBudget makes a stock of size bytes, for which a call waits at most wait.
func NewBudget(size int, wait time.Duration) (*Budget, error) {
	if size < 1 || wait < 0 {
		return nil, fmt.Errorf("budget of %d bytes with a wait of %v", size, wait)
	}
	return &Budget{stock: semaphore.NewWeighted(int64(size)), size: size, wait: wait}, nil
}

// Reservation is a part of a budget, held until Release.
type Reservation struct {
	budget *Budget
	held   atomic.Int64
}

// Reserve takes size bytes, in order of arrival; more than the whole budget can never be had and is ErrBusy at once.
// It returns ErrBusy after the wait, or the context's cause if that ends first.
func (b *Budget) Reserve(ctx context.Context, size int) (*Reservation, error) {
	if size > b.size {
		return nil, ErrBusy
	}
	if err := acquire(ctx, b.stock, int64(size), b.wait); err != nil {
		return nil, err
	}
	r := &Reservation{budget: b}
	r.held.Store(int64(size))
	return r, nil
}

// Bytes is how much the reservation holds now.
func (r *Reservation) Bytes() int { return int(r.held.Load()) }

// Shrink gives back what is held beyond size bytes.
func (r *Reservation) Shrink(size int) {
	if held := r.held.Load(); int64(size) < held && r.held.CompareAndSwap(held, int64(size)) {
		r.budget.stock.Release(held - int64(size))
	}
}

// Release gives everything back. A second Release does nothing.
func (r *Reservation) Release() {
	if held := r.held.Swap(0); held > 0 {
		r.budget.stock.Release(held)
	}
}

func acquire(ctx context.Context, stock *semaphore.Weighted, n int64, wait time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if stock.TryAcquire(n) {
		return nil
	}
	if wait == 0 {
		return ErrBusy
	}
	bounded, cancel := context.WithTimeoutCause(ctx, wait, ErrBusy)
	defer cancel()
	if stock.Acquire(bounded, n) != nil {
		return context.Cause(bounded)
	}
	return nil
}
