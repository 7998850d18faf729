package lockdown_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/landlock"
	"mcp-server-suite/pkg/lockdown"
	"mcp-server-suite/pkg/seccomp"
	"mcp-server-suite/pkg/stage"
)

// logged is the posture that a daemon has written when it began to serve.
func (c client) logged() (p lockdown.Posture) {
	c.t.Helper()
	var line string
	waitFor(c.t, func() bool {
		for text := range strings.Lines(c.Stderr()) {
			if strings.Contains(text, `"posture":`) && strings.HasSuffix(text, "\n") {
				line = text
			}
		}
		return line != ""
	})
	var record struct{ Posture *lockdown.Posture }
	record.Posture = &p
	if err := json.Unmarshal([]byte(line), &record); err != nil {
		c.t.Fatalf("%v: %s", err, line)
	}
	return p
}

// Every figure of the posture that the kernel shows to others is compared with what it shows, for processes that differ
// in all of them.
func TestThePostureOfAServingDaemonIsWhatTheKernelSays(t *testing.T) {
	t.Parallel()
	needRoot(t)
	abi := needLandlock(t)
	filters := ownFilters(t)
	const port = 55466
	dsn := fmt.Sprintf("MCP_SQL_DSN=postgres://u:p@127.0.0.1:%d/d", port)
	base := []seccomp.Profile{"base"}
	for _, c := range []struct {
		name     string
		args     []string // of setpriv
		environ  []string
		groups   string
		caps     bool // the posture has to show some that are in force
		filtered bool
		profiles []seccomp.Profile
		ports    []uint16
		optOuts  []string
	}{
		{
			"a user of many groups",
			[]string{"--reuid", "10003", "--regid", "10004", "--groups", "7,42", "--inh-caps=-all,+chown"},
			[]string{"GOMAXPROCS=3", "GOMEMLIMIT=80740352", "MCP_MAX_CONCURRENT_TOOLS=3"},
			"[7 42]", false, true, base,
			[]uint16{},
			[]string{},
		},
		{
			"with a database",
			[]string{"--reuid", "10001", "--regid", "10001", "--clear-groups", "--inh-caps=-all"},
			[]string{
				"GOMAXPROCS=1", "MCP_MAX_CONCURRENT_TOOLS=2", "MCP_SQL_POOL_MAX_SIZE=1", dsn, "MCP_SQL_ALLOW_UNSAFE_ROLE=true",
			},
			"[]", false, true,
			[]seccomp.Profile{"base", "sql"},
			[]uint16{port},
			[]string{"MCP_SQL_ALLOW_UNSAFE_ROLE=true"},
		},
		{
			"root without a filter",
			[]string{"--groups", "3", "--inh-caps=-all"},
			[]string{"MCP_ALLOW_PRIVILEGED=true", "MCP_SECCOMP=off", "MCP_MAX_CONCURRENT_TOOLS=1"},
			"[3]", true, false, base,
			[]uint16{},
			[]string{"MCP_SECCOMP=off", "MCP_ALLOW_PRIVILEGED=true"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("setpriv", append(c.args, stage.Binary(t, ""))...)
			cmd.Dir, cmd.Env = "/", slices.Concat([]string{"PATH=" + os.Getenv("PATH")}, stage.Coverage(), c.environ)
			session := converse(t, cmd)
			p := session.logged()
			status, limits := ofProcess(t, session.PID(), "status"), limitsOf(t, session.PID())
			environ := ofProcess(t, session.PID(), "environ")
			info, err := os.Stat(fmt.Sprintf("/proc/%d/environ", session.PID()))
			if err != nil {
				t.Fatal(err)
			}
			owner, ok := info.Sys().(*syscall.Stat_t)
			if !ok {
				t.Fatalf("%T", info.Sys())
			}
			first := func(name string) string { return strings.Fields(field(status, name))[0] }
			for _, f := range []struct{ name, says, is string }{
				{"uid", strconv.Itoa(p.UID), first("Uid")},
				{"gid", strconv.Itoa(p.GID), first("Gid")},
				{"groups", fmt.Sprint(p.Groups), "[" + field(status, "Groups") + "]"},
				{"effective", p.Capabilities.Effective, field(status, "CapEff")},
				{"permitted", p.Capabilities.Permitted, field(status, "CapPrm")},
				{"inheritable", p.Capabilities.Inheritable, field(status, "CapInh")},
				{"ambient", p.Capabilities.Ambient, field(status, "CapAmb")},
				{"bounding", p.Capabilities.Bounding, field(status, "CapBnd")},
				{"no new privileges", fmt.Sprint(p.NoNewPrivs), fmt.Sprint(field(status, "NoNewPrivs") == "1")},
				{"filters", strconv.Itoa(p.Seccomp.Filters), field(status, "Seccomp_filters")},
				{"filters of the runtime", strconv.Itoa(p.Seccomp.Before), strconv.Itoa(filters)},
				{"core files", fmt.Sprintf("%d %[1]d bytes", p.Process.CoreBytes), limits["Max core file size"]},
				{"open files", fmt.Sprintf("%d %[1]d files", p.Process.OpenFiles), limits["Max open files"]},
				{"GOMAXPROCS", strconv.Itoa(p.Process.GOMAXPROCS), valueOf(environ, "GOMAXPROCS")},
				{"GOMEMLIMIT", strconv.FormatInt(p.Process.MemoryLimit, 10), valueOf(environ, "GOMEMLIMIT")},
			} {
				if f.says != f.is {
					t.Errorf("%s: the posture says %s, and it is %s", f.name, f.says, f.is)
				}
			}
			if owner.Uid != 0 && !p.Process.Dumpable || owner.Uid == 0 && p.UID != 0 && p.Process.Dumpable {
				t.Errorf("dumpable %t, and its files belong to %d", p.Process.Dumpable, owner.Uid)
			}
			// The Go runtime always has one more than main's. How many there were when it looked nobody knows any more.
			if n := len(threadsOf(t, session.PID())); p.Threads < 2 || p.Threads > max(n, maxIdleThreads) {
				t.Errorf("%d threads were seen, and there are %d", p.Threads, n)
			}
			if got := fmt.Sprint(p.Groups); got != c.groups {
				t.Errorf("groups %s, want %s", got, c.groups)
			}
			if got := p.Capabilities.Effective != none; got != c.caps {
				t.Errorf("effective capabilities %s", p.Capabilities.Effective)
			}
			answer := map[bool]string{true: "errno EPERM", false: "allow"}[c.filtered]
			if s := p.Seccomp; s.Enforced != c.filtered || s.Default != answer || !slices.Equal(s.Profiles, c.profiles) ||
				s.Openat2 != (abi >= 3 || !c.filtered) {
				t.Errorf("%+v", s)
			}
			if l := p.Landlock; !l.Enforced || l.Mode != lockdown.Require || l.ABI != abi || l.Known != landlock.KnownABI ||
				l.Why != "" || !slices.Equal(l.Ports, c.ports) {
				t.Errorf("%+v", l)
			}
			if !slices.Equal(p.OptOuts, c.optOuts) {
				t.Errorf("opt-outs %q, want %q", p.OptOuts, c.optOuts)
			}
		})
	}
}

// valueOf is the value of a variable in an environment as /proc/PID/environ has it.
func valueOf(environ, name string) string {
	for entry := range strings.SplitSeq(environ, "\x00") {
		if value, is := strings.CutPrefix(entry, name+"="); is {
			return value
		}
	}
	return ""
}

// Nobody outside can see it, but a wall can keep it from being set, as a kernel before 6.3 does.
func TestMemoryThatMayBecomeExecutableIsReported(t *testing.T) {
	t.Parallel()
	needRoot(t)
	says := func(wall string) bool {
		return converse(t, behindCommand(t, wall)).logged().Process.MDWE
	}
	if says("prctl/0:65=EINVAL") { // PR_SET_MDWE
		t.Error("the kernel does not know of it, and the posture says that it is denied")
	}
	if _, err := unix.PrctlRetInt(unix.PR_GET_MDWE, 0, 0, 0, 0); err != nil {
		t.Skipf("needs Linux 6.3: %v", err)
	}
	if !says("nothing") {
		t.Error("it is not denied")
	}
}
