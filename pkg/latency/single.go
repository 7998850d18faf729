package latency

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mcp-server-suite/pkg/rawclient"
)

// start is one start of the daemon, from the spawn to the answer of initialize.
type start struct {
	Program string  `json:"program"` // locked daemon or unlocked daemon
	CPU     float64 `json:"cpu_ms"`  // of the daemon, until it was idle again after that answer
	Wall    float64 `json:"wall_ms"` // as this client saw it
}

// memory is the daemon's resident memory at one time, in MiB.
type memory struct {
	RSS  float64 `json:"rss_mib"`
	Peak float64 `json:"peak_rss_mib"` // VmHWM
}

// threads is how many threads one locked daemon had.
type threads struct {
	Rest     int `json:"at_rest"`
	InFlight int `json:"in_flight"` // the most that were seen while largeAnswers reads of largeBytes were under way
}

const mib = 1 << 20

// largeAnswers is how many answers of largeBytes the memory figure asks for at once: as many as run at once by default.
const largeAnswers = 16

// pileUp is how long nobody reads the large answers, so that the daemon holds as many of them as it will.
const pileUp = 500 * time.Millisecond

// rest is how long the daemon is left alone before its idle memory is looked at.
const rest = 300 * time.Millisecond

// begin starts the daemon with the settings that go with a program's name and opens a session; took is the time from the
// spawn to the answer of initialize.
func begin(f *files, program string) (c *rawclient.Client, opening rawclient.Answer, took time.Duration, err error) {
	began := time.Now()
	if c, err = rawclient.Start(rawclient.Command(f.daemon, f.environment(program))); err != nil {
		return nil, opening, 0, err
	}
	opening, err = c.Handshake(protocolVersion)
	took = time.Since(began)
	if err == nil && opening.Error != nil {
		err = errors.New(opening.Error.Message)
	}
	if err != nil {
		end(c)
		return nil, opening, 0, fmt.Errorf("open a session: %w; the daemon said: %s", err, strings.TrimSpace(c.Stderr()))
	}
	return c, opening, took, nil
}

// end ends the daemon. The input is closed first: by that also ends what a script in the daemon's place has started.
func end(c *rawclient.Client) {
	_ = c.CloseInput() // it is killed next
	c.Close()
}

// start measures one start of the locked daemon and one of the unlocked; they take turns at being first.
func (m *measurement) start(f *files) error {
	programs := []string{locked, unlocked}
	if len(m.report.Starts) == 0 {
		if err := proveLocks(f, programs...); err != nil { // and the file is in the page cache
			return err
		}
	}
	for _, program := range turn(programs, len(m.report.Starts)/len(programs)) {
		s, err := startOf(f, program)
		if err != nil {
			return err
		}
		m.report.Starts = append(m.report.Starts, s)
	}
	return nil
}

// startOf measures one start. Everything that the daemon's process used is counted: what it did as stage 1, before it
// began itself anew, what it did just behind its answer, and the part of the spawn that the new process pays.
func startOf(f *files, program string) (start, error) {
	c, _, took, err := begin(f, program)
	if err != nil {
		return start{}, err
	}
	defer end(c)
	used, err := readCPU(c.PID())
	return start{Program: program, CPU: milliseconds(used), Wall: milliseconds(took)}, err
}

// startsOf takes one number of every start of one program.
func (r *report) startsOf(program string, number func(start) float64) []float64 {
	var out []float64
	for _, s := range r.Starts {
		if s.Program == program {
			out = append(out, number(s))
		}
	}
	return out
}

// idle measures the memory of a daemon that has answered initialize and one call, and rests.
func (m *measurement) idle(f *files) error {
	c, err := m.rested(f)
	if err != nil {
		return err
	}
	defer end(c)
	now, err := memoryOf(c)
	if err != nil {
		return err
	}
	m.report.Idle = append(m.report.Idle, now)
	return nil
}

// rested starts a daemon, makes one call and leaves it alone for a while. The caller must end it.
func (m *measurement) rested(f *files) (c *rawclient.Client, err error) {
	if c, _, _, err = begin(f, locked); err != nil {
		return nil, err
	}
	answer, err := c.Call("tools/call", readCall(smallFile, smallBytes))
	if err == nil && !succeeded(answer) {
		err = errors.New("the daemon refused to read a file")
	}
	if err != nil {
		end(c)
		return nil, err
	}
	time.Sleep(rest)
	return c, nil
}

// large measures the memory of a daemon that is asked for largeAnswers answers of 1 MiB at once (each about 2 MiB on the
// wire) while for pileUp nobody reads them.
func (m *measurement) large(f *files) error {
	c, _, _, err := begin(f, locked)
	if err != nil {
		return err
	}
	defer end(c)
	if err := pile(c, func() error { time.Sleep(pileUp); return nil }); err != nil {
		return err
	}
	now, err := memoryOf(c)
	if err != nil {
		return err
	}
	m.report.Large = append(m.report.Large, now)
	return nil
}

// pile asks for largeAnswers answers of largeBytes at once, reads none of them before meanwhile has returned, and then
// all.
func pile(c *rawclient.Client, meanwhile func() error) error {
	if err := c.Pause(); err != nil {
		return err
	}
	for i := range largeAnswers {
		if err := c.Request(strconv.Itoa(firstID+i), "tools/call", readCall(largeFile, largeBytes)); err != nil {
			return err
		}
	}
	if err := meanwhile(); err != nil {
		return err
	}
	if err := c.Resume(); err != nil {
		return err
	}
	for i := range largeAnswers {
		line, err := c.Await(strconv.Itoa(firstID + i))
		if err != nil {
			return err
		}
		// Not decoded: that would take longer than the measurement.
		if len(line) < 2*largeBytes || !bytes.HasSuffix(line, []byte(`"isError":false}}`)) {
			return fmt.Errorf("large answer %d of %d is refused or short: %.300s", i+1, largeAnswers, line)
		}
	}
	return nil
}

// threads counts the threads of a daemon that rests, and the most of them that are there while it makes largeAnswers
// answers at once and once these are delivered: the Go runtime keeps the threads that it has. The files are in the page
// cache, so no read waits; see the package's documentation for what that hides.
func (m *measurement) threads(f *files) error {
	c, err := m.rested(f)
	if err != nil {
		return err
	}
	defer end(c)
	atRest, err := readStatus(c.PID())
	if err != nil {
		return err
	}
	most := 0
	look := func() error {
		now, err := readStatus(c.PID())
		most = max(most, now.threads)
		return err
	}
	err = pile(c, func() error {
		for began := time.Now(); time.Since(began) < pileUp; time.Sleep(time.Millisecond) {
			if err := look(); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = look()
	}
	if err != nil {
		return err
	}
	m.report.Threads = append(m.report.Threads, threads{Rest: atRest.threads, InFlight: most})
	return nil
}

// singles are the measures of single processes, taken in turns with nothing else running.
func (m *measurement) singles(ctx context.Context, f *files) error {
	for _, s := range []struct {
		measure string
		times   int
		take    func(*files) error
	}{
		{measureStart, m.Rounds * startsPerRound, m.start},
		{measureIdle, min(m.Rounds, memoryRuns), m.idle},
		{measureLarge, min(m.Rounds, memoryRuns), m.large},
		{measureThreads, min(m.Rounds, memoryRuns), m.threads},
		{measureMixed, 1, m.mix},
		{measureValue, min(m.Rounds, memoryRuns), m.value},
		{measureRows, min(m.Rounds, memoryRuns), m.manyRows},
	} {
		if !m.wants(s.measure) {
			continue
		}
		for range s.times {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := s.take(f); err != nil {
				return fmt.Errorf("%s: %w", s.measure, err)
			}
		}
		m.progress("%s: %d times", s.measure, s.times)
	}
	return nil
}

const (
	startsPerRound = 2
	memoryRuns     = 3
)

func readCall(file string, maxBytes int) string {
	return fmt.Sprintf(`{"name":"sandbox_fs_read","arguments":{"relative_path":%q,"max_bytes":%d}}`, file, maxBytes)
}

// succeeded says that a call gave a result which is no refusal.
func succeeded(a rawclient.Answer) bool {
	var result struct {
		IsError *bool `json:"isError"`
	}
	return a.Error == nil && json.Unmarshal(a.Result, &result) == nil && result.IsError != nil && !*result.IsError
}

func memoryOf(c *rawclient.Client) (memory, error) {
	r, err := readStatus(c.PID())
	return memory{RSS: float64(r.rssBytes) / mib, Peak: float64(r.peakBytes) / mib}, err
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
