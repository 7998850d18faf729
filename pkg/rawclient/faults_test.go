package rawclient_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-server-suite/pkg/rawclient"
)

func TestWhatCannotBeStartedLeavesNothingOver(t *testing.T) { // not parallel: it counts descriptors
	before := must[[]os.DirEntry](t)(os.ReadDir("/proc/self/fd"))
	for range 8 {
		c, err := rawclient.Start(rawclient.Command("/no/such/program", nil))
		if c != nil || !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%v, %v", c, err)
		}
	}
	after := must[[]os.DirEntry](t)(os.ReadDir("/proc/self/fd"))
	if len(after) >= len(before)+8 {
		t.Errorf("%d descriptors, before %d", len(after), len(before))
	}
}

func TestTheSecondRequestWithAnIdIsRefused(t *testing.T) {
	t.Parallel()
	c := start(t, "cat >/dev/null")
	if err := c.Request("7", "ping", ""); err != nil {
		t.Fatal(err)
	}
	if err := c.Request("7", "ping", ""); err == nil || !strings.Contains(err.Error(), "awaited already") {
		t.Error(err)
	}
	c.Forget("7")
	if err := c.Request("7", "ping", ""); err != nil { // the control
		t.Error(err)
	}
	if _, err := c.Await("8"); err == nil || !strings.Contains(err.Error(), "under way") {
		t.Error(err)
	}
}

// The answer has come, and the program has ended, before anybody asks for either.
func TestAnAnswerOutlivesItsProgram(t *testing.T) {
	t.Parallel()
	for range 16 {
		c := start(t, `read -r line; printf '{"jsonrpc":"2.0","id":7,"result":{}}\n{"jsonrpc":"2.0","id":9,"result":{}}\n'`)
		if err := c.Request("7", "ping", ""); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Wait(); err != nil {
			t.Fatal(err)
		}
		if line, err := c.Await("7"); err != nil || !strings.Contains(string(line), `"id":7`) {
			t.Fatalf("%s, %v", line, err)
		}
		if line, err := c.Line(); err != nil || !strings.Contains(string(line), `"id":9`) {
			t.Fatalf("%s, %v", line, err)
		}
	}
}

func TestTheSecondAnswerToARequestIsALine(t *testing.T) {
	t.Parallel()
	const answer = `printf '{"jsonrpc":"2.0","id":7,"result":{"n":%d}}\n' `
	c := start(t, "read -r line; "+answer+"1; "+answer+"2; cat")
	if err := c.Request("7", "ping", ""); err != nil {
		t.Fatal(err)
	}
	if line, err := c.Line(); err != nil || !strings.Contains(string(line), `"n":2`) { // the first one is kept for Await
		t.Fatalf("%s, %v", line, err)
	}
	if line, err := c.Await("7"); err != nil || !strings.Contains(string(line), `"n":1`) {
		t.Fatalf("%s, %v", line, err)
	}
}

// A program that has ended, whose parent has not yet taken note of it, has no memory to tell of.
func TestThereAreNoFiguresOfAProgramThatHasEnded(t *testing.T) {
	t.Parallel()
	c := start(t, "exit 0")
	must[rawclient.Exit](t)(c.Wait())
	if f, err := c.Figures(); err == nil {
		t.Errorf("%+v", f)
	}
}

func TestAClientThatIsClosedWhilePausedEnds(t *testing.T) {
	t.Parallel()
	c := start(t, "while :; do echo '{}'; done")
	if err := c.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := c.Pause(); err != nil { // it is paused already
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Close()
	}()
	select {
	case <-done:
	case <-time.After(rawclient.Patience):
		t.Fatal("it hangs")
	}
}

func TestReachableCopiesProgramsAndNothingElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target := filepath.Join(dir, "copy")
	path, err := rawclient.Reachable(filepath.Join(dir, "absent"), target)
	if path != "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s, %v", path, err)
	}
	path, err = rawclient.Reachable(dir, target)
	if path != "" || err == nil || !strings.Contains(err.Error(), "is no program") {
		t.Errorf("%s, %v", path, err)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: others are not given a copy")
	}
	if path, err := rawclient.Reachable("/bin/sh", target); path != target || err != nil {
		t.Fatalf("%s, %v", path, err)
	}
	if path, err := rawclient.Reachable("/bin/sh", target); path != "" || !errors.Is(err, fs.ErrExist) {
		t.Errorf("the copy of somebody else is overwritten: %s, %v", path, err)
	}
}
