package hostmetrics

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
	"golang.org/x/tools/txtar"
)

func stat(user, idle float64) procfs.CPUStat { return procfs.CPUStat{User: user, Idle: idle} }

// parsed is one case of a parse function: the whole text of a file, and either the value or the reason.
type parsed[T int64 | uint64 | float64] struct {
	name, why, text string
	want            T
	reason          Reason
}

func run[T int64 | uint64 | float64](t *testing.T, parse func(string) (T, Reason), cases []parsed[T]) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got, why := parse(c.text); got != c.want || why != c.reason {
				t.Errorf("%q: got %v, %q, want %v, %q: %s", c.text, got, why, c.want, c.reason, c.why)
			}
		})
	}
}

var memoryLimits = []parsed[int64]{
	{"bytes", "v1 and v2", "134217728\n", 134217728, known},
	{"zero", "allowed: it drains a group", "0\n", 0, known},
	{"max", "the v2 word for none", "max\n", 0, Unlimited},
	{"sentinel", "v1, pages of 4 KiB", "9223372036854771712\n", 0, Unlimited},
	{"sentinel of large pages", "v1, pages of 64 KiB", "9223372036854710272\n", 0, Unlimited},
	{"old sentinel", "v1 before 3.19", "9223372036854775807\n", 0, Unlimited},
	{"all bits", "fits uint64", "18446744073709551615", 0, Unlimited},
	{"largest", "4 PiB still is a limit", "4503599627370496", maxMemoryBytes, known},
	{"too large", "one more fits no machine", "4503599627370497", 0, Unlimited},
	{"no number", "beyond uint64 the kernel never writes", "18446744073709551616", 0, Malformed},
	{"negative", "-1 can be written but never reads back", "-1\n", 0, Malformed},
	{"empty", "masked with /dev/null", "", 0, Malformed},
	{"two", "one value a file", "1 2\n", 0, Malformed},
	{"unit", "only written, never read", "1G\n", 0, Malformed},
	{"sign", "strconv.ParseInt would take it", "+1\n", 0, Malformed},
	{"underscore", "base 0 would take it", "1_000\n", 0, Malformed},
}

func TestMemoryLimitIsBytesOrNone(t *testing.T) { run(t, parseMemoryLimit, memoryLimits) }

var memoryUsages = []parsed[int64]{
	{"bytes", "v1 and v2", "33554432\n", 33554432, known},
	{"zero", "an empty group", "0\n", 0, known},
	{"too large", "fits no machine", "9223372036854771712\n", 0, Malformed},
	{"max", "usage has no such word", "max\n", 0, Malformed},
	{"empty", "masked", "", 0, Malformed},
}

func TestMemoryUsageIsBytes(t *testing.T) { run(t, parseMemoryUsage, memoryUsages) }

var cpuMaxes = []parsed[float64]{
	{"one core", "docker --cpus 1", "100000 100000\n", 1, known},
	{"one and a half", "docker --cpus 1.5", "150000 100000\n", 1.5, known},
	{"100m", "kubernetes", "10000 100000\n", 0.1, known},
	{"none", "the default", "max 100000\n", 0, Unlimited},
	{"no period", "may be written, never reads back", "100000\n", 0, Malformed},
	{"zero quota", "the kernel takes 1 ms or more", "0 100000\n", 0, Malformed},
	{"zero period", "divides", "100000 0\n", 0, Malformed},
	{"negative", "v1's word in the v2 file", "-1 100000\n", 0, Malformed},
	{"three", "one value too many", "1 2 3\n", 0, Malformed},
	{"empty", "masked", "", 0, Malformed},
}

func TestCPUMaxIsCores(t *testing.T) { run(t, parseCPUMax, cpuMaxes) }

// The text of these is the quota, a comma, the period.
var cfsQuotas = []parsed[float64]{
	{"half", "docker --cpus 0.5", "50000\n,100000\n", 0.5, known},
	{"none", "the default", "-1\n,100000\n", 0, Unlimited},
	{"none needs no period", "nothing is divided", "-1\n,\n", 0, Unlimited},
	{"zero quota", "cannot be set", "0\n,100000\n", 0, Malformed},
	{"zero period", "divides", "1\n,0\n", 0, Malformed},
	{"other negative", "only -1 is documented", "-2\n,100000\n", 0, Malformed},
	{"max", "v2's word in the v1 file", "max\n,100000\n", 0, Malformed},
	{"empty", "masked", ",", 0, Malformed},
}

func cfsQuota(text string) (float64, Reason) {
	quota, period, _ := strings.Cut(text, ",")
	return parseCFSQuota(quota, period)
}

func TestCFSQuotaIsCores(t *testing.T) { run(t, cfsQuota, cfsQuotas) }

var cpuStats = []parsed[uint64]{
	{"first line", "the kernel's order", "usage_usec 5\nuser_usec 3\nsystem_usec 2\n", 5, known},
	{"later line", "the order is not promised", "nr_periods 1\nusage_usec 5\n", 5, known},
	{"no newline", "last line", "usage_usec 5", 5, known},
	{"v1 file", "cpu.stat of v1 has no usage", "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n", 0, Malformed},
	{"longer name", "not a prefix", "usage_usec_total 5\n", 0, Malformed},
	{"no value", "cut short", "usage_usec\n", 0, Malformed},
	{"negative", "counters are not", "usage_usec -5\n", 0, Malformed},
	{"empty", "masked", "", 0, Malformed},
}

func TestCPUStatUsageIsMicroseconds(t *testing.T) { run(t, parseCPUStat, cpuStats) }

var cpuAccts = []parsed[uint64]{
	{"nanoseconds", "v1", "34124940324\n", 34124940, known},
	{"beyond int64", "292 years of CPU time: 105 days of 1000 cores", "9223372036854775808\n", 9223372036854775, known},
	{"negative", "counters are not", "-1\n", 0, Malformed},
	{"empty", "masked", "", 0, Malformed},
}

func TestCPUAcctUsageIsMicroseconds(t *testing.T) { run(t, parseCPUAcct, cpuAccts) }

// seed adds the texts of a table; fuzz holds a parse function to: a value or a reason, both from their range.
func seed[T int64 | uint64 | float64](f *testing.F, cases []parsed[T]) {
	for _, c := range cases {
		f.Add(c.text)
	}
}

func fuzz[T int64 | uint64 | float64](f *testing.F, parse func(string) (T, Reason)) {
	f.Fuzz(func(t *testing.T, text string) {
		got, why := parse(text)
		value := float64(got)
		switch {
		case math.IsNaN(value), math.IsInf(value, 0), value < 0:
			t.Errorf("%q gives %v", text, got)
		case why != known && why != Malformed && why != Unlimited, why != known && got != 0:
			t.Errorf("%q gives %v with %q", text, got, why)
		}
	})
}

func FuzzMemoryLimit(f *testing.F) { seed(f, memoryLimits); fuzz(f, parseMemoryLimit) }
func FuzzMemoryUsage(f *testing.F) { seed(f, memoryUsages); fuzz(f, parseMemoryUsage) }
func FuzzCPUMax(f *testing.F)      { seed(f, cpuMaxes); fuzz(f, parseCPUMax) }
func FuzzCFSQuota(f *testing.F)    { seed(f, cfsQuotas); fuzz(f, cfsQuota) }
func FuzzCPUStat(f *testing.F)     { seed(f, cpuStats); fuzz(f, parseCPUStat) }
func FuzzCPUAcct(f *testing.F)     { seed(f, cpuAccts); fuzz(f, parseCPUAcct) }

var groupPaths = []struct{ name, why, path, want string }{
	{"root", "a cgroup namespace", "/", "."},
	{"nested", "systemd", "/user.slice/a.scope", "user.slice/a.scope"},
	{"outside", "a process that was moved out of its namespace", "/..", "."},
	{"far outside", "the dots alone dropped would leave a stranger's name", "/../../other", "."},
	{"dots within", "the kernel never writes it", "/a/../../other", "."},
	{"dots in a name", "an odd but legal group", "/a..b", "a..b"},
	{"deleted", "the kernel appends this to a removed group's path", "/a (deleted)", "a (deleted)"},
	{"slashes", "cleaned", "//a//b/", "a/b"},
	{"empty", "not absolute", "", "."},
	{"colon", "everything after the second colon is path", "/a:b", "a:b"},
}

func TestGroupPathStaysBelowTheRoot(t *testing.T) {
	for _, c := range groupPaths {
		t.Run(c.name, func(t *testing.T) {
			if got := localPath(c.path); got != c.want {
				t.Errorf("%q: got %q, want %q: %s", c.path, got, c.want, c.why)
			}
		})
	}
}

func FuzzGroupPath(f *testing.F) {
	for _, c := range groupPaths {
		f.Add(c.path)
	}
	f.Fuzz(func(t *testing.T, named string) {
		if got := localPath(named); !filepath.IsLocal(got) || localPath(got) != got {
			t.Errorf("%q gives %q", named, got)
		}
	})
}

// The two guards against /../.. each alone: without any the stranger's file is read.
func TestEscapingPathMeetsTwoGuards(t *testing.T) {
	dir := t.TempDir()
	must(t, build(dir, tree(t, "v2_outside_namespace").Files))
	const escape = "../other/memory.max"
	if _, err := os.ReadFile(filepath.Join(dir, "cgroup", escape)); err != nil {
		t.Fatalf("the attack does not work without guards: %v", err)
	}
	root, err := os.OpenRoot(filepath.Join(dir, "cgroup"))
	must(t, err)
	defer root.Close()
	if text, why := readText(root, escape); why != Malformed {
		t.Errorf("os.Root let %q through, %q", text, why)
	}
	if got := localPath("/" + escape); got != "." {
		t.Errorf("cleaned to %q", got)
	}
}

func TestLongCgroupFileIsRefusedNotCut(t *testing.T) {
	dir := t.TempDir()
	must(t, build(dir, []txtar.File{
		{Name: "longest", Data: []byte(strings.Repeat("1", maxFileBytes))},
		{Name: "longer", Data: []byte(strings.Repeat("1", maxFileBytes+1))},
	}))
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	if text, why := readText(root, "longest"); len(text) != maxFileBytes || why != known {
		t.Errorf("%d bytes, %q", len(text), why)
	}
	if text, why := readText(root, "longer"); text != "" || why != Malformed {
		t.Errorf("%d bytes, %q", len(text), why)
	}
}

func TestNoDescriptorStaysOpen(t *testing.T) {
	dir := t.TempDir()
	must(t, build(dir, tree(t, "v2_nested").Files))
	h := open(t, dir, 1)
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(entries)
	}
	before := count()
	for range 50 {
		_, err := h.Sample(t.Context(), true)
		must(t, err)
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}
