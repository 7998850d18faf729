package lockdown_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/rawclient"
	"mcp-server-suite/pkg/stage"
)

// forged is a way into stage 2 without a stage 1: somebody has set the mark, and left behind what stage 1 would have. A
// domain is not asked for, so that nothing but what stage 2 looks at itself can stop it.
type forged struct {
	mark    string // "" is {}
	root    bool
	mayGain bool // without no_new_privs
	environ []string
	files   []*os.File // 3, 4, ...
	mode    string     // "" is off
}

func (f forged) command(t *testing.T) *exec.Cmd {
	t.Helper()
	needRoot(t)
	var args []string
	if !f.root {
		id := strconv.Itoa(stage.UserID)
		args = append(args, "--reuid", id, "--regid", id, "--clear-groups", "--inh-caps=-all")
	}
	if !f.mayGain {
		args = append(args, "--no-new-privs")
	}
	if f.mark == "" {
		f.mark = "{}"
	}
	if f.mode == "" {
		f.mode = "off"
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skipf("needs the program setpriv: %v", err)
	}
	// What whoever runs the tests has left open for us would be luggage. Go's own descriptors are marked so anyway.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	// The shell sets another mask than the daemon's, and has variables of its own, which env takes away again.
	environ := append(f.environ, "MCP_SERVER_SUITE_STAGE="+f.mark, "MCP_LANDLOCK="+f.mode, "MCP_MAX_CONCURRENT_TOOLS=1")
	words := slices.Concat(environ, []string{setpriv}, args, []string{stage.Binary(t, "")})
	cmd := exec.Command("/bin/sh", append([]string{"-c", `umask 0022; exec env -i "$@"`, "sh"}, words...)...)
	cmd.Dir, cmd.ExtraFiles = "/", f.files
	return cmd
}

// Each defect alone is what stops the start. Without one the forger is served: he has done himself what stage 1 does.
func TestEachTraceThatStageOneWouldNotLeaveStopsTheStart(t *testing.T) {
	t.Parallel()
	needRoot(t)
	const noStage1, notLeft = "re-exec: there was no stage 1", "was not left by stage 1"
	toTheEnd(t, forged{}.command(t)).serves(t) // the control of all that follow
	for _, c := range []struct {
		name string
		with forged
		says string
	}{
		{"no mark that can be read", forged{mark: "stage2"}, "re-exec: read facts of stage 1: "},
		{"new privileges", forged{mayGain: true}, noStage1},
		{"a variable of somebody else", forged{environ: []string{"SECRET_TOKEN=hunter2"}}, noStage1},
		{"root", forged{root: true}, "privileges: runs with uid 0"},
		{"a domain that nobody wants", forged{mark: `{"abi":7}`}, "a domain of ABI 7 where one of ABI 0 is due"},
		{"another plan", forged{mark: `{"rest":{"connect_tcp":[443]}}`}, "the plan of stage 1 was another one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			toTheEnd(t, c.with.command(t)).refusesToServe(t, c.says)
		})
	}
	for name, open := range map[string]func(*testing.T) *os.File{
		"a file to read":            func(t *testing.T) *os.File { return opened(t, "/etc/passwd", os.O_RDONLY) },
		"a folder":                  func(t *testing.T) *os.File { return opened(t, "/etc", os.O_RDONLY) },
		"a file to read and write":  func(t *testing.T) *os.File { return piece(t, 0) },
		"a device":                  func(t *testing.T) *os.File { return opened(t, "/dev/null", os.O_RDONLY) },
		"a control group to write":  func(t *testing.T) *os.File { return opened(t, groupFile(t), os.O_WRONLY) },
		"a control group, both":     func(t *testing.T) *os.File { return opened(t, groupFile(t), os.O_RDWR) },
		"a pipe":                    func(t *testing.T) *os.File { return piece(t, 1) },
		"a socket":                  func(t *testing.T) *os.File { return piece(t, 2) },
		"a file that has no name":   func(t *testing.T) *os.File { return memory(t) },
		"a notifier of file events": func(t *testing.T) *os.File { return notifier(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			toTheEnd(t, forged{files: []*os.File{open(t)}}.command(t)).refusesToServe(t, notLeft)
		})
	}
	// What stage 1 leaves, or the Go runtime opens by itself.
	for name, open := range map[string]func(*testing.T) *os.File{
		"a pin":                   func(t *testing.T) *os.File { return opened(t, "/etc/passwd", unix.O_PATH) },
		"a control group to read": func(t *testing.T) *os.File { return opened(t, groupFile(t), os.O_RDONLY) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			toTheEnd(t, forged{files: []*os.File{open(t)}}.command(t)).serves(t)
		})
	}
}

func opened(t *testing.T, path string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // nothing is written
	return f
}

// groupFile is one of the control groups' that root may open for writing.
func groupFile(t *testing.T) string {
	t.Helper()
	for _, pattern := range []string{"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/*/cgroup.procs"} {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			f, err := os.OpenFile(found[0], os.O_RDWR, 0)
			if err == nil {
				_ = f.Close() // nothing was written
				return found[0]
			}
		}
	}
	t.Skip("needs control groups that root may change")
	return ""
}

// piece is one piece of luggage.
func piece(t *testing.T, i int) *os.File {
	t.Helper()
	files, _ := luggage(t)
	return files[i]
}

func descriptor(t *testing.T, fd int, err error) *os.File {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "descriptor")
	t.Cleanup(func() { _ = f.Close() }) // nothing is in it
	return f
}

func memory(t *testing.T) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("file", unix.MFD_CLOEXEC)
	return descriptor(t, fd, err)
}

func notifier(t *testing.T) *os.File {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	return descriptor(t, fd, err)
}

// What stage 1 does with limits and the mask, stage 2 does again: they are right whoever has begun it.
func TestStageTwoSetsItsOwnLimits(t *testing.T) {
	t.Parallel()
	needRoot(t)
	const files = 64 + 2056 // with one call at a time
	var core, open unix.Rlimit
	for resource, limit := range map[int]*unix.Rlimit{unix.RLIMIT_CORE: &core, unix.RLIMIT_NOFILE: &open} {
		if err := unix.Getrlimit(resource, limit); err != nil {
			t.Fatal(err)
		}
	}
	if core.Max == 0 || open.Max <= files {
		t.Skipf("needs limits that can be lowered: core files of %d bytes, %d open files", core.Max, open.Max)
	}
	c := converse(t, forged{}.command(t))
	limits := limitsOf(t, c.PID())
	for name, want := range map[string]string{
		"Max core file size": "0 0 bytes", "Max open files": fmt.Sprintf("%d %d files", files, files),
	} {
		if limits[name] != want {
			t.Errorf("%s: %q, want %q", name, limits[name], want)
		}
	}
	if mask := field(ofProcess(t, c.PID(), "status"), "Umask"); mask != "0077" {
		t.Errorf("umask %s", mask)
	}
	// The control: what it was started with.
	control := forged{}.command(t)
	control.Args[len(control.Args)-1] = "/bin/cat"
	input, err := control.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := control.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return ofProcess(t, control.Process.Pid, "comm") == "cat\n" })
	limits = limitsOf(t, control.Process.Pid)
	mask := field(ofProcess(t, control.Process.Pid, "status"), "Umask")
	if mask != "0022" || strings.HasPrefix(limits["Max core file size"], "0 0") ||
		strings.HasPrefix(limits["Max open files"], fmt.Sprint(files, " ", files)) {
		t.Errorf("the control: umask %s, %q", mask, limits)
	}
	if err := input.Close(); err != nil {
		t.Error(err)
	}
	if err := control.Wait(); err != nil {
		t.Error(err)
	}
}

// The domain is tried again in stage 2, by which alone a mark that is right in all its words is found out.
func TestADomainThatIsOnlyClaimedIsFoundByItsDoors(t *testing.T) {
	t.Parallel()
	abi := needLandlock(t)
	for _, filter := range []string{"require", "off"} {
		f := forged{mark: fmt.Sprintf(`{"abi":%d}`, abi), mode: "require", environ: []string{"MCP_SECCOMP=" + filter}}
		toTheEnd(t, f.command(t)).refusesToServe(t, "landlock: the domain does not hold after the re-exec: ")
	}
}

// waitFor waits for something that another process is about to do.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for begun := time.Now(); !done(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > rawclient.Patience {
			t.Fatal("it does not come")
		}
	}
}
