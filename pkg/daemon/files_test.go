package daemon_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/stage"
)

// file is the result of sandbox_fs_read.
type file struct {
	Path      string `json:"resolved_path"`
	Content   string `json:"content"`
	Read      int    `json:"bytes_read"`
	Truncated bool   `json:"truncated"`
	Next      *int64 `json:"next_offset"`
	Size      int64  `json:"size_bytes"`
}

// read reads a file; more is further arguments, beginning with a comma.
func (s session) read(path, more string) outcome {
	s.t.Helper()
	quoted, err := json.Marshal(path)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.call("sandbox_fs_read", `{"relative_path":`+string(quoted)+more+`}`)
}

func (s session) mustRead(path, more string) file {
	s.t.Helper()
	return into[file](s.t, s.read(path, more))
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestPathsLeadWhereTheyShould(t *testing.T) {
	t.Parallel()
	outside := stage.Dir(t)
	stage.File(t, outside, "secret.txt", []byte("secret"))
	dir := stage.Dir(t)
	stage.File(t, dir, "a/b", []byte("inner"))
	stage.File(t, dir, "..%2f..%2fetc", []byte("percent"))
	stage.File(t, dir, `..\..\x`, []byte("backslash"))
	stage.File(t, dir, "sub/deep/c", []byte("deep"))
	stage.File(t, dir, "only-root", []byte("x"))
	name := filepath.Base(outside)
	must(t,
		os.Chmod(dir+"/only-root", 0o600),
		os.Symlink("a/b", dir+"/in"),
		os.Symlink("sub/../a", dir+"/through"),
		os.Symlink(dir+"/sub", dir+"/absolute"),
		os.Symlink("../../"+filepath.Base(dir)+"/a/b", dir+"/sub/out-and-in"),
		os.Symlink("/etc", dir+"/etc"),
		os.Symlink("../"+name+"/secret.txt", dir+"/leak"),
		os.Symlink("../"+name+"/missing.txt", dir+"/leak-missing"),
		os.Symlink("/proc/self/root/etc/passwd", dir+"/magic"),
		os.Symlink("ring", dir+"/ring"),
		os.Symlink("nowhere", dir+"/dangling"),
	)
	s := open(t, "MCP_SAFE_DATA_DIR="+dir)
	for path, want := range map[string]string{
		"a/b": "inner", "./a//b": "inner", "a/./b": "inner", "sub/../a/b": "inner", "missing/../a/b": "inner",
		"in": "inner", "through/b": "inner", "absolute/deep/c": "deep", "sub/out-and-in": "inner", dir + "/a/b": "inner",
		"..%2f..%2fetc": "percent", `..\..\x`: "backslash", // file names like others on Linux
	} {
		if f := s.mustRead(path, ""); f.Content != want || strings.HasPrefix(f.Path, "/") || strings.Contains(f.Path, "//") {
			t.Errorf("%s: %+v, want %s", path, f, want)
		}
	}
	if f := s.mustRead("through/b", ""); f.Path != "a/b" {
		t.Errorf("resolved path %s, want a/b", f.Path)
	}
	for path, want := range map[string]string{
		"../" + name + "/secret.txt": "OUTSIDE_SANDBOX", "a/../../x": "OUTSIDE_SANDBOX", "..": "OUTSIDE_SANDBOX",
		"../../etc/passwd": "OUTSIDE_SANDBOX", "/etc/passwd": "OUTSIDE_SANDBOX", "/": "OUTSIDE_SANDBOX",
		"etc/passwd": "OUTSIDE_SANDBOX", "leak": "OUTSIDE_SANDBOX", "magic": "OUTSIDE_SANDBOX", "ring": "OUTSIDE_SANDBOX",
		"../" + filepath.Base(dir) + "-x": "OUTSIDE_SANDBOX",
		".":                               "SPECIAL_FILE", "a": "SPECIAL_FILE", "a/": "SPECIAL_FILE",
		"only-root": "NOT_READABLE",
		"missing":   "NOT_FOUND", "a/b/c": "NOT_FOUND", "dangling": "NOT_FOUND", strings.Repeat("x", 300): "NOT_FOUND",
		strings.Repeat("d/", 200) + "x": "NOT_FOUND", strings.Repeat("p", 4096): "NOT_FOUND",
		"": "BAD_PARAM", strings.Repeat("p", 4097): "BAD_PARAM",
	} {
		if os.Geteuid() != 0 && want == "NOT_READABLE" {
			continue // the test's own user reads what it owns
		}
		o := s.read(path, "")
		o.refused(t, want, "relative_path")
		if o.Refusal == nil {
			t.Errorf("%.40s: see above", path)
		} else if len(path) > 2 && strings.Contains(o.Refusal.Detail, path) || strings.Contains(o.Refusal.Detail, dir) {
			t.Errorf("%.40s: the refusal tells paths: %s", path, o.Refusal.Detail)
		}
	}
	s.read("a\x00b", "").refused(t, "BAD_PARAM", "arguments")
	s.read("a/b", `,"max_bytes":0`).refused(t, "BAD_PARAM", "max_bytes")
	s.read("a/b", `,"max_bytes":1048577`).refused(t, "BAD_PARAM", "max_bytes")
	s.read("a/b", `,"offset":-1`).refused(t, "BAD_PARAM", "offset")
	s.read("a/b", `,"offset":6`).refused(t, "BAD_PARAM", "offset")
	if f := s.mustRead("a/b", `,"offset":5`); f.Content != "" || f.Truncated {
		t.Errorf("at the end: %+v", f)
	}
}

// Whether something is there outside, and whether it may be read, makes no difference to a single byte.
func TestARefusalTellsNothingOfTheOutside(t *testing.T) {
	t.Parallel()
	outside, dir := stage.Dir(t), stage.Dir(t)
	stage.File(t, outside, "there.txt", []byte("secret"))
	stage.File(t, outside, "closed.txt", []byte("secret"))
	name := filepath.Base(outside)
	must(t, os.Chmod(outside+"/closed.txt", 0o600),
		os.Symlink("../"+name+"/there.txt", dir+"/link1"), os.Symlink("../"+name+"/missing.txt", dir+"/link2"),
		os.Symlink(outside, dir+"/folder"))
	s := open(t, "MCP_SAFE_DATA_DIR="+dir)
	first := ""
	for i, path := range []string{
		"../" + name + "/there.txt", "../" + name + "/closed.txt", "../" + name + "/missing.txt", outside + "/there.txt",
		outside + "/missing.txt", "link1", "link2", "folder/there.txt", "folder/missing.txt", "folder", "../" + name,
	} {
		quoted, err := json.Marshal(path)
		must(t, err)
		a, err := s.Call("tools/call", callParams("sandbox_fs_read", `{"relative_path":`+string(quoted)+`}`))
		must(t, err)
		if i == 0 {
			first = string(a.Result)
			outcomeOf(t, a).refused(t, "OUTSIDE_SANDBOX", "relative_path")
		}
		if string(a.Result) != first {
			t.Errorf("%s: %s\nbut %s", path, a.Result, first)
		}
	}
}

// The root is resolved once and held: a link as its path is fine, and swapping the link later changes nothing.
func TestTheRootMayBeALink(t *testing.T) {
	t.Parallel()
	top := stage.Dir(t)
	stage.File(t, top, "v1/a.txt", []byte("one"))
	stage.File(t, top, "v2/a.txt", []byte("two"))
	must(t, os.Symlink("v1", top+"/data"), os.Symlink(top+"/data/a.txt", top+"/v1/spelt"), os.Symlink(top+"/v1/a.txt", top+"/v1/true"))
	s := open(t, "MCP_SAFE_DATA_DIR="+top+"/data")
	for _, path := range []string{"a.txt", "spelt", "true", top + "/data/a.txt", top + "/v1/a.txt"} {
		if f := s.mustRead(path, ""); f.Content != "one" || f.Path != "a.txt" {
			t.Errorf("%s: %+v", path, f)
		}
	}
	must(t, os.Remove(top+"/data"), os.Symlink("v2", top+"/data"))
	if f := s.mustRead("a.txt", ""); f.Content != "one" {
		t.Errorf("the root moved: %+v", f)
	}
}

func TestTheRootMayHaveSpacesAndAccentsInItsPath(t *testing.T) {
	t.Parallel()
	top := stage.Dir(t)
	stage.File(t, top, "my d\u00e9j\u00e0 vu/a b.txt", []byte("one"))
	s := open(t, "MCP_SAFE_DATA_DIR="+top+"/my d\u00e9j\u00e0 vu")
	if f := s.mustRead("a b.txt", ""); f.Content != "one" || f.Path != "a b.txt" {
		t.Errorf("%+v", f)
	}
}

func TestOnlyRegularFilesAreOpened(t *testing.T) {
	t.Parallel()
	dir := stage.Dir(t)
	must(t, unix.Mkfifo(dir+"/fifo", 0o666), os.Chmod(dir+"/fifo", 0o666))
	socket, err := net.Listen("unix", dir+"/socket")
	must(t, err)
	defer func() { _ = socket.Close() }()
	must(t, os.Chmod(dir+"/socket", 0o777))
	paths := []string{"fifo", "socket"}
	if err := unix.Mknod(dir+"/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err == nil {
		must(t, os.Chmod(dir+"/null", 0o666))
		paths = append(paths, "null")
	} else {
		t.Logf("no device node is tried, making one needs CAP_MKNOD: %v", err)
	}
	// Whoever opens a FIFO for writing is let in by a reader, however short it looks.
	letIn := make(chan error, 1)
	go func() {
		f, err := os.OpenFile(dir+"/fifo", os.O_WRONLY, 0)
		letIn <- err
		_ = f.Close()
	}()
	time.Sleep(settled)
	s := open(t, "MCP_SAFE_DATA_DIR="+dir)
	for _, path := range paths {
		s.read(path, "").refused(t, "SPECIAL_FILE", "relative_path")
	}
	select {
	case err := <-letIn:
		t.Fatalf("the FIFO was opened: %v", err)
	default:
	}
	ours, err := unix.Open(dir+"/fifo", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) // the control
	must(t, err)
	defer func() { _ = unix.Close(ours) }()
	must(t, <-letIn)
}

func TestAFileComesBackWholeFromItsParts(t *testing.T) {
	t.Parallel()
	dir := stage.Dir(t)
	text := strings.Repeat("a\u00e9\u3042\U0001F600\r\n", 50)
	utf16le := make([]byte, 0, 1000)
	for _, unit := range utf16.Encode([]rune(text)) {
		utf16le = binary.LittleEndian.AppendUint16(utf16le, unit)
	}
	stage.File(t, dir, "utf-8", []byte(text))
	stage.File(t, dir, "utf-16-le", utf16le)
	stage.File(t, dir, "latin-1", []byte("caf\xe9"))
	s := open(t, "MCP_SAFE_DATA_DIR="+dir)
	for encoding, size := range map[string]int{"utf-8": len(text), "utf-16-le": len(utf16le)} {
		for _, part := range []int{4, 5, 7, 64, 1000} {
			var all strings.Builder
			offset, steps := int64(0), 0
			for {
				f := s.mustRead(encoding, fmt.Sprintf(`,"encoding":%q,"max_bytes":%d,"offset":%d`, encoding, part, offset))
				all.WriteString(f.Content)
				if steps++; f.Size != int64(size) || f.Truncated != (f.Next != nil) || f.Read > part || steps > size {
					t.Fatalf("%s by %d at %d: %+v", encoding, part, offset, f)
				}
				if f.Next == nil {
					break
				}
				if *f.Next != offset+int64(f.Read) {
					t.Fatalf("%s by %d at %d: %+v", encoding, part, offset, f)
				}
				offset = *f.Next
			}
			if all.String() != text {
				t.Errorf("%s by %d: %q", encoding, part, all.String())
			}
		}
	}
	s.read("utf-8", `,"offset":2`).refused(t, "BAD_PARAM", "offset") // inside a character
	if f := s.mustRead("latin-1", `,"encoding":"latin-1"`); f.Content != "caf\u00e9" {
		t.Errorf("%+v", f)
	}
}

// A character that does not fit is left for the next read, never cut (modelcontextprotocol/servers#4666, #4186).
func TestNoCharacterIsCut(t *testing.T) {
	t.Parallel()
	dir := stage.Dir(t)
	stage.File(t, dir, "long", []byte(strings.Repeat("x", 1023)+"\u3042"))
	stage.File(t, dir, "emoji", []byte("\U0001F600"))
	s := open(t, "MCP_SAFE_DATA_DIR="+dir)
	f := s.mustRead("long", `,"max_bytes":1024`)
	if f.Content != strings.Repeat("x", 1023) || !f.Truncated || f.Read != 1023 || f.Next == nil || *f.Next != 1023 {
		t.Errorf("%+v", f)
	}
	if f := s.mustRead("emoji", `,"max_bytes":3`); f.Content != "" || !f.Truncated || f.Read != 0 || f.Next != nil {
		t.Errorf("%+v", f)
	}
	if f := s.mustRead("emoji", `,"max_bytes":4`); f.Content != "\U0001F600" || f.Truncated || f.Next != nil {
		t.Errorf("%+v", f)
	}
}

func TestBytesThatAreNoTextAreRefused(t *testing.T) {
	t.Parallel()
	dir := stage.Dir(t)
	stage.File(t, dir, "bin", []byte{0, 0xff, 0xfe, 0x80})
	stage.File(t, dir, "odd", []byte{'a', 0, 'b'})
	stage.File(t, dir, "bom", append([]byte{0xff, 0xfe}, 'a', 0))
	stage.File(t, dir, "utf8", []byte("\u00e9"))
	s := open(t, "MCP_SAFE_DATA_DIR="+dir)
	s.read("bin", "").refused(t, "BAD_ENCODING", "encoding", "relative_path")
	s.read("odd", `,"encoding":"utf-16-le"`).refused(t, "BAD_ENCODING", "encoding", "relative_path")
	for _, no := range []string{"base64", "rot13", "hex", "zlib", "bz2", "no-such", "../../etc/passwd", "", "utf-8\\u0009x"} {
		s.read("utf8", `,"encoding":"`+no+`"`).refused(t, "BAD_ENCODING", "encoding")
	}
	s.read("utf8", `,"encoding":"a\u0000b"`).refused(t, "BAD_PARAM", "arguments")
	for _, yes := range []string{"utf-8", "UTF8", " utf-8", "Utf_8", "utf-8-sig"} {
		if f := s.mustRead("utf8", `,"encoding":"`+yes+`"`); f.Content != "\u00e9" {
			t.Errorf("%s: %+v", yes, f)
		}
	}
	if f := s.mustRead("bom", `,"encoding":"utf-16"`); f.Content != "a" {
		t.Errorf("%+v", f)
	}
	if f := s.mustRead("utf8", `,"encoding":"latin-1"`); f.Content != "\u00c3\u00a9" {
		t.Errorf("%+v", f)
	}
}

// Ten gigabytes cost as much as what is read of them (modelcontextprotocol/servers#1027).
func TestAHugeFileCostsOnlyWhatIsReadOfIt(t *testing.T) {
	t.Parallel()
	const size = 10 << 30
	dir := stage.Dir(t)
	path := stage.File(t, dir, "big", []byte("begin"))
	must(t, os.Truncate(path, size))
	schema := validator(t, "sandbox_fs_read")
	s := open(t, "MCP_SAFE_DATA_DIR="+dir)
	for range 3 {
		s.mustRead("big", `,"max_bytes":65536`) // what a read takes once
	}
	before := s.figures()
	for i, arguments := range []string{`,"max_bytes":65536`, `,"max_bytes":65536,"offset":5368709120`, `,"max_bytes":100,"offset":10737418140`} {
		o := s.read("big", arguments)
		fits(t, schema, o)
		f := into[file](t, o)
		if f.Size != size || f.Truncated != (i != 2) || strings.HasPrefix(f.Content, "begin") != (i == 0) {
			t.Errorf("%s: %d bytes, truncated %v, size %d", arguments, f.Read, f.Truncated, f.Size)
		}
	}
	// The answer to 64 KiB of NUL takes 0.9 MB, and the collector may let a few of those lie.
	if grown := s.figures().PeakRSSBytes - before.PeakRSSBytes; grown > 8<<20 {
		t.Errorf("%d KiB more at the peak", grown>>10)
	}
}

// The commonest volume in Kubernetes: key -> ..data/key, ..data -> a folder that is swapped by rename. Each read gives
// one whole version.
func TestAConfigMapIsReadWholeWhileItIsSwapped(t *testing.T) {
	t.Parallel()
	dir := stage.Dir(t)
	version := func(i int) string { return strings.Repeat(fmt.Sprintf("version %09d\n", i), 500) }
	stage.File(t, dir, "..v0/key", []byte(version(0)))
	must(t, os.Symlink("..v0", dir+"/..data"), os.Symlink("..data/key", dir+"/key"))
	s := open(t, "MCP_SAFE_DATA_DIR="+dir)
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			stage.File(t, dir, fmt.Sprintf("..v%d/key", i), []byte(version(i)))
			err := errors.Join(os.Symlink(fmt.Sprintf("..v%d", i), dir+"/..tmp"), os.Rename(dir+"/..tmp", dir+"/..data"),
				os.RemoveAll(fmt.Sprintf("%s/..v%d", dir, i-1)))
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	defer swapping.Wait()
	defer close(stop)
	seen := map[string]bool{}
	for range 200 {
		f := s.mustRead("key", `,"max_bytes":100000`)
		first, _, _ := strings.Cut(f.Content, "\n")
		seen[first] = true
		if len(f.Content) != len(version(0)) || strings.Count(f.Content, first+"\n") != 500 {
			t.Fatalf("a mixture: %.100q", f.Content)
		}
	}
	if len(seen) < 10 { // the control: it was swapped under our reads
		t.Errorf("only %d versions were seen", len(seen))
	}
}

// What a refusal says does not depend on what was asked, as long as the reason is the same.
func TestRefusalsDoNotRepeatThemselvesInOtherWords(t *testing.T) {
	t.Parallel()
	s := open(t, "MCP_SAFE_DATA_DIR="+stage.Dir(t))
	var texts [][]byte
	for _, path := range []string{"missing-EVIL", "missing/\U0001F608/\"quoted\"", strings.Repeat("x", 4000)} {
		quoted, err := json.Marshal(path)
		must(t, err)
		a, err := s.Call("tools/call", callParams("sandbox_fs_read", `{"relative_path":`+string(quoted)+`}`))
		must(t, err)
		texts = append(texts, a.Result)
	}
	if !bytes.Equal(texts[0], texts[1]) || !bytes.Equal(texts[0], texts[2]) {
		t.Errorf("%s", bytes.Join(texts, []byte("\n")))
	}
}

// A deep path takes a descriptor for each folder while it is resolved. Many at once must not use up what the process may
// have (fs-021).
func TestDeepPathsAreResolvedManyAtOnce(t *testing.T) {
	t.Parallel()
	const depth, calls = 200, 16
	dir := stage.Dir(t)
	deep := strings.Repeat("d/", depth)
	stage.File(t, dir, deep+"a.txt", []byte("deep"))
	s := start(t, "MCP_SAFE_DATA_DIR="+dir)
	s.handshake(newest)
	var group sync.WaitGroup
	for i := range 4 * calls {
		path, want := "d/../"+deep+"a.txt", `deep`
		if i%2 == 1 {
			path, want = deep+"missing", "NOT_FOUND"
		}
		group.Go(func() {
			a, err := s.Call("tools/call", callParams("sandbox_fs_read", `{"relative_path":"`+path+`"}`))
			if err != nil || !strings.Contains(string(a.Result), want) {
				t.Errorf("%v: %.300s", err, a.Result)
			}
		})
	}
	group.Wait()
}

// A directory that cannot be entered looks like any other until somebody asks for a file in it. The log says so before.
func TestADirectoryThatCannotBeEnteredIsWarnedOf(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: to keep another user out")
	}
	dir := stage.Dir(t)
	const warning = "this user may not enter the directory"
	for mode, want := range map[os.FileMode]bool{0o755: false, 0o700: true} {
		must(t, os.Chmod(dir, mode))
		_, _, stderr := run(t, []string{"MCP_SAFE_DATA_DIR=" + dir})
		if strings.Contains(stderr, warning) != want {
			t.Errorf("%o: %s", mode, stderr)
		}
	}
}
