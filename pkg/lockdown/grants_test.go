package lockdown_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-server-suite/pkg/lockdown"
	"mcp-server-suite/pkg/stage"
)

// rulesOf are the rules of a posture, as "path: right, right".
func rulesOf(r report) (rules []string) {
	for _, rule := range r.Landlock.Rules {
		rules = append(rules, rule.Path+": "+strings.Join(rule.Rights, ", "))
	}
	return rules
}

func TestTheRulesAreWhatTheSettingsNeedAndNoMore(t *testing.T) {
	t.Parallel()
	needRoot(t)
	needLandlock(t)
	dir := sandboxTree(t)
	link := filepath.Join(stage.Dir(t), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	own := []string{"/proc/self/exe: execute, read_file", "/proc/self/task: read_file, read_dir"}
	metrics := []string{
		"/proc/stat: read_file", "/proc/meminfo: read_file", "/proc/loadavg: read_file", "/proc/self/cgroup: read_file",
	}
	const noMetrics = "MCP_METRICS_ENABLED=false"
	for _, c := range []struct {
		name string
		env  []string
		want []string
		why  string
	}{
		{"files only", []string{noMetrics, "MCP_SAFE_DATA_DIR=" + dir}, []string{dir + ": read_file"}, "nothing lists it"},
		{"a link", []string{noMetrics, "MCP_SAFE_DATA_DIR=" + link}, []string{link + ": read_file"}, "shown as it was given"},
		{"metrics only", nil, metrics, "three figures, and our place among the control groups"},
		{
			"both",
			[]string{"MCP_SAFE_DATA_DIR=" + dir},
			append([]string{dir + ": read_file"}, metrics...),
			"files and metrics",
		},
		{"the root", []string{noMetrics, "MCP_SAFE_DATA_DIR=/"}, []string{"/: read_file"}, "nothing can be listed"},
	} {
		r := postureIn(t, c.env...)
		got := slices.DeleteFunc(rulesOf(r), func(rule string) bool {
			return rule == "/sys/fs/cgroup: read_file, read_dir" && !slices.Contains(c.env, noMetrics) // where there is one
		})
		if want := append(slices.Clone(own), c.want...); !slices.Equal(got, want) {
			t.Errorf("%s: rules\n%s\nwant\n%s\n(%s)", c.name, strings.Join(got, "\n"), strings.Join(want, "\n"), c.why)
		}
		level := lockdown.Full
		if slices.Contains(c.env, "MCP_SAFE_DATA_DIR=/") {
			level = lockdown.Reduced // no file is outside
		}
		if r.Level != level || len(r.Landlock.Ports) > 0 {
			t.Errorf("%s: level %s, ports %v", c.name, r.Level, r.Landlock.Ports)
		}
	}
}

func TestTheFolderMayBeGivenThroughALink(t *testing.T) {
	t.Parallel()
	needRoot(t)
	link := filepath.Join(stage.Dir(t), "link")
	if err := os.Symlink(sandboxTree(t), link); err != nil {
		t.Fatal(err)
	}
	converse(t, daemonWith(t, "MCP_SAFE_DATA_DIR="+link)).readsInside()
}

// With the whole file system granted there is no file left to show that others are denied, and the one probe says so
// instead of passing. All else is proven as ever.
func TestTheWholeFileSystemMayBeTheFolder(t *testing.T) {
	t.Parallel()
	needRoot(t)
	needLandlock(t)
	file := filepath.Join(sandboxTree(t), "sub/a.txt")
	c := converse(t, daemonWith(t, "MCP_SAFE_DATA_DIR=/"))
	text, refused := c.tool(readParams(strings.TrimPrefix(file, "/")))
	if refused || !strings.Contains(text, "inside text") {
		t.Error(text)
	}
	r := postureIn(t, "MCP_SAFE_DATA_DIR=/")
	for _, o := range r.denials {
		switch {
		case o.Name == "open a file outside of the grants":
			if o.Got != "not tried" || o.Denied || o.Owed {
				t.Errorf("%+v", o)
			}
		case o.Name == inProcessOne && o.Got == "not tried": // it is granted
		case !o.Denied:
			t.Errorf("%+v", o)
		}
	}
	if r.Level != lockdown.Reduced || !slices.Contains(r.Probes.NotTried, "open a file outside of the grants") ||
		!strings.Contains(strings.Join(r.Residual, "\n"), "open a file outside of the grants: not tried") {
		t.Errorf("level %s, not tried %v, residual %v", r.Level, r.Probes.NotTried, r.Residual)
	}
}

// The same where it starts as process 1 and as root, to whom the files of /proc/1 are open.
func TestTheWholeFileSystemMayBeTheFolderOfProcessOne(t *testing.T) {
	t.Parallel()
	needRoot(t)
	program := stage.Binary(t, "")
	for _, user := range []int{stage.UserID, 0} {
		toTheEnd(t, inContainer(passage{
			Steps: [][]string{{"proc", "/proc"}}, UID: user, Program: program,
			Environ: []string{"MCP_SAFE_DATA_DIR=/", "MCP_ALLOW_PRIVILEGED=true"},
		}).command(t)).serves(t)
	}
}

func TestTheFolderMayBeAMount(t *testing.T) {
	t.Parallel()
	needRoot(t)
	program := stage.Binary(t, "")
	for _, c := range []struct {
		name  string
		steps func(dir string) [][]string // dir is empty, and has to hold sub/a.txt afterwards
	}{
		{"bind", func(dir string) [][]string { return [][]string{{"bind", sandboxTree(t), dir}} }},
		{"tmpfs", func(dir string) [][]string {
			return [][]string{{"tmpfs", dir}, {"write", filepath.Join(dir, "a.txt"), "inside text"}}
		}},
		{"a mount inside", func(dir string) [][]string {
			inner := filepath.Dir(stage.File(t, dir, "inner/hidden", nil))
			return [][]string{{"tmpfs", inner}, {"write", filepath.Join(inner, "a.txt"), "inside text"}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := stage.Dir(t)
			start := func(args ...string) *exec.Cmd {
				return passage{
					Steps: c.steps(dir), UID: stage.UserID, Program: program, Args: args,
					Environ: []string{"MCP_SAFE_DATA_DIR=" + dir},
				}.command(t)
			}
			if r := reportOf(t, start("posture", "--probes")); needLandlock(t) > 0 && r.Level != lockdown.Full {
				t.Errorf("level %s", r.Level)
			}
			session := converse(t, start())
			path := map[string]string{"bind": "sub/a.txt", "tmpfs": "a.txt", "a mount inside": "inner/a.txt"}[c.name]
			if text, refused := session.tool(readParams(path)); refused || !strings.Contains(text, "inside text") {
				t.Error(text)
			}
		})
	}
}

// Whether the root file system can be written to is the affair of the image: it is looked at and reported.
func TestTheRootFileSystemIsReportedAsItIs(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir, program := stage.Dir(t), stage.Binary(t, "")
	mounted := func(steps ...[]string) lockdown.RootfsPosture {
		return reportOf(t, passage{
			// Without the mounts of /sys there is room in the list.
			Steps: append([][]string{{"unmount", "/sys"}, {"tmpfs", dir}}, steps...), UID: stage.UserID, Program: program,
			Args: []string{"posture", "--probes"},
		}.command(t)).Rootfs
	}
	at := func(r lockdown.RootfsPosture, path string) (options []string, found bool) {
		for _, m := range r.Writable {
			if m.Path == path {
				return m.Options, true
			}
		}
		return nil, false
	}
	r := mounted([]string{"read-only", "/"})
	if _, found := at(r, "/"); !r.ReadOnly || found {
		t.Errorf("/ is read-only: %+v", r)
	}
	if options, found := at(r, dir); !found || !slices.Equal(options, []string{"nosuid", "noexec"}) {
		t.Errorf("%s is nosuid,noexec and not nodev: %+v", dir, r)
	}
	r = mounted([]string{"read-only", dir})
	if _, found := at(r, dir); found {
		t.Errorf("%s is read-only: %+v", dir, r)
	}
}
