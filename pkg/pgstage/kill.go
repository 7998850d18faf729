package pgstage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// orphanPatience is how long the processes of a killed postmaster may take to notice (they wait on a pipe of its; one
// that computes looks only now and then).
const orphanPatience = 5 * time.Second

// orphan is a process that a killed postmaster has left, as a descriptor: its number may be somebody else's by the time
// it is to be ended.
type orphan struct{ fd int }

// Kill kills the postmaster with SIGKILL, as the kernel does when memory is short. Its processes are not killed: they
// end by themselves when they notice, in the middle of a query or not.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	pid := s.process.cmd.Process.Pid
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatalf("list the processes of the server: %v", err)
	}
	for word := range strings.FieldsSeq(string(list)) {
		child, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		if fd, err := unix.PidfdOpen(child, 0); err == nil { // one that has just ended is none
			s.orphans = append(s.orphans, orphan{fd})
		}
	}
	if err := s.process.end(unix.SIGKILL, afterKill); err != nil {
		t.Fatal(err)
	}
}

// endOrphans waits for what Kill has left, and kills what does not end.
func (s *Server) endOrphans() error {
	var errs []error
	for _, o := range s.orphans {
		if !o.gone(orphanPatience) {
			_ = unix.PidfdSendSignal(o.fd, unix.SIGKILL, nil, 0) // it may just have ended
			if !o.gone(afterKill) {
				errs = append(errs, errors.New("a process of a killed server does not end"))
			}
		}
		_ = unix.Close(o.fd) // nothing was written
	}
	s.orphans = nil
	return errors.Join(errs...)
}

// gone waits until the process has ended: its descriptor is readable then (pidfd_open(2)).
func (o orphan) gone(patience time.Duration) bool {
	poll := []unix.PollFd{{Fd: int32(o.fd), Events: unix.POLLIN}}
	for deadline := time.Now().Add(patience); ; {
		n, err := unix.Poll(poll, int(max(time.Until(deadline), 0).Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n == 1
		}
	}
}

// removeSegment removes the System V segment (56 bytes) by which PostgreSQL knows that a cluster is in use. A
// postmaster that is killed leaves it; the next one on the same cluster would have removed it. Its number is in
// postmaster.pid (line 7, pidfile.h).
func (s *Server) removeSegment() {
	text, err := os.ReadFile(filepath.Join(s.DataDir, "postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	if err != nil || len(lines) < 7 {
		return // it has none
	}
	if f := strings.Fields(lines[6]); len(f) == 2 {
		if id, err := strconv.Atoi(f[1]); err == nil {
			_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) // 56 bytes are not worth a test
		}
	}
}
