package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"time"

	"mcp-server-suite/pkg/config"
	"mcp-server-suite/pkg/lockdown"
)

const (
	// maxLogBacklog is how many log lines wait for a stderr that is not being read. One more is dropped: a log that
	// nobody drains must not hold up answers, or the end of the process.
	maxLogBacklog = 256

	// lastWords is how long the beginning of a session and the end of the process wait for the log.
	lastWords = 100 * time.Millisecond
)

// logWriter writes lines in the background, as long as somebody takes them.
type logWriter struct{ lines chan logLine }

// logLine is a line, or a request to say when everything before it is written.
type logLine struct {
	text    []byte
	written chan struct{}
}

func newLogWriter(w io.Writer) *logWriter {
	l := &logWriter{lines: make(chan logLine, maxLogBacklog)}
	go func() {
		for line := range l.lines {
			if line.written != nil {
				close(line.written)
				continue
			}
			_, _ = w.Write(line.text) // there is nobody else to tell
		}
	}()
	return l
}

// Write takes one line, or drops it. It never fails.
func (l *logWriter) Write(p []byte) (int, error) {
	select {
	case l.lines <- logLine{text: bytes.Clone(p)}:
	default:
	}
	return len(p), nil
}

// flush waits until everything is written, for lastWords at most.
func (l *logWriter) flush() {
	patience := time.NewTimer(lastWords)
	defer patience.Stop()
	written := make(chan struct{})
	select {
	case l.lines <- logLine{written: written}:
	case <-patience.C:
		return
	}
	select {
	case <-written:
	case <-patience.C:
	}
}

// Log writes the posture, whatever the level of the log: what is in force must be on record for each start. It is a
// warning where it is not the whole.
func (d *Daemon) Log(p lockdown.Posture) {
	level := slog.LevelInfo
	if p.Level != lockdown.Full {
		level = slog.LevelWarn
	}
	newLog(slog.LevelDebug, d.lines).Log(context.Background(), level, "posture", "posture", json.RawMessage(p.JSON()))
	d.lines.flush() // it is written before the first byte is read, as long as somebody takes it
}

// newLog writes JSON lines, with the time in UTC: after the lock-down there is no file of time zones to read. Python's
// level CRITICAL shows as such.
func newLog(level slog.Level, w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch {
			case a.Key == slog.TimeKey:
				a.Value = slog.TimeValue(a.Value.Time().UTC())
			case a.Key == slog.LevelKey && a.Value.Any() == config.LevelCritical:
				a.Value = slog.StringValue("CRITICAL")
			}
			return a
		},
	}))
}
