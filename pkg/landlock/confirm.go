package landlock

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// stated says what a ruleset for this ABI must handle, a second time and as numbers. It must not be made from the table
// that New uses: a row that was left out there by mistake would be left out here as well.
func stated(abi int) masks {
	var m masks
	switch {
	case abi >= 9:
		m.fs = 0x1ffff
	case abi >= 5:
		m.fs = 0xffff
	case abi >= 3:
		m.fs = 0x7fff
	case abi >= 2:
		m.fs = 0x3fff
	case abi >= 1:
		m.fs = 0x1fff
	}
	switch {
	case abi >= 10:
		m.net = 0xf
	case abi >= 4:
		m.net = 0x3
	}
	if abi >= 6 {
		m.scope = 0x3
	}
	return m
}

// noRight is a bit that no ABI has.
const noRight = 1 << 63

// Confirm asks the kernel, right by right, whether the ruleset handles exactly what its ABI has. The rules of the
// ruleset stay as they are. Differences are one error that names them; an answer that is none is another one.
//
// Scopes cannot be asked about, since there are no rules for them: whether they hold can only be tried.
func (r *Ruleset) Confirm() error {
	// With a closed ruleset, or under a filter that answers EBADF for everything, each right would look handled.
	switch handled, err := r.handles(noRight); {
	case err != nil:
		return fmt.Errorf("confirm landlock ruleset: %w", err)
	case handled:
		return errors.New("confirm landlock ruleset: the kernel handles a right that does not exist")
	}
	// A rule for a port cannot be asked about without being added. It is added to a ruleset that was made in the same
	// way and is thrown away.
	twin, err := newRuleset(r.abi, r.without)
	if err != nil {
		return fmt.Errorf("confirm landlock ruleset: %w", err)
	}
	defer func() { _ = twin.Close() }() // nothing depends on it: it was never used

	want := stated(r.abi)
	var differ []string
	ask := func(kind Kind, want, all uint64, handles func(uint64) (bool, error)) error {
		for bit := uint64(1); bit <= all; bit <<= 1 {
			handled, err := handles(bit)
			switch {
			case err != nil:
				return fmt.Errorf("confirm landlock ruleset: %s: %w", nameOf(kind, bit), err)
			case handled && want&bit == 0:
				differ = append(differ, nameOf(kind, bit)+" is handled")
			case !handled && want&bit != 0:
				differ = append(differ, nameOf(kind, bit)+" is not handled")
			}
		}
		return nil
	}
	if err := ask(KindFile, want.fs, stated(KnownABI).fs, r.handles); err != nil {
		// coverage: the kernel has just answered the same question about noRight
		return err
	}
	if err := ask(KindNet, want.net, stated(KnownABI).net, twin.handlesPort); err != nil {
		return err
	}
	if len(differ) > 0 {
		return fmt.Errorf("confirm landlock ruleset for abi %d: %s", r.abi, strings.Join(differ, ", "))
	}
	return nil
}

// handles asks by a rule that cannot be added. landlock_add_rule looks at the rights before it looks at the descriptor
// of the directory: EINVAL for rights that the ruleset does not handle, else EBADF for -1. The order is the same in the
// sources of 5.15 and of ABI 4 and 7, and where it is not, Confirm itself fails on noRight.
func (r *Ruleset) handles(fileRight uint64) (bool, error) {
	err := addPathRule(r.fd, fileRight, -1)
	switch {
	case errors.Is(err, unix.EBADF):
		return true, nil
	case errors.Is(err, unix.EINVAL):
		return false, nil
	case err == nil:
		return false, errors.New("a rule for no directory was accepted")
	}
	return false, fmt.Errorf("add a rule for no directory: %w", err)
}

// handlesPort asks by adding a rule, and so gives the right away. No argument would do for handles' question: a port
// that is none and a right that is not handled are both EINVAL.
func (r *Ruleset) handlesPort(netRight uint64) (bool, error) {
	err := addPortRule(r.fd, netRight, 1)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EINVAL):
		return false, nil
	}
	return false, fmt.Errorf("add a rule for a port: %w", err)
}

// nameOf does not depend on the table having a row for the bit.
func nameOf(kind Kind, bit uint64) string {
	for _, right := range Rights() {
		if right.Kind == kind && right.Bit == bit {
			return right.Name
		}
	}
	return fmt.Sprintf("%s right %#x", kind, bit)
}
