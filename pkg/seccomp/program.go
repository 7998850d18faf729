package seccomp

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Action is what the kernel does with a call: a value that a seccomp program returns (seccomp(2)).
type Action uint32

// The actions of the table. The zero value is none of them.
const (
	Allow  Action = unix.SECCOMP_RET_ALLOW
	Kill   Action = unix.SECCOMP_RET_KILL_PROCESS
	EPERM  Action = unix.SECCOMP_RET_ERRNO | Action(unix.EPERM)
	ENOSYS Action = unix.SECCOMP_RET_ERRNO | Action(unix.ENOSYS)
)

// Errno returns the error that the caller gets, 0 when the action is not one that answers with an error.
func (a Action) Errno() syscall.Errno {
	if a&unix.SECCOMP_RET_ACTION_FULL != unix.SECCOMP_RET_ERRNO {
		return 0
	}
	return syscall.Errno(a & unix.SECCOMP_RET_DATA)
}

func (a Action) String() string {
	switch {
	case a == Allow:
		return "allow"
	case a == Kill:
		return "kill process"
	case a.Errno() != 0:
		return "errno " + unix.ErrnoName(a.Errno())
	}
	return fmt.Sprintf("action %#08x", uint32(a))
}

// Call is a system call as a filter sees it.
type Call struct {
	Arch   uint32 // AUDIT_ARCH_*; 0 is the architecture that the filter was compiled for
	Number uint32
	Args   [6]uint64
}

// program is classic BPF that [check] has accepted.
type program []unix.SockFilter

// The subset of classic BPF that libseccomp writes. The kernel allows a little more (seccomp_check_filter); what is
// not here is refused, not guessed.
const (
	opLoad = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	opAnd  = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	opJump = unix.BPF_JMP | unix.BPF_JA
	opEq   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	opGt   = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
	opGe   = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	opSet  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	opRet  = unix.BPF_RET | unix.BPF_K
)

// seccompDataBytes is sizeof(struct seccomp_data): number, architecture, instruction pointer, six arguments.
const seccompDataBytes = 64

// check accepts a program that surely ends with a return: every instruction known, every load inside seccomp_data and
// aligned, every jump forward and inside, the last instruction a return. An error names the instruction's index.
func check(p []unix.SockFilter) (program, error) {
	if len(p) == 0 || len(p) > unix.BPF_MAXINSNS {
		return nil, fmt.Errorf("a program of %d instructions, not 1 to %d", len(p), unix.BPF_MAXINSNS)
	}
	if p[len(p)-1].Code != opRet {
		return nil, errors.New("the last instruction is no return")
	}
	for i, in := range p {
		rest := len(p) - i - 1 // instructions behind this one
		switch in.Code {
		case opLoad:
			if in.K%4 != 0 || in.K >= seccompDataBytes {
				return nil, fmt.Errorf("instruction %d loads from offset %d", i, in.K)
			}
		case opJump:
			if int(in.K) >= rest {
				return nil, fmt.Errorf("instruction %d jumps out of the program", i)
			}
		case opEq, opGt, opGe, opSet:
			if int(max(in.Jt, in.Jf)) >= rest {
				return nil, fmt.Errorf("instruction %d jumps out of the program", i)
			}
		case opAnd, opRet:
		default:
			return nil, fmt.Errorf("instruction %d has the unknown code %#x", i, in.Code)
		}
	}
	return p, nil
}

// run returns what the program returns for a call. It only moves forward, and a program from [check] ends with a
// return.
func (p program) run(c Call) Action {
	var a uint32
	for i := 0; ; i++ {
		in := &p[i]
		taken := false
		switch in.Code {
		case opEq: // nine of ten
			taken = a == in.K
		case opRet:
			return Action(in.K)
		case opLoad:
			a = c.word(in.K)
			continue
		case opAnd:
			a &= in.K
			continue
		case opJump:
			i += int(in.K)
			continue
		case opGt:
			taken = a > in.K
		case opGe:
			taken = a >= in.K
		case opSet:
			taken = a&in.K != 0
		}
		if taken {
			i += int(in.Jt)
		} else {
			i += int(in.Jf)
		}
	}
}

// word is the 32-bit word at an offset of struct seccomp_data on a little-endian machine, which both architectures
// are. The instruction pointer is 0: no row looks at it.
func (c Call) word(offset uint32) uint32 {
	switch offset {
	case 0:
		return c.Number
	case 4:
		return c.Arch
	case 8, 12:
		return 0
	}
	argument := c.Args[(offset-16)/8]
	if offset%8 == 0 {
		return uint32(argument) // #nosec G115 -- the low half
	}
	return uint32(argument >> 32)
}
