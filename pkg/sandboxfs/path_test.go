package sandboxfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/problem"
)

// leak says what an escape row is worth without the guard.
type leak int

const (
	noEscape leak = iota
	leaks         // os.ReadFile on the same path gives what lies outside
	inert         // it would not: the row is there for the answer, not for the danger
)

// need is what a row cannot do without.
type need int

const (
	ordinary need = 1 << iota // a user whom permission bits hold back
	devices                   // device nodes below the root
	mounts                    // a tmpfs and a procfs below the root
	nothing  need = 0
)

type pathRow struct {
	name string
	path string // $ROOT, $ALIAS and $BASE stand for the absolute paths, $PIPE for a descriptor
	want string // the canonical path, or a reason
	leak leak
	need need
	why  string
}

const (
	outside  = string(problem.OutsideSandbox)
	notFound = string(problem.NotFound)
	special  = string(problem.SpecialFile)
	denied   = string(problem.NotReadable)
	badParam = string(problem.BadParam)
)

var pathRows = []pathRow{
	// Inside.
	{"plain", "a.txt", "a.txt", noEscape, nothing, "the hot path"},
	{"below", "d/e/f.txt", "d/e/f.txt", noEscape, nothing, "a directory to open first"},
	{"dots and slashes", ".//d/./e//f.txt", "d/e/f.txt", noEscape, nothing, "fs-021: empty and . components are dropped"},
	{"trailing slash", "a.txt/", "a.txt", noEscape, nothing, "Python drops it, also behind a file"},
	{"trailing dot", "a.txt/.", "a.txt", noEscape, nothing, "the same"},
	{"up again", "d/../a.txt", "a.txt", noEscape, nothing, "\"..\" inside"},
	{"up twice", "d/e/../../a.txt", "a.txt", noEscape, nothing, "\"..\" inside"},
	{"missing and up", "nothere/../a.txt", "a.txt", noEscape, nothing, "non-strict: the rest is applied by name"},
	{"two missing and up", "nothere/x/../../d/e/f.txt", "d/e/f.txt", noEscape, nothing, "and looked up again where it can be"},
	{"file and up", "a.txt/../d/e/f.txt", "d/e/f.txt", noEscape, nothing, "ENOTDIR is non-strict too"},
	{"missing, up, link", "nothere/../indir/e/f.txt", "d/e/f.txt", noEscape, nothing, "links behind a missing part are followed"},
	{"closed and up", "closed/x/../../a.txt", "a.txt", noEscape, nothing, "EACCES is non-strict too"},
	{"relative link", "in_rel", "d/e/f.txt", noEscape, nothing, "ordinary"},
	{"absolute link", "in_abs", "d/e/f.txt", noEscape, nothing, "fs-005: followed by name into the root"},
	{"absolute link to a directory", "in_absdir/f.txt", "d/e/f.txt", noEscape, nothing, "fs-005"},
	{"absolute link by the alias", "in_alias", "a.txt", noEscape, nothing, "fs-003: the operator's spelling names the root too"},
	{"link to a directory", "indir/e/f.txt", "d/e/f.txt", noEscape, nothing, "ordinary"},
	{"link to a directory and up", "deep/../f.txt", notFound, noEscape, nothing, "\"..\" leaves the target, not the link"},
	{"link, up, down", "deep/../e/f.txt", "d/e/f.txt", noEscape, nothing, "\"..\" leaves the target, not the link"},
	{"link with dots", "dotted", "d/e/f.txt", noEscape, nothing, "targets are cleaned like paths"},
	{"out and back by link", "out_and_back", "a.txt", noEscape, nothing, "Python accepts it; only names outside are used"},
	{"out and back by path", "../root/a.txt", "a.txt", noEscape, nothing, "the same"},
	{"deep out and back", "d/../../root/d/e/f.txt", "d/e/f.txt", noEscape, nothing, "the same"},
	{"out, around and back", "../out/../nothere/../root/a.txt", "a.txt", noEscape, nothing, "names outside just move"},
	{"out and back by the alias", "../alias/a.txt", "a.txt", noEscape, nothing, "the operator's spelling"},
	{"far above", strings.Repeat("../", 100) + "$ROOT/a.txt", "a.txt", noEscape, nothing, "above / is /"},
	{"absolute path", "$ROOT/a.txt", "a.txt", noEscape, nothing, "Python: root / \"/abs\" is \"/abs\""},
	{"absolute path by the alias", "$ALIAS/d/e/f.txt", "d/e/f.txt", noEscape, nothing, "the same"},
	{"absolute path with doubled slashes", "/$ROOT//a.txt", "a.txt", noEscape, nothing, "the same"},
	{"ConfigMap", "key", "..v1/key", noEscape, nothing, "fs-028: key -> ..data/key, ..data -> ..v1"},
	{"name with dots", "...", "...", noEscape, nothing, "three dots are a name"},
	{"percent", "%2e%2e%2fa", "%2e%2e%2fa", noEscape, nothing, "fs-021: an ordinary character"},
	{"backslash", `..\a`, `..\a`, noEscape, nothing, "fs-021: an ordinary character"},
	{"control characters", "n\n\x1b\u202e", "n\n\x1b\u202e", noEscape, nothing, "fs-025: any name that the file system takes"},
	{"40 links", "chain40", "a.txt", noEscape, nothing, "as many as the kernel follows"},
	{"longest path", strings.Repeat("d/../", 818) + "a.txt", "a.txt", noEscape, nothing, "4095 characters"},
	{"most bytes", strings.Repeat("\u3042/../", 682) + "a.txt", "a.txt", noEscape, nothing, "4097 bytes are fewer characters"},
	{"long canonical path", "long/x", notFound, noEscape, nothing, "a path of 4096 bytes cannot be opened at once, so not by the walk either"},
	{"mount", "mnt/m.txt", "mnt/m.txt", noEscape, mounts, "mounts below the root belong to it"},
	{"procfs", "proc/self/status", "proc/$PID/status", noEscape, mounts, "size 0, and self is a link"},
	{"magic link to /", "proc/self/root/$ROOT/a.txt", "a.txt", noEscape, mounts, "the text of a magic link is a name like any other"},

	// Outside.
	{"up", "../out/secret", outside, leaks, nothing, "traversal"},
	{"up to nothing", "../out/nothere", outside, inert, nothing, "no existence oracle"},
	{"up from below", "d/../../out/secret", outside, leaks, nothing, "CVE-2026-27735"},
	{"up from a missing part", "nothere/../../out/secret", outside, inert, nothing, "non-strict must not end the counting"},
	{"up from a link", "indir/../../out/secret", outside, leaks, nothing, "traversal"},
	{"sibling with the same beginning", "../rootling/secret", outside, leaks, nothing, "names are compared, not prefixes"},
	{"absolute", "$BASE/out/secret", outside, leaks, nothing, "an absolute path replaces the root"},
	{"absolute to nothing", "/nothere", outside, inert, nothing, "no existence oracle"},
	{"absolute sibling", "$ROOT/../out/secret", outside, leaks, nothing, "in and out again"},
	{"absolute sibling by the alias", "$ALIAS/../out/secret", outside, leaks, nothing, "in and out again"},
	{"the directory above", "..", outside, inert, nothing, "a directory anyway"},
	{"/", "/", outside, inert, nothing, "a directory anyway"},
	{"link out", "out_rel", outside, leaks, nothing, "CVE-2025-53109"},
	{"absolute link out", "out_abs", outside, leaks, nothing, "CVE-2025-53109"},
	{"dangling link out", "out_dangling", outside, inert, nothing, "no existence oracle"},
	{"link to a directory out", "outdir/secret", outside, leaks, nothing, "fs-001"},
	{"link to a directory out, nothing there", "outdir/nothere", outside, inert, nothing, "no existence oracle"},
	{"link out over a link", "out_twice", outside, leaks, nothing, "CVE-2025-53109"},
	{"link up", "parent/out/secret", outside, leaks, nothing, "a link whose text is .."},
	{"missing, up, link out", "d/nothere/../../outdir/secret", outside, inert, nothing, "links behind a missing part count"},
	{"link to a link outside that leads in", "foreign", outside, inert, nothing, "nothing outside is looked at, so that link is a name"},
	{"/proc by a link", "proc_root", outside, leaks, nothing, "magic links, through a link out"},
	{"descriptor by a link", "proc_fd", outside, inert, nothing, "standard input"},
	{"magic link", "proc/self/root/$BASE/out/secret", outside, leaks, mounts, "openat2 refuses it, the walk sees a link to /"},
	{"magic link to a file", "proc/self/exe", outside, leaks, mounts, "the program is no file of the tree"},
	{"magic link to a directory", "proc/self/cwd/doc.go", outside, leaks, mounts, "the working directory is not in the tree"},

	// Loops: answered like outside.
	{"loop", "loop1", outside, inert, nothing, "ELOOP"},
	{"self", "self", outside, inert, nothing, "ELOOP"},
	{"below a loop", "self/x", outside, inert, nothing, "ELOOP"},
	{"loop over the outside", "loop_out", outside, inert, nothing, "each turn leaves the root and comes back"},
	{"loop and up", "self/../a.txt", outside, inert, nothing, "stricter than Python, which drops the loop by name"},
	{"growing loop", "grow", outside, inert, nothing, "the target makes the path longer each time"},
	{"41 links", "chain41", outside, inert, nothing, "one more than the kernel follows"},

	// Not there.
	{"missing", "nothere", notFound, noEscape, nothing, "ENOENT"},
	{"missing directory", "nothere/x", notFound, noEscape, nothing, "ENOENT"},
	{"below a file", "a.txt/x", notFound, noEscape, nothing, "ENOTDIR"},
	{"below a file, up and down", "a.txt/../a.txt/x", notFound, noEscape, nothing, "ENOTDIR after the resolution"},
	{"below a FIFO", "fifo/x", notFound, noEscape, nothing, "ENOTDIR"},
	{"dangling", "in_dangling", notFound, noEscape, nothing, "the target is inside and missing"},
	{"long name", strings.Repeat("a", 300), notFound, noEscape, nothing, "ENAMETOOLONG"},
	{"200 levels", strings.Repeat("x/", 200) + "x", notFound, noEscape, nothing, "fs-021"},
	{"encoded traversal", "..%2f..%2fetc", notFound, noEscape, nothing, "fs-021"},
	{"backslash traversal", `..\..\x`, notFound, noEscape, nothing, "fs-021"},
	{"descriptor of a pipe", "proc/self/fd/$PIPE", notFound, noEscape, mounts, "its link text is a name that does not exist"},

	// There, and not for reading.
	{"directory", "d", special, noEscape, nothing, "fs-007"},
	{"directory with a slash", "d/", special, noEscape, nothing, "fs-007"},
	{"link to a directory at the end", "indir", special, noEscape, nothing, "fs-007"},
	{"the root", ".", special, noEscape, nothing, "a directory"},
	{"the root, otherwise", "d/..", special, noEscape, nothing, "a directory"},
	{"the root, absolutely", "$ROOT", special, noEscape, nothing, "a directory"},
	{"the root, from above", "../root", special, noEscape, nothing, "a directory"},
	{"FIFO", "fifo", special, noEscape, nothing, "must not wait for a writer"},
	{"socket", "socket", special, noEscape, nothing, "ENXIO"},
	{"character device", "null", special, noEscape, devices, "fs-007: not even opened"},
	{"block device", "block", special, noEscape, devices, "fs-007: not even opened"},
	{"unreadable", "closed.txt", denied, noEscape, ordinary, "EACCES"},
	{"in a closed directory", "closed/x", denied, noEscape, ordinary, "EACCES"},
	{"nothing in a closed directory", "closed/nothere", denied, noEscape, ordinary, "EACCES"},
	{"link into a closed directory", "in_closed", denied, noEscape, ordinary, "EACCES after the resolution"},
	{"somebody else's magic link", "proc/1/root/etc/passwd", denied, noEscape, ordinary | mounts, "EACCES from readlink"},

	// Not a path.
	{"empty", "", badParam, noEscape, nothing, "fs-021: 1 to 4096 characters"},
	{"NUL", "a\x00b", badParam, noEscape, nothing, "fs-021"},
	{"not Unicode", "a\xff", badParam, noEscape, nothing, "Python would take surrogates for bytes"},
	{"too long", strings.Repeat("d/../", 820), badParam, noEscape, nothing, "4100 characters"},
}

// pathStage holds everything that the rows name.
func pathStage(t testing.TB) *stage {
	s := newStage(t)
	s.dir("root/d/e", "root/..v1", "root/closed")
	s.inside("a.txt", "d/e/f.txt", "..v1/key", "...", "%2e%2e%2fa", `..\a`, "n\n\x1b\u202e", "closed/x", "closed.txt")
	s.links(map[string]string{
		"in_rel": "d/e/f.txt", "in_abs": "$BASE/root/d/e/f.txt", "in_absdir": "$BASE/root/d/e", "in_alias": "$BASE/alias/a.txt",
		"indir": "d", "deep": "d/e", "dotted": ".//d/../d/./e/f.txt", "out_and_back": "../root/a.txt", "in_closed": "closed/x",
		"key": "..data/key", "..data": "..v1", "in_dangling": "nothere",
		"out_rel": "../out/secret", "out_abs": "$BASE/out/secret", "out_dangling": "$BASE/out/nothere", "outdir": "../out",
		"out_twice": "d/out", "d/out": "../../out/secret", "parent": "..", "foreign": "$BASE/out/back",
		"proc_root": "/proc/self/root$BASE/out/secret", "proc_fd": "/proc/self/fd/0",
		"loop1": "loop2", "loop2": "loop1", "self": "self", "loop_out": "../root/loop_out", "grow": "grow/x",
		"chain1": "a.txt",
	})
	for i := 2; i <= 41; i++ {
		s.links(map[string]string{fmt.Sprintf("chain%d", i): fmt.Sprintf("chain%d", i-1)})
	}
	s.must(os.Symlink("../root/a.txt", s.path("out/back")))
	s.must(unix.Mkfifo(s.path("root/fifo"), 0o644))
	s.socket("socket")
	s.long()
	s.privileged()
	s.must(os.Chmod(s.path("root/closed.txt"), 0))
	s.must(os.Chmod(s.path("root/closed"), 0))
	t.Cleanup(func() { _ = os.Chmod(s.path("root/closed"), 0o755) })
	return s
}

// long makes 17 directories with names of 255 characters below each other, and a file x below; the link long leads
// there over two links, because one target cannot be so long.
func (s *stage) long() {
	name := strings.Repeat("l", 255)
	half := strings.Repeat(name+"/", 8)
	s.links(map[string]string{"half": half, "long": "half/" + half + name})
	at, err := unix.Open(s.path("root"), unix.O_PATH, 0)
	s.must(err)
	for range 17 {
		s.must(unix.Mkdirat(at, name, 0o755))
		next, err := unix.Openat(at, name, unix.O_PATH, 0)
		s.must(err)
		s.must(unix.Close(at))
		at = next
	}
	fd, err := unix.Openat(at, "x", unix.O_CREAT|unix.O_WRONLY, 0o644)
	s.must(err)
	s.must(unix.Close(fd))
	s.must(unix.Close(at))
}

func TestPathRule(t *testing.T) {
	if base := os.Getenv(stageVariable); base != "" {
		s := &stage{t: t, base: base, devices: os.Getenv("DEVICES") != "", mnt: os.Getenv("MOUNTS") != ""}
		s.checkPathRule(t)
		return
	}
	s := pathStage(t)
	s.checkPathRule(t)
	if os.Geteuid() != 0 {
		return
	}
	env := []string{}
	if s.devices {
		env = append(env, "DEVICES=yes")
	}
	if s.mnt {
		env = append(env, "MOUNTS=yes")
	}
	s.asOtherUser("TestPathRule", env...)
}

func (s *stage) checkPathRule(t *testing.T) {
	lacks := func(n need) string {
		switch {
		case n&ordinary != 0 && os.Geteuid() == 0:
			return "root passes permission bits; the run as another user does this row"
		case n&devices != 0 && !s.devices:
			return "no device nodes without CAP_MKNOD"
		case n&mounts != 0 && !s.mnt:
			return "no mounts without CAP_SYS_ADMIN"
		}
		return ""
	}
	var pipe [2]int
	s.must(unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	defer shut(pipe[0])
	defer shut(pipe[1])
	expand := strings.NewReplacer("$ROOT", s.base+"/root", "$ALIAS", s.base+"/alias", "$BASE", s.base,
		"$PID", fmt.Sprint(os.Getpid()), "$PIPE", fmt.Sprint(pipe[0])).Replace
	refusal := string(problem.New(problem.OutsideSandbox, "the path resolves outside the sandbox", "relative_path").Append(nil, false))
	for mechanism, walk := range mechanisms {
		r, err := Open(Settings{Dir: s.path("alias"), ForceWalk: walk})
		s.must(err)
		defer r.Close()
		for _, row := range pathRows {
			t.Run(mechanism+"/"+row.name, func(t *testing.T) {
				if why := lacks(row.need); why != "" {
					t.Skip(why)
				}
				before := descriptors(t)
				text, err := r.Read(context.Background(), request(expand(row.path)))
				if after := descriptors(t); after != before {
					t.Errorf("%d descriptors stay open", after-before)
				}
				got := string(reason(err))
				if err == nil {
					got = text.ResolvedPath
					if text.Content != "inside "+got && !strings.HasPrefix(got, "proc/") {
						t.Errorf("it holds %q", text.Content)
					}
				}
				if got != expand(row.want) {
					t.Errorf("%s: %.200v, want %s", row.why, err, row.want)
				}
				if strings.Contains(text.Content, secret) {
					t.Error("it leaks")
				}
				var p *problem.Problem
				if !errors.As(err, &p) {
					return
				}
				document := string(p.Append(nil, false))
				if strings.Contains(document, s.base) {
					t.Errorf("it names a host path: %s", document)
				}
				if row.want == outside && document != refusal && !strings.Contains(document, "symlink loop") {
					t.Errorf("it tells more than others: %s", document)
				}
			})
		}
	}
}

// A row that would be refused without any guard proves nothing; it has to say so.
func TestEscapeRowsLeakWithoutTheGuard(t *testing.T) {
	s := pathStage(t)
	for _, row := range pathRows {
		if (row.want == outside) != (row.leak != noEscape) {
			t.Errorf("%s: it is outside and does not say what happens without the guard, or the other way round", row.name)
		}
		if row.leak == noEscape || row.need == mounts && !s.mnt {
			continue
		}
		path := strings.NewReplacer("$ROOT", s.base+"/root", "$ALIAS", s.base+"/alias", "$BASE", s.base).Replace(row.path)
		if path[0] != '/' {
			path = s.path("root/" + path)
		}
		raw, err := os.ReadFile(path)
		leaked := err == nil && len(raw) > 0 && !strings.HasPrefix(string(raw), "inside ")
		if want := row.leak == leaks; leaked != want {
			t.Errorf("%s: leaks without the guard: %v, want %v (%v)", row.name, leaked, want, err)
		}
	}
}
