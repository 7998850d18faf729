package postgres

import (
	"errors"
	"io"
	"sync/atomic"
)

// errFlood: the server has sent more than what it was asked for can take.
var errFlood = errors.New("read from the server: more bytes than an answer may have")

const (
	// connectBytes bounds all that comes before the first statement, what is asked about session and role included: some
	// 20 KiB of an honest server. What pgconn keeps of it (parameters, by name) is bounded by that.
	connectBytes = 1 << 20
	// leastFlightBytes bounds one flight, 51 rows of the longest kind with a result of the default size and all that comes
	// beside them.
	leastFlightBytes = 16 << 20
)

// flightBytes is the bound of one flight for results of this size: 51 rows, each as long as a message may be, and more than
// the rest.
func flightBytes(resultBytes int) int64 { return max(leastFlightBytes, 110*int64(resultBytes)) }

// meter counts what a server sends, before anything is kept of it. pgconn bounds one message; this bounds their sum: rows
// without end, and the messages that pgconn takes in between and keeps or passes over.
type meter struct {
	from io.Reader
	left atomic.Int64 // bytes
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	if m.left.Add(-int64(n)) < 0 {
		return 0, errFlood
	}
	return n, err
}
