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
	CPU     float64 `json:"cpu_ms"`   // of the daemon, until it was idle again after that answer
	Wall    float64 `json:"wall_ms"`  // as this client saw it
	CPUFrom string  `json:"cpu_from"` // schedstat, or stat where threads have ended
}

// memory is the daemon's resident memory at one time, in MiB.
type memory struct {
	RSS  float64 `json:"rss_mib"`
	Peak float64 `json:"peak_rss_mib"` // VmHWM
}

const mib = 1 << 20

// largeAnswers is how many answers of largeBytes the memory figure asks for at once: as many as run at once by default.
const largeAnswers = 16

// pileUp is how long nobody reads the large answers, so that the daemon holds as many of them as it will.
const pileUp = 500 * time.Millisecond

// rest is how long the daemon is left alone before its idle memory is looked at.
const rest = 300 * time.Millisecond

// begin starts the daemon and opens a session; took is the time from the spawn to the answer of initialize.
func begin(f *files) (c *rawclient.Client, opening rawclient.Answer, took time.Duration, err error) {
	began := time.Now()
	if c, err = rawclient.Start(rawclient.Command(f.daemon, daemonEnvironment(f))); err != nil {
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

func daemonEnvironment(f *files) []string { return []string{"MCP_SAFE_DATA_DIR=" + f.tree} }

// start measures one start. Everything that the daemon's process used is counted, also what it did just behind its
// answer and the part of the spawn that the new process pays.
func (m *measurement) start(f *files) error {
	c, _, took, err := begin(f)
	if err != nil {
		return err
	}
	defer end(c)
	reading, err := readCPU(c.PID())
	if err != nil {
		return err
	}
	used, exact := reading.since(cpuReading{})
	s := start{CPU: milliseconds(used), Wall: milliseconds(took), CPUFrom: fromSchedstat}
	if !exact {
		s.CPUFrom = fromStat
	}
	m.report.Starts = append(m.report.Starts, s)
	return nil
}

// idle measures the memory of a daemon that has answered initialize and one call, and rests.
func (m *measurement) idle(f *files) error {
	c, _, _, err := begin(f)
	if err != nil {
		return err
	}
	defer end(c)
	answer, err := c.Call("tools/call", readCall(smallFile, smallBytes))
	if err != nil {
		return err
	}
	if !succeeded(answer) {
		return errors.New("the daemon refused to read a file")
	}
	time.Sleep(rest)
	now, err := memoryOf(c)
	if err != nil {
		return err
	}
	m.report.Idle = append(m.report.Idle, now)
	return nil
}

// large measures the memory of a daemon that is asked for largeAnswers answers of 1 MiB at once (each about 2 MiB on the
// wire) while for pileUp nobody reads them.
func (m *measurement) large(f *files) error {
	c, _, _, err := begin(f)
	if err != nil {
		return err
	}
	defer end(c)
	if err := c.Pause(); err != nil {
		return err
	}
	for i := range largeAnswers {
		if err := c.Request(strconv.Itoa(firstID+i), "tools/call", readCall(largeFile, largeBytes)); err != nil {
			return err
		}
	}
	time.Sleep(pileUp)
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
	now, err := memoryOf(c)
	if err != nil {
		return err
	}
	m.report.Large = append(m.report.Large, now)
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
	f, err := c.Figures()
	if err != nil {
		return memory{}, err
	}
	return memory{RSS: float64(f.RSSBytes) / mib, Peak: float64(f.PeakRSSBytes) / mib}, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
