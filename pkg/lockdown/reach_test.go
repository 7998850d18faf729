package lockdown_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/stage"
)

// This file has the sealed process try what it must not be able to do, beyond what it tries by itself at every start: in
// what is granted, beside it, and on all ports. What a rule gives too much shows here, whatever the posture says.

// attempt is one thing to try, see hole_try.go.
type attempt struct {
	Do    string `json:"do"`
	Path  string `json:"path"`
	To    string `json:"to"`
	Flags int    `json:"flags"`
	Port  int    `json:"port"`
}

// tryAll has the daemon with these settings try the list when it is sealed, and returns the answers in the same order.
func tryAll(t *testing.T, list []attempt, env ...string) []string {
	t.Helper()
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	cmd := passage{
		Steps: homes(), UID: stage.UserID, Program: stage.Binary(t, withHoles),
		Environ: append([]string{"MCP_TEST_TRY=1"}, env...),
	}.command(t)
	e := tries(t, cmd, string(text))
	var answers []string
	if err := json.Unmarshal([]byte(e.stdout), &answers); err != nil || len(answers) != len(list) || e.code != 0 {
		t.Fatalf("%v: %d answers to %d attempts: %v", err, len(answers), len(list), e)
	}
	return answers
}

// tries runs a daemon, or what starts one, that is to try a list of attempts.
func tries(t *testing.T, cmd *exec.Cmd, list string) ending {
	t.Helper()
	var out, log bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(list), &out, &log
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	e := ending{cmd.ProcessState.ExitCode(), 0, out.String(), log.String()}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.signal = status.Signal()
	}
	return e
}

// homes puts something that every user may have into folders that are root's on most hosts, unless the test needs what
// is there. Only the daemon sees it.
func homes() (steps [][]string) {
	needed := []string{os.TempDir(), os.Getenv(stage.CoverVariable), os.Getenv(stage.BinariesVariable)}
	for _, folder := range []string{"/root", "/home"} {
		inside := func(path string) bool { return strings.HasPrefix(path, folder+"/") }
		if _, err := os.Stat(folder); err == nil && !slices.ContainsFunc(needed, inside) {
			steps = append(
				steps,
				[]string{"tmpfs", folder}, []string{"write", folder + "/a.txt", "text"}, []string{"folder", folder + "/all"},
			)
		}
	}
	return steps
}

// terrain is what the attempts are made on: the granted folders of all profiles, and what is beside them. Every user may
// write to all of it, so that only the daemon's own layers refuse.
type terrain struct {
	above, data, sockets, others string // folders; data is MCP_SAFE_DATA_DIR, sockets that of the DSN
	listed, unlisted             int    // TCP ports where somebody listens
}

// temporary are files that are not there, in the folder that every user may make files in.
func (at terrain) temporary() [2]string {
	name := filepath.Join("/tmp", filepath.Base(at.above))
	return [2]string{name + "-1", name + "-2"}
}

func layOut(t *testing.T) terrain {
	t.Helper()
	above := filepath.Dir(sandboxTree(t))
	at := terrain{
		above: above, data: filepath.Join(above, "data"),
		sockets: filepath.Join(above, "sockets"), others: filepath.Join(above, "others"),
	}
	for _, name := range []string{
		"data/sub/b.txt", "data/sub/c.txt", "data/sub/d.txt", "data/empty/gone", "sockets/a.txt", "others/a.txt",
	} {
		stage.File(t, above, name, []byte("text"))
	}
	if err := os.Remove(filepath.Join(at.data, "empty/gone")); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(stage.Binary(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	stage.File(t, above, "data/program", program)
	stage.File(t, above, "root.pem", certificate(t))
	err = filepath.WalkDir(above, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Type()&os.ModeSymlink != 0 {
			return err
		}
		return os.Chmod(path, 0o777)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, path := range at.temporary() {
			_ = os.Remove(path) // mostly there is none
		}
	})
	hear := func(network, address string) net.Addr {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() }) // nobody is expected
		return l.Addr()
	}
	for _, folder := range []string{at.sockets, at.others} {
		path := filepath.Join(folder, ".s.PGSQL.5432")
		hear("unix", path)
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, port := range []*int{&at.listed, &at.unlisted} {
		_, text, err := net.SplitHostPort(hear("tcp", "127.0.0.1:0").String())
		if err == nil {
			*port, err = strconv.Atoi(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return at
}

// certificate is one that can be trusted, for a DSN that names its own.
func certificate(t *testing.T) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	text, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: text})
}

// profile is a kind of daemon, by what it may reach.
type profile struct {
	name                  string
	env                   []string
	tcp, udp, names, unix bool     // what it has sockets for, and whether it asks name servers
	ports                 []int    // the TCP ports that it may reach
	folders               []string // that it may list, with all below
	waived                []string // opt-outs
	rules                 []string // beside those of the data folder and of the metrics
}

// certificateFolders are those of daemon.certificates, a second time.
var certificateFolders = []string{
	"/etc/ssl", "/etc/pki", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates",
}

func profiles(t *testing.T) []profile { return profilesAt(layOut(t)) }

func profilesAt(at terrain) []profile {
	dsn := func(format string, args ...any) []string {
		return []string{"MCP_SAFE_DATA_DIR=" + at.data, "MCP_SQL_DSN=" + fmt.Sprintf("postgres://u:p@"+format, args...)}
	}
	var resolver, roots, rooted []string
	for _, file := range []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"} {
		if _, err := os.Stat(file); err == nil {
			resolver = append(resolver, file+": read_file")
		}
	}
	for _, folder := range certificateFolders {
		if _, err := os.Stat(folder); err == nil {
			roots, rooted = append(roots, folder+": read_file, read_dir"), append(rooted, folder)
		}
	}
	own := filepath.Join(at.above, "root.pem")
	return []profile{
		{name: "plain", env: []string{"MCP_SAFE_DATA_DIR=" + at.data}},
		{
			name: "an address", env: dsn("127.0.0.1:%d/d", at.listed),
			tcp: true, ports: []int{at.listed},
		},
		{
			name: "a name", env: dsn("db.invalid:%d/d?sslmode=verify-full", at.listed),
			tcp: true, udp: true, names: true, ports: []int{53, at.listed}, folders: rooted,
			rules: slices.Concat(resolver, roots),
		},
		{
			name: "the system's roots", env: dsn("192.0.2.1:%d,192.0.2.2:444/d?sslmode=verify-full", at.listed),
			tcp: true, ports: []int{444, at.listed}, folders: rooted, rules: roots,
		},
		{
			name: "its own root",
			env:  append(dsn("192.0.2.1:%d/d?sslrootcert=%s", at.listed, own), "MCP_SQL_ALLOW_UNSAFE_ROLE=true"),
			tcp:  true, ports: []int{at.listed}, rules: []string{own + ": read_file"},
			waived: []string{"MCP_SQL_ALLOW_UNSAFE_ROLE=true"},
		},
		{
			name: "a socket", env: dsn("/d?host=%s", at.sockets),
			unix: true, rules: []string{at.sockets + ": resolve_unix"},
		},
	}
}

// fence is one attempt and the answers to it.
type fence struct {
	attempt
	alone    string // with Landlock and no filter
	both     string // with both layers
	unlocked string // with neither: the control
}

const through = "allowed"

// fences are the attempts on files, on sockets and on the parent, for a daemon of this profile and a kernel of this ABI.
func fences(at terrain, p profile, abi int) []fence {
	in := func(name string) string { return filepath.Join(at.data, name) }
	const list = unix.O_RDONLY | unix.O_DIRECTORY
	const create = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL
	// What both layers see is refused by the filter, which comes first.
	both := func(a attempt) fence { return fence{a, "EACCES", "EPERM", through} }
	// What the filter lets through, because it is how files are read, is refused by Landlock.
	reading := func(path string, flags int) []fence {
		return []fence{
			{attempt{Do: "open", Path: path, Flags: flags}, "EACCES", "EACCES", through},
			{attempt{Do: "openat2", Path: path, Flags: flags}, "EACCES", "EACCES", through},
		}
	}
	// The filter cannot see the flags of openat2.
	writing := func(path string, flags int) []fence {
		return []fence{
			{attempt{Do: "openat2", Path: path, Flags: flags}, "EACCES", "EACCES", through},
			both(attempt{Do: "open", Path: path, Flags: flags}),
		}
	}
	all := []fence{
		// The right that is given is there.
		{attempt{Do: "open", Path: in("sub/a.txt")}, through, through, through},
		{attempt{Do: "openat2", Path: in("sub/a.txt")}, through, through, through},
	}
	all = slices.Concat(
		all,
		// In what is granted: every right that it is not granted for. What openat2 has made or emptied in the control, open
		// does again.
		reading(at.data, list), reading(in("sub"), list),
		writing(in("sub/a.txt"), unix.O_WRONLY), writing(in("sub/a.txt"), unix.O_RDWR),
		writing(in("sub/b.txt"), unix.O_WRONLY|unix.O_TRUNC), writing(in("sub/b.txt"), unix.O_RDONLY|unix.O_TRUNC),
		writing(in("sub/new"), create)[:1], writing(in("new"), create)[1:],
		[]fence{
			both(attempt{Do: "truncate", Path: in("sub/b.txt")}),
			both(attempt{Do: "unlink", Path: in("sub/b.txt")}),
			both(attempt{Do: "rename", Path: in("sub/c.txt"), To: in("sub/renamed")}),
			both(attempt{Do: "link", Path: in("sub/d.txt"), To: in("sub/linked")}),
			both(attempt{Do: "rmdir", Path: in("empty")}),
			both(attempt{Do: "mkdir", Path: in("folder")}),
			both(attempt{Do: "symlink", Path: in("link"), To: "sub"}),
			both(attempt{Do: "mkfifo", Path: in("pipe")}),
			both(attempt{Do: "mknod", Path: in("socket")}),
			{attempt{Do: "execute", Path: in("program")}, "EACCES", "", through},
		},
		// Beside it, and by the ways out of it.
		reading(at.above, list), reading(at.others, list),
		reading(filepath.Join(at.above, "secret.txt"), 0), reading(in("out"), 0), reading(in("up/secret.txt"), 0),
		reading(filepath.Join(at.others, "a.txt"), 0), reading(at.data+"/../others/a.txt", 0),
		writing(filepath.Join(at.others, "a.txt"), unix.O_WRONLY),
		writing(filepath.Join(at.above, "new"), create)[:1], writing(filepath.Join(at.others, "new"), create)[1:],
		[]fence{
			both(attempt{Do: "unlink", Path: filepath.Join(at.others, "a.txt")}),
			{attempt{Do: "execute", Path: "/bin/true"}, "EACCES", "", through},
		},
		// The folder of the database's socket: nothing but to call.
		reading(at.sockets, list), reading(filepath.Join(at.sockets, "a.txt"), 0),
		writing(filepath.Join(at.sockets, "a.txt"), unix.O_WRONLY),
		writing(filepath.Join(at.sockets, "new"), create)[:1], writing(filepath.Join(at.sockets, "new2"), create)[1:],
		// Where every user may make files.
		writing(at.temporary()[0], create)[:1], writing(at.temporary()[1], create)[1:],
	)
	for _, step := range homes() {
		switch path := step[1]; step[0] {
		case "tmpfs":
			all = append(all, reading(path, list)...)
		case "write":
			all = append(all, reading(path, 0)...)
		case "folder":
			all = slices.Concat(all, writing(path+"/1", create)[:1], writing(path+"/2", create)[1:])
		}
	}
	return slices.Concat(all, callings(at, p, abi))
}

// callings are the attempts to reach somebody.
func callings(at terrain, p profile, abi int) []fence {
	has := func(socket bool, answer string) string {
		if socket {
			return answer
		}
		return "EPERM" // there is no socket of the kind
	}
	from := func(first int) string { // what is denied from this ABI on
		if abi < first {
			return through
		}
		return "EACCES"
	}
	listed, ports := from(4), "all"
	if slices.Contains(p.ports, at.listed) {
		listed = through
	}
	if abi >= 4 {
		ports = strings.Trim(strings.ReplaceAll(fmt.Sprint(p.ports), " ", ","), "[]")
	}
	asked, called := from(10), from(9)
	if p.names {
		asked = through
	}
	if p.unix {
		called = through
	}
	socket := func(folder string) attempt {
		return attempt{Do: "unix", Path: filepath.Join(folder, ".s.PGSQL.5432")}
	}
	return []fence{
		{attempt{Do: "tcp", Port: at.listed}, listed, has(p.tcp, listed), through},
		{attempt{Do: "tcp", Port: at.unlisted}, from(4), has(p.tcp, from(4)), through},
		{attempt{Do: "ports"}, ports, has(p.tcp, ports), "all"},
		{attempt{Do: "udp", Port: 53}, asked, has(p.udp, asked), through},
		{attempt{Do: "udp", Port: 54}, from(10), has(p.udp, from(10)), through},
		{socket(at.sockets), called, has(p.unix, called), through},
		{socket(at.others), from(9), has(p.unix, from(9)), through},
	}
}

// The rules are meant to leave reading, and only below what is named. Each attempt is made with both layers, with
// Landlock alone, and, to see that nothing else stops it, with neither.
func TestOnlyWhatIsGrantedIsReached(t *testing.T) {
	t.Parallel()
	needRoot(t)
	abi := needLandlock(t)
	if abi < 3 {
		t.Skip("needs Landlock of ABI 3: before that openat2 is not there, and truncation is the filter's alone")
	}
	if n := ownFilters(t); n > 0 {
		t.Skipf("needs a process without a seccomp filter, which would answer in place of the kernel; this one has %d", n)
	}
	check := func(t *testing.T, p int, want func(fence) string, env ...string) {
		t.Helper()
		at := layOut(t) // anew, since what is allowed is done
		profile := profilesAt(at)[p]
		all := slices.DeleteFunc(fences(at, profile, abi), func(f fence) bool { return want(f) == "" })
		var list []attempt
		for _, f := range all {
			list = append(list, f.attempt)
		}
		for i, got := range tryAll(t, list, append(env, profile.env...)...) {
			if f := all[i]; got != want(f) {
				t.Errorf("%+v: %s, want %s", f.attempt, got, want(f))
			}
		}
	}
	for i, p := range profiles(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			check(t, i, func(f fence) string { return f.both })
			check(t, i, func(f fence) string { return f.alone }, "MCP_SECCOMP=off")
		})
	}
	t.Run("unlocked", func(t *testing.T) {
		t.Parallel()
		check(t, 0, func(f fence) string { return f.unlocked }, unlocked...)
	})
}

// places are the folders of this machine down to the second level, and a file of each.
func places(t *testing.T) (list []attempt) {
	t.Helper()
	const most = 128 // entries of one folder
	folder := func(path string) []os.DirEntry {
		f, err := os.Open(path)
		if err != nil {
			return nil // it is gone
		}
		defer func() { _ = f.Close() }() // only read from
		list = append(list, attempt{Do: "open", Path: path, Flags: unix.O_RDONLY | unix.O_DIRECTORY})
		entries, _ := f.ReadDir(most) // those that there are
		i := slices.IndexFunc(entries, func(e os.DirEntry) bool { return e.Type().IsRegular() })
		if i >= 0 && !strings.HasPrefix(path, "/proc") && !strings.HasPrefix(path, "/sys") { // there reading may be doing
			list = append(list, attempt{Do: "open", Path: filepath.Join(path, entries[i].Name()), Flags: unix.O_NONBLOCK})
		}
		return entries
	}
	for _, e := range folder("/") {
		top := "/" + e.Name()
		if !e.IsDir() || strings.HasPrefix(os.TempDir()+"/", top+"/") { // where other tests come and go
			continue
		}
		for _, e := range folder(top) {
			if _, err := strconv.Atoi(e.Name()); e.IsDir() && (err != nil || top != "/proc") {
				folder(filepath.Join(top, e.Name()))
			}
		}
	}
	return list
}

// Whatever other folders a machine has, none of them may be listed and no file in them read.
func TestNoOtherFolderOfTheMachineIsOpen(t *testing.T) {
	t.Parallel()
	needRoot(t)
	needLandlock(t)
	at := layOut(t)
	list := places(t)
	free := tryAll(t, list, append(unlocked, "MCP_SAFE_DATA_DIR="+at.data)...)
	open := 0
	for _, answer := range free {
		if answer == through {
			open++
		}
	}
	if open < 20 { // the control
		t.Fatalf("this user may open %d of %d", open, len(list))
	}
	for _, p := range profilesAt(at) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			granted := append([]string{"/sys/fs/cgroup"}, p.folders...)
			for _, rule := range p.rules {
				file, _, _ := strings.Cut(rule, ": ")
				granted = append(granted, file)
			}
			for i, got := range tryAll(t, list, p.env...) {
				inside := slices.ContainsFunc(granted, func(folder string) bool {
					return list[i].Path == folder || strings.HasPrefix(list[i].Path, folder+"/")
				})
				if free[i] == through && !inside && got != "EACCES" && got != "ENOENT" { // it is gone
					t.Errorf("%+v: %s", list[i], got)
				}
			}
		})
	}
}

// The daemon is root here, who alone could. What the control makes in / is removed at once.
func TestNoFileIsMadeInTheRoot(t *testing.T) {
	t.Parallel()
	needRoot(t)
	if needLandlock(t) < 3 {
		t.Skip("needs Landlock of ABI 3: before that openat2 is not there")
	}
	path := "/" + filepath.Base(stage.Dir(t))
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL
	list := fmt.Sprintf(`[{"do":"openat2","path":"%[1]s-1","flags":%[2]d},{"do":"open","path":"%[1]s-2","flags":%[2]d}]`,
		path, flags)
	t.Cleanup(func() {
		for _, which := range []string{"-1", "-2"} {
			_ = os.Remove(path + which) // mostly there is none
		}
	})
	asked := func(env ...string) string {
		t.Helper()
		e := tries(t, asRoot(stage.Daemon(t, stage.Options{
			Tags: withHoles, Env: append(env, "MCP_TEST_TRY=1", "MCP_ALLOW_PRIVILEGED=true"),
		})), list)
		if e.code != 0 {
			t.Error(e)
		}
		return strings.TrimSpace(e.stdout)
	}
	for _, c := range []struct {
		want string
		env  []string
	}{
		{`["EACCES","EPERM"]`, nil},
		{`["EACCES","EACCES"]`, []string{"MCP_SECCOMP=off"}},
		{`["ENOSYS","EPERM"]`, []string{"MCP_LANDLOCK=off"}},
		{`["allowed","allowed"]`, unlocked}, // the control, and the last: then the files are there
	} {
		got := asked(c.env...)
		if got == `["EROFS","EROFS"]` {
			t.Skip("needs a root file system that can be written to")
		}
		if got != c.want {
			t.Errorf("%v: %s, want %s", c.env, got, c.want)
		}
	}
}

// The parent is a shell of the same user, whom the daemon tries to kill when it is sealed.
func TestTheParentIsNotKilled(t *testing.T) {
	t.Parallel()
	needRoot(t)
	abi := needLandlock(t)
	for _, c := range []struct {
		env    []string
		answer string
		killed bool
	}{
		{nil, "EPERM", false},
		{[]string{"MCP_SECCOMP=off"}, "EPERM", abi < 6},
		{[]string{"MCP_LANDLOCK=off"}, "EPERM", false},
		{unlocked, through, true}, // the control
	} {
		if c.killed {
			c.answer = through
		}
		daemon := stage.Daemon(t, stage.Options{Tags: withHoles, Env: append([]string{"MCP_TEST_TRY=1"}, c.env...)})
		shell := exec.Command("/bin/sh", "-c", `"$0"; exit 7`, daemon.Path)
		shell.Env, shell.Dir, shell.SysProcAttr = daemon.Env, daemon.Dir, daemon.SysProcAttr
		e := tries(t, shell, `[{"do":"kill the parent"}]`)
		if (e.signal == syscall.SIGKILL) != c.killed || (e.code == 7) == c.killed || e.stdout != `["`+c.answer+"\"]\n" {
			t.Errorf("%v: want %s, killed %t: the shell ends with %v", c.env, c.answer, c.killed, e)
		}
	}
}
