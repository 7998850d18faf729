package rawclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

const chunkBytes = 64 << 10

// ErrTail says that the output ended inside a line.
var ErrTail = errors.New("the output ended inside a line")

// Send writes bytes as they are.
func (c *Client) Send(data []byte) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	if err := c.in.SetWriteDeadline(time.Now().Add(c.patience)); err != nil {
		return err
	}
	_, err := c.in.Write(data)
	return err
}

// Line returns the next line, without its newline, that is not an awaited answer. It returns io.EOF when the output has
// ended, or the reason why it ended otherwise (ErrTail).
func (c *Client) Line() ([]byte, error) {
	select { // what has come counts, also when the patience is 0 or the output has ended
	case line := <-c.lines:
		return line, nil
	default:
	}
	timer := time.NewTimer(c.patience)
	defer timer.Stop()
	select {
	case line := <-c.lines:
		return line, nil
	case <-timer.C:
		return nil, fmt.Errorf("no line within %v: %w", c.patience, os.ErrDeadlineExceeded)
	case <-c.ended:
	}
	select { // the last line and the end may have come together
	case line := <-c.lines:
		return line, nil
	default:
		return nil, c.endErr
	}
}

// Pause stops the reading of the output, so that the program meets a pipe that fills up: at most 64 KiB are still taken.
func (c *Client) Pause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused != nil {
		return nil
	}
	c.paused = make(chan struct{})
	return c.out.SetReadDeadline(time.Unix(1, 0))
}

// Resume goes on reading.
func (c *Client) Resume() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused == nil {
		return nil
	}
	err := c.out.SetReadDeadline(time.Time{})
	close(c.paused)
	c.paused = nil
	return err
}

// read cuts the output into lines until it ends.
func (p *process) read() {
	defer close(p.ended)
	p.endErr = io.EOF
	chunk := make([]byte, chunkBytes)
	var line []byte // begun, not ended
	for {
		n, err := p.out.Read(chunk)
		rest := chunk[:n]
		for {
			head, tail, found := bytes.Cut(rest, []byte{'\n'})
			line = append(line, head...)
			if !found {
				break
			}
			if !p.deliver(line) {
				return
			}
			line, rest = nil, tail
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if !p.waitForResume() {
				return
			}
		case err != nil && len(line) > 0:
			p.endErr = ErrTail
			return
		case err != nil:
			return
		case len(line) > maxLineBytes:
			p.endErr = fmt.Errorf("a line of more than %d bytes", maxLineBytes)
			return
		}
	}
}

func (p *process) waitForResume() bool {
	p.mu.Lock()
	paused := p.paused
	p.mu.Unlock()
	if paused == nil {
		return true
	}
	select {
	case <-paused:
		return true
	case <-p.closing:
		return false
	}
}

// deliver hands a line to whoever awaits it, or keeps it for Line; false when the client is being closed.
func (p *process) deliver(line []byte) bool {
	id := idOf(line)
	p.mu.Lock()
	awaiting := p.awaited[id]
	p.mu.Unlock()
	if awaiting != nil {
		select {
		case awaiting <- line:
			return true
		default: // a second answer to one request
		}
	}
	select {
	case p.lines <- line:
		return true
	case <-p.closing:
		return false
	}
}

// ourHead is how our daemon begins every answer. A benchmark must not pay for decoding them.
var ourHead = []byte(`{"jsonrpc":"2.0","id":`)

// idOf returns the raw id of an answer, "" if it has none.
func idOf(line []byte) string {
	if rest, ours := bytes.CutPrefix(line, ourHead); ours && len(rest) > 0 && rest[0] != '"' {
		if end := bytes.IndexByte(rest, ','); end > 0 {
			return string(rest[:end])
		}
	}
	var m struct{ ID json.RawMessage }
	if json.Unmarshal(line, &m) != nil {
		return ""
	}
	return string(m.ID)
}
