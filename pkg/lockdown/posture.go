package lockdown

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/landlock"
	"mcp-server-suite/pkg/seccomp"
)

// Level sums a Posture up.
type Level string

// The levels.
const (
	// Full: both layers are in force, no opt-out is, and what the kernel's Landlock lacks is refused by the filter.
	Full Level = "full"
	// Reduced: a layer is missing, an opt-out is in force, or something is left that nothing covers.
	Reduced Level = "reduced"
	// None: neither layer is in force.
	None Level = "off"
)

// Posture is what is in force, found by looking. What only stage 1 could see (the rules of the domain, mounts, the control
// group) is what it has left behind: whoever could forge that makes the domain himself (SECURITY.md).
type Posture struct {
	Level        Level           `json:"level"`
	UID          int             `json:"uid"`
	GID          int             `json:"gid"`
	Groups       []int           `json:"groups"` // supplementary
	Capabilities Capabilities    `json:"capabilities"`
	NoNewPrivs   bool            `json:"no_new_privs"`
	Threads      int             `json:"threads"` // all with the same filters
	Landlock     LandlockPosture `json:"landlock"`
	Seccomp      SeccompPosture  `json:"seccomp"`
	Process      ProcessPosture  `json:"process"`
	Rootfs       RootfsPosture   `json:"rootfs"`
	Cgroup       Cgroup          `json:"cgroup"`
	OptOuts      []string        `json:"opt_outs"`
	Residual     []string        `json:"residual"` // what nothing covers, in words
	Probes       Probes          `json:"probes"`
	// Denials has every single probe. It is not part of the line.
	Denials []Outcome `json:"-"`
}

// Capabilities are the sets as proc_pid_status(5) has them.
type Capabilities struct {
	Effective   string `json:"effective"`
	Permitted   string `json:"permitted"`
	Inheritable string `json:"inheritable"`
	Ambient     string `json:"ambient"`
	Bounding    string `json:"bounding"`
}

// LandlockPosture is the domain.
type LandlockPosture struct {
	Mode     Mode      `json:"mode"`
	Enforced bool      `json:"enforced"`
	ABI      int       `json:"abi"`           // in force; 0 without a domain
	Known    int       `json:"known_abi"`     // the newest that this program knows
	Why      string    `json:"why,omitempty"` // there is no domain
	Rules    []Rule    `json:"rules"`
	Ports    []uint16  `json:"connect_tcp"`
	Missing  []Missing `json:"missing"` // rights that this ABI cannot take away
}

// Missing is a right that the domain does not take away, and what does instead.
type Missing struct {
	Right     string `json:"right"`
	FirstABI  int    `json:"first_abi"`
	CoveredBy string `json:"covered_by"` // seccomp, or nothing
}

// SeccompPosture is the filter.
type SeccompPosture struct {
	Mode     Mode              `json:"mode"`
	Enforced bool              `json:"enforced"`
	Before   int               `json:"filters_before"` // the container runtime's
	Filters  int               `json:"filters"`        // on every thread
	Profiles []seccomp.Profile `json:"profiles"`
	Openat2  bool              `json:"openat2"` // false: answered ENOSYS
	Default  string            `json:"default"` // what becomes of a call that is not in the table
}

// ProcessPosture is the rest of the process.
type ProcessPosture struct {
	Dumpable    bool   `json:"dumpable"`
	MDWE        bool   `json:"memory_deny_write_execute"` // needs Linux 6.3
	CoreBytes   uint64 `json:"core_bytes"`
	OpenFiles   uint64 `json:"open_files"`
	GOMAXPROCS  int    `json:"gomaxprocs"`
	MemoryLimit int64  `json:"go_memory_limit_bytes,omitempty"` // 0 is none
}

// RootfsPosture reports and nothing more: whether the root file system is writable is the image's affair.
type RootfsPosture struct {
	ReadOnly bool    `json:"read_only"`
	Writable []Mount `json:"writable_mounts"`
	More     int     `json:"more_mounts,omitempty"`
}

// Probes sums up what was tried.
type Probes struct {
	Tried    int      `json:"tried"`
	Denied   int      `json:"denied"`
	Failed   []string `json:"failed"`    // owed and not denied; a process with one does not serve
	Open     []string `json:"open"`      // allowed and not owed, because the layer is off or the profile has it
	NotTried []string `json:"not_tried"` // there is nothing to try it on, or it is within what is granted
	Other    int      `json:"other"`     // neither allowed nor denied as asked: with the layer off, mostly a wrong argument
}

// posture begins the report, with everything that the filter would not let us ask. own is the status of the main thread.
func (c *Confined) posture(own status, filters int) Posture {
	p := Posture{
		UID: os.Getuid(), GID: os.Getgid(),
		Landlock: LandlockPosture{
			Mode: c.plan.Landlock, Enforced: c.facts.ABI > 0, ABI: c.facts.ABI, Known: landlock.KnownABI,
			Why: c.facts.Why, Rules: append([]Rule{}, c.facts.Rules...), Ports: append([]uint16{}, c.facts.Rest.ConnectTCP...),
		},
		Seccomp: SeccompPosture{
			Mode: c.plan.Seccomp, Before: filters, Filters: filters,
			Profiles: append([]seccomp.Profile{seccomp.Base}, c.plan.Filter.Profiles...),
			Openat2:  true, Default: "allow",
		},
		Rootfs:   RootfsPosture{c.facts.RootRO, c.facts.Writable, c.facts.MoreMounts},
		Cgroup:   c.facts.Cgroup,
		OptOuts:  c.plan.optOuts(),
		Process:  ProcessPosture{GOMAXPROCS: runtime.GOMAXPROCS(0)},
		Groups:   []int{},
		Residual: []string{},
	}
	if groups, err := os.Getgroups(); err == nil {
		p.Groups = append(p.Groups, groups...)
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		p.Process.MemoryLimit = limit
	}
	hex := func(set uint64) string { return fmt.Sprintf("%016x", set) }
	p.Capabilities = Capabilities{hex(own.effective), hex(own.permitted), hex(own.inheritable), hex(own.ambient), hex(own.boundaries)}
	if got, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil {
		p.NoNewPrivs = got == 1
	}
	if got, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err == nil {
		p.Process.Dumpable = got != 0
	}
	if got, err := unix.PrctlRetInt(unix.PR_GET_MDWE, 0, 0, 0, 0); err == nil {
		p.Process.MDWE = got&unix.PR_MDWE_REFUSE_EXEC_GAIN != 0
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_CORE, &limit) == nil {
		p.Process.CoreBytes = limit.Max
	}
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		p.Process.OpenFiles = limit.Max
	}
	return p
}

// traced names who traces a thread. One that is outside of the process's PID namespace is not seen: its number is 0 there.
func (p *Posture) traced(threads map[int]status) {
	for _, s := range threads {
		says := fmt.Sprintf("process %d traces this one and can do with it what it likes", s.tracer)
		if s.tracer != 0 && !slices.Contains(p.Residual, says) {
			p.Residual = append(p.Residual, says)
		}
	}
}

// conclude fills in what follows from the rest. filter is nil where there is none.
func (p *Posture) conclude(c *Confined, filter *seccomp.Filter) {
	if filter != nil {
		p.Seccomp.Openat2 = c.filter().Openat2
		p.Seccomp.Default = "errno EPERM"
		if killByDefault {
			p.Seccomp.Default = "kill"
		}
	}
	p.Landlock.Missing = []Missing{}
	for _, r := range landlock.Missing(c.facts.ABI) {
		m := Missing{r.Name, r.ABI, "seccomp"}
		if filter == nil || !covers(filter, r) {
			m.CoveredBy = "nothing"
			p.Residual = append(p.Residual, fmt.Sprintf("%s is left: Landlock takes it away from ABI %d on", r.Takes, r.ABI))
		}
		p.Landlock.Missing = append(p.Landlock.Missing, m)
	}
	if filter == nil {
		p.Residual = append(p.Residual, "every system call that the user may make is left: there is no filter of ours")
	}
	p.Probes = Probes{Failed: []string{}, Open: []string{}, NotTried: []string{}}
	for _, o := range p.Denials {
		if o.Got == notTried {
			p.Probes.NotTried = append(p.Probes.NotTried, o.Name)
			if o.Layer == byLandlock && p.Landlock.Enforced {
				p.Residual = append(p.Residual, o.Name+": not tried, because it is within what is granted, or there is nothing to try it on")
			}
			continue
		}
		p.Probes.Tried++
		switch {
		case o.Denied:
			p.Probes.Denied++
		case o.Owed:
			p.Probes.Failed = append(p.Probes.Failed, o.Name)
		case o.Got == allowed:
			p.Probes.Open = append(p.Probes.Open, o.Name)
		default:
			p.Probes.Other++
		}
	}
	switch {
	case !p.Landlock.Enforced && !p.Seccomp.Enforced:
		p.Level = None
	case !p.Landlock.Enforced || !p.Seccomp.Enforced || len(p.Residual) > 0 || len(p.OptOuts) > 0 || len(p.Probes.Failed) > 0:
		p.Level = Reduced
	default:
		p.Level = Full
	}
}

// covers says whether the filter refuses every call by which the right could be used.
func covers(filter *seccomp.Filter, r landlock.Right) bool {
	for _, call := range r.Needs {
		if number, known := seccomp.Number(call.Name, ""); known &&
			filter.Decide(seccomp.Call{Number: uint32(number), Args: call.Args}) == seccomp.Allow {
			return false
		}
	}
	return len(r.Needs) > 0
}

// JSON is the posture in one line.
func (p Posture) JSON() []byte {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings, numbers and lists of them
	}
	return text
}

// Text is the posture for a reader.
func (p Posture) Text() string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	list := func(name string, items []string, none string) {
		if len(items) == 0 {
			row(name, "%s", none)
		}
		for _, item := range items {
			row(name, "%s", item)
			name = ""
		}
	}
	yes := map[bool]string{true: "yes", false: "no"}
	row("level", "%s", p.Level)
	row("user", "uid %d, gid %d, groups %v, capabilities %s, no new privileges: %s", p.UID, p.GID, p.Groups, p.Capabilities.Effective, yes[p.NoNewPrivs])
	if p.Landlock.Enforced {
		row("landlock", "in force (%s), ABI %d of %d known", p.Landlock.Mode, p.Landlock.ABI, p.Landlock.Known)
	} else {
		row("landlock", "NOT in force (%s): %s", p.Landlock.Mode, p.Landlock.Why)
	}
	for _, r := range p.Landlock.Rules {
		row("", "%s: %s", r.Path, strings.Join(r.Rights, ", "))
	}
	for _, port := range p.Landlock.Ports {
		row("", "connect: TCP port %d", port)
	}
	for _, m := range p.Landlock.Missing {
		row("", "lacks %s (ABI %d); covered by %s", m.Right, m.FirstABI, m.CoveredBy)
	}
	if p.Seccomp.Enforced {
		row("seccomp", "in force on all %d threads: filters %d, before ours %d; profiles %v; everything else: %s",
			p.Threads, p.Seccomp.Filters, p.Seccomp.Before, p.Seccomp.Profiles, p.Seccomp.Default)
	} else {
		row("seccomp", "NOT in force (%s); filters of the runtime: %d", p.Seccomp.Mode, p.Seccomp.Before)
	}
	row("process", "dumpable: %s, no writable and executable memory: %s, core files: %d bytes, open files: %d",
		yes[p.Process.Dumpable], yes[p.Process.MDWE], p.Process.CoreBytes, p.Process.OpenFiles)
	row("", "GOMAXPROCS %d, Go memory limit %s", p.Process.GOMAXPROCS, bytesOr(p.Process.MemoryLimit, "none"))
	tasks := "unlimited"
	if p.Cgroup.Tasks > 0 {
		tasks = strconv.FormatInt(p.Cgroup.Tasks, 10)
	}
	row("cgroup", "memory %s, CPU %s, tasks %s", bytesOr(p.Cgroup.MemoryBytes, "unlimited"), coresOr(p.Cgroup.CPUCores), tasks)
	row("rootfs", "read-only: %s", yes[p.Rootfs.ReadOnly])
	if len(p.Rootfs.Writable) > 0 && p.Landlock.Enforced {
		row("", "not mounted read-only (this process cannot write there all the same):")
	} else if len(p.Rootfs.Writable) > 0 {
		row("", "not mounted read-only:")
	}
	for _, m := range p.Rootfs.Writable {
		row("", "  %s", strings.Join(append([]string{m.Path}, m.Options...), " "))
	}
	if p.Rootfs.More > 0 {
		row("", "  and %d more", p.Rootfs.More)
	}
	list("opt-outs", p.OptOuts, "none")
	list("residual", p.Residual, "nothing beyond what SECURITY.md names")
	row("probes", "%d tried, %d denied", p.Probes.Tried, p.Probes.Denied)
	if p.Probes.Other > 0 {
		row("", "undecided: %d (allowed as far as the filter goes, and failed for another reason; --probes lists them)", p.Probes.Other)
	}
	for _, name := range p.Probes.NotTried {
		row("", "not tried: %s", name)
	}
	for _, name := range p.Probes.Failed {
		row("", "FAILED: %s", name)
	}
	for _, name := range p.Probes.Open {
		row("", "open: %s", name)
	}
	return b.String()
}

func bytesOr(n int64, none string) string {
	if n == 0 {
		return none
	}
	return fmt.Sprintf("%d bytes", n)
}

func coresOr(n float64) string {
	if n == 0 {
		return "unlimited"
	}
	return fmt.Sprintf("%g cores", n)
}
