package hostmetrics

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"
)

const sampleTime = 100 * time.Millisecond

// build writes a tree: name to text, name/ to a directory, "name -> target" to a symbolic link. proc/self leads to
// process 1 where that is there.
func build(dir string, files []txtar.File) error {
	for _, f := range files {
		name, target, isLink := strings.Cut(filepath.Join(dir, f.Name), " -> ")
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		switch {
		case err != nil:
		case isLink:
			err = os.Symlink(target, name)
		case strings.HasSuffix(f.Name, "/"):
			err = os.MkdirAll(name, 0o755)
		default:
			err = os.WriteFile(name, f.Data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "proc/1")); err != nil {
		return nil
	}
	if err := os.Symlink("1", filepath.Join(dir, "proc/self")); !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, dir string, sample time.Duration) *Host {
	t.Helper()
	h, err := Open(Settings{
		ProcRoot:   filepath.Join(dir, "proc"),
		CgroupRoot: filepath.Join(dir, "cgroup"),
		DiskPath:   dir,
		CPUSample:  sample,
	})
	must(t, err)
	t.Cleanup(func() { must(t, h.Close()) })
	return h
}

func tree(t testing.TB, name string) *txtar.Archive {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata/trees", name+".txtar"))
	must(t, err)
	return archive
}

// rows are the figures by their dotted paths, in the order of the fields.
func rows(f Figures) (names, values []string) {
	add := func(name string, isKnown bool, value string) {
		names = append(names, name)
		if !isKnown {
			value = ""
		}
		values = append(values, value)
	}
	whole := func(name string, n Number[int64]) { add(name, n.Known, strconv.FormatInt(n.Value, 10)) }
	real := func(name string, n Number[float64]) {
		add(name, n.Known, strconv.FormatFloat(math.Round(100*n.Value)/100, 'g', -1, 64))
	}
	real("cpu.utilization_percent", f.CPU.UtilizationPercent)
	whole("cpu.core_count", f.CPU.CoreCount)
	real("cpu.load_average_1m", f.CPU.LoadAverage1m)
	whole("memory.total_bytes", f.Memory.TotalBytes)
	whole("memory.available_bytes", f.Memory.AvailableBytes)
	real("memory.percent_used", f.Memory.PercentUsed)
	real("disk_percent_used", f.DiskPercentUsed)
	whole("cgroup.version", f.Cgroup.Version)
	whole("cgroup.memory_limit_bytes", f.Cgroup.MemoryLimitBytes)
	whole("cgroup.memory_current_bytes", f.Cgroup.MemoryCurrentBytes)
	real("cgroup.memory_percent_used", f.Cgroup.MemoryPercentUsed)
	real("cgroup.cpu_quota_cores", f.Cgroup.CPUQuotaCores)
	real("cgroup.cpu_utilization_percent", f.Cgroup.CPUUtilizationPercent)
	return names, values
}

// text prints each figure with its value, or why there is none.
func text(f Figures) string {
	var b strings.Builder
	names, values := rows(f)
	for i, name := range names {
		value := values[i]
		if value == "" {
			value = "not requested"
		}
		for _, u := range f.Unavailable {
			if u.Figure == name {
				value = string(u.Reason)
			}
		}
		fmt.Fprintf(&b, "%s %s\n", name, value)
	}
	return b.String()
}

// check holds a sample to what Figures promises, whatever was read.
func check(t testing.TB, f Figures, disk bool) {
	t.Helper()
	within := func(name string, n Number[float64], low, high float64) {
		if n.Known && !(n.Value >= low && n.Value <= high) || !n.Known && n.Value != 0 {
			t.Errorf("%s is %v", name, n)
		}
	}
	within("cpu.utilization_percent", f.CPU.UtilizationPercent, 0, 100)
	within("cpu.load_average_1m", f.CPU.LoadAverage1m, 0, math.MaxFloat64)
	within("memory.percent_used", f.Memory.PercentUsed, 0, 100)
	within("disk_percent_used", f.DiskPercentUsed, 0, 100)
	within("cgroup.memory_percent_used", f.Cgroup.MemoryPercentUsed, 0, 100)
	within("cgroup.cpu_quota_cores", f.Cgroup.CPUQuotaCores, math.SmallestNonzeroFloat64, math.MaxFloat64)
	within("cgroup.cpu_utilization_percent", f.Cgroup.CPUUtilizationPercent, 0, 100)
	whole := func(name string, n Number[int64], low, high int64) {
		if n.Known && !(n.Value >= low && n.Value <= high) || !n.Known && n.Value != 0 {
			t.Errorf("%s is %v", name, n)
		}
	}
	whole("cpu.core_count", f.CPU.CoreCount, 1, 1<<20)
	whole("memory.total_bytes", f.Memory.TotalBytes, 1, maxMemoryBytes)
	whole("memory.available_bytes", f.Memory.AvailableBytes, 0, f.Memory.TotalBytes.Value)
	whole("cgroup.version", f.Cgroup.Version, 1, 2)
	whole("cgroup.memory_limit_bytes", f.Cgroup.MemoryLimitBytes, 0, maxMemoryBytes)
	whole("cgroup.memory_current_bytes", f.Cgroup.MemoryCurrentBytes, 0, maxMemoryBytes)
	if f.Timestamp.Location() != time.UTC {
		t.Errorf("timestamp in %v", f.Timestamp.Location())
	}

	table := map[Reason]bool{}
	for _, row := range Reasons() {
		table[row.Reason] = true
	}
	next := 0
	names, values := rows(f)
	for i, name := range names {
		if values[i] != "" || name == "disk_percent_used" && !disk {
			continue
		}
		if next == len(f.Unavailable) || f.Unavailable[next].Figure != name || !table[f.Unavailable[next].Reason] {
			t.Errorf("%s is unknown without a reason, or out of order: %v", name, f.Unavailable)
			return
		}
		next++
	}
	if next != len(f.Unavailable) {
		t.Errorf("reasons for known figures: %v", f.Unavailable)
	}
}

// sampleTree takes one sample of a tree whose files below later/ replace the others in the middle of the interval. The
// bubble makes that exact: its clock stands still while files are read, and the test fails if a goroutine is left.
func sampleTree(t *testing.T, archive *txtar.Archive) Figures {
	t.Helper()
	dir := t.TempDir()
	var first, later []txtar.File
	for _, f := range archive.Files {
		if name, isLater := strings.CutPrefix(f.Name, "later/"); isLater {
			later = append(later, txtar.File{Name: name, Data: f.Data})
		} else if f.Name != "want" {
			first = append(first, f)
		}
	}
	must(t, build(dir, first))
	h := open(t, dir, sampleTime)
	var f Figures
	synctest.Test(t, func(t *testing.T) {
		var sampleErr, laterErr error
		var wg sync.WaitGroup
		wg.Go(func() { f, sampleErr = h.Sample(t.Context(), false) })
		time.Sleep(sampleTime / 2)
		laterErr = build(dir, later)
		wg.Wait()
		must(t, errors.Join(sampleErr, laterErr))
	})
	return f
}

// Each tree is a whole system before and after, with the figures it must give; the reason why is its first lines.
func TestTreesGiveTheirFiguresOrTheirReasons(t *testing.T) {
	names, err := filepath.Glob("testdata/trees/*.txtar")
	must(t, err)
	if len(names) == 0 {
		t.Fatal("no trees")
	}
	seen := map[Reason]bool{}
	for _, name := range names {
		name = strings.TrimSuffix(filepath.Base(name), ".txtar")
		t.Run(name, func(t *testing.T) {
			archive := tree(t, name)
			want := string(archive.Files[len(archive.Files)-1].Data)
			f := sampleTree(t, archive)
			check(t, f, false)
			if got := text(f); got != want {
				t.Errorf("%sgot\n%swant\n%s", archive.Comment, got, want)
			}
			for _, u := range f.Unavailable {
				seen[u.Reason] = true
			}
		})
	}
	for _, row := range Reasons() {
		if !seen[row.Reason] {
			t.Errorf("no tree shows %q", row.Reason)
		}
	}
}

func TestOpenNamesTheSettingThatIsWrong(t *testing.T) {
	good := Settings{ProcRoot: "/proc", CgroupRoot: "/sys/fs/cgroup", DiskPath: "/", CPUSample: sampleTime}
	for _, c := range []struct {
		name, why string
		change    func(*Settings)
		want      string // the whole error; empty for none
	}{
		{"good", "seed 000's defaults", func(*Settings) {}, ""},
		{"missing", "what is missing later is not an error", func(s *Settings) { s.ProcRoot = "/nowhere" }, ""},
		{"longest", "the upper bound belongs to it", func(s *Settings) { s.CPUSample = MaxCPUSample }, ""},
		{"no proc root", "there is no default here", func(s *Settings) { s.ProcRoot = "" }, "check ProcRoot: not an absolute path"},
		{"relative", "would follow the working directory", func(s *Settings) { s.CgroupRoot = "sys/secret" }, "check CgroupRoot: not an absolute path"},
		{"NUL", "the kernel would see a shorter path", func(s *Settings) { s.DiskPath = "/\x00secret" }, "check DiskPath: not an absolute path"},
		{"no interval", "no rate without time", func(s *Settings) { s.CPUSample = 0 }, "check CPUSample: not above 0 and at most 2s"},
		{"too long", "a sample holds a slot", func(s *Settings) { s.CPUSample = MaxCPUSample + 1 }, "check CPUSample: not above 0 and at most 2s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := good
			c.change(&s)
			h, err := Open(s)
			switch {
			case (h == nil) == (err == nil):
				t.Errorf("host %v with error %v", h, err)
			case err == nil && c.want != "", err != nil && err.Error() != c.want:
				t.Errorf("got %v, want %q: %s", err, c.want, c.why)
			}
		})
	}
}

func TestTimestampIsUTCOfTheClockGiven(t *testing.T) {
	at := time.Date(2024, 2, 29, 1, 0, 0, 0, time.FixedZone("east", 3600))
	h, err := Open(Settings{"/proc", "/sys/fs/cgroup", "/", 1, func() time.Time { return at }})
	must(t, err)
	f, err := h.Sample(t.Context(), false)
	must(t, err)
	check(t, f, false)
	if got := f.Timestamp.Format(time.RFC3339); got != "2024-02-29T00:00:00Z" {
		t.Errorf("got %s", got)
	}
}

// A clock that stands still must not stop the figures: a golden test of the tool has one.
func TestIntervalIsMeasuredWithoutTheClockGiven(t *testing.T) {
	dir := t.TempDir()
	archive := tree(t, "v2_container")
	must(t, build(dir, archive.Files))
	h := open(t, dir, sampleTime)
	h.now = func() time.Time { return time.Time{} }
	synctest.Test(t, func(t *testing.T) {
		var f Figures
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { f, err = h.Sample(t.Context(), false) })
		time.Sleep(sampleTime / 2)
		must(t, os.WriteFile(filepath.Join(dir, "cgroup/cpu.stat"), []byte("usage_usec 5075000\n"), 0o644))
		wg.Wait()
		must(t, err)
		if got := f.Cgroup.CPUUtilizationPercent; got != (Number[float64]{50, true}) {
			t.Errorf("got %v", got)
		}
	})
}

// metrics-007.
func TestSixteenSamplesRunAtOnceAndOneCancelledLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	must(t, build(dir, tree(t, "v2_container").Files))
	h := open(t, dir, MaxCPUSample)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		cancelled, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		errs, took := make([]error, 16), make([]time.Duration, 16)
		for i := range errs {
			wg.Go(func() {
				ctx := t.Context()
				if i == 7 {
					ctx = cancelled
				}
				var f Figures
				if f, errs[i] = h.Sample(ctx, true); errs[i] == nil {
					check(t, f, true)
				}
				took[i] = time.Since(start)
			})
		}
		time.Sleep(10 * time.Millisecond)
		cancel()
		wg.Wait()
		for i := range errs {
			want, wantTook := error(nil), MaxCPUSample
			if i == 7 {
				want, wantTook = context.Canceled, 10*time.Millisecond
			}
			if !errors.Is(errs[i], want) || took[i] != wantTook {
				t.Errorf("sample %d: %v after %v, want %v after %v", i, errs[i], took[i], want, wantTook)
			}
		}
	})
}

func TestEndedContextGetsNoSample(t *testing.T) {
	h := open(t, t.TempDir(), sampleTime)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if f, err := h.Sample(over, true); !errors.Is(err, context.Canceled) || f.Unavailable != nil {
			t.Errorf("got %v, %v", f, err)
		}
		if time.Since(start) != 0 {
			t.Error("waited for a context that had ended")
		}
		short, cancel := context.WithTimeout(t.Context(), sampleTime/4)
		defer cancel()
		if _, err := h.Sample(short, true); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if got := time.Since(start); got != sampleTime/4 {
			t.Errorf("deadline kept after %v", got)
		}
	})
}

// metrics-005. Root reads what has no permission bits, so the thread gives up its file system identity; the thread is
// not unlocked and ends with its goroutine.
func TestFilesWithoutPermissionAreNotReadable(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	must(t, build(dir, tree(t, "v2_container").Files))
	for _, name := range []string{"proc/stat", "proc/meminfo", "proc/loadavg", "cgroup/memory.max", "cgroup/cpu.stat"} {
		must(t, os.Chmod(filepath.Join(dir, name), 0))
	}
	shut := t.TempDir()
	must(t, os.Chmod(filepath.Dir(shut), 0o755))
	must(t, build(shut, tree(t, "v1_docker").Files))
	must(t, os.Chmod(filepath.Join(shut, "cgroup"), 0o644))                  // opens, but nothing in it can be looked up
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(shut, "cgroup"), 0o755) }) // so that others than root can remove it
	must(t, os.Mkdir(filepath.Join(shut, "disk"), 0o600))
	locked := open(t, shut, sampleTime)
	locked.diskPath = filepath.Join(shut, "disk/below")
	hidden := open(t, shut, sampleTime)
	hidden.cgroupRoot = filepath.Join(shut, "cgroup/memory")

	var f, g, k Figures
	var err [3]error
	unprivileged(t, func() {
		f, err[0] = open(t, dir, sampleTime).Sample(t.Context(), false)
		g, err[1] = locked.Sample(t.Context(), true)
		k, err[2] = hidden.Sample(t.Context(), false)
	})
	must(t, errors.Join(err[:]...))
	check(t, f, false)
	check(t, g, true)
	check(t, k, false)
	want := `cpu.utilization_percent not readable
cpu.core_count not readable
cpu.load_average_1m not readable
memory.total_bytes not readable
memory.available_bytes not readable
memory.percent_used not readable
disk_percent_used not requested
cgroup.version 2
cgroup.memory_limit_bytes not readable
cgroup.memory_current_bytes 33554432
cgroup.memory_percent_used not readable
cgroup.cpu_quota_cores 1.5
cgroup.cpu_utilization_percent not readable
`
	if got := text(f); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for _, name := range []string{"disk_percent_used", "cgroup.version", "cgroup.cpu_quota_cores"} {
		if got := text(g); !strings.Contains(got, name+" not readable\n") {
			t.Errorf("%s in\n%s", name, got)
		}
	}
	if got := text(k); !strings.Contains(got, "cgroup.version not readable\n") {
		t.Errorf("got\n%s", got)
	}
}

// unprivileged runs do on a thread that has the file permissions of nobody.
func unprivileged(t *testing.T, do func()) {
	t.Helper()
	if os.Getuid() != 0 {
		do()
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread()
		if err := unix.Setfsuid(65534); err != nil {
			t.Error(err)
			return
		}
		do()
	})
	wg.Wait()
}

// The machine that runs the test, whatever it is: bounds that every machine keeps, and figures that any Linux since 3.14
// with an unmasked /proc has.
func TestRealMachineIsPlausible(t *testing.T) {
	h, err := Open(Settings{ProcRoot: "/proc", CgroupRoot: "/sys/fs/cgroup", DiskPath: "/", CPUSample: sampleTime})
	must(t, err)
	start := time.Now()
	f, err := h.Sample(t.Context(), true)
	must(t, err)
	check(t, f, true)
	t.Logf("after %v:\n%s", time.Since(start), text(f))
	if took := time.Since(start); took < sampleTime {
		t.Errorf("sampled for %v only", took)
	}
	if since := time.Since(f.Timestamp); since < 0 || since > time.Minute {
		t.Errorf("timestamp %v ago", since)
	}
	if cores := f.CPU.CoreCount; !cores.Known || cores.Value < int64(runtime.NumCPU()) {
		t.Errorf("%v cores, this process may use %d", cores, runtime.NumCPU())
	}
	var info unix.Sysinfo_t
	must(t, unix.Sysinfo(&info))
	if total := f.Memory.TotalBytes; !total.Known || uint64(total.Value) > 2*info.Totalram*uint64(info.Unit) || total.Value < 16<<20 {
		t.Errorf("total memory %v, sysinfo(2) says %d", total, info.Totalram*uint64(info.Unit))
	}
	if free := f.Memory.AvailableBytes; !free.Known || free.Value == 0 || free.Value == f.Memory.TotalBytes.Value {
		t.Errorf("available memory %v", free)
	}
	if !f.CPU.UtilizationPercent.Known || !f.CPU.LoadAverage1m.Known || !f.DiskPercentUsed.Known {
		t.Errorf("missing: %v", f.Unavailable)
	}
}

func TestDiskPercentCountsAsDfDoes(t *testing.T) {
	for _, c := range []struct {
		name, why               string
		blocks, free, available uint64
		want                    float64
		reason                  Reason
	}{
		{"half", "no reserve", 100, 50, 50, 50, known},
		{"reserve", "5 of 100 are root's: users have 95", 100, 62, 57, 40, known},
		{"full for users", "users get ENOSPC although root can write", 100, 5, 0, 100, known},
		{"reserve in use", "a negative number in an unsigned field", 100, 2, 1<<64 - 3, 100, known},
		{"empty", "nothing used", 100, 100, 95, 0, known},
		{"more free than there is", "clamped, not a negative number", 100, 120, 120, 0, known},
		{"no blocks", "proc and cgroup: df prints a dash", 0, 0, 0, 0, NotPresent},
		{"huge", "beyond exact floats", 1 << 63, 1 << 62, 1 << 62, 50, known},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, why := diskPercent(c.blocks, c.free, c.available); got != c.want || why != c.reason {
				t.Errorf("got %v, %q, want %v, %q: %s", got, why, c.want, c.reason, c.why)
			}
		})
	}
}

func TestDiskThatIsNotThereHasAReasonAndNoPath(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, why, path string
		want            Reason
	}{
		{"missing", "a volume that is not mounted yet", filepath.Join(dir, "secret"), NotPresent},
		{"below a file", "ENOTDIR is the same to the reader", "/proc/stat/secret", NotPresent},
		{"no size", "a filesystem without blocks", "/proc", NotPresent},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := open(t, dir, 1)
			h.diskPath = c.path
			f, err := h.Sample(t.Context(), true)
			must(t, err)
			check(t, f, true)
			if got := text(f); !strings.Contains(got, "disk_percent_used "+string(c.want)+"\n") || strings.Contains(got, "secret") {
				t.Errorf("got %s", got)
			}
		})
	}
}

// Whatever the bytes are, each figure is in its range or unknown with a reason (seed 000: readings are clamped).
func FuzzSampleStaysInRange(f *testing.F) {
	names, err := filepath.Glob("testdata/trees/*.txtar")
	must(f, err)
	for _, name := range names {
		archive, err := txtar.ParseFile(name)
		must(f, err)
		files := map[string]string{}
		for _, file := range archive.Files {
			files[file.Name] = string(file.Data)
		}
		f.Add(files["proc/stat"], files["proc/meminfo"], files["proc/loadavg"], files["proc/1/cgroup"],
			files["cgroup/memory.max"], files["cgroup/memory.current"], files["cgroup/cpu.max"], files["cgroup/cpu.stat"])
	}
	f.Fuzz(func(t *testing.T, stat, meminfo, loadavg, cgroup, limit, current, quota, usage string) {
		dir := t.TempDir()
		must(t, build(dir, []txtar.File{
			{Name: "proc/stat", Data: []byte(stat)},
			{Name: "proc/meminfo", Data: []byte(meminfo)},
			{Name: "proc/loadavg", Data: []byte(loadavg)},
			{Name: "proc/1/cgroup", Data: []byte(cgroup)},
			{Name: "cgroup/cgroup.controllers", Data: []byte("cpu memory\n")},
			{Name: "cgroup/memory.max", Data: []byte(limit)},
			{Name: "cgroup/memory.current", Data: []byte(current)},
			{Name: "cgroup/cpu.max", Data: []byte(quota)},
			{Name: "cgroup/cpu.stat", Data: []byte(usage)},
		}))
		figures, err := open(t, dir, 1).Sample(t.Context(), true)
		must(t, err)
		check(t, figures, true)
	})
}

func FuzzPercentagesAreFinite(f *testing.F) {
	f.Add(1.0, 2.0, 3.0, 4.0, uint64(1), uint64(2), uint64(3))
	f.Add(math.NaN(), math.Inf(1), math.Inf(-1), -1.0, uint64(0), uint64(1)<<63, ^uint64(0))
	f.Fuzz(func(t *testing.T, a, b, c, d float64, blocks, free, available uint64) {
		inRange := func(p float64, why Reason) {
			if !(p >= 0 && p <= 100) || why != known && p != 0 {
				t.Errorf("%v, %q", p, why)
			}
		}
		before, after := stat(a, b), stat(c, d)
		inRange(busyPercent(before, after))
		inRange(diskPercent(blocks, free, available))
		inRange(percent(a, b), known)
	})
}
