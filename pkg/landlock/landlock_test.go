package landlock

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nothing is left out of a ruleset.
func nothing(Right) bool { return false }

func newTestRuleset(t *testing.T, abi int, without func(Right) bool) *Ruleset {
	t.Helper()
	r, err := newRuleset(abi, without)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() }) // some tests have closed it
	return r
}

func names(list []Right) string {
	var s []string
	for _, r := range list {
		s = append(s, r.Name)
	}
	return strings.Join(s, " ")
}

func TestRightsAreOrderedAndUnique(t *testing.T) {
	kinds := []Kind{KindFile, KindNet, KindScope}
	seen := map[string]bool{}
	last := [3]uint64{}
	for _, r := range Rights() {
		kind := slices.Index(kinds, r.Kind)
		if kind < 0 || bits.OnesCount64(r.Bit) != 1 || r.ABI < 1 || r.ABI > KnownABI || r.Takes == "" {
			t.Errorf("%s is not well formed: %+v", r.Name, r)
		}
		place := [3]uint64{uint64(r.ABI), uint64(kind), r.Bit}
		if slices.Compare(last[:], place[:]) >= 0 {
			t.Errorf("%s is out of order", r.Name)
		}
		last = place
		for _, key := range []string{r.Name, fmt.Sprint(r.Kind, r.Bit)} {
			if seen[key] {
				t.Errorf("%s is there twice: %s", r.Name, key)
			}
			seen[key] = true
		}
	}
}

func TestRightsIsACopy(t *testing.T) {
	list := Rights()
	list[0].Name, list[0].Needs[0].Name = "changed", "changed"
	if again := Rights()[0]; again.Name == "changed" || again.Needs[0].Name == "changed" {
		t.Error("the table has changed")
	}
}

func TestTableAgreesWithTheStatedMasks(t *testing.T) {
	for abi := range KnownABI + 2 {
		var m masks
		for _, r := range Handled(abi) {
			switch r.Kind {
			case KindFile:
				m.fs |= r.Bit
			case KindNet:
				m.net |= r.Bit
			case KindScope:
				m.scope |= r.Bit
			}
		}
		if want := stated(abi); m != want {
			t.Errorf("abi %d: the table makes %#x, stated is %#x", abi, m, want)
		}
	}
}

func TestEveryRightNeedsACallThatIsNamedOnce(t *testing.T) {
	for _, r := range Rights() {
		if len(r.Needs) == 0 {
			t.Errorf("%s needs no call: it would count as out of reach under any filter", r.Name)
		}
		seen := map[Call]bool{}
		for _, c := range r.Needs {
			if c.Name == "" || seen[c] {
				t.Errorf("%s needs %v, which is empty or there twice", r.Name, c)
			}
			seen[c] = true
		}
	}
}

// The calls that somebody must not forget. The list is short on purpose; it is not the table again.
func TestNeedsHaveTheLessKnownWays(t *testing.T) {
	for _, c := range []struct{ right, call, why string }{
		{"write_file", "openat2", "its flags are in memory, where a filter does not see them"},
		{"write_file", "creat", "opens without naming a flag"},
		{"write_file", "io_uring_setup", "IORING_OP_OPENAT is no system call"},
		{"read_file", "open_by_handle_at", "opens without a path"},
		{"make_reg", "linkat", "gives an O_TMPFILE file its name"},
		{"make_dir", "renameat2", "a moved directory is made where it arrives"},
		{"make_sock", "bind", "makes the file"},
		{"refer", "link", "a second name elsewhere is as good as a move"},
		{"truncate", "openat", "O_TRUNC"},
		{"signal", "tgkill", "allowed without an argument check it signals anybody"},
		{"signal", "fcntl", "F_SETOWN lets the kernel send the signal"},
		{"abstract_unix_socket", "socketpair", "sendto names another receiver"},
		{"execute", "execveat", "of a descriptor"},
	} {
		i := slices.IndexFunc(Rights(), func(r Right) bool { return r.Name == c.right })
		if i < 0 || !slices.ContainsFunc(Rights()[i].Needs, func(n Call) bool { return n.Name == c.call }) {
			t.Errorf("%s does not need %s: %s", c.right, c.call, c.why)
		}
	}
}

// One name has many ways in it, and a filter that knows one of them knows not the others.
func TestEachWayToHaveSomebodySignalledIsNamed(t *testing.T) {
	const descriptor, somebody, term = 3, 1 << 22, 15
	want := []Call{
		{"kill", [6]uint64{somebody, term}},
		{"kill", [6]uint64{somebody, 0}},
		{"tkill", [6]uint64{somebody, term}},
		{"tgkill", [6]uint64{somebody, somebody, term}},
		{"rt_sigqueueinfo", [6]uint64{somebody, term}},
		{"rt_tgsigqueueinfo", [6]uint64{somebody, somebody, term}},
		{"pidfd_send_signal", [6]uint64{descriptor, term}},
		{"fcntl", [6]uint64{descriptor, 8, somebody}}, // F_SETOWN
		{"fcntl", [6]uint64{descriptor, 15}},          // F_SETOWN_EX
		{"ioctl", [6]uint64{descriptor, 0x8901}},      // FIOSETOWN
		{"ioctl", [6]uint64{descriptor, 0x8902}},      // SIOCSPGRP
	}
	i := slices.IndexFunc(Rights(), func(r Right) bool { return r.Name == "signal" })
	if i < 0 {
		t.Fatal("there is no such right")
	}
	if got := Rights()[i].Needs; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestArgumentsAreAsInRegisters(t *testing.T) {
	directory := unix.AT_FDCWD
	if fromHere != uint64(directory) {
		t.Errorf("AT_FDCWD is %#x", uint64(directory))
	}
}

func TestHandledAndMissingAreTheWholeTable(t *testing.T) {
	everything := names(Rights())
	for _, c := range []struct {
		name             string
		abi              int
		handled, missing string
		why              string
	}{
		{"below", -1, "", everything, "used as 0"},
		{"none", 0, "", everything, "no Landlock takes nothing away"},
		{
			"1", 1, names(Rights()[:13]), names(Rights()[14:]),
			"refer is in neither: it cannot be named and is denied all the same",
		},
		{"2", 2, names(Rights()[:14]), names(Rights()[14:]), ""},
		{"5", 5, names(Rights()[:18]), "abstract_unix_socket signal resolve_unix bind_udp connect_send_udp", ""},
		{"6", 6, names(Rights()[:20]), "resolve_unix bind_udp connect_send_udp", ""},
		{"known", KnownABI, everything, "", ""},
		{"newer", KnownABI + 1, everything, "", "used as KnownABI"},
	} {
		if got := names(Handled(c.abi)); got != c.handled {
			t.Errorf("%s: handled %q, want %q: %s", c.name, got, c.handled, c.why)
		}
		if got := names(Missing(c.abi)); got != c.missing {
			t.Errorf("%s: missing %q, want %q: %s", c.name, got, c.missing, c.why)
		}
	}
}

func TestSetsOfRightsAreNamed(t *testing.T) {
	for _, c := range []struct {
		set  FS
		want string
	}{
		{0, "none"},
		{ReadFile | ReadDir, "read_file|read_dir"},
		{ResolveUnix | Execute, "execute|resolve_unix"},
		{1<<40 | Truncate, "truncate|0x10000000000"},
	} {
		if got := c.set.String(); got != c.want {
			t.Errorf("%#x is %q, want %q", uint64(c.set), got, c.want)
		}
	}
}

func TestStructsLieAsTheKernelReadsThem(t *testing.T) {
	var r unix.LandlockRulesetAttr
	if at := unsafe.Offsetof(r.Scoped); at+8 != rulesetBytes || unsafe.Offsetof(r.Handled_access_net) != 8 {
		t.Errorf("ruleset: scoped is at %d", at)
	}
	var p unix.LandlockPathBeneathAttr
	if at := unsafe.Offsetof(p.Parent_fd); at != 8 || unsafe.Sizeof(p.Parent_fd) != 4 || unsafe.Sizeof(p) < 12 {
		t.Errorf("path rule: parent_fd is at %d, of %d bytes", at, unsafe.Sizeof(p))
	}
	if size := unsafe.Sizeof(netPort{}); size != 16 {
		t.Errorf("port rule: %d bytes", size)
	}
}

// Fails when the kernel's ABI is one that the table claims to know and the kernel has a right that it lacks, or none
// that it has.
func TestTheKernelHasExactlyTheRightsOfItsABI(t *testing.T) {
	needABI(t, 1)
	abi, err := ABI()
	if err != nil {
		t.Fatal(err)
	}
	if abi > KnownABI {
		t.Skipf("the kernel has ABI %d, the table knows %d", abi, KnownABI)
	}
	want := stated(abi)
	for i := range 64 {
		bit := uint64(1) << i
		for kind, m := range map[Kind]masks{KindFile: {fs: bit}, KindNet: {net: bit}, KindScope: {scope: bit}} {
			fd, err := createRuleset(m)
			if err == nil {
				_ = unix.Close(fd) // nothing depends on it
			}
			known := m.fs&want.fs|m.net&want.net|m.scope&want.scope != 0
			if (err == nil) != known {
				t.Errorf("%s: known %t, the kernel says %v", nameOf(kind, bit), known, err)
			}
		}
	}
}

func TestEachRightIsTakenAwayByTheABIsThatHaveIt(t *testing.T) {
	highest := needABI(t, 1)
	table := Rights()
	if len(probes()) != len(table) {
		t.Errorf("%d probes for %d rights", len(probes()), len(table))
	}
	for _, p := range probes() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			try := func(abi int, rules, want string) {
				t.Helper()
				if got := do(t, "probe", openFolder(t), p.name, strconv.Itoa(abi), rules); got != want {
					t.Errorf("abi %d, rules %s: %s, want %s; %s", abi, rules, got, want, p.why)
				}
			}
			try(0, others, p.free)
			for abi := 1; abi <= highest; abi++ {
				want := p.free
				if abi >= p.from || p.name == "refer" { // see Right.Unasked
					want = p.denied
				}
				try(abi, others, want)
			}
			if highest < p.from {
				return
			}
			i := slices.IndexFunc(table, func(r Right) bool { return r.Name == p.name })
			if i < 0 {
				t.Fatal("the table does not have it")
			}
			// A rule gives it back, where there are rules for it and we make them.
			if table[i].Kind == KindFile || p.name == "connect_tcp" {
				try(highest, all, p.free)
			}
			// The guard switched off: with the row left out of the ruleset the attack gets through.
			if !table[i].Unasked {
				try(highest, hole, p.free)
			}
		})
	}
}

func TestReferCannotBeGivenOnABI1(t *testing.T) {
	needABI(t, 1)
	if got := do(t, "probe", openFolder(t), "refer", "1", all); got != "EXDEV" {
		t.Errorf("rename into another directory: %s", got)
	}
}

func TestAllowPathGivesExactlyThat(t *testing.T) {
	abi := needABI(t, 1)
	for _, c := range []struct {
		name   string
		rule   string
		rights FS
		op     string
		target string
		want   string
		why    string
	}{
		{"file", "in", ReadFile, "read", "in/file", "ok", ""},
		{"depth", "in", ReadFile, "read", "in/sub/file", "ok", "a rule holds for everything beneath"},
		{"sibling", "in", ReadFile, "read", "out/file", "EACCES", ""},
		{"namesake", "in", ReadFile, "read", "inner/file", "EACCES", "a rule is for an inode, not for a prefix"},
		{"parent", "in/sub", ReadFile, "read", "in/file", "EACCES", ""},
		{"up", "in", ReadFile, "read", "in/../out/file", "EACCES", ""},
		{"out by link", "in", ReadFile, "read", "in/link", "EACCES", "the target counts"},
		{"in by link", "in", ReadFile, "read", "out/link", "ok", "the target counts"},
		{"write", "in", ReadFile, "write", "in/file", "EACCES", ""},
		{"list", "in", ReadFile, "list", "in", "EACCES", ""},
		{"list too", "in", ReadFile | ReadDir, "list", "in/sub", "ok", ""},
		{"list above", "in", ReadFile | ReadDir, "list", ".", "EACCES", ""},
		{"create", "in", WriteFile, "create", "in/new", "EACCES", "make_reg is another right"},
		{"create too", "in", WriteFile | MakeReg, "create", "in/new", "ok", ""},
		{"one file", "in/file", ReadFile, "read", "in/file", "ok", "a rule may name a file"},
		{"other file", "in/file", ReadFile, "read", "in/sub/file", "EACCES", ""},
		{"truncate", "in", WriteFile | Truncate, "empty", "in/file", "ok", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := openFolder(t)
			fill(t, dir)
			got := do(t, "grant", dir, c.rule, strconv.FormatUint(uint64(c.rights), 10), c.op, c.target)
			if got != c.want {
				t.Errorf("%s: %s, want %s %s", c.op, got, c.want, c.why)
			}
		})
	}
	t.Run("no truncate", func(t *testing.T) {
		want := "EACCES"
		if abi < 3 {
			want = "ok" // nobody takes it away
		}
		dir := openFolder(t)
		fill(t, dir)
		if got := do(t, "grant", dir, "in", strconv.FormatUint(uint64(WriteFile), 10), "empty", "in/file"); got != want {
			t.Errorf("open and truncate: %s, want %s", got, want)
		}
	})
}

// fill makes in/{file, link to out/file, sub/file}, inner/file and out/{file, link to in/file}, open to everybody.
func fill(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"in/sub", "inner", "out"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"in/file", "in/sub/file", "inner/file", "out/file"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"in/link": "../out/file", "out/link": "../in/file"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	// umask has had its say above.
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Type() == os.ModeSymlink {
			return err
		}
		return os.Chmod(path, 0o777)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAllowPathRefusesWhatMakesNoRule(t *testing.T) {
	needABI(t, 1)
	dir, file := openPath(t, "/"), openPath(t, "/proc/self/exe")
	for _, c := range []struct {
		name   string
		abi    int
		fd     int
		rights FS
		want   string // part of the error; empty for none
		why    string
	}{
		{"nothing", 1, dir, 0, "none is no set of file rights", "a rule that gives nothing is a mistake"},
		{"unknown", 1, dir, ReadFile | 1<<17, "0x20000 is no set of file rights", "not even where it would be dropped"},
		{"list a file", 1, file, ReadFile | ReadDir, "read_dir is for directories", "the kernel only says EINVAL"},
		{"refer a file", 1, file, ReadFile | Refer, "refer is for directories", "the same answer on an ABI without refer"},
		{"read a file", 1, file, ReadFile, "", ""},
		{"everything of a file", 1, file, ofFiles, "", ""},
		{"everything", 1, dir, ofAll, "", "what ABI 1 does not handle is dropped"},
		{"dropped", 1, dir, Truncate, "", "nobody takes it away"},
		{"closed", 1, -1, ReadFile, "bad file descriptor", ""},
		{"closed directory", 1, -1, ReadDir, "bad file descriptor", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := newTestRuleset(t, c.abi, nothing).AllowPath(c.fd, c.rights)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q: %s", err, c.want, c.why)
			}
		})
	}
	if err := newTestRuleset(t, 1, nothing).AllowPath(-1, ReadFile); !errors.Is(err, unix.EBADF) {
		t.Errorf("does not wrap the errno: %v", err)
	}
}

func openPath(t *testing.T, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) }) // nothing depends on it
	return fd
}

func TestAllowConnectTCPDoesNothingBelowABI4(t *testing.T) {
	highest := needABI(t, 1)
	for abi := 1; abi <= highest; abi++ {
		r := newTestRuleset(t, abi, nothing)
		if err := r.AllowConnectTCP(65535); err != nil {
			t.Errorf("abi %d: %v", abi, err)
		}
		if err := r.AllowConnectTCP(0); err == nil {
			t.Errorf("abi %d: port 0 was allowed", abi)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		// A closed ruleset can only be told from an open one by whoever asks the kernel.
		if err := r.AllowConnectTCP(65535); (abi >= 4) != errors.Is(err, unix.EBADF) {
			t.Errorf("abi %d, closed: %v", abi, err)
		}
	}
}

func TestNewRefusesAnABIThatIsNotThere(t *testing.T) {
	for _, abi := range []int{-1, 0, KnownABI + 1} {
		if _, err := New(abi); err == nil || errors.As(err, new(unix.Errno)) {
			t.Errorf("abi %d: %v, want an error of ours", abi, err)
		}
	}
	needABI(t, 1)
	highest, err := ABI()
	if err != nil {
		t.Fatal(err)
	}
	for abi := highest + 1; abi <= KnownABI; abi++ {
		if stated(abi) == stated(highest) {
			continue // newer, but without a new right
		}
		if _, err := New(abi); !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.E2BIG) {
			t.Errorf("abi %d of %d: %v, want EINVAL or E2BIG", abi, highest, err)
		}
	}
}

func TestConfirmAgreesOnEveryABI(t *testing.T) {
	highest := needABI(t, 1)
	for abi := 1; abi <= highest; abi++ {
		r := newTestRuleset(t, abi, nothing)
		for range 2 { // asking changes nothing
			if err := r.Confirm(); err != nil {
				t.Errorf("abi %d: %v", abi, err)
			}
		}
		if err := r.AllowPath(openPath(t, "/"), ReadFile); err != nil {
			t.Error(err)
		}
		if err := r.AllowConnectTCP(1); err != nil {
			t.Error(err)
		}
		if err := r.Confirm(); err != nil {
			t.Errorf("abi %d, with rules: %v", abi, err)
		}
	}
}

func TestConfirmNamesEveryRightThatIsLeftOut(t *testing.T) {
	highest := needABI(t, 1)
	for abi := 1; abi <= highest; abi++ {
		for _, missing := range Handled(abi) {
			want := fmt.Sprintf("confirm landlock ruleset for abi %d: %s is not handled", abi, missing.Name)
			if missing.Kind == KindScope {
				want = "<nil>" // the kernel cannot be asked
			}
			r := newTestRuleset(t, abi, func(r Right) bool { return r.Name == missing.Name })
			if err := r.Confirm(); fmt.Sprint(err) != want {
				t.Errorf("abi %d without %s: %v, want %s", abi, missing.Name, err, want)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestConfirmNamesARightTooMany(t *testing.T) {
	highest := needABI(t, 2)
	r := newTestRuleset(t, highest, nothing)
	r.abi = 1
	err := r.Confirm()
	if err == nil || !strings.Contains(err.Error(), "refer is handled") {
		t.Errorf("a ruleset for abi %d as one for 1: %v", highest, err)
	}
}

func TestConfirmRefusesAClosedRuleset(t *testing.T) {
	needABI(t, 1)
	r := newTestRuleset(t, 1, nothing)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Confirm(); err == nil {
		t.Error("EBADF for the ruleset was taken for EBADF for the directory")
	}
	// The number goes to the next one who opens something.
	next := openPath(t, "/")
	if err := r.Close(); !errors.Is(err, unix.EBADF) {
		t.Errorf("a second Close: %v", err)
	}
	if _, err := unix.FcntlInt(uintptr(next), unix.F_GETFD, 0); err != nil {
		t.Errorf("the second Close has closed descriptor %d of somebody else", next)
	}
}

func TestRestrictThreadLeavesTheOtherThreads(t *testing.T) {
	needABI(t, 1)
	if got := do(t, "thread"); got != "EACCES ok" {
		t.Errorf("this thread and another one: %s", got)
	}
}

func TestRestrictThreadNeedsNoNewPrivs(t *testing.T) {
	needABI(t, 1)
	if got := do(t, "naked"); got != "EPERM" {
		t.Errorf("without no_new_privs: %s", got)
	}
}
