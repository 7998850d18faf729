package seccomp

import (
	"slices"
	"strings"
	"testing"
)

// every are settings that together choose every row.
func every(arch string) []Settings {
	const pid = 4242
	return []Settings{
		{PID: pid, Arch: arch},
		{PID: pid, Arch: arch, Openat2: true},
		{PID: pid, Arch: arch, Openat2: true, KillByDefault: true},
		{PID: pid, Arch: arch, Profiles: []Profile{SQL}, INET: true},
		{PID: pid, Arch: arch, Profiles: []Profile{SQL}, Unix: true},
		{PID: pid, Arch: arch, Profiles: []Profile{Base, SQL}, INET: true, DNS: true},
		{PID: pid, Arch: arch, Profiles: []Profile{Audit}},
		{PID: pid, Arch: arch, Profiles: []Profile{Socket}},
		{PID: pid, Arch: arch, Profiles: []Profile{SQL}, INET: true, Unix: true, DNS: true, KillByDefault: true},
		{
			PID: pid, Arch: arch, Profiles: []Profile{SQL, Audit, Socket}, Openat2: true, INET: true, Unix: true, DNS: true,
		},
	}
}

func TestEachRowIsWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range Table() {
		if seen[row.ID] {
			t.Errorf("%s: two rows", row.ID)
		}
		seen[row.ID] = true
		// The message about a difference starts with the ID; it has to say which system call it is about.
		if row.ID != row.Syscall && !strings.HasPrefix(row.ID, row.Syscall+" ") {
			t.Errorf("%s: does not begin with %s", row.ID, row.Syscall)
		}
		if row.Why == "" {
			t.Errorf("%s: no reason", row.ID)
		}
		if !slices.Contains([]Action{Allow, Kill, EPERM, ENOSYS}, row.Action) {
			t.Errorf("%s: %v", row.ID, row.Action)
		}
		if row.Action == Kill && len(row.Args) > 0 {
			t.Errorf("%s: a loud call is loud with any arguments", row.ID)
		}
		used := map[uint]bool{}
		for _, c := range row.Args {
			if c.Arg > 5 || used[c.Arg] || c.Mask == 0 || c.Value&^c.Mask != 0 || c.PID && c.Value != 0 {
				t.Errorf("%s: condition %+v", row.ID, c)
			}
			used[c.Arg] = true // libseccomp takes one condition for an argument
		}
	}
}

func TestARowIsMissingOnlyWhereItsSystemCallIs(t *testing.T) {
	for _, row := range Table() {
		for _, a := range arches() {
			_, exists := Number(row.Syscall, a.name)
			if wanted := len(row.Archs) == 0 || slices.Contains(row.Archs, a.name); wanted != exists {
				t.Errorf("%s on %s: wanted %v, exists %v", row.ID, a.name, wanted, exists)
			}
		}
	}
}

// Whatever the settings, no call may be covered by two rows that want different things.
func TestNoTwoRowsDisagree(t *testing.T) {
	for _, s := range every("amd64") {
		p, err := newPolicy(s)
		must(t, err)
		for _, a := range p.rules {
			for _, b := range p.byNumber[a.number] {
				if a.Action != b.Action && !apart(a.Args, b.Args) {
					t.Errorf("%s and %s can both hold", a.ID, b.ID)
				}
			}
		}
	}
}

// apart is whether two conditions exclude one another.
func apart(a, b []Condition) bool {
	for _, x := range a {
		for _, y := range b {
			if x.Arg == y.Arg && x.Value&y.Mask != y.Value&x.Mask {
				return true
			}
		}
	}
	return false
}

func TestEverySettingChoosesRows(t *testing.T) {
	chosen := map[string]bool{}
	for _, s := range every("amd64") {
		p, err := newPolicy(s)
		must(t, err)
		for _, r := range p.rules {
			chosen[r.ID] = true
		}
	}
	for _, row := range Table() {
		if !chosen[row.ID] {
			t.Errorf("nothing chooses %s", row.ID)
		}
	}
}

func TestWrongSettingsAreErrors(t *testing.T) {
	tests := []struct {
		name string
		s    Settings
		want string
		why  string
	}{
		{"no process", Settings{}, "choose rows: 0 is no process id", "tgkill would be denied, and preemption with it"},
		{"the group", Settings{PID: -1}, "choose rows: -1 is no process id", "-1 means everybody to kill"},
		{
			"architecture",
			Settings{PID: 1, Arch: "riscv64"},
			`choose rows: there is no filter for the architecture "riscv64"`, "",
		},
		{"profile", Settings{PID: 1, Profiles: []Profile{"SQL"}}, `choose rows: there is no profile "SQL"`, ""},
		{
			"sql without sockets",
			Settings{PID: 1, Profiles: []Profile{SQL}},
			"choose rows: the profile sql needs a kind of socket, and only it has one", "it could reach nothing",
		},
		{
			"sockets without sql",
			Settings{PID: 1, INET: true},
			"choose rows: the profile sql needs a kind of socket, and only it has one", "it would be ignored",
		},
		{
			"datagrams alone",
			Settings{PID: 1, Profiles: []Profile{SQL}, Unix: true, DNS: true},
			"choose rows: names are resolved to connect over inet", "a name that nobody connects to",
		},
	}
	for _, test := range tests {
		if f, err := Compile(test.s); f != nil || err == nil || err.Error() != test.want {
			t.Errorf("%s (%s): %v, not %s", test.name, test.why, err, test.want)
		}
	}
}

func TestAFilterForAnotherMachineIsNotLoaded(t *testing.T) {
	for _, a := range arches() {
		f, err := Compile(Settings{PID: 1, Arch: a.name})
		must(t, err)
		if native, _ := findArch(""); native == a {
			continue // loading it would filter this test
		}
		if err := f.Load(); err == nil || err.Error() != "load filter: it is for "+a.name {
			t.Error(err)
		}
	}
}
