package lockdown_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"mcp-server-suite/pkg/lockdown"
	"mcp-server-suite/pkg/stage"
)

// uncontrolled are the calls that are not made without the filter. fork and vfork would leave a second process with a
// copy of one thread, and vfork's would use the stack of this one: neither is safe with the Go runtime. ptrace, whose
// arguments of 0 ask to be traced, would make a thread that only its tracer, the test, can bury; until then the daemon
// does not end for whoever waits for it (measured: for ever). It has its control in
// TestPtraceIsTheEndWhateverItAsksFor.
var uncontrolled = []string{"fork", "vfork", "ptrace"}

func TestEveryFatalCallEndsTheDaemonBySIGSYS(t *testing.T) {
	t.Parallel()
	needRoot(t)
	names := lockdown.Fatal()
	for _, name := range []string{"execve", "ptrace", "bpf", "unshare", "mount", "io_uring_setup"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not fatal", name)
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := toTheEnd(t, stage.Daemon(t, stage.Options{Args: []string{"posture", "--kill", name}}))
			if e.signal != syscall.SIGSYS || e.stdout != "" {
				t.Errorf("want signal %d: %v", syscall.SIGSYS, e)
			}
			if slices.Contains(uncontrolled, name) {
				return
			}
			e = toTheEnd(t, stage.Daemon(t, stage.Options{
				Args: []string{"posture", "--kill", name}, Env: []string{"MCP_SECCOMP=off"},
			}))
			if e.code != 1 || e.stdout != "" || strings.Count(e.stderr, "\n") != 1 ||
				!strings.HasPrefix(e.stderr, "mcp-server-suite: "+name+": the process is still there") {
				t.Errorf("without the filter: %v", e)
			}
		})
	}
}

// A process that cannot be is asked for, so that the kernel has something to say that does no harm.
func TestPtraceIsTheEndWhateverItAsksFor(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for _, c := range []struct {
		env    []string
		signal syscall.Signal
		answer string
	}{
		{nil, syscall.SIGSYS, ""},
		{[]string{"MCP_LANDLOCK=off"}, syscall.SIGSYS, ""},
		{[]string{"MCP_SECCOMP=off"}, 0, `["ESRCH"]` + "\n"}, // the controls
		{unlocked, 0, `["ESRCH"]` + "\n"},
	} {
		cmd := stage.Daemon(t, stage.Options{Tags: withHoles, Env: append([]string{"MCP_TEST_TRY=1"}, c.env...)})
		if e := tries(t, cmd, `[{"do":"ptrace"}]`); e.signal != c.signal || e.stdout != c.answer {
			t.Errorf("%v: %v", c.env, e)
		}
	}
}

func TestAFatalCallThatIsNotInTheListIsRefusedByName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "read", "exit_group", "no-such"} {
		e := toTheEnd(t, stage.Daemon(t, stage.Options{Args: []string{"posture", "--kill", name}}))
		if e.code != 2 || e.stdout != "" || !strings.Contains(e.stderr, "see posture --help") {
			t.Errorf("%q: %v", name, e)
		}
		if err := lockdown.TryFatal(name); err == nil || !strings.Contains(err.Error(), "not in the list") {
			t.Errorf("%q: %v", name, err) // and it has done nothing: the test is still there
		}
	}
}
