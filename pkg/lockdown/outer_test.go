package lockdown_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	libseccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/stage"
)

// launcher is the variable that makes TestMain become the daemon behind a wall that stands in for a container runtime's:
// NAME[,NAME]=ERRNO.
const launcher = "LOCKDOWN_OUTER"

// launch loads a filter, gives up root, and becomes the program. It returns only an error.
func launch(wall string) error {
	names, answer, _ := strings.Cut(wall, "=")
	runtime.LockOSThread()
	filter, err := libseccomp.NewFilter(libseccomp.ActAllow)
	if err != nil {
		return err
	}
	errno := map[string]int16{"EPERM": int16(unix.EPERM), "ENOSYS": int16(unix.ENOSYS)}[answer]
	for _, name := range strings.Split(names, ",") {
		if name == "nothing" {
			continue
		}
		number, err := libseccomp.GetSyscallFromName(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := filter.AddRule(number, libseccomp.ActErrno.SetReturnCode(errno)); err != nil {
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

// behind starts the shipped daemon behind a wall, with one request on its stdin.
func behind(t *testing.T, wall string, environ ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), launcher+"="+wall, "LOCKDOWN_PROGRAM="+stage.Binary(t, ""), "LOCKDOWN_ENVIRON="+strings.Join(environ, "\n"))
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), log.String()
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
