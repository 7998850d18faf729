package lockdown_test

import (
	"fmt"
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

// The same with a database: the rules, the ports, the profiles, the sockets that the filter has, and what the operator has
// given up.
func TestADatabaseAddsWhatItsDSNNeedsAndNoMore(t *testing.T) {
	t.Parallel()
	needRoot(t)
	abi := needLandlock(t)
	at := layOut(t)
	plain := rulesOf(postureIn(t, profilesAt(at)[0].env...))
	for _, p := range profilesAt(at) {
		r := postureIn(t, p.env...)
		want := append(slices.Clone(plain), p.rules...)
		if got := rulesOf(r); !slices.Equal(got, want) {
			t.Errorf("%s: rules\n%s\nwant\n%s", p.name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		ports := fmt.Sprint(r.Landlock.Ports)
		if ports != fmt.Sprint(p.ports) {
			t.Errorf("%s: ports %s, want %v", p.name, ports, p.ports)
		}
		profiles, level := "[base]", lockdown.Full
		if p.tcp || p.unix {
			profiles = "[base sql]"
		}
		// What this kernel's Landlock does not take away, the filter cannot where it is part of the work.
		left := p.tcp && abi < 4 || p.udp && abi < 10 || p.unix && abi < 9
		if len(p.waived) > 0 || left {
			level = lockdown.Reduced
		}
		if left != (len(r.Residual) > 0) {
			t.Errorf("%s: residual %q", p.name, r.Residual)
		}
		if got := fmt.Sprint(r.Seccomp.Profiles); got != profiles || r.Level != level || !slices.Equal(r.OptOuts, p.waived) {
			t.Errorf("%s: profiles %s, level %s, opt-outs %v; want %s, %s, %v", p.name, got, r.Level, r.OptOuts, profiles, level,
				p.waived)
		}
		var open []string
		for name, has := range map[string]bool{
			"socket AF_INET, stream": p.tcp, "socket AF_INET6, stream": p.tcp, "socket AF_INET, datagram": p.udp,
			"socket AF_UNIX, stream": p.unix,
		} {
			if got, _ := r.got(name); (got != "EPERM") != has {
				t.Errorf("%s: %s: %s", p.name, name, got)
			}
			if got, _ := r.got(name); got == through { // a kernel may have no IPv6
				open = append(open, name)
			}
		}
		slices.Sort(open)
		if got := slices.Sorted(slices.Values(r.Probes.Open)); !slices.Equal(got, open) {
			t.Errorf("%s: open are %q, want %q", p.name, got, open)
		}
		if got, _ := r.got("connect"); (got != "EPERM") != (p.tcp || p.unix) {
			t.Errorf("%s: connect: %s", p.name, got)
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

// The program has a rule of its own, and is none of the files that must not be read though they lie beside the folder.
func TestTheProgramMayBeBesideTheFolder(t *testing.T) {
	t.Parallel()
	needRoot(t)
	program, err := os.ReadFile(stage.Binary(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	above := stage.Dir(t)
	stage.File(t, above, "data/a.txt", nil)
	cmd := daemonWith(t, "MCP_SAFE_DATA_DIR="+filepath.Join(above, "data"))
	cmd.Path = stage.File(t, above, "daemon", program)
	if err := os.Chmod(cmd.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	toTheEnd(t, cmd).serves(t)
}

// Two grants may be one folder: what lies beside the one is then granted by the other, and no sign of a rule that is too
// wide.
func TestAFolderMayBeGrantedByTwoNames(t *testing.T) {
	t.Parallel()
	needRoot(t)
	at := layOut(t)
	for _, name := range []string{"root.pem", "sub/root.pem"} {
		stage.File(t, at.data, name, certificate(t))
		toTheEnd(t, passage{
			Steps: [][]string{{"bind", at.data, at.others}}, UID: stage.UserID, Program: stage.Binary(t, ""),
			Environ: []string{
				"MCP_SAFE_DATA_DIR=" + at.data, "MCP_SQL_DSN=postgres://u:p@192.0.2.1/d?sslrootcert=" + at.others + "/" + name,
			},
		}.command(t)).serves(t)
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
