package framing_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-server-suite/pkg/framing"
)

// chunks is a stream that gives at most size() bytes at once and then err, alone or with the last bytes. It notes how
// much room it was offered.
type chunks struct {
	text     []byte
	size     func() int
	err      error
	together bool
	reads    int
	room     int // in the last read
	most     int // in any read
}

func (c *chunks) Read(p []byte) (int, error) {
	c.reads++
	c.room, c.most = len(p), max(c.most, len(p))
	n := copy(p[:min(len(p), c.size())], c.text)
	c.text = c.text[n:]
	if len(c.text) == 0 && (n == 0 || c.together) {
		return n, c.err
	}
	return n, nil
}

func always(n int) func() int { return func() int { return n } }

// take reads everything: lines, the name of ErrTooLong for over-long ones, and the final error.
func take(r *framing.Reader) (got []string, final error) {
	for {
		line, err := r.Next()
		switch {
		case err == nil:
			got = append(got, string(line))
		case errors.Is(err, framing.ErrTooLong):
			if line != nil {
				got = append(got, "a line came with ErrTooLong")
			}
			got = append(got, tooLong)
		default:
			return got, err
		}
	}
}

const tooLong = "(too long)"

// brief makes lines of megabytes readable.
func brief(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		if out[i] = fmt.Sprintf("%q", line); len(line) > 60 {
			out[i] = fmt.Sprintf("%.10q...(%d)", line, len(line))
		}
	}
	return out
}

const limit = framing.MaxFrameBytes

var (
	full  = strings.Repeat("f", limit)
	over  = full + "o"
	half  = strings.Repeat("h", limit/2)
	large = strings.Repeat("l", 100_000) // more than a chunk
)

var inputs = []struct {
	name, text string
	want       []string
	why        string
}{
	{"nothing", "", nil, "EOF at once"},
	{"one line", "a\n", []string{"a"}, "without its newline"},
	{"two lines", "a\nb\n", []string{"a", "b"}, "in order"},
	{"CRLF", "a\r\nb\r\n", []string{"a", "b"}, "seed: an optional CR is tolerated"},
	{"CR CR LF", "a\r\r\n", []string{"a\r"}, "one CR belongs to the terminator, the other is white space of JSON"},
	{"bare CR", "a\rb\n", []string{"a\rb"}, "no line end"},
	{"white space around", "  a \t\n", []string{"  a \t"}, "stays: it is the line's"},
	{"NUL", "a\x00b\n\x00\n", []string{"a\x00b", "\x00"}, "a byte like any other"},
	{"no UTF-8", "\xff\xfe\n", []string{"\xff\xfe"}, "a byte like any other"},
	{"U+2028", "a\u2028b\u0085c\n", []string{"a\u2028b\u0085c"}, "only LF ends a line"},
	{"form feed", "\f\n", []string{"\f"}, "not blank: no white space of JSON"},

	{"blank lines", "\n\n\na\n\n\nb\n\n", []string{"a", "b"}, "seed: blank lines are ignored"},
	{"blank CRLF lines", "\r\n\r\na\r\n\r\n", []string{"a"}, "blank as well"},
	{"lines of white space", " \n\t\n  \t \r\r\na\n \r\n", []string{"a"}, "blank as well"},
	{"only blank lines", "\n\r\n \n", nil, "EOF"},
	{"50,000 blank lines", strings.Repeat("\n", 50_000) + "a\n", []string{"a"}, "no recursion"},

	{"tail", "a\nb", []string{"a", "b"}, "a last line without a newline counts"},
	{"tail alone", "a", []string{"a"}, "a last line without a newline counts"},
	{"tail with CR", "a\nb\r", []string{"a", "b"}, "as if its LF had come"},
	{"blank tail", "a\n \t", []string{"a"}, "blank"},
	{"tail of one CR", "a\n\r", []string{"a"}, "blank"},

	{"100,000 bytes", large + "\na\n", []string{large, "a"}, "the buffer has grown and goes back"},
	{"100,000 bytes twice", large + "\n" + large + "\n", []string{large, large}, "grows again"},
	{"half, half", half + "\n" + half + "\n", []string{half, half}, "a rest is moved"},
	{"exactly 1 MiB", full + "\na\n", []string{full, "a"}, "allowed"},
	{"1 MiB and CRLF", full + "\r\na\n", []string{full, "a"}, "the CR belongs to the terminator"},
	{"1 MiB and CR CR LF", full + "\r\r\na\n", []string{tooLong, "a"}, "only one CR belongs to the terminator"},
	{"1 MiB + 1", over + "\na\n", []string{tooLong, "a"}, "one byte more"},
	{"1 MiB + 1 and CRLF", over + "\r\na\n", []string{tooLong, "a"}, "one byte more"},
	{"1 MiB + 2", over + "o\na\n", []string{tooLong, "a"}, "is known before the newline comes"},
	{"two of 1 MiB", full + "\n" + full + "\n", []string{full, full}, "each allowed"},
	{"1 MiB of white space", strings.Repeat(" ", limit) + "\na\n", []string{"a"}, "blank"},
	{"1 MiB + 1 of white space", strings.Repeat(" ", limit+1) + "\na\n", []string{tooLong, "a"}, "too long before it is blank"},
	{"3 MiB", full + full + full + "\na\n", []string{tooLong, "a"}, "reported once"},
	{"two over-long", over + over + "\n" + over + "\n\n" + "a\n", []string{tooLong, tooLong, "a"}, "each reported once"},
	{"over-long between", "a\n" + over + "\nb\n", []string{"a", tooLong, "b"}, "in order"},
	{"tail of 1 MiB", full, []string{full}, "allowed"},
	{"tail of 1 MiB and CR", full + "\r", []string{full}, "allowed"},
	{"tail of 1 MiB + 1", over, []string{tooLong}, "reported once"},
	{"tail of 1 MiB + 2", over + "o", []string{tooLong}, "reported once"},
	{"tail of 3 MiB", "a\n" + full + full + full, []string{"a", tooLong}, "reported once, then EOF"},
	{"over-long, then a tail", over + over + "\na", []string{tooLong, "a"}, "the tail is another line"},
}

func TestReaderCutsLinesHoweverTheyCome(t *testing.T) {
	for _, c := range inputs {
		for _, size := range []int{1, 7, 4096, 65536, 1 << 30} {
			for _, together := range []bool{false, true} {
				if size < 4096 && len(c.text) > 200_000 && (size == 1 || together || len(c.text) > limit+10) {
					continue // takes long, and the shorter ones have shown it
				}
				stream := &chunks{text: []byte(c.text), size: always(size), err: io.EOF, together: together}
				r := framing.NewReader(stream)
				got, err := take(r)
				if !slices.Equal(got, c.want) || err != io.EOF {
					t.Errorf("%s (%s) in chunks of %d, EOF with the last %t: got %s, %v, want %s",
						c.name, c.why, size, together, brief(got), err, brief(c.want))
				}
				if stream.most > limit+(64<<10) {
					t.Errorf("%s: the stream was offered %d bytes", c.name, stream.most)
				}
				if line, err := r.Next(); line != nil || err != io.EOF {
					t.Errorf("%s: after the end: %q, %v", c.name, line, err)
				}
			}
		}
	}
}

func TestReaderReportsAnErrorOfTheStreamAfterTheLinesBeforeIt(t *testing.T) {
	broken := errors.New("connection reset")
	for _, together := range []bool{false, true} {
		for _, c := range []struct {
			text string
			want []string
			why  string
		}{
			{"", nil, "nothing came"},
			{"a\nb\n", []string{"a", "b"}, "whole lines first"},
			{"a\nb", []string{"a", "b"}, "what came of the last line: it is JSON or it is refused"},
			{over + over, []string{tooLong}, "the rest of the over-long line never comes"},
		} {
			stream := &chunks{text: []byte(c.text), size: always(1 << 30), err: broken, together: together}
			r := framing.NewReader(stream)
			got, err := take(r)
			if !slices.Equal(got, c.want) || err != broken {
				t.Errorf("%.10q (%s): got %s, %v", c.text, c.why, brief(got), err)
			}
			reads := stream.reads
			if _, err := r.Next(); err != broken {
				t.Errorf("%.10q: the error is not final: %v", c.text, err)
			}
			if stream.reads != reads {
				t.Errorf("%.10q: the stream was read after its error", c.text)
			}
		}
	}
}

func TestReaderGivesALineAsSoonAsItIsThere(t *testing.T) {
	in, out := io.Pipe()
	defer func() { _ = in.Close() }() // wakes the writer below, if a check has failed
	go func() {
		// The second write begins when the first has been read whole.
		_, _ = out.Write([]byte("a\nb"))
		_, _ = out.Write([]byte("c\n" + large + "\n"))
		_, _ = out.Write([]byte("d\n"))
	}()
	r := framing.NewReader(in)
	for _, want := range []string{"a", "bc", large, "d"} {
		if line, err := r.Next(); string(line) != want || err != nil {
			t.Fatalf("got %.20q, %v, want %.20q", line, err, want)
		}
	}
}

func TestOverLongLineIsReportedBeforeItEnds(t *testing.T) {
	r := framing.NewReader(io.MultiReader(strings.NewReader(over+over), never{}))
	if _, err := r.Next(); !errors.Is(err, framing.ErrTooLong) {
		t.Errorf("got %v", err)
	}
	if r.Buffered() {
		t.Error("the dropped line is still in memory")
	}
}

// never is the stream of a client that sends nothing more.
type never struct{}

func (never) Read([]byte) (int, error) { panic("read on where the answer was known") }

func TestBufferedTellsWhetherMoreIsInMemory(t *testing.T) {
	stream := &chunks{text: []byte("a\nb\ncd"), size: always(5), err: io.EOF}
	r := framing.NewReader(stream)
	if r.Buffered() {
		t.Error("buffered before the first read")
	}
	for _, c := range []struct {
		line string
		want bool
	}{{"a", true}, {"b", true}, {"cd", false}} {
		line, err := r.Next()
		if string(line) != c.line || err != nil || r.Buffered() != c.want {
			t.Errorf("got %q, %v, buffered %t, want %q, %t", line, err, r.Buffered(), c.line, c.want)
		}
	}
}

func TestReaderGoesBackToOneChunkAfterALongLine(t *testing.T) {
	for _, long := range []string{large, half, full, full + full} {
		stream := &chunks{text: []byte(long + "\n" + "a\n"), size: always(len(long) + 1), err: io.EOF}
		if len(long) > limit {
			stream.size = always(1 << 30)
		}
		_, err := take(framing.NewReader(stream))
		if stream.room > 64<<10 || err != io.EOF {
			t.Errorf("after a line of %d bytes the stream is offered %d, %v", len(long), stream.room, err)
		}
	}
}

// long is a stream of one line of n bytes without memory for them, and then of rest.
type long struct {
	n    int
	rest string
}

func (l *long) Read(p []byte) (int, error) {
	if l.n == 0 {
		n := copy(p, l.rest)
		l.rest = l.rest[n:]
		if n == 0 {
			return 0, io.EOF
		}
		return n, nil
	}
	p = p[:min(len(p), l.n)]
	for i := range p {
		p[i] = 'x'
	}
	l.n -= len(p)
	return len(p), nil
}

func TestLineOf100MBCostsOneFrameOfMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := take(framing.NewReader(&long{100_000_000, "\nping\n"}))
	runtime.ReadMemStats(&after)
	if !slices.Equal(got, []string{tooLong, "ping"}) || err != io.EOF {
		t.Errorf("got %s, %v", brief(got), err)
	}
	// The buffer on its way from 64 KiB to one frame, each size once.
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 4<<20 {
		t.Errorf("%d bytes allocated", allocated)
	}
}

// A client that sends a long line in small pieces must not make us look at it again for each.
func TestLongLineInSmallPiecesTakesLinearTime(t *testing.T) {
	start := cpuTime(t)
	got, err := take(framing.NewReader(&chunks{text: []byte(full + "\n"), size: always(4), err: io.EOF}))
	if !slices.Equal(got, []string{full}) || err != io.EOF {
		t.Errorf("got %s, %v", brief(got), err)
	}
	// 5 ms when measured, 0.1 s under the race detector; to search it from its beginning each time takes seconds.
	if took := cpuTime(t) - start; took > 500*time.Millisecond {
		t.Errorf("took %v", took)
	}
}

// cpuTime is what this process has had of all cores: the clock on the wall also counts what the neighbours had.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestLinesInOneChunkAreNotCopied(t *testing.T) {
	text := strings.Repeat("0123456789\n", 100_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := framing.NewReader(strings.NewReader(text))
	n := 0
	for ; ; n++ {
		if _, err := r.Next(); err != nil {
			break
		}
	}
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; n != 100_000 || allocated > 256<<10 {
		t.Errorf("%d lines, %d bytes allocated", n, allocated)
	}
}

// reference cuts a whole text the plain way.
func reference(text []byte) (want []string) {
	lines := bytes.Split(text, []byte("\n"))
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	for _, line := range lines {
		line = bytes.TrimSuffix(line, []byte("\r"))
		switch {
		case len(line) > limit:
			want = append(want, tooLong)
		case len(bytes.Trim(line, " \t\r")) > 0:
			want = append(want, string(line))
		}
	}
	return want
}

// expand makes a text out of few bytes: an upper-case letter repeats the byte behind it so often that lines come out
// around the sizes that matter.
func expand(program []byte) []byte {
	var text []byte
	for i := 0; i < len(program) && len(text) < 4*limit; i++ {
		c := program[i]
		if c < 'A' || c > 'Z' || i+1 == len(program) {
			text = append(text, c)
			continue
		}
		i++
		sizes := []int{limit - 1, limit, limit + 1, limit + 2, 64<<10 - 1, 64 << 10, 128 << 10, limit + 64<<10, limit / 2, 100_000}
		text = append(text, bytes.Repeat(program[i:i+1], sizes[int(c-'A')%len(sizes)])...)
	}
	return text
}

func FuzzReader(f *testing.F) {
	for i, program := range []string{
		"a\nb\r\n\n \r\nc", "Aaa\nb", "Ba\r\nb", "Ba\r\r\nb\n", "Ca\nb\n", "Da\nb", "Ca", "Ba\r", "Ba", "BaBa\nBa\na", "Ea\nb", "Fa\nb",
		"Ga\na\nb", "Ha\na\nb", "Ia\nIb\nIc\n", "Ja\nJa\nJa", "a\nB \nB\n\n\nb", "HaHaHa\r\n\na\r\n", "B\r\nC\r\n",
	} {
		f.Add([]byte(program), uint64(i), i%2 == 0)
		f.Add([]byte(program), uint64(i+100), i%2 == 1)
	}
	f.Fuzz(func(t *testing.T, program []byte, seed uint64, together bool) {
		text := expand(program)
		random := rand.New(rand.NewPCG(seed, 0))
		most := []int{1, 16, 5000, 64 << 10, 1 << 21}[seed%5]
		if len(text) > 1<<16 {
			most = max(most, 5000) // a megabyte byte by byte tests patience
		}
		stream := &chunks{text: text, size: func() int { return 1 + random.IntN(most) }, err: io.EOF, together: together}
		got, err := take(framing.NewReader(stream))
		if want := reference(text); !slices.Equal(got, want) || err != io.EOF {
			t.Fatalf("%q in chunks of up to %d: got %s, %v, want %s", program, most, brief(got), err, brief(want))
		}
		if stream.most > limit+(64<<10) {
			t.Fatalf("the stream was offered %d bytes", stream.most)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	text := strings.Repeat(strings.Repeat("x", 100)+"\n", 10_000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		r := framing.NewReader(strings.NewReader(text))
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	}
}
