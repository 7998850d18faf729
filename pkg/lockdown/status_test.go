package lockdown

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// statusText is what Linux 6.18 says of an ordinary process, without the lines that nobody here reads.
const statusText = `Name:	cat
Umask:	0022
State:	R (running)
Tgid:	4242
Uid:	10001	10002	10003	10004
Gid:	20001	20002	20003	20004
TracerPid:	4711
Groups:	7 8
CapInh:	0000000000000001
CapPrm:	0000000000000002
CapEff:	0000000000000004
CapBnd:	000001fffeffffff
CapAmb:	0000000000000008
NoNewPrivs:	1
Seccomp:	2
Seccomp_filters:	3
Speculation_Store_Bypass:	thread vulnerable
`

func statusTable() []struct {
	name, text string
	want       status // of no meaning where wrong is true
	wrong      bool
	why        string
} {
	whole := status{
		uid: [4]int{10001, 10002, 10003, 10004}, gid: [4]int{20001, 20002, 20003, 20004},
		inheritable: 1, permitted: 2, effective: 4, ambient: 8, boundaries: 0x1fffeffffff,
		noNewPrivs: 1, seccomp: 2, filters: 3, tracer: 4711,
	}
	without := func(names ...string) string {
		var kept strings.Builder
		for line := range strings.Lines(statusText) {
			if name, _, _ := strings.Cut(line, ":"); !slices.Contains(names, name) {
				kept.WriteString(line)
			}
		}
		return kept.String()
	}
	with := func(name, value string) string { return without(name) + name + ":" + value + "\n" }
	old := whole
	old.noNewPrivs, old.filters = -1, -1
	largest := whole
	largest.permitted = 1<<64 - 1
	return []struct {
		name, text string
		want       status
		wrong      bool
		why        string
	}{
		{"whole", statusText, whole, false, "every field has a value of its own"},
		{"old kernel", without("NoNewPrivs", "Seccomp_filters"), old, false, "Linux 4.9 and gVisor do not say"},
		{"no newline at the end", strings.TrimSuffix(statusText, "\n"), whole, false, "the last line counts, too"},
		{"all capabilities", with("CapPrm", "\tffffffffffffffff"), largest, false, "64 bits"},
		{"spaces", with("Seccomp", "   2  "), whole, false, "white space separates, however much"},
		{"empty", "", status{}, true, "nothing was read"},
		{"no user", without("Uid"), status{}, true, "it would look like root, or like nobody"},
		{"no group", without("Gid"), status{}, true, "it would look like root's"},
		{"no effective set", without("CapEff"), status{}, true, "it would look like none"},
		{"no permitted set", without("CapPrm"), status{}, true, "it would look like none"},
		{
			"one line again and again",
			without("Uid", "Gid", "CapEff", "CapPrm") + strings.Repeat("Seccomp:\t2\n", 9),
			status{},
			true,
			"nine of a kind are not one of each",
		},
		{"three ids", with("Uid", "\t0\t0\t0"), status{}, true, "real, effective, saved, file system"},
		{"five ids", with("Gid", "\t0\t0\t0\t0\t0"), status{}, true, "one too many"},
		{"a negative id", with("Uid", "\t-1\t0\t0\t0"), status{}, true, "an id has no sign"},
		{"an id too large", with("Uid", "\t4294967296\t0\t0\t0"), status{}, true, "32 bits"},
		{"two sets", with("CapEff", "\t0 0"), status{}, true, "one word"},
		{"no set", with("CapEff", ""), status{}, true, "one word"},
		{"a set too large", with("CapAmb", "\t10000000000000000"), status{}, true, "65 bits"},
		{"a set that is none", with("CapEff", "\t0x4"), status{}, true, "the kernel writes no prefix"},
		{"a mode that is none", with("Seccomp", "\tfilter"), status{}, true, "a number"},
		{"two modes", with("Seccomp", "\t2 2"), status{}, true, "one number"},
		{"no count", with("Seccomp_filters", "\t"), status{}, true, "a number"},
		{"a count too large", with("Seccomp_filters", "\t99999999999999999999"), status{}, true, "64 bits"},
	}
}

func TestAStatusIsReadWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	for _, c := range statusTable() {
		got, err := parseStatus([]byte(c.text))
		if (err != nil) != c.wrong || err == nil && got != c.want || err != nil && got != (status{}) {
			t.Errorf("%s: %+v, %v (%s)", c.name, got, err, c.why)
		}
	}
}

func TestOurOwnStatusIsRead(t *testing.T) {
	t.Parallel()
	all, err := tasks()
	if err != nil {
		t.Fatal(err)
	}
	own, found := all[os.Getpid()]
	if !found || own.uid[0] != os.Getuid() || own.gid[1] != os.Getegid() || own.noNewPrivs < 0 || own.seccomp < 0 {
		t.Errorf("%+v of %d threads", own, len(all))
	}
	if err := checkPrivileges(own); (err != nil) != (os.Getuid() == 0) {
		t.Errorf("uid %d: %v", os.Getuid(), err)
	}
	if _, err := readStatus("/proc/self/no-such-file"); !isGone(err) {
		t.Errorf("a thread that has ended: %v", err)
	}
	if _, err := readStatus("/proc/self/task"); err == nil || isGone(err) {
		t.Errorf("a folder: %v", err)
	}
}

func TestAThreadThatHasEndedIsGone(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "0")
	if err := cmd.Run(); err != nil {
		t.Skipf("needs the program sleep: %v", err)
	}
	if _, err := readStatus(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)); !isGone(err) {
		t.Error(err)
	}
}

func TestAStatusThatIsTooLongIsCut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "status")
	long := statusText + "Groups:" + strings.Repeat(" 7", maxStatusBytes) + "\n"
	if err := os.WriteFile(path, []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := readStatus(path); err != nil || s.filters != 3 {
		t.Errorf("%+v, %v", s, err)
	}
}

func FuzzParseStatus(f *testing.F) {
	for _, c := range statusTable() {
		f.Add([]byte(c.text))
	}
	if own, err := os.ReadFile("/proc/self/status"); err == nil {
		f.Add(own)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseStatus(text)
		if err != nil {
			if s != (status{}) {
				t.Errorf("a value and an error: %+v, %v", s, err)
			}
			return
		}
		for _, id := range slices.Concat(s.uid[:], s.gid[:]) {
			if id < 0 || id > 1<<32-1 {
				t.Errorf("id %d", id)
			}
		}
		// What was read, written again, is read the same.
		ids := func(n [4]int) string { return fmt.Sprintf("\t%d\t%d\t%d\t%d", n[0], n[1], n[2], n[3]) }
		again, err := parseStatus(fmt.Appendf(nil,
			"Uid:%s\nGid:%s\nCapInh:\t%x\nCapPrm:\t%x\nCapEff:\t%x\nCapBnd:\t%x\nCapAmb:\t%x\nNoNewPrivs:\t%d\nSeccomp:\t%d\n"+
				"Seccomp_filters:\t%d\nTracerPid:\t%d\n", ids(s.uid), ids(s.gid), s.inheritable, s.permitted, s.effective, s.boundaries, s.ambient,
			s.noNewPrivs, s.seccomp, s.filters, s.tracer,
		))
		if err != nil || again != s {
			t.Errorf("%+v, written again: %+v, %v", s, again, err)
		}
	})
}

func TestPrivilegesAreRefusedByWhatTheyAre(t *testing.T) {
	t.Parallel()
	ordinary := status{uid: [4]int{10001, 10001, 10001, 10001}, gid: [4]int{10001, 10001, 10001, 10001}}
	for _, c := range []struct {
		name   string
		change func(*status)
		says   string // "" is accepted
		why    string
	}{
		{"ordinary", func(*status) {}, "", "the control"},
		{"a full bounding set", func(s *status) { s.boundaries = 1<<41 - 1 }, "", "a user cannot empty it"},
		{"an old kernel", func(s *status) { s.noNewPrivs, s.filters = -1, -1 }, "", "asked for elsewhere"},
		{"group root", func(s *status) { s.gid = [4]int{} }, "", "as in many images; it owns files and has no rights"},
		{"root", func(s *status) { s.uid = [4]int{} }, "uid 0", ""},
		{"real root", func(s *status) { s.uid[0] = 0 }, "uid 0", "it may come back"},
		{"effective root", func(s *status) { s.uid[1] = 0 }, "uid 0", "set-uid"},
		{"saved root", func(s *status) { s.uid[2] = 0 }, "uid 0", "seteuid(0) would be allowed"},
		{"file system root", func(s *status) { s.uid[3] = 0 }, "uid 0", "setfsuid(2)"},
		{"another effective user", func(s *status) { s.uid[1] = 1 }, "set-uid", "set-uid, not root"},
		{"another saved user", func(s *status) { s.uid[2] = 1 }, "set-uid", "it may come back"},
		{"another effective group", func(s *status) { s.gid[1] = 1 }, "set-gid", "set-gid"},
		{"another saved group", func(s *status) { s.gid[2] = 1 }, "set-gid", "it may come back"},
		{"an effective capability", func(s *status) { s.effective = 1 }, "capabilities", ""},
		{"a permitted capability", func(s *status) { s.permitted = 1 << 40 }, "capabilities", "it may become effective"},
		{"an ambient capability", func(s *status) { s.ambient = 1 << 10 }, "capabilities", "it survives exec"},
	} {
		s := ordinary
		c.change(&s)
		err := checkPrivileges(s)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q (%s)", c.name, err, c.says, c.why)
		}
	}
}

func threadsWith(n int, s status) map[int]status {
	all := map[int]status{}
	for i := range n {
		all[100+i] = s
	}
	return all
}

func TestCompareNamesTheThreadThatDiffers(t *testing.T) {
	t.Parallel()
	locked := status{noNewPrivs: 1, seccomp: 2, filters: 2}
	if err := compare(threadsWith(8, locked), 2); err != nil {
		t.Errorf("the control: %v", err)
	}
	for _, c := range []struct {
		name   string
		differ status
		why    string
	}{
		{"fewer filters", status{noNewPrivs: 1, seccomp: 2, filters: 1}, "the runtime's own filter, and not ours"},
		{"more filters", status{noNewPrivs: 1, seccomp: 2, filters: 3}, "somebody else has loaded one"},
		{"unknown", status{noNewPrivs: 1, seccomp: 2, filters: -1}, "the kernel does not say"},
		{"no mode", status{noNewPrivs: 1, seccomp: 0, filters: 2}, "seccomp is off"},
		{"strict mode", status{noNewPrivs: 1, seccomp: 1, filters: 2}, "another mode"},
		{"new privileges", status{noNewPrivs: 0, seccomp: 2, filters: 2}, "a set-uid program would have them"},
		{"privileges unknown", status{noNewPrivs: -1, seccomp: 2, filters: 2}, "the kernel does not say"},
	} {
		all := threadsWith(8, locked)
		all[104] = c.differ
		if err := compare(all, 2); err == nil || !strings.Contains(err.Error(), "thread 104 ") {
			t.Errorf("%s: %v (%s)", c.name, err, c.why)
		}
	}
	if err := compare(nil, 2); err == nil {
		t.Error("no threads are all right")
	}
}

func TestThreadsWithDifferentFiltersAreFound(t *testing.T) {
	t.Parallel()
	for _, filters := range []int{0, 1, 7} {
		if n, err := sameFilters(threadsWith(8, status{filters: filters})); n != filters || err != nil {
			t.Errorf("%d: %d, %v", filters, n, err)
		}
	}
	for _, odd := range []int{0, 2, -1} {
		all := threadsWith(8, status{filters: 1})
		all[103] = status{filters: odd}
		// Which of the two is the odd one nobody can tell, but one of them is named, or what the kernel lacks.
		if n, err := sameFilters(all); err == nil || n != 0 || !strings.Contains(err.Error(), "thread") {
			t.Errorf("%d among ones: %d, %v", odd, n, err)
		}
	}
	if n, err := sameFilters(nil); err == nil || n != 0 {
		t.Errorf("no threads: %d, %v", n, err)
	}
}
