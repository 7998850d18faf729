package daemon_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcp-server-suite/pkg/stage"
)

// maxPeakBytes is what a full house may take: the budget of answers (64 MiB), the arguments alive (32 MiB), and as much
// again for the garbage collector's pace.
const maxPeakBytes = 160 << 20

func (s session) peakBelow(limit int) {
	s.t.Helper()
	if f := s.figures(); f.PeakRSSBytes > limit {
		s.t.Errorf("%d KiB resident at the peak, at most %d KiB are allowed", f.PeakRSSBytes>>10, limit>>10)
	} else {
		s.t.Logf("%d KiB resident at the peak", f.PeakRSSBytes>>10)
	}
}

// isLargeResult recognises a result of at least so many bytes by its end: decoding it under the race detector would take
// most of the test's time.
func isLargeResult(line []byte, least int) bool {
	return len(line) >= least && bytes.HasSuffix(line, []byte(`"}],"isError":false}}`))
}

func TestSixteenLargeAnswersAtOnceAreBoundedInMemory(t *testing.T) {
	if os.Getenv(stage.CoverVariable) != "" {
		t.Skip("needs a daemon at its own speed: one that counts is slower than its deadlines here")
	}
	t.Parallel()
	const size = 1 << 20
	dir := stage.Dir(t)
	stage.File(t, dir, "plain.txt", bytes.Repeat([]byte("It is text.\n"), size/12+1)[:size])
	stage.File(t, dir, "quotes.txt", bytes.Repeat([]byte{'"'}, size))
	stage.File(t, dir, "control.txt", bytes.Repeat([]byte{1}, size)) // 13 bytes in an answer for each in the file
	stage.File(t, dir, "cjk.txt", bytes.Repeat([]byte("\u3042"), size/3))
	for _, c := range []struct {
		name, params string
		least        int // bytes of an answer; the control
	}{
		{"rows", callParams("rows", `{"size":1048576}`), 2 << 20},
		{"plain", callParams("sandbox_fs_read", `{"relative_path":"plain.txt","max_bytes":1048576}`), 2 << 20},
		{"quotes", callParams("sandbox_fs_read", `{"relative_path":"quotes.txt","max_bytes":1048576}`), 6 << 20},
		{"control characters", callParams("sandbox_fs_read", `{"relative_path":"control.txt","max_bytes":1048576}`), 13 << 20},
		{"three-byte characters", callParams("sandbox_fs_read", `{"relative_path":"cjk.txt","max_bytes":1048576}`), 4 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, "MCP_SAFE_DATA_DIR="+dir, "MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS=60")
			for i := range 16 {
				s.request(i, "tools/call", c.params)
			}
			for i := range 16 {
				line, err := s.Await(strconv.Itoa(i))
				if err != nil || !isLargeResult(line, c.least) {
					t.Fatalf("answer %d: %v, %d bytes: %.200s", i, err, len(line), line)
				}
			}
			s.peakBelow(maxPeakBytes)
		})
	}
}

// A client that does not read must not fill the memory, and must find everything when it goes on.
func TestAClientThatDoesNotReadIsRefusedFurtherAnswers(t *testing.T) {
	t.Parallel()
	s := open(t, "MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS=0.3", "MCP_MAX_WAITING_CALLS=32")
	const calls = 100
	s.request(calls, "tools/call", callParams("rows", `{"sleep_ms":60000}`))
	time.Sleep(settled)
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	for i := range calls {
		s.request(i, "tools/call", callParams("rows", `{"size":1048576}`))
		time.Sleep(time.Millisecond) // so that most find a place to wait
	}
	s.cancel(calls) // also that is taken while nothing moves
	s.request(calls+1, "ping", "")
	time.Sleep(time.Second) // every wait is over
	s.peakBelow(maxPeakBytes)
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	results, busy := 0, 0
	for i := range calls {
		line, err := s.Await(strconv.Itoa(i))
		if err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		if isLargeResult(line, 2<<20) {
			results++
			continue
		}
		o := outcomeOf(t, decode(t, line))
		o.refused(t, "BUSY")
		if busy++; o.Refusal == nil || !o.Refusal.Metadata.Retryable {
			t.Errorf("BUSY is not retryable: %+v", o.Refusal)
		}
	}
	if results < 4 || busy == 0 {
		t.Errorf("%d results, %d BUSY", results, busy)
	}
	if a := s.await(calls + 1); string(a.Result) != "{}" {
		t.Errorf("ping: %s", a.Result)
	}
	into[any](t, s.call("rows", `{"size":100000}`)) // there is room again
	s.peakBelow(maxPeakBytes)
}

// Short answers have no reservation. When nobody reads them, the reading of the input stops, and with it their source.
func TestAClientThatSendsWithoutReadingSlowsItselfDown(t *testing.T) {
	t.Parallel()
	s := open(t)
	before := s.figures().RSSBytes
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	const lines = 400_000
	var sent atomic.Int64
	done := make(chan error, 1)
	go func() {
		batch := []byte(strings.Repeat("x\n", 1000))
		for range lines / 1000 {
			if err := s.Send(batch); err != nil {
				done <- err
				return
			}
			sent.Add(1000)
		}
		done <- nil
	}()
	for last := int64(-1); last != sent.Load(); { // until it has stopped moving
		last = sent.Load()
		time.Sleep(300 * time.Millisecond)
	}
	n := sent.Load()
	t.Logf("%d of %d lines are taken from a client that reads nothing", n, lines)
	if n < 1000 || n == lines {
		t.Error("that is none, or all")
	}
	if grown := s.figures().RSSBytes - before; grown > 32<<20 {
		t.Errorf("%d KiB more resident", grown>>10)
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	want := []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`)
	for i := range lines {
		if line, err := s.Line(); err != nil || !bytes.Equal(line, want) {
			t.Fatalf("answer %d of %d: %v, %s", i, lines, err, line)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.ping()
}

func TestABurstOfCallsLosesNone(t *testing.T) {
	t.Parallel()
	s := open(t)
	const calls = 1000
	var burst strings.Builder
	for i := range calls {
		id := strconv.Itoa(i)
		fmt.Fprintf(&burst, `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":%s}`+"\n", id, callParams("rows", `{"sleep_ms":20}`))
	}
	s.send(burst.String())
	for range 5 {
		if took := s.ping(); took > time.Second {
			t.Errorf("a ping took %v", took)
		}
	}
	seen, results, busy := map[string]bool{}, 0, 0
	for range calls {
		line, err := s.Line()
		if err != nil {
			t.Fatalf("after %d answers: %v", len(seen), err)
		}
		a := decode(t, line)
		if seen[string(a.ID)] {
			t.Errorf("id %s is answered twice", a.ID)
		}
		seen[string(a.ID)] = true
		switch o := outcomeOf(t, a); o.reason() {
		case "":
			results++
		case "BUSY":
			if busy++; !o.Refusal.Metadata.Retryable || o.Refusal.Metadata.RetryAfterMS <= 0 {
				t.Errorf("BUSY without advice: %+v", o.Refusal)
			}
		default:
			t.Errorf("id %s: %s", a.ID, o.reason())
		}
	}
	// 16 slots and 256 places to wait are there; which calls get them depends on the pace.
	if len(seen) != calls || results < 16+256 || busy == 0 {
		t.Errorf("%d ids, %d results, %d BUSY", len(seen), results, busy)
	}
	s.peakBelow(64 << 20)
}

// One hundred megabytes in one line cost no more than an ordinary frame (a stock transport keeps all of it).
func TestAnEndlessLineCostsNoMemory(t *testing.T) {
	t.Parallel()
	s := open(t)
	into[any](t, s.call("rows", `{}`))
	idle := s.figures().PeakRSSBytes
	part := strings.Repeat("a", 1<<20)
	for range 100 {
		s.send(part)
	}
	s.send("\n")
	line, err := s.Line()
	want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request: frame too large","data":{"max_frame_bytes":1048576}}}`
	if err != nil || string(line) != want {
		t.Errorf("%v, %s", err, line)
	}
	s.ping()
	if grown := s.figures().PeakRSSBytes - idle; grown > 8<<20 {
		t.Errorf("%d KiB more at the peak", grown>>10)
	}
}

// Arguments stay in memory as long as their calls, so what waits is bounded by bytes too.
func TestWaitingCallsWithLargeArgumentsAreBoundedInMemory(t *testing.T) {
	t.Parallel()
	s := open(t, "MCP_MAX_CONCURRENT_TOOLS=1", "MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS=1")
	s.request(0, "tools/call", callParams("rows", `{"sleep_ms":60000}`))
	large := callParams("rows", `{"size":"`+strings.Repeat("v", 1_040_000)+`"}`)
	const calls = 200
	for i := range calls {
		s.request(i+1, "tools/call", large)
	}
	for i := range calls {
		outcomeOf(t, s.await(i+1)).refused(t, "BUSY")
	}
	s.peakBelow(maxPeakBytes)
	s.cancel(0)
	s.call("rows", large[len(`{"name":"rows","arguments":`):len(large)-1]).refused(t, "BAD_PARAM", "size")
}

// A session may last for days: what a call takes it gives back.
func TestALongSessionKeepsNothing(t *testing.T) {
	t.Parallel()
	dir := stage.Dir(t)
	stage.File(t, dir, "a/b/c.txt", []byte("hello"))
	if err := errors.Join(os.Symlink("a/b", dir+"/link"), os.Symlink("/etc", dir+"/out")); err != nil {
		t.Fatal(err)
	}
	s := open(t, "MCP_SAFE_DATA_DIR="+dir, "MCP_METRICS_CPU_SAMPLE_SECONDS=0.001")
	round := func(n int) {
		for i := range n {
			s.request(i, "tools/call", callParams("rows", `{"size":1000}`))
			s.request(n+i, "tools/call", callParams("rows", `{"sleep_ms":60000}`))
			s.cancel(n + i)
			into[any](t, s.call("sandbox_fs_read", `{"relative_path":"link/c.txt"}`))
			s.call("sandbox_fs_read", `{"relative_path":"out/passwd"}`).refused(t, "OUTSIDE_SANDBOX", "relative_path")
			s.call("sandbox_fs_read", `{"relative_path":"a/b"}`).refused(t, "SPECIAL_FILE", "relative_path")
			into[any](t, s.call("system_metrics", `{"include_disk":true}`))
			s.ping()
			outcomeOf(t, s.await(i))
		}
	}
	round(20)
	before := s.figures()
	round(100)
	after := s.figures()
	if after.Descriptors != before.Descriptors || after.Threads > before.Threads+4 || after.RSSBytes > before.RSSBytes+16<<20 {
		t.Errorf("before %+v, after %+v", before, after)
	}
}
