package latency

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"mcp-server-suite/pkg/rawclient"
)

// The ids of a measured pipe all have seven digits, so that every answer to the same call has the same length.
const (
	firstID = 1_000_000
	lastID  = 9_999_999
)

// patience is how long a program may take for one block beyond the block's own length; then it is killed.
const patience = 20 * time.Second

// pipe is a started program and the raw ends of its pipes, of the kernel's default size. It is not safe for concurrent
// use.
//
// rawclient's own client cannot be used in the measured loop: its reading goroutine, channel and timers would be paid by
// daemon and bare program alike and pull every ratio towards 1. Here one system call writes and one reads.
type pipe struct {
	name    string
	pid     int
	in, out *os.File // keep the descriptors open
	stdin   int
	stdout  int
	wait    func() error
	id      int
	buf     []byte
}

// open starts a program. The caller must call close.
func open(name, path string, environ []string, args ...string) (*pipe, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		_, _ = theirIn.Close(), in.Close() // the first error says more
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	cmd := rawclient.Command(path, environ, args...)
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// A group of its own: what it has started holds the pipes too, and a read ends only when all of them are gone.
	cmd.SysProcAttr.Setpgid = true
	err = cmd.Start()
	_, _ = theirIn.Close(), theirOut.Close() // the program has its own copies by now
	if err != nil {
		_, _ = in.Close(), out.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return &pipe{
		name: name, pid: cmd.Process.Pid, in: in, out: out,
		stdin: int(in.Fd()), stdout: int(out.Fd()), // Fd makes them blocking
		wait: cmd.Wait,
		id:   firstID, buf: make([]byte, 1<<20),
	}, nil
}

// close ends the program.
func (p *pipe) close() {
	_ = p.in.Close()
	stop := time.AfterFunc(patience, p.kill)
	_ = p.wait() // how it ended does not matter any more
	stop.Stop()
	_ = p.out.Close()
}

// kill ends the program's group; wait has not returned yet, so the number is still its own.
func (p *pipe) kill() { _ = syscall.Kill(-p.pid, syscall.SIGKILL) }

// watched runs f and kills the program if that takes longer than limit: f's read then sees the end of the output.
func (p *pipe) watched(limit time.Duration, f func() error) error {
	stop := time.AfterFunc(limit, p.kill)
	defer stop.Stop()
	if err := f(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

var errEnded = errors.New("it ended, or was killed because it did not answer")

func (p *pipe) write(data []byte) error {
	for len(data) > 0 {
		n, err := syscall.Write(p.stdin, data)
		switch {
		case err == syscall.EINTR:
		case err == syscall.EPIPE:
			return errEnded
		case err != nil:
			return err
		default:
			data = data[n:]
		}
	}
	return nil
}

func (p *pipe) read(into []byte) (int, error) {
	for {
		n, err := syscall.Read(p.stdout, into)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, errEnded
		default:
			return n, nil
		}
	}
}

// line reads up to the end of one line, which must be the last thing that has been written. It is valid until the next
// read.
func (p *pipe) line() ([]byte, error) {
	n := 0
	for {
		if n == len(p.buf) {
			p.buf = append(p.buf, make([]byte, len(p.buf))...)
		}
		got, err := p.read(p.buf[n:])
		if err != nil {
			return nil, err
		}
		if n += got; p.buf[n-1] == '\n' {
			return p.buf[:n], nil
		}
	}
}

// eachLine gives every line that comes to f, with its newline, until f wants no more.
func (p *pipe) eachLine(f func(line []byte) (more bool, err error)) error {
	held := 0
	for {
		if held == len(p.buf) {
			p.buf = append(p.buf, make([]byte, len(p.buf))...)
		}
		got, err := p.read(p.buf[held:])
		if err != nil {
			return err
		}
		rest := p.buf[:held+got]
		for at := bytes.IndexByte(rest, '\n'); at >= 0; at = bytes.IndexByte(rest, '\n') {
			more, err := f(rest[:at+1])
			if err != nil || !more {
				return err
			}
			rest = rest[at+1:]
		}
		held = copy(p.buf, rest)
	}
}

// converse sends one line and returns the line that comes back, with its newline.
func (p *pipe) converse(request string) (answer []byte, err error) {
	err = p.watched(patience, func() error {
		if err := p.write([]byte(request)); err != nil {
			return err
		}
		answer, err = p.line()
		return err
	})
	return answer, err
}

const protocolVersion = "2025-11-25"

// handshake opens an MCP session.
func (p *pipe) handshake() error {
	answer, err := p.converse(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + protocolVersion +
		`","capabilities":{},"clientInfo":{"name":"mcp-proof latency","version":"1"}}}` + "\n")
	if err != nil {
		return err
	}
	if !bytes.Contains(answer, []byte(`"protocolVersion":"`+protocolVersion+`"`)) {
		return fmt.Errorf("%s: the handshake failed", p.name)
	}
	return p.watched(patience, func() error {
		return p.write([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"))
	})
}

// call is one tools/call to be repeated on a pipe, prepared so that the loop only changes seven digits.
type call struct {
	pipe    *pipe
	request []byte // one line
	idAt    int    // where the seven digits are in it
	alsoAt  int    // where they are once more, 0 if nowhere
	head    []byte // how every answer begins, up to and with the id
	bytes   int    // length of every answer with its newline; 0 before prove
	batch   []byte // requests, one behind the other
	times   []int64
}

const (
	answerHead = `{"jsonrpc":"2.0","id":`
	digits     = 7

	// maxTimed is how many calls one block times: memory that is there before the clock runs.
	maxTimed = 1 << 18
)

func newCall(p *pipe, tool, arguments string) *call {
	request := answerHead + strconv.Itoa(firstID) +
		`,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + "}}\n"
	return &call{
		pipe: p, request: []byte(request), idAt: len(answerHead),
		head: []byte(answerHead + strconv.Itoa(firstID)), times: make([]int64, 0, maxTimed),
	}
}

// changing makes the seven digits of firstID in the arguments, if they are there, change as the id does.
func (c *call) changing() *call {
	behind := c.idAt + digits
	if at := bytes.Index(c.request[behind:], []byte(strconv.Itoa(firstID))); at >= 0 {
		c.alsoAt = behind + at
	}
	return c
}

// next puts the next id into the request and into what is expected of the answer.
func (c *call) next() error {
	c.pipe.id++
	if c.pipe.id > lastID {
		return errors.New("more calls than there are ids of seven digits; take shorter blocks")
	}
	putDigits(c.request[c.idAt:], c.pipe.id)
	if c.alsoAt > 0 {
		putDigits(c.request[c.alsoAt:], c.pipe.id)
	}
	putDigits(c.head[len(answerHead):], c.pipe.id)
	return nil
}

func putDigits(dst []byte, n int) {
	for i := digits - 1; i >= 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
}

// prove makes one call, checks that it succeeds, and keeps the length of its answer: from then on every answer must have
// that length, so that no refusal is timed as an answer. It returns the answer with the id of the request.
func (c *call) prove() (answer []byte, err error) {
	if err := c.next(); err != nil {
		return nil, err
	}
	answer, err = c.pipe.converse(string(c.request))
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(answer, append(slices.Clone(c.head), `,"result":`...)) || bytes.Contains(answer, []byte(`"isError":true`)) {
		return nil, fmt.Errorf("%s: refused the call: %.300s", c.pipe.name, answer)
	}
	c.bytes = len(answer)
	return slices.Clone(answer), nil
}

// block is what one block of calls gave.
type block struct {
	Round          int     `json:"round"` // from 1; 0 is the warm-up
	Calls          int     `json:"calls"`
	P50            float64 `json:"p50_us,omitempty"` // of calls one after the other; so are the next two
	P95            float64 `json:"p95_us,omitempty"`
	P99            float64 `json:"p99_us,omitempty"`
	CallsPerSecond float64 `json:"calls_per_second"`
	ServerCPU      float64 `json:"server_cpu_us_per_call"`
	ClientCPU      float64 `json:"client_cpu_us_per_call"`
}

// sequential makes one call after the other for the given time. Before each, outside of what is timed, the client is busy
// with itself for pause.
func (c *call) sequential(length, pause time.Duration) (block, error) {
	c.times = c.times[:0]
	return c.measured(length, func() (int, error) {
		for start := time.Now(); ; {
			if err := c.next(); err != nil {
				return 0, err
			}
			for busy := time.Now(); time.Since(busy) < pause; {
			}
			sent := time.Now()
			if err := c.pipe.write(c.request); err != nil {
				return 0, err
			}
			answer, err := c.pipe.line()
			took := time.Since(sent)
			if err != nil {
				return 0, err
			}
			if len(answer) != c.bytes || !bytes.HasPrefix(answer, c.head) {
				return 0, fmt.Errorf("an answer of %d bytes where %d were expected: %.300s", len(answer), c.bytes, answer)
			}
			c.times = append(c.times, int64(took))
			if time.Since(start) >= length || len(c.times) == maxTimed {
				return len(c.times), nil
			}
		}
	})
}

// inFlight keeps that many calls unanswered for the given time and then waits for the rest. The requests of a window and
// their answers must fit into a pipe (64 KiB), or both ends could block.
func (c *call) inFlight(window int, length time.Duration) (block, error) {
	c.times = c.times[:0]
	return c.measured(length, func() (int, error) {
		start := time.Now()
		sent, done, received := window, 0, 0
		if err := c.send(window); err != nil {
			return 0, err
		}
		for done < sent {
			n, err := c.pipe.read(c.pipe.buf)
			if err != nil {
				return 0, err
			}
			answered := bytes.Count(c.pipe.buf[:n], []byte{'\n'})
			done += answered
			received += n
			if answered > 0 && time.Since(start) < length {
				if err := c.send(answered); err != nil {
					return 0, err
				}
				sent += answered
			}
		}
		if received != done*c.bytes {
			return 0, fmt.Errorf("%d answers of %d bytes in all where each should have %d", done, received, c.bytes)
		}
		return done, nil
	})
}

func (c *call) send(n int) error {
	c.batch = c.batch[:0]
	for range n {
		if err := c.next(); err != nil {
			return err
		}
		c.batch = append(c.batch, c.request...)
	}
	return c.pipe.write(c.batch)
}

// measured runs calls, which returns how many it made, and accounts for them.
func (c *call) measured(length time.Duration, calls func() (int, error)) (b block, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtime.GC() // not within the block
	before, err := readCPU(c.pipe.pid)
	if err != nil {
		return b, err
	}
	client, start := ownCPU(), time.Now()
	err = c.pipe.watched(length+patience, func() error {
		b.Calls, err = calls()
		return err
	})
	elapsed, client := time.Since(start), ownCPU()-client
	if err != nil {
		return b, err
	}
	after, err := readCPU(c.pipe.pid)
	if err != nil {
		return b, err
	}
	n := float64(b.Calls)
	b.CallsPerSecond = n / elapsed.Seconds()
	b.ServerCPU, b.ClientCPU = microseconds(after-before)/n, microseconds(client)/n
	if len(c.times) > 0 {
		slices.Sort(c.times)
		b.P50 = microseconds(time.Duration(percentile(c.times, 0.50)))
		b.P95 = microseconds(time.Duration(percentile(c.times, 0.95)))
		b.P99 = microseconds(time.Duration(percentile(c.times, 0.99)))
	}
	return b, nil
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
