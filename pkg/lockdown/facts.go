package lockdown

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/procfs"

	"mcp-server-suite/pkg/landlock"
	"mcp-server-suite/pkg/seccomp"
)

// markName carries the facts from stage 1 to stage 2. That it is set proves nothing: stage 2 tries the doors itself.
const markName = "MCP_SERVER_SUITE_STAGE"

// facts is what stage 1 has found and stage 2 could not find any more.
type facts struct {
	ABI        int     `json:"abi"`             // in force; 0 without Landlock
	Why        string  `json:"why,omitempty"`   // Landlock is missing
	Rules      []Rule  `json:"rules"`           // in force
	Rest       rest    `json:"rest"`            // of the plan of stage 1
	Other      int     `json:"other"`           // a process that could be signalled, or 0
	Cgroup     Cgroup  `json:"cgroup"`          // as the Plan of stage 1 had it
	RootRO     bool    `json:"rootfs_ro"`       // the root file system is mounted read-only
	Writable   []Mount `json:"writable_mounts"` // at most maxMounts
	MoreMounts int     `json:"more_mounts"`     // writable ones that are not listed
}

// rest is what a plan keeps beside paths. Both stages make their plan from the settings and from files that these name,
// a DSN's above all; stage 2 must not go on with another plan than the one that the domain was made from.
type rest struct {
	ConnectTCP []uint16         `json:"connect_tcp"`
	SendUDP    []uint16         `json:"send_udp"`
	Filter     seccomp.Settings `json:"filter"`
}

func (r rest) equals(other rest) bool {
	a, b := r.Filter, other.Filter
	return slices.Equal(r.ConnectTCP, other.ConnectTCP) && slices.Equal(r.SendUDP, other.SendUDP) &&
		slices.Equal(a.Profiles, b.Profiles) && a.INET == b.INET && a.Unix == b.Unix && a.DNS == b.DNS
}

func (p Plan) rest() rest { return rest{p.ConnectTCP, p.SendUDP, p.Filter} }

// Rule is what the domain leaves of one path.
type Rule struct {
	Path   string   `json:"path"`
	Rights []string `json:"rights"` // as package landlock names them

	rights landlock.FS
}

func (f *facts) add(r Rule) {
	for _, right := range landlock.Rights() {
		if right.Kind == landlock.KindFile && r.rights&landlock.FS(right.Bit) != 0 {
			r.Rights = append(r.Rights, right.Name)
		}
	}
	f.Rules = append(f.Rules, r)
}

// Mount is a writable place in the file system.
type Mount struct {
	Path    string   `json:"path"`
	Options []string `json:"options"` // those of nosuid, nodev, noexec that it has
}

// maxMounts and maxMountPath, in bytes, bound the list: it passes through an environment variable, and into the log.
const (
	maxMounts    = 16
	maxMountPath = 256
)

// mounts fills in the part of the facts that is about the file system.
func (f *facts) mounts() error {
	all, err := procfs.GetMounts()
	if err != nil {
		// coverage: stage 1 has just read its status from the same mount of /proc
		return fmt.Errorf("read mounts: %w", err)
	}
	f.Writable = []Mount{}
	for _, m := range all {
		_, readOnly := m.Options["ro"]
		_, superReadOnly := m.SuperOptions["ro"]
		if m.MountPoint == "/" {
			f.RootRO = readOnly || superReadOnly // of several the last one is what is seen
		}
		// Of several mounts on one place only the last is seen.
		f.Writable = slices.DeleteFunc(f.Writable, func(w Mount) bool { return w.Path == m.MountPoint })
		if readOnly || superReadOnly {
			continue
		}
		w := Mount{Path: m.MountPoint[:min(len(m.MountPoint), maxMountPath)], Options: []string{}}
		for _, name := range []string{"nosuid", "nodev", "noexec"} {
			if _, has := m.Options[name]; has {
				w.Options = append(w.Options, name)
			}
		}
		f.Writable = append(f.Writable, w)
	}
	if more := len(f.Writable) - maxMounts; more > 0 {
		f.Writable, f.MoreMounts = f.Writable[:maxMounts], more
	}
	return nil
}

// kept are the variables that stage 2 is given beside the settings of the plan: those by which an operator steers the Go
// runtime. All others, secrets for somebody else among them, end here.
var kept = []string{"GOMAXPROCS", "GOMEMLIMIT", "GOGC", "GODEBUG", "GOTRACEBACK"}

func (p Plan) keeps(name string) bool {
	return slices.Contains(p.Settings, name) || slices.Contains(kept, name) || forTests(name) || forCoverage(name)
}

// scrubbed says whether an environment could be one that stage 1 has made.
func (p Plan) scrubbed(environ []string) bool {
	return !slices.ContainsFunc(environ, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !p.keeps(name)
	})
}

// environment returns the environment of stage 2: what it keeps of environ, and set, which comes before it.
func (p Plan) environment(environ []string, set map[string]string, f facts) ([]string, error) {
	text, err := json.Marshal(f)
	if err != nil {
		// coverage: strings, numbers and lists of them can always be written
		return nil, fmt.Errorf("write facts: %w", err)
	}
	var out []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if _, ours := set[name]; !ours && name != markName && p.keeps(name) {
			out = append(out, entry)
		}
	}
	for name, value := range set {
		out = append(out, name+"="+value)
	}
	return append(out, markName+"="+string(text)), nil
}

// Begun says whether an environment is that of stage 2.
func Begun(environ []string) bool {
	_, found, _ := mark(environ) // stage 2 reads them itself
	return found
}

// mark returns the facts, if environ has them.
func mark(environ []string) (f facts, found bool, err error) {
	for _, entry := range environ {
		text, is := strings.CutPrefix(entry, markName+"=")
		if !is {
			continue
		}
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			return facts{}, true, fmt.Errorf("read facts of stage 1: %w", err)
		}
		return f, true, nil
	}
	return facts{}, false, nil
}
