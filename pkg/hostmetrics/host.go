package hostmetrics

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// MaxCPUSample is the longest sampling interval (seed 000, MCP_METRICS_CPU_SAMPLE_SECONDS).
const MaxCPUSample = 2 * time.Second

// Settings say where to read and how long to watch the CPU. All but Now are required.
type Settings struct {
	ProcRoot   string           // absolute path of the proc filesystem, normally /proc
	CgroupRoot string           // absolute path under which cgroups are mounted, normally /sys/fs/cgroup
	DiskPath   string           // absolute path on the filesystem to report (MCP_METRICS_DISK_PATH); never shown
	CPUSample  time.Duration    // time between the two CPU readings: above 0, at most MaxCPUSample
	Now        func() time.Time // gives the timestamp and nothing else; nil means time.Now
}

// Host reads one machine. It never changes after Open and may be used by any number of goroutines at once.
type Host struct {
	procRoot   string
	cgroupRoot string
	diskPath   string
	cpuSample  time.Duration
	now        func() time.Time
}

// Open checks the settings. Its error names the setting that is not an absolute path or out of bounds, never its value.
// It does not look at the system: a file that is not there makes its figures unknown in each [Host.Sample], so that a
// hardened runtime cannot keep the daemon from starting.
func Open(s Settings) (*Host, error) {
	for _, p := range []struct{ name, value string }{
		{"ProcRoot", s.ProcRoot}, {"CgroupRoot", s.CgroupRoot}, {"DiskPath", s.DiskPath},
	} {
		if !filepath.IsAbs(p.value) || strings.ContainsRune(p.value, 0) {
			return nil, fmt.Errorf("check %s: %w", p.name, errNotAbsolute)
		}
	}
	if s.CPUSample <= 0 || s.CPUSample > MaxCPUSample {
		return nil, fmt.Errorf("check CPUSample: %w", errSampleBounds)
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	return &Host{s.ProcRoot, s.CgroupRoot, s.DiskPath, s.CPUSample, s.Now}, nil
}

var (
	errNotAbsolute  = errors.New("not an absolute path")
	errSampleBounds = fmt.Errorf("not above 0 and at most %v", MaxCPUSample)
)

// Close gives back what Open holds. Today that is nothing, so it returns nil and a Sample that still runs is not
// disturbed; callers close all the same, because descriptors will be held here.
func (h *Host) Close() error { return nil }

// Number is a figure that may be unknown. Value is 0 where Known is false.
type Number[T int64 | float64] struct {
	Value T
	Known bool
}

// Figures is one sample. The names in the comments are the dotted paths that [Unavailable] uses.
type Figures struct {
	CPU    CPU
	Memory Memory
	// DiskPercentUsed is disk_percent_used: 0 to 100 percent of what unprivileged users can fill, as df and psutil
	// count (see statfs(2)). Unknown without a reason when it was not asked for.
	DiskPercentUsed Number[float64]
	// Timestamp is the time of the second reading, in UTC.
	Timestamp time.Time
	Cgroup    Cgroup
	// Unavailable has one entry for each unknown figure, in the order of the fields; nil where all are known.
	Unavailable []Unavailable
}

// CPU is the host's, from /proc/stat and /proc/loadavg (proc_stat(5), proc_loadavg(5)).
type CPU struct {
	// UtilizationPercent is cpu.utilization_percent: 0 to 100 percent of all online cores over the sampling interval.
	// Idle and iowait are not use; time stolen by a hypervisor is. Guest time is in user time already.
	UtilizationPercent Number[float64]
	// CoreCount is cpu.core_count: the CPUs that are online, at least 1.
	CoreCount Number[int64]
	// LoadAverage1m is cpu.load_average_1m: tasks runnable or in uninterruptible sleep over the last minute, 0 or more.
	LoadAverage1m Number[float64]
}

// Memory is the host's, from /proc/meminfo (proc_meminfo(5)).
type Memory struct {
	// TotalBytes is memory.total_bytes: MemTotal, in bytes.
	TotalBytes Number[int64]
	// AvailableBytes is memory.available_bytes: MemAvailable (since Linux 3.14), in bytes, at most the total.
	AvailableBytes Number[int64]
	// PercentUsed is memory.percent_used: 0 to 100, what is not available of the total.
	PercentUsed Number[float64]
}

// Cgroup holds the limits that bind us and their usage (the kernel's admin-guide/cgroup-v2, admin-guide/cgroup-v1/memory
// and scheduler/sched-bwc). Usage is that of the group whose limit binds, which may be an outer one; it counts every
// process in it, not only ours.
type Cgroup struct {
	// Version is cgroup.version: 1 or 2, of the hierarchy with the memory controller, or else the cpu controller.
	Version Number[int64]
	// MemoryLimitBytes is cgroup.memory_limit_bytes: the smallest memory.max (v2) or memory.limit_in_bytes (v1).
	MemoryLimitBytes Number[int64]
	// MemoryCurrentBytes is cgroup.memory_current_bytes: memory.current or memory.usage_in_bytes, page cache included.
	// Where no limit binds it is our own group's.
	MemoryCurrentBytes Number[int64]
	// MemoryPercentUsed is cgroup.memory_percent_used: 0 to 100 percent of the limit.
	MemoryPercentUsed Number[float64]
	// CPUQuotaCores is cgroup.cpu_quota_cores: the smallest quota over its period (cpu.max, cpu.cfs_quota_us), in cores.
	CPUQuotaCores Number[float64]
	// CPUUtilizationPercent is cgroup.cpu_utilization_percent: 0 to 100 percent of the quota over the sampling interval.
	CPUUtilizationPercent Number[float64]
}

// Unavailable says why a figure is unknown.
type Unavailable struct {
	Figure string // dotted path, such as cgroup.memory_limit_bytes
	Reason Reason
}

// Reason is why a figure is unknown. The list is closed: see [Reasons].
type Reason string

// The reasons. A new one is added here and in the table below, nowhere else.
const (
	NotPresent       Reason = "not present"
	NotReadable      Reason = "not readable"
	NotMounted       Reason = "not mounted"
	Malformed        Reason = "malformed"
	Unlimited        Reason = "unlimited"
	AboveHost        Reason = "above host"
	IntervalTooShort Reason = "interval too short"

	known Reason = "" // beside a value: nothing is wrong with it
)

// Row is one line of the table of reasons.
type Row struct {
	Reason  Reason
	Meaning string
}

// Reasons returns the table of reasons in the order of the documentation.
func Reasons() []Row {
	return []Row{
		{NotPresent, "the file, or the figure in it, does not exist on this system"},
		{NotReadable, "it exists, but the operating system does not let the server read it"},
		{NotMounted, "no proc filesystem, or no cgroup hierarchy with that controller, is mounted where the server looks"},
		{Malformed, "the file is empty (a runtime's mask) or holds something that the kernel does not document"},
		{Unlimited, "no cgroup from our own up to the root sets a limit"},
		{AboveHost, "a limit is set, but it is larger than what the host has and never binds"},
		{IntervalTooShort, "no counter moved between the two readings; the kernel counts in ticks of 1 to 10 ms"},
	}
}
