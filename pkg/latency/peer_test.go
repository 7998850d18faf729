package latency

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func requests(ids ...int) string {
	var b strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&b, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"id":9}}`+"\n", id)
	}
	return b.String()
}

// answer is one line of a bare program.
type answer struct {
	ID     int
	Result json.RawMessage
}

func answers(t *testing.T, out string) []answer {
	t.Helper()
	var all []answer
	for line := range strings.Lines(out) {
		var a answer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, a)
	}
	return all
}

func TestEchoAnswersLinesOfTheAskedLengthWithTheirIDs(t *testing.T) {
	t.Parallel()
	for _, length := range []int{60, 371, 100_000} {
		var out bytes.Buffer
		in := requests(firstID, 7, lastID) + "no id\n\n" + `{"id":"text"}` + "\n"
		if err := echo(strings.NewReader(in), &out, length); err != nil {
			t.Fatal(err)
		}
		all := answers(t, out.String())
		if len(all) != 3 || all[0].ID != firstID || all[1].ID != 7 || all[2].ID != lastID {
			t.Errorf("length %d: %v", length, all)
		}
		for line := range strings.Lines(out.String()) {
			if len(line) != length {
				t.Errorf("a line of %d bytes, want %d", len(line), length)
			}
		}
	}
	if err := echo(strings.NewReader(requests(firstID)), &bytes.Buffer{}, 20); err == nil {
		t.Error("20 bytes have no room for an id and no error comes")
	}
	if err := echo(strings.NewReader(strings.Repeat("x", peerLineBytes+1)), &bytes.Buffer{}, 100); err == nil {
		t.Error("a line that is too long gives no error")
	}
}

func TestFilePeerReadsTheFileForEveryRequest(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.txt")
	text := "two \"quoted\"\nlines\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := serveFile(strings.NewReader(requests(1, 2)), &out, path); err != nil {
		t.Fatal(err)
	}
	for i, a := range answers(t, out.String()) {
		var result struct {
			StructuredContent json.RawMessage
			Content           []struct{ Type, Text string }
			IsError           *bool
		}
		var inner struct {
			Content   string
			SizeBytes int `json:"size_bytes"`
		}
		if err := json.Unmarshal(a.Result, &result); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(result.StructuredContent, &inner); err != nil {
			t.Fatal(err)
		}
		if a.ID != i+1 || inner.Content != text || inner.SizeBytes != len(text) || result.IsError == nil || *result.IsError ||
			len(result.Content) != 1 || result.Content[0].Text != string(result.StructuredContent) {
			t.Errorf("answer %d: %+v", i, a)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := serveFile(strings.NewReader(requests(1)), &out, path); err == nil {
		t.Error("the file is gone and no error comes: it was not read again")
	}
}
