package lockdown

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/seccomp"
)

// What a profile has as part of its work is tried all the same, and not owed. Nothing is sealed here; that it were is
// what the outcomes are judged by.
func TestADenialIsNotOwedWhereTheProfileNeedsTheThing(t *testing.T) { // not parallel: the probe umask is let through
	old := unix.Umask(0)
	t.Cleanup(func() { unix.Umask(old) })
	owed := func(filter seccomp.Settings) (names []string) {
		for _, o := range (Plan{Filter: filter}).tryDenials(facts{}, true) {
			if o.Owed {
				names = append(names, o.Name)
			}
		}
		return names
	}
	filters := map[string]seccomp.Settings{
		"none":   {},
		"inet":   {Profiles: []seccomp.Profile{seccomp.SQL}, INET: true},
		"dns":    {Profiles: []seccomp.Profile{seccomp.SQL}, INET: true, DNS: true},
		"unix":   {Profiles: []seccomp.Profile{seccomp.SQL}, Unix: true},
		"socket": {Profiles: []seccomp.Profile{seccomp.Socket}},
	}
	for _, c := range []struct {
		name string
		work []string // filters with which it is part of the work
	}{
		{"mkdirat", nil},
		{"socket AF_INET, stream", []string{"inet", "dns"}},
		{"socket AF_INET6, stream", []string{"inet", "dns"}},
		{"socket AF_INET, datagram", []string{"dns"}},
		{"socket AF_UNIX, stream", []string{"unix"}},
		{"socket AF_UNIX, datagram", nil},
		{"connect", []string{"inet", "dns", "unix"}},
		{"accept4", []string{"socket"}},
		{"bind", nil},
		{"create a file in /dev/shm", nil},
	} {
		for name, filter := range filters {
			if got := slices.Contains(owed(filter), c.name); got == slices.Contains(c.work, name) {
				t.Errorf("%s: owed %t with the filter %s", c.name, got, name)
			}
		}
	}
}

func TestTheFirstThingThatIsOwedAndOpenIsNamed(t *testing.T) {
	t.Parallel()
	fine := []Outcome{
		{Name: "a", Owed: true, Denied: true},
		{Name: "b", Owed: false, Denied: false},
		{Name: "c", Owed: false, Denied: true},
	}
	if err := firstOpen(fine); err != nil {
		t.Error(err)
	}
	open := Outcome{Name: "umask", Layer: bySeccomp, Want: "EPERM", Got: allowed, Owed: true}
	err := firstOpen(append(fine, open, Outcome{Name: "later", Owed: true}))
	if err == nil || err.Error() != "umask: want EPERM from seccomp, got allowed" {
		t.Error(err)
	}
}

// door finds one by the name of its right.
func doorOf(t *testing.T, p Plan, other int, right string) door {
	t.Helper()
	doors := p.doors(10, other)
	i := slices.IndexFunc(doors, func(d door) bool { return d.right == right })
	if i < 0 {
		t.Fatalf("no door is called %s", right)
	}
	return doors[i]
}

func TestWhereThereIsNothingToTryItOnNothingIsSaid(t *testing.T) {
	t.Parallel()
	if err := (Plan{}).outside(unix.O_RDONLY, "/no/such/file", "/etc/passwd/no/folder")(); !errors.Is(err, errNotTried) {
		t.Errorf("files that do not exist: %v", err)
	}
	if err := (Plan{}).outside(unix.O_RDONLY, "/no/such/file", "/proc/self/status")(); err != nil { // the control
		t.Errorf("one that does: %v", err)
	}
	if err := doorOf(t, Plan{SendUDP: []uint16{53}}, 0, "bind_udp").try(); !errors.Is(err, errNotTried) {
		t.Errorf("a port that a sender needs: %v", err)
	}
	if err := doorOf(t, Plan{}, 0, "signal").try(); !errors.Is(err, errNotTried) {
		t.Errorf("nobody to signal: %v", err)
	}
	other := exec.Command("/proc/self/exe", "-test.run=^$")
	if err := other.Run(); err != nil {
		t.Fatal(err)
	}
	if err := doorOf(t, Plan{}, other.Process.Pid, "signal").try(); !errors.Is(err, errNotTried) {
		t.Errorf("somebody who has ended: %v", err)
	}
	if err := doorOf(t, Plan{}, os.Getpid(), "signal").try(); err != nil { // the control
		t.Errorf("somebody: %v", err)
	}
}

// The listener has room for one call before the domain and one after; whoever finds its name can take that away.
func TestAListenerWithoutRoomProvesNothing(t *testing.T) {
	t.Parallel()
	call := abstract()
	if err := call(); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		err := call()
		if errors.Is(err, errNotTried) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("the queue never fills, so that nothing was tried")
}

// Nothing holds this process back, which is what stage 2 must notice.
func TestStage2NoticesThatThereIsNoDomain(t *testing.T) {
	t.Parallel()
	if err := (Plan{}).shut(facts{ABI: 1}); err == nil || !strings.HasSuffix(err.Error(), "got success") {
		t.Error(err)
	}
	everything := Plan{Grants: []Grant{{Path: "/", List: true}}}
	for _, c := range []struct {
		name string
		plan Plan
		abi  int
	}{{"no door", Plan{}, 0}, {"every file is granted", everything, 1}} {
		err := c.plan.shut(facts{ABI: c.abi})
		if c.abi == 0 && (err == nil || err.Error() != "no door answers as a domain would") || err == nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestAFaultIsWhatItWraps(t *testing.T) {
	t.Parallel()
	var err error = &Fault{Layer: "limits", Err: unix.EMFILE}
	if !errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) ||
		err.Error() != "hardening: limits: "+unix.EMFILE.Error() {
		t.Error(err)
	}
}

// What no machine of ours has at once, for a reader.
func TestThePostureNamesEverythingThatItHas(t *testing.T) {
	t.Parallel()
	p := Posture{
		Level:    Reduced,
		Landlock: LandlockPosture{Mode: Require, Enforced: true, Ports: []uint16{5432}},
		Seccomp:  SeccompPosture{Mode: Require, Enforced: true, Default: "kill"},
		Rootfs:   RootfsPosture{Writable: []Mount{{Path: "/tmp", Options: []string{"noexec"}}}, More: 3},
		Cgroup:   Cgroup{MemoryBytes: 1 << 20, CPUCores: 1.5, Tasks: 64},
		Probes:   Probes{Tried: 3, Failed: []string{"umask"}, Open: []string{"kill"}, NotTried: []string{"bind"}, Other: 2},
	}
	text := p.Text()
	for _, line := range []string{
		"connect: TCP port 5432", "everything else: kill", "memory 1048576 bytes, CPU 1.5 cores, tasks 64", "  /tmp noexec",
		"  and 3 more", "undecided: 2 ", "not tried: bind", "FAILED: umask", "open: kill",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	empty := Posture{}.Text() // the control
	for _, absent := range []string{"connect:", "more", "undecided", "not tried", "FAILED", "open:"} {
		if strings.Contains(empty, absent) {
			t.Errorf("%q in\n%s", absent, empty)
		}
	}
}

// The level is what the rest comes to. A process with a failed probe does not serve; its report still says so.
func TestTheProbesAreSortedByWhatTheyCameTo(t *testing.T) {
	t.Parallel()
	p := Posture{Landlock: LandlockPosture{Enforced: true}, Denials: []Outcome{
		{Name: "denied", Got: "EPERM", Denied: true, Owed: true},
		{Name: "failed", Got: allowed, Owed: true},
		{Name: "open", Got: allowed},
		{Name: "other", Got: "ENOENT"},
		{Name: "not tried", Got: notTried, Layer: byLandlock},
		{Name: "not tried either", Got: notTried, Layer: bySeccomp},
	}}
	p.conclude(&Confined{facts: facts{ABI: 1}}, nil)
	if q := p.Probes; q.Tried != 4 || q.Denied != 1 || !slices.Equal(q.Failed, []string{"failed"}) || q.Other != 1 ||
		!slices.Equal(q.Open, []string{"open"}) || !slices.Equal(q.NotTried, []string{"not tried", "not tried either"}) {
		t.Errorf("%+v", q)
	}
	residual := strings.Join(p.Residual, "\n")
	if p.Level != Reduced || !strings.Contains(residual, "not tried: not tried") || strings.Contains(residual, "either") {
		t.Errorf("level %s, residual %q", p.Level, p.Residual)
	}
}
