package hostmetrics

import (
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

const (
	// maxLevels is how many groups are looked at from our own up to the root. Kubernetes in a container in Kubernetes
	// uses about 15.
	maxLevels = 32
	// maxFileBytes bounds what is read of a cgroup file. The longest, cpu.stat, has some 400 bytes.
	maxFileBytes = 4096
)

// cgroups is our place in the hierarchies at the beginning of one sample. The zero root goes with a reason. Nothing
// outside root can be opened, whatever /proc/self/cgroup says: os.Root refuses.
type cgroups struct {
	root  *os.Root
	lines []procfs.Cgroup
	why   Reason
}

// openCgroups holds one descriptor until close.
func (h *Host) openCgroups() cgroups {
	lines, why := h.selfCgroups()
	if why != known {
		return cgroups{why: why}
	}
	root, err := os.OpenRoot(h.cgroupRoot)
	if err != nil {
		if why = reasonOf(err); why != NotReadable {
			why = NotMounted
		}
		return cgroups{why: why}
	}
	return cgroups{root: root, lines: lines}
}

func (c cgroups) close() {
	if c.root != nil {
		_ = c.root.Close() // a directory opened for reading has nothing to lose
	}
}

// hierarchy is one mounted tree of groups and our place in it.
type hierarchy struct {
	root    *os.Root
	version int64
	dir     string   // where it is mounted, below root
	levels  []string // our group, its parent and so on; last the root of the hierarchy, "."
}

// find looks for the hierarchy with a controller. The order: the v1 hierarchy that /proc/self/cgroup names for it, under
// the folder of that name (which is a symbolic link where several controllers share one) or of all names; else v2, which
// has the whole of CgroupRoot or, on hybrid systems, its folder "unified". See cgroups(7).
func (c cgroups) find(controller string) (hierarchy, Reason) {
	if c.why != known {
		return hierarchy{}, c.why
	}
	for _, line := range c.lines {
		if !slices.Contains(line.Controllers, controller) {
			continue
		}
		why := NotMounted
		for _, dir := range []string{controller, strings.Join(line.Controllers, ",")} {
			_, err := c.root.Stat(dir)
			if err == nil {
				return c.place(1, dir, line.Path)
			}
			if reasonOf(err) == NotReadable {
				why = NotReadable
			}
		}
		return hierarchy{}, why
	}
	for _, line := range c.lines {
		if line.HierarchyID != 0 {
			continue
		}
		for _, dir := range []string{".", "unified"} {
			text, why := readText(c.root, path.Join(dir, "cgroup.controllers"))
			if why == known && slices.Contains(strings.Fields(text), controller) {
				return c.place(2, dir, line.Path)
			}
			if why != known && why != NotPresent {
				return hierarchy{}, why
			}
		}
	}
	return hierarchy{}, NotMounted
}

// place finds our group below dir. In a container without a cgroup namespace the path is the host's while only our group
// is mounted, as the root: a path that does not exist means the root. Should a path of the host's exist in there by
// chance, that group is inside ours.
func (c cgroups) place(version int64, dir, named string) (hierarchy, Reason) {
	own := localPath(named)
	if _, err := c.root.Stat(path.Join(dir, own)); err != nil {
		if why := reasonOf(err); why != NotPresent {
			return hierarchy{}, why
		}
		own = "."
	}
	h := hierarchy{root: c.root, version: version, dir: dir}
	for level := own; level != "."; level = path.Dir(level) {
		h.levels = append(h.levels, level)
		if len(h.levels) == maxLevels {
			return hierarchy{}, Malformed // the levels that are left may hold the limit that binds
		}
	}
	h.levels = append(h.levels, ".")
	return h, known
}

// localPath turns a path of /proc/self/cgroup into one relative to the hierarchy's root. A process outside its cgroup
// namespace has a path like /../../a (cgroup_namespaces(7)): that place has no name below the mount, and dropping only
// the dots would name a stranger, so it becomes the root.
func localPath(named string) string {
	if slices.Contains(strings.Split(named, "/"), "..") {
		return "."
	}
	return path.Clean("./" + named)
}

// tightest returns the smallest limit among the levels and the level that sets it. Of equal ones it is the outer, which
// has more usage. A level without the file sets no limit; one whose file cannot be read might set the smallest, so then
// there is no answer. Without a limit the level is our own.
func (h hierarchy) tightest(limitAt func(level string) (float64, Reason)) (least float64, at string, why Reason) {
	at, why = h.levels[0], NotPresent
	if h.version == 2 {
		// The root has no limit files, nor has a group whose parent does not pass the controller on (cgroup-v2, "Top-down
		// Constraint"): with the controller in cgroup.controllers that is no limit.
		why = Unlimited
	}
	for _, level := range h.levels {
		limit, levelWhy := limitAt(level)
		switch {
		case levelWhy == NotPresent:
		case levelWhy == Unlimited && why != known:
			why = Unlimited
		case levelWhy == Unlimited:
		case levelWhy != known:
			return 0, h.levels[0], levelWhy
		case why != known || limit <= least:
			least, at, why = limit, level, known
		}
	}
	return least, at, why
}

// memoryLimit returns bytes. They are below 2^52, so the way through float64 keeps them exact.
func (h hierarchy) memoryLimit() (limit int64, at string, why Reason) {
	least, at, why := h.tightest(func(level string) (float64, Reason) {
		text, why := h.read(level, "memory.limit_in_bytes", "memory.max")
		if why != known {
			return 0, why
		}
		limit, why := parseMemoryLimit(text)
		return float64(limit), why
	})
	return int64(least), at, why
}

// taskLimit returns the least number of tasks that a level allows, from pids.max, which both versions have.
func (h hierarchy) taskLimit() (int64, Reason) {
	least, _, why := h.tightest(func(level string) (float64, Reason) {
		text, why := h.read(level, "pids.max", "pids.max")
		if why != known {
			return 0, why
		}
		limit, why := parseMemoryLimit(text) // the same form: a number, or max
		return float64(limit), why
	})
	return int64(least), why
}

func (h hierarchy) memoryUsage(level string) (int64, Reason) {
	text, why := h.read(level, "memory.usage_in_bytes", "memory.current")
	if why != known {
		return 0, why
	}
	return parseMemoryUsage(text)
}

// quota is the CPU quota that binds, and where the time used under it is counted.
type quota struct {
	cores    float64
	why      Reason
	usage    hierarchy
	level    string
	usageWhy Reason
}

func (c cgroups) quota() quota {
	cpu, why := c.find("cpu")
	if why != known {
		return quota{why: why, usageWhy: why}
	}
	q := quota{usage: cpu}
	q.cores, q.level, q.why = cpu.tightest(func(level string) (float64, Reason) {
		text, why := cpu.read(level, "cpu.cfs_quota_us", "cpu.max")
		if why != known {
			return 0, why
		}
		if cpu.version == 2 {
			return parseCPUMax(text)
		}
		period, why := cpu.read(level, "cpu.cfs_period_us", "")
		if why == NotPresent {
			return 0, Malformed // a quota without a period is not a level without a quota
		}
		if why != known {
			return 0, why
		}
		return parseCFSQuota(text, period)
	})
	if cpu.version == 1 {
		// v1 counts in another controller, which may be mounted apart. A group of the same name above ours there has the
		// same processes on every system that keeps the trees alike; where it is not above ours, it is someone else's.
		q.usage, q.usageWhy = c.find("cpuacct")
		if q.usageWhy == known && !slices.Contains(q.usage.levels, q.level) {
			q.usageWhy = NotPresent
		}
	}
	return q
}

// usage returns the CPU time that the quota's group has used, in microseconds since it was made. Without a quota nobody
// asks.
func (c cgroups) usage(q quota) (uint64, Reason) {
	if why := either(q.why, q.usageWhy); why != known {
		return 0, why
	}
	text, why := q.usage.read(q.level, "cpuacct.usage", "cpu.stat")
	if why != known {
		return 0, why
	}
	if q.usage.version == 2 {
		return parseCPUStat(text)
	}
	return parseCPUAcct(text)
}

// read reads the file of one level that this version of cgroups has.
func (h hierarchy) read(level, v1, v2 string) (string, Reason) {
	name := v1
	if h.version == 2 {
		name = v2
	}
	return readText(h.root, path.Join(h.dir, level, name))
}

// readText is the one place where cgroup files are opened.
func readText(root *os.Root, name string) (string, Reason) {
	f, err := root.Open(name)
	if err != nil {
		return "", reasonOf(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return "", reasonOf(err)
	}
	if len(text) > maxFileBytes {
		return "", Malformed
	}
	return string(text), known
}

// The parse functions take the whole text of a file. Each returns a value or a reason, never both.

// parseMemoryLimit reads memory.max ("max" or bytes) and memory.limit_in_bytes (bytes).
func parseMemoryLimit(text string) (int64, Reason) {
	text = strings.TrimSpace(text)
	if text == "max" {
		return 0, Unlimited
	}
	limit, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, Malformed
	}
	if limit > maxMemoryBytes {
		return 0, Unlimited
	}
	return int64(limit), known
}

// parseMemoryUsage reads memory.current and memory.usage_in_bytes.
func parseMemoryUsage(text string) (int64, Reason) {
	usage, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil || usage > maxMemoryBytes {
		return 0, Malformed
	}
	return int64(usage), known
}

// parseCPUMax reads cpu.max: quota or "max", and period, in microseconds. It returns cores.
func parseCPUMax(text string) (float64, Reason) {
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return 0, Malformed
	}
	if fields[0] == "max" {
		return 0, Unlimited
	}
	return parseCores(fields[0], fields[1])
}

// parseCFSQuota reads cpu.cfs_quota_us (-1 is none) and cpu.cfs_period_us, both in microseconds. It returns cores.
func parseCFSQuota(quota, period string) (float64, Reason) {
	quota = strings.TrimSpace(quota)
	if quota == "-1" {
		return 0, Unlimited
	}
	return parseCores(quota, strings.TrimSpace(period))
}

func parseCores(quota, period string) (float64, Reason) {
	q, quotaErr := strconv.ParseUint(quota, 10, 64)
	p, periodErr := strconv.ParseUint(period, 10, 64)
	if quotaErr != nil || periodErr != nil || q == 0 || p == 0 { // the kernel takes nothing below 1 ms for either
		return 0, Malformed
	}
	return float64(q) / float64(p), known
}

// parseCPUStat reads usage_usec of cpu.stat, in microseconds.
func parseCPUStat(text string) (uint64, Reason) {
	for line := range strings.Lines(text) { // bounded by maxFileBytes
		if name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); name == "usage_usec" {
			usage, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return 0, Malformed
			}
			return usage, known
		}
	}
	return 0, Malformed
}

// parseCPUAcct reads cpuacct.usage, in nanoseconds, and returns microseconds as parseCPUStat does.
func parseCPUAcct(text string) (uint64, Reason) {
	usage, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, Malformed
	}
	return usage / 1000, known
}
