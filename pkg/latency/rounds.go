package latency

import (
	"bytes"
	"context"
	"fmt"
	"slices"
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

// contest is two programs or more doing the same work: a bare one and the daemon, or the daemon locked in several ways.
type contest struct {
	name     string // of the measure
	sides    []side
	inFlight int           // calls unanswered at once; 1 is one after the other
	pause    time.Duration // between calls that are made one after the other
}

// add gives a program a part in the contest.
func (c *contest) add(program string, does *call) {
	c.sides = append(c.sides, side{
		does, &series{Measure: c.name, Program: program, AnswerBytes: does.bytes, InFlight: c.inFlight},
	})
}

// pairOf is a bare program against the daemon.
func pairOf(name string, theirs, ours *call, inFlight int, pause time.Duration) *contest {
	c := &contest{name: name, inFlight: inFlight, pause: pause}
	c.add(bare, theirs)
	c.add(daemon, ours)
	return c
}

// series are all blocks of one program at one work.
type series struct {
	Measure     string  `json:"measure"`
	Program     string  `json:"program"` // a name of programs.go or query.go
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

// contests starts the programs and proves that all of a contest give the same kind of answer. close ends the programs;
// it must be called, also after an error.
func (m *measurement) contests(f *files) (all []*contest, close func(), err error) {
	var started []*pipe
	close = func() {
		for _, p := range started {
			_ = p.in.Close() // they end at the same time
		}
		for _, p := range started {
			p.close()
		}
	}
	begin := func(program, path string, args ...string) (*pipe, error) {
		var environ []string
		if args == nil {
			environ = f.environment(program)
		}
		p, err := open("the "+program, path, environ, args...)
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
	if m.wants(measureLocks) {
		c, err := lockContest(f, m.Pause, begin)
		if err != nil {
			return nil, close, err
		}
		all = append(all, c)
	}
	if m.DSNFile != "" {
		c, err := m.queryContests(f, begin)
		if err != nil {
			return nil, close, err
		}
		all = append(all, c...)
	}
	return all, close, nil
}

// starter starts a program under a name: the daemon, with a session opened, if there are no arguments.
type starter func(program, path string, args ...string) (*pipe, error)

// callPairs are the 100-byte call against the echo, one after the other and in flight, on the same two processes.
func (m *measurement) callPairs(f *files, begin starter) ([]*contest, error) {
	const tool, arguments = "rows", `{"size":100}`
	ours, err := begin("daemon (wiretest)", f.wiretest)
	if err != nil {
		return nil, err
	}
	rows := newCall(ours, tool, arguments)
	if _, err := rows.prove(); err != nil {
		return nil, err
	}
	theirs, err := begin("echo", f.self, peerArgs("echo", "--answer-bytes", fmt.Sprint(rows.bytes))...)
	if err != nil {
		return nil, err
	}
	echoed := newCall(theirs, tool, arguments)
	if _, err := echoed.prove(); err != nil {
		return nil, err
	}
	if echoed.bytes != rows.bytes {
		return nil, fmt.Errorf("the echo answers %d bytes, the daemon %d", echoed.bytes, rows.bytes)
	}
	var out []*contest
	if m.wants(measureCall) {
		out = append(out, pairOf(measureCall, echoed, rows, 1, m.Pause))
	}
	if m.wants(measureTight) {
		out = append(out, pairOf(measureTight, echoed, rows, 1, 0))
	}
	if m.wants(measureInFlight) {
		out = append(out, pairOf(measureInFlight, echoed, rows, window, 0))
	}
	return out, nil
}

// filePair is reading one file, against the bare program that answers the same bytes.
func filePair(f *files, measure, file string, pause time.Duration, begin starter) (*contest, error) {
	ours, err := begin(daemon, f.daemon)
	if err != nil {
		return nil, err
	}
	theirs, err := begin("bare program", f.self, peerArgs("file", "--file", f.tree+"/"+file)...)
	if err != nil {
		return nil, err
	}
	theirCall, ourCall := readOf(theirs, file), readOf(ours, file)
	if err := proveSame(theirCall, ourCall); err != nil {
		return nil, err
	}
	return pairOf(measure, theirCall, ourCall, 1, pause), nil
}

// lockContest is reading a small file in a folder, by the daemon locked in several ways.
func lockContest(f *files, pause time.Duration, begin starter) (*contest, error) {
	c := &contest{name: measureLocks, inFlight: 1, pause: pause}
	programs := []string{unlocked, locked, filterOnly}
	if err := proveLocks(f, programs...); err != nil {
		return nil, err
	}
	var calls []*call
	for _, program := range programs {
		p, err := begin(program, f.daemon)
		if err != nil {
			return nil, err
		}
		calls = append(calls, readOf(p, innerFile))
	}
	if err := proveSame(calls...); err != nil {
		return nil, err
	}
	for i, program := range programs {
		c.add(program, calls[i])
	}
	return c, nil
}

func readOf(p *pipe, file string) *call {
	return newCall(p, "sandbox_fs_read", `{"relative_path":"`+file+`"}`)
}

// proveSame proves each of the calls and that all are answered with the same bytes. They must be the first of their
// programs, so that the ids are equal too.
func proveSame(calls ...*call) error {
	var first []byte
	for i, c := range calls {
		answer, err := c.prove()
		switch {
		case err != nil:
			return err
		case i == 0:
			first = answer
		case !bytes.Equal(answer, first):
			return fmt.Errorf("%s does not answer the bytes of %s to %s", c.pipe.name, calls[0].pipe.name, c.request)
		}
	}
	return nil
}

// peerArgs is the command line of a bare program. TestMain of this package knows it too.
func peerArgs(kind string, more ...string) []string {
	return append([]string{"latency", "--peer", kind}, more...)
}

// rounds gives every contest one block on each of its programs in every round. The contests take turns at being first,
// and so do the programs of a contest.
func (m *measurement) rounds(ctx context.Context, all []*contest) error {
	for _, c := range all {
		for _, s := range c.sides {
			m.report.Series = append(m.report.Series, s.series)
			if _, err := c.block(s, min(warmUp, m.Block)); err != nil {
				return err
			}
		}
	}
	for round := range m.Rounds {
		for i := range all {
			c := all[(i+round)%len(all)]
			for _, s := range turn(c.sides, round) {
				if err := ctx.Err(); err != nil {
					return err
				}
				b, err := c.block(s, m.Block)
				if err != nil {
					return err
				}
				b.Round = round + 1
				s.Blocks = append(s.Blocks, b)
			}
			m.progress("round %d of %d: %s", round+1, m.Rounds, c.name)
		}
	}
	return nil
}

// turn is the order of one round, counted from 0: each is first equally often.
func turn[T any](all []T, round int) []T {
	first := round % len(all)
	return slices.Concat(all[first:], all[:first])
}

func (c *contest) block(s side, length time.Duration) (block, error) {
	if c.inFlight > 1 {
		return s.call.inFlight(c.inFlight, length)
	}
	return s.sequential(length, c.pause)
}
