package sandboxfs

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"mcp-server-suite/pkg/problem"
)

// The standard library's reading of whole texts. It repairs what is wrong, so a text is right when nothing was repaired.
var oracles = map[string]func(raw []byte) (string, bool){
	"utf-8": func(raw []byte) (string, bool) { return string(raw), utf8.Valid(raw) },
	"utf-8-sig": func(raw []byte) (string, bool) {
		return strings.TrimPrefix(string(raw), "\ufeff"), utf8.Valid(raw)
	},
	"utf-16-le": func(raw []byte) (string, bool) { return oracle16(binary.LittleEndian, raw) },
	"utf-16-be": func(raw []byte) (string, bool) { return oracle16(binary.BigEndian, raw) },
	"utf-16": func(raw []byte) (string, bool) {
		if len(raw) >= 2 && raw[0] == 0xFE && raw[1] == 0xFF {
			return oracle16(binary.BigEndian, raw[2:])
		}
		text, ok := oracle16(binary.LittleEndian, raw)
		return strings.TrimPrefix(text, "\ufeff"), ok
	},
	"utf-32-le": func(raw []byte) (string, bool) { return oracle32(binary.LittleEndian, raw) },
	"utf-32-be": func(raw []byte) (string, bool) { return oracle32(binary.BigEndian, raw) },
	"utf-32": func(raw []byte) (string, bool) {
		if len(raw) >= 4 && string(raw[:4]) == "\x00\x00\xfe\xff" {
			return oracle32(binary.BigEndian, raw[4:])
		}
		text, ok := oracle32(binary.LittleEndian, raw)
		return strings.TrimPrefix(text, "\ufeff"), ok
	},
}

func oracle16(order binary.ByteOrder, raw []byte) (string, bool) {
	units := make([]uint16, len(raw)/2)
	for i := range units {
		units[i] = order.Uint16(raw[2*i:])
	}
	runes := utf16.Decode(units)
	return string(runes), len(raw)%2 == 0 && slices.Equal(utf16.Encode(runes), units)
}

func oracle32(order binary.ByteOrder, raw []byte) (string, bool) {
	ok := len(raw)%4 == 0
	runes := make([]rune, len(raw)/4)
	for i := range runes {
		runes[i] = rune(order.Uint32(raw[4*i:]))
		ok = ok && utf8.ValidRune(runes[i])
	}
	return string(runes), ok
}

// FuzzDecode: a file of any bytes, read as a whole and in pages.
func FuzzDecode(f *testing.F) {
	for _, row := range golden(f, "vectors.txt") {
		if strings.HasPrefix(row[0], "utf") {
			raw := make([]byte, len(row[1])/2)
			for i := range raw {
				raw[i] = unhex(row[1][2*i])<<4 | unhex(row[1][2*i+1])
			}
			f.Add(raw, uint8(4))
		}
	}
	base := f.TempDir()
	r, err := Open(Settings{Dir: base})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = r.Close() })
	f.Fuzz(func(t *testing.T, raw []byte, page uint8) {
		if err := os.WriteFile(base+"/f", raw, 0o600); err != nil {
			t.Fatal(err)
		}
		for encoding, oracle := range oracles {
			want, valid := oracle(raw)
			q := Request{Path: "f", Encoding: encoding, MaxBytes: MaxReadBytes}
			text, err := r.Read(context.Background(), q)
			if (err == nil) != valid || valid && text.Content != want {
				t.Fatalf("%s: % x gives %q, %v; want %q, %v", encoding, raw, text.Content, err, want, valid)
			}
			if valid && (text.BytesRead != len(raw) || text.Truncated || text.NextOffset != -1) {
				t.Fatalf("%s: % x: %+v", encoding, raw, text)
			}
			if err != nil && (text != Text{} || reason(err) != problem.BadEncoding) {
				t.Fatalf("%s: % x: %+v with %v", encoding, raw, text, err)
			}
			if lookup(encoding).unit == 0 {
				continue
			}
			// Four bytes hold every character, so paging always goes on.
			q.MaxBytes = 4 + int(page)%13
			got, err := readPages(r, q)
			if (err == nil) != valid || valid && got != want {
				t.Fatalf("%s in pages of %d: % x gives %q, %v; want %q, %v", encoding, q.MaxBytes, raw, got, err, want, valid)
			}
		}
	})
}

func unhex(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

// readPages reads a file to its end.
func readPages(r *Root, q Request) (string, error) {
	var all strings.Builder
	for {
		text, err := r.Read(context.Background(), q)
		if err != nil {
			return "", err
		}
		all.WriteString(text.Content)
		if !text.Truncated {
			return all.String(), nil
		}
		if text.BytesRead == 0 || text.BytesRead > q.MaxBytes || text.NextOffset != q.Offset+int64(text.BytesRead) {
			return "", errors.New("no way on")
		}
		q.Offset = text.NextOffset
	}
}
