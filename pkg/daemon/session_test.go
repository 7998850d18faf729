package daemon_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcp-server-suite/pkg/stage"
)

// What everybody tries first, and what a stock transport loses every time (modelcontextprotocol/go-sdk#1061): requests
// in a pipe whose end comes before the first answer.
func TestAPipeOfRequestsIsAnsweredInFull(t *testing.T) {
	t.Parallel()
	dir := stage.Dir(t)
	stage.File(t, dir, "a.txt", []byte("hello"))
	requests := strings.Join([]string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
			`"clientInfo":{"name":"cli","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"sandbox_fs_read","arguments":{"relative_path":"a.txt"}}}`,
		`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"system_metrics"}}`,
	}, "\n") + "\n"
	const runs, atOnce = 200, 4
	places := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for range runs {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			cmd := stage.Daemon(t, stage.Options{Env: []string{"MCP_SAFE_DATA_DIR=" + dir, "MCP_METRICS_CPU_SAMPLE_SECONDS=0.005"}})
			cmd.Stdin = strings.NewReader(requests)
			out, err := cmd.Output()
			if err != nil {
				t.Error(err)
			}
			seen := map[string]int{}
			for line := range bytes.Lines(out) {
				a := decode(t, bytes.TrimSuffix(line, []byte("\n")))
				if a.Error == nil {
					seen[string(a.ID)]++
				}
			}
			if fmt.Sprint(seen) != "map[1:1 2:1 3:1 4:1]" {
				t.Errorf("answers %v: %.500s", seen, out)
			}
		})
	}
	all.Wait()
}

// settled is long enough for a call that was sent to be running, or to be waiting behind those that were sent before.
const settled = 200 * time.Millisecond

func TestPingIsAnsweredWhileEverySlotIsTaken(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i := range 16 {
		s.request(i, "tools/call", callParams("rows", `{"sleep_ms":60000}`))
	}
	s.request(16, "tools/call", callParams("rows", `{"sleep_ms":60000}`)) // waits for a slot
	for range 20 {
		if took := s.ping(); took > time.Second {
			t.Errorf("a ping took %v", took)
		}
	}
	a, err := s.Call("tools/list", "")
	if err != nil || a.Error != nil {
		t.Errorf("tools/list: %v, %+v", err, a.Error)
	}
	if line, err := s.Within(0).Await("0"); err == nil { // the control: they are running indeed
		t.Errorf("a call that should be running was answered: %.200s", line)
	}
	for i := range 17 {
		s.cancel(i)
	}
}

func TestACallThatFindsNoSlotIsToldWhen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, wait    string
		after, within time.Duration
	}{
		{"after the wait", "0.2", 150 * time.Millisecond, 4 * time.Second},
		{"at once", "0", 0, 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, "MCP_MAX_CONCURRENT_TOOLS=1", "MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS="+c.wait)
			s.call("rows", `{}`) // the control: the slot is free at first
			s.request(1, "tools/call", callParams("rows", `{"sleep_ms":60000}`))
			time.Sleep(settled)
			begin := time.Now()
			o := s.call("rows", `{}`)
			took := time.Since(begin)
			o.refused(t, "BUSY")
			if took < c.after || took > c.within {
				t.Errorf("refused after %v", took)
			}
			if o.Refusal != nil && (!o.Refusal.Metadata.Retryable || o.Refusal.Metadata.RetryAfterMS <= 0) {
				t.Errorf("no advice: %+v", o.Refusal.Metadata)
			}
			s.cancel(1)
		})
	}
}

func TestOneCallMoreThanMayWaitIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t, "MCP_MAX_CONCURRENT_TOOLS=1", "MCP_MAX_WAITING_CALLS=2", "MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS=60")
	for i := range 3 {
		s.request(i, "tools/call", callParams("rows", `{"sleep_ms":600}`))
	}
	s.call("rows", `{}`).refused(t, "BUSY")
	for i := range 3 {
		if o := outcomeOf(t, s.await(i)); o.Refusal != nil {
			t.Errorf("call %d: %s", i, o.reason())
		}
	}
}

func TestACallBeyondItsDeadlineIsStopped(t *testing.T) {
	t.Parallel()
	s := open(t, "MCP_MAX_CONCURRENT_TOOLS=1", "MCP_TOOL_TIMEOUT_SECONDS=0.3", "MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS=5")
	for range 2 { // the second time shows that the slot came free
		begin := time.Now()
		o := s.call("rows", `{"sleep_ms":60000}`)
		took := time.Since(begin)
		o.refused(t, "DEADLINE")
		if o.Refusal != nil && (!o.Refusal.Metadata.Retryable || o.Refusal.Code != "MCP_EXECUTION_TIMEOUT") {
			t.Errorf("%+v", o.Refusal)
		}
		if took < 250*time.Millisecond || took > 4*time.Second {
			t.Errorf("stopped after %v", took)
		}
	}
	into[any](t, s.call("rows", `{"sleep_ms":1}`)) // the control
}

func TestACancelledCallFreesItsSlot(t *testing.T) {
	t.Parallel()
	s := open(t, "MCP_MAX_CONCURRENT_TOOLS=1", "MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS=60")
	for i := range 20 {
		s.request(i, "tools/call", callParams("rows", `{"sleep_ms":60000}`))
		if i%2 == 0 {
			time.Sleep(10 * time.Millisecond) // so that it runs already
		}
		s.cancel(i)
		into[any](t, s.call("rows", `{}`)) // waits as long as the slot is taken: longer than the client's patience
	}
}

// A goroutine for each call would start the last of a burst first.
func TestCallsRunInTheOrderInWhichTheyCame(t *testing.T) {
	t.Parallel()
	s := open(t, "MCP_MAX_CONCURRENT_TOOLS=1")
	const calls = 50
	var burst strings.Builder
	for i := range calls {
		fmt.Fprintf(&burst, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`+"\n", i, callParams("rows", `{"sleep_ms":5}`))
	}
	s.send(burst.String())
	if err := s.CloseInput(); err != nil {
		t.Fatal(err)
	}
	var order []int
	for _, line := range s.rest() {
		var answer struct{ ID int }
		if err := json.Unmarshal(line, &answer); err != nil {
			t.Fatal(err)
		}
		order = append(order, answer.ID)
	}
	if len(order) != calls || !slices.IsSorted(order) {
		t.Errorf("answered in the order %v", order)
	}
}

// The calls that wait for a slot when the input ends were accepted, so they are answered too.
func TestTheEndOfTheInputDrainsAlsoWhatWaits(t *testing.T) {
	t.Parallel()
	s := open(t, "MCP_MAX_CONCURRENT_TOOLS=2")
	const calls = 20
	for i := range calls {
		s.request(i, "tools/call", callParams("rows", `{"sleep_ms":50}`))
	}
	if err := s.CloseInput(); err != nil {
		t.Fatal(err)
	}
	for i := range calls {
		into[any](t, outcomeOf(t, s.await(i)))
	}
}

// A client that has stopped reading must not keep the daemon alive for ever.
func TestASignalEndsADaemonWhoseAnswersNobodyReads(t *testing.T) {
	t.Parallel()
	for what, line := range map[string]string{
		"conversation": `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n",
		"refusals":     "x\n",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := launch(t, stage.Daemon(t, stage.Options{Tags: wiretest}))
			s.handshake(newest)
			if err := s.Pause(); err != nil {
				t.Fatal(err)
			}
			// Several pipes full of answers; the daemon stops taking what brings more of them.
			err := s.Within(time.Second).Send([]byte(strings.Repeat(line, 800_000/len(line))))
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("the daemon takes everything: %v", err)
			}
			begin := time.Now()
			if err := s.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			e := s.wait()
			if took := time.Since(begin); e.Code != 0 || took < 4*time.Second || took > 15*time.Second { // 5 s of grace
				t.Errorf("exit %d, signal %v, after %v", e.Code, e.Signal, took)
			}
			checkLog(t, s.Stderr(), "")
		})
	}
}

// The client may die between two answers: a write to its closed pipe is an error to handle, not a signal to die of.
func TestAClientThatDiesWhileAnswersComeIsAnOrdinaryEnd(t *testing.T) {
	t.Parallel()
	for range 10 {
		s := launch(t, stage.Daemon(t, stage.Options{Tags: wiretest}))
		s.handshake(newest)
		go func() { _ = s.Send([]byte(strings.Repeat("x\n", 400_000))) }() // fails when the daemon has gone
		for range 100 {
			if _, err := s.Line(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.CloseOutput(); err != nil {
			t.Fatal(err)
		}
		if e := s.wait(); e.Code != 0 {
			t.Errorf("exit %d, signal %v", e.Code, e.Signal)
		}
		checkLog(t, s.Stderr(), "")
	}
}

func TestEveryProtocolVersionIsSpoken(t *testing.T) {
	t.Parallel()
	for asked, given := range map[string]string{
		"2025-11-25": "2025-11-25", "2025-06-18": "2025-06-18", "2025-03-26": "2025-03-26", "2024-11-05": "2024-11-05",
		// Any other version is offered the newest (MCP, version negotiation).
		"2024-10-07": newest, "2026-07-28": newest, "9999-12-31": newest, "banana": newest, "": newest,
	} {
		t.Run(asked, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			want := `{"id":1,"jsonrpc":"2.0","result":{"protocolVersion":"` + given + `","capabilities":{"tools":{}},` +
				`"serverInfo":{"name":"mcp-server-suite","version":"` + stage.Version + `"},"instructions":"<string>"}}`
			s.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + asked +
				`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n")
			line, err := s.Line()
			if err != nil {
				t.Fatal(err)
			}
			if difference := match(want, line); difference != "" {
				t.Errorf("%s\n got  %s\n want %s", difference, line, want)
			}
			into[any](t, s.call("rows", `{}`))
		})
	}
}

// Four instances in one client can only be told apart by what they say of themselves (modelcontextprotocol/servers#1219).
func TestTheOperatorNamesTheServer(t *testing.T) {
	t.Parallel()
	s := start(t, "MCP_SERVER_NAME=sales-db", "MCP_SERVER_TITLE=Vertrieb \u00d6st", "MCP_SERVER_INSTRUCTIONS=Ask first.\nThen read \u201cit\u201d.")
	got := s.handshake(newest)
	want := `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"instructions":"Ask first.\nThen read \u201cit\u201d.",` +
		`"serverInfo":{"name":"sales-db","title":"Vertrieb \u00d6st","version":"` + stage.Version + `"}}`
	if difference := match(want, got); difference != "" {
		t.Errorf("%s\n got  %s\n want %s", difference, got, want)
	}
}

func TestErrorsRepeatTheCallerOnlyWhereTheOperatorWantsIt(t *testing.T) {
	t.Parallel()
	const badPath, badTool = `{"relative_path":"../../etc/passwd"}`, "no_such_tool"
	dir := stage.Dir(t)
	for echo, want := range map[string][2]string{
		"bounded": {`'../../etc/passwd' resolves outside the sandbox`, `Unknown tool: 'no_such_tool'`}, // seed 000's own examples
		"off":     {`the path resolves outside the sandbox`, `Unknown tool`},
	} {
		t.Run(echo, func(t *testing.T) {
			t.Parallel()
			s := open(t, "MCP_SAFE_DATA_DIR="+dir, "MCP_ERROR_ECHO="+echo)
			path := s.call("sandbox_fs_read", badPath)
			path.refused(t, "OUTSIDE_SANDBOX", "relative_path")
			tool := s.call(badTool, `{}`)
			if path.Refusal == nil || tool.Refusal == nil || path.Refusal.Detail != want[0] || tool.Refusal.Detail != want[1] {
				t.Errorf("got %+v and %+v, want %q", path.Refusal, tool.Refusal, want)
			}
			a, err := s.Call("tools/call", callParams(badTool, `{}`))
			if err != nil || a.Error == nil || a.Error.Code != -32602 || a.Error.Message != want[1] {
				t.Errorf("unknown tool: %v, %+v", err, a.Error)
			}
			// Text that would act on a terminal or hide from a reader, and the sanitizer's answer to it.
			s.call("sandbox_fs_read", `{"relative_path":"a\u001b[31m\u202eb"}`).refused(t, "BAD_PARAM", "arguments")
			long := s.call("sandbox_fs_read", `{"relative_path":"`+strings.Repeat("x\\ny", 200)+`"}`)
			long.refused(t, "NOT_FOUND", "relative_path")
			if long.Refusal != nil && (strings.Contains(long.Refusal.Detail, "\n") || len(long.Refusal.Detail) > 400) {
				t.Errorf("%q", long.Refusal.Detail)
			}
		})
	}
}
