package lockdown_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/landlock"
	"mcp-server-suite/pkg/lockdown"
	"mcp-server-suite/pkg/stage"
)

// syscallInfo is struct ptrace_syscall_info of linux/ptrace.h, as far as it is the same for all kinds.
type syscallInfo struct {
	Op                          uint8 // one of the two below
	_                           [3]byte
	Arch                        uint32
	InstructionPointer, StackAt uint64
	// Number or, at the exit, what is returned; then the arguments.
	Value     uint64
	Arguments [6]uint64
	_         uint64
}

const ( // PTRACE_SYSCALL_INFO_*
	entry = 1
	exit  = 2
)

// ruleset is what the kernel has been told of one: "FILE: right, right", and "port N: right".
type ruleset struct {
	rules []string
	times int // that it has been put on a thread
}

// told runs a daemon that prints its posture under ptrace(2), and returns the ruleset that it has put on itself, as it was
// handed to the kernel in stage 1. What the daemon says of it is the other return value.
func told(t *testing.T, cmd *exec.Cmd) (rules []string, p lockdown.Posture) {
	t.Helper()
	runtime.LockOSThread() // the thread is the tracer, and the parent
	defer runtime.UnlockOSThread()
	out, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }() // it is read by then
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	main, begun := cmd.Process.Pid, 0
	must := func(err error) {
		if err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: it has ended meanwhile
			t.Fatal(err)
		}
	}
	sets, calls, asked := map[uint64]*ruleset{}, map[int]syscallInfo{}, map[int]string{}
	for done := false; !done; {
		var s unix.WaitStatus
		id, err := unix.Wait4(-1, &s, unix.WALL|unix.WNOTHREAD, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		deliver := 0
		switch {
		case !s.Stopped():
			done = id == main
			continue
		case s.StopSignal() == unix.SIGTRAP|0x80: // at a system call, PTRACE_O_TRACESYSGOOD
			var i syscallInfo
			_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(id), unsafe.Sizeof(i),
				uintptr(unsafe.Pointer(&i)), 0, 0)
			if errno != 0 {
				must(errno)
				break
			}
			if i.Op == entry {
				calls[id] = i
				if i.Value == unix.SYS_LANDLOCK_ADD_RULE {
					asked[id] = ruleAt(t, id, i.Arguments)
				}
			}
			if failed := int64(i.Value) < 0; i.Op == exit && !failed {
				switch c := calls[id]; c.Value {
				case unix.SYS_LANDLOCK_CREATE_RULESET:
					if c.Arguments[2] == 0 { // else it is a question
						sets[i.Value] = &ruleset{}
					}
				case unix.SYS_LANDLOCK_ADD_RULE:
					sets[c.Arguments[0]].rules = append(sets[c.Arguments[0]].rules, asked[id])
				case unix.SYS_LANDLOCK_RESTRICT_SELF:
					sets[c.Arguments[0]].times++
				}
			}
		case s.TrapCause() > 0: // a new thread
		case s.StopSignal() == unix.SIGTRAP && id == main: // it has executed a program
			if begun++; begun == 2 {
				must(unix.PtraceDetach(id))
				continue
			}
			must(unix.PtraceSetOptions(id, unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACESYSGOOD))
		case s.StopSignal() != unix.SIGSTOP: // SIGSTOP is the first word of a new thread
			deliver = int(s.StopSignal())
		}
		must(unix.PtraceSyscall(id, deliver))
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	restricted := 0
	for _, set := range sets {
		if restricted += set.times; set.times > 0 {
			rules = set.rules
		}
	}
	if restricted != 1 {
		t.Fatalf("%d domains; it says %.2000s", restricted, text)
	}
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatalf("%v: %.2000s", err, text)
	}
	return rules, p
}

// ruleAt reads the rule that a thread is about to add, while it is stopped.
func ruleAt(t *testing.T, thread int, arguments [6]uint64) string {
	t.Helper()
	var attr [16]byte
	if n, err := unix.PtracePeekData(thread, uintptr(arguments[2]), attr[:]); err != nil || n != len(attr) {
		t.Fatalf("read a rule: %d bytes, %v", n, err)
	}
	rights := binary.NativeEndian.Uint64(attr[:])
	names := func(kind landlock.Kind) string {
		var list []string
		for _, right := range landlock.Rights() {
			if right.Kind == kind && rights&right.Bit != 0 {
				list = append(list, right.Name)
				rights &^= right.Bit
			}
		}
		if rights != 0 {
			list = append(list, fmt.Sprintf("%#x", rights))
		}
		return strings.Join(list, ", ")
	}
	if arguments[1] == unix.LANDLOCK_RULE_PATH_BENEATH {
		fd := int32(binary.NativeEndian.Uint32(attr[8:]))
		path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", thread, fd))
		if err != nil {
			path = err.Error() // -1, by which the kernel is asked something; the rule is not added
		}
		return strings.Replace(path, fmt.Sprintf("/proc/%d/", thread), "/proc/self/", 1) + ": " + names(landlock.KindFile)
	}
	return fmt.Sprintf("port %d: %s", binary.NativeEndian.Uint64(attr[8:]), names(landlock.KindNet))
}

// The posture has the rules as they were meant. That they are also what was done shows in no probe: a rule that is wider
// than it should be looks like one that is not, until somebody uses it.
func TestTheKernelIsToldTheRulesOfThePostureAndNoOther(t *testing.T) {
	t.Parallel()
	needRoot(t)
	abi := needLandlock(t)
	for _, c := range profiles(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := stage.Daemon(t, stage.Options{Args: []string{"posture", "--json"}, Env: c.env})
			got, p := told(t, cmd)
			var want []string
			for _, rule := range p.Landlock.Rules {
				want = append(want, asTold(t, cmd.Path, rule, abi)...)
			}
			for _, port := range p.Landlock.Ports {
				if abi >= 4 {
					want = append(want, fmt.Sprintf("port %d: connect_tcp", port))
				}
			}
			if c.names && abi >= 10 {
				want = append(want, "port 53: connect_send_udp", "port 0: bind_udp")
			}
			if !slices.Equal(got, want) || len(want) < 3 {
				t.Errorf("the kernel is told\n%s\nthe posture has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// asTold is a rule with the name by which the kernel knows the file, and without the rights that its ABI does not take
// away; nothing if that is all of them.
func asTold(t *testing.T, program string, r lockdown.Rule, abi int) []string {
	t.Helper()
	path := r.Path
	if path == "/proc/self/exe" {
		path = program
	}
	if !strings.HasPrefix(path, "/proc/") {
		var err error
		if path, err = filepath.EvalSymlinks(path); err != nil {
			t.Fatal(err)
		}
	}
	var rights []string
	for _, right := range landlock.Handled(abi) {
		if right.Kind == landlock.KindFile && slices.Contains(r.Rights, right.Name) {
			rights = append(rights, right.Name)
		}
	}
	if len(rights) == 0 {
		return nil
	}
	return []string{path + ": " + strings.Join(rights, ", ")}
}
