package landlock

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// answerWith makes the kernel answer one system call of this thread with an errno (0: success, and nothing done), as an
// older kernel or somebody's filter would.
func answerWith(number uint32, errno unix.Errno) error {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	return install(program)
}

func install(program []unix.SockFilter) error {
	head := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&head)), 0, 0)
}

// answerForPorts makes the kernel answer landlock_add_rule with an errno where the rule is for a port.
func answerForPorts(errno unix.Errno) error {
	const kind = 16 + 8 // offset of the low half of the second argument
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_LANDLOCK_ADD_RULE, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: kind},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: ruleNetPort, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	return install(program)
}

// filterTask asks under such a filter. Arguments: "abi", or what is filtered of "confirm": all of it, its "twin" or its
// "ports"; errno.
func filterTask(args []string) (string, error) {
	errno, err := strconv.Atoi(args[1])
	if err != nil {
		return "", err
	}
	if args[0] == "abi" {
		if err := answerWith(unix.SYS_LANDLOCK_CREATE_RULESET, unix.Errno(errno)); err != nil {
			return "", err
		}
		_, err = ABI()
	} else {
		r, problem := New(1)
		if problem != nil {
			return "", problem
		}
		switch args[0] {
		case "confirm":
			problem = answerWith(unix.SYS_LANDLOCK_ADD_RULE, unix.Errno(errno))
		case "twin":
			problem = answerWith(unix.SYS_LANDLOCK_CREATE_RULESET, unix.Errno(errno))
		case "ports":
			problem = answerForPorts(unix.Errno(errno))
		}
		if problem != nil {
			return "", problem
		}
		err = r.Confirm()
	}
	if err == nil {
		return "", errors.New("no error")
	}
	return fmt.Sprintf("%t %t %v", errors.Is(err, ErrUnavailable), errors.Is(err, unix.Errno(errno)), err), nil
}

func TestABITellsNoLandlockFromNoPermission(t *testing.T) {
	for _, c := range []struct {
		name  string
		errno unix.Errno
		want  string // ErrUnavailable? the errno? the text
		why   string
	}{
		{
			"ENOSYS", unix.ENOSYS, "true true ask for the landlock abi: landlock is not available: function not implemented",
			"the kernel was built without",
		},
		{
			"EOPNOTSUPP", unix.EOPNOTSUPP,
			"true true ask for the landlock abi: landlock is not available: operation not supported", "not in lsm=",
		},
		{
			"EPERM", unix.EPERM, "false true ask for the landlock abi: operation not permitted",
			"somebody does not let us ask; what the kernel has is unknown",
		},
		{"success", 0, "false false ask for the landlock abi: the answer is 0", "a filter that pretends"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := do(t, "filter", "abi", strconv.Itoa(int(c.errno))); got != c.want {
				t.Errorf("got %q, want %q: %s", got, c.want, c.why)
			}
		})
	}
}

func TestConfirmBelievesNoFilter(t *testing.T) {
	needABI(t, 1)
	for _, c := range []struct {
		name  string
		errno unix.Errno
		want  string
		why   string
	}{
		{
			"success", 0, "false false confirm landlock ruleset: a rule for no directory was accepted",
			"the rules would not be there either",
		},
		{
			"EPERM", unix.EPERM,
			"false true confirm landlock ruleset: add a rule for no directory: operation not permitted", "not an answer",
		},
		{
			"EBADF", unix.EBADF,
			"false false confirm landlock ruleset: the kernel handles a right that does not exist",
			"without the question about noRight all rights would seem to be handled",
		},
		{
			"EINVAL", unix.EINVAL,
			"false false confirm landlock ruleset for abi 1: execute is not handled, write_file is not handled, " +
				"read_file is not handled, read_dir is not handled, remove_dir is not handled, " +
				"remove_file is not handled, make_char is not handled, make_dir is not handled, " +
				"make_reg is not handled, make_sock is not handled, make_fifo is not handled, " +
				"make_block is not handled, make_sym is not handled", "as if nothing were handled",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := do(t, "filter", "confirm", strconv.Itoa(int(c.errno))); got != c.want {
				t.Errorf("got %q, want %q: %s", got, c.want, c.why)
			}
		})
	}
}

// The second half of the questions is asked of another ruleset, by rules for ports.
func TestConfirmBelievesNoFilterInItsSecondHalf(t *testing.T) {
	needABI(t, 4)
	for _, c := range []struct{ what, want, why string }{
		{
			"twin", "false true confirm landlock ruleset: make landlock ruleset for abi 1: operation not permitted",
			"there is nothing to ask",
		},
		{
			"ports", "false true confirm landlock ruleset: bind_tcp: add a rule for a port: operation not permitted",
			"EPERM is no answer to the question",
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			if got := do(t, "filter", c.what, strconv.Itoa(int(unix.EPERM))); got != c.want {
				t.Errorf("got %q, want %q: %s", got, c.want, c.why)
			}
		})
	}
}

func TestABitWithoutARowHasANameAllTheSame(t *testing.T) {
	if got := nameOf(KindFile, unix.LANDLOCK_ACCESS_FS_EXECUTE); got != "execute" {
		t.Error(got)
	}
	if got := nameOf(KindNet, 1<<40); got != string(KindNet)+" right 0x10000000000" {
		t.Error(got)
	}
}
