package daemon

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// A stderr that nobody drains holds up neither the log's writers nor the end.
func TestALogThatNobodyReadsHoldsUpNothing(t *testing.T) {
	unread, stderr := io.Pipe()
	l := newLogWriter(stderr)
	begin := time.Now()
	for range 10 * maxLogBacklog {
		if n, err := l.Write([]byte("line\n")); n != 5 || err != nil {
			t.Fatal(n, err)
		}
	}
	l.flush()
	if took := time.Since(begin); took > 10*lastWords {
		t.Errorf("held up for %v", took)
	}
	_ = unread.Close()
}

func TestALogThatIsReadIsWrittenInOrderAndWhole(t *testing.T) {
	var b strings.Builder
	l := newLogWriter(&b)
	want := ""
	for i := range maxLogBacklog / 2 {
		line := fmt.Sprintln("line", i)
		want += line
		_, _ = l.Write([]byte(line))
	}
	l.flush()
	if got := b.String(); got != want {
		t.Errorf("%d of %d bytes", len(got), len(want))
	}
}
