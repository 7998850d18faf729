package latency

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// readCPU gives the CPU time that a process has used since it began, in nanoseconds, user and system, by the kernel's
// CPU-time clock of that process (clock_getcpuclockid(3)). Everybody may read it, also of a process that is not dumpable.
//
// It counts threads that have ended, and it goes on through execve(2), which ends all threads but one: a start of the
// daemon is a program that starts itself again. The sum of /proc/PID/task/*/schedstat is as fine and lacks all of them
// (measured: 10.4 ms of a start that used 14.4); /proc/PID/stat has them in ticks of 10 ms, user and system each rounded
// down. A thread that is running now is up to one scheduler tick behind, so readCPU waits until nothing changes between
// two readings settle apart, at most for settleTries of them.
func readCPU(pid int) (time.Duration, error) {
	last, err := cpuNow(pid)
	for try := 0; err == nil && try < settleTries; try++ {
		time.Sleep(settle)
		var now time.Duration
		if now, err = cpuNow(pid); now == last {
			break
		}
		last = now
	}
	return last, err
}

const (
	settle      = 5 * time.Millisecond // a tick is 4 ms at 250 Hz
	settleTries = 10
)

func cpuNow(pid int) (time.Duration, error) {
	const kind = 2 // CPUCLOCK_SCHED of a process (include/linux/posix-timers_types.h)
	var t unix.Timespec
	clock := ^int32(pid)<<3 | kind // #nosec G115 -- a process id is at most 2^22 (proc_sys_kernel(5))
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("read the process's CPU clock: %w", err)
	}
	return time.Duration(t.Nano()), nil
}

// resources are what a process holds at one time.
type resources struct {
	rssBytes, peakBytes int // VmRSS and VmHWM
	threads             int
}

// readStatus reads /proc/PID/status (proc(5)). It is readable for everybody; other files of a process that is not
// dumpable, /proc/PID/fd among them, are only for root, so rawclient's Figures will not do here.
func readStatus(pid int) (resources, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return resources{}, fmt.Errorf("read the process's status: %w", err)
	}
	return parseStatus(string(text))
}

func parseStatus(text string) (r resources, err error) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		unit := 1 << 10 // written as kB
		var to *int
		switch name {
		case "VmRSS":
			to = &r.rssBytes
		case "VmHWM":
			to = &r.peakBytes
		case "Threads":
			to, unit = &r.threads, 1
		default:
			continue
		}
		number, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 {
			return resources{}, fmt.Errorf("read status: %s is no number", name)
		}
		*to = n * unit
	}
	if r.rssBytes == 0 || r.peakBytes == 0 || r.threads == 0 {
		return resources{}, errors.New("read status: it lacks VmRSS, VmHWM or Threads: the process has ended")
	}
	return r, nil
}

// ownCPU is the CPU time of the calling thread; the measuring goroutine is locked to its thread.
func ownCPU() time.Duration {
	const rusageThread = 1 // RUSAGE_THREAD, getrusage(2)
	var u syscall.Rusage
	if syscall.Getrusage(rusageThread, &u) != nil {
		return 0 // cannot happen with these arguments; the figure is only for orientation
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// loadAverage is the first number of /proc/loadavg, 0 if it cannot be read: it only helps to judge the figures.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return load
}

// kernelRelease is what uname -r prints.
func kernelRelease() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}
