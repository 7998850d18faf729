package sandboxfs

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/problem"
)

// stage is a directory that another user can enter, with a root to serve in it:
//
//	base/root     what is served
//	base/alias    a symlink to it, the operator's spelling
//	base/out      what nobody may see
//	base/rootling the same, with a name that begins like the root's
type stage struct {
	t            testing.TB
	base         string
	devices, mnt bool // made only where the process may
}

// secret is what files outside hold; files inside hold "inside " and their canonical path.
const secret = "SECRET"

// newStage makes an empty root. t.TempDir would be closed to other users.
func newStage(t testing.TB) *stage {
	t.Helper()
	base, err := os.MkdirTemp("", "sandboxfs-")
	if err != nil {
		t.Fatal(err)
	}
	base, err = filepath.EvalSymlinks(base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	s := &stage{t: t, base: base}
	s.must(os.Chmod(base, 0o755))
	s.dir("root", "out", "rootling")
	s.must(os.Symlink("root", base+"/alias"))
	s.file("out/secret", secret)
	s.file("rootling/secret", secret)
	return s
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) path(name string) string { return s.base + "/" + name }

func (s *stage) dir(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.must(os.MkdirAll(s.path(name), 0o755))
		s.must(os.Chmod(s.path(name), 0o755))
	}
}

func (s *stage) file(name, content string) {
	s.t.Helper()
	s.must(os.WriteFile(s.path(name), []byte(content), 0o644))
	s.must(os.Chmod(s.path(name), 0o644))
}

// inside makes files below the root that hold what they should.
func (s *stage) inside(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.file("root/"+name, "inside "+name)
	}
}

// links makes symlinks below the root; $BASE in a target stands for the stage's path.
func (s *stage) links(targets map[string]string) {
	s.t.Helper()
	for name, target := range targets {
		s.must(os.Symlink(strings.ReplaceAll(target, "$BASE", s.base), s.path("root/"+name)))
	}
}

// devices makes nodes that take CAP_MKNOD, and mounts that take CAP_SYS_ADMIN.
func (s *stage) privileged() {
	char := unix.Mknod(s.path("root/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
	block := unix.Mknod(s.path("root/block"), unix.S_IFBLK|0o666, int(unix.Mkdev(7, 250)))
	s.devices = char == nil && block == nil
	s.dir("root/mnt", "root/proc")
	tmpfs := unix.Mount("tmpfs", s.path("root/mnt"), "tmpfs", 0, "mode=755")
	proc := unix.Mount("proc", s.path("root/proc"), "proc", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
	for target, err := range map[string]error{"root/mnt": tmpfs, "root/proc": proc} {
		if err == nil {
			s.t.Cleanup(func() { s.must(unix.Unmount(s.path(target), unix.MNT_DETACH)) })
		}
	}
	if s.mnt = tmpfs == nil && proc == nil; s.mnt {
		s.inside("mnt/m.txt")
	}
}

// socket makes a unix socket below the root.
func (s *stage) socket(name string) {
	s.t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.path("root/" + name), Net: "unix"})
	s.must(err)
	l.SetUnlinkOnClose(false)
	s.must(l.Close())
}

// open opens the root by the operator's spelling.
func (s *stage) open(walk bool) *Root {
	s.t.Helper()
	r, err := Open(Settings{Dir: s.path("alias"), ForceWalk: walk})
	s.must(err)
	s.t.Cleanup(func() { s.must(r.Close()) })
	return r
}

// The two mechanisms, by name.
var mechanisms = map[string]bool{"openat2": false, "walk": true}

// request reads much from the beginning.
func request(path string) Request {
	return Request{Path: path, Encoding: "utf-8", MaxBytes: MaxReadBytes}
}

// reason is "ok", a refusal's reason, or "fault".
func reason(err error) problem.Reason {
	var p *problem.Problem
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &p):
		return p.Reason
	}
	return "fault"
}

// descriptors counts the open ones.
func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// otherUser is who we become to feel permission bits: the one of our image.
const otherUser = 10001

// stageVariable tells the copy of the test that runs as otherUser which stage to use.
const stageVariable = "SANDBOXFS_STAGE"

// asOtherUser runs one test again, as otherUser, on the same stage, and fails unless it passed.
func (s *stage) asOtherUser(test string, env ...string) {
	s.t.Helper()
	binary, err := os.ReadFile("/proc/self/exe")
	s.must(err)
	s.must(os.WriteFile(s.path("test"), binary, 0o755))
	s.must(os.Chmod(s.path("test"), 0o755))
	cmd := exec.Command(s.path("test"), "-test.run=^"+test+"$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), append(env, stageVariable+"="+s.base)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
	out, err := cmd.CombinedOutput()
	if err == nil && strings.Contains(string(out), "\n--- PASS: "+test) {
		return
	}
	var shown []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(strings.TrimSpace(line), "--- PASS") {
			shown = append(shown, line)
		}
	}
	s.t.Errorf("as user %d: %v\n%s", otherUser, err, strings.Join(shown, ""))
}
