// Package hostmetrics reads how busy the host is (CPU, memory, disk) and, beside it, the limits of our own cgroup that
// bind in a container.
//
// The first group of figures is what seed 000 calls system_metrics and psutil reports: the host's, also inside a
// container. Percent of sixteen cores reads as idle where one core is allowed, so the cgroup's memory limit and CPU
// quota stand beside it with the usage that they limit. A figure that cannot be had is not invented: it is unknown, and
// [Figures.Unavailable] names it with a [Reason] from a closed list. Every other figure is still delivered. Percentages
// are finite and within 0 to 100, whatever the kernel's counters do.
//
// It does not read per-process figures, swap, PSI, cpusets or the memory.high throttle, keeps no history, and never
// shows a path or what a file holds. Figures are of the moment of the call: nothing is cached.
//
// Where it can be wrong. The cgroup that binds is the one with the smallest limit between our own group and the root of
// what is mounted; an outer group with a larger limit that its other children have nearly filled is not found, nor is
// one outside the mount or the cgroup namespace. A group that is moved into a namespace whose cgroupfs was mounted by
// another one reads as the root of that mount. Under cgroup v1 with memory.use_hierarchy=0 (not possible since Linux
// 5.11) outer limits are counted that do not bind.
//
// Needs: /proc (stat, meminfo, loadavg, self/cgroup) and the cgroup mount readable at the time of the call, statfs(2) on
// the disk path. An attacker controls nothing here: the paths are configuration and the files are the kernel's. They are
// bounded and checked all the same, because a runtime may mount anything over them.
package hostmetrics
