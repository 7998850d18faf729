package lockdown

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/landlock"
)

// A rule that gives more than the plan says is found at the start, where this user could make use of it. Each domain is
// put on a thread of its own, with the rules of the plan and one more.
func TestARuleThatGivesTooMuchIsFoundByTheDoorBesideIt(t *testing.T) {
	t.Parallel()
	abi, err := landlock.ABI()
	if err != nil {
		t.Skipf("needs Landlock: %v", err)
	}
	abi = min(abi, landlock.KnownABI)
	above := t.TempDir()
	data := filepath.Join(above, "data")
	if err := errors.Join(os.Mkdir(data, 0o755), os.WriteFile(filepath.Join(above, "beside"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if fd, err := unix.Open(data, unix.O_WRONLY|unix.O_TMPFILE, 0); err != nil {
		t.Skipf("needs a temporary folder where files without a name can be made: %v", err)
	} else if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	const port = 5433
	p := Plan{Grants: []Grant{{Path: data}}, ConnectTCP: []uint16{port}}
	for _, c := range []struct {
		name string
		path string
		give landlock.FS
		port uint16
		says string
	}{
		{"the control", data, landlock.ReadFile, port, ""},
		{"write", data, landlock.WriteFile, port, "write_file"},
		{"read what is beside", above, landlock.ReadFile, port, "read_file"},
		{"list what is above", above, landlock.ReadDir, port, "read_dir"},
		{"a usual port", data, landlock.ReadFile, 443, "connect_tcp"},
		{"the next port", data, landlock.ReadFile, port + 1, "connect_tcp"},
	} {
		if c.port != port && abi < 4 {
			continue // no kernel takes ports away
		}
		verdict := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // without Unlock: the thread ends with the goroutine
			verdict <- underRules(p, abi, c.path, c.give, c.port)
		}()
		err := <-verdict
		if (err == nil) != (c.says == "") || err != nil && !strings.HasPrefix(err.Error(), c.says+": want ") {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}

// underRules is what the doors of a plan say when its domain has a rule for a path, and one for a port, beside its own.
func underRules(p Plan, abi int, path string, give landlock.FS, port uint16) error {
	rules, err := landlock.New(abi)
	if err != nil {
		return err
	}
	if _, err := p.grant(rules, &facts{}); err != nil {
		return err
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(rules.AllowPath(fd, give), rules.AllowConnectTCP(port), unix.Close(fd)); err != nil {
		return err
	}
	before := observe(p.doors(abi, 0))
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := errors.Join(rules.RestrictThread(), rules.Close()); err != nil {
		return err
	}
	return before.closed()
}

// What is no neighbour must not be tried, or the daemon would not start where nothing is wrong.
func TestOnlyAFileThatNoRuleIsForIsANeighbour(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		lay    func(data, beside string) error // beside is in the folder in which data is
		grants func(data, beside string) []Grant
		tried  bool
		why    string
	}{
		{"a file", func(_, beside string) error { return os.WriteFile(beside, nil, 0o644) }, nil, true, "the control"},
		{"nothing", func(string, string) error { return nil }, nil, false, "there is none"},
		{"a pipe", func(_, beside string) error { return unix.Mkfifo(beside, 0o644) }, nil, false, "somebody may wait at it"},
		{"a link", func(data, beside string) error { return os.Symlink(data, beside) }, nil, false, "it is not regular"},
		{"a secret", func(_, beside string) error { return os.WriteFile(beside, nil, 0o640) }, nil, false, "not every user's"},
		{
			"granted", func(_, beside string) error { return os.WriteFile(beside, nil, 0o644) },
			func(data, beside string) []Grant { return []Grant{{Path: data}, {Path: beside}} }, false, "it may be read",
		},
		{
			"below another grant", func(_, beside string) error { return os.WriteFile(beside, nil, 0o644) },
			func(data, beside string) []Grant { return []Grant{{Path: data}, {Path: filepath.Dir(beside)}} }, false,
			"it may be read, too",
		},
		{
			"another name", func(data, beside string) error {
				return errors.Join(os.WriteFile(data+"/file", nil, 0o644), os.Link(data+"/file", beside))
			},
			func(data, _ string) []Grant { return []Grant{{Path: data + "/file"}} }, false, "the rule is for the file",
		},
	} {
		above := t.TempDir()
		data, beside := filepath.Join(above, "data"), filepath.Join(above, "beside")
		if err := errors.Join(os.Mkdir(data, 0o755), c.lay(data, beside)); err != nil {
			t.Fatal(err)
		}
		p := Plan{Grants: []Grant{{Path: data}}}
		if c.grants != nil {
			p.Grants = c.grants(data, beside)
		}
		if err := p.neighbour(above)(); c.tried != (err == nil) || !c.tried && !errors.Is(err, errNotTried) {
			t.Errorf("%s: %v, to be tried: %t (%s)", c.name, err, c.tried, c.why)
		}
	}
	if err := (Plan{}).neighbour("/no/such/folder")(); !errors.Is(err, errNotTried) {
		t.Errorf("no folder: %v", err)
	}
	// It is gone when it is tried again, and then says nothing.
	above := t.TempDir()
	path := filepath.Join(above, "file")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	try := (Plan{}).neighbour(above)
	if before, err := try(), os.Remove(path); before != nil || err != nil {
		t.Fatal(before, err)
	}
	if err := try(); !errors.Is(err, errNotTried) {
		t.Errorf("gone: %v", err)
	}
}
