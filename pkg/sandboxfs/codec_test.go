package sandboxfs

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// golden reads one of oracle.py's files: fields separated by tabs.
func golden(t testing.TB, name string) [][]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		rows = append(rows, strings.Split(lines.Text(), "\t"))
	}
	return rows
}

// leftOut are Python's text codecs that we do not know; doc.go says why.
var leftOut = []string{
	"big5hkscs", "euc_jis_2004", "euc_jisx0213", "idna", "iso2022_jp_2", "iso2022_jp_2004", "iso2022_jp_3", "iso2022_kr",
	"johab", "punycode", "raw-unicode-escape", "shift_jis_2004", "shift_jisx0213", "undefined", "unicode-escape", "utf-7",
}

func TestEncodingNamesAreThoseOfPython(t *testing.T) {
	known, missing := map[string]bool{}, map[string]bool{}
	for _, row := range golden(t, "names.txt") {
		spelling, want := row[0], row[1]
		got := "-"
		if c := lookup(spelling); c != nil {
			got = c.name
			known[got] = true
		}
		if got == "-" && slices.Contains(leftOut, want) {
			missing[want] = true
			continue
		}
		if got != want {
			t.Errorf("%q means %s, in Python %s", spelling, got, want)
		}
	}
	if len(known) != len(codecs) || len(missing) != len(leftOut) {
		t.Errorf("%d of %d codecs have a name in Python, %d of %d that are left out", len(known), len(codecs), len(missing), len(leftOut))
	}
	for _, c := range codecs {
		for _, alias := range strings.Fields(c.aliases) {
			if lookup(alias).name != c.name {
				t.Errorf("%s is an alias of %s and of %s", alias, c.name, lookup(alias).name)
			}
		}
	}
}

func TestNamesThatAreNoNames(t *testing.T) {
	for _, name := range []string{"", "_", "utf-8\x00", "utf-8\xff", "\x00", strings.Repeat("a", 5000), "utf-9", "rot13", "base64", "zlib"} {
		if c := lookup(name); c != nil {
			t.Errorf("%.20q is %s", name, c.name)
		}
	}
}

func TestEncodingsDocumentsEveryRow(t *testing.T) {
	list := Encodings()
	if len(list) != 94 || len(list) != len(codecs) || len(leftOut) != 16 {
		t.Errorf("%d of %d rows, %d left out; doc.go says 94 of 110", len(list), len(codecs), len(leftOut))
	}
	for _, e := range list {
		switch e.Name {
		case "utf-8":
			if !e.Offsets || !slices.Contains(e.Aliases, "utf8") || e.Decoder != "own" || e.Refused != "" {
				t.Errorf("%+v", e)
			}
		case "cp932":
			if e.Offsets || e.Decoder != "x/text, corrected to Python's" || e.Refused == "" {
				t.Errorf("%+v", e)
			}
		}
	}
}

// Row by row all 256 bytes.
func TestOneByteCharsetsAreThoseOfPython(t *testing.T) {
	tested := map[string]bool{}
	for _, row := range golden(t, "singlebyte.txt") {
		c := lookup(row[0])
		if c == nil {
			t.Fatalf("%s is unknown", row[0])
		}
		tested[c.name] = true
		for b := range 256 {
			want := row[1][4*b : 4*b+4]
			got := "...."
			if text, used, ok := c.decode([]byte{byte(b)}, false); ok {
				r, size := utf8.DecodeRuneInString(text)
				got = fmt.Sprintf("%04x", r)
				if size != len(text) || used != 1 {
					t.Errorf("%s: byte %#02x gives %q", row[0], b, text)
				}
			}
			if got != want {
				t.Errorf("%s: byte %#02x is %s, in Python %s", row[0], b, got, want)
			}
		}
	}
	for _, c := range codecs {
		if c.unit == 1 && !strings.HasPrefix(c.name, "utf") && !tested[c.name] {
			t.Errorf("%s is not compared with Python", c.name)
		}
	}
}

// characters calls each with every possible character of a multi-byte charset, in the order of oracle.py.
func characters(codec string, each func(raw []byte)) {
	for a := range 256 {
		each([]byte{byte(a)})
	}
	for a := 0x80; a < 0x100; a++ {
		for b := range 256 {
			each([]byte{byte(a), byte(b)})
		}
	}
	if codec == "gb18030" {
		for a := 0x81; a < 0xFF; a++ {
			for b := '0'; b <= '9'; b++ {
				for c := 0x81; c < 0xFF; c++ {
					for d := '0'; d <= '9'; d++ {
						each([]byte{byte(a), byte(b), byte(c), byte(d)})
					}
				}
			}
		}
		return
	}
	for b := range 256 { // only EUC-JP has characters of three bytes, all behind 0x8F
		for c := range 256 {
			each([]byte{0x8F, byte(b), byte(c)})
		}
	}
}

// Every character that exists, by a hash over all of them.
func TestMultibyteCharsetsAreThoseOfPython(t *testing.T) {
	for _, row := range golden(t, "multibyte.txt") {
		t.Run(row[0], func(t *testing.T) {
			t.Parallel()
			c := lookup(row[0])
			digest, count := sha256.New(), 0
			var line []byte
			characters(row[0], func(raw []byte) {
				text, _, ok := c.decode(raw, false)
				if !ok || utf8.RuneCountInString(text) != 1 {
					return
				}
				line = hex.AppendEncode(line[:0], raw)
				line = append(line, '=')
				line = hex.AppendEncode(line, []byte(text))
				digest.Write(append(line, '\n'))
				count++
			})
			if got := hex.EncodeToString(digest.Sum(nil)); strconv.Itoa(count) != row[1] || got != row[2] {
				t.Errorf("%d characters with hash %s; in Python %s with %s", count, got, row[1], row[2])
			}
		})
	}
}

func TestTextsDecodeAsInPython(t *testing.T) {
	for _, row := range golden(t, "vectors.txt") {
		raw, err := hex.DecodeString(row[1])
		if err != nil {
			t.Fatal(err)
		}
		want := "-"
		if row[2] != "-" {
			text, err := hex.DecodeString(row[2])
			if err != nil {
				t.Fatal(err)
			}
			want = string(text)
		}
		c := lookup(row[0])
		got, used, ok := c.decode(raw, false)
		if c.signed {
			got = strings.TrimPrefix(got, "\uFEFF")
		}
		if !ok {
			got = "-"
		}
		if got != want || ok && used != len(raw) || !ok && used >= len(raw) {
			t.Errorf("%s: %x gives %q (%d bytes), in Python %q", row[0], raw, got, used, want)
		}
	}
}

// What is cut off at any place is dropped, and what comes before is decoded as in the whole.
func TestACutCharacterIsDropped(t *testing.T) {
	for _, row := range golden(t, "vectors.txt") {
		if row[2] == "-" {
			continue
		}
		raw, _ := hex.DecodeString(row[1])
		c := lookup(row[0])
		whole, _, _ := c.decode(raw, false)
		for n := range len(raw) {
			text, used, ok := c.decode(raw[:n], true)
			if !ok || used > n || !strings.HasPrefix(whole, text) {
				t.Errorf("%s: the first %d bytes of %x give %q (%d bytes, %v)", row[0], n, raw, text, used, ok)
			}
			if again, _, ok := c.decode(raw[:used], false); !ok || again != text {
				t.Errorf("%s: the %d bytes used of %x give %q, not %q", row[0], used, raw, again, text)
			}
		}
	}
}
