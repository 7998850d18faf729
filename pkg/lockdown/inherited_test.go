package lockdown_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-server-suite/pkg/lockdown"
	"mcp-server-suite/pkg/stage"
)

// luggage opens a file, a pipe and a socket, which a process is given by mistake, and returns how /proc shows them.
func luggage(t *testing.T) (files []*os.File, targets []string) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "luggage"))
	if err != nil {
		t.Fatal(err)
	}
	_, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // nobody has called
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		t.Fatalf("%T", listener)
	}
	socket, err := tcp.File()
	if err != nil {
		t.Fatal(err)
	}
	files = []*os.File{file, pipe, socket}
	for _, f := range files {
		t.Cleanup(func() { _ = f.Close() }) // nothing was written
		target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, target)
	}
	return files, targets
}

// descriptorsOf returns what the open descriptors of a process lead to.
func descriptorsOf(t *testing.T, pid int) (targets []string) {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil { // else it is closed by now
			targets = append(targets, target)
		}
	}
	return targets
}

func TestADescriptorThatTheDaemonWasGivenIsClosed(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for name, cmd := range map[string]*exec.Cmd{
		"at once": daemonWith(t),
		// Linux before 5.11, which has no Landlock either.
		"one by one": behindCommand(t, "close_range=EINVAL", "MCP_LANDLOCK=off"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, targets := luggage(t)
			give := func(cmd *exec.Cmd) { cmd.ExtraFiles = files }
			control := descriptorsOf(t, startSleep(t, give).Process.Pid)
			give(cmd)
			c := converse(t, cmd)
			left := descriptorsOf(t, c.PID())
			for _, target := range targets {
				if !slices.Contains(control, target) {
					t.Errorf("the control: sleep does not have %s: %v", target, control)
				}
				if slices.Contains(left, target) {
					t.Errorf("%s is open in the daemon: %v", target, left)
				}
			}
			if len(left) < 3 {
				t.Errorf("the daemon's descriptors cannot be seen: %v", left)
			}
		})
	}
}

// hasVariable says whether an environment as /proc/PID/environ has it holds NAME=value.
func hasVariable(environ, entry string) bool {
	return slices.Contains(strings.Split(environ, "\x00"), entry)
}

func hasName(environ, name string) bool {
	return slices.ContainsFunc(strings.Split(environ, "\x00"), func(entry string) bool {
		return strings.HasPrefix(entry, name+"=")
	})
}

// environOfSleep starts a program with an environment and returns what /proc shows of it. For a moment after exec has
// closed the descriptors, from which os/exec knows that it has begun, that is nothing (fs/exec.c: the new memory has no
// environment before the program is mapped).
func environOfSleep(t *testing.T, environ []string) (shown string) {
	t.Helper()
	sleep := startSleep(t, func(cmd *exec.Cmd) { cmd.Env = environ })
	for range 500 {
		if shown = ofProcess(t, sleep.Process.Pid, "environ"); shown != "" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return shown
}

func TestTheEnvironmentOfOthersDoesNotReachTheServingDaemon(t *testing.T) {
	t.Parallel()
	needRoot(t)
	given := []string{
		"SECRET_TOKEN=hunter2", "PATH=/usr/bin:/bin", "HOME=/nowhere", "LD_PRELOAD=/no/such.so", "XMCP_SECRET=1", "MCP_GITHUB_TOKEN=hunter2",
		"MCP_MAX_CONCURRENT_TOOLS=7", "GOTRACEBACK=single",
	}
	control := environOfSleep(t, given[:3])
	c := converse(t, daemonWith(t, given...))
	environ := ofProcess(t, c.PID(), "environ")
	for _, name := range []string{"SECRET_TOKEN", "PATH", "HOME", "LD_PRELOAD", "XMCP_SECRET", "MCP_GITHUB_TOKEN"} {
		if hasName(environ, name) {
			t.Errorf("%s is there: %q", name, environ)
		}
	}
	if strings.Contains(environ, "hunter2") {
		t.Errorf("the secret is there: %q", environ)
	}
	for _, entry := range given[6:] {
		if !hasVariable(environ, entry) {
			t.Errorf("%s is not there: %q", entry, environ)
		}
	}
	for _, name := range []string{"GOMAXPROCS", "GOMEMLIMIT"} {
		if !hasName(environ, name) {
			t.Errorf("%s is not there: %q", name, environ)
		}
	}
	for _, entry := range given[:3] {
		if !hasVariable(control, entry) {
			t.Errorf("the control: sleep does not have %s: %q", entry, control)
		}
	}
}

// Variables that steer the Go runtime and its libraries, or glibc. Only five of them are the operator's to set here;
// whatever else is given does not arrive. The list is of names that would mean something.
func TestNoOtherVariableSteersTheServingDaemon(t *testing.T) {
	t.Parallel()
	needRoot(t)
	always := strings.Fields(os.Getenv(stage.EnvironmentVariable))
	arrive := []string{"GOMAXPROCS=2", "GOMEMLIMIT=99MiB", "GOGC=77", "GODEBUG=asyncpreemptoff=0", "GOTRACEBACK=all"}
	given := slices.Clone(arrive)
	for _, name := range []string{
		"LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "GCONV_PATH", "LOCPATH",
		"LANG", "LC_ALL",
		"TZ", "TZDIR", "ZONEINFO", "TMPDIR", "HOME", "PATH", "PWD", "USER", "HOSTNAME",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "NO_PROXY",
		"RES_OPTIONS", "LOCALDOMAIN", "HOSTALIASES", "NETRC",
		"PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE", "PGSSLROOTCERT", "PGOPTIONS",
		"GORACE", "GOEXPERIMENT", "GOAMD64", "GOROOT", "GOFIPS140", "GO_DEBUG", "GOMAXPROCS_",
		"MCP_", "MCP_TEST_HOLE", "MCP_TEST_ABI",
	} {
		given = append(given, name+"=1")
	}
	if stage.Coverage() == nil {
		given = append(given, "GOCOVERDIR=/nowhere")
	}
	var got []string
	ours := []string{"", "MCP_SERVER_SUITE_STAGE", "MCP_TEST_COVERAGE"} // the last one in the build for coverage
	for entry := range strings.SplitSeq(ofProcess(t, converse(t, daemonWith(t, given...)).PID(), "environ"), "\x00") {
		if name, _, _ := strings.Cut(entry, "="); !slices.Contains(ours, name) && !slices.Contains(always, entry) {
			got = append(got, entry)
		}
	}
	slices.Sort(arrive)
	slices.Sort(got)
	if !slices.Equal(got, arrive) {
		t.Errorf("arrived %q, want %q", got, arrive)
	}
	control := environOfSleep(t, given)
	for _, entry := range given {
		if !hasVariable(control, entry) {
			t.Errorf("the control: sleep does not have %s", entry)
		}
	}
}

func TestTheOperatorsLimitsOfTheRuntimeStand(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for _, c := range []struct {
		env  []string
		want lockdown.ProcessPosture // only its last two
		why  string
	}{
		{[]string{"GOMAXPROCS=1", "GOMEMLIMIT=50MiB"}, lockdown.ProcessPosture{GOMAXPROCS: 1, MemoryLimit: 50 << 20}, "both"},
		{
			[]string{"GOMAXPROCS=3"},
			lockdown.ProcessPosture{GOMAXPROCS: 3, MemoryLimit: 128 << 20},
			"64 MiB of answers and 64 of work",
		},
		{
			[]string{"GOMAXPROCS=3", "MCP_MAX_REPLY_BYTES=16777216"},
			lockdown.ProcessPosture{GOMAXPROCS: 3, MemoryLimit: 80 << 20},
			"16 MiB of answers and 64 of work",
		},
		{[]string{"GOMAXPROCS=2", "GOMEMLIMIT=off"}, lockdown.ProcessPosture{GOMAXPROCS: 2}, "no limit is shown as none"},
	} {
		p := postureIn(t, c.env...).Process
		if p.GOMAXPROCS != c.want.GOMAXPROCS || p.MemoryLimit != c.want.MemoryLimit {
			t.Errorf("%v: GOMAXPROCS %d, memory limit %d, want %d and %d (%s)", c.env, p.GOMAXPROCS, p.MemoryLimit,
				c.want.GOMAXPROCS, c.want.MemoryLimit, c.why)
		}
	}
}
