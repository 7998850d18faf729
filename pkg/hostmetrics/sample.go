package hostmetrics

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// maxMemoryBytes is more memory than a machine has: five-level page tables address 4 PiB (2^52). A larger limit is the
// kernel's way of saying none (v1: 9223372036854771712, which is 2^63-1 rounded down to a page of 4 KiB; another number
// on 64 KiB pages), a larger total is nonsense. Everything below is exact as a JSON number.
const maxMemoryBytes = 1 << 52

// Sample takes all figures, the disk's only when asked for. It waits CPUSample between two readings of the CPU counters;
// the rest is read after the wait. The error wraps ctx.Err() and comes as soon as ctx ends; there is no other error,
// because a file that cannot be read only makes its own figures unknown.
//
// statfs(2) on a network filesystem whose server is gone cannot be interrupted and outlives ctx: DiskPath should not be
// on one.
func (h *Host) Sample(ctx context.Context, includeDisk bool) (Figures, error) {
	if err := ctx.Err(); err != nil {
		return Figures{}, fmt.Errorf("sample host: %w", err)
	}
	groups := h.openCgroups()
	defer groups.close()
	quota := groups.quota()

	// The clock is read just before each reading of the cgroup's usage, so that a slow read (we may be throttled at that
	// very moment) shifts both ends alike. It is the monotonic one, as the timer is: Settings.Now may stand still.
	first, firstWhy := h.stat()
	firstTime := time.Now()
	firstUsage, firstUsageWhy := groups.usage(quota)
	if err := wait(ctx, h.cpuSample); err != nil {
		return Figures{}, fmt.Errorf("wait for the second reading: %w", err)
	}
	elapsed := time.Since(firstTime)
	secondUsage, secondUsageWhy := groups.usage(quota)
	second, secondWhy := h.stat()

	f := Figures{Timestamp: h.now().UTC()}
	f.setCPU(h, first, second, either(firstWhy, secondWhy), secondWhy)
	f.setMemory(h)
	if includeDisk {
		percent, why := readDisk(h.diskPath)
		set(&f, &f.DiskPercentUsed, "disk_percent_used", percent, why)
	}
	f.setCgroupMemory(groups)
	f.setCgroupCPU(quota, firstUsage, secondUsage, elapsed, either(firstUsageWhy, secondUsageWhy))
	return f, nil
}

// Limits are what the control groups allow us. One that is not set, or cannot be read, is not known.
type Limits struct {
	MemoryBytes Number[int64]
	CPUCores    Number[float64]
	Tasks       Number[int64] // threads and processes (pids.max)
}

// Limits reads the limits, without waiting.
func (h *Host) Limits() (l Limits) {
	groups := h.openCgroups()
	defer groups.close()
	if memory, why := groups.find("memory"); why == known {
		if limit, _, why := memory.memoryLimit(); why == known {
			l.MemoryBytes = Number[int64]{limit, true}
		}
	}
	if q := groups.quota(); q.why == known {
		l.CPUCores = Number[float64]{q.cores, true}
	}
	if pids, why := groups.find("pids"); why == known {
		if limit, why := pids.taskLimit(); why == known {
			l.Tasks = Number[int64]{limit, true}
		}
	}
	return l
}

// wait returns after d, or ctx's error as soon as that ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err()
}

// set makes a figure known, or says why it is not.
func set[T int64 | float64](f *Figures, n *Number[T], figure string, value T, why Reason) {
	if why != known {
		f.Unavailable = append(f.Unavailable, Unavailable{figure, why})
		return
	}
	*n = Number[T]{value, true}
}

// either is the first reason of the two that is one.
func either(a, b Reason) Reason {
	if a != known {
		return a
	}
	return b
}

func (f *Figures) setCPU(h *Host, first, second procfs.Stat, bothWhy, secondWhy Reason) {
	var busy float64
	if bothWhy == known {
		busy, bothWhy = busyPercent(first.CPUTotal, second.CPUTotal)
	}
	cores := int64(len(second.CPU))
	if secondWhy == known && cores == 0 {
		secondWhy = Malformed
	}
	load, loadWhy := h.loadavg()
	set(f, &f.CPU.UtilizationPercent, "cpu.utilization_percent", busy, bothWhy)
	set(f, &f.CPU.CoreCount, "cpu.core_count", cores, secondWhy)
	set(f, &f.CPU.LoadAverage1m, "cpu.load_average_1m", load, loadWhy)
}

func (f *Figures) setMemory(h *Host) {
	total, available, totalWhy, availableWhy := h.meminfo()
	set(f, &f.Memory.TotalBytes, "memory.total_bytes", total, totalWhy)
	set(f, &f.Memory.AvailableBytes, "memory.available_bytes", available, availableWhy)
	set(f, &f.Memory.PercentUsed, "memory.percent_used", percent(float64(total-available), float64(total)), availableWhy)
}

func (f *Figures) setCgroupMemory(groups cgroups) {
	memory, why := groups.find("memory")
	version, versionWhy := memory.version, why
	if why != known {
		var cpu hierarchy
		if cpu, versionWhy = groups.find("cpu"); versionWhy == known {
			version = cpu.version
		}
	}
	set(f, &f.Cgroup.Version, "cgroup.version", version, versionWhy)

	var limit, current int64
	limitWhy, currentWhy := why, why
	if why == known {
		var level string
		limit, level, limitWhy = memory.memoryLimit()
		if total := f.Memory.TotalBytes; limitWhy == known && total.Known && limit > total.Value {
			level, limitWhy = memory.levels[0], AboveHost
		}
		current, currentWhy = memory.memoryUsage(level)
	}
	set(f, &f.Cgroup.MemoryLimitBytes, "cgroup.memory_limit_bytes", limit, limitWhy)
	set(f, &f.Cgroup.MemoryCurrentBytes, "cgroup.memory_current_bytes", current, currentWhy)
	set(f, &f.Cgroup.MemoryPercentUsed, "cgroup.memory_percent_used",
		percent(float64(current), float64(limit)), either(limitWhy, currentWhy))
}

func (f *Figures) setCgroupCPU(q quota, first, second uint64, elapsed time.Duration, usageWhy Reason) {
	why := q.why
	if cores := f.CPU.CoreCount; why == known && cores.Known && q.cores > float64(cores.Value) {
		why = AboveHost
	}
	allowed := 1e6 * elapsed.Seconds() * q.cores // microseconds
	set(f, &f.Cgroup.CPUQuotaCores, "cgroup.cpu_quota_cores", q.cores, why)
	set(f, &f.Cgroup.CPUUtilizationPercent, "cgroup.cpu_utilization_percent",
		percent(rise(float64(first), float64(second)), allowed), either(why, usageWhy))
}

// percent is part of whole, clamped to 0 to 100. Of nothing, nothing is 0 and anything is 100 (memory.max may be 0).
func percent(part, whole float64) float64 {
	switch {
	case !(part > 0):
		return 0
	case part < whole:
		return 100 * (part / whole)
	}
	return 100
}

// rise is by how much a counter has grown. One that went backwards has not: iowait does on tickless kernels
// (proc_stat(5)), all do when a CPU goes offline or stolen time is corrected. NaN has not grown either.
func rise(before, after float64) float64 {
	if after > before {
		return after - before
	}
	return 0
}

// busyPercent is the share of time between two readings that was not idle. Each counter is clamped by itself, as psutil
// does, so one that went backwards takes nothing from the others. No time at all is no answer, not 0.
func busyPercent(before, after procfs.CPUStat) (float64, Reason) {
	if before == (procfs.CPUStat{}) || after == (procfs.CPUStat{}) {
		return 0, Malformed // procfs reads an empty file and one without the cpu line without complaint
	}
	idle := rise(before.Idle, after.Idle) + rise(before.Iowait, after.Iowait)
	busy := rise(before.User, after.User) + rise(before.Nice, after.Nice) + rise(before.System, after.System) +
		rise(before.IRQ, after.IRQ) + rise(before.SoftIRQ, after.SoftIRQ) + rise(before.Steal, after.Steal)
	switch total := idle + busy; {
	case total == 0:
		return 0, IntervalTooShort
	case math.IsInf(total, 1):
		return 0, Malformed
	default:
		return percent(busy, total), known
	}
}

// The four files of /proc, one function each. procfs opens them by path every time; a version that holds descriptors
// changes here only.

func (h *Host) stat() (procfs.Stat, Reason) { return fromProc(h, procfs.FS.Stat) }

func (h *Host) loadavg() (float64, Reason) {
	load, why := fromProc(h, procfs.FS.LoadAvg)
	if why != known {
		return 0, why
	}
	if math.IsNaN(load.Load1) || math.IsInf(load.Load1, 0) { // strconv.ParseFloat takes both words
		return 0, Malformed
	}
	return max(0, load.Load1), known
}

// meminfo returns available only with a total to clamp it to.
func (h *Host) meminfo() (total, available int64, totalWhy, availableWhy Reason) {
	info, why := fromProc(h, procfs.FS.Meminfo)
	if why != known {
		return 0, 0, why, why
	}
	if info.MemTotalBytes == nil || *info.MemTotalBytes == 0 || *info.MemTotalBytes > maxMemoryBytes {
		return 0, 0, Malformed, Malformed
	}
	total = int64(*info.MemTotalBytes)
	if info.MemAvailableBytes == nil {
		return total, 0, known, NotPresent
	}
	return total, int64(min(*info.MemAvailableBytes, *info.MemTotalBytes)), known, known
}

func (h *Host) selfCgroups() ([]procfs.Cgroup, Reason) {
	return fromProc(h, func(proc procfs.FS) ([]procfs.Cgroup, error) {
		self, err := proc.Self()
		if err != nil {
			return nil, err
		}
		return self.Cgroups()
	})
}

func fromProc[T any](h *Host, read func(procfs.FS) (T, error)) (T, Reason) {
	var none T
	proc, err := procfs.NewFS(h.procRoot) // one stat and one statfs of the mount point
	if err != nil {
		return none, NotMounted
	}
	value, err := read(proc)
	if err != nil {
		return none, reasonOf(err)
	}
	return value, known
}

// reasonOf sorts the error of a read: the operating system's by its number, all others are about the contents.
func reasonOf(err error) Reason {
	var errno syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return NotPresent
	case errors.As(err, &errno):
		return NotReadable
	}
	return Malformed
}
