package demo

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// figures is the result of system_metrics.
type figures struct {
	CPU struct {
		UtilizationPercent *float64 `json:"utilization_percent"`
		CoreCount          *int64   `json:"core_count"`
		LoadAverage1m      *float64 `json:"load_average_1m"`
	} `json:"cpu"`
	Memory struct {
		TotalBytes     *int64   `json:"total_bytes"`
		AvailableBytes *int64   `json:"available_bytes"`
		PercentUsed    *float64 `json:"percent_used"`
	} `json:"memory"`
	DiskPercentUsed *float64 `json:"disk_percent_used"`
	Cgroup          struct {
		Version               *int64   `json:"version"`
		MemoryLimitBytes      *int64   `json:"memory_limit_bytes"`
		MemoryCurrentBytes    *int64   `json:"memory_current_bytes"`
		MemoryPercentUsed     *float64 `json:"memory_percent_used"`
		CPUQuotaCores         *float64 `json:"cpu_quota_cores"`
		CPUUtilizationPercent *float64 `json:"cpu_utilization_percent"`
	} `json:"cgroup"`
	Unavailable []struct {
		Figure string `json:"figure"`
		Reason string `json:"reason"`
	} `json:"unavailable"`
	Timestamp string `json:"timestamp_utc"`
}

const metricsCall = `{"name":"system_metrics","arguments":{"include_disk":true}}`

func metrics(s *session) error {
	s.asked(`system_metrics {"include_disk":true}`)
	answer, err := s.request("tools/call", metricsCall)
	if err != nil {
		return err
	}
	var f figures
	if err := result(answer, &f); err != nil {
		return err
	}
	s.answered("processors: %s cores, %s busy, load average %s",
		say(f.CPU.CoreCount, "%.0f"), say(f.CPU.UtilizationPercent, "%.1f %%"), say(f.CPU.LoadAverage1m, "%.2f"))
	s.answered("memory: %s in all, %s available, %s used",
		sayBytes(f.Memory.TotalBytes), sayBytes(f.Memory.AvailableBytes), say(f.Memory.PercentUsed, "%.1f %%"))
	s.answered("the disk that holds /: %s used", say(f.DiskPercentUsed, "%.1f %%"))
	s.answered("its own limits (cgroup version %s): memory %s, processors %s", say(f.Cgroup.Version, "%.0f"),
		sayBytes(f.Cgroup.MemoryLimitBytes), say(f.Cgroup.CPUQuotaCores, "%.2f cores"))
	var absent []string
	for _, u := range f.Unavailable {
		absent = append(absent, u.Figure+" ("+u.Reason+")")
	}
	if absent != nil {
		s.answered("null, each with its reason: %s", strings.Join(absent, ", "))
	}
	if err := f.explained(); err != nil {
		return err
	}
	total, err := memoryTotal()
	if err != nil {
		return err
	}
	if f.Memory.TotalBytes == nil || *f.Memory.TotalBytes != total {
		return fmt.Errorf("/proc/meminfo says %d bytes", total)
	}
	if a := f.Memory.AvailableBytes; a != nil && (*a < 0 || *a > total) {
		return errors.New("the available memory cannot be")
	}
	for _, percent := range []*float64{f.CPU.UtilizationPercent, f.Memory.PercentUsed, f.DiskPercentUsed} {
		if percent != nil && (*percent < 0 || *percent > 100) {
			return errors.New("a percentage cannot be")
		}
	}
	at, err := time.Parse(time.RFC3339Nano, f.Timestamp)
	if err != nil || time.Since(at).Abs() > time.Minute {
		return errors.New("the time of the sample is not now")
	}
	s.checked("/proc/meminfo has the same total, to the byte; no figure is missing without a reason")
	return nil
}

// explained checks that every figure that is null has its reason beside it.
func (f *figures) explained() error {
	known := map[string]bool{
		"cpu.utilization_percent": f.CPU.UtilizationPercent != nil,
		"cpu.core_count":          f.CPU.CoreCount != nil,
		"cpu.load_average_1m":     f.CPU.LoadAverage1m != nil,
		"memory.total_bytes":      f.Memory.TotalBytes != nil,
		"memory.available_bytes":  f.Memory.AvailableBytes != nil,
		"memory.percent_used":     f.Memory.PercentUsed != nil,
		"disk_percent_used":       f.DiskPercentUsed != nil,
	}
	for _, u := range f.Unavailable {
		if u.Reason == "" || known[u.Figure] {
			return fmt.Errorf("%s is known, or missing without a reason", u.Figure)
		}
		known[u.Figure] = true // explained
	}
	for name, fine := range known {
		if !fine {
			return fmt.Errorf("%s is missing without a reason", name)
		}
	}
	return nil
}

// say writes a figure for a person.
func say[T int64 | float64](n *T, format string) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprintf(format, float64(*n))
}

func sayBytes(n *int64) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprintf("%.1f GiB", float64(*n)/(1<<30))
}

// memoryTotal is MemTotal of /proc/meminfo, in bytes.
func memoryTotal() (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "MemTotal:"); found {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("/proc/meminfo has no MemTotal")
}
