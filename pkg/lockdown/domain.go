package lockdown

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/landlock"
)

// restrict puts the Landlock domain on this thread and proves it there: each thing is tried before and after. It returns
// the descriptors that stage 2 must keep open: a rule on a file of /proc holds for one inode, which the kernel drops
// under memory pressure unless something pins it (measured: EACCES after drop_caches).
func (p Plan) restrict(f *facts) (pins []int, err error) {
	if f.ABI, f.Why, err = p.due(); err != nil || f.ABI == 0 {
		return nil, err
	}
	rules, err := landlock.New(f.ABI)
	if err != nil {
		return nil, &Fault{"landlock", err, whatWithoutLandlock(err)}
	}
	pins, err = p.grant(rules, f)
	if err != nil {
		return nil, &Fault{"landlock", err, whatWithoutLandlock(err)}
	}
	if err := rules.Confirm(); err != nil {
		return nil, &Fault{"landlock", fmt.Errorf("the ruleset is not what the kernel confirms: %w", err), ""}
	}
	f.Other = somebody()
	before := observe(p.doors(f.ABI, f.Other))
	if !leftOut("domain") {
		if err := rules.RestrictThread(); err != nil {
			return nil, &Fault{"landlock", err, whatWithoutLandlock(err)}
		}
	}
	if err := rules.Close(); err != nil {
		return nil, &Fault{"landlock", err, ""}
	}
	if err := before.closed(); err != nil {
		return nil, &Fault{"landlock", fmt.Errorf("the domain does not hold: %w", err), ""}
	}
	return pins, nil
}

// due says which ABI the domain of this plan has on this kernel: 0 and why there is none, or a *Fault where there has to
// be one. Stage 1 goes by it, and stage 2 holds it against what stage 1 says that it has left.
func (p Plan) due() (abi int, why string, err error) {
	if p.Landlock == Off {
		return 0, landlockSetting + "=off", nil
	}
	abi, err = landlock.ABI()
	abi = masked(abi)
	switch {
	case err != nil && p.Landlock == IfAvailable && refused(err):
		return 0, err.Error(), nil
	case err != nil:
		return 0, "", &Fault{"landlock", err, whatWithoutLandlock(err)}
	case abi < p.MinABI:
		return 0, "", &Fault{
			"landlock", fmt.Errorf("the kernel has ABI %d, %s asks for %d", abi, minABISetting, p.MinABI),
			"use a newer kernel, or a lower " + minABISetting,
		}
	}
	return min(abi, landlock.KnownABI), "", nil
}

// refused tells a kernel or a runtime that does not have or let us have Landlock from everything else that can go wrong.
func refused(err error) bool {
	return errors.Is(err, landlock.ErrUnavailable) || errors.Is(err, unix.EPERM)
}

func whatWithoutLandlock(err error) string {
	switch {
	case errors.Is(err, landlock.ErrUnavailable):
		return "use a kernel with Landlock (5.13 or newer, landlock in lsm=) and a runtime whose seccomp profile does not hide it, " +
			"or set " + landlockSetting + "=if-available or off"
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		return "the runtime's seccomp profile must allow landlock_create_ruleset, landlock_add_rule and landlock_restrict_self " +
			"(if it allows none of them, " + landlockSetting + "=if-available does without), or set " + landlockSetting + "=off"
	}
	return ""
}

// grant adds the rules. On error the caller ends the process, which closes what is open.
func (p Plan) grant(rules *landlock.Ruleset, f *facts) (pins []int, err error) {
	open := func(path string) (int, error) {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, fmt.Errorf("open %q: %w", path, err)
		}
		return fd, nil
	}
	own, err := open(ownProgram)
	if err != nil {
		return nil, err
	}
	program := Rule{Path: ownProgram, rights: landlock.Execute | landlock.ReadFile}
	if err := rules.AllowPath(own, program.rights); errors.Is(err, unix.EBADFD) {
		return nil, fmt.Errorf("the program was not started from a file of a file system (a memfd, perhaps): %w", err)
	} else if err != nil {
		return nil, err
	}
	f.add(program)
	threads := Grant{Path: taskFolder, List: true} // for the comparison of all threads; /proc/1 is not in there
	for _, g := range append([]Grant{threads}, p.Grants...) {
		fd, err := open(g.Path)
		if err != nil && g.Optional && isAbsent(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		rule := Rule{Path: g.Path, rights: landlock.ReadFile}
		switch {
		case g.Sockets:
			rule.rights = landlock.ResolveUnix
		case g.List:
			rule.rights |= landlock.ReadDir
		}
		if err := rules.AllowPath(fd, rule.rights); err != nil {
			return nil, fmt.Errorf("allow %q: %w", g.Path, err)
		}
		pins = append(pins, fd)
		f.add(rule)
	}
	for _, port := range p.ConnectTCP {
		if err := rules.AllowConnectTCP(port); err != nil {
			return nil, err
		}
	}
	for _, port := range p.SendUDP {
		if err := rules.AllowUDP(port); err != nil {
			return nil, err
		}
	}
	return pins, nil
}

// isAbsent includes EACCES: what this user cannot reach is as good as not there, and its figure will say so.
func isAbsent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES)
}
