package framing_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcp-server-suite/pkg/framing"
)

// gate is a stream whose writes wait for release: an error, or nil for success. Closed, it lets everything through.
type gate struct {
	release chan error
	mu      sync.Mutex
	writes  []string
}

func newGate() *gate { return &gate{release: make(chan error)} }

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	g.writes = append(g.writes, string(p))
	g.mu.Unlock()
	if err := <-g.release; err != nil {
		return 0, err
	}
	return len(p), nil
}

func (g *gate) seen() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.writes)
}

// ledger makes frames and counts how often each is done.
type ledger struct {
	mu   sync.Mutex
	done map[string]int
	made int
}

func (l *ledger) frame(text string, reserved bool) framing.Frame {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made++
	name := text[:min(len(text), 40)] + fmt.Sprint(l.made)
	if l.done == nil {
		l.done = map[string]int{}
	}
	l.done[name] = 0
	return framing.Frame{Bytes: []byte(text), Reserved: reserved, Done: func() {
		l.mu.Lock()
		l.done[name]++
		l.mu.Unlock()
	}}
}

// check reports frames that were not done exactly want times.
func (l *ledger) check(t *testing.T, want int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, n := range l.done {
		if n != want {
			t.Errorf("frame %q was done %d times, want %d", name, n, want)
		}
	}
}

// begin sends a first frame into a gate and returns when its write is waiting there.
func begin(t *testing.T, w *framing.Writer, g *gate, f framing.Frame) {
	t.Helper()
	go w.Send(f)
	synctest.Wait()
	if n := len(g.seen()); n != 1 {
		t.Fatalf("%d writes, want the first", n)
	}
}

// line is one frame of n bytes with its newline.
func line(name string, n int) string {
	return name + strings.Repeat(".", n-len(name)-1) + "\n"
}

func TestLoneFrameIsWrittenAndDoneBeforeSendReturns(t *testing.T) {
	for _, reserved := range []bool{false, true} {
		var out bytes.Buffer
		var l ledger
		w := framing.NewWriter(&out)
		w.Send(l.frame("a\n", reserved))
		if out.String() != "a\n" {
			t.Errorf("written: %q", &out)
		}
		l.check(t, 1)
		w.Send(framing.Frame{Bytes: []byte("b\n"), Reserved: reserved}) // Done may be absent
		if out.String() != "a\nb\n" {
			t.Errorf("written: %q", &out)
		}
		if err := w.Close(time.Minute); err != nil {
			t.Error(err)
		}
	}
}

func TestFramesDueAreWrittenTogetherUpToOneChunk(t *testing.T) {
	const kib = 1 << 10
	cases := []struct {
		name  string
		sizes []int
		want  []int
		why   string
	}{
		{"one", []int{10}, []int{10}, "nothing to combine"},
		{"short ones", []int{10, 20, 30}, []int{60}, "one write"},
		{"exactly one chunk", []int{32 * kib, 32 * kib}, []int{64 * kib}, "one write"},
		{"one byte more", []int{32 * kib, 32*kib + 1}, []int{32 * kib, 32*kib + 1}, "two writes"},
		{"100 of 1 KiB", slices.Repeat([]int{kib}, 100), []int{64 * kib, 36 * kib}, "as few as possible"},
		{"a long one", []int{1000 * kib}, []int{1000 * kib}, "whole"},
		{"a long one among short ones", []int{10, 20, 1000 * kib, 10, 20}, []int{30, 1000 * kib, 30}, "alone, so it is not copied"},
		{"long ones", []int{100 * kib, 100 * kib}, []int{100 * kib, 100 * kib}, "each alone"},
	}
	for _, c := range cases {
		synctest.Test(t, func(t *testing.T) {
			var l ledger
			g := newGate()
			w := framing.NewWriter(g)
			begin(t, w, g, l.frame("first\n", false))
			var want string
			for i, n := range c.sizes {
				text := line(fmt.Sprint(i), n)
				want += text
				w.Send(l.frame(text, true))
			}
			l.check(t, 0)
			close(g.release)
			if err := w.Close(time.Minute); err != nil {
				t.Error(err)
			}
			writes := g.seen()[1:]
			var got []int
			for _, text := range writes {
				got = append(got, len(text))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s (%s): writes of %d, want %d", c.name, c.why, got, c.want)
			}
			if strings.Join(writes, "") != want {
				t.Errorf("%s: frames are not whole or not in order", c.name)
			}
			l.check(t, 1)
		})
	}
}

func TestFramesStayWholeAndInTheOrderOfTheirSenders(t *testing.T) {
	const senders, each = 16, 300
	var out bytes.Buffer // the writer never writes twice at once: the race detector would tell
	var done [senders * each]atomic.Int32
	w := framing.NewWriter(&out)
	var all sync.WaitGroup
	for s := range senders {
		all.Go(func() {
			for i := range each {
				n := 12 + (s*31+i*17)%200
				if i%50 == 0 {
					n = 80 << 10
				}
				text := []byte(line(fmt.Sprintf("%d:%d:", s, i), n))
				w.Send(framing.Frame{Bytes: text, Reserved: s%2 == 0, Done: func() {
					done[s*each+i].Add(1)
					clear(text) // the memory is the sender's again
				}})
			}
		})
	}
	all.Wait()
	if err := w.Close(time.Minute); err != nil {
		t.Fatal(err)
	}
	var next [senders]int
	for text := range strings.Lines(out.String()) {
		var s, i int
		if _, err := fmt.Sscanf(text, "%d:%d:", &s, &i); err != nil {
			t.Fatalf("%.40q: %v", text, err)
		}
		if strings.Trim(text[strings.LastIndexByte(text, ':'):], ".:") != "\n" {
			t.Fatalf("frame %d of sender %d is not whole: %.40q", i, s, text)
		}
		if i != next[s] {
			t.Fatalf("frame %d of sender %d comes where %d was due", i, s, next[s])
		}
		next[s]++
	}
	for s := range next {
		if next[s] != each {
			t.Errorf("sender %d: %d frames written, want %d", s, next[s], each)
		}
	}
	for i := range done {
		if n := done[i].Load(); n != 1 {
			t.Errorf("frame %d of sender %d was done %d times", i%each, i/each, n)
		}
	}
}

func TestFrameIsDoneOnlyWhenItsBytesAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l, later ledger
		g := newGate()
		w := framing.NewWriter(g)
		begin(t, w, g, l.frame("first\n", false))
		w.Send(later.frame(line("second", 80<<10), true))
		w.Send(later.frame(line("third", 80<<10), true))
		l.check(t, 0)
		g.release <- nil
		synctest.Wait()
		l.check(t, 1)
		later.check(t, 0)
		close(g.release)
		if err := w.Close(time.Minute); err != nil {
			t.Error(err)
		}
		later.check(t, 1)
	})
}

func TestUnreservedSendersWaitWhileTheBacklogIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const frame = 1 << 10
		var l ledger
		g := newGate()
		w := framing.NewWriter(g)
		begin(t, w, g, l.frame("first\n", false))
		want := "first\n"
		w.Send(l.frame(line("reserved", 3*framing.MaxBacklogBytes), true)) // does not count
		want += line("reserved", 3*framing.MaxBacklogBytes)
		for i := range framing.MaxBacklogBytes / frame {
			text := line(fmt.Sprint(i), frame)
			w.Send(l.frame(text, false)) // would end the test, if it waited: nobody reads
			want += text
		}
		var sent atomic.Int32
		for range 3 {
			go func() {
				w.Send(l.frame("late\n", false))
				sent.Add(1)
			}()
		}
		synctest.Wait()
		if n := sent.Load(); n != 0 {
			t.Errorf("%d senders did not wait", n)
		}
		w.Send(l.frame("reserved\n", true))
		want += "reserved\n"
		g.release <- nil // the first
		g.release <- nil // the long one, alone: the backlog is as it was
		synctest.Wait()
		if n := sent.Load(); n != 3 {
			t.Errorf("%d senders go on once a part of the backlog is being written, want 3", n)
		}
		close(g.release)
		if err := w.Close(time.Minute); err != nil {
			t.Error(err)
		}
		want += strings.Repeat("late\n", 3)
		if got := strings.Join(g.seen(), ""); got != want {
			t.Errorf("%d bytes written, want %d in order", len(got), len(want))
		}
		l.check(t, 1)
	})
}

func TestErrorOfTheStreamDropsWhatIsDueAndWhatComes(t *testing.T) {
	broken := errors.New("broken pipe")
	synctest.Test(t, func(t *testing.T) {
		var l ledger
		g := newGate()
		w := framing.NewWriter(g)
		begin(t, w, g, l.frame("first\n", false))
		for i := range 1000 {
			w.Send(l.frame(line(fmt.Sprint(i), 2<<10), i%2 == 0))
		}
		waiting := make(chan struct{})
		go func() {
			defer close(waiting)
			for range 2000 { // more than the backlog takes
				w.Send(l.frame(line("waiting", 1<<10), false))
			}
		}()
		synctest.Wait()
		select {
		case <-w.Failed():
			t.Error("failed before the error")
		default:
		}
		g.release <- broken
		<-w.Failed()
		<-waiting
		w.Send(l.frame("late\n", false))
		w.Send(l.frame("late\n", true))
		if err := w.Close(time.Minute); err != broken {
			t.Errorf("Close: %v", err)
		}
		synctest.Wait()
		if writes := g.seen(); len(writes) != 1 {
			t.Errorf("%d writes, want none after the error", len(writes))
		}
		l.check(t, 1)
	})
}

// stutter is a stream that takes less than it is given and says nothing.
type stutter struct{ bytes.Buffer }

func (s *stutter) Write(p []byte) (int, error) { return s.Buffer.Write(p[:len(p)/2]) }

func TestShortWriteIsAnError(t *testing.T) {
	var l ledger
	w := framing.NewWriter(&stutter{})
	w.Send(l.frame("abcdef\n", true))
	w.Send(l.frame("ghijkl\n", true))
	if err := w.Close(time.Minute); err != io.ErrShortWrite {
		t.Errorf("Close: %v; half a frame and then another would be one line", err)
	}
	l.check(t, 1)
}

func TestFailUnblocksSendersAndKeepsTheFirstError(t *testing.T) {
	gone := errors.New("peer gone")
	synctest.Test(t, func(t *testing.T) {
		var l, inFlight ledger
		g := newGate()
		w := framing.NewWriter(g)
		begin(t, w, g, inFlight.frame("first\n", false))
		w.Send(l.frame(line("full", framing.MaxBacklogBytes), false))
		waiting := make(chan struct{})
		go func() {
			defer close(waiting)
			w.Send(l.frame("late\n", false))
		}()
		synctest.Wait()
		w.Fail(gone)
		<-w.Failed()
		<-waiting
		l.check(t, 1)
		inFlight.check(t, 0) // its bytes are still in use
		w.Fail(errors.New("another"))
		if err := w.Close(time.Minute); err != gone {
			t.Errorf("Close: %v", err)
		}
		close(g.release)
		synctest.Wait()
		inFlight.check(t, 1)
		l.check(t, 1)
	})
}

// A peer that reads on after we have given up must not get more: its answers have been counted as lost.
func TestNothingMoreIsWrittenAfterFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l ledger
		g := newGate()
		w := framing.NewWriter(g)
		begin(t, w, g, l.frame("first\n", false))
		w.Send(l.frame(line("second", 80<<10), true))
		w.Send(l.frame(line("third", 80<<10), true))
		g.release <- nil
		synctest.Wait() // the second is in its write now
		w.Fail(errors.New("peer gone"))
		close(g.release)
		synctest.Wait()
		if n := len(g.seen()); n != 2 {
			t.Errorf("%d writes, want the two that had begun", n)
		}
		l.check(t, 1)
	})
}

func TestDoneIsCalledWithoutTheLock(t *testing.T) {
	w := framing.NewWriter(io.Discard)
	gone := errors.New("peer gone")
	w.Send(framing.Frame{Bytes: []byte("a\n"), Done: func() { w.Fail(gone) }})                  // after its write
	w.Send(framing.Frame{Bytes: []byte("b\n"), Done: func() { w.Fail(errors.New("dropped")) }}) // without one
	if err := w.Close(time.Minute); err != gone {
		t.Errorf("Close: %v", err)
	}
}

func TestCloseWaitsForWhatIsDue(t *testing.T) {
	for _, due := range []string{"", "second\n"} {
		synctest.Test(t, func(t *testing.T) {
			var l ledger
			g := newGate()
			w := framing.NewWriter(g)
			begin(t, w, g, l.frame("first\n", false))
			if due != "" {
				w.Send(l.frame(due, false))
			}
			go func() {
				time.Sleep(3 * time.Second)
				close(g.release)
			}()
			start := time.Now()
			if err := w.Close(5 * time.Second); err != nil {
				t.Error(err)
			}
			if took := time.Since(start); took != 3*time.Second {
				t.Errorf("Close took %v", took)
			}
			if got := strings.Join(g.seen(), ""); got != "first\n"+due {
				t.Errorf("written: %q", got)
			}
			l.check(t, 1)
		})
	}
}

func TestCloseGivesUpOnAnOutputThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l, inFlight ledger
		g := newGate()
		w := framing.NewWriter(g)
		begin(t, w, g, inFlight.frame("first\n", false))
		w.Send(l.frame("second\n", false))
		start := time.Now()
		if err := w.Close(5 * time.Second); err != framing.ErrStuck {
			t.Errorf("Close: %v", err)
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("Close took %v", took)
		}
		w.Send(l.frame("late\n", false))
		synctest.Wait()
		l.check(t, 1)
		inFlight.check(t, 0)
		close(g.release)
		synctest.Wait()
		inFlight.check(t, 1)
		if n := len(g.seen()); n != 1 {
			t.Errorf("%d writes, want the one that had begun", n)
		}
	})
}

func TestCloseWithoutPatienceLosesNothingThatIsWritten(t *testing.T) {
	for range 200 {
		var out bytes.Buffer
		w := framing.NewWriter(&out)
		w.Send(framing.Frame{Bytes: []byte("a\n")})
		if err := w.Close(0); err != nil {
			t.Fatalf("nothing was due, and Close says %v", err)
		}
	}
}

// The reading side may still be in a Read when a session is over, and answer the line that then comes.
func TestFramesAfterCloseAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var l ledger
		w := framing.NewWriter(&out)
		w.Send(l.frame("a\n", false))
		if err := w.Close(time.Minute); err != nil {
			t.Error(err)
		}
		<-w.Failed()
		w.Send(l.frame("b\n", false))
		w.Send(l.frame("c\n", true))
		time.Sleep(time.Hour) // no timer is left behind
		if out.String() != "a\n" {
			t.Errorf("written: %q", &out)
		}
		l.check(t, 1)
	})
}

func TestWriterKeepsNoMemoryOfABurst(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for _, short := range []int{0, 50_000} {
		g := newGate()
		w := framing.NewWriter(g)
		idle := heap()
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			w.Send(framing.Frame{Bytes: []byte("first\n")})
		}()
		for len(g.seen()) == 0 {
			time.Sleep(time.Millisecond)
		}
		for range short {
			w.Send(framing.Frame{Bytes: make([]byte, 40), Reserved: true})
		}
		for range 8 {
			w.Send(framing.Frame{Bytes: make([]byte, 1<<20), Reserved: true})
		}
		close(g.release)
		<-sent
		g.mu.Lock()
		g.writes = nil
		g.mu.Unlock()
		if grown := int64(heap()) - int64(idle); grown > 512<<10 {
			t.Errorf("after %d short frames and 8 of 1 MiB: %d bytes stay", short, grown)
		}
		runtime.KeepAlive(w)
	}
}

func TestFrameAfterFrameCostsNoMemory(t *testing.T) {
	w := framing.NewWriter(io.Discard)
	f := framing.Frame{Bytes: []byte("a\n"), Done: func() {}}
	if n := testing.AllocsPerRun(100, func() { w.Send(f) }); n != 0 {
		t.Errorf("%v allocations a frame", n)
	}
}

// flaky is a stream that takes its time and fails at one of its writes.
type flaky struct {
	bytes.Buffer
	writes, failAt int
	random         *rand.Rand
}

func (f *flaky) Write(p []byte) (int, error) {
	if f.writes++; f.writes == f.failAt {
		n, _ := f.Buffer.Write(p[:f.random.IntN(len(p))]) // a buffer cannot fail
		return n, errors.New("broken pipe")
	}
	if f.random.IntN(4) == 0 {
		time.Sleep(time.Duration(f.random.IntN(300)) * time.Microsecond)
	}
	return f.Buffer.Write(p)
}

// Whatever happens in whatever order: each frame is done once, what is written is a beginning of whole frames, and nil
// from Close means that it is all of them.
func TestEveryFrameIsDoneOnceWhateverHappens(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		stream := &flaky{random: rand.New(rand.NewPCG(seed, 2)), failAt: random.IntN(60)}
		w := framing.NewWriter(stream)
		const senders, each = 4, 60
		var done [senders * each]atomic.Int32
		var all sync.WaitGroup
		for s := range senders {
			sizes := make([]int, each)
			for i := range sizes {
				if sizes[i] = 12 + random.IntN(100); random.IntN(10) == 0 {
					sizes[i] = 12 + random.IntN(300<<10)
				}
			}
			all.Go(func() {
				for i, n := range sizes {
					text := []byte(line(fmt.Sprintf("%d:%d:", s, i), n))
					w.Send(framing.Frame{Bytes: text, Reserved: n%3 == 0, Done: func() {
						done[s*each+i].Add(1)
						clear(text)
					}})
				}
			})
		}
		if seed%3 == 0 {
			all.Go(func() {
				time.Sleep(time.Duration(seed) * 20 * time.Microsecond)
				w.Fail(errors.New("peer gone"))
			})
		}
		all.Wait()
		err := w.Close(time.Minute)
		for i := range done {
			if n := done[i].Load(); n != 1 {
				t.Fatalf("seed %d: frame %d was done %d times", seed, i, n)
			}
		}
		text := stream.String()
		var next [senders]int
		for got := range strings.Lines(text) {
			if !strings.HasSuffix(got, "\n") {
				continue // what was written of the last frame when the stream broke
			}
			var s, i int
			if _, err := fmt.Sscanf(got, "%d:%d:", &s, &i); err != nil || i != next[s] ||
				strings.Trim(got[strings.LastIndexByte(got, ':'):], ".:") != "\n" {
				t.Fatalf("seed %d: %.40q is not the next frame of its sender", seed, got)
			}
			next[s]++
		}
		if whole := next == [senders]int{each, each, each, each}; err == nil && !whole {
			t.Fatalf("seed %d: Close says nil after %v frames", seed, next)
		}
		if err == nil && stream.failAt > 0 && stream.writes >= stream.failAt {
			t.Fatalf("seed %d: the stream's error is lost", seed)
		}
	}
}

func BenchmarkSend(b *testing.B) {
	f := framing.Frame{Bytes: bytes.Repeat([]byte("x"), 200), Reserved: true}
	b.Run("alone", func(b *testing.B) {
		w := framing.NewWriter(io.Discard)
		b.ReportAllocs()
		for b.Loop() {
			w.Send(f)
		}
	})
	b.Run("crowd", func(b *testing.B) {
		w := framing.NewWriter(io.Discard)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				w.Send(f)
			}
		})
	})
}
