package seccomp

import (
	"fmt"
	"iter"

	"golang.org/x/sys/unix"
)

// ones is an argument with every bit set.
const ones = ^uint64(0)

// foreign are architectures that a process of ours could be made to speak, or could not.
func foreign() []uint32 {
	return []uint32{
		unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_RISCV64,
		0, 0xffffffff,
	}
}

// verify runs a program for calls that tell it from every filter that is a row or a condition away, and compares it
// with what the policy wants. The error names the row or the number that is answered differently.
func (p *policy) verify(prog program) error {
	for _, r := range p.rules {
		if c, ok := p.differs(prog, r.calls(p.arch.audit)); ok {
			return p.difference(prog, c, fmt.Sprintf("row %q", r.ID))
		}
	}
	if c, ok := p.differs(prog, p.otherCalls()); ok {
		return p.difference(prog, c, "no row")
	}
	return nil
}

// differs returns the first call that a program and the policy answer differently.
func (p *policy) differs(prog program, calls iter.Seq[Call]) (Call, bool) {
	for c := range calls {
		if prog.run(c) != p.decide(c) {
			return c, true
		}
	}
	return Call{}, false
}

func (p *policy) difference(prog program, c Call, what string) error {
	return fmt.Errorf("%s: the program answers %v to call %d on %#x with %#x, the table says %v",
		what, prog.run(c), c.Number, c.Arch, c.Args, p.decide(c))
}

// calls yields two calls that a rule covers, with everything that it does not look at clear and set, and for each
// condition the calls that violate it by one bit.
func (r *rule) calls(audit uint32) iter.Seq[Call] {
	covered := func(rest uint64) Call {
		c := Call{Arch: audit, Number: r.number, Args: [6]uint64{rest, rest, rest, rest, rest, rest}}
		for _, cond := range r.Args {
			c.Args[cond.Arg] = cond.Value | rest&^cond.Mask
		}
		return c
	}
	return func(yield func(Call) bool) {
		c := covered(0)
		if !yield(covered(ones)) || !yield(c) {
			return
		}
		for _, cond := range r.Args {
			for bit := uint64(1); bit != 0; bit <<= 1 {
				bad := c
				bad.Args[cond.Arg] ^= bit
				if cond.Mask&bit != 0 && !yield(bad) {
					return
				}
			}
		}
	}
}

// otherCalls yields every number with arguments clear and set, numbers of x32, and other architectures.
func (p *policy) otherCalls() iter.Seq[Call] {
	set := [6]uint64{ones, ones, ones, ones, ones, ones}
	return func(yield func(Call) bool) {
		for n := range uint32(numbers) {
			if !yield(Call{Arch: p.arch.audit, Number: n}) || !yield(Call{Arch: p.arch.audit, Number: n, Args: set}) ||
				!yield(Call{Arch: p.arch.audit, Number: n | x32Bit}) {
				return
			}
			for _, a := range foreign() {
				if !yield(Call{Arch: a, Number: n}) {
					return
				}
			}
		}
		for bit := uint32(numbers); bit != 0; bit <<= 1 {
			if !yield(Call{Arch: p.arch.audit, Number: bit}) || !yield(Call{Arch: p.arch.audit, Number: -bit}) {
				return
			}
		}
		_ = yield(Call{Arch: p.arch.audit, Number: ^uint32(0)})
	}
}
