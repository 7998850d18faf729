package lockdown_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	libseccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/stage"
)

// launcher is the variable that makes TestMain become the daemon behind a wall that stands in for a container runtime's:
// NAME[,NAME]=ERRNO. NAME may be NAME/ARGUMENT:VALUE/ARGUMENT!VALUE, for calls in which the argument of that number has
// this value, or another one. ERRNO may be nothing: the call is not made, and is said to have been.
const launcher = "LOCKDOWN_OUTER"

// launch loads a filter, gives up root, and becomes the program. It returns only an error.
func launch(wall string) error {
	names, answer, _ := strings.Cut(wall, "=")
	runtime.LockOSThread()
	filter, err := libseccomp.NewFilter(libseccomp.ActAllow)
	if err != nil {
		return err
	}
	errno := map[string]int16{
		"EPERM": int16(unix.EPERM), "ENOSYS": int16(unix.ENOSYS), "EINVAL": int16(unix.EINVAL), "EINTR": int16(unix.EINTR),
	}[answer]
	for _, name := range strings.Split(names, ",") {
		if name == "nothing" {
			continue
		}
		name, rest, _ := strings.Cut(name, "/")
		number, err := libseccomp.GetSyscallFromName(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		only, err := conditions(rest)
		if err != nil {
			return err
		}
		action := libseccomp.ActErrno.SetReturnCode(errno)
		if err := filter.AddRuleConditionalExact(number, action, only); err != nil {
			return err
		}
	}
	if err := filter.Load(); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := errors.Join(
			syscall.Setgroups(nil), syscall.Setresgid(stage.UserID, stage.UserID, stage.UserID),
			syscall.Setresuid(stage.UserID, stage.UserID, stage.UserID),
		); err != nil {
			return err
		}
	}
	program := os.Getenv("LOCKDOWN_PROGRAM")
	return syscall.Exec(program, []string{program}, strings.Split(os.Getenv("LOCKDOWN_ENVIRON"), "\n"))
}

// conditions are those of one name of a wall, see launcher.
func conditions(text string) (only []libseccomp.ScmpCondition, err error) {
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '/' }) {
		at := strings.IndexAny(part, ":!")
		if at < 0 {
			return nil, fmt.Errorf("no condition: %s", part)
		}
		argument, err1 := strconv.ParseUint(part[:at], 10, 8)
		value, err2 := strconv.ParseUint(part[at+1:], 0, 64)
		compare := map[byte]libseccomp.ScmpCompareOp{':': libseccomp.CompareEqual, '!': libseccomp.CompareNotEqual}[part[at]]
		one, err3 := libseccomp.MakeCondition(uint(argument), compare, value)
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, err
		}
		only = append(only, one)
	}
	return only, nil
}

// behindCommand is the shipped daemon behind a wall.
func behindCommand(t *testing.T, wall string, environ ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Dir = "/"
	environ = slices.Concat(environ, stage.Coverage())
	cmd.Env = append(os.Environ(), launcher+"="+wall, "LOCKDOWN_PROGRAM="+stage.Binary(t, ""),
		"LOCKDOWN_ENVIRON="+strings.Join(environ, "\n"))
	return cmd
}

// behind runs the daemon behind a wall, with one request on its stdin.
func behind(t *testing.T, wall string, environ ...string) (code int, stdout, stderr string) {
	t.Helper()
	return finish(t, behindCommand(t, wall, environ...))
}

// A runtime that keeps one of our layers from us is told so, in one line, before anything is served.
func TestAWallThatDeniesOurLayersStopsTheStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ wall, environ, says, why string }{
		{"landlock_create_ruleset=EPERM", "", "landlock", "Docker before 20.10.6"},
		{"landlock_create_ruleset=ENOSYS", "", "landlock", "a kernel without it, or a profile that says so"},
		{"landlock_add_rule=EPERM", "", "landlock", "half a profile"},
		{"landlock_restrict_self=EPERM", "", "landlock", "half a profile"},
		{"landlock_restrict_self=EPERM", "MCP_LANDLOCK=if-available", "landlock", "it is there, and does not work: that is not missing"},
		{"seccomp=EPERM", "", "seccomp", "a profile that forbids nesting"},
		{"seccomp=ENOSYS", "", "seccomp", "libseccomp would fall back to prctl, for one thread"},
		{"seccomp=EPERM", "MCP_LANDLOCK=off", "seccomp", "the layers are asked for one by one"},
		{"openat2=EPERM", "", "openat2", "old Docker"},
		{"openat2=ENOSYS", "", "openat2", "systemd's RestrictSUIDSGID"},
		{"close_range=EPERM", "", "close_range", "old Docker"},
		{"close_range=ENOSYS", "", "close_range", "Linux before 5.9"},
		{"landlock_create_ruleset/2:0=EPERM", "", "make landlock ruleset", "asking is allowed, making is not"},
		{"prctl/0:4=EPERM", "", "not dumpable", "PR_SET_DUMPABLE"},
		{"prctl/0:65=EPERM", "", "writable and executable", "PR_SET_MDWE"},
	} {
		t.Run(c.wall+" "+c.environ, func(t *testing.T) {
			t.Parallel()
			environ := []string{"MCP_SAFE_DATA_DIR=/proc/self"}
			if c.environ != "" {
				environ = append(environ, c.environ)
			}
			code, stdout, stderr := behind(t, c.wall, environ...)
			if code != 3 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "mcp-server-suite: hardening: ") ||
				!strings.Contains(stderr, c.says) || !strings.Contains(stderr, "must allow") && !strings.Contains(stderr, "MCP_LANDLOCK=if-available") {
				t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
			}
		})
	}
}

// What the process asks of itself can be refused, too, or be said to have been done. There is no way around these: the
// process does not serve, and says in one line what it was.
func TestAStepThatIsRefusedOrPretendedStopsTheStart(t *testing.T) {
	t.Parallel()
	const setOpenFiles, setCore = "prlimit64/1:7/2!0", "prlimit64/1:4/2!0" // RLIMIT_NOFILE, RLIMIT_CORE, with a new limit
	for _, c := range []struct{ wall, environ, says, why string }{
		{"getrlimit=EPERM", "", "limits: read RLIMIT_NOFILE", "a limit that cannot be read is not lowered blindly"},
		{setOpenFiles + "=EPERM", "", "limits: set RLIMIT_NOFILE", ""},
		{setOpenFiles + "=", "MCP_MAX_CONCURRENT_TOOLS=1", "limits: limit 7 is ", "more than one call at a time needs"},
		{setCore + "=EPERM", "", "limits: set RLIMIT_CORE", "a core file would hold what was read"},
		{setCore + "=", "", "limits: limit 4 is ", "it is looked at after it was set"},
		{"prctl/0:4=", "", "still dumpable", "PR_SET_DUMPABLE that does nothing"},
		{"pipe2=EPERM", "", "seccomp: ", "libseccomp gives its program away through a pipe only"},
		{"getdents64=EPERM", "", "descriptors: list descriptors", "what cannot be listed cannot be said to be closed"},
		{"landlock_restrict_self=", "", "does not hold: ", "a domain that is not there"},
		{"landlock_add_rule=", "", "not what the kernel confirms", "a ruleset that is not what it should be"},
		{"seccomp=", "", "seccomp: ", "a filter that is not there"},
		{"pipe2=EPERM", "MCP_LANDLOCK=off", "seccomp: ", "the order of the layers does not matter"},
		// The call is said to be done, by a wall through which nobody sees the flags. Only the last trials notice.
		{"openat2=", "", "seccomp: openat2 with O_WRONLY: want EACCES from landlock, got ", "on every thread"},
		{
			"openat2=", "MCP_SECCOMP=off", "landlock: openat2 with O_WRONLY: want EACCES from landlock, got ",
			"without a filter of ours",
		},
	} {
		t.Run(c.wall+" "+c.environ, func(t *testing.T) {
			t.Parallel()
			needRoot(t)
			if c.wall == "openat2=" && needLandlock(t) < 3 {
				t.Skip("needs a Landlock beside which openat2 is allowed (ABI 3)")
			}
			code, stdout, stderr := behind(t, c.wall, "MCP_SAFE_DATA_DIR=/proc/self", c.environ)
			if code != 3 || stdout != "" || strings.Count(stderr, "\n") != 1 ||
				!strings.HasPrefix(stderr, "mcp-server-suite: hardening: ") || !strings.Contains(stderr, c.says) {
				t.Errorf("exit %d, stdout %q, stderr %q; want one line with %q (%s)", code, stdout, stderr, c.says, c.why)
			}
		})
	}
}

// Fixed addresses that stay fixed: the wall refuses to change them, or only says that it has.
func TestFixedAddressesThatCannotBeChangedStopTheStart(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for _, wall := range []string{"personality/0:0=EPERM", "personality/0:0="} {
		cmd := behindCommand(t, wall, "MCP_METRICS_ENABLED=false")
		setarch, err := exec.LookPath("setarch")
		if err != nil {
			t.Skip("needs setarch (util-linux)")
		}
		cmd.Path, cmd.Args = setarch, append([]string{"setarch", "-R"}, cmd.Args...)
		code, stdout, stderr := finish(t, cmd)
		if code != 3 || stdout != "" || !strings.Contains(stderr, "random addresses are switched off and cannot be switched on") {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", wall, code, stdout, stderr)
		}
	}
}

// The controls: the same wall is no hindrance where the layer is opted out of, a wall of something else never is, and our
// filter counts on top of it.
func TestAWallThatDeniesNothingOfOursIsAccepted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ wall, environ, level string }{
		{"nothing", "", "full"},
		{"mount,kexec_load=EPERM", "", "full"},
		{"landlock_create_ruleset=EPERM", "MCP_LANDLOCK=if-available", "reduced"},
		{"landlock_create_ruleset=ENOSYS", "MCP_LANDLOCK=if-available", "reduced"},
		{"landlock_create_ruleset=EPERM", "MCP_LANDLOCK=off", "reduced"},
		{"seccomp=EPERM", "MCP_SECCOMP=off", "reduced"},
		{"openat2=ENOSYS", "MCP_LANDLOCK=off", "reduced"},
		{"socket=EPERM", "", "full"}, // some probes have nothing to try on then
		{"bind=EPERM", "", "full"},
		{"listen=EPERM", "", "full"},
		{"getsockname=EPERM", "", "full"},
		{"close_range=EINVAL", "MCP_LANDLOCK=off", "reduced"}, // Linux before 5.11, which has no Landlock either
		{"prctl/0:65=EINVAL", "", "full"},                     // PR_SET_MDWE before Linux 6.3
		{"personality=EPERM", "", "full"},                     // nobody can say whether addresses are random
	} {
		t.Run(c.wall+" "+c.environ, func(t *testing.T) {
			t.Parallel()
			environ := []string{"MCP_METRICS_ENABLED=true"}
			if c.environ != "" {
				environ = append(environ, c.environ)
			}
			code, stdout, stderr := behind(t, c.wall, environ...)
			if code != 0 || !strings.Contains(stdout, `"result"`) || !strings.Contains(stderr, `"posture":{"level":"`+c.level+`"`) {
				t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
			}
			if !strings.Contains(stderr, `"filters_before":1`) {
				t.Errorf("the wall is not counted: %s", stderr)
			}
		})
	}
}
