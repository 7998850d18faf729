package postgres

import (
	"encoding/binary"
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

// maxParameterBytes is how much of ParameterStatus a connection may have taken to serve another statement. pgconn keeps the
// value of each name for the connection's life, and a server may invent names. An honest one sends some 600 bytes at the
// start, and behind a pooler some 200 more for each statement.
const maxParameterBytes = 256 << 10

// meter counts what a server sends, before anything is kept of it. pgconn bounds one message; this bounds their sum: rows
// without end, and the messages that pgconn takes in between and keeps or passes over. It reads the head of each message
// (a type, and a length that counts itself: PostgreSQL protocol 3.0), from the first one on.
type meter struct {
	from io.Reader
	left atomic.Int64 // bytes

	head       [5]byte // of the message that comes
	seen       int     // bytes of head
	body       int64   // of the message that is coming, what is left
	kind       atomic.Uint32
	parameters atomic.Int64 // bytes of ParameterStatus
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	m.follow(p[:n])
	if m.left.Add(-int64(n)) < 0 {
		return 0, errFlood
	}
	return n, err
}

// dataRow and parameterStatus are types of messages.
const (
	dataRow         = 'D'
	parameterStatus = 'S'
)

// inRow says whether the message that came last is a row, or the beginning of one.
func (m *meter) inRow() bool { return m.kind.Load() == dataRow }

func (m *meter) follow(p []byte) {
	for len(p) > 0 {
		if m.body > 0 {
			n := min(m.body, int64(len(p)))
			m.body -= n
			p = p[n:]
			continue
		}
		n := copy(m.head[m.seen:], p)
		m.seen += n
		p = p[n:]
		if m.seen < len(m.head) {
			return
		}
		m.seen = 0
		m.kind.Store(uint32(m.head[0]))
		m.body = int64(binary.BigEndian.Uint32(m.head[1:])) - 4 // less than none is for pgconn to refuse
		if m.head[0] == parameterStatus {
			m.parameters.Add(max(0, m.body))
		}
	}
}
