package latency

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of utime and stime in /proc/PID/stat: USER_HZ is 100 on every architecture that Go runs Linux on
// (proc(5), asm/param.h).
const tick = 10 * time.Millisecond

// cpuReading is the CPU time that a process has used so far, from two accounts of the kernel.
//
// live is the sum of the first field of /proc/PID/task/*/schedstat: nanoseconds, but a thread that has ended takes its time
// with it, and a thread that is running now is up to one scheduler tick (4 ms at 250 Hz) behind. whole is utime+stime of
// /proc/PID/stat: threads that have ended included (the kernel scales it to the same exact sum), cut to ticks of 10 ms.
// Measured on 6.18: 100 ms in a thread that then ended were missing in live and present in whole; otherwise the two
// agreed to the tick. clock_gettime of the process's CPU clock would be exact in both respects, and needs a system call
// that the standard library does not offer.
type cpuReading struct {
	live  time.Duration
	whole time.Duration
}

// since is the CPU time between two readings: live, unless whole has grown by more than its own rounding can explain:
// then threads have ended in between, and exact says false.
func (r cpuReading) since(before cpuReading) (used time.Duration, exact bool) {
	live, whole := r.live-before.live, r.whole-before.whole
	if whole-live > tick {
		return whole, false
	}
	return live, true
}

// readCPU reads the accounts of a process when it is idle: it waits until nothing changes between two readings a
// millisecond apart, at most for settleTries of them, so that no running thread is behind.
func readCPU(pid int) (cpuReading, error) {
	last, err := cpuNow(pid)
	for try := 0; err == nil && try < settleTries; try++ {
		time.Sleep(time.Millisecond)
		var now cpuReading
		now, err = cpuNow(pid)
		if now.live == last.live {
			break
		}
		last = now
	}
	return last, err
}

const settleTries = 25

func cpuNow(pid int) (r cpuReading, err error) {
	folder := fmt.Sprintf("/proc/%d", pid)
	tasks, err := os.ReadDir(folder + "/task")
	if err != nil {
		return r, fmt.Errorf("list the threads: %w", err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile(folder + "/task/" + task.Name() + "/schedstat")
		if err != nil {
			continue // ended since; whole has it
		}
		onCPU, err := parseSchedstat(text)
		if err != nil {
			return r, err
		}
		r.live += onCPU
	}
	text, err := os.ReadFile(folder + "/stat")
	if err != nil {
		return r, fmt.Errorf("read the process's account: %w", err)
	}
	r.whole, err = parseStat(text)
	return r, err
}

// parseSchedstat gives the time on CPU: the first of three numbers, in nanoseconds (Documentation/scheduler/sched-stats).
func parseSchedstat(text []byte) (time.Duration, error) {
	first, _, _ := strings.Cut(string(text), " ")
	ns, err := strconv.ParseInt(first, 10, 64)
	if err != nil || ns < 0 {
		return 0, fmt.Errorf("read schedstat: %q is no time", first)
	}
	return time.Duration(ns), nil
}

// parseStat gives utime+stime, fields 14 and 15 of /proc/PID/stat. The second field is the program's name between
// parentheses and may hold anything, parentheses and spaces too; the last parenthesis ends it.
func parseStat(text []byte) (time.Duration, error) {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return 0, fmt.Errorf("read stat: no name in it")
	}
	const firstBehindName, utime, stime = 3, 14, 15
	fields := strings.Fields(string(text[end+1:]))
	if len(fields) <= stime-firstBehindName {
		return 0, fmt.Errorf("read stat: %d fields", len(fields))
	}
	var sum int64
	for _, field := range []string{fields[utime-firstBehindName], fields[stime-firstBehindName]} {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("read stat: a time is not a number")
		}
		sum += n
	}
	return time.Duration(sum) * tick, nil
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

// Where a CPU figure comes from, for the report.
const (
	fromSchedstat = "schedstat"
	fromStat      = "stat"
)
