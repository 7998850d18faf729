package lockdown

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/landlock"
	"mcp-server-suite/pkg/seccomp"
)

func TestTheFactsArriveInStage2(t *testing.T) {
	t.Parallel()
	sent := facts{
		ABI: 7, Why: "a reason with = and \"quotes\" and\nlines", Other: 42,
		Cgroup: Cgroup{MemoryBytes: 64 << 20, CPUCores: 1.5},
		RootRO: true, Writable: []Mount{{"/a b=c", []string{"nosuid", "noexec"}}, {"/d", []string{}}}, MoreMounts: 3,
	}
	sent.Rest = rest{[]uint16{5432}, nil, seccomp.Settings{Profiles: []seccomp.Profile{seccomp.SQL}, INET: true}}
	sent.add(Rule{Path: "/srv/data", rights: landlock.ReadFile | landlock.ReadDir})
	if want := []string{"read_file", "read_dir"}; len(sent.Rules) != 1 || !slices.Equal(sent.Rules[0].Rights, want) {
		t.Errorf("%+v", sent.Rules)
	}
	environ, err := Plan{}.environment([]string{"A=1", markName + "=garbage"}, map[string]string{"GOMAXPROCS": "2"}, sent)
	if err != nil {
		t.Fatal(err)
	}
	got, found, err := mark(environ)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	sent.Rules[0].rights = 0 // the bits stay behind, the names go
	if !reflect.DeepEqual(got, sent) {
		t.Errorf("%+v, want %+v", got, sent)
	}
	for _, entry := range environ {
		if strings.Contains(entry, "\x00") || strings.Contains(entry, "\n") {
			t.Errorf("%q", entry)
		}
	}
}

func TestAMarkIsReadOrRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		environ      []string
		found, wrong bool
		why          string
	}{
		{"none", []string{"A=1", "MCP_SERVER_SUITE_STAGES={}", "X" + markName + "={}"}, false, false, "stage 1"},
		{"empty", []string{markName + "="}, true, true, "set is set"},
		{"no facts", []string{markName + "={}"}, true, false, "it can be read; that it proves nothing is for stage 2"},
		{"garbage", []string{markName + "=7x"}, true, true, ""},
		{"two values", []string{markName + "={} {}"}, true, true, "one"},
		{"another type", []string{markName + `={"abi":"7"}`}, true, true, ""},
		{"a fraction", []string{markName + `={"abi":7.5}`}, true, true, ""},
		{"two", []string{markName + `={"abi":1}`, markName + "=7x"}, true, false, "the first is what getenv would say"},
	} {
		f, found, err := mark(c.environ)
		if found != c.found || (err != nil) != c.wrong || err != nil && !reflect.DeepEqual(f, facts{}) {
			t.Errorf("%s: %+v, %t, %v (%s)", c.name, f, found, err, c.why)
		}
	}
}

func TestOnlyOurVariablesGoOn(t *testing.T) {
	t.Parallel()
	set := func() map[string]string { return map[string]string{"GOMAXPROCS": "2", "GOMEMLIMIT": "100"} }
	for _, c := range []struct {
		name        string
		given, want []string // want without the mark, in any order
		why         string
	}{
		{"nothing", nil, []string{"GOMAXPROCS=2", "GOMEMLIMIT=100"}, "stage 1 knows them"},
		{"ours", []string{"MCP_X=1", "MCP_EMPTY="}, []string{"MCP_X=1", "MCP_EMPTY=", "GOMAXPROCS=2", "GOMEMLIMIT=100"}, ""},
		{
			"like ours",
			[]string{"mcp_x=2", "MCP_GITHUB_TOKEN=secret", "MCP_X_=3"},
			[]string{"GOMAXPROCS=2", "GOMEMLIMIT=100"},
			"another server's, a secret perhaps; a misspelt one of ours was a fault before",
		},
		{
			"the operator's",
			[]string{"GOMAXPROCS=1", "GOGC=50", "GODEBUG=a=b"},
			[]string{"GOMAXPROCS=2", "GOGC=50", "GODEBUG=a=b", "GOMEMLIMIT=100"},
			"what is set comes before them",
		},
		{
			"others",
			[]string{"PATH=/bin", "HOME=/", "LD_PRELOAD=x", "XMCP_=1", "MCP=1", "GOFLAGS=x", "GOMAXPROCSX=1", "=x", ""},
			[]string{"GOMAXPROCS=2", "GOMEMLIMIT=100"},
			"secrets among them",
		},
		{
			"the same name twice",
			[]string{"GOGC=1", "GOGC=2"},
			[]string{"GOGC=1", "GOGC=2", "GOMAXPROCS=2", "GOMEMLIMIT=100"},
			"not ours to choose",
		},
		{"a mark", []string{markName + "={}"}, []string{"GOMAXPROCS=2", "GOMEMLIMIT=100"}, "it is made anew"},
	} {
		got, err := Plan{Settings: []string{"MCP_X", "MCP_EMPTY"}}.environment(c.given, set(), facts{})
		if err != nil {
			t.Fatal(err)
		}
		marks := len(got)
		got = slices.DeleteFunc(got, func(entry string) bool { return strings.HasPrefix(entry, markName+"=") })
		marks -= len(got)
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) || marks != 1 {
			t.Errorf("%s: %q and %d marks, want %q (%s)", c.name, got, marks, c.want, c.why)
		}
	}
}

func TestTheMemoryLimitFitsTheControlGroup(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                string
		want, allowed, then int64
		why                 string
	}{
		{"no group", 128 << 20, 0, 128 << 20, "nothing binds"},
		{"a large group", 128 << 20, 1 << 30, 128 << 20, "more is not needed"},
		{"a small group", 128 << 20, 64 << 20, 64 << 20 / 10 * 9, "a tenth is left for what is not heap"},
		{"just enough", 90, 100, 90, "nine tenths"},
		{"a tiny group", 128 << 20, 9, 0, "the division comes first, so that no limit overflows"},
		{"the largest group", 128 << 20, 1<<63 - 1, 128 << 20, "no overflow"},
	} {
		if got := memoryLimit(c.want, c.allowed); got != c.then {
			t.Errorf("%s: %d, want %d (%s)", c.name, got, c.then, c.why)
		}
	}
}

// planted is a door that answers one thing at the first try and another one at the second.
func planted(right string, before, after error) door {
	answers := []error{before, after}
	return door{right: right, abi: 1, shut: unix.EACCES, try: func() error {
		answer := answers[0]
		answers = answers[1:]
		return answer
	}}
}

func TestADoorThatStaysOpenIsFound(t *testing.T) {
	t.Parallel()
	shutNow := func() door { return planted("shut now", nil, unix.EACCES) }
	for _, c := range []struct {
		name  string
		doors []door
		says  string // "" is closed
		why   string
	}{
		{"shut now", []door{shutNow()}, "", "the control"},
		{"open", []door{shutNow(), planted("the right", nil, nil)}, "the right", "open before and after"},
		{"shut by somebody else", []door{shutNow(), planted("x", nil, unix.EPERM)}, "x", "it is not the domain's"},
		{"shut before", []door{shutNow(), planted("x", unix.EPERM, nil)}, "", "nothing can be seen by it"},
		{"only shut before", []door{planted("x", unix.EACCES, unix.EACCES)}, "nothing was open before", "it does not count"},
		{"not tried", []door{planted("x", errNotTried, errNotTried)}, "nothing was open before", "it does not count"},
		{"gone meanwhile", []door{planted("x", nil, errNotTried)}, "nothing was open before", "the other process has ended"},
		{"gone meanwhile, and another", []door{planted("x", nil, errNotTried), shutNow()}, "", "one is enough"},
		{"none", nil, "nothing was open before", "there is nothing to see it by"},
	} {
		err := observe(c.doors).closed()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q (%s)", c.name, err, c.says, c.why)
		}
	}
}

// In this process, which has no domain, every door that there is something to try on is open: what they are called and
// what they would say is so far only claimed, but that they are doors is seen.
func TestEveryDoorIsOpenWithoutADomain(t *testing.T) {
	t.Parallel()
	p := Plan{}
	opened := 0
	for _, d := range p.doors(landlock.KnownABI, 0) {
		switch err := d.try(); {
		case err == nil:
			opened++
		case !errors.Is(err, errNotTried):
			t.Errorf("%s: %v", d.right, err)
		}
	}
	if opened < 4 { // without any socket and with nobody to signal
		t.Errorf("%d doors", opened)
	}
	if err := p.shut(facts{ABI: 1}); err == nil || !strings.Contains(err.Error(), "success") {
		t.Errorf("stage 2 finds them shut: %v", err)
	}
}

// A door for a right that the ABI has not would be found open at every start.
func TestDoorsAreThoseOfTheABI(t *testing.T) {
	t.Parallel()
	first := map[string]int{}
	for _, right := range landlock.Rights() {
		first[right.Name] = right.ABI
	}
	for abi := range landlock.KnownABI + 1 {
		var want []string
		for _, d := range (Plan{}).doors(landlock.KnownABI, 0) {
			if d.abi <= abi {
				want = append(want, d.right)
			}
			if first[d.right] != d.abi {
				t.Errorf("%s: ABI %d, the table of rights says %d", d.right, d.abi, first[d.right])
			}
		}
		var got []string
		for _, d := range (Plan{}).doors(abi, 0) {
			got = append(got, d.right)
		}
		if !slices.Equal(got, want) {
			t.Errorf("ABI %d: %v, want %v", abi, got, want)
		}
	}
}

func TestWhatIsGrantedIsNotTriedAsForbidden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		grant      Grant
		path       string
		read, list bool
		why        string
	}{
		{Grant{Path: "/proc"}, "/proc/version", true, false, "below"},
		{Grant{Path: "/proc", List: true}, "/proc/version", true, true, "below"},
		{Grant{Path: "/proc/version"}, "/proc/version", true, false, "the same"},
		{Grant{Path: "/"}, "/proc/version", true, false, "below"},
		{Grant{Path: "/proc/stat"}, "/proc/version", false, false, "beside"},
		{Grant{Path: "/proc/ver"}, "/proc/version", false, false, "a prefix of the name is no folder"},
		{Grant{Path: "/proc/self/.."}, "/proc/version", true, false, "another name of the folder above"},
		{Grant{Path: "/proc/self/root/proc"}, "/proc/version", true, false, "a link"},
		{Grant{Path: "/no/such/folder"}, "/no/such/folder", false, false, "what is not there gets no rule"},
	} {
		p := Plan{Grants: []Grant{c.grant}}
		if read, list := p.granted(c.path, false), p.granted(c.path, true); read != c.read || list != c.list {
			t.Errorf("%+v, %s: read %t, list %t (%s)", c.grant, c.path, read, list, c.why)
		}
	}
	if (Plan{}).granted("/proc/version", false) {
		t.Error("nothing is granted, and this is")
	}
}

func TestAPlanIsCheckedFirst(t *testing.T) {
	t.Parallel()
	right := Plan{Landlock: Require, MinABI: 1, Seccomp: Require, OpenFiles: minOpenFiles}
	if err := right.check(); err != nil {
		t.Errorf("the control: %v", err)
	}
	for name, change := range map[string]func(*Plan){
		"no Landlock mode":     func(p *Plan) { p.Landlock = "" },
		"an unknown one":       func(p *Plan) { p.Landlock = "on" },
		"no seccomp mode":      func(p *Plan) { p.Seccomp = "" },
		"seccomp if available": func(p *Plan) { p.Seccomp = IfAvailable },
		"ABI 0":                func(p *Plan) { p.MinABI = 0 },
		"an ABI of the future": func(p *Plan) { p.MinABI = landlock.KnownABI + 1 },
		"too few files":        func(p *Plan) { p.OpenFiles = minOpenFiles - 1 },
	} {
		p := right
		change(&p)
		if err := p.check(); err == nil {
			t.Errorf("%s: accepted", name)
		}
		// Nothing has happened when Enter returns: the test is still there and may do what it could.
		if c, err := Enter(p, []string{"x"}, nil); c != nil || err == nil {
			t.Errorf("%s: entered", name)
		}
	}
}

func TestEverywhereAsksOtherThreads(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[int]bool{}
	err := everywhere(func() error {
		mu.Lock()
		defer mu.Unlock()
		asked[unix.Gettid()] = true
		return nil
	})
	if want := fresh() + 1; err != nil || len(asked) != want {
		t.Errorf("%v; %d threads, want %d: %v", err, len(asked), want, slices.Collect(maps.Keys(asked)))
	}
	// One of them is enough for an error, whichever, and it fits on one line.
	calls := 0
	err = everywhere(func() error {
		mu.Lock()
		defer mu.Unlock()
		calls++
		if calls < 2 {
			return nil
		}
		return fmt.Errorf("call %d", calls)
	})
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("%q", err)
	}
}

func TestTheProcessorsFollowTheThreadsThatAreAllowed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		processors int
		tasks      int64
		want       int
		why        string
	}{
		{2, 0, 2, "no bound"},
		{64, 0, 64, "no bound"},
		{2, 16, 2, "docker run --pids-limit 16 on a small machine"},
		{64, 16, 2, "and on a large one"},
		{64, 64, 8, "an eighth"},
		{64, 1, 1, "never none"},
		{4, math.MaxInt64, 4, "as good as no bound"},
	} {
		if got := processors(c.processors, c.tasks); got != c.want {
			t.Errorf("%d processors, %d tasks: got %d, want %d: %s", c.processors, c.tasks, got, c.want, c.why)
		}
	}
}
