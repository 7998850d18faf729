package sandboxfs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/problem"
)

func TestOpenRefusesWhatIsNoDirectory(t *testing.T) {
	s := newStage(t)
	s.inside("a.txt")
	before := descriptors(t)
	for _, dir := range []string{"", "root", "./root", s.path("nothere"), s.path("root/a.txt"), s.base + "/ro\x00ot"} {
		if r, err := Open(Settings{Dir: dir}); err == nil || r != nil {
			t.Errorf("%q is opened", dir)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors stay open", after-before)
	}
}

func TestTheRootIsResolvedOnce(t *testing.T) {
	s := newStage(t)
	s.inside("a.txt")
	s.must(os.Symlink(s.path("root"), s.path("out/elsewhere")))
	for _, dir := range []string{"root", "alias", "root/", "out/../root", "out/elsewhere", "./alias/."} {
		r, err := Open(Settings{Dir: s.base + "/" + dir})
		s.must(err)
		text, err := read(r, "a.txt")
		if err != nil || text.ResolvedPath != "a.txt" {
			t.Errorf("%s: %v", dir, err)
		}
		s.must(r.Close())
	}
	r := s.open(false)
	s.must(os.Rename(s.path("root"), s.path("moved")))
	s.must(os.Symlink("out", s.path("root")))
	if _, err := read(r, "a.txt"); err != nil {
		t.Errorf("the directory that was opened is served, wherever it goes: %v", err)
	}
	if _, err := read(r, "secret"); reason(err) != problem.NotFound {
		t.Errorf("what took its name is not: %v", err)
	}
}

func TestARootNameWithDotDotIsNoSecondName(t *testing.T) {
	s := newStage(t)
	s.dir("far/away")
	s.inside("a.txt")
	s.must(os.Symlink("far/away", s.path("link")))
	s.must(os.Symlink(s.path("out"), s.path("far/root")))
	r, err := Open(Settings{Dir: s.path("link") + "/../root"}) // that is base/out, though it reads like base/root
	s.must(err)
	defer r.Close()
	if text, err := read(r, "secret"); err != nil || text.Content != secret {
		t.Errorf("what the operator serves: %v", err)
	}
	if _, err := read(r, "../root/a.txt"); reason(err) != problem.OutsideSandbox {
		t.Errorf("%q: %v", r.names, err)
	}
}

func TestTheWholeFileSystemCanBeTheRoot(t *testing.T) {
	s := newStage(t)
	s.inside("a.txt")
	s.links(map[string]string{"abs": "$BASE/root/a.txt", "up": "../../../../../../../.."})
	for _, walk := range mechanisms {
		r, err := Open(Settings{Dir: "/", ForceWalk: walk})
		s.must(err)
		for _, name := range []string{s.path("root/a.txt"), s.base[1:] + "/root/abs", s.path("root/up") + s.base + "/root/a.txt"} {
			text, err := read(r, name)
			if err != nil || "/"+text.ResolvedPath != s.path("root/a.txt") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := read(r, "/"); reason(err) != problem.SpecialFile {
			t.Error(err)
		}
		s.must(r.Close())
	}
}

func TestCloseWaitsForReadsAndEndsThem(t *testing.T) {
	s := newStage(t)
	s.inside("a.txt")
	r, err := Open(Settings{Dir: s.path("root")})
	s.must(err)
	reading, closed := make(chan struct{}), make(chan struct{})
	pread := r.kernel.pread
	r.kernel.pread = func(fd int, p []byte, at int64) (int, error) {
		close(reading)
		select {
		case <-closed:
			t.Error("closed in the middle of a read")
		case <-time.After(50 * time.Millisecond):
		}
		return pread(fd, p, at)
	}
	go func() {
		<-reading
		_ = r.Close()
		close(closed)
	}()
	if _, err := read(r, "a.txt"); err != nil {
		t.Error(err)
	}
	<-closed
	if _, err := read(r, "a.txt"); !errors.Is(err, os.ErrClosed) || reason(err) != "fault" {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	r.dir = 1 << 30
	if err := r.Close(); !errors.Is(err, unix.EBADF) {
		t.Error(err)
	}
}

func TestRequestsOutOfBoundsAreRefusedBeforeAnythingIsOpened(t *testing.T) {
	s := newStage(t)
	s.inside("a.txt")
	r := s.open(false)
	r.kernel = kernel{} // any system call would crash
	good := request("a.txt")
	tests := []struct {
		name   string
		change func(q *Request)
		want   problem.Reason
		params string
	}{
		{"no path", func(q *Request) { q.Path = "" }, problem.BadParam, "[relative_path]"},
		{"4097 characters", func(q *Request) { q.Path = strings.Repeat("\u3042", 4097) }, problem.BadParam, "[relative_path]"},
		{"NUL", func(q *Request) { q.Path = "a.txt\x00" }, problem.BadParam, "[relative_path]"},
		{"lone surrogate", func(q *Request) { q.Path = "a\xed\xa0\x80" }, problem.BadParam, "[relative_path]"},
		{"no encoding", func(q *Request) { q.Encoding = "" }, problem.BadEncoding, "[encoding]"},
		{"unknown encoding", func(q *Request) { q.Encoding = "utf-9" }, problem.BadEncoding, "[encoding]"},
		{"base64", func(q *Request) { q.Encoding = "base64" }, problem.BadEncoding, "[encoding]"},
		{"rot13", func(q *Request) { q.Encoding = "rot13" }, problem.BadEncoding, "[encoding]"},
		{"path before encoding", func(q *Request) { q.Path, q.Encoding = "", "" }, problem.BadParam, "[relative_path]"},
		{"0 bytes", func(q *Request) { q.MaxBytes = 0 }, problem.BadParam, "[max_bytes]"},
		{"too many bytes", func(q *Request) { q.MaxBytes = MaxReadBytes + 1 }, problem.BadParam, "[max_bytes]"},
		{"negative offset", func(q *Request) { q.Offset = -1 }, problem.BadParam, "[offset]"},
		{"too great an offset", func(q *Request) { q.Offset = MaxOffset + 1 }, problem.BadParam, "[offset]"},
		{"greatest integer", func(q *Request) { q.Offset = math.MaxInt64 }, problem.BadParam, "[offset]"},
		{"offset in shift_jis", func(q *Request) { q.Encoding, q.Offset = "sjis", 2 }, problem.BadParam, "[offset encoding]"},
		{"offset in utf-16 with a mark", func(q *Request) { q.Encoding, q.Offset = "utf-16", 2 }, problem.BadParam, "[offset encoding]"},
	}
	for _, test := range tests {
		q := good
		test.change(&q)
		_, err := r.Read(context.Background(), q)
		var p *problem.Problem
		if !errors.As(err, &p) || p.Reason != test.want || fmt.Sprint(p.Params) != test.params {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Read(ctx, good); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}

// MCP_ERROR_ECHO=bounded restores seed 000's wording; without it nothing of the caller's is repeated (fs-025).
func TestTheCallersTextIsRepeatedOnlyInEchoes(t *testing.T) {
	s := newStage(t)
	s.file("root/binary", "\x00\xff\xfe\x80")
	r := s.open(false)
	for asked, want := range map[string]string{
		"../../etc/passwd": `'../../etc/passwd' resolves outside the sandbox`,
		"x\n\x1b\u202e":    `there is no 'x\u000a\u001b\u202e' in the sandbox`,
		".":                `'.' is not a regular file`,
		"binary":           `'binary' is not valid utf-8 at byte 1`,
	} {
		_, err := read(r, asked)
		var p *problem.Problem
		if !errors.As(err, &p) || p.Text(true) != want {
			t.Errorf("%q: %v", asked, err)
			continue
		}
		if plain := p.Text(false); strings.Contains(plain, "'") || len(asked) > 1 && strings.Contains(plain, asked) || !utf8.ValidString(plain) || strings.ContainsRune(plain, 0) {
			t.Errorf("%q: without echo %q", asked, plain)
		}
	}
	q := request("binary")
	q.Encoding = "no\x1bsuch"
	_, err := r.Read(context.Background(), q)
	var p *problem.Problem
	if !errors.As(err, &p) || strings.Contains(p.Text(false), "such") || !strings.Contains(p.Text(true), `'no\u001bsuch'`) {
		t.Error(err)
	}
}

func TestWhatIsReadIsCountedAndContinued(t *testing.T) {
	const kana = "\u3042"
	ascii := strings.Repeat("x", 1023)
	tests := []struct {
		name     string
		content  string
		encoding string
		offset   int64
		max      int
		want     Text
		why      string
	}{
		{"whole", "abc", "utf-8", 0, 3, Text{Content: "abc", BytesRead: 3, NextOffset: -1}, "exactly max_bytes is not truncated"},
		{"cut", "abcd", "utf-8", 0, 3, Text{Content: "abc", BytesRead: 3, Truncated: true, NextOffset: 3}, "one byte more is"},
		{"cut in a character", ascii + kana, "utf-8", 0, 1024, Text{Content: ascii, BytesRead: 1023, Truncated: true, NextOffset: 1023}, "fs-008"},
		{"nothing fits", "\U0001f600", "utf-8", 0, 3, Text{Truncated: true, NextOffset: -1}, "fs-009"},
		{"nothing fits later", "a\U0001f600", "utf-8", 1, 3, Text{Truncated: true, NextOffset: -1}, "fs-009 at an offset"},
		{"empty", "", "utf-8", 0, 3, Text{NextOffset: -1}, "an empty file is a text"},
		{"at the end", "abc", "utf-8", 3, 3, Text{NextOffset: -1}, "the end is an offset of the file"},
		{"from the middle", "a" + kana + "b", "utf-8", 1, 3, Text{Content: kana, BytesRead: 3, Truncated: true, NextOffset: 4}, "paging"},
		{"mark dropped", "\ufeffa", "utf-8-sig", 0, 9, Text{Content: "a", BytesRead: 4, NextOffset: -1}, "the mark counts as read"},
		{"mark kept", "\ufeffa", "utf-8", 0, 9, Text{Content: "\ufeffa", BytesRead: 4, NextOffset: -1}, "as in Python"},
		{"mark cut", "\ufeffa", "utf-8-sig", 0, 2, Text{Truncated: true, NextOffset: -1}, "a mark is a character"},
		{"only the mark", "\ufeffa", "utf-8-sig", 0, 3, Text{BytesRead: 3, Truncated: true, NextOffset: 3}, "it can go on behind it"},
		{"second mark", "\ufeff\ufeff", "utf-8-sig", 3, 9, Text{Content: "\ufeff", BytesRead: 3, NextOffset: -1}, "only the first is one"},
		{"utf-16 cut", "\xff\xfea\x00b\x00", "utf-16", 0, 5, Text{Content: "a", BytesRead: 4, Truncated: true, NextOffset: -1}, "no offset is accepted, so none is given"},
		{"utf-16-le", "a\x00\x3d\xd8\x00\xde", "utf-16-le", 2, 4, Text{Content: "\U0001f600", BytesRead: 4, NextOffset: -1}, "a pair"},
		{"utf-16-le cut in a pair", "a\x00\x3d\xd8\x00\xde", "utf-16-le", 0, 5, Text{Content: "a", BytesRead: 2, Truncated: true, NextOffset: 2}, "a pair is one character"},
		{"utf-16-be between others", "\x00a\x00b", "utf-16-be", 2, 9, Text{Content: "b", BytesRead: 2, NextOffset: -1}, "no surrogate"},
		{"utf-32-be", "\x00\x00\x00a\x00\x01\xf6\x00", "utf-32-be", 4, 4, Text{Content: "\U0001f600", BytesRead: 4, NextOffset: -1}, "multiples of four"},
		{"latin-1", "\x80\xff", "latin-1", 1, 1, Text{Content: "\u00ff", BytesRead: 1, NextOffset: -1}, "not windows-1252"},
		{"latin-1 control", "\x80", "L1", 0, 1, Text{Content: "\u0080", BytesRead: 1, NextOffset: -1}, "not windows-1252"},
		{"windows-1252", "\x80", "windows-1252", 0, 1, Text{Content: "\u20ac", BytesRead: 1, NextOffset: -1}, "this one is"},
		{"shift_jis cut", "\x82\xa0\x82\xa0", "shift-jis", 0, 3, Text{Content: kana, BytesRead: 2, Truncated: true, NextOffset: -1}, "x/text says ErrShortSrc"},
		{"gb18030 U+FFFD", "\x84\x31\xa4\x37", "gb18030", 0, 4, Text{Content: "\ufffd", BytesRead: 4, NextOffset: -1}, "a character there"},
		{"genuine U+FFFD", "\xef\xbf\xbd", "utf-8", 0, 4, Text{Content: "\ufffd", BytesRead: 3, NextOffset: -1}, "and there"},
		{"NUL", "a\x00", "utf-8", 0, 4, Text{Content: "a\x00", BytesRead: 2, NextOffset: -1}, "a character like others"},
	}
	s := newStage(t)
	r := s.open(false)
	for _, test := range tests {
		s.file("root/f", test.content)
		got, err := r.Read(context.Background(), Request{Path: "f", Encoding: test.encoding, MaxBytes: test.max, Offset: test.offset})
		test.want.ResolvedPath, test.want.SizeBytes = "f", int64(len(test.content))
		if err != nil || got != test.want {
			t.Errorf("%s (%s): %.200v %v", test.name, test.why, got, err)
		}
	}
}

func TestOffsetsAndBytesThatAreNoTextAreRefused(t *testing.T) {
	tests := []struct {
		name     string
		content  string
		encoding string
		offset   int64
		max      int
		want     problem.Reason
		detail   string
	}{
		{"behind the end", "abc", "utf-8", 4, 9, problem.BadParam, "beyond the end of the file, which has 3 bytes"},
		{"far behind the end", "abc", "utf-8", MaxOffset, 9, problem.BadParam, "beyond the end"},
		{"behind the end of nothing", "", "utf-8", 1, 9, problem.BadParam, "beyond the end"},
		{"odd end of utf-16-le", "a\x00b", "utf-16-le", 4, 9, problem.BadParam, "beyond the end"},
		{"continuation byte", "\u3042", "utf-8", 1, 9, problem.BadParam, "inside a character"},
		{"in the mark", "\ufeffa", "utf-8-sig", 2, 9, problem.BadParam, "inside a character"},
		{"odd", "a\x00b\x00", "utf-16-le", 1, 9, problem.BadParam, "inside a character"},
		{"low surrogate", "\x3d\xd8\x00\xde", "utf-16-le", 2, 9, problem.BadParam, "inside a character"},
		{"low surrogate, big endian", "\xd8\x3d\xde\x00", "utf-16-be", 2, 9, problem.BadParam, "inside a character"},
		{"two of four", "a\x00\x00\x00", "utf-32-le", 2, 9, problem.BadParam, "inside a character"},
		{"binary", "\x00\xff\xfe\x80", "utf-8", 0, 9, problem.BadEncoding, "not valid utf-8 at byte 1"},
		{"binary later", "abc\xff", "utf-8", 2, 9, problem.BadEncoding, "not valid utf-8 at byte 3"},
		{"incomplete at the end", "a\xe3\x81", "utf-8", 0, 3, problem.BadEncoding, "not valid utf-8 at byte 1"},
		{"not ASCII", "caf\u00e9", "US-ASCII", 0, 9, problem.BadEncoding, "not valid ascii at byte 3"},
		{"odd end", "a\x00b", "utf-16-le", 0, 9, problem.BadEncoding, "not valid utf-16-le at byte 2"},
		{"lone surrogate", "\x00\xdea\x00", "utf-16-le", 0, 9, problem.BadEncoding, "at byte 0"},
		{"lone surrogate at an offset", "a\x00\x00\xde", "utf-16-le", 2, 9, problem.BadEncoding, "at byte 2"},
		{"not in windows-1252", "a\x81", "cp1252", 0, 9, problem.BadEncoding, "not valid cp1252 at byte 1"},
		{"not in shift_jis", "\x82\xa0\x87\x40", "shift_jis", 0, 9, problem.BadEncoding, "not valid shift_jis at byte 2"},
	}
	s := newStage(t)
	r := s.open(false)
	for _, test := range tests {
		s.file("root/f", test.content)
		_, err := r.Read(context.Background(), Request{Path: "f", Encoding: test.encoding, MaxBytes: test.max, Offset: test.offset})
		if reason(err) != test.want || !strings.Contains(err.Error(), test.detail) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	s.file("root/f", "a\x00b\x00")
	pread := r.kernel.pread
	r.kernel.pread = func(fd int, p []byte, at int64) (int, error) {
		if at == 0 {
			return 0, unix.EIO
		}
		return pread(fd, p, at)
	}
	if _, err := r.Read(context.Background(), Request{Path: "f", Encoding: "utf-16-le", MaxBytes: 9, Offset: 2}); reason(err) != "fault" {
		t.Errorf("the byte before cannot be read: %v", err)
	}
}

// fs-010. The test looks at what Go allocates, not at the process: the rest of it would only blur the number.
func TestTenGigabytesTakeNoMoreMemoryThanWhatIsRead(t *testing.T) {
	s := newStage(t)
	f, err := os.Create(s.path("root/big"))
	s.must(err)
	s.must(f.Truncate(10 << 30))
	s.must(f.Close())
	r := s.open(false)
	pread, asked := r.kernel.pread, 0
	r.kernel.pread = func(fd int, p []byte, at int64) (int, error) { asked += len(p); return pread(fd, p, at) }
	for _, offset := range []int64{0, 5 << 30, 10<<30 - 65536 - 1} {
		asked = 0
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		text, err := r.Read(context.Background(), Request{Path: "big", Encoding: "utf-8", MaxBytes: 65536, Offset: offset})
		runtime.ReadMemStats(&after)
		if err != nil || text.BytesRead != 65536 || !text.Truncated || text.NextOffset != offset+65536 || text.SizeBytes != 10<<30 {
			t.Errorf("%d bytes, truncated %v, next %d, %v", text.BytesRead, text.Truncated, text.NextOffset, err)
		}
		if asked > 65537+1 { // one more for the check of the offset
			t.Errorf("%d bytes are asked for", asked)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 512<<10 {
			t.Errorf("%d bytes allocated", used)
		}
	}
}

func TestAFileThatHidesOrChangesItsSizeIsReadToTheBound(t *testing.T) {
	s := newStage(t)
	content := strings.Repeat("0123456789abcdef", 20000) // 320,000 bytes
	s.file("root/f", content)
	for _, says := range []int64{0, 1, 65536, 65537, 319999, 320000, 320001, 10 << 30} {
		r := s.open(false)
		stat := r.kernel.stat
		r.kernel.stat = func(fd int) (meta, error) {
			m, err := stat(fd)
			m.size = says
			return m, err
		}
		for _, limit := range []int{1, 100, 4096, 65536, 131072, 319999, 320000, 320001, MaxReadBytes} {
			for _, offset := range []int64{0, 7, 319999, 320000} {
				q := request("f")
				q.MaxBytes, q.Offset = limit, offset
				want := content[offset:min(len(content), int(offset)+limit)]
				text, err := r.Read(context.Background(), q)
				if says < offset && want == "" {
					if reason(err) != problem.BadParam {
						t.Errorf("says %d, max %d, offset %d: %v", says, limit, offset, err)
					}
					continue
				}
				if err != nil || text.Content != want || text.Truncated != (int(offset)+limit < len(content)) || text.SizeBytes != says {
					t.Errorf("says %d, max %d, offset %d: %d bytes, truncated %v, %v", says, limit, offset, text.BytesRead, text.Truncated, err)
				}
			}
		}
	}
}

func TestShortReadsAreContinued(t *testing.T) {
	s := newStage(t)
	content := strings.Repeat("abc", 1000)
	s.file("root/f", content)
	r := s.open(false)
	pread := r.kernel.pread
	r.kernel.pread = func(fd int, p []byte, at int64) (int, error) { return pread(fd, p[:min(len(p), 7)], at) }
	text, err := read(r, "f")
	if err != nil || text.Content != content || text.Truncated {
		t.Errorf("%d bytes, %v", text.BytesRead, err)
	}
}

func TestTheContextEndsAReadBetweenChunks(t *testing.T) {
	s := newStage(t)
	s.file("root/f", strings.Repeat("x", MaxReadBytes))
	r := s.open(false)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	calls := 0
	pread := r.kernel.pread
	r.kernel.pread = func(fd int, p []byte, at int64) (int, error) {
		if calls++; calls == 2 {
			cancel()
		}
		return pread(fd, p, at)
	}
	before := descriptors(t)
	if _, err := r.Read(ctx, request("f")); err != context.Canceled || calls != 2 {
		t.Errorf("%v after %d chunks", err, calls)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors stay open", after-before)
	}
}

func TestNothingIsWaitedFor(t *testing.T) {
	s := newStage(t)
	s.must(unix.Mkfifo(s.path("root/fifo"), 0o666))
	s.socket("socket")
	s.privileged()
	for _, r := range s.openBoth() {
		for _, name := range []string{"fifo", "socket", "null", "block"} {
			soon(t, func() {
				if _, err := read(r, name); reason(err) != problem.SpecialFile && reason(err) != problem.NotFound {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	}
	if !s.devices {
		t.Log("without device nodes: no CAP_MKNOD")
	}
}

// A FIFO's writer waits until somebody opens the FIFO for reading. We do not.
func TestAFIFOIsNotEvenOpened(t *testing.T) {
	s := newStage(t)
	s.must(unix.Mkfifo(s.path("root/fifo"), 0o666))
	for _, r := range s.openBoth() {
		if _, err := read(r, "fifo"); reason(err) != problem.SpecialFile {
			t.Error(err)
		}
		r.kernel.openat = func(_ int, name string, flags int) (int, error) {
			if flags&unix.O_PATH == 0 {
				t.Errorf("%s is opened", name)
			}
			return -1, unix.ENOENT
		}
		if _, err := read(r, "fifo"); err == nil {
			t.Error("it is read")
		}
	}
}

// Nothing that is open while a tool runs may be inherited by a process that somebody starts meanwhile.
func TestEveryDescriptorClosesOnExec(t *testing.T) {
	s := newStage(t)
	s.dir("root/d")
	s.inside("d/f")
	s.links(map[string]string{"link": "d/f"})
	for mechanism, r := range s.openBoth() {
		checked := 0
		check := func(fd int) {
			checked++
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("%s: flags %#x %v", mechanism, flags, err)
			}
		}
		statat, stat := r.kernel.statat, r.kernel.stat
		r.kernel.statat = func(dir int, name string) (meta, error) { check(dir); return statat(dir, name) }
		r.kernel.stat = func(fd int) (meta, error) { check(fd); return stat(fd) }
		for _, name := range []string{"d/f", "link"} {
			if _, err := read(r, name); err != nil {
				t.Error(err)
			}
		}
		if checked < 6 {
			t.Errorf("%s: only %d descriptors were seen", mechanism, checked)
		}
	}
}

func TestManyReadersShareARoot(t *testing.T) {
	s := newStage(t)
	s.dir("root/d")
	s.inside("a.txt", "d/b.txt")
	s.links(map[string]string{"link": "d/b.txt"})
	before := descriptors(t)
	for _, r := range s.openBoth() {
		var readers sync.WaitGroup
		for range 8 {
			readers.Go(func() {
				for range 50 {
					for asked, want := range map[string]string{"a.txt": "a.txt", "link": "d/b.txt", "d/../d/b.txt": "d/b.txt"} {
						text, err := read(r, asked)
						if err != nil || text.ResolvedPath != want || text.Content != "inside "+want {
							t.Errorf("%s: %+v %v", asked, text, err)
						}
					}
				}
			})
		}
		readers.Wait()
	}
	if after := descriptors(t); after != before+len(mechanisms) {
		t.Errorf("%d descriptors stay open", after-before-len(mechanisms))
	}
}

// The resolution holds one descriptor a level of the tree, whatever the path is.
func TestDescriptorsAreBoundedByTheTreeNotByThePath(t *testing.T) {
	s := newStage(t)
	s.dir("root/d/e")
	s.inside("d/e/f")
	s.links(map[string]string{"here": "."})
	r := s.open(false)
	most := 0
	stat := r.kernel.stat
	r.kernel.stat = func(fd int) (meta, error) { most = max(most, fd); return stat(fd) }
	null, err := os.Open(os.DevNull)
	s.must(err)
	lowest := int(null.Fd()) // the next ones come from here
	s.must(null.Close())
	for _, asked := range []string{strings.Repeat("d/e/../../", 300) + "d/e/f", strings.Repeat("here/", 39) + "d/e/f", strings.Repeat("d/../", 400) + "nothere"} {
		_, _ = read(r, asked) // the outcome is not the point
	}
	if most > lowest+8 {
		t.Errorf("descriptor %d is reached from %d", most, lowest)
	}
}

func TestProcFilesAreReadThoughTheySayZeroBytes(t *testing.T) {
	r, err := Open(Settings{Dir: "/proc"})
	if err != nil {
		t.Skip("no procfs: " + err.Error())
	}
	defer r.Close()
	text, err := read(r, "self/status")
	if err != nil || !strings.Contains(text.Content, "Name:") || text.Truncated || text.SizeBytes != 0 {
		t.Errorf("%+v %v", text, err)
	}
	if filepath.Base(filepath.Dir(text.ResolvedPath)) != fmt.Sprint(os.Getpid()) {
		t.Errorf("self is %s", text.ResolvedPath)
	}
	q := request("self/status")
	q.MaxBytes = 5
	if text, err = r.Read(context.Background(), q); err != nil || text.Content != "Name:" || !text.Truncated || text.NextOffset != 5 {
		t.Errorf("%+v %v", text, err)
	}
	q.Offset = 5
	if text, err = r.Read(context.Background(), q); err != nil || text.BytesRead != 5 {
		t.Errorf("%+v %v", text, err)
	}
	if _, err := read(r, "self/root/etc/passwd"); reason(err) != problem.OutsideSandbox {
		t.Errorf("the kernel's magic is followed: %v", err)
	}
}
