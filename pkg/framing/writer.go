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

// errClosed is why frames are dropped that come after Close.
var errClosed = errors.New("output is closed")

// Frame is one line to write, with its newline. Done, if set, is called exactly once, when the bytes have been written
// or dropped: then the memory may be used again. It is called while nothing is locked, by whoever is writing: it must
// neither wait nor send. Reserved says that the sender holds a reservation for the bytes, so that the writer may keep
// them without limit of its own.
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
	changed sync.Cond // writing ended, backlog shrank or err was set
	due     []Frame
	backlog int   // unreserved bytes among due
	writing bool  // somebody is in drain
	err     error // once it is set, due stays empty
	failed  chan struct{}

	// Of whoever is writing.
	batch   []Frame // what goes out in one write
	scratch []byte
}

// NewWriter writes frames to stream.
func NewWriter(stream io.Writer) *Writer {
	w := &Writer{stream: stream, failed: make(chan struct{})}
	w.changed.L = &w.mu
	return w
}

// Failed is closed at the first error of the stream, and by Fail and Close. From then on every frame is dropped.
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

// Fail drops everything that is due and everything that comes: for a stream whose other end is known to be gone. Frames
// that are in a Write of the stream are done when it returns.
func (w *Writer) Fail(err error) {
	w.mu.Lock()
	dropped := w.fail(err)
	w.mu.Unlock()
	finish(dropped)
}

// Close waits until everything is written, for at most patience, and then drops the rest, and all that comes later. It
// returns ErrStuck, or the stream's error, if something was dropped. It is called once. A Write that nobody ends may
// outlive it, with the goroutine that is in it.
func (w *Writer) Close(patience time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writing {
		defer time.AfterFunc(patience, func() { w.Fail(ErrStuck) }).Stop()
	}
	for w.writing && w.err == nil {
		w.changed.Wait()
	}
	err := w.err
	w.fail(errClosed) // drops nothing: nothing is due
	return err
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
	for len(w.due) > 0 {
		w.take()
		w.mu.Unlock()
		err := w.put()
		finish(w.batch)
		clear(w.batch)
		if err != nil {
			w.Fail(err)
		}
		w.mu.Lock()
	}
	w.writing = false
	w.changed.Broadcast()
	w.mu.Unlock()
}

// take moves the frames of the next write from due to batch: one, or several short ones. The lock is held.
func (w *Writer) take() {
	n, total := 0, 0
	for _, f := range w.due {
		if total += len(f.Bytes); total > combineBytes && n > 0 {
			break
		}
		if n++; !f.Reserved {
			w.backlog -= len(f.Bytes)
		}
	}
	w.batch = append(w.batch[:0], w.due[:n]...)
	clear(w.due[:n])
	switch {
	case n < len(w.due):
		w.due = w.due[n:]
	case cap(w.due) <= maxKeptFrames:
		w.due = w.due[:0]
	default:
		w.due = nil
	}
	w.changed.Broadcast()
}

// maxKeptFrames bounds the list that is kept for the next burst.
const maxKeptFrames = 256

// put writes the batch. Frames stay whole: a stream that took a part of one must fail.
func (w *Writer) put() error {
	bytes := w.batch[0].Bytes
	if len(w.batch) > 1 {
		w.scratch = w.scratch[:0]
		for _, f := range w.batch {
			w.scratch = append(w.scratch, f.Bytes...)
		}
		bytes = w.scratch
	}
	n, err := w.stream.Write(bytes)
	if err == nil && n < len(bytes) {
		err = io.ErrShortWrite
	}
	return err
}

func finish(frames []Frame) {
	for _, f := range frames {
		if f.Done != nil {
			f.Done()
		}
	}
}
