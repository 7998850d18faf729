package seccomp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"

	libseccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// Filter is a compiled filter that was found to say what the table says. Decide and Program may be called at any
// time, the other methods by one goroutine.
type Filter struct {
	Instructions int // length of the program

	policy  *policy
	context *libseccomp.ScmpFilter
	program program
}

// hole is what is left out when a filter is built, to see that it is found. See hole.go.
type hole struct {
	row    string // ID of a row that is not given to libseccomp
	argsOf string // ID of a row that is given without its conditions
}

// Compile builds the filter with libseccomp and compares the program with the table. Nothing is loaded. It takes two
// pipe descriptors for a moment. The error names the row or the attribute that could not be had, for instance
// KILL_PROCESS where the kernel, gVisor or an outer filter does not offer it, or the call that the program answers
// differently from the table.
func Compile(s Settings) (*Filter, error) { return compile(s, plantedHole()) }

func compile(s Settings, h hole) (*Filter, error) {
	p, err := newPolicy(s)
	if err != nil {
		return nil, fmt.Errorf("choose rows: %w", err)
	}
	context, err := build(p, h)
	if err != nil {
		return nil, fmt.Errorf("build filter: %w", err)
	}
	f := &Filter{policy: p, context: context}
	if f.program, err = export(context); err != nil {
		return nil, fmt.Errorf("export filter: %w", err)
	}
	f.Instructions = len(f.program)
	if err := p.verify(f.program); err != nil {
		return nil, fmt.Errorf("verify filter: %w", err)
	}
	return f, nil
}

// build gives the rules to libseccomp. A rule that does what would happen without it is not given: libseccomp refuses
// it.
func build(p *policy, h hole) (*libseccomp.ScmpFilter, error) {
	otherwise, err := p.otherwise.lib()
	if err != nil {
		return nil, err
	}
	f, err := libseccomp.NewFilter(otherwise)
	if err != nil {
		// coverage: libseccomp has the actions of lib; beside that only memory can be missing
		return nil, fmt.Errorf("default action %v: %w", p.otherwise, err)
	}
	// The kernel and every filter around ours have to offer KILL_PROCESS, or this is EINVAL.
	if err := f.SetBadArchAction(libseccomp.ActKillProcess); err != nil {
		return nil, fmt.Errorf("KILL_PROCESS for foreign architectures: %w", err)
	}
	// no_new_privs is what lets a process without privilege load a filter.
	if err := f.SetNoNewPrivsBit(true); err != nil {
		// coverage: a filter that is not loaded yet has this attribute
		return nil, fmt.Errorf("no_new_privs: %w", err)
	}
	if err := onlyArch(f, p.arch); err != nil {
		return nil, err
	}
	for _, r := range p.rules {
		if r.Action == p.otherwise || r.ID == h.row {
			continue
		}
		if r.ID == h.argsOf {
			bare := *r
			bare.Args = nil
			r = &bare
		}
		if err := add(f, r); err != nil {
			return nil, fmt.Errorf("row %q: %w", r.ID, err)
		}
	}
	return f, nil
}

// onlyArch makes a filter, which is born for the machine's architecture, one for a only.
func onlyArch(f *libseccomp.ScmpFilter, a arch) error {
	native, err := libseccomp.GetNativeArch()
	if err != nil {
		// coverage: libseccomp knows what it was compiled for
		return fmt.Errorf("native architecture: %w", err)
	}
	if a.lib == native {
		return nil
	}
	if err := f.AddArch(a.lib); err != nil {
		return fmt.Errorf("architecture %s: %w", a.name, err)
	}
	if err := f.RemoveArch(native); err != nil {
		// coverage: a filter is born with the native architecture, and has another one by now
		return fmt.Errorf("without architecture %v: %w", native, err)
	}
	return nil
}

// add gives one rule to libseccomp; "exact" means that it may not rewrite it for an architecture.
func add(f *libseccomp.ScmpFilter, r *rule) error {
	action, err := r.Action.lib()
	if err != nil {
		return err
	}
	conditions := make([]libseccomp.ScmpCondition, len(r.Args))
	for i, c := range r.Args {
		op, values := libseccomp.CompareMaskedEqual, []uint64{c.Mask, c.Value}
		if c.Mask == ^uint64(0) {
			op, values = libseccomp.CompareEqual, []uint64{c.Value}
		}
		if conditions[i], err = libseccomp.MakeCondition(c.Arg, op, values...); err != nil {
			return fmt.Errorf("condition on argument %d: %w", c.Arg, err)
		}
	}
	// libseccomp wants the number of the architecture that we run on, and translates it to that of the filter.
	native, err := libseccomp.GetSyscallFromName(r.Syscall)
	if err != nil {
		return err
	}
	return f.AddRuleConditionalExact(native, action, conditions)
}

// lib is the action as libseccomp-golang counts it.
func (a Action) lib() (libseccomp.ScmpAction, error) {
	switch a {
	case Allow:
		return libseccomp.ActAllow, nil
	case Kill:
		return libseccomp.ActKillProcess, nil
	case EPERM:
		return libseccomp.ActErrno.SetReturnCode(int16(unix.EPERM)), nil
	case ENOSYS:
		return libseccomp.ActErrno.SetReturnCode(int16(unix.ENOSYS)), nil
	}
	return libseccomp.ActInvalid, fmt.Errorf("the table has no %v", a)
}

// export returns the program that libseccomp would load, checked.
func export(f *libseccomp.ScmpFilter) (program, error) {
	raw, err := written(f.ExportBPF)
	if err != nil {
		return nil, err
	}
	instructions := make([]unix.SockFilter, len(raw)/unix.SizeofSockFilter)
	if err := binary.Read(bytes.NewReader(raw), binary.NativeEndian, instructions); err != nil {
		// coverage: the slice was made as long as what there is to read
		return nil, fmt.Errorf("read program: %w", err)
	}
	return check(instructions)
}

// written returns what f writes to a file: libseccomp 2.5 knows no other way out. A pipe needs no file system, which
// Landlock may have closed, and no executable memfd, which vm.memfd_noexec may forbid.
func written(f func(*os.File) error) ([]byte, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open pipe: %w", err)
	}
	defer func() { _ = r.Close() }() // read to its end, or of no use
	done := make(chan error, 1)
	go func() {
		err := f(w)
		_ = w.Close() // a pipe keeps nothing back
		done <- err
	}()
	text, err := io.ReadAll(r)
	if err := errors.Join(<-done, err); err != nil {
		return nil, err
	}
	return text, nil
}

// apiLevel is the level of seccomp_api_get(3) that has what we need: 2 is seccomp(2) with TSYNC, 3 adds KILL_PROCESS.
const apiLevel = 3

// Load puts the filter on every thread of this process, for good; it also sets no_new_privs. The error says what is
// missing: libseccomp-golang alone goes on silently without TSYNC, on one thread. The caller still has to look at
// Seccomp_filters of each thread. A filter is loaded once, and cannot be printed afterwards.
func (f *Filter) Load() error {
	switch {
	case f.policy.arch.name != runtime.GOARCH:
		return fmt.Errorf("load filter: it is for %s", f.policy.arch.name)
	case !f.context.IsValid():
		return errors.New("load filter: it was loaded before")
	}
	level, err := libseccomp.GetAPI()
	if err != nil {
		// coverage: libseccomp has said its level since 2.4, and 2.5.4 is linked in
		return fmt.Errorf("load filter: API level: %w", err)
	}
	if level < apiLevel {
		return fmt.Errorf("load filter: TSYNC and KILL_PROCESS need API level %d, there is %d", apiLevel, level)
	}
	// libseccomp says ECANCELED for every error of the kernel, and with SCMP_FLTATR_API_SYSRAWRC EFAULT for EPERM.
	if err := f.context.Load(); err != nil {
		return fmt.Errorf("load filter: the kernel, or a filter around ours, refuses: %w", err)
	}
	f.context.Release()
	return nil
}

// Decide returns what the kernel would do with a call, by running the compiled program.
func (f *Filter) Decide(c Call) Action {
	if c.Arch == 0 {
		c.Arch = f.policy.arch.audit
	}
	return f.program.run(c)
}

// PFC returns the filter in libseccomp's readable form ("pseudo filter code"). It is an error once the filter is
// loaded: it would take a pipe, which the filter forbids.
func (f *Filter) PFC() (string, error) {
	if !f.context.IsValid() {
		return "", errors.New("export filter: it is loaded")
	}
	text, err := written(f.context.ExportPFC)
	if err != nil {
		// coverage: Compile has exported the same filter through a pipe before
		return "", fmt.Errorf("export filter: %w", err)
	}
	return string(text), nil
}

// Program returns a copy of the compiled program.
func (f *Filter) Program() []unix.SockFilter { return slices.Clone([]unix.SockFilter(f.program)) }
