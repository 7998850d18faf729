package daemon

import (
	"io"

	"mcp-server-suite/pkg/config"
	"mcp-server-suite/pkg/hostmetrics"
	"mcp-server-suite/pkg/lockdown"
)

const (
	procRoot   = "/proc"
	cgroupRoot = "/sys/fs/cgroup"
)

// Confine takes away every right that the configuration does not need and comes back in a process that has only the rest
// (see lockdown.Enter: the first time it does not return but begins the program anew). args are the program's with its
// name, environ is as os.Environ gives it. What [Open] opens must be within what it grants. An error is a
// *[SettingFault] or a *lockdown.Fault. Names that are no settings are logged to stderr once.
func Confine(c config.Config, args, environ []string, stderr io.Writer) (*lockdown.Confined, error) {
	p, err := plan(c)
	if err != nil {
		return nil, err
	}
	// A restriction that is misspelt is none. Others use such names too, so it is no fault.
	if names := config.Unknown(environ); len(names) > 0 && !lockdown.Begun(environ) {
		newLog(c.LogLevel, stderr).Warn("names that are no settings of this server are ignored", "names", names)
	}
	return lockdown.Enter(p, args, environ)
}

// plan says what the parts that Open joins will need.
func plan(c config.Config) (lockdown.Plan, error) {
	p := lockdown.Plan{
		Landlock: lockdown.Mode(c.Landlock), MinABI: c.LandlockMinABI, Seccomp: lockdown.Mode(c.Seccomp),
		AllowPrivileged: c.AllowPrivileged,
		OpenFiles:       openFiles(c),
		Memory:          int64(c.MaxReplyBytes) + workingBytes,
	}
	for _, s := range config.Settings() {
		p.Settings = append(p.Settings, s.Name)
	}
	if c.SafeDataDir != "" {
		p.Grants = append(p.Grants, lockdown.Grant{Path: c.SafeDataDir})
	}
	if c.MetricsEnabled {
		for _, file := range []string{"/stat", "/meminfo", "/loadavg", "/self/cgroup"} {
			p.Grants = append(p.Grants, lockdown.Grant{Path: procRoot + file, Optional: true})
		}
		p.Grants = append(p.Grants, lockdown.Grant{Path: cgroupRoot, List: true, Optional: true})
	}
	if c.SQL() {
		if err := planSQL(c, &p); err != nil {
			return lockdown.Plan{}, err
		}
	}
	host, err := openHost(c)
	if err != nil {
		return lockdown.Plan{}, err
	}
	p.Cgroup = func() lockdown.Cgroup {
		l := host.Limits()
		return lockdown.Cgroup{MemoryBytes: l.MemoryBytes.Value, CPUCores: l.CPUCores.Value, Tasks: l.Tasks.Value}
	}
	return p, nil
}

// restingThreads is how many threads the process has beside those that wait for storage: 5 to 9 were measured on two
// processors, and lockdown keeps the number of processors low where threads are few.
const restingThreads = 12

// readers is how many reads of files may wait for storage at once, so that the control group's threads suffice: 0, no
// bound, where it does not bound them.
func readers(tasks int64) int {
	if tasks == 0 {
		return 0
	}
	return int(max(1, min(tasks, 1<<20)-restingThreads))
}

// leastReplyBytes is the smallest budget of reply bytes: the answer to one read of the largest size, six times as long on
// the wire and twice in the answer, is 12 MiB (the lower bound of MCP_MAX_REPLY_BYTES says the same).
const leastReplyBytes = 16 << 20

// replyBytes is the budget for answers: what the operator says, or a quarter of the control group's memory where that is
// less. The rest is needed beside it: files while they are decoded, arguments, garbage, the page cache (measured: with
// 64 MiB of budget in a group of 64 MiB, sixteen reads of control bytes ended the process).
func replyBytes(c config.Config, allowed lockdown.Cgroup) int {
	if allowed.MemoryBytes == 0 {
		return c.MaxReplyBytes
	}
	return min(c.MaxReplyBytes, max(leastReplyBytes, int(min(allowed.MemoryBytes, 1<<40)/4)))
}

// workingBytes is what is needed beside the answers: arguments of all calls, files while they are decoded, the runtime.
// The limit makes the garbage collector work harder near the bound that the budgets add up to, instead of letting the
// heap grow to twice what is alive.
const workingBytes = 64 << 20

// openFiles is the most descriptors at once: a read that has to resolve its path holds every folder on the way, and a path
// of 4096 characters can have 2048 of them. A lower bound would be felt by others: one deep path, and their files do not
// open (measured with 128 in all: 115 levels).
func openFiles(c config.Config) uint64 {
	const streamsAndPins, levels = 64, 2048 + 8
	return streamsAndPins + levels*uint64(c.MaxConcurrentTools)
}

func openHost(c config.Config) (*hostmetrics.Host, error) {
	return hostmetrics.Open(hostmetrics.Settings{
		ProcRoot: procRoot, CgroupRoot: cgroupRoot, DiskPath: c.MetricsDiskPath, CPUSample: c.MetricsCPUSample,
	})
}
