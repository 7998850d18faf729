package lockdown_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/rawclient"
	"mcp-server-suite/pkg/stage"
)

// The daemon of the soak ends at a system call that the table lacks, where the shipped one would see EPERM and might live
// with it unnoticed. It has the test tool beside the shipped ones.
const killing = "lockdownkill,wiretest"

const (
	callers = 16 // as many as there are slots
	// What may grow between the second fifth of the time and the last; in the first, pools and stacks grow to their size.
	moreMemory  = 32 << 20 // buffers for answers are kept in pools; a leak of a kilobyte a call shows in ten minutes
	moreThreads = 4
	moreFiles   = 4
	// A daemon at rest has the readers, writers and watchers of one session.
	restingGoroutines = 24
)

// TestSoak puts the load of all tools on a daemon for SOAKTIME (make soak) and watches what it holds.
func TestSoak(t *testing.T) {
	text := os.Getenv("SOAKTIME")
	if text == "" {
		t.Skip("runs for SOAKTIME (make soak)")
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"require", "off"} { // off: openat2 is gone, the walk opens the files
		t.Run("Landlock "+mode, func(t *testing.T) { soak(t, duration/2, "MCP_LANDLOCK="+mode) })
	}
}

func soak(t *testing.T, duration time.Duration, environ ...string) {
	dir := soakTree(t)
	start := func() *rawclient.Client {
		c, err := rawclient.Start(stage.Daemon(t, stage.Options{Tags: killing, Env: append(environ,
			"MCP_SAFE_DATA_DIR="+dir, "MCP_METRICS_CPU_SAMPLE_SECONDS=0.01", "MCP_MAX_CONCURRENT_TOOLS=16", "GOGC=25")}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if _, err := c.Handshake("2025-11-25"); err != nil {
			t.Fatalf("%v: %s", err, c.Stderr())
		}
		return c
	}
	c := start()
	if !strings.Contains(firstLine(t, c), `"default":"kill"`) {
		t.Fatalf("this daemon would not die of a missing call: %s", c.Stderr())
	}
	ends := time.Now().Add(duration)
	var running sync.WaitGroup
	faults := make(chan error, callers+1)
	counts := make([]int, callers)
	for i := range callers {
		running.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1)) // the same load each time
			for time.Now().Before(ends) {
				if err := oneCall(c, random); err != nil {
					faults <- err
					return
				}
				counts[i]++
			}
		})
	}
	// The way in and out, over and over: what a start needs is not in the load of a session.
	running.Go(func() {
		for n := 0; time.Now().Before(ends); n++ {
			short := start()
			err := short.CloseInput()
			exit, waitErr := short.Wait()
			if err := errors.Join(err, waitErr); err != nil || exit.Code != 0 {
				faults <- fmt.Errorf("a short session ended with %+v, %v: %s", exit, err, short.Stderr())
				return
			}
			short.Close()
			time.Sleep(200 * time.Millisecond)
		}
	})

	// The smallest of a window says what is kept; the rest comes and goes with the answers under way.
	window := duration / 5
	time.Sleep(window)
	first := least(t, c, time.Now().Add(window))
	time.Sleep(time.Until(ends.Add(-window)))
	last := least(t, c, ends.Add(-time.Second/2))
	running.Wait()
	close(faults)
	for err := range faults {
		t.Error(err)
	}
	calls := 0
	for _, n := range counts {
		calls += n
	}
	t.Logf("%d calls in %v; resident %d MiB after the warm-up, %d MiB at the end; threads %d, %d; descriptors %d, %d",
		calls, duration, first.RSSBytes>>20, last.RSSBytes>>20, first.Threads, last.Threads, first.Descriptors, last.Descriptors)
	if calls < 100 {
		t.Errorf("only %d calls", calls)
	}
	if last.RSSBytes > first.RSSBytes+moreMemory || last.Threads > first.Threads+moreThreads || last.Descriptors > first.Descriptors+moreFiles {
		t.Error("something grows")
	}

	// At rest: the descriptors of a daemon that has just begun, and no goroutine of a call that is over.
	time.Sleep(500 * time.Millisecond)
	rested, fresh := figures(t, c), figures(t, start())
	if rested.Descriptors > fresh.Descriptors+moreFiles {
		t.Errorf("%d descriptors at rest, %d at the start", rested.Descriptors, fresh.Descriptors)
	}
	if err := c.Signal(syscall.SIGQUIT); err != nil { // the runtime lists its goroutines and exits with 2
		t.Fatal(err)
	}
	exit, err := c.Wait()
	if err != nil || exit.Code != 2 {
		t.Fatalf("it ended with %+v, %v: %.2000s", exit, err, c.Stderr())
	}
	if n := strings.Count(c.Stderr(), "\ngoroutine "); n < 2 || n > restingGoroutines {
		t.Errorf("%d goroutines at rest: %.8000s", n, c.Stderr())
	}
}

// least samples the daemon until then and returns the smallest of each figure.
func least(t *testing.T, c *rawclient.Client, until time.Time) rawclient.Figures {
	t.Helper()
	low := figures(t, c)
	for time.Now().Before(until) {
		time.Sleep(100 * time.Millisecond)
		now := figures(t, c)
		low.RSSBytes = min(low.RSSBytes, now.RSSBytes)
		low.Threads = min(low.Threads, now.Threads)
		low.Descriptors = min(low.Descriptors, now.Descriptors)
	}
	return low
}

func figures(t *testing.T, c *rawclient.Client) rawclient.Figures {
	t.Helper()
	f, err := c.Figures()
	if err != nil {
		exit, _ := c.Wait() // the first error says that it has ended, this says how
		t.Fatalf("%v; it ended with %+v: %.2000s", err, exit, c.Stderr())
	}
	return f
}

// soakTree has what sandbox_fs_read can meet.
func soakTree(t *testing.T) string {
	t.Helper()
	dir := stage.Dir(t)
	stage.File(t, dir, "a.txt", []byte("hello\n"))
	stage.File(t, dir, "deep/er/still/b.txt", bytes.Repeat([]byte("0123456789abcde\n"), 4096))
	stage.File(t, dir, "big.txt", bytes.Repeat([]byte("naïve façade 売上\n"), 60_000))
	stage.File(t, dir, "binary", bytes.Repeat([]byte{0xff, 0x00, 0x80}, 1000))
	for name, target := range map[string]string{"in": "a.txt", "up": "deep/er/../../a.txt", "out": "/etc/passwd", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// load is what is called; ok says that the call is a success.
var load = []struct {
	params string
	ok     bool
}{
	{`{"name":"sandbox_fs_read","arguments":{"relative_path":"a.txt"}}`, true},
	{`{"name":"sandbox_fs_read","arguments":{"relative_path":"deep/er/still/b.txt"}}`, true},
	{`{"name":"sandbox_fs_read","arguments":{"relative_path":"big.txt","max_bytes":1048576}}`, true},
	{`{"name":"sandbox_fs_read","arguments":{"relative_path":"big.txt","offset":2200,"max_bytes":100}}`, true},
	{`{"name":"sandbox_fs_read","arguments":{"relative_path":"binary","encoding":"latin-1"}}`, true},
	{`{"name":"sandbox_fs_read","arguments":{"relative_path":"binary","encoding":"shift_jis"}}`, false},
	{`{"name":"sandbox_fs_read","arguments":{"relative_path":"in"}}`, true},
	{`{"name":"sandbox_fs_read","arguments":{"relative_path":"up"}}`, true},
	{`{"name":"sandbox_fs_read","arguments":{"relative_path":"out"}}`, false},
	{`{"name":"sandbox_fs_read","arguments":{"relative_path":"loop"}}`, false},
	{`{"name":"sandbox_fs_read","arguments":{"relative_path":"fifo"}}`, false},
	{`{"name":"sandbox_fs_read","arguments":{"relative_path":"../../etc/passwd"}}`, false},
	{`{"name":"sandbox_fs_read","arguments":{"relative_path":"deep"}}`, false},
	{`{"name":"sandbox_fs_read","arguments":{"relative_path":"no/such"}}`, false},
	{`{"name":"system_metrics","arguments":{}}`, true},
	{`{"name":"system_metrics","arguments":{"include_disk":true}}`, true},
	{`{"name":"rows","arguments":{"size":2000000}}`, true},
	{`{"name":"rows","arguments":{"size":100,"sleep_ms":20}}`, true},
}

// oneCall makes a call, or cancels one, or sends what is not a call.
func oneCall(c *rawclient.Client, random *rand.Rand) error {
	switch random.IntN(12) {
	case 0:
		_, err := c.Call("ping", "")
		return err
	case 1:
		id := fmt.Sprint(random.Uint64() >> 11)
		if err := c.Request(id, "tools/call", `{"name":"rows","arguments":{"sleep_ms":60000}}`); err != nil {
			return err
		}
		if err := c.Notify("notifications/cancelled", `{"requestId":`+id+`}`); err != nil {
			return err
		}
		c.Forget(id) // no answer comes
		return nil
	}
	call := load[random.IntN(len(load))]
	answer, err := c.Call("tools/call", call.params)
	if err != nil {
		if errors.Is(err, io.EOF) {
			exit, _ := c.Wait() // says how; err says that
			return fmt.Errorf("the daemon has ended: %+v: %.2000s", exit, c.Stderr())
		}
		return err
	}
	var result struct{ IsError *bool }
	if err := json.Unmarshal(answer.Result, &result); err != nil {
		return err
	}
	if result.IsError == nil || *result.IsError == call.ok {
		return fmt.Errorf("%s: %.300s", call.params, answer.Result)
	}
	return nil
}
