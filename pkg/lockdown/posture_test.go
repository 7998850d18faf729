package lockdown

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/landlock"
	"mcp-server-suite/pkg/seccomp"
)

// A daemon that serves has no capabilities, is not dumpable, and leaves no core file: nothing in it would show a posture
// that says so always. This process is another one, and what it is like is read in another way.
//
// It runs in a process of its own: starting a daemon as another user leaves the starting process not dumpable (measured).
func TestAPostureDoesNotFlatter(t *testing.T) {
	const alone = "LOCKDOWN_ALONE"
	if os.Getenv(alone) == "" {
		t.Parallel()
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self, "-test.v", "-test.run=^TestAPostureDoesNotFlatter$")
		cmd.Env = append(os.Environ(), alone+"=1")
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		if strings.Contains(string(said), "--- SKIP") {
			t.Skip(string(said))
		}
		return
	}
	c := &Confined{plan: Plan{
		Landlock: IfAvailable, Seccomp: Off, AllowPrivileged: true,
		Filter: seccomp.Settings{Profiles: []seccomp.Profile{seccomp.SQL, seccomp.Audit}, INET: true},
		Waived: []string{"MCP_SOMETHING=true", "MCP_MORE=yes"},
	}}
	p := c.posture(status{effective: 1, permitted: 2, inheritable: 3, ambient: 4, boundaries: 0xf5}, 9)
	if want := (Capabilities{
		Effective: "0000000000000001", Permitted: "0000000000000002", Inheritable: "0000000000000003",
		Ambient: "0000000000000004", Bounding: "00000000000000f5",
	}); p.Capabilities != want {
		t.Errorf("%+v, want %+v", p.Capabilities, want)
	}
	if want := []seccomp.Profile{"base", "sql", "audit"}; !slices.Equal(p.Seccomp.Profiles, want) {
		t.Errorf("profiles %v, want %v", p.Seccomp.Profiles, want)
	}
	optOuts := []string{
		"MCP_SOMETHING=true", "MCP_MORE=yes", // as the plan has them, then our own
		"MCP_LANDLOCK=if-available", "MCP_SECCOMP=off", "MCP_ALLOW_PRIVILEGED=true",
	}
	if !slices.Equal(p.OptOuts, optOuts) {
		t.Errorf("opt-outs %q, want %q", p.OptOuts, optOuts)
	}
	if p.Seccomp.Before != 9 || p.Seccomp.Filters != 9 || p.Seccomp.Enforced || p.Landlock.Enforced {
		t.Errorf("%+v, %+v", p.Seccomp, p.Landlock)
	}
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	line := func(name string) string {
		_, rest, _ := strings.Cut(string(text), "\n"+name+":")
		rest, _, _ = strings.Cut(rest, "\n")
		return strings.Join(strings.Fields(rest), " ")
	}
	var groups []string
	for _, id := range p.Groups {
		groups = append(groups, strconv.Itoa(id))
	}
	if got, want := strings.Join(groups, " "), line("Groups"); got != want {
		t.Errorf("groups %q, want %q", got, want)
	}
	if p.NoNewPrivs != (line("NoNewPrivs") == "1") {
		t.Errorf("no new privileges %t, the kernel says %s", p.NoNewPrivs, line("NoNewPrivs"))
	}
	// The files of a process that is not dumpable are root's, and root itself can only ask.
	if is, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || p.Process.Dumpable != (is == 1) {
		t.Errorf("dumpable %t, the kernel says %d, %v", p.Process.Dumpable, is, err)
	}
	if p.Process.MDWE {
		t.Error("nobody has denied this process writable and executable memory")
	}
	for resource, says := range map[int]uint64{
		unix.RLIMIT_CORE: p.Process.CoreBytes, unix.RLIMIT_NOFILE: p.Process.OpenFiles,
	} {
		var is unix.Rlimit
		if err := unix.Getrlimit(resource, &is); err != nil || is.Max != says {
			t.Errorf("limit %d is %d, %v; the posture says %d", resource, is.Max, err, says)
		}
	}
	// What the checks above need to show something.
	if p.Process.CoreBytes == 0 || !p.Process.Dumpable || p.NoNewPrivs {
		t.Skipf("needs a process that may leave a core file (%d bytes), is dumpable (%t), and may gain privileges (%t)",
			p.Process.CoreBytes, p.Process.Dumpable, !p.NoNewPrivs)
	}
}

// A process with a failed probe does not serve; should it ever, the level is not full.
func TestAFailedProbeIsNotFull(t *testing.T) {
	t.Parallel()
	filter, err := seccomp.Compile(seccomp.Settings{PID: 1, Openat2: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, denied := range []bool{true, false} {
		p := Posture{
			Landlock: LandlockPosture{Enforced: true}, Seccomp: SeccompPosture{Enforced: true},
			Denials: []Outcome{{Name: "a door", Owed: true, Denied: denied, Got: "EACCES"}},
		}
		p.conclude(&Confined{facts: facts{ABI: landlock.KnownABI}}, filter)
		if (p.Level == Full) != denied {
			t.Errorf("denied %t: level %s, residual %q", denied, p.Level, p.Residual)
		}
	}
}
