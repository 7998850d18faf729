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
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/pgstage"
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
	modes := []struct {
		name, landlock string
		viaSocket      bool
	}{
		{"Landlock, the database by a socket", "require", true},
		{"Landlock, the database by TLS", "require", false},
		{"no Landlock, the database by TLS", "off", false}, // openat2 is gone, the walk opens the files
	}
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			server, dsn := soakServer(t, mode.viaSocket)
			soak(t, duration/time.Duration(len(modes)), server, dsn, "MCP_LANDLOCK="+mode.landlock)
		})
	}
}

func soak(t *testing.T, duration time.Duration, server *pgstage.Server, environ ...string) {
	dir := soakTree(t)
	load := slices.Concat(load(), sqlLoad())
	sql := new(tally)
	start := func() *rawclient.Client {
		c, err := rawclient.Start(stage.Daemon(t, stage.Options{Tags: killing, Env: append(environ,
			"MCP_SAFE_DATA_DIR="+dir, "MCP_METRICS_CPU_SAMPLE_SECONDS=0.01", "MCP_MAX_CONCURRENT_TOOLS=16", "GOGC=25",
			fmt.Sprintf("MCP_SQL_POOL_MAX_SIZE=%d", soakPool), "MCP_SQL_QUERY_TIMEOUT=0.3")}))
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
	faults := make(chan error, callers+2)
	counts := make([]int, callers)
	for i := range callers {
		running.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1)) // the same load each time
			for time.Now().Before(ends) {
				if err := oneCall(c, random, load, sql); err != nil {
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
			_, callErr := short.Call(load[len(load)-1].method, load[len(load)-1].params) // it connects, too
			err := errors.Join(callErr, short.CloseInput())
			exit, waitErr := short.Wait()
			if err := errors.Join(err, waitErr); err != nil || exit.Code != 0 {
				faults <- fmt.Errorf("a short session ended with %+v, %v: %s", exit, err, short.Stderr())
				return
			}
			short.Close()
			time.Sleep(200 * time.Millisecond)
		}
	})

	ended := 0
	running.Go(func() {
		var err error
		if ended, err = breakConnections(server, ends); err != nil {
			faults <- err
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
	t.Logf("%d connections broken; calls of the database: %v", ended, sql.counts)
	if calls < 100 || sql.good.Load() < 20 || ended < 2 {
		t.Errorf("only %d calls, %d good ones of the database, %d connections broken", calls, sql.good.Load(), ended)
	}
	if last.RSSBytes > first.RSSBytes+moreMemory || last.Threads > first.Threads+moreThreads || last.Descriptors > first.Descriptors+moreFiles {
		t.Error("something grows")
	}

	// At rest: the descriptors of a daemon that has just begun, and no goroutine of a call that is over.
	time.Sleep(500 * time.Millisecond)
	if n, err := backends(server); err != nil || n > soakPool {
		t.Errorf("%d connections at rest, %v", n, err)
	}
	rested, fresh := figures(t, c), figures(t, start())
	if rested.Descriptors > fresh.Descriptors+soakPool+moreFiles {
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

// soakCall is a request with the reason of its refusal; "" is a success.
type soakCall struct{ method, params, reason string }

// load is what is called beside the database.
func load() []soakCall {
	read := func(reason, arguments string) soakCall {
		return soakCall{"tools/call", `{"name":"sandbox_fs_read","arguments":{` + arguments + `}}`, reason}
	}
	call := func(name, arguments string) soakCall {
		return soakCall{"tools/call", `{"name":"` + name + `","arguments":{` + arguments + `}}`, ""}
	}
	return []soakCall{
		read("", `"relative_path":"a.txt"`),
		read("", `"relative_path":"deep/er/still/b.txt"`),
		read("", `"relative_path":"big.txt","max_bytes":1048576`),
		read("", `"relative_path":"big.txt","offset":2200,"max_bytes":100`),
		read("", `"relative_path":"binary","encoding":"latin-1"`),
		read("BAD_ENCODING", `"relative_path":"binary","encoding":"shift_jis"`),
		read("", `"relative_path":"in"`),
		read("", `"relative_path":"up"`),
		read("OUTSIDE_SANDBOX", `"relative_path":"out"`),
		read("OUTSIDE_SANDBOX", `"relative_path":"loop"`),
		read("SPECIAL_FILE", `"relative_path":"fifo"`),
		read("OUTSIDE_SANDBOX", `"relative_path":"../../etc/passwd"`),
		read("SPECIAL_FILE", `"relative_path":"deep"`),
		read("NOT_FOUND", `"relative_path":"no/such"`),
		call("system_metrics", ""),
		call("system_metrics", `"include_disk":true`),
		call("rows", `"size":2000000`),
		call("rows", `"size":100,"sleep_ms":20`),
	}
}

// oneCall makes a call, or cancels one, or sends what is not a call.
func oneCall(c *rawclient.Client, random *rand.Rand, load []soakCall, sql *tally) error {
	switch random.IntN(12) {
	case 0:
		_, err := c.Call("ping", "")
		return err
	case 1:
		return callAndCancel(c, random, `{"name":"rows","arguments":{"sleep_ms":60000}}`)
	case 2:
		return callAndCancel(c, random, forgetful)
	}
	call := load[random.IntN(len(load))]
	answer, err := c.Call(call.method, call.params)
	if err != nil {
		if errors.Is(err, io.EOF) {
			exit, _ := c.Wait() // says how; err says that
			return fmt.Errorf("the daemon has ended: %+v: %.2000s", exit, c.Stderr())
		}
		return err
	}
	got, err := reasonOf(answer)
	if err != nil {
		return fmt.Errorf("%s: %w", call.params, err)
	}
	ofDatabase := strings.Contains(call.params, "read_only_sql") || call.method == "resources/read"
	if ofDatabase {
		sql.note(call.reason, got)
	}
	if got == call.reason || ofDatabase && passing(got) {
		return nil
	}
	if got == "INTERNAL" {
		return fmt.Errorf("%s: a fault: %s", call.params, lastFault(c))
	}
	return fmt.Errorf("%s: %q, not %q: %.300s", call.params, got, call.reason, answer.Result)
}

// lastFault is the last line of the daemon's log that is about an error. The log is written beside the answers.
func lastFault(c *rawclient.Client) string {
	time.Sleep(100 * time.Millisecond)
	last := "(nothing in the log)"
	for line := range strings.Lines(c.Stderr()) {
		if strings.Contains(line, `"level":"ERROR"`) {
			last = line
		}
	}
	return last
}

// callAndCancel leaves a call alone that would go on for long.
func callAndCancel(c *rawclient.Client, random *rand.Rand, params string) error {
	id := fmt.Sprint(random.Uint64() >> 11)
	if err := c.Request(id, "tools/call", params); err != nil {
		return err
	}
	if random.IntN(2) == 0 { // before it has begun, or in the middle
		time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
	}
	if err := c.Notify("notifications/cancelled", `{"requestId":`+id+`}`); err != nil {
		return err
	}
	c.Forget(id) // no answer comes, unless one was on its way
	return nil
}

// reasonOf is the reason of a refusal, "" for a success.
func reasonOf(a rawclient.Answer) (string, error) {
	var refused struct{ Reason string }
	if a.Error != nil {
		err := json.Unmarshal(a.Error.Data, &refused)
		if err != nil || refused.Reason == "" {
			return "", fmt.Errorf("%d %s: %s", a.Error.Code, a.Error.Message, a.Error.Data)
		}
		return refused.Reason, nil
	}
	var result struct {
		IsError bool
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(a.Result, &result); err != nil || !result.IsError {
		return "", err
	}
	err := json.Unmarshal([]byte(result.Content[0].Text), &refused)
	return refused.Reason, err
}
