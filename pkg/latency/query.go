package latency

import "fmt"

// queryWindow is how many queries are unanswered at once in the figure of their rate.
const queryWindow = 16

// More programs that take part, by their names in the report.
const (
	serial = "bare, serial"  // the bare one without parallel workers, as the daemon runs every statement
	fresh  = "new texts"     // the daemon, which sees each text for the first time
	narrow = "4 connections" // the daemon with the pool that it has by default; the bare program has 16 connections
)

// queryContests are the SELECTs against a bare program that runs the same texts on the same database.
func (m *measurement) queryContests(f *files, begin starter) (all []*contest, err error) {
	if err := proveLocks(f, querying); err != nil {
		return nil, err
	}
	bareOn := func(connections int, more ...string) (*pipe, error) {
		return begin("bare program", f.self, peerArgs("sql",
			append([]string{"--dsn-file", f.dsn, "--connections", fmt.Sprint(connections)}, more...)...)...)
	}
	if m.wants(measureOne) || m.wants(measureFifty) || m.wants(measureSum) || m.wants(measureText) {
		theirs, err := bareOn(1)
		if err != nil {
			return nil, err
		}
		ours, err := begin(querying, f.daemon)
		if err != nil {
			return nil, err
		}
		for _, c := range []struct{ measure, query string }{
			{measureOne, oneQuery}, {measureFifty, fiftyQuery}, {measureSum, sumQuery}, {measureText, longQuery(firstID)},
		} {
			if !m.wants(c.measure) {
				continue
			}
			bareCall, ourCall := queryOf(theirs, c.query), queryOf(ours, c.query)
			if err := proveAlike(bareCall, ourCall); err != nil {
				return nil, err
			}
			pair := pairOf(c.measure, bareCall, ourCall, 1, m.Pause)
			switch c.measure {
			case measureSum:
				p, err := bareOn(1, "--serial")
				if err != nil {
					return nil, err
				}
				third := queryOf(p, c.query)
				if err := proveAlike(bareCall, third); err != nil {
					return nil, err
				}
				pair.add(serial, third)
			case measureText:
				third := queryOf(ours, c.query).changing()
				if err := proveAlike(ourCall, third); err != nil {
					return nil, err
				}
				pair.add(fresh, third)
			}
			all = append(all, pair)
		}
	}
	if m.wants(measureFlight) {
		theirs, err := bareOn(queryWindow)
		if err != nil {
			return nil, err
		}
		var ours [2]*call
		for i, program := range []string{wide, querying} {
			p, err := begin(program, f.daemon)
			if err != nil {
				return nil, err
			}
			ours[i] = queryOf(p, oneQuery)
		}
		bareCall := queryOf(theirs, oneQuery)
		if err := proveAlike(bareCall, ours[:]...); err != nil {
			return nil, err
		}
		c := pairOf(measureFlight, bareCall, ours[0], queryWindow, 0)
		c.add(narrow, ours[1])
		all = append(all, c)
	}
	return all, nil
}

func queryOf(p *pipe, query string) *call { return newCall(p, sqlTool, sqlArguments(query)) }

// proveAlike proves the calls and that their answers have about the same length: a bare program does not know the
// daemon's types, so that its numbers are strings.
func proveAlike(first *call, others ...*call) error {
	if _, err := first.prove(); err != nil {
		return err
	}
	for _, c := range others {
		if _, err := c.prove(); err != nil {
			return err
		}
		const tolerance = 8 // a part in so many
		if d := c.bytes - first.bytes; d > first.bytes/tolerance || -d > first.bytes/tolerance {
			return fmt.Errorf("%s answers %d bytes, %s %d, to %.100s",
				c.pipe.name, c.bytes, first.pipe.name, first.bytes, c.request)
		}
	}
	return nil
}
