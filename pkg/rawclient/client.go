package rawclient

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// Patience is how long a client waits for anything when it has not been told otherwise: far longer than any answer
	// takes, so that only what hangs meets it.
	Patience = 20 * time.Second

	// UnprivilegedID is the user and the group that [Command] becomes when it is called by root: those of the image
	// (seed 000, container deployment).
	UnprivilegedID = 10001

	maxLineBytes   = 64 << 20 // of one line of output; the largest answer of the daemon is far below
	maxUnread      = 4096     // lines that nobody has asked for; when so many are kept, reading stops
	maxStderrBytes = 256 << 10

	// afterKill is how long the exit of a killed program is waited for.
	afterKill = 5 * time.Second
)

// Client is a program that has been started, with its three streams. Its methods may be called from any goroutine; those
// that wait do so for the client's patience and return an error that wraps os.ErrDeadlineExceeded when it is over.
type Client struct {
	*process
	patience time.Duration
}

// process is what all views (Within) of one program share.
type process struct {
	cmd    *exec.Cmd
	in     *os.File // our end of its stdin
	out    *os.File // our end of its stdout
	stderr capture

	sending sync.Mutex // one message is written at a time
	lastID  atomic.Int64

	mu      sync.Mutex
	awaited map[string]chan []byte // by raw id
	paused  chan struct{}          // closed by Resume; nil while reading

	lines   chan []byte // answers that nobody awaits
	ended   chan struct{}
	endErr  error // why the output has ended; set before ended is closed
	exited  chan struct{}
	closing chan struct{}
	close   sync.Once
}

// Command prepares a program that gets these arguments and exactly this environment, and the folder / to work in. Called
// by root it becomes uid and gid [UnprivilegedID] without any supplementary group; otherwise it stays the current user.
func Command(path string, environ []string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Dir = environ, "/"
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would inherit ours
	}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: UnprivilegedID, Gid: UnprivilegedID},
		}
	}
	return cmd
}

// Start starts the command with pipes for stdin and stdout, and a bounded memory for stderr unless the command has a
// writer for it. The caller must call Close. On error nothing is left over.
func Start(cmd *exec.Cmd) (*Client, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the pipe to the program: %w", err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		_, _ = theirIn.Close(), in.Close() // the first error says more
		return nil, fmt.Errorf("make the pipe from the program: %w", err)
	}
	p := &process{
		cmd: cmd, in: in, out: out,
		awaited: make(map[string]chan []byte), lines: make(chan []byte, maxUnread),
		ended: make(chan struct{}), exited: make(chan struct{}), closing: make(chan struct{}),
	}
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	if cmd.Stderr == nil {
		cmd.Stderr = &p.stderr
	}
	cmd.WaitDelay = afterKill
	err = cmd.Start()
	_, _ = theirIn.Close(), theirOut.Close() // the program has its own copies by now
	if err != nil {
		_, _ = in.Close(), out.Close()
		return nil, fmt.Errorf("start the program: %w", err)
	}
	go p.read()
	go func() {
		defer close(p.exited)
		_ = cmd.Wait() // Wait reads the outcome from ProcessState
	}()
	return &Client{p, Patience}, nil
}

// Within is the same client with another patience.
func (c *Client) Within(patience time.Duration) *Client { return &Client{c.process, patience} }

// Close kills the program if it still runs, waits for its end and closes the pipes. It may be called more than once.
func (c *Client) Close() {
	c.Kill()
	select {
	case <-c.exited:
	case <-time.After(afterKill):
	}
	c.close.Do(func() { close(c.closing) })
	_, _ = c.in.Close(), c.out.Close() // nothing can be lost: the program has ended
}

// CloseInput ends the program's stdin.
func (c *Client) CloseInput() error {
	c.sending.Lock()
	defer c.sending.Unlock()
	return c.in.Close()
}

// CloseOutput closes the reading end of the program's stdout, as a client that has died does.
func (c *Client) CloseOutput() error {
	return errors.Join(c.Resume(), c.out.Close())
}

// Signal sends a signal to the program.
func (c *Client) Signal(s syscall.Signal) error { return c.cmd.Process.Signal(s) }

// Kill ends the program at once. It is no error if it has ended already.
func (c *Client) Kill() { _ = c.cmd.Process.Kill() }

// PID is the program's process id.
func (c *Client) PID() int { return c.cmd.Process.Pid }

// Stderr is what the program has written to stderr so far, the first 256 KiB of it.
func (c *Client) Stderr() string { return c.stderr.String() }

// Exit is how a program has ended.
type Exit struct {
	Code   int            // exit code; -1 if a signal ended it
	Signal syscall.Signal // what ended it, or 0
	CPU    time.Duration  // user and system time
	// Usage is the kernel's whole account. Its Maxrss starts at the size of whoever started the program (exec_mmap in
	// the kernel takes over the old figure): for memory see Figures.
	Usage syscall.Rusage
}

// Wait waits until the program has ended. If it does not, it is killed, and the error says so.
func (c *Client) Wait() (Exit, error) {
	select {
	case <-c.exited:
	case <-time.After(c.patience):
		c.Kill()
		return Exit{}, fmt.Errorf("the program is killed, it did not end within %v: %w", c.patience, os.ErrDeadlineExceeded)
	}
	state := c.cmd.ProcessState
	usage, ok := state.SysUsage().(*syscall.Rusage)
	status, okay := state.Sys().(syscall.WaitStatus)
	if !ok || !okay {
		return Exit{}, errors.New("the system does not say how the program ended")
	}
	e := Exit{Code: state.ExitCode(), CPU: state.UserTime() + state.SystemTime(), Usage: *usage}
	if status.Signaled() {
		e.Signal = status.Signal()
	}
	return e, nil
}

// capture keeps the beginning of what is written to it.
type capture struct {
	mu   sync.Mutex
	kept []byte
}

func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(c.kept, p[:min(len(p), maxStderrBytes-len(c.kept))]...)
	return len(p), nil
}

func (c *capture) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.kept)
}

var _ io.Writer = (*capture)(nil)
