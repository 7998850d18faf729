package framing

import (
	"bytes"
	"errors"
	"io"
)

// MaxFrameBytes is the longest line that is read, without its newline and one carriage return before it (seed 000).
const MaxFrameBytes = 1 << 20

// chunkBytes is how much is asked from the stream at once, and the buffer's size while lines are short.
const chunkBytes = 64 << 10

// ErrTooLong stands for one line that was longer than MaxFrameBytes. The next call of Next goes on behind it.
var ErrTooLong = errors.New("line longer than the largest frame")

// Reader cuts a stream into lines. It is not safe for concurrent use.
type Reader struct {
	stream   io.Reader
	buf      []byte
	start    int // first byte not yet given out
	scanned  int // bytes before it hold no newline
	end      int // one after the last byte read
	dropping bool
	err      error
}

// NewReader reads lines from stream.
func NewReader(stream io.Reader) *Reader { return &Reader{stream: stream} }

// Next returns the next line that is not blank, without its terminator; it is valid until the following call. A last
// line without a newline counts. ErrTooLong reports one dropped line; io.EOF and any other error of the stream are
// final.
func (r *Reader) Next() ([]byte, error) {
	for {
		line, err := r.line()
		if err != nil || !isBlank(line) {
			return line, err
		}
	}
}

// Buffered reports whether a further line, or a part of one, is already in memory.
func (r *Reader) Buffered() bool { return r.end > r.start }

func (r *Reader) line() ([]byte, error) {
	for {
		if n := bytes.IndexByte(r.buf[r.scanned:r.end], '\n'); n >= 0 {
			line := r.buf[r.start : r.scanned+n]
			r.start += len(line) + 1
			r.scanned = r.start
			if r.dropping {
				r.dropping = false
				continue
			}
			return bounded(line)
		}
		r.scanned = r.end
		switch {
		case r.dropping:
			r.discard()
		case r.end-r.start > MaxFrameBytes+1: // the one more may be a carriage return
			r.dropping = true
			r.discard()
			return nil, ErrTooLong
		}
		if r.err != nil {
			tail := r.buf[r.start:r.end]
			r.discard()
			if len(tail) > 0 {
				return bounded(tail)
			}
			return nil, r.err
		}
		r.fill()
	}
}

func bounded(line []byte) ([]byte, error) {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if len(line) > MaxFrameBytes {
		return nil, ErrTooLong
	}
	return line, nil
}

func (r *Reader) discard() { r.start, r.scanned, r.end = 0, 0, 0 }

// fill reads once. The buffer grows by doubling up to one frame and a chunk, and goes back to one chunk when a long
// line has been given out.
func (r *Reader) fill() {
	pending := r.end - r.start
	if pending == 0 {
		r.discard()
		if len(r.buf) != chunkBytes {
			r.buf = make([]byte, chunkBytes)
		}
	}
	if r.start > 0 {
		copy(r.buf, r.buf[r.start:r.end])
		r.start, r.scanned, r.end = 0, r.scanned-r.start, pending
	}
	if r.end == len(r.buf) {
		grown := make([]byte, min(2*len(r.buf), MaxFrameBytes+chunkBytes))
		copy(grown, r.buf)
		r.buf = grown
	}
	n, err := r.stream.Read(r.buf[r.end:])
	r.end += n
	r.err = err
}

func isBlank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}
