package latency

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"mcp-server-suite/pkg/stage"
)

// What this test binary becomes when it is started again: a bare program, or one that uses CPU time.
const (
	burnHere  = "burn-here"
	burnApart = "burn-in-a-thread-that-ends"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "latency":
			os.Exit(Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
		case burnHere, burnApart:
			burnOnDemand(os.Args[1])
			return
		}
	}
	stage.Main(m)
}

const burnt = 60 * time.Millisecond

// burnOnDemand uses that much CPU time for every byte that it reads, and writes the byte back.
func burnOnDemand(how string) {
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
		if how == burnHere {
			work <- struct{}{}
			<-done
		} else {
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
		how   string
		exact bool
	}{{burnHere, true}, {burnApart, false}} {
		t.Run(c.how, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], c.how)
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
			burn() // every thread of the runtime is there
			before, err := readCPU(cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			burn()
			after, err := readCPU(cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			used, exact := after.since(before)
			if exact != c.exact || used < burnt-tick {
				t.Errorf("%v used, exact %t; %v were burnt", used, exact, burnt)
			}
		})
	}
}

func TestSchedstatIsReadAsTimeOnCPU(t *testing.T) {
	t.Parallel()
	if got, err := parseSchedstat([]byte("1234567 89 10\n")); err != nil || got != 1_234_567 {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "x 1 2", "-1 0 0", "99999999999999999999 0 0"} {
		if got, err := parseSchedstat([]byte(text)); err == nil {
			t.Errorf("%q: %v and no error", text, got)
		}
	}
}

func TestStatIsReadBehindAnyName(t *testing.T) {
	t.Parallel()
	const fields = " S 1 2 3 4 5 6 7 8 9 10 70 30 0 0 20 0 5 0 100 1000"
	for _, name := range []string{"(daemon)", "(a b)", "(a) R 9 (b)", "()"} {
		if got, err := parseStat([]byte("42 " + name + fields)); err != nil || got != time.Second {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, text := range []string{"", "42 daemon S 1", "42 (daemon) S 1 2", "42 (d) S 1 2 3 4 5 6 7 8 9 10 x 30 0", "42 (d) S 1 2 3 4 5 6 7 8 9 10 1 -3 0"} {
		if got, err := parseStat([]byte(text)); err == nil {
			t.Errorf("%q: %v and no error", text, got)
		}
	}
}

func TestTheProcessAccountDecidesWhereThreadsAreMissing(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	cases := []struct {
		name          string
		before, after cpuReading
		used          time.Duration
		exact         bool
	}{
		{"agreeing", cpuReading{100 * ms, 100 * ms}, cpuReading{150 * ms, 150 * ms}, 50 * ms, true},
		{"rounded down before", cpuReading{99 * ms, 90 * ms}, cpuReading{141 * ms, 140 * ms}, 42 * ms, true},
		{"rounded down after", cpuReading{100 * ms, 100 * ms}, cpuReading{109 * ms, 100 * ms}, 9 * ms, true},
		{"a thread ended", cpuReading{100 * ms, 100 * ms}, cpuReading{60 * ms, 160 * ms}, 60 * ms, false},
		{"a thread began and ended", cpuReading{100 * ms, 100 * ms}, cpuReading{101 * ms, 140 * ms}, 40 * ms, false},
		{"a start", cpuReading{}, cpuReading{4 * ms, 0}, 4 * ms, true},
	}
	for _, c := range cases {
		if used, exact := c.after.since(c.before); used != c.used || exact != c.exact {
			t.Errorf("%s: %v, %t; want %v, %t", c.name, used, exact, c.used, c.exact)
		}
	}
}
