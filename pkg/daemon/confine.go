package daemon

import (
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
// name, environ is as os.Environ gives it. What [Open] opens must be within what it grants.
func Confine(c config.Config, args, environ []string) (*lockdown.Confined, error) {
	p, err := plan(c)
	if err != nil {
		return nil, err
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
	if c.SafeDataDir != "" {
		p.Grants = append(p.Grants, lockdown.Grant{Path: c.SafeDataDir})
	}
	if c.MetricsEnabled {
		for _, file := range []string{"/stat", "/meminfo", "/loadavg", "/self/cgroup"} {
			p.Grants = append(p.Grants, lockdown.Grant{Path: procRoot + file, Optional: true})
		}
		p.Grants = append(p.Grants, lockdown.Grant{Path: cgroupRoot, List: true, Optional: true})
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

// workingBytes is what is needed beside the answers: arguments of all calls, files while they are decoded, the runtime.
// The limit makes the garbage collector work harder near the bound that the budgets add up to, instead of letting the
// heap grow to twice what is alive.
const workingBytes = 64 << 20

// openFiles is the most descriptors at once: a read holds the folders on its way beside the file, a sample of the host
// its cgroup folders.
func openFiles(c config.Config) uint64 { return 64 + 4*uint64(c.MaxConcurrentTools) }

func openHost(c config.Config) (*hostmetrics.Host, error) {
	return hostmetrics.Open(hostmetrics.Settings{
		ProcRoot: procRoot, CgroupRoot: cgroupRoot, DiskPath: c.MetricsDiskPath, CPUSample: c.MetricsCPUSample,
	})
}
