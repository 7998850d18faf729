package lockdown_test

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/lockdown"
	"mcp-server-suite/pkg/stage"
)

func TestEverythingThatIsOwedIsDenied(t *testing.T) {
	t.Parallel()
	needRoot(t)
	needLandlock(t)
	r := postureIn(t, "MCP_SAFE_DATA_DIR="+sandboxTree(t))
	if r.Level != lockdown.Full || len(r.OptOuts)+len(r.Residual)+len(r.Probes.Failed)+len(r.Probes.Open) > 0 {
		t.Errorf("level %s, opt-outs %v, residual %v, failed %v, open %v", r.Level, r.OptOuts, r.Residual, r.Probes.Failed,
			r.Probes.Open)
	}
	for _, o := range r.denials {
		if !o.Owed && !nowhere(o) || !o.Denied || o.Got != o.Want {
			t.Errorf("%+v", o)
		}
	}
	if r.UID != stage.UserID || r.GID != stage.UserID || !r.NoNewPrivs || r.Probes.Denied != r.Probes.Tried {
		t.Errorf("uid %d, gid %d, no new privileges: %t, %d of %d denied", r.UID, r.GID, r.NoNewPrivs, r.Probes.Denied,
			r.Probes.Tried)
	}
}

// control is what a probe is answered by a process that nothing of ours holds back, so that a refusal can only be ours.
// Several answers are separated by "|": kernels differ in what they are built with.
type control struct {
	name string
	user string // as the user of the image
	root string // as root; empty: the same
	// here is for what other hardening than the two layers still refuses: the same thing in this very process.
	here func() error
	why  string
}

// controls has a row for every probe, so that a new probe without one is a failure.
func controls() []control {
	const (
		noName   = "the name is empty"
		noFD     = "there is no such descriptor"
		noOption = "there is no such option or flag"
		done     = "it is done, and changes nothing"
		made     = "it is made, and closed again"
		removed  = "it is made, and removed again; a host may lack the folder"
		optional = "a kernel may be built without it"
	)
	rows := []control{
		{"open a file outside of the grants", "allowed", "", nil, "every user may read it"},
		{"list a folder outside of the grants", "allowed", "", nil, "every user may list it"},
		{"open /proc/1/environ", "EACCES", "EACCES|allowed", nil, "it is another user's; see the test of process 1"},
		{"openat2 with O_WRONLY", "allowed", "", nil, made},
		{"openat2 at all", "allowed", "", nil, "its name where the filter and not Landlock has to refuse it"},
		{"create a file in /", "ENOENT", "", nil, noName},
		{"create a file in /tmp", "ENOENT", "", nil, noName},
		{"create a file in /dev/shm", "allowed|ENOENT", "", nil, removed},
		{"create a file in /dev/mqueue", "allowed|ENOENT", "", nil, removed},
		{"openat2 to create in /dev/shm", "allowed|ENOENT", "", nil, removed},
		{"openat2 to create in /dev/mqueue", "allowed|ENOENT", "", nil, removed},
		{"make a nameless file", "ENOENT", "", nil, noName},
		{"open a file for appending", "ENOENT", "", nil, noName},
		{"open a file to empty it", "ENOENT", "", nil, noName},
		{"open a device for writing", "allowed", "", nil, made},
		{"open our memory for writing", "EACCES", "allowed", func() error {
			fd, err := unix.Open("/proc/self/mem", unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		}, "the process is not dumpable, so the file belongs to root"},
		{"mkdirat", "ENOENT", "", nil, noName},
		{"unlinkat", "ENOENT", "", nil, noName},
		{"renameat2", "ENOENT", "", nil, noName},
		{"symlinkat", "ENOENT", "", nil, noName},
		{"linkat", "ENOENT", "", nil, noName},
		{"mknodat", "ENOENT", "", nil, noName},
		{"fchmodat", "ENOENT", "", nil, noName},
		{"fchmod", "EBADF", "", nil, noFD},
		{"fchownat", "ENOENT", "", nil, noName},
		{"utimensat", "ENOENT", "", nil, noName},
		{"truncate", "ENOENT", "", nil, noName},
		{"ftruncate", "EBADF", "", nil, noFD},
		{"fallocate", "EBADF", "", nil, noFD},
		{"setxattr", "ERANGE|ENOENT", "", nil, "the name of the attribute is empty"},
		{"getxattr", "ERANGE|ENOENT", "", nil, "the name of the attribute is empty"},
		{"chdir", "ENOENT", "", nil, noName},
		{"umask", "allowed", "", nil, done},
		{"inotify_init1", "EINVAL", "", nil, noOption},
		{"fanotify_init", "EPERM|ENOSYS", "EINVAL|ENOSYS", nil, "asks for CAP_SYS_ADMIN first; " + optional},
		{"splice", "allowed|EBADF", "", nil, "nothing to move: the kernel does not look at the descriptors"},
		{"sendfile", "EBADF", "", nil, noFD},
		{"ioctl TIOCSTI", "EBADF", "", nil, noFD},
		{"fcntl F_SETOWN", "EBADF", "", nil, noFD},
		{"fcntl F_SETLK", "EBADF", "", nil, noFD},
		{"fcntl F_SETPIPE_SZ", "EBADF", "", nil, noFD},
		{"setuid", "EINVAL", "", nil, "there is no user -1"},
		{"setgid", "EINVAL", "", nil, "there is no group -1"},
		{"setresuid", "allowed", "", nil, done},
		{"setgroups", "EPERM", "EINVAL", nil, "asks for CAP_SETGID first, then finds too many groups"},
		{"capset", "EFAULT", "", nil, "there is no header"},
		{"setrlimit by prlimit64", "allowed", "", nil, done},
		{"setpriority", "EINVAL", "", nil, noOption},
		{"personality", "allowed", "", nil, "it asks and does not set"},
		{"prctl PR_SET_DUMPABLE", "EINVAL", "", nil, noOption},
		{"prctl PR_SET_SECCOMP", "EINVAL", "", nil, noOption},
		{"prctl PR_SET_PDEATHSIG", "EINVAL", "", nil, noOption},
		{"seccomp", "EINVAL", "", nil, noOption},
		{"landlock_create_ruleset", "allowed|EOPNOTSUPP|ENOTSUP|ENOSYS", "", nil, "it asks for the ABI; " + optional},
		{"kill", "allowed", "", nil, "signal 0, to itself"},
		{"tgkill of another process", "ESRCH", "", nil, "there is no such process"},
		{"tkill", "ESRCH", "", nil, "there is no such process"},
		{"rt_sigqueueinfo", "EFAULT", "", nil, "there is no siginfo"},
		{"rt_tgsigqueueinfo", "EFAULT", "", nil, "there is no siginfo"},
		{"pidfd_open", "ESRCH", "", nil, "there is no such process"},
		{"pidfd_send_signal", "EBADF", "", nil, noFD},
		{"pidfd_getfd", "EBADF", "", nil, noFD},
		{"clone into a new user namespace", "EINVAL", "", nil, "a contradiction with CLONE_FS"},
		{"clone3", "EINVAL", "", nil, "the structure has no bytes"},
		{"shmget", "EINVAL|ENOSYS", "", nil, "no bytes; " + optional},
		{"msgget", "ENOENT|ENOSYS", "", nil, "there is no such queue; " + optional},
		{"semget", "ENOENT|ENOSYS", "", nil, "there is no such set; " + optional},
		{"mq_open", "ENOENT|ENOSYS", "", nil, noName + "; " + optional},
		{"mmap of writable and executable memory", "EACCES|allowed", "", func() error {
			memory, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC,
				unix.MAP_PRIVATE|unix.MAP_ANON)
			if err == nil {
				err = unix.Munmap(memory)
			}
			return err
		}, "Linux 6.3 refuses it a process that has asked for that (PR_SET_MDWE)"},
		{"mmap of huge pages", "ENOMEM|allowed|EINVAL", "", nil, "mostly there are none; some kernels cannot have any"},
		{"mprotect to executable", "allowed", "", nil, "no bytes"},
		{"pkey_mprotect", "allowed|ENOSYS", "", nil, "no bytes; " + optional},
		{"memfd_create", "EINVAL", "", nil, noOption},
		{"memfd_secret", "EINVAL|ENOSYS", "", nil, noOption + "; " + optional},
		{"remap_file_pages", "EINVAL", "", nil, "no bytes"},
		{"socket AF_INET, stream", "allowed", "", nil, made},
		{"socket AF_INET6, stream", "allowed|EAFNOSUPPORT", "", nil, made + "; " + optional},
		{"socket AF_INET, datagram", "allowed", "", nil, made},
		{"socket AF_UNIX, stream", "allowed", "", nil, made},
		{"socket AF_UNIX, datagram", "allowed", "", nil, made},
		{"socket AF_INET, raw", "EPERM", "allowed", nil, "asks for CAP_NET_RAW"},
		{"socket AF_NETLINK", "allowed", "", nil, made},
		{"socket AF_ALG", "allowed|EAFNOSUPPORT", "", nil, made + "; " + optional},
		{"socket AF_VSOCK", "allowed|EAFNOSUPPORT|ENODEV", "", nil, made + "; " + optional},
		{"socket AF_PACKET", "EPERM|EAFNOSUPPORT", "allowed|EAFNOSUPPORT", nil, "asks for CAP_NET_RAW; " + optional},
		{"socketpair", "EFAULT|EAFNOSUPPORT", "", nil, "there is nowhere to put it"},
		{"bind", "EBADF", "", nil, noFD},
		{"listen", "EBADF", "", nil, noFD},
		{"connect", "EBADF", "", nil, noFD},
		{"accept4", "EBADF", "", nil, noFD},
		{"a system call that does not exist", "ENOSYS", "", nil, "the kernel says so itself"},
	}
	if runtime.GOARCH == "amd64" {
		for _, name := range []string{
			"open to create", "creat", "mkdir", "rmdir", "unlink", "rename", "symlink", "link", "mknod", "chmod", "chown",
			"utimes",
		} {
			rows = append(rows, control{name: name, user: "ENOENT", why: noName})
		}
		rows = append(
			rows,
			control{name: "modify_ldt", user: "allowed|ENOSYS", why: "it asks and does not set; " + optional},
			control{name: "arch_prctl", user: "EINVAL", why: noOption},
		)
	}
	return rows
}

func (c control) expects(got, by string) bool { return slices.Contains(strings.Split(by, "|"), got) }

// Each probe is tried with both layers off. One run at least must get an answer that shows that the kernel has done, or
// looked at, what was asked: else the refusal in the locked process proves nothing about us.
func TestNoDenialIsTheKernelsOwn(t *testing.T) {
	t.Parallel()
	needRoot(t)
	if n := ownFilters(t); n > 0 {
		t.Skipf("needs a process without a seccomp filter, which would answer in place of the kernel; this one has %d", n)
	}
	user := postureIn(t, unlocked...)
	root := reportOf(t, asRoot(stage.Daemon(t, stage.Options{
		Args: []string{"posture", "--json", "--probes"}, Env: append([]string{"MCP_ALLOW_PRIVILEGED=true"}, unlocked...),
	})))
	if user.Level != lockdown.None || user.Landlock.Enforced || user.Seccomp.Enforced || root.Level != lockdown.None {
		t.Fatalf("level %s, as root %s", user.Level, root.Level)
	}
	rows := map[string]control{}
	for _, c := range controls() {
		if _, twice := rows[c.name]; twice || c.why == "" {
			t.Errorf("%s: two rows, or no reason", c.name)
		}
		rows[c.name] = c
	}
	for _, o := range user.denials {
		c, known := rows[o.Name]
		if !known {
			t.Errorf("%s: the table of controls has no row; here it is answered %s", o.Name, o.Got)
			continue
		}
		delete(rows, o.Name)
		if c.root == "" {
			c.root = c.user
		}
		asRoot, _ := root.got(o.Name)
		if !c.expects(o.Got, c.user) || !c.expects(asRoot, c.root) {
			t.Errorf("%s: got %s, as root %s; want %s, as root %s (%s)", o.Name, o.Got, asRoot, c.user, c.root, c.why)
		}
		if o.Owed {
			t.Errorf("%s: owed by a layer that is off", o.Name)
		}
		through := o.Got != o.Want || asRoot != o.Want
		if c.here != nil {
			if err := c.here(); err != nil {
				t.Errorf("%s, in this process: %v", o.Name, err)
			} else {
				through = true
			}
		}
		if !through && o.Name != inProcessOne && !nowhere(o) {
			t.Errorf("%s: %s everywhere, so a refusal shows nothing", o.Name, o.Want)
		}
	}
	// The one probe that has another name under Landlock.
	delete(rows, "openat2 with O_WRONLY")
	for name := range rows {
		t.Errorf("%s: no probe has this name", name)
	}
}

// inProcessOne is the probe that has its control in another test.
const inProcessOne = "open /proc/1/environ"

// nowhere says that a folder in which files are to be made is absent here, so that nothing is owed. It is there in
// TestNoFileIsMadeWhereEveryUserMayMakeThem.
func nowhere(o lockdown.Outcome) bool {
	return o.Layer == "kernel" && o.Got == "ENOENT" && o.Denied && !o.Owed && slices.Contains(creations(), o.Name)
}

// creations are the probes that make a file where a read-only root still leaves room for files.
func creations() []string {
	return []string{
		"openat2 to create in /dev/shm", "openat2 to create in /dev/mqueue", // Landlock's
		"create a file in /dev/shm", "create a file in /dev/mqueue", // the filter's
	}
}

// A container has both folders, whatever the host has, and both are open to every user.
func TestNoFileIsMadeWhereEveryUserMayMakeThem(t *testing.T) {
	t.Parallel()
	needRoot(t)
	abi := needLandlock(t)
	program := stage.Binary(t, "")
	const through, hidden = "landlock EACCES", "seccomp ENOSYS" // what refuses openat2, and how
	byLandlock := through
	if abi < 3 {
		byLandlock = hidden
	}
	const (
		filter     = "seccomp EPERM"
		absent     = "kernel ENOENT"
		unwritable = "kernel EROFS"
		open       = "allowed"
	)
	for _, c := range []struct {
		name   string
		env    []string
		steps  [][]string // beside an empty /dev
		want   [4]string  // as creations
		denied bool       // all four
		why    string
	}{
		{
			"locked", nil,
			[][]string{{"folder", "/dev/shm"}, {"folder", "/dev/mqueue"}, {"mqueue", "/dev/mqueue"}},
			[4]string{byLandlock, byLandlock, filter, filter},
			true, "each layer refuses what it can see",
		},
		{
			"unlocked", unlocked,
			[][]string{{"folder", "/dev/shm"}, {"folder", "/dev/mqueue"}, {"mqueue", "/dev/mqueue"}},
			[4]string{open, open, open, open},
			false, "the control: the kernel lets this user do it",
		},
		{
			"without Landlock",
			[]string{"MCP_LANDLOCK=off"},
			[][]string{{"folder", "/dev/shm"}, {"folder", "/dev/mqueue"}},
			[4]string{hidden, hidden, filter, filter},
			true, "the filter refuses openat2 whatever it is for",
		},
		{
			"without a filter",
			[]string{"MCP_SECCOMP=off"},
			[][]string{{"folder", "/dev/shm"}, {"folder", "/dev/mqueue"}},
			[4]string{through, through, "", ""},
			false, "Landlock refuses both, but the answer that is wanted of the filter is another",
		},
		{
			"nothing to write to", nil,
			[][]string{{"folder", "/dev/shm"}, {"tmpfs", "/dev/shm"}, {"read-only", "/dev/shm"}},
			[4]string{unwritable, absent, filter, filter},
			true, "a host without message queues is not less safe",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := reportOf(t, passage{
				Steps: append([][]string{{"tmpfs", "/dev"}}, c.steps...), UID: stage.UserID, Program: program,
				Args: []string{"posture", "--json", "--probes"}, Environ: c.env,
			}.command(t))
			for i, name := range creations() {
				at := slices.IndexFunc(r.denials, func(o lockdown.Outcome) bool { return o.Name == name })
				if at < 0 {
					t.Fatalf("no probe is called %s", name)
				}
				o := r.denials[at]
				got := o.Layer + " " + o.Got
				if o.Got == open {
					got = open
				}
				if c.want[i] == "" {
					continue
				}
				if got != c.want[i] || o.Denied != (got != open) || c.denied && o.Owed != (o.Layer != "kernel") {
					t.Errorf("%+v, want %s (%s)", o, c.want[i], c.why)
				}
			}
			if c.env == nil && r.Probes.Denied != r.Probes.Tried {
				t.Errorf("%d of %d denied", r.Probes.Denied, r.Probes.Tried)
			}
			for _, why := range r.Residual {
				if strings.Contains(why, "/dev/shm") || strings.Contains(why, "/dev/mqueue") {
					t.Errorf("residual: %s", why)
				}
			}
		})
	}
}

// What the probes make where nothing holds them back is gone when the process has ended.
func TestTheProbesLeaveNoFile(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := stage.Dir(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	r := reportOf(t, passage{
		Steps: [][]string{{"tmpfs", "/dev"}, {"folder", "/dev/shm"}, {"bind", dir, "/dev/shm"}},
		UID:   stage.UserID, Program: stage.Binary(t, ""), Args: []string{"posture", "--json", "--probes"}, Environ: unlocked,
	}.command(t))
	for _, name := range []string{"create a file in /dev/shm", "openat2 to create in /dev/shm"} {
		if got, _ := r.got(name); got != "allowed" {
			t.Errorf("%s: %s, so nothing was made", name, got)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// In a container the daemon is process 1, and /proc/1/environ, with the secrets that it was started with, its own.
func TestTheEnvironmentOfProcessOneIsDeniedByLandlock(t *testing.T) {
	t.Parallel()
	needRoot(t)
	needLandlock(t)
	program := stage.Binary(t, "")
	for _, c := range []struct {
		name, want string
		env        []string
	}{
		{"locked", "EACCES", nil},
		{"without Landlock", "allowed", []string{"MCP_LANDLOCK=off"}},
	} {
		r := reportOf(t, inContainer(passage{
			Steps: [][]string{{"proc", "/proc"}}, Program: program, Args: []string{"posture", "--json", "--probes"},
			Environ: append([]string{"MCP_ALLOW_PRIVILEGED=true"}, c.env...), // who is not root may not, anyway
		}).command(t))
		if got, _ := r.got(inProcessOne); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// The flags of openat2 are in memory, where a filter cannot see them. Landlock takes writing and emptying away from
// ABI 3 on; without it the call is not there at all.
func TestOpenat2IsReadOnlyOrAbsent(t *testing.T) {
	t.Parallel()
	needRoot(t)
	abi := needLandlock(t)
	for _, c := range []struct {
		env  []string
		name string
		want string
	}{
		{nil, "openat2 with O_WRONLY", "EACCES"},
		{[]string{"MCP_LANDLOCK=off"}, "openat2 at all", "ENOSYS"},
		{unlocked, "openat2 at all", "allowed"}, // the control
	} {
		if c.env == nil && abi < 3 {
			c.name, c.want = "openat2 at all", "ENOSYS"
		}
		if got, _ := postureIn(t, c.env...).got(c.name); got != c.want {
			t.Errorf("%v: %s: %q, want %s", c.env, c.name, got, c.want)
		}
	}
}

// With one layer off, what the other one owes is still denied, and what the missing one owed is open.
func TestEachLayerDeniesWithoutTheOther(t *testing.T) {
	t.Parallel()
	needRoot(t)
	needLandlock(t)
	for _, c := range []struct {
		off, works string
		open       []string
	}{
		{"MCP_SECCOMP=off", "landlock", []string{"mkdirat", "umask", "setuid", "kill", "socket AF_INET, stream"}},
		{"MCP_LANDLOCK=off", "seccomp", []string{"open a file outside of the grants", "list a folder outside of the grants"}},
	} {
		r := postureIn(t, c.off)
		for _, o := range r.denials {
			if o.Owed != (o.Layer == c.works) || o.Owed && !o.Denied {
				t.Errorf("%s: %+v", c.off, o)
			}
			if slices.Contains(c.open, o.Name) && o.Denied {
				t.Errorf("%s: %+v, though nothing should deny it", c.off, o)
			}
		}
		if len(r.Probes.Open) == 0 || len(r.Probes.Failed) > 0 {
			t.Errorf("%s: open %v, failed %v", c.off, r.Probes.Open, r.Probes.Failed)
		}
	}
}

// Linux 6.3 can refuse a process memory that is writable and executable, and does so before any filter (PR_SET_MDWE): the
// level says nothing of it, and the filter would hide that it is missing.
func TestMemoryIsNotWritableAndExecutableEvenWithoutTheFilter(t *testing.T) {
	t.Parallel()
	needRoot(t)
	const probe = "mmap of writable and executable memory"
	_, err := unix.PrctlRetInt(unix.PR_GET_MDWE, 0, 0, 0, 0)
	can, want := err == nil, "allowed" // before 6.3, the control
	if can {
		want = "EACCES"
	}
	for _, env := range [][]string{nil, {"MCP_SECCOMP=off"}, unlocked} {
		r := postureIn(t, env...)
		if r.Process.MDWE != can {
			t.Errorf("%v: memory_deny_write_execute: %t, the kernel has it: %t", env, r.Process.MDWE, can)
		}
		if env == nil {
			continue // there the filter answers
		}
		if got, _ := r.got(probe); got != want {
			t.Errorf("%v: %s: %s, want %s", env, probe, got, want)
		}
	}
	for _, c := range controls() { // this process has not asked for it
		if c.name == probe {
			if err := c.here(); err != nil {
				t.Errorf("in this process: %v", err)
			}
		}
	}
}
