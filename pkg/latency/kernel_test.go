package latency

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"mcp-server-suite/pkg/stage"
)

// What this test binary becomes when it is started again: a bare program, or one that uses CPU time.
const (
	burnHere   = "burn-here"
	burnApart  = "burn-in-a-thread-that-ends"
	burnBefore = "burn-in-another-thread-and-begin-anew"
	begunAnew  = "answer-and-burn-here"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "latency":
			os.Exit(Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
		case burnHere, burnApart, burnBefore, begunAnew:
			burnOnDemand(os.Args[1])
			return
		}
	}
	stage.Main(m)
}

const burnt = 60 * time.Millisecond

// burnOnDemand uses that much CPU time for every byte that it reads, and writes the byte back.
func burnOnDemand(how string) {
	if how == begunAnew { // the byte that was read before the exec
		if _, err := os.Stdout.Write([]byte("x")); err != nil {
			return
		}
	}
	burn := func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its goroutine
		for start := ownCPU(); ownCPU()-start < burnt; {
		}
	}
	work := make(chan struct{})
	done := make(chan struct{})
	go func() { // the one thread that burns here
		runtime.LockOSThread()
		for range work {
			for start := ownCPU(); ownCPU()-start < burnt; {
			}
			done <- struct{}{}
		}
	}()
	var b [1]byte
	for {
		if _, err := os.Stdin.Read(b[:]); err != nil {
			return
		}
		switch how {
		case burnHere, begunAnew:
			work <- struct{}{}
			<-done
		case burnBefore:
			work <- struct{}{}
			<-done // and its thread waits for more, as those of stage 1 do: the exec ends it
			runtime.LockOSThread()
			fmt.Fprintln(os.Stderr, syscall.Exec("/proc/self/exe", []string{os.Args[0], begunAnew}, nil))
			return
		default:
			thread := os.Getpid()
			for thread == os.Getpid() { // the first thread of a process stays, locked and idle, until the process ends
				burnt := make(chan int)
				go func() { burn(); burnt <- syscall.Gettid() }()
				thread = <-burnt
			}
			task := fmt.Sprintf("/proc/self/task/%d", thread)
			for _, err := os.Stat(task); err == nil; _, err = os.Stat(task) { // it ends behind its goroutine
				time.Sleep(time.Millisecond)
			}
		}
		if _, err := os.Stdout.Write(b[:]); err != nil {
			return
		}
	}
}

func TestCPUTimeOfThreadsThatHaveEndedIsCounted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		how  string
		gone bool // the threads that are left cannot tell
	}{{burnHere, false}, {burnApart, true}, {burnBefore, true}} {
		t.Run(c.how, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], c.how)
			cmd.Stderr = t.Output()
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = in.Close(); _ = cmd.Wait() }()
			burn := func() {
				b := []byte{'x'}
				if _, err := in.Write(b); err != nil {
					t.Fatal(err)
				}
				if _, err := out.Read(b); err != nil {
					t.Fatal(err)
				}
			}
			if c.how != burnBefore {
				burn() // every thread of the runtime is there
			}
			before, err := readCPU(cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			left := onCPU(t, cmd.Process.Pid)
			burn()
			after, err := readCPU(cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			left = onCPU(t, cmd.Process.Pid) - left
			if used := after - before; used < burnt {
				t.Errorf("%v used; %v were burnt", used, burnt)
			}
			if (left < burnt) != c.gone { // the control: that account would not do
				t.Errorf("the threads that are left used %v of %v", left, burnt)
			}
		})
	}
}

// onCPU is the time on CPU of the threads that a process has now: the first number of schedstat, in nanoseconds.
func onCPU(t *testing.T, pid int) (sum time.Duration) {
	t.Helper()
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // ended since
		}
		var ns int64
		if _, err := fmt.Sscan(string(text), &ns); err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

func TestCPUTimeOfAProcessThatIsGoneIsNoFigure(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], burnHere) // without stdin it ends at once
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if used, err := readCPU(cmd.Process.Pid); err == nil {
		t.Errorf("%v and no error", used)
	}
	if r, err := readStatus(cmd.Process.Pid); err == nil {
		t.Errorf("%+v and no error", r)
	}
}

func TestStatusIsReadInBytesAndThreads(t *testing.T) {
	t.Parallel()
	const sound = "Name:\tVmRSS: 9 kB\nVmHWM:\t   20 kB\nVmRSS:\t   10 kB\nThreads:\t8\nSeccomp:\t2\n"
	if got, err := parseStatus(sound); err != nil || got != (resources{10 << 10, 20 << 10, 8}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, c := range []struct{ name, text, why string }{
		{"empty", "", "nothing is known"},
		{"zombie", "Name:\tx\nThreads:\t1\n", "a process that has ended has no memory"},
		{"no number", "VmHWM:\t20 kB\nVmRSS:\tmany kB\nThreads:\t8\n", "it would count as 0"},
		{"negative", "VmHWM:\t20 kB\nVmRSS:\t10 kB\nThreads:\t-8\n", "it would meet every bound"},
	} {
		if got, err := parseStatus(c.text); err == nil {
			t.Errorf("%s (%s): %+v and no error", c.name, c.why, got)
		}
	}
}
