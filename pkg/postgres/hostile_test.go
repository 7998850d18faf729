package postgres

import (
	"context"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"mcp-server-suite/pkg/problem"
)

// hostile is a server that speaks the protocol and not the truth. A real one does not on request.
type hostile struct {
	// answer sends the messages between BindComplete and CommandComplete of a statement; nil answers it with no column.
	answer func(b *pgproto3.Backend, sql string)
	greet  func(b *pgproto3.Backend) // beside the greeting
}

func (h hostile) listen(t *testing.T) (dsn string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go h.serve(c)
		}
	}()
	return "postgres://u:s3cr3t@127.0.0.1:" + strconv.Itoa(l.Addr().(*net.TCPAddr).Port) + "/d?sslmode=disable"
}

func (h hostile) serve(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	b := pgproto3.NewBackend(c, c)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: "15.1"})
	b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	if h.greet != nil {
		h.greet(b)
	}
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	status := byte('I')
	for b.Flush() == nil {
		m, err := b.Receive()
		if err != nil {
			return
		}
		switch m := m.(type) {
		case *pgproto3.Parse:
			b.Send(&pgproto3.ParseComplete{})
			b.Send(&pgproto3.BindComplete{})
			switch {
			case strings.HasPrefix(m.Query, "BEGIN"):
				status = 'T'
				b.Send(&pgproto3.NoData{})
			case m.Query == rollback, m.Query == discard:
				status = 'I'
				b.Send(&pgproto3.NoData{})
			case h.answer == nil:
				b.Send(&pgproto3.RowDescription{})
			default:
				h.answer(b, m.Query)
			}
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("X")})
		case *pgproto3.Sync:
			b.Send(&pgproto3.ReadyForQuery{TxStatus: status})
		case *pgproto3.Terminate:
			return
		}
	}
}

// columns describes so many of them and sends one row.
func columns(b *pgproto3.Backend, n int) {
	fields, values := make([]pgproto3.FieldDescription, n), make([][]byte, n)
	for i := range fields {
		fields[i], values[i] = pgproto3.FieldDescription{Name: []byte("c"), DataTypeOID: 25}, []byte("1")
	}
	b.Send(&pgproto3.RowDescription{Fields: fields})
	b.Send(&pgproto3.DataRow{Values: values})
}

// flood sends until nobody takes it.
func flood(b *pgproto3.Backend, message func(i int) pgproto3.BackendMessage) {
	for i := 0; b.Flush() == nil; i++ {
		for range 100 {
			b.Send(message(i))
			i++
		}
	}
}

func row(int) pgproto3.BackendMessage {
	return &pgproto3.DataRow{Values: [][]byte{make([]byte, 10_000)}}
}

func parameter(i int) pgproto3.BackendMessage {
	return &pgproto3.ParameterStatus{Name: "p" + strconv.Itoa(i), Value: strings.Repeat("x", 1000)}
}

func TestAServerThatLiesCostsItsCallAndNothingElse(t *testing.T) {
	isStatement := func(sql string) bool { return sql == "SELECT 1 LIMIT 51" }
	pinned := func(b *pgproto3.Backend, sql string) bool {
		if isStatement(sql) {
			return false
		}
		columns(b, 4)
		return true
	}
	for _, c := range []struct {
		name   string
		server hostile
		why    string
	}{
		{"no column anywhere", hostile{}, "the pool lost a connection for each"},
		{"one column everywhere", hostile{answer: func(b *pgproto3.Backend, _ string) { columns(b, 1) }}, "a panic at the fourth ended the process"},
		{"10,000 columns", hostile{answer: func(b *pgproto3.Backend, sql string) {
			if !pinned(b, sql) {
				columns(b, 10_000)
			}
		}}, "the reply is reserved for 1,664"},
		{"endless parameters in the greeting", hostile{greet: func(b *pgproto3.Backend) { flood(b, parameter) }}, "639 MiB"},
		{"endless parameters in an answer", hostile{answer: func(b *pgproto3.Backend, sql string) {
			if !pinned(b, sql) {
				flood(b, parameter)
			}
		}}, "1.1 GiB"},
		{"endless rows to the questions", hostile{answer: func(b *pgproto3.Backend, _ string) { columns(b, 1); flood(b, row) }}, "1.9 GiB"},
	} {
		for _, unsafe := range []bool{false, true} {
			d := pool(t, c.server.listen(t), func(s *Settings) {
				s.PoolSize, s.AllowUnsafeRole, s.ConnectTimeout, s.QueryTimeout = 2, unsafe, 3*time.Second, 3*time.Second
			})
			var peak atomic.Uint64
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range 4 { // more than there are connections
					table, err := d.Query(context.Background(), approved(t, "SELECT 1", 50))
					if err == nil && table.Count > 50 {
						t.Errorf("%s: %d rows", c.name, table.Count)
					}
					if err != nil && (strings.Contains(err.Error(), "s3cr3t") || strings.HasPrefix(err.Error(), string(problem.Busy))) {
						t.Errorf("%s: %v", c.name, err)
					}
				}
			}()
			for waiting := true; waiting; {
				select {
				case <-done:
					waiting = false
				case <-time.After(20 * time.Millisecond):
				}
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak.Store(max(peak.Load(), m.HeapInuse))
			}
			if mib := peak.Load() >> 20; mib > 200 {
				t.Errorf("%s (%s): %d MiB", c.name, c.why, mib)
			}
		}
	}
}

func pinnedBy(b *pgproto3.Backend, sql string) bool {
	if sql == "SELECT 1 LIMIT 51" {
		return false
	}
	columns(b, 4)
	return true
}

// pgconn keeps the value of each parameter for the life of its connection.
func TestParametersThatAServerInventsDoNotPileUp(t *testing.T) {
	var invented atomic.Int64
	server := hostile{answer: func(b *pgproto3.Backend, sql string) {
		if !pinnedBy(b, sql) {
			columns(b, 1)
			for range 100 {
				b.Send(&pgproto3.ParameterStatus{Name: "p" + strconv.FormatInt(invented.Add(1), 10), Value: strings.Repeat("x", 10_000)})
			}
		}
	}}
	d := pool(t, server.listen(t), func(s *Settings) { s.PoolSize, s.AllowUnsafeRole = 1, true })
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range 60 {
		if _, err := d.Query(context.Background(), approved(t, "SELECT 1", 50)); err != nil {
			t.Fatal(err)
		}
	}
	if more := int64(heap()) - int64(before); more > 20<<20 {
		t.Errorf("after 60 calls with a megabyte of parameters each the heap has grown by %d MiB", more>>20)
	}
}

// What is too long and no row is no end of a result either.
func TestOnlyARowThatIsTooLongEndsAResult(t *testing.T) {
	for _, c := range []struct {
		name    string
		message pgproto3.BackendMessage
		result  bool
	}{
		{"a row", &pgproto3.DataRow{Values: [][]byte{make([]byte, 1<<20)}}, true},
		{"a notice", &pgproto3.NoticeResponse{Message: strings.Repeat("x", 1<<20)}, false},
		{"a parameter", &pgproto3.ParameterStatus{Name: "p", Value: strings.Repeat("x", 1<<20)}, false},
	} {
		server := hostile{answer: func(b *pgproto3.Backend, sql string) {
			if !pinnedBy(b, sql) {
				b.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("c"), DataTypeOID: 25}}})
				b.Send(c.message)
			}
		}}
		d := pool(t, server.listen(t), func(s *Settings) { s.PoolSize, s.AllowUnsafeRole = 1, true })
		table, err := d.Query(context.Background(), approved(t, "SELECT 1", 50))
		if (err == nil) != c.result || c.result && table.TruncatedBy != "size" {
			t.Errorf("%s: truncated by %q, %v", c.name, table.TruncatedBy, err)
		}
	}
}

func TestMeterFollowsMessagesHoweverTheyAreCut(t *testing.T) {
	t.Parallel()
	var stream []byte
	for _, m := range []pgproto3.BackendMessage{
		&pgproto3.ParameterStatus{Name: "a", Value: "bc"}, &pgproto3.ReadyForQuery{TxStatus: 'I'}, // 5 bytes of parameters, and an S inside of others
		&pgproto3.NoticeResponse{Message: "SSSS"}, &pgproto3.ParameterStatus{Name: "d", Value: ""}, &pgproto3.DataRow{},
	} {
		var err error
		if stream, err = m.Encode(stream); err != nil {
			t.Fatal(err)
		}
	}
	for size := 1; size <= len(stream); size++ {
		var m meter
		for rest := stream; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			m.follow(rest[:min(size, len(rest))])
		}
		if n := m.parameters.Load(); n != 5+3 || !m.inRow() {
			t.Errorf("in pieces of %d: %d bytes of parameters, in a row: %t", size, n, m.inRow())
		}
	}
}
