package mcpserve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-server-suite/pkg/admission"
	"mcp-server-suite/pkg/envelope"
	"mcp-server-suite/pkg/framing"
	"mcp-server-suite/pkg/pipeline"
	"mcp-server-suite/pkg/session"
	"mcp-server-suite/pkg/surface"
)

// afterCancel is how long cancelled calls and the last answers are waited for together, and, after calls that have ended
// by themselves, the least time for their answers to be written.
const afterCancel = time.Second

// Settings are the parts of a server. All are required.
type Settings struct {
	Surface  *surface.Surface
	Pipeline *pipeline.Pipeline
	Gate     *admission.Gate // of all sessions together
	Grace    time.Duration   // for calls in flight when a session ends (seed 000: 5 s)
	Log      *slog.Logger
}

// Server serves sessions with one surface and one pipeline.
type Server struct {
	Settings
	sdk          *mcp.Server
	hasResources bool
}

// New checks the settings.
func New(s Settings) (*Server, error) {
	if s.Surface == nil || s.Pipeline == nil || s.Gate == nil || s.Log == nil || s.Grace <= 0 {
		return nil, errors.New("mcpserve: a part is missing")
	}
	return &Server{Settings: s, sdk: newSDK(s.Surface), hasResources: len(s.Surface.Resources()) > 0}, nil
}

// Control tells a session from outside how to end. Each channel is closed at most once and may be nil.
type Control struct {
	Drain  <-chan struct{} // take nothing more, let the calls in flight finish within the grace time
	Abort  <-chan struct{} // cancel the calls in flight
	Hangup <-chan struct{} // nobody reads the output any more
}

// Serve runs one session until in ends, the output fails, or control says so, and then lets the calls in flight finish:
// for the grace time, or until Abort. It returns nil after an orderly end, framing.ErrStuck or the error of the output
// if answers were lost. A Read of in may still be blocked when Serve returns; nothing that it gives is used.
func (s *Server) Serve(in io.Reader, out io.Writer, control Control) error {
	base, cancel := context.WithCancelCause(context.Background())
	defer cancel(pipeline.ErrShutdown)
	c := &conn{
		Server: s, base: base, session: session.New(), out: framing.NewWriter(out),
		toSDK: make(chan sdkMessage), closed: make(chan struct{}), ended: make(chan struct{}),
	}
	var sdk sync.WaitGroup
	sdk.Go(func() {
		// The SDK's session ends when Read says so, after the drain. Its error is that of our own Read.
		_ = s.sdk.Run(context.Background(), c)
	})
	go c.receive(in)

	select {
	case <-c.ended:
	case <-control.Drain:
	case <-control.Hangup:
	case <-c.out.Failed():
	}
	start := time.Now()
	idle := c.stop()
	grace := time.NewTimer(s.Grace)
	defer grace.Stop()
	orderly := false
	select {
	case <-idle:
		orderly = true
	case <-grace.C:
	case <-control.Abort:
	case <-control.Hangup:
	case <-c.out.Failed():
	}
	last := start.Add(s.Grace)
	if !orderly {
		s.Log.Warn("the session ends with calls in flight; they are cancelled and get no answer")
		last = time.Now().Add(afterCancel)
		cancel(pipeline.ErrShutdown)
		c.session.CancelAll()
		select {
		case <-idle:
		case <-time.After(afterCancel):
		}
	} else if soon := time.Now().Add(afterCancel); last.Before(soon) {
		last = soon
	}
	err := c.out.Close(time.Until(last))
	close(c.closed)
	sdk.Wait()
	return err
}

// conn is one session: the reading side, and the connection that the SDK is given.
type conn struct {
	*Server
	base    context.Context
	session *session.Session
	out     *framing.Writer
	parser  envelope.Parser // of the reading goroutine

	toSDK   chan sdkMessage
	pending pending       // the message of the conversation that is being answered
	closed  chan struct{} // the session is over
	ended   chan struct{} // the input is over

	mu       sync.Mutex
	stopping bool
	calls    sync.WaitGroup
}

// begin counts a call in flight, unless the session is stopping.
func (c *conn) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopping {
		c.calls.Add(1)
	}
	return !c.stopping
}

// stop makes the session take nothing more. The channel closes when no call is in flight.
func (c *conn) stop() <-chan struct{} {
	c.session.Close()
	c.mu.Lock()
	c.stopping = true
	c.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		c.calls.Wait()
		close(idle)
	}()
	return idle
}
