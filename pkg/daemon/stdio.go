package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/mcpserve"
)

// terminalNotice is the one line for a person who starts the daemon by hand (docker run -it above all, whose terminal
// would rewrite the stream).
const terminalNotice = "mcp-server-suite: stdin is a terminal; this program is started by an MCP client and speaks " +
	"JSON-RPC, one message a line (with docker run: keep -i, leave out -t). Ctrl-D ends it, --help explains it.\n"

// WarnOfTerminal writes to stderr when stdin is a terminal.
func WarnOfTerminal(in io.Reader, stderr io.Writer) {
	if f, ok := in.(*os.File); ok && isTerminal(f) {
		_, _ = io.WriteString(stderr, terminalNotice) // nobody to tell if stderr is gone
	}
}

// CheckStreams refuses files that no session can be held with, which a read would only take for the end of the input.
func CheckStreams(in io.Reader, out io.Writer) error {
	for _, s := range []struct {
		name, verb string
		stream     any
		not        int // an access mode
	}{{"standard input", "read", in, unix.O_WRONLY}, {"standard output", "written", out, unix.O_RDONLY}} {
		f, ok := s.stream.(*os.File)
		if !ok {
			continue
		}
		var stat unix.Stat_t
		err := unix.Fstat(int(f.Fd()), &stat)
		flags, err2 := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
		if err := errors.Join(err, err2); err != nil {
			return fmt.Errorf("%s cannot be used: %w", s.name, err)
		}
		if stat.Mode&unix.S_IFMT == unix.S_IFDIR || flags&unix.O_PATH != 0 || flags&unix.O_ACCMODE == s.not {
			return fmt.Errorf("%s cannot be %s; connect it as an MCP client does, to a pipe", s.name, s.verb)
		}
	}
	return nil
}

// ServeStdio serves one session on in and out and returns when it has ended: by the end of in, by SIGTERM or SIGINT (a
// second one cancels the calls that are still running), or because nobody reads out any more. Answers that could not be
// delivered are logged and are no error: the client has gone.
func (d *Daemon) ServeStdio(in io.Reader, out io.Writer) {
	drain, abort, hangup := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		<-d.signals
		close(drain)
		<-d.signals
		close(abort)
	}()
	if f, ok := out.(*os.File); ok {
		go func() {
			if waitForHangup(f) {
				close(hangup)
			}
		}()
	}
	d.log.Info("session begins", "tools", d.offered)
	err := d.server.Serve(in, out, mcpserve.Control{Drain: drain, Abort: abort, Hangup: hangup})
	if err != nil {
		d.log.Warn("answers were dropped: the client has gone, or did not take them in time", "error", err)
	}
	d.leaveDatabase()
	d.log.Info("session has ended")
	d.lines.flush()
}

// lastCancel is how long the end of a session waits for cancelled queries to end on the server: 1 to 165 ms were measured, and
// more than a second once, on two cores with a load of 10.
const lastCancel = 2 * time.Second

// leaveDatabase waits until the queries that the end of the session has cancelled are told so on the server, and closes the
// connections. Without it the process could be gone before the request is sent, and the query would run on for nobody.
func (d *Daemon) leaveDatabase() {
	if d.db == nil {
		return
	}
	left := make(chan struct{})
	go func() {
		_ = d.db.Close() // it has no error to give
		close(left)
	}()
	select {
	case <-left:
	case <-time.After(lastCancel):
		d.log.Warn("a query may still run on the database server")
	}
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// waitForHangup returns true when the reading end of a pipe or socket is gone. Without it a closed stdout would be
// noticed only by the next write, and a long query would run for nobody. It returns false where that cannot be told.
func waitForHangup(f *os.File) bool {
	wait := []unix.PollFd{{Fd: int32(f.Fd())}} // POLLERR and POLLHUP are always reported, poll(2)
	for {
		_, err := unix.Poll(wait, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && wait[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	}
}
