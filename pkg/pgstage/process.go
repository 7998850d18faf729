package pgstage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"mcp-server-suite/pkg/stage"
)

// afterKill is how long the end of a killed process is waited for.
const afterKill = 10 * time.Second

// onStarter runs f on the one thread that starts programs. The parent whose death PR_SET_PDEATHSIG reports is a thread,
// not a process (prctl(2)), and Go ends threads when it likes; this one is held as long as the process lives.
func onStarter(f func() error) error {
	done := make(chan error)
	starter() <- func() { done <- f() }
	return <-done
}

var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// account is a user and its group; the zero account is the current one.
type account struct{ uid, gid int }

// servant is the account of servers and bouncers.
func servant() account {
	if os.Geteuid() == 0 {
		return account{stage.UserID, stage.UserID}
	}
	return account{}
}

// command prepares a program with nothing in its environment but what is given, which gets the signal when this process
// ends.
func (a account) command(signal syscall.Signal, environ []string, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/", "LC_ALL=C", "TZ=UTC"}, environ...)
	// A process group of its own: the interrupt of a terminal is for the tests, which then end their servers.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: signal, Setpgid: true}
	if a != (account{}) {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return cmd
}

// run runs a program to its end. The error holds its output.
func (a account) run(environ []string, program string, args ...string) error {
	var out bytes.Buffer
	cmd := a.command(syscall.SIGKILL, environ, program, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := onStarter(cmd.Start); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("run %s: %w\n%s", program, err, &out)
	}
	return nil
}

// own hands a file over to the account.
func (a account) own(path string) error {
	if a == (account{}) {
		return nil
	}
	return os.Lchown(path, a.uid, a.gid)
}

// mkdir makes a folder of the account.
func (a account) mkdir(path string, mode os.FileMode) error {
	if err := os.Mkdir(path, mode); err != nil {
		return err
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask says
		return err
	}
	return a.own(path)
}

// write writes a file of the account.
func (a account) write(path, content string, mode os.FileMode) error {
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		return err
	}
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	return a.own(path)
}

// process is a program that runs until it is told to end.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended
	err    error         // how it has ended; set before exited is closed
}

// launch starts a program that writes to the end of the log file.
func launch(cmd *exec.Cmd, logPath string) (*process, error) {
	file, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	cmd.Stdout, cmd.Stderr = file, file
	err = onStarter(cmd.Start)
	_ = file.Close() // the program has its own by now
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// alive says whether the process has not ended yet.
func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// end sends the signal and waits; it kills what has not ended after the patience, and says so. A process that has ended
// already is no error.
func (p *process) end(signal syscall.Signal, patience time.Duration) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.cmd.Path, err)
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(patience):
	}
	_ = p.cmd.Process.Kill() // it may just have ended
	select {
	case <-p.exited:
		return fmt.Errorf("%s was killed: it had not ended %v after %v", p.cmd.Path, patience, signal)
	case <-time.After(afterKill):
		return fmt.Errorf("%s has not ended %v after SIGKILL", p.cmd.Path, afterKill)
	}
}

// tail returns the end of a log from this offset on, at most 8 KiB.
func tail(path string, from int64) string {
	const most = 8 << 10
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }() // read only
	if _, err := file.Seek(max(from, size(path)-most), io.SeekStart); err != nil {
		return err.Error()
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	return strings.ToValidUTF8(string(text), "?")
}

// size is how long a file is; a file that is not there is empty.
func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
