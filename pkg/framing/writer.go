package framing

import (
	"errors"
	"io"
	"sync"
	"time"
)

// MaxBacklogBytes is how many bytes of unreserved frames may be due before their senders wait. They are short answers
// (ping, refusals); waiting is how a client that sends without reading slows down its own input.
const MaxBacklogBytes = 1 << 20

// combineBytes is how many bytes of short frames go out in one write.
const combineBytes = 64 << 10

// ErrStuck is what Close returns when the other end took nothing for the whole time it was given.
var ErrStuck = errors.New("output is not being read")

// Frame is one line to write, with its newline. Done, if set, is called exactly once, when the bytes have been written
// or dropped: then the memory may be used again. Reserved says that the sender holds a reservation for the bytes, so
// that the writer may keep them without limit of its own.
type Frame struct {
	Bytes    []byte
	Reserved bool
	Done     func()
}

// Writer writes frames whole and in the order in which they were handed over, from any number of goroutines. Whoever
// finds no write going on writes for all, so a lone answer costs no hand-over and a burst goes out in few writes.
type Writer struct {
	stream io.Writer

	mu      sync.Mutex
	changed sync.Cond // writing ended, backlog shrank or the stream failed
	due     []Frame
	backlog int // unreserved bytes among due
	writing bool
	err     error
	failed  chan struct{}
	scratch []byte // of whoever is writing
}

// NewWriter writes frames to stream.
func NewWriter(stream io.Writer) *Writer {
	w := &Writer{stream: stream, failed: make(chan struct{})}
	w.changed.L = &w.mu
	return w
}

// Failed is closed at the first error of the stream. From then on every frame is dropped.
func (w *Writer) Failed() <-chan struct{} { return w.failed }

// Send hands over one frame; the bytes belong to the writer until Done. It blocks while it writes, and, for an
// unreserved frame, while MaxBacklogBytes of them are due.
func (w *Writer) Send(f Frame) {
	w.mu.Lock()
	for !f.Reserved && w.backlog >= MaxBacklogBytes && w.err == nil {
		w.changed.Wait()
	}
	if w.err != nil {
		w.mu.Unlock()
		finish([]Frame{f})
		return
	}
	w.due = append(w.due, f)
	if !f.Reserved {
		w.backlog += len(f.Bytes)
	}
	if w.writing {
		w.mu.Unlock()
		return
	}
	w.writing = true
	w.drain()
}

// Fail drops everything that is due and everything that comes: for a stream whose other end is known to be gone.
func (w *Writer) Fail(err error) {
	w.mu.Lock()
	dropped := w.fail(err)
	w.mu.Unlock()
	finish(dropped)
}

// Close waits until everything is written, for at most patience, and then drops the rest. It returns ErrStuck or the
// stream's error if something was dropped.
func (w *Writer) Close(patience time.Duration) error {
	timer := time.AfterFunc(patience, func() { w.Fail(ErrStuck) })
	defer timer.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.writing && w.err == nil {
		w.changed.Wait()
	}
	return w.err
}

// fail records the first error and returns the frames that will never be written. The lock is held.
func (w *Writer) fail(err error) (dropped []Frame) {
	if w.err == nil {
		w.err = err
		close(w.failed)
	}
	dropped, w.due, w.backlog = w.due, nil, 0
	w.changed.Broadcast()
	return dropped
}

// drain writes until nothing is due. It is called with the lock held and writing set, and unlocks.
func (w *Writer) drain() {
	for w.err == nil && len(w.due) > 0 {
		batch := w.due
		w.due, w.backlog = nil, 0
		w.mu.Unlock()
		err := w.write(batch)
		w.mu.Lock()
		if err != nil {
			dropped := w.fail(err)
			w.mu.Unlock()
			finish(dropped)
			w.mu.Lock()
		}
		if w.due == nil && cap(batch) <= maxKeptFrames {
			clear(batch)
			w.due = batch[:0]
		}
		w.changed.Broadcast()
	}
	w.writing = false
	w.changed.Broadcast()
	w.mu.Unlock()
}

// maxKeptFrames bounds the list that is kept for the next burst.
const maxKeptFrames = 256

// write writes a batch, short frames together. Every frame of it is finished, also after an error.
func (w *Writer) write(batch []Frame) error {
	for len(batch) > 0 {
		n := together(batch)
		err := w.put(batch[:n])
		finish(batch[:n])
		batch = batch[n:]
		if err != nil {
			finish(batch)
			return err
		}
	}
	return nil
}

// together is how many frames, one at least, go out in one write.
func together(batch []Frame) int {
	total := 0
	for i, f := range batch {
		if total += len(f.Bytes); total > combineBytes && i > 0 {
			return i
		}
	}
	return len(batch)
}

func (w *Writer) put(frames []Frame) error {
	bytes := frames[0].Bytes
	if len(frames) > 1 {
		w.scratch = w.scratch[:0]
		for _, f := range frames {
			w.scratch = append(w.scratch, f.Bytes...)
		}
		bytes = w.scratch
	}
	_, err := w.stream.Write(bytes)
	return err
}

func finish(frames []Frame) {
	for _, f := range frames {
		if f.Done != nil {
			f.Done()
		}
	}
}
