package seccomp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// The JSON of a seccomp profile: "seccomp" in the OCI runtime specification (config-linux.md), which Docker,
// containerd and CRI-O read as it is. Docker alone would also read archMap.
type (
	ociProfile struct {
		DefaultAction   string       `json:"defaultAction"`
		DefaultErrnoRet int          `json:"defaultErrnoRet"`
		Architectures   []string     `json:"architectures"`
		Syscalls        []ociSyscall `json:"syscalls"`
	}
	ociSyscall struct {
		Names    []string `json:"names"`
		Action   string   `json:"action"`
		ErrnoRet int      `json:"errnoRet,omitempty"`
		Args     []ociArg `json:"args,omitempty"`
		Comment  string   `json:"comment"` // Docker's field; the others skip what they do not know
	}
	ociArg struct {
		Index    uint   `json:"index"`
		Value    uint64 `json:"value"`
		ValueTwo uint64 `json:"valueTwo,omitempty"`
		Op       string `json:"op"`
	}
)

// namespaceFlags are the CLONE_NEW* flags: NS, CGROUP, UTS, IPC, USER, PID, NET. Docker's profile has the same mask.
const namespaceFlags = 0x7e020000

// OCI returns a seccomp profile, indented JSON, for the runtime that starts the daemon: the outer wall, which holds
// before the daemon has put up its own and if it never does. It allows by name what any profile of the table allows
// and what the start needs, on both architectures; the rest answers EPERM. It is made for containers with
// no_new_privs (Docker: --security-opt no-new-privileges; Kubernetes: allowPrivilegeEscalation false): without it
// runc loads a filter before it changes the user, and this one allows no change of user.
func OCI() ([]byte, error) {
	const allow, eq = "SCMP_ACT_ALLOW", "SCMP_CMP_EQ"
	special := []string{"socket", "clone", "clone3", "ioctl", "personality"} // with conditions or another answer, below
	seen := slices.Clone(special)
	fresh := func(names []string) []string {
		var out []string
		for _, n := range names {
			if !slices.Contains(seen, n) {
				seen, out = append(seen, n), append(out, n)
			}
		}
		slices.Sort(out)
		return out
	}
	p := ociProfile{
		DefaultAction: "SCMP_ACT_ERRNO", DefaultErrnoRet: int(unix.EPERM),
		Architectures: []string{"SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"},
	}
	var inner []string
	for _, row := range Table() {
		if row.Action == Allow {
			inner = append(inner, row.Syscall)
		}
	}
	p.Syscalls = append(p.Syscalls, ociSyscall{
		Names: fresh(inner), Action: allow, Comment: "what a profile of the daemon allows",
	})
	for _, g := range outer() {
		p.Syscalls = append(p.Syscalls, ociSyscall{Names: fresh(g.names), Action: allow, Comment: g.why})
	}
	for _, family := range []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6} {
		p.Syscalls = append(p.Syscalls, ociSyscall{
			Names: []string{"socket"}, Action: allow, Args: []ociArg{{Index: 0, Value: family, Op: eq}},
			Comment: "Unix, IPv4 and IPv6: a database, and the probes",
		})
	}
	p.Syscalls = append(
		p.Syscalls,
		ociSyscall{
			Names: []string{"clone"}, Action: allow,
			Args:    []ociArg{{Index: 0, Value: namespaceFlags, ValueTwo: 0, Op: "SCMP_CMP_MASKED_EQ"}},
			Comment: "no new namespace",
		},
		ociSyscall{
			Names: []string{"clone3"}, Action: "SCMP_ACT_ERRNO", ErrnoRet: int(unix.ENOSYS),
			Comment: "its flags are in memory; glibc then takes clone",
		},
		ociSyscall{
			Names: []string{"ioctl"}, Action: allow, Args: []ociArg{{Index: 1, Value: unix.TCGETS, Op: eq}},
			Comment: "is stdin a terminal",
		},
	)
	for _, what := range []uint64{0, 0xffffffff} {
		p.Syscalls = append(p.Syscalls, ociSyscall{
			Names: []string{"personality"}, Action: allow, Args: []ociArg{{Index: 0, Value: what, Op: eq}},
			Comment: "to ask whether addresses are random, and to switch that on",
		})
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "\t")
	if err := enc.Encode(p); err != nil {
		// coverage: strings and numbers can always be encoded, and a buffer takes them
		return nil, fmt.Errorf("encode profile: %w", err)
	}
	return out.Bytes(), nil
}
