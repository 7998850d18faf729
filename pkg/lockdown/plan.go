package lockdown

import (
	"fmt"

	"mcp-server-suite/pkg/landlock"
	"mcp-server-suite/pkg/seccomp"
)

// Mode says how much a layer is insisted on.
type Mode string

// The modes of a layer. The zero Mode is none of them and refused.
const (
	Require     Mode = "require"      // without the layer the process does not serve
	IfAvailable Mode = "if-available" // Landlock only: used where the kernel has it
	Off         Mode = "off"
)

// The settings that a Fault and a Posture name.
const (
	landlockSetting   = "MCP_LANDLOCK"
	minABISetting     = "MCP_LANDLOCK_MIN_ABI"
	seccompSetting    = "MCP_SECCOMP"
	privilegedSetting = "MCP_ALLOW_PRIVILEGED"
)

// Plan is what the process keeps. What it does not name is taken away.
type Plan struct {
	Landlock        Mode
	MinABI          int // lowest Landlock ABI to serve on, 1 or more; it does not count where Landlock is Off or missing by leave
	Seccomp         Mode
	AllowPrivileged bool

	Grants     []Grant          // files and folders that stay readable
	ConnectTCP []uint16         // remote TCP ports that stay reachable
	SendUDP    []uint16         // remote UDP ports that stay reachable
	Filter     seccomp.Settings // the profiles beside seccomp.Base, and their sockets; Seal sets the rest
	Waived     []string         // settings by which the operator has given up other guards, for the posture
	Settings   []string         // the names of the program's own variables, which stage 2 keeps
	OpenFiles  uint64           // most descriptors at once (RLIMIT_NOFILE), or fewer where the hard limit is lower

	// Memory is how many bytes the process means to use. It, or nine tenths of the control group's limit where that is
	// less, becomes the Go memory limit (GOMEMLIMIT), unless the environment has one.
	Memory int64
	// Cgroup reads the limits of the control group. It is called in stage 1; stage 2 could not read them.
	Cgroup func() Cgroup
}

// Grant leaves one path readable.
type Grant struct {
	Path     string
	List     bool // a folder may also be listed
	Sockets  bool // instead of reading, unix sockets in the folder may be connected to
	Optional bool // that the path does not exist is no fault
}

// Cgroup holds the limits that the control group sets; zero is none.
type Cgroup struct {
	MemoryBytes int64   `json:"memory_limit_bytes,omitempty"`
	CPUCores    float64 `json:"cpu_quota_cores,omitempty"`
	Tasks       int64   `json:"tasks_limit,omitempty"` // threads and processes
}

func (p Plan) check() error {
	switch {
	case p.Landlock != Require && p.Landlock != IfAvailable && p.Landlock != Off:
		return fmt.Errorf("check plan: no Landlock mode %q", p.Landlock)
	case p.Seccomp != Require && p.Seccomp != Off:
		return fmt.Errorf("check plan: no seccomp mode %q", p.Seccomp)
	case p.MinABI < 1 || p.MinABI > landlock.KnownABI:
		return fmt.Errorf("check plan: no Landlock ABI %d", p.MinABI)
	case p.OpenFiles < minOpenFiles:
		return fmt.Errorf("check plan: %d open files are fewer than %d", p.OpenFiles, minOpenFiles)
	}
	return nil
}

// minOpenFiles is what the streams, the runtime and the pinned descriptors use.
const minOpenFiles = 32

// optOuts lists the layers that the operator has given up, as they were written.
func (p Plan) optOuts() []string {
	out := append([]string{}, p.Waived...)
	if p.Landlock != Require {
		out = append(out, landlockSetting+"="+string(p.Landlock))
	}
	if p.Seccomp != Require {
		out = append(out, seccompSetting+"="+string(p.Seccomp))
	}
	if p.AllowPrivileged {
		out = append(out, privilegedSetting+"=true")
	}
	return out
}

// Fault is why the process must not serve. Its text is one line.
type Fault struct {
	Layer string // privileges, limits, landlock, descriptors, re-exec, process, seccomp
	Err   error
	// Instead is what the operator can do about it.
	Instead string
}

func (f *Fault) Error() string {
	text := fmt.Sprintf("hardening: %s: %v", f.Layer, f.Err)
	if f.Instead != "" {
		text += "; " + f.Instead
	}
	return text
}

func (f *Fault) Unwrap() error { return f.Err }
