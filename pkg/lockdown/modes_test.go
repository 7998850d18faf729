package lockdown_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"mcp-server-suite/pkg/landlock"
	"mcp-server-suite/pkg/lockdown"
	"mcp-server-suite/pkg/stage"
)

func TestAKernelBelowTheLowestABIStopsTheStart(t *testing.T) {
	t.Parallel()
	needRoot(t)
	abi := needLandlock(t)
	if abi == landlock.KnownABI {
		t.Skipf("needs a kernel with a Landlock ABI below %d", landlock.KnownABI)
	}
	lowest := func(n int) string { return fmt.Sprintf("MCP_LANDLOCK_MIN_ABI=%d", n) }
	has := fmt.Sprintf("landlock: the kernel has ABI %d, MCP_LANDLOCK_MIN_ABI asks for ", abi)
	toTheEnd(t, daemonWith(t, lowest(abi+1))).refusesToServe(t, has+fmt.Sprint(abi+1))
	toTheEnd(t, daemonWith(t, lowest(landlock.KnownABI))).refusesToServe(t, has+fmt.Sprint(landlock.KnownABI))
	// It counts where there is Landlock, also when it need not be there; without Landlock it does not.
	toTheEnd(t, daemonWith(t, lowest(abi+1), "MCP_LANDLOCK=if-available")).refusesToServe(t, has)
	toTheEnd(t, daemonWith(t, lowest(abi+1), "MCP_LANDLOCK=off")).serves(t)
	toTheEnd(t, daemonWith(t, lowest(abi))).serves(t)
}

// mode is what one combination of opt-outs must come to.
type mode struct {
	env               []string
	level             lockdown.Level
	landlock, seccomp bool // in force
	openat2           bool
	text              []string // lines, or their beginnings
	why               string
}

func modes(abi int) []mode {
	inForce := fmt.Sprintf("landlock     in force (require), ABI %d of %d known", abi, landlock.KnownABI)
	return []mode{
		{nil, lockdown.Full, true, true, abi >= 3, []string{
			"level        full", "user         uid 10001, gid 10001, groups [], capabilities 0000000000000000, no new privileges: yes",
			inForce, "             /proc/self/exe: execute, read_file", "             /proc/self/task: read_file, read_dir",
			"seccomp      in force on all ", "process      dumpable: no, no writable and executable memory: ",
			"opt-outs     none", "residual     nothing beyond what SECURITY.md names",
		}, "nothing is given up"},
		{[]string{"MCP_LANDLOCK=off"}, lockdown.Reduced, false, true, false, []string{
			"level        reduced", "landlock     NOT in force (off): MCP_LANDLOCK=off",
			"             lacks read_file (ABI 1); covered by nothing",
			"             lacks write_file (ABI 1); covered by seccomp", "seccomp      in force on all ",
			"opt-outs     MCP_LANDLOCK=off",
			"residual     open a file for reading is left: Landlock takes it away from ABI 1 on",
			"             open: open a file outside of the grants",
		}, "files are found by a walk, because the flags of openat2 cannot be seen by a filter"},
		{[]string{"MCP_SECCOMP=off"}, lockdown.Reduced, true, false, true, []string{
			"level        reduced", inForce, "seccomp      NOT in force (off); filters of the runtime: ",
			"opt-outs     MCP_SECCOMP=off", "every system call that the user may make is left: there is no filter of ours",
			"             open: umask",
		}, "the domain still holds"},
		{unlocked, lockdown.None, false, false, true, []string{
			"level        off", "landlock     NOT in force (off): MCP_LANDLOCK=off",
			"seccomp      NOT in force (off); filters of the runtime: ",
			"opt-outs     MCP_LANDLOCK=off", "             MCP_SECCOMP=off",
		}, "nothing of ours is left"},
		{[]string{"MCP_LANDLOCK=if-available"}, lockdown.Reduced, true, true, abi >= 3, []string{
			"level        reduced", strings.Replace(inForce, "require", "if-available", 1),
			"opt-outs     MCP_LANDLOCK=if-available",
		}, "all is in force here, but the setting would have done without"},
	}
}

func TestThePostureSaysWhichLayersAreInForce(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for _, m := range modes(needLandlock(t)) {
		r := postureIn(t, m.env...)
		if r.Level != m.level || r.Landlock.Enforced != m.landlock || r.Seccomp.Enforced != m.seccomp ||
			r.Seccomp.Openat2 != m.openat2 || !slices.Equal(r.OptOuts, append([]string{}, m.env...)) || !r.NoNewPrivs {
			t.Errorf("%v: level %s, landlock %t, seccomp %t, openat2 %t, opt-outs %v (%s)", m.env, r.Level, r.Landlock.Enforced,
				r.Seccomp.Enforced, r.Seccomp.Openat2, r.OptOuts, m.why)
		}
		filters := r.Seccomp.Before
		if m.seccomp {
			filters++
		}
		if r.Seccomp.Filters != filters || r.Seccomp.Before != ownFilters(t) {
			t.Errorf("%v: %d filters, %d before, this process has %d", m.env, r.Seccomp.Filters, r.Seccomp.Before, ownFilters(t))
		}
		if left := len(r.Residual) > 0; left != (m.level == lockdown.None || !m.landlock || !m.seccomp) {
			t.Errorf("%v: residual %v", m.env, r.Residual)
		}
		if !m.landlock && len(r.Landlock.Missing) != len(landlock.Missing(0)) {
			t.Errorf("%v: missing %v", m.env, r.Landlock.Missing)
		}
		if len(r.Probes.Failed) > 0 {
			t.Errorf("%v: failed %v", m.env, r.Probes.Failed)
		}
	}
}

func TestThePostureReadsWell(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for _, m := range modes(needLandlock(t)) {
		e := toTheEnd(t, stage.Daemon(t, stage.Options{Args: []string{"posture", "--text"}, Env: m.env}))
		lines := strings.Split(strings.TrimSuffix(e.stdout, "\n"), "\n")
		if e.code != 0 || e.stderr != "" || len(lines) < 12 {
			t.Errorf("%v: %v", m.env, e)
		}
		for _, want := range m.text {
			if !slices.ContainsFunc(lines, func(line string) bool {
				return strings.HasPrefix(line, want) || strings.Contains(line, " "+want)
			}) {
				t.Errorf("%v: no line %q in\n%s", m.env, want, e.stdout)
			}
		}
		for _, line := range lines {
			unseen := strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' })
			if unseen || strings.TrimRight(line, " ") != line {
				t.Errorf("%v: line %q", m.env, line)
			}
		}
	}
}

// Without the domain, or without the filter, or without both, the tools work, and the sandbox has its own guard: a way
// out is refused by the resolution of the path.
func TestTheToolsWorkInEveryMode(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := sandboxTree(t)
	for _, m := range modes(needLandlock(t)) {
		t.Run(strings.Join(m.env, " "), func(t *testing.T) {
			t.Parallel()
			c := converse(t, daemonWith(t, append(m.env, "MCP_SAFE_DATA_DIR="+dir)...))
			c.readsInside()
			if !strings.Contains(firstLine(t, c.Client), fmt.Sprintf(`"posture":{"level":"%s"`, m.level)) {
				t.Errorf("the log does not tell the level: %s", c.Stderr())
			}
		})
	}
}

// What the kernel's Landlock is too old to take away, the filter refuses.
func TestEveryRightThatLandlockLacksIsCoveredByTheFilter(t *testing.T) {
	t.Parallel()
	needRoot(t)
	abi := needLandlock(t)
	r := postureIn(t)
	if r.Landlock.ABI != abi || r.Landlock.Known != landlock.KnownABI {
		t.Errorf("ABI %d of %d, want %d of %d", r.Landlock.ABI, r.Landlock.Known, abi, landlock.KnownABI)
	}
	var want, got []string
	for _, right := range landlock.Missing(abi) {
		want = append(want, right.Name)
	}
	for _, m := range r.Landlock.Missing {
		got = append(got, m.Right)
		if m.CoveredBy != "seccomp" || m.FirstABI <= abi {
			t.Errorf("%+v", m)
		}
	}
	if !slices.Equal(got, want) || len(r.Residual) > 0 {
		t.Errorf("missing %v, want %v; residual %v", got, want, r.Residual)
	}
	// The control: without the filter nothing covers them.
	for _, m := range postureIn(t, "MCP_SECCOMP=off").Landlock.Missing {
		if m.CoveredBy != "nothing" {
			t.Errorf("without the filter: %+v", m)
		}
	}
}
