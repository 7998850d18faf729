package latency

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// window is how many calls are unanswered at once in the throughput figure.
const window = 64

// warmUp is how long each program is called before anything counts.
const warmUp = 100 * time.Millisecond

// side is one program at one work.
type side struct {
	*call
	*series
}

// pair is a bare program and the daemon, doing the same work.
type pair struct {
	name         string // of the measure
	bare, daemon side
	inFlight     int           // calls unanswered at once; 1 is one after the other
	pause        time.Duration // between calls that are made one after the other
}

func newPair(name string, bare, daemon *call, inFlight int, pause time.Duration) *pair {
	of := func(program string, c *call) side {
		return side{c, &series{Measure: name, Program: program, AnswerBytes: c.bytes, InFlight: inFlight}}
	}
	return &pair{name, of("bare", bare), of("daemon", daemon), inFlight, pause}
}

// series are all blocks of one program at one work.
type series struct {
	Measure     string  `json:"measure"`
	Program     string  `json:"program"` // bare or daemon
	AnswerBytes int     `json:"answer_bytes"`
	InFlight    int     `json:"in_flight"`
	Blocks      []block `json:"blocks"`
}

// each takes one number from every block.
func (s *series) each(number func(block) float64) []float64 {
	out := make([]float64, len(s.Blocks))
	for i, b := range s.Blocks {
		out[i] = number(b)
	}
	return out
}

// pairs starts the programs and proves that both of a pair give the same kind of answer. close ends the programs; it
// must be called, also after an error.
func (m *measurement) pairs(f *files) (all []*pair, close func(), err error) {
	var started []*pipe
	close = func() {
		for _, p := range started {
			_ = p.in.Close() // they end at the same time
		}
		for _, p := range started {
			p.close()
		}
	}
	begin := func(name, path string, args ...string) (*pipe, error) {
		var environ []string
		if args == nil {
			environ = daemonEnvironment(f)
		}
		p, err := open(name, path, environ, args...)
		if err == nil {
			started = append(started, p)
			if args == nil {
				err = p.handshake()
			}
		}
		return p, err
	}
	if m.wantsRows() {
		p, err := m.callPairs(f, begin)
		if err != nil {
			return nil, close, err
		}
		all = append(all, p...)
	}
	for _, file := range []struct{ measure, name string }{{measureSmall, smallFile}, {measureUsual, usualFile}} {
		if !m.wants(file.measure) {
			continue
		}
		p, err := filePair(f, file.measure, file.name, m.Pause, begin)
		if err != nil {
			return nil, close, err
		}
		all = append(all, p)
	}
	return all, close, nil
}

// starter starts a program under a name: the daemon, with a session opened, if there are no arguments.
type starter func(name, path string, args ...string) (*pipe, error)

// callPairs are the 100-byte call against the echo, one after the other and in flight, on the same two processes.
func (m *measurement) callPairs(f *files, begin starter) ([]*pair, error) {
	const tool, arguments = "rows", `{"size":100}`
	daemon, err := begin("the daemon (wiretest)", f.wiretest)
	if err != nil {
		return nil, err
	}
	rows := newCall(daemon, tool, arguments)
	if _, err := rows.prove(); err != nil {
		return nil, err
	}
	bare, err := begin("the echo", f.self, peerArgs("echo", "--answer-bytes", fmt.Sprint(rows.bytes))...)
	if err != nil {
		return nil, err
	}
	echoed := newCall(bare, tool, arguments)
	if _, err := echoed.prove(); err != nil {
		return nil, err
	}
	if echoed.bytes != rows.bytes {
		return nil, fmt.Errorf("the echo answers %d bytes, the daemon %d", echoed.bytes, rows.bytes)
	}
	var out []*pair
	if m.wants(measureCall) {
		out = append(out, newPair(measureCall, echoed, rows, 1, m.Pause))
	}
	if m.wants(measureTight) {
		out = append(out, newPair(measureTight, echoed, rows, 1, 0))
	}
	if m.wants(measureInFlight) {
		out = append(out, newPair(measureInFlight, echoed, rows, window, 0))
	}
	return out, nil
}

// filePair is reading one file, against the bare program that answers the same bytes.
func filePair(f *files, measure, file string, pause time.Duration, begin starter) (*pair, error) {
	const tool = "sandbox_fs_read"
	arguments := `{"relative_path":"` + file + `"}`
	daemon, err := begin("the daemon", f.daemon)
	if err != nil {
		return nil, err
	}
	bare, err := begin("the bare file server", f.self, peerArgs("file", "--file", f.tree+"/"+file)...)
	if err != nil {
		return nil, err
	}
	theirCall, ourCall := newCall(bare, tool, arguments), newCall(daemon, tool, arguments)
	theirs, err := theirCall.prove()
	if err != nil {
		return nil, err
	}
	ours, err := ourCall.prove()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(theirs, ours) { // the ids are equal too: both are first calls
		return nil, fmt.Errorf("the bare program does not answer the bytes of the daemon for %s", file)
	}
	return newPair(measure, theirCall, ourCall, 1, pause), nil
}

// peerArgs is the command line of a bare program. TestMain of this package knows it too.
func peerArgs(kind string, more ...string) []string {
	return append([]string{"latency", "--peer", kind}, more...)
}

// rounds gives every pair one block on each program in every round. The pairs take turns at being first, and so do the two
// programs of a pair.
func (m *measurement) rounds(ctx context.Context, all []*pair) error {
	for _, p := range all {
		for _, s := range []side{p.bare, p.daemon} {
			m.report.Series = append(m.report.Series, s.series)
			if _, err := p.block(s, min(warmUp, m.Block)); err != nil {
				return err
			}
		}
	}
	for round := range m.Rounds {
		for i := range all {
			p := all[(i+round)%len(all)]
			order := []side{p.bare, p.daemon}
			if round%2 == 1 {
				order = []side{p.daemon, p.bare}
			}
			for _, s := range order {
				if err := ctx.Err(); err != nil {
					return err
				}
				b, err := p.block(s, m.Block)
				if err != nil {
					return err
				}
				b.Round = round + 1
				s.Blocks = append(s.Blocks, b)
			}
			m.progress("round %d of %d: %s", round+1, m.Rounds, p.name)
		}
	}
	return nil
}

func (p *pair) block(s side, length time.Duration) (block, error) {
	if p.inFlight > 1 {
		return s.call.inFlight(p.inFlight, length)
	}
	return s.sequential(length, p.pause)
}
