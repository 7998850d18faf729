package lockdown

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/seccomp"
)

// ownProgram leads to the file of the running program, whatever its folder allows and even when it has been deleted.
const ownProgram = "/proc/self/exe"

// Confined is a process in stage 2: inside its Landlock domain, where the Plan has one, and able to open what the Plan
// grants. It still has all system calls until Seal.
type Confined struct {
	plan  Plan
	facts facts
}

// Enter confines the process to the plan. In stage 1 it returns only a *Fault: on success the program begins anew, with
// the same arguments, as stage 2. In stage 2 it returns the Confined once the confinement is proven. args are the
// program's with its name, environ is as os.Environ gives it.
//
// The process must have no work that matters yet: threads are replaced, and descriptors above 2 closed.
func Enter(p Plan, args, environ []string) (*Confined, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	f, second, err := mark(environ)
	if err != nil {
		return nil, &Fault{"re-exec", err, "unset " + markName + "; it is for the program's own use"}
	}
	if !second {
		return nil, p.stage1(args, environ)
	}
	c := &Confined{p, f}
	return c, c.stage2()
}

// Cgroup is what the control group allows, as it was when the process began.
func (c *Confined) Cgroup() Cgroup {
	if leftOut("tasks") {
		return Cgroup{}
	}
	return c.facts.Cgroup
}

// init keeps main's goroutine on the main thread until stage 2 has begun: that one has the process's name, and it is the
// one that begins the program anew.
func init() { runtime.LockOSThread() }

// stage1 is the order in which things happen on one thread, up to the re-exec. It returns only on a fault.
func (p Plan) stage1(args, environ []string) error {
	// The thread that init has locked: after the Landlock step it is good for the exec and for nothing else.

	if err := limits(p.OpenFiles); err != nil {
		return &Fault{"limits", err, ""}
	}
	if err := ownProc(); err != nil {
		return &Fault{"process", err, "mount /proc, that of its own PID namespace (unshare --mount-proc)"}
	}
	own, err := readStatus("/proc/self/status")
	if err != nil {
		return &Fault{"privileges", err, "mount /proc"}
	}
	if err := checkPrivileges(own); err != nil && !p.AllowPrivileged {
		return &Fault{"privileges", err, "run as another user without capabilities (docker run --user 10001:10001 --cap-drop ALL; " +
			"setpriv --reuid 10001 --regid 10001 --clear-groups), " +
			"or set " + privilegedSetting + "=true"}
	}
	unix.Umask(mask)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return &Fault{"process", fmt.Errorf("set no_new_privs: %w", err), "the runtime's seccomp profile must allow prctl"}
	}

	f := facts{Cgroup: p.Cgroup(), Rest: p.rest()}
	if f.Cgroup.Tasks > 0 && f.Cgroup.Tasks < leastTasks {
		return &Fault{
			"limits", fmt.Errorf("the control group allows %d threads", f.Cgroup.Tasks),
			fmt.Sprintf("allow %d or more (docker run --pids-limit)", leastTasks),
		}
	}
	if err := f.mounts(); err != nil {
		return &Fault{"process", err, "mount /proc"}
	}
	set := map[string]string{
		// Stage 2 cannot read the control group's files, from which the runtime would derive this itself. An operator's
		// GOMAXPROCS is in it: the runtime has taken it.
		"GOMAXPROCS": strconv.Itoa(processors(runtime.GOMAXPROCS(0), f.Cgroup.Tasks)),
	}
	if os.Getenv("GOMEMLIMIT") == "" { // an operator's stands
		set["GOMEMLIMIT"] = strconv.FormatInt(memoryLimit(p.Memory, f.Cgroup.MemoryBytes), 10)
	}
	pins, writeCoverage, err := openCoverage(set)
	if err != nil {
		return &Fault{"process", err, ""}
	}
	rules, err := p.restrict(&f)
	if err != nil {
		return err
	}
	pins = append(pins, rules...)

	next, err := p.environment(environ, set, f)
	if err != nil {
		return &Fault{"re-exec", err, ""}
	}
	if leftOut("pins") {
		pins = nil
	}
	if err := randomise(); err != nil {
		return &Fault{"process", err, "start it with random addresses (not by setarch -R), or let the runtime's seccomp profile allow personality"}
	}
	if err := closeOnExec(pins); err != nil {
		return &Fault{"descriptors", err, "the runtime's seccomp profile must allow close_range"}
	}
	writeCoverage()
	err = syscall.Exec(ownProgram, args, next)
	return &Fault{"re-exec", fmt.Errorf("execute %s: %w", ownProgram, err), ""}
}

// leastTasks is how many threads the Go runtime and one waiting read need: with fewer it dies in the middle of the work
// (measured: 6 abort under load, 8 abort on a busy machine).
const leastTasks = 12

// processors is at most an eighth of the threads that the control group allows, because the runtime keeps about as many
// threads as it has processors, and dies when it cannot make one; the CPU quota is in n already.
func processors(n int, tasks int64) int {
	if tasks > 0 {
		return min(n, max(1, int(min(tasks, math.MaxInt32))/8))
	}
	return n
}

// memoryLimit leaves a tenth of what the control group allows to stacks, code and what the kernel counts to us.
func memoryLimit(want, allowed int64) int64 {
	if allowed > 0 {
		return min(want, allowed/10*9)
	}
	return want
}

// stage2 proves on this thread and on fresh ones that the domain came along, and closes what only a process can close
// for itself after exec.
func (c *Confined) stage2() error {
	if err := os.Unsetenv(markName); err != nil {
		return &Fault{"re-exec", err, ""}
	}
	// Stage 1 leaves no_new_privs and an environment of its own choice behind. Where that is not so, somebody else has
	// set the mark.
	if got, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || got != 1 || !c.plan.scrubbed(os.Environ()) {
		return &Fault{"re-exec", errors.New("there was no stage 1"), "unset " + markName + "; it is for the program's own use"}
	}
	// First of all: until here a process of the same user can read our memory and environment, or trace us (SECURITY.md).
	// Files in /proc/self belong to root from now on (proc(5)); those that we need can be read by all.
	if !leftOut("dumpable") {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return &Fault{"process", fmt.Errorf("make the process not dumpable: %w", err), "the runtime's seccomp profile must allow prctl"}
		}
	}
	if got, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || got != 0 {
		return &Fault{"process", fmt.Errorf("the process is still dumpable: %d, %v", got, err), ""}
	}
	// The rest of what stage 1 did survives exec as well, so this changes nothing after a real one.
	own, err := readStatus(taskFolder + "/" + strconv.Itoa(os.Getpid()) + "/status")
	if err != nil {
		return &Fault{"privileges", err, ""}
	}
	if err := checkPrivileges(own); err != nil && !c.plan.AllowPrivileged {
		return &Fault{"privileges", err, ""}
	}
	if err := limits(c.plan.OpenFiles); err != nil {
		return &Fault{"limits", err, ""}
	}
	unix.Umask(mask)
	if err := inherited(); errors.Is(err, unix.EACCES) {
		return &Fault{"descriptors", err, "whatever confines this process already must let it read /proc/self"}
	} else if err != nil {
		return &Fault{"descriptors", err, "unset " + markName + "; it is for the program's own use"}
	}
	abi, _, err := c.plan.due()
	if err != nil {
		return err
	}
	if c.facts.ABI != abi {
		return &Fault{
			"landlock", fmt.Errorf("stage 1 left a domain of ABI %d where one of ABI %d is due", c.facts.ABI, abi),
			"unset " + markName + "; it is for the program's own use",
		}
	}
	if c.facts.ABI > 0 {
		closed := func() error { return c.plan.shut(c.facts) }
		if err := everywhere(elsewhere("door", closed)); err != nil {
			return &Fault{"landlock", fmt.Errorf("the domain does not hold after the re-exec: %w", err), ""}
		}
	}
	if !c.facts.Rest.equals(c.plan.rest()) {
		return &Fault{"re-exec", errors.New("the plan of stage 1 was another one"), "a file that the settings name has changed; start again"}
	}
	// The kernel has named the process after the file that it executed, exe. This is the main thread, by init.
	if name, err := unix.BytePtrFromString(programName); err == nil {
		_ = setThreadName(name) // for the reader of ps; nothing depends on it
	}
	runtime.UnlockOSThread()
	// Linux 6.3. Before that the filter alone keeps memory from becoming executable.
	if err := unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return &Fault{"process", fmt.Errorf("deny memory that is writable and executable: %w", err), "the runtime's seccomp profile must allow prctl"}
	}
	if c.filter().Openat2 {
		if err := closeIf(unix.Openat2(unix.AT_FDCWD, taskFolder, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})); err != nil {
			return &Fault{"openat2", err, "the runtime's seccomp profile must allow openat2 (systemd: RestrictSUIDSGID= hides it), or set " +
				landlockSetting + "=off, which does without"}
		}
	}
	return nil
}

const programName = "mcp-server-suite"

// Seal installs the system-call filter on all threads, proves it, and returns what is in force. After it no file
// can be opened for writing (pipes and memfds, which Landlock does not see, can), no program started, no socket made,
// beyond what the Plan's profiles keep. An error is a *Fault, and the process must not serve.
func (c *Confined) Seal() (Posture, error) {
	before, err := tasks()
	if err != nil {
		return Posture{}, &Fault{"seccomp", err, ""}
	}
	had, err := sameFilters(before)
	if err != nil && c.plan.Seccomp != Off {
		return Posture{}, &Fault{"seccomp", err, "use a kernel that does, or set " + seccompSetting + "=off"}
	}
	post := c.posture(before[os.Getpid()], had)
	post.traced(before)
	if c.plan.Seccomp == Off {
		post.Denials = c.plan.tryDenials(c.facts, false)
		if err := firstOpen(post.Denials); err != nil {
			return Posture{}, &Fault{"landlock", err, ""}
		}
		post.Threads = len(before)
		post.conclude(c, nil)
		crash()
		return post, nil
	}
	filter, err := seccomp.Compile(c.filter())
	if err != nil {
		return Posture{}, &Fault{"seccomp", err, withoutSeccomp}
	}
	if err := load(filter); err != nil {
		return Posture{}, &Fault{"seccomp", err, withoutSeccomp}
	}
	after, err := settled(had + 1)
	if err != nil {
		return Posture{}, &Fault{"seccomp", err, withoutSeccomp}
	}
	post.Threads = len(after)
	post.traced(after)
	post.Seccomp.Filters = had + 1
	post.Seccomp.Enforced = true
	denied := func() error { return firstOpen(c.plan.tryDenials(c.facts, true)) }
	if !leftOut("hollow, probes") {
		if err := everywhere(elsewhere("denial", denied)); err != nil {
			return Posture{}, &Fault{"seccomp", err, ""}
		}
	}
	post.Denials = c.plan.tryDenials(c.facts, true)
	post.conclude(c, filter)
	crash()
	return post, nil
}
