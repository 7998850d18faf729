package lockdown

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/landlock"
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

	own, err := readStatus("/proc/self/status")
	if err != nil {
		return &Fault{"privileges", err, "mount /proc"}
	}
	if err := checkPrivileges(own); err != nil && !p.AllowPrivileged {
		return &Fault{"privileges", err, "run as another user without capabilities (docker run --user 10001:10001 --cap-drop ALL), " +
			"or set " + privilegedSetting + "=true"}
	}
	if err := limits(p.OpenFiles); err != nil {
		return &Fault{"limits", err, ""}
	}
	unix.Umask(mask)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return &Fault{"process", fmt.Errorf("set no_new_privs: %w", err), ""}
	}

	f := facts{Cgroup: p.Cgroup()}
	if err := f.mounts(); err != nil {
		return &Fault{"process", err, "mount /proc"}
	}
	set := map[string]string{
		// Stage 2 cannot read the control group's files, from which the runtime would derive this itself.
		"GOMAXPROCS": strconv.Itoa(processors(runtime.GOMAXPROCS(0), f.Cgroup.Tasks)),
		"GOMEMLIMIT": strconv.FormatInt(memoryLimit(p.Memory, f.Cgroup.MemoryBytes), 10),
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

	next, err := environment(environ, set, f)
	if err != nil {
		return &Fault{"re-exec", err, ""}
	}
	if leftOut("pins") {
		pins = nil
	}
	if err := closeOnExec(pins); err != nil {
		return &Fault{"descriptors", err, "the runtime's seccomp profile must allow close_range"}
	}
	writeCoverage()
	err = syscall.Exec(ownProgram, args, next)
	return &Fault{"re-exec", fmt.Errorf("execute %s: %w", ownProgram, err), ""}
}

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

// restrict puts the Landlock domain on this thread and proves it there: each thing is tried before and after. It returns
// the descriptors that stage 2 must keep open: a rule on a file of /proc holds for one inode, which the kernel drops
// under memory pressure unless something pins it (measured: EACCES after drop_caches).
func (p Plan) restrict(f *facts) (pins []int, err error) {
	if p.Landlock == Off {
		f.Why = landlockSetting + "=off"
		return nil, nil
	}
	abi, err := landlock.ABI()
	abi = masked(abi)
	switch {
	case err != nil && p.Landlock == IfAvailable && refused(err):
		f.Why = err.Error()
		return nil, nil
	case err != nil:
		return nil, &Fault{"landlock", err, whatWithoutLandlock(err)}
	case abi < p.MinABI:
		return nil, &Fault{
			"landlock", fmt.Errorf("the kernel has ABI %d, %s asks for %d", abi, minABISetting, p.MinABI),
			"use a newer kernel, or a lower " + minABISetting,
		}
	}
	f.ABI = min(abi, landlock.KnownABI)
	rules, err := landlock.New(f.ABI)
	if err != nil {
		return nil, &Fault{"landlock", err, whatWithoutLandlock(err)}
	}
	pins, err = p.grant(rules, f)
	if err != nil {
		return nil, &Fault{"landlock", err, ""}
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

// refused tells a kernel or a runtime that does not have or let us have Landlock from everything else that can go wrong.
func refused(err error) bool {
	return errors.Is(err, landlock.ErrUnavailable) || errors.Is(err, unix.EPERM)
}

func whatWithoutLandlock(err error) string {
	if errors.Is(err, unix.EPERM) {
		return "the runtime's seccomp profile must allow the landlock system calls, or set " +
			landlockSetting + "=if-available or off"
	}
	return "use a kernel with Landlock (5.13 or newer, landlock in lsm=), or set " + landlockSetting + "=if-available or off"
}

// grant adds the rules. On error the caller ends the process, which closes what is open.
func (p Plan) grant(rules *landlock.Ruleset, f *facts) (pins []int, err error) {
	open := func(path string) (int, error) {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: path, Err: err}
		}
		return fd, nil
	}
	own, err := open(ownProgram)
	if err != nil {
		return nil, err
	}
	program := Rule{Path: ownProgram, rights: landlock.Execute | landlock.ReadFile}
	if err := rules.AllowPath(own, program.rights); err != nil {
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
		if g.List {
			rule.rights |= landlock.ReadDir
		}
		if err := rules.AllowPath(fd, rule.rights); err != nil {
			return nil, fmt.Errorf("allow %s: %w", g.Path, err)
		}
		pins = append(pins, fd)
		f.add(rule)
	}
	for _, port := range p.ConnectTCP {
		if err := rules.AllowConnectTCP(port); err != nil {
			return nil, err
		}
	}
	return pins, nil
}

// isAbsent includes EACCES: what this user cannot reach is as good as not there, and its figure will say so.
func isAbsent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES)
}

// stage2 proves on this thread and on fresh ones that the domain came along, and closes what only a process can close
// for itself after exec.
func (c *Confined) stage2() error {
	if err := os.Unsetenv(markName); err != nil {
		return &Fault{"re-exec", err, ""}
	}
	// Stage 1 leaves no_new_privs and an environment of its own choice behind. Where that is not so, somebody else has
	// set the mark.
	if got, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || got != 1 || !scrubbed(os.Environ()) {
		return &Fault{"re-exec", errors.New("there was no stage 1"), "unset " + markName + "; it is for the program's own use"}
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
	if c.plan.Landlock == Require && c.facts.ABI < c.plan.MinABI {
		return &Fault{"landlock", fmt.Errorf("stage 1 left ABI %d", c.facts.ABI), "unset " + markName}
	}
	if c.facts.ABI > 0 {
		closed := func() error { return c.plan.shut(c.facts) }
		if err := everywhere(closed); err != nil {
			return &Fault{"landlock", fmt.Errorf("the domain does not hold after the re-exec: %w", err), ""}
		}
	}
	// The kernel has named the process after the file that it executed, exe. This is the main thread, by init.
	if name, err := unix.BytePtrFromString(programName); err == nil {
		_ = setThreadName(name) // for the reader of ps; nothing depends on it
	}
	runtime.UnlockOSThread()
	// Not before: files in /proc/self belong to root once the process is not dumpable (proc(5)).
	if !leftOut("dumpable") {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return &Fault{"process", fmt.Errorf("make the process not dumpable: %w", err), ""}
		}
	}
	if got, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || got != 0 {
		return &Fault{"process", fmt.Errorf("the process is still dumpable: %d, %v", got, err), ""}
	}
	// Linux 6.3. Before that the filter alone keeps memory from becoming executable.
	if err := unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return &Fault{"process", fmt.Errorf("deny memory that is writable and executable: %w", err), ""}
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

// freshThreads is how many new threads try each door beside the one that asks.
const freshThreads = 2

// everywhere runs f on this thread and on new ones, at the same time so that no two are the same.
func everywhere(f func() error) error {
	n := fresh()
	results, ready, start := make(chan error, n), make(chan struct{}, n), make(chan struct{})
	for range n {
		go func() {
			runtime.LockOSThread() // without Unlock: the thread ends with the goroutine
			ready <- struct{}{}
			<-start
			results <- f()
		}()
	}
	for range n {
		<-ready
	}
	close(start)
	err := f()
	for range n {
		if other := <-results; err == nil {
			err = other // one is enough: what is open is open on all of them
		}
	}
	return err
}

// Seal installs the system-call filter on all threads, proves it, and returns what is in force. After it nothing can be
// opened for writing, no program started, no socket made, beyond what the Plan's profiles keep. An error is a *Fault,
// and the process must not serve.
func (c *Confined) Seal() (Posture, error) {
	before, err := tasks()
	if err != nil {
		return Posture{}, &Fault{"seccomp", err, ""}
	}
	had, err := sameFilters(before)
	if err != nil && c.plan.Seccomp != Off {
		return Posture{}, &Fault{"seccomp", err, "use a kernel that does, or set " + seccompSetting + "=off"}
	}
	post := c.posture(had)
	if c.plan.Seccomp == Off {
		post.Denials = c.plan.tryDenials(c.facts, false)
		post.Threads = len(before)
		post.conclude(c, nil)
		crash()
		return post, nil
	}
	filter, err := seccomp.Compile(c.filter())
	if err != nil {
		return Posture{}, &Fault{"seccomp", err, ""}
	}
	if !leftOut("filter") {
		if err := filter.Load(); err != nil {
			return Posture{}, &Fault{"seccomp", err, withoutSeccomp}
		}
	}
	after, err := settled(had + 1)
	if err != nil {
		return Posture{}, &Fault{"seccomp", err, withoutSeccomp}
	}
	post.Threads = len(after)
	post.Seccomp.Filters = had + 1
	post.Seccomp.Enforced = true
	if err := everywhere(func() error { return firstOpen(c.plan.tryDenials(c.facts, true)) }); err != nil {
		return Posture{}, &Fault{"seccomp", err, ""}
	}
	post.Denials = c.plan.tryDenials(c.facts, true)
	post.conclude(c, filter)
	crash()
	return post, nil
}

const withoutSeccomp = "the runtime's seccomp profile must allow seccomp and prctl, or set " + seccompSetting + "=off"

// filter says which filter this process gets. Without a Landlock domain that takes away writing and truncating (ABI 3),
// openat2 must go: its flags are in memory, where a filter cannot see them, and O_RDONLY|O_TRUNC empties a file that is
// only granted for reading. Files are then opened by a walk.
func (c *Confined) filter() seccomp.Settings {
	settings := c.plan.Filter
	settings.Openat2, settings.PID, settings.KillByDefault = c.facts.ABI >= truncateABI, os.Getpid(), killByDefault
	return settings
}

// truncateABI is the first that can take O_TRUNC away (landlock(7)).
const truncateABI = 3

// sameFilters returns how many filters every thread has; beside an error the number is 0.
func sameFilters(all map[int]status) (int, error) {
	count, first := 0, true
	for id, s := range all {
		if s.filters < 0 {
			return 0, errors.New("the kernel does not say how many filters a thread has (Linux 5.9 does)")
		}
		if !first && s.filters != count {
			return 0, fmt.Errorf("thread %d has %d filters, another one %d", id, s.filters, count)
		}
		count, first = s.filters, false
	}
	if first {
		return 0, errors.New("no thread is listed")
	}
	return count, nil
}

// settled returns the threads when all of them have what all must have. A thread that is on its way out is passed over
// when a filter is put on all threads (kernel/seccomp.c, seen on Linux 7.0), and is still listed for a moment: what
// does not fit must be gone soon.
func settled(filters int) (all map[int]status, err error) {
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		if all, err = tasks(); err != nil {
			return nil, err
		}
		if err = compare(all, filters); err == nil {
			return all, nil
		}
		if time.Since(begun) > exitTime {
			return nil, err
		}
	}
}

// exitTime is how long a thread may take to disappear.
const exitTime = 2 * time.Second

// compare holds every thread against what all must have. Under a container runtime's own filter "Seccomp: 2" alone would
// be true without ours.
func compare(all map[int]status, filters int) error {
	for id, s := range all {
		switch {
		case s.filters != filters:
			return fmt.Errorf("thread %d has %d filters, not %d", id, s.filters, filters)
		case s.seccomp != unix.SECCOMP_MODE_FILTER:
			return fmt.Errorf("thread %d is in seccomp mode %d", id, s.seccomp)
		case s.noNewPrivs != 1:
			return fmt.Errorf("thread %d may gain privileges", id)
		}
	}
	if len(all) == 0 {
		return errors.New("no thread is listed")
	}
	return nil
}
