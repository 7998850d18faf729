package seccomp

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	libseccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// Settings choose the rows of the table.
type Settings struct {
	// Profiles beside Base, which is always in.
	Profiles []Profile
	// Openat2 allows openat2(2), whose flags a filter cannot see: only when something else, Landlock, denies writing.
	// Without it openat2 answers ENOSYS.
	Openat2 bool
	// INET, Unix and DNS are the sockets that the profile SQL may make: TCP over IPv4 and IPv6, Unix streams, and, only
	// together with INET, UDP to resolve names.
	INET, Unix, DNS bool
	// PID is the id of this process, the only one that tgkill(2) may name. At least 1.
	PID int
	// KillByDefault ends the process also for what no row names, instead of EPERM: for development.
	KillByDefault bool
	// Arch is "amd64" or "arm64"; empty is the one we run on. A filter for another one can be asked and printed.
	Arch string
}

// arch is one of the architectures that we know.
type arch struct {
	name  string
	lib   libseccomp.ScmpArch
	audit uint32
}

func arches() []arch {
	return []arch{
		{"amd64", libseccomp.ArchAMD64, unix.AUDIT_ARCH_X86_64},
		{"arm64", libseccomp.ArchARM64, unix.AUDIT_ARCH_AARCH64},
	}
}

func findArch(name string) (arch, error) {
	if name == "" {
		name = runtime.GOARCH
	}
	for _, a := range arches() {
		if a.name == name {
			return a, nil
		}
	}
	return arch{}, fmt.Errorf("there is no filter for the architecture %q", name)
}

// Number returns the number of a system call on an architecture ("amd64", "arm64", empty for ours), and whether there
// is one: a call that libseccomp knows only from another architecture has a negative number of its own there.
func Number(name, arch string) (uint32, bool) {
	a, err := findArch(arch)
	if err != nil {
		return 0, false
	}
	n, err := libseccomp.GetSyscallFromNameByArch(name, a.lib)
	if err != nil || n < 0 {
		return 0, false
	}
	return uint32(n), true
}

// rule is a row that was chosen, with its number, and with this process's id where the row asks for it.
type rule struct {
	Row
	number uint32
}

// policy is what a filter has to do: the meaning of the table under some settings, without libseccomp.
type policy struct {
	arch      arch
	otherwise Action // for what no rule covers
	rules     []*rule
	byNumber  [numbers][]*rule
}

// newPolicy chooses the rows of the table. The error names what is wrong with the settings, or the row that has no
// system call.
func newPolicy(s Settings) (*policy, error) {
	a, err := findArch(s.Arch)
	if err != nil {
		return nil, err
	}
	if s.PID < 1 || s.PID > 1<<22 { // PID_MAX_LIMIT
		return nil, fmt.Errorf("%d is no process id", s.PID)
	}
	for _, p := range s.Profiles {
		if !slices.Contains([]Profile{Base, SQL, Audit, Socket}, p) {
			return nil, fmt.Errorf("there is no profile %q", p)
		}
	}
	if (s.INET || s.Unix) != slices.Contains(s.Profiles, SQL) {
		return nil, errors.New("the profile sql needs a kind of socket, and only it has one")
	}
	if s.DNS && !s.INET {
		return nil, errors.New("names are resolved to connect over inet")
	}
	p := &policy{arch: a, otherwise: EPERM}
	if s.KillByDefault {
		p.otherwise = Kill
	}
	for _, row := range Table() {
		if !s.wants(row) || len(row.Archs) > 0 && !slices.Contains(row.Archs, a.name) {
			continue
		}
		n, ok := Number(row.Syscall, a.name)
		if !ok || n >= numbers {
			// coverage: libseccomp 2.5.4, which is linked in, knows every row; an older one does not
			return nil, fmt.Errorf("row %q: libseccomp knows no such system call on %s", row.ID, a.name)
		}
		for i, c := range row.Args {
			if c.PID {
				row.Args[i].Value = uint64(s.PID)
			}
		}
		r := &rule{row, n}
		p.rules = append(p.rules, r)
		p.byNumber[n] = append(p.byNumber[n], r)
	}
	return p, nil
}

func (s Settings) wants(row Row) bool {
	if row.Profile != Base && !slices.Contains(s.Profiles, row.Profile) {
		return false
	}
	switch row.If {
	case "":
		return true
	case WithOpenat2:
		return s.Openat2
	case WithoutOpenat2:
		return !s.Openat2
	case WithINET:
		return s.INET
	case WithUnix:
		return s.Unix
	case WithDNS:
		return s.DNS
	}
	return false // an option that nobody sets
}

// numbers is above every system call number of both architectures; Linux 6.18 has about 470.
const numbers = 1024

// x32Bit marks a system call of the x32 ABI, which shares its architecture with amd64.
const x32Bit = 0x40000000

// decide is what the policy wants for a call: the action of the rules whose conditions all hold. Two of them never
// disagree; a test of the table sees to it.
func (p *policy) decide(c Call) Action {
	if c.Arch != p.arch.audit {
		return Kill
	}
	// -1 is what a tracer puts in to skip a call: the kernel then runs none. libseccomp leaves it to the default.
	if p.arch.name == "amd64" && c.Number >= x32Bit && c.Number != ^uint32(0) {
		return Kill
	}
	if c.Number < numbers {
		for _, r := range p.byNumber[c.Number] {
			if r.covers(&c) {
				return r.Action
			}
		}
	}
	return p.otherwise
}

func (r *rule) covers(c *Call) bool {
	for _, cond := range r.Args {
		if c.Args[cond.Arg]&cond.Mask != cond.Value {
			return false
		}
	}
	return true
}
