package lockdown_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/lockdown"
	"mcp-server-suite/pkg/rawclient"
	"mcp-server-suite/pkg/stage"
)

func TestTooManyPrivilegesStopTheStart(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for _, c := range []struct {
		name, says string
		more       unix.Stat_t // mode bits and owner of a copy of the program; zero is the program itself
		start      func(*exec.Cmd)
		why        string
	}{
		{"root", "runs with uid 0", unix.Stat_t{}, func(cmd *exec.Cmd) { cmd.SysProcAttr = nil }, "the image has a user"},
		{"an ambient capability", "has capabilities", unix.Stat_t{}, func(cmd *exec.Cmd) {
			cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_BIND_SERVICE}
		}, "it survives exec without a set-uid file"},
		{"a set-uid root program", "runs with uid 0", unix.Stat_t{Mode: unix.S_ISUID}, nil, "only the effective uid is 0"},
		{
			"a set-uid program of somebody else", "runs set-uid",
			unix.Stat_t{Mode: unix.S_ISUID, Uid: otherID},
			nil,
			"two users at once, neither of them root",
		},
		{
			"a set-gid program", "set-gid",
			unix.Stat_t{Mode: unix.S_ISGID, Gid: otherID},
			nil,
			"two groups at once",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := daemonWith(t)
			if c.more.Mode != 0 {
				cmd.Path = setIDCopy(t, c.more)
				cmd.Args[0] = cmd.Path
			}
			if c.start != nil {
				c.start(cmd)
			}
			e := toTheEnd(t, cmd)
			e.refusesToServe(t, "privileges: ")
			e.refusesToServe(t, c.says)
			e.refusesToServe(t, "MCP_ALLOW_PRIVILEGED=true")
		})
	}
}

// otherID is a user and a group that is neither root nor the image's.
const otherID = 10002

// setIDCopy copies the daemon to where the bits count.
func setIDCopy(t *testing.T, s unix.Stat_t) string {
	t.Helper()
	dir := stage.Dir(t)
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Flags&unix.ST_NOSUID != 0 {
		t.Skipf("needs a temporary folder that is not mounted nosuid: %s is", dir)
	}
	path := copyOfDaemon(t, filepath.Join(dir, "daemon"))
	if err := unix.Chown(path, int(s.Uid), int(s.Gid)); err != nil { // before the bits, which it clears
		t.Fatal(err)
	}
	if err := unix.Chmod(path, 0o755|s.Mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func copyOfDaemon(t *testing.T, to string) string {
	t.Helper()
	path, err := rawclient.Reachable(stage.Binary(t, ""), to)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// The same starts with the one setting that allows them. It is shown at each start, and nothing else is given up.
func TestPrivilegesAreAcceptedWhereTheOperatorSaysSo(t *testing.T) {
	t.Parallel()
	needRoot(t)
	needLandlock(t)
	const allow = "MCP_ALLOW_PRIVILEGED=true"
	for _, c := range []struct {
		name  string
		start func(*exec.Cmd)
	}{
		{"root", func(cmd *exec.Cmd) { cmd.SysProcAttr = nil }},
		{"an ambient capability", func(cmd *exec.Cmd) { cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_BIND_SERVICE} }},
	} {
		cmd := daemonWith(t, allow)
		c.start(cmd)
		toTheEnd(t, cmd).serves(t)
		cmd = stage.Daemon(t, stage.Options{Args: []string{"posture", "--probes"}, Env: []string{allow}})
		c.start(cmd)
		r := reportOf(t, cmd)
		if r.Level != lockdown.Reduced || !slices.Equal(r.OptOuts, []string{allow}) || r.Capabilities.Effective == none {
			t.Errorf("%s: level %s, opt-outs %v, capabilities %+v", c.name, r.Level, r.OptOuts, r.Capabilities)
		}
		if !r.Landlock.Enforced || !r.Seccomp.Enforced || !r.NoNewPrivs || r.Probes.Denied != r.Probes.Tried {
			t.Errorf("%s: %+v", c.name, r.Posture)
		}
	}
}

// A user without capabilities cannot empty the bounding set, and with no_new_privs nothing comes out of it.
func TestAFullBoundingSetIsNoPrivilege(t *testing.T) {
	t.Parallel()
	needRoot(t)
	needLandlock(t)
	r := postureIn(t)
	if r.Capabilities.Bounding == none || r.Level != lockdown.Full {
		t.Errorf("level %s with the bounding set %s", r.Level, r.Capabilities.Bounding)
	}
	if c := r.Capabilities; c.Effective != none || c.Permitted != none || c.Ambient != none || c.Inheritable != none {
		t.Errorf("%+v", c)
	}
}

// Whoever is neither of the two is refused for what it is and not for what it is called.
func TestTheUserNeedNotBeTheImages(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		cmd := daemonWith(t)
		cmd.SysProcAttr.Credential.Uid, cmd.SysProcAttr.Credential.Gid = otherID, otherID
		toTheEnd(t, cmd).serves(t)
		return
	}
	toTheEnd(t, daemonWith(t)).serves(t)
}
