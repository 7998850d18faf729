package rawclient_test

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcp-server-suite/pkg/rawclient"
)

// start starts a shell script in place of a server.
func start(t *testing.T, script string) *rawclient.Client {
	t.Helper()
	c, err := rawclient.Start(rawclient.Command("/bin/sh", []string{"PATH=/usr/bin:/bin", "GIVEN=1"}, "-c", script))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// echo answers every request with its own id.
const echo = `exec sed -u -E 's/.*"id":([0-9]+).*/{"jsonrpc":"2.0","id":\1,"result":{}}/'`

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestAnswersReachWhoeverAwaitsThem(t *testing.T) {
	t.Parallel()
	c := start(t, echo)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			id := strconv.Itoa(i)
			if err := c.Request(id, "ping", ""); err != nil {
				t.Error(err)
				return
			}
			line, err := c.Await(id)
			if err != nil || !strings.Contains(string(line), `"id":`+id+`,`) {
				t.Errorf("id %s: %q, %v", id, line, err)
			}
		})
	}
	all.Wait()
	if line, err := c.Within(0).Line(); err == nil {
		t.Errorf("one answer too many: %q", line)
	}
}

func TestWhatNobodyAwaitsIsALine(t *testing.T) {
	t.Parallel()
	c := start(t, echo)
	if err := c.Request("1", "ping", ""); err != nil {
		t.Fatal(err)
	}
	c.Forget("1")
	if err := c.Send([]byte(`{"id":2}` + "\n" + `{"id":2}` + "\n")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"1", "2", "2"} {
		line := must[[]byte](t)(c.Line())
		if a := must[rawclient.Answer](t)(rawclient.Decode(line)); string(a.ID) != id {
			t.Errorf("got %q, want id %s", line, id)
		}
	}
	if _, err := c.Await("1"); err == nil {
		t.Error("an id that was given up can be awaited")
	}
}

func TestNothingIsWaitedForLongerThanThePatience(t *testing.T) {
	t.Parallel()
	c := start(t, "exec sleep 60").Within(20 * time.Millisecond)
	_, lineErr := c.Line()
	_, callErr := c.Call("ping", "")
	_, exitErr := c.Wait()
	for what, err := range map[string]error{"line": lineErr, "call": callErr, "exit": exitErr} {
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if e, err := c.Within(10 * time.Second).Wait(); err != nil || e.Code != -1 || e.Signal != syscall.SIGKILL {
		t.Errorf("the program outlives its overrun: %+v, %v", e, err)
	}
}

func TestSendDoesNotWaitForAReaderForEver(t *testing.T) {
	t.Parallel()
	c := start(t, "exec sleep 60").Within(50 * time.Millisecond)
	if err := c.Send(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a full pipe: %v", err)
	}
}

func TestAPausedClientLetsThePipeFill(t *testing.T) {
	t.Parallel()
	c := start(t, `yes line | head -c 1000000; echo; echo all written >&2`)
	if err := c.Pause(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if got := c.Stderr(); got != "" {
		t.Errorf("1 MB fitted into a pipe that nobody reads: %s", got)
	}
	if err := c.Resume(); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for {
		line, err := c.Line()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if string(line) == "line" {
			lines++
		}
	}
	if e := must[rawclient.Exit](t)(c.Wait()); e.Code != 0 || lines != 200_000 {
		t.Errorf("%d lines, exit %d", lines, e.Code)
	}
}

func TestExitCodeSignalAndStderrAreTold(t *testing.T) {
	t.Parallel()
	c := start(t, `echo "given $GIVEN, inherited $HOME" >&2; read x; exit 7`)
	if err := c.CloseInput(); err != nil {
		t.Fatal(err)
	}
	if e := must[rawclient.Exit](t)(c.Wait()); e.Code != 7 || e.Signal != 0 {
		t.Errorf("%+v", e)
	}
	if got, want := c.Stderr(), "given 1, inherited \n"; got != want {
		t.Errorf("stderr %q, want %q", got, want)
	}
	c = start(t, "exec sleep 60")
	if err := c.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if e := must[rawclient.Exit](t)(c.Wait()); e.Code != -1 || e.Signal != syscall.SIGTERM {
		t.Errorf("%+v", e)
	}
}

func TestStderrIsBounded(t *testing.T) {
	t.Parallel()
	c := start(t, `echo first >&2; yes | head -c 5000000 >&2`)
	must[rawclient.Exit](t)(c.Wait())
	if got := c.Stderr(); len(got) != 256<<10 || !strings.HasPrefix(got, "first\n") {
		t.Errorf("%d bytes kept, beginning %.10q", len(got), got)
	}
}

func TestAnUnfinishedLineIsReported(t *testing.T) {
	t.Parallel()
	c := start(t, `echo whole; printf cut`)
	if line := must[[]byte](t)(c.Line()); string(line) != "whole" {
		t.Errorf("%q", line)
	}
	if line, err := c.Line(); err != rawclient.ErrTail {
		t.Errorf("%q, %v", line, err)
	}
}

func TestAClosedOutputIsNoticedByTheProgram(t *testing.T) {
	t.Parallel()
	c := start(t, "exec yes")
	must[[]byte](t)(c.Line())
	if err := c.CloseOutput(); err != nil {
		t.Fatal(err)
	}
	if e := must[rawclient.Exit](t)(c.Wait()); e.Signal != syscall.SIGPIPE && e.Code == 0 {
		t.Errorf("%+v", e)
	}
}

func TestRootStartsProgramsAsNobodySpecial(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root can become another user")
	}
	c := start(t, `echo "$(id -u) $(id -g) $(id -G)"`)
	if line := must[[]byte](t)(c.Line()); string(line) != "10001 10001 10001" {
		t.Errorf("uid, gid, groups: %s", line)
	}
}

func TestFiguresAreThoseOfTheProgram(t *testing.T) {
	t.Parallel()
	c := start(t, "echo ready; read x")
	must[[]byte](t)(c.Line())
	f := must[rawclient.Figures](t)(c.Figures())
	if f.Threads != 1 || f.Descriptors < 3 || f.PeakRSSBytes < f.RSSBytes || f.RSSBytes < 100<<10 || f.PeakRSSBytes > 64<<20 {
		t.Errorf("of a shell: %+v", f)
	}
	if err := c.CloseInput(); err != nil {
		t.Fatal(err)
	}
	must[rawclient.Exit](t)(c.Wait())
	if f, err := c.Figures(); err == nil {
		t.Errorf("figures of a program that has ended: %+v", f)
	}
}

func TestDecodeRefusesWhatIsNoAnswer(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`,
		`{"jsonrpc":"2.0","id":"\u00e9","error":{"code":-32602,"message":"x","data":{"a":1}}}`,
	} {
		if _, err := rawclient.Decode([]byte(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		``, `x`, `[]`, `null`,
		`{"id":1,"result":{}}`,
		`{"jsonrpc":2.0,"id":1,"result":{}}`,
		`{"jsonrpc":"2.0","result":{}}`,
		`{"jsonrpc":"2.0","id":1}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{},"more":1}`,
		`{"jsonrpc":"2.0","id":1,"error":null}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":0,"message":"x"}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"x"}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x","more":1}}`,
		`{"jsonrpc":"2.0","id":"é","result":{}}`,
		"{\"jsonrpc\":\"2.0\",\t\"id\":1,\"result\":{}}",
	} {
		if a, err := rawclient.Decode([]byte(bad)); err == nil {
			t.Errorf("%s is taken for %+v", bad, a)
		}
	}
}
