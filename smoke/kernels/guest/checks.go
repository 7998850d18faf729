//go:build linux && amd64

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/landlock"
)

const (
	daemonPath   = "/bin/mcp-server-suite"
	unprivileged = 10001 // the user of the image; the daemon and whatever it starts never is root here

	patience = 30 * time.Second // for one run of the daemon, 0.3 s here when nothing is wrong
)

// laterRights are the ABIs that first had the rights beyond those of ABI 1, one number each (man 7 landlock, and the
// kernel's uapi header for 9 and 10). It is written down once more here, away from pkg/landlock, to be held against it.
var laterRights = []int{2, 3, 4, 4, 5, 6, 6, 9, 10, 10}

// run makes all checks.
func (e expectation) run(r *report) {
	r.check("the kernel has "+e.String(), e.kernel(), release())
	if e.fail {
		r.check("a planted check", errors.New("this one fails because kt.fail says so"), "")
	}
	e.posture(r)
	if e.abi == 0 {
		r.check("without MCP_LANDLOCK it refuses to serve", refusesToServe(), "exit 3")
	} else {
		minimum := "MCP_LANDLOCK_MIN_ABI=" + strconv.Itoa(e.abi)
		r.check(minimum+" serves", serves(minimum), "exit 0")
	}
	if e.abi > 0 && e.abi < landlock.KnownABI { // the variable goes no further than that
		minimum := "MCP_LANDLOCK_MIN_ABI=" + strconv.Itoa(e.abi+1)
		r.check(minimum+" refuses to serve", refusesToServe(minimum), "exit 3")
	}
	if !e.quick {
		e.databases(r)
		e.suites(r)
	}
}

// environment is what makes the daemon serve here.
func (e expectation) environment() []string {
	if e.abi == 0 {
		return []string{"MCP_LANDLOCK=if-available"}
	}
	return nil
}

func release() string {
	var name unix.Utsname
	_ = unix.Uname(&name) // it has no way to fail
	lsm, _ := os.ReadFile("/sys/kernel/security/lsm")
	return unix.ByteSliceToString(name.Release[:]) + ", lsm=" + string(lsm)
}

// kernel asks the kernel itself, past everything of ours.
func (e expectation) kernel() error {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case errno != e.errno:
		return fmt.Errorf("expected %v; the call for the version says: %w", e, errno)
	case errno == 0 && int(abi) != e.abi:
		return fmt.Errorf("expected %v; the kernel has %d", e, abi)
	}
	return nil
}

// outcome is how a run of the daemon ended.
type outcome struct {
	code           int
	stdout, stderr string
}

// daemon runs the shipped daemon as another user, with this input and nothing else in its environment, to its end.
func daemon(environment []string, input string, arguments ...string) (outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, daemonPath, arguments...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = append([]string{"PATH=/bin"}, environment...), "/", &stdout, &stderr
	cmd.Stdin = strings.NewReader(input)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return outcome{}, fmt.Errorf("run the daemon: %w", err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}, nil
}

func (o outcome) String() string {
	return fmt.Sprintf("exit %d, stdout %.2000q, stderr %.2000q", o.code, o.stdout, o.stderr)
}

// refusesToServe: exit 3, nothing on the wire, one line for the operator.
func refusesToServe(environment ...string) error {
	o, err := daemon(environment, "", "serve")
	if err != nil {
		return err
	}
	if o.code != 3 || o.stdout != "" || strings.Count(o.stderr, "\n") != 1 || !strings.Contains(o.stderr, "MCP_LANDLOCK") {
		return fmt.Errorf("want exit 3, no output and one line that names the variable: %v", o)
	}
	return nil
}

// serves is the control of refusesToServe.
func serves(environment ...string) error {
	o, err := daemon(environment, "", "serve")
	if err != nil {
		return err
	}
	if o.code != 0 || o.stdout != "" {
		return fmt.Errorf("want exit 0 and no output: %v", o)
	}
	return nil
}

// posture is the part of `posture --json` that is looked at.
type posture struct {
	Level    string
	Landlock struct {
		Enforced bool
		ABI      int
		Missing  []struct {
			Right     string
			FirstABI  int    `json:"first_abi"`
			CoveredBy string `json:"covered_by"`
		}
	}
	Seccomp struct{ Enforced bool }
	Probes  struct {
		Tried  int
		Failed []string
	}
}

// posture checks what the daemon says of itself against the expectation.
func (e expectation) posture(r *report) {
	const name = "posture says what holds here"
	o, err := daemon(e.environment(), "", "posture", "--json")
	if err != nil {
		r.check(name, err, "")
		return
	}
	var p posture
	if err := json.Unmarshal([]byte(o.stdout), &p); err != nil || o.code != 0 || strings.Count(o.stdout, "\n") != 1 {
		r.check(name, fmt.Errorf("want exit 0 and one line of JSON (%w): %v", err, o), "")
		return
	}
	level := "full"
	if e.abi == 0 {
		level = "reduced"
	}
	var later, missing []int
	for _, first := range laterRights {
		if first > e.abi {
			later = append(later, first)
		}
	}
	names := make([]string, 0, len(p.Landlock.Missing))
	for _, m := range p.Landlock.Missing {
		missing = append(missing, m.FirstABI)
		names = append(names, fmt.Sprintf("%s (%s)", m.Right, m.CoveredBy))
	}
	slices.Sort(missing)
	var failures []error
	require := func(holds bool, format string, a ...any) {
		if !holds {
			failures = append(failures, fmt.Errorf(format, a...))
		}
	}
	require(p.Level == level, "level %q, want %q", p.Level, level)
	require(p.Landlock.Enforced == (e.abi != 0), "landlock.enforced is %v", p.Landlock.Enforced)
	require(p.Landlock.ABI == e.abi, "landlock.abi is %d, want %d", p.Landlock.ABI, e.abi)
	require(e.abi == 0 || slices.Equal(missing, later), "landlock.missing begins at ABIs %d, want %d", missing, later)
	require(p.Seccomp.Enforced, "seccomp is not enforced")
	require(p.Probes.Tried > 0 && len(p.Probes.Failed) == 0, "%d probes, failed: %q", p.Probes.Tried, p.Probes.Failed)
	comment := fmt.Sprintf("level %s, %d probes", p.Level, p.Probes.Tried)
	if e.abi != 0 && len(names) > 0 {
		comment += "; not taken away by Landlock, but by: " + strings.Join(names, ", ")
	}
	r.check(name, errors.Join(failures...), comment, o.stdout, o.stderr)
}
