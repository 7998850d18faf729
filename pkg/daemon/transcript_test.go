package daemon_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"mcp-server-suite/pkg/rawclient"
	"mcp-server-suite/pkg/stage"
)

// TestTranscripts plays the files of testdata/wire. Each begins with a comment that says why, and has these sections:
//
//	-- env --              settings, one NAME=value a line (optional)
//	-- client --           what the client sends
//	-- server --           the answers, one JSON value a line, in this order
//	-- server, any order --
//	-- exit --             how the daemon must end: CODE [after DURATION] [within DURATION]
//
// Lines of the client that follow each other go out in one write. A line that begins with @ is a directive:
//
//	@handshake             initialize and notifications/initialized; the answer is checked and does not count below
//	@raw "TEXT"            these bytes, in Go's notation, without a newline
//	@repeat N "TEXT"       the same, N times
//	@drip TEXT             TEXT and a newline, byte by byte
//	@await N               waits until N answers have come in all
//	@sleep DURATION
//	@eof                   ends the input
//	@close-stdout
//	@signal NAME           TERM or INT
//
// Values of the server are equal to the answer's in full, numbers in their spelling, but for strings in angle brackets:
// <any>, <string>, <number> and <object> stand for any such value, <structured> for the text of the same result's
// structuredContent, and <problem REASON PARAM...> for a refusal's document, as text or as object.
//
// After each transcript that has not ended the daemon itself, the session must still answer a ping, and end with 0 and
// without a further word when its input ends.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/wire/*.txtar")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d transcripts found, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			script, err := readTranscript(file)
			if err != nil {
				t.Fatal(err)
			}
			script.play(t)
		})
	}
}

// transcript is one file of testdata/wire.
type transcript struct {
	env    []string
	client string
	server []string
	strict bool // the answers come in this order
	exit   exit
}

// exit is how a daemon must end.
type exit struct {
	code          int
	after, within time.Duration
}

func readTranscript(file string) (transcript, error) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		return transcript{}, err
	}
	var script transcript
	script.exit.within = rawclient.Patience
	if len(bytes.TrimSpace(archive.Comment)) < 20 {
		return transcript{}, errors.New("no comment says why")
	}
	for _, section := range archive.Files {
		text := string(section.Data)
		switch section.Name {
		case "env":
			script.env = strings.Split(strings.TrimSpace(text), "\n")
		case "client":
			script.client = text
		case "server", "server, any order":
			script.strict = section.Name == "server"
			script.server = strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
		case "exit":
			err = script.exit.read(strings.Fields(text))
		default:
			err = fmt.Errorf("a section %q", section.Name)
		}
		if err != nil {
			return transcript{}, err
		}
	}
	for _, line := range script.server {
		if !json.Valid([]byte(line)) {
			return transcript{}, fmt.Errorf("not JSON: %s", line)
		}
	}
	return script, nil
}

func (e *exit) read(words []string) (err error) {
	if len(words) == 0 {
		return errors.New("an empty exit section")
	}
	if e.code, err = strconv.Atoi(words[0]); err != nil {
		return err
	}
	for words = words[1:]; len(words) >= 2; words = words[2:] {
		bound, err := time.ParseDuration(words[1])
		switch {
		case err != nil:
			return err
		case words[0] == "after":
			e.after = bound
		case words[0] == "within":
			e.within = bound
		default:
			return fmt.Errorf("exit: %q", words[0])
		}
	}
	return nil
}

// player is a transcript being played.
type player struct {
	session
	got    [][]byte
	ending time.Time // when the daemon was told to end; zero before
	deaf   bool      // its stdout is closed
}

func (script transcript) play(t *testing.T) {
	t.Helper()
	p := &player{session: launch(t, stage.Daemon(t, stage.Options{Tags: wiretest, Env: script.env}))}
	p.act(script.client)
	alive := p.ending.IsZero()
	if alive {
		p.await(len(script.server))
		p.ping()
		if err := p.CloseInput(); err != nil {
			t.Fatal(err)
		}
		p.ending = time.Now()
	}
	e := p.wait()
	if took := time.Since(p.ending); e.Code != script.exit.code || took < script.exit.after || took > script.exit.within {
		t.Errorf("exit %d (signal %v) after %v, want %+v; stderr: %s", e.Code, e.Signal, took, script.exit, p.Stderr())
	}
	if !p.deaf {
		p.got = append(p.got, p.rest()...)
		script.compare(t, p.got)
	}
}

// act does what the client section says.
func (p *player) act(section string) {
	p.t.Helper()
	var batch strings.Builder
	flush := func() {
		if batch.Len() > 0 {
			p.send(batch.String())
		}
		batch.Reset()
	}
	for line := range strings.Lines(section) {
		if line[0] != '@' {
			batch.WriteString(line)
			continue
		}
		flush()
		verb, rest, _ := strings.Cut(strings.TrimSpace(line[1:]), " ")
		if err := p.direct(verb, rest); err != nil {
			p.t.Fatalf("%s: %v; stderr: %s", strings.TrimSpace(line), err, p.Stderr())
		}
	}
	flush()
}

func (p *player) direct(verb, rest string) error {
	switch verb {
	case "handshake":
		p.handshake(newest)
	case "raw":
		return p.write(1, rest)
	case "repeat":
		count, text, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(count)
		if err != nil {
			return err
		}
		return p.write(n, text)
	case "drip":
		for _, b := range []byte(rest + "\n") {
			p.send(string(b))
			time.Sleep(time.Millisecond)
		}
	case "await":
		n, err := strconv.Atoi(rest)
		if err != nil {
			return err
		}
		p.await(n)
	case "sleep":
		pause, err := time.ParseDuration(rest)
		time.Sleep(pause)
		return err
	case "eof":
		p.ending = time.Now()
		return p.CloseInput()
	case "close-stdout":
		p.ending, p.deaf = time.Now(), true
		return p.CloseOutput()
	case "signal":
		number, known := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT}[rest]
		if !known {
			return errors.New("no such signal")
		}
		p.ending = time.Now()
		return p.Signal(number)
	default:
		return errors.New("no such directive")
	}
	return nil
}

// write sends a text in Go's notation, so many times.
func (p *player) write(count int, quoted string) error {
	text, err := strconv.Unquote(quoted)
	if err != nil {
		return err
	}
	return p.Send([]byte(strings.Repeat(text, count)))
}

func (p *player) await(n int) {
	p.t.Helper()
	for len(p.got) < n {
		line, err := p.Line()
		if err != nil {
			p.t.Fatalf("%d answers of %d: %v; got %s; stderr: %s", len(p.got), n, err, bytes.Join(p.got, []byte("\n")), p.Stderr())
		}
		p.got = append(p.got, line)
	}
}

// compare holds the answers against the server section.
func (script transcript) compare(t *testing.T, got [][]byte) {
	t.Helper()
	want := slices.Clone(script.server)
	for i, line := range got {
		decode(t, line) // what holds for every line
		if len(want) == 0 {
			t.Errorf("answer %d is one too many: %.500s", i+1, line)
			continue
		}
		at, difference := 0, match(want[0], line)
		for !script.strict && difference != "" && at+1 < len(want) {
			at++
			if match(want[at], line) == "" {
				difference = ""
			}
		}
		if difference != "" {
			t.Errorf("answer %d: %s\n got  %.500s\n want %.500s", i+1, difference, line, want[0])
			at = 0
		}
		want = slices.Delete(want, at, at+1)
	}
	for _, line := range want {
		t.Errorf("no answer is: %.500s", line)
	}
}

// match says where an answer differs from a line of a transcript; "" if it does not.
func match(want string, got []byte) string {
	w, err1 := decodeExactly([]byte(want))
	g, err2 := decodeExactly(got)
	if err := errors.Join(err1, err2); err != nil {
		return err.Error()
	}
	return matcher{g}.differ("", w, g)
}

// decodeExactly keeps the spelling of numbers.
func decodeExactly(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

type matcher struct{ answer any }

func (m matcher) differ(path string, want, got any) string {
	if pattern, ok := want.(string); ok && strings.HasPrefix(pattern, "<") {
		return m.differFromPattern(path, strings.Fields(strings.Trim(pattern, "<>")), got)
	}
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || !slices.Equal(slices.Sorted(maps.Keys(w)), slices.Sorted(maps.Keys(g))) {
			return path + " is not an object with the same members"
		}
		for _, key := range slices.Sorted(maps.Keys(w)) {
			if difference := m.differ(path+"."+key, w[key], g[key]); difference != "" {
				return difference
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(w) != len(g) {
			return path + " is not an array of the same length"
		}
		for i := range w {
			if difference := m.differ(fmt.Sprintf("%s[%d]", path, i), w[i], g[i]); difference != "" {
				return difference
			}
		}
		return ""
	}
	if !reflect.DeepEqual(want, got) {
		return path + " is not equal"
	}
	return ""
}

func (m matcher) differFromPattern(path string, words []string, got any) string {
	ok := false
	switch words[0] {
	case "any":
		ok = true
	case "string":
		_, ok = got.(string)
	case "number":
		_, ok = got.(json.Number)
	case "object":
		_, ok = got.(map[string]any)
	case "structured":
		text, _ := got.(string)
		ok = match(text, mustJSON(m.answer.(map[string]any)["result"].(map[string]any)["structuredContent"])) == ""
	case "problem":
		text, isText := got.(string)
		if !isText {
			text = string(mustJSON(got))
		}
		doc, err := readDocument([]byte(text))
		if err != nil {
			return path + ": " + err.Error()
		}
		ok = doc.Reason == words[1] && slices.Equal(doc.InvalidParams, words[2:])
	}
	if !ok {
		return fmt.Sprintf("%s is not <%s>", path, strings.Join(words, " "))
	}
	return ""
}

func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // it has just been decoded
	}
	return text
}

// The matcher decides what the transcripts prove, so it is tried on what it must not let pass.
func TestATranscriptIsNotMatchedByAnotherAnswer(t *testing.T) {
	t.Parallel()
	const problem = `{"type":"urn:mcp-server-suite:problem:validation-error","title":"Invalid tool arguments","status":422,` +
		`"detail":"x","code":"MCP_VALIDATION_ERROR","reason":"BAD_PARAM","invalid_params":["size"],"metadata":{}}`
	result := func(structured, text string) string {
		return `{"result":{"structuredContent":` + structured + `,"text":` + strconv.Quote(text) + `}}`
	}
	cases := []struct {
		name, want, got string
		same            bool
	}{
		{"equal", `{"a":[1,"x",null,{"b":true}]}`, `{"a":[1,"x",null,{"b":true}]}`, true},
		{"other order of members", `{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
		{"an escape", `"\u00e9"`, `"é"`, true},
		{"a member more", `{"a":1}`, `{"a":1,"b":2}`, false},
		{"a member less", `{"a":1,"b":2}`, `{"a":1}`, false},
		{"number for text", `{"id":"1"}`, `{"id":1}`, false},
		{"large integers that are one float64", `9007199254740993`, `9007199254740992`, false},
		{"another spelling", `1`, `1.0`, false},
		{"null for absent", `{"id":null}`, `{}`, false},
		{"a longer array", `[1]`, `[1,2]`, false},
		{"any string", `"<string>"`, `"x"`, true},
		{"a number for any string", `"<string>"`, `1`, false},
		{"a string for any number", `"<number>"`, `"1"`, false},
		{"an array for any object", `"<object>"`, `[]`, false},
		{"an unknown pattern", `"<nonsense>"`, `"nonsense"`, false},
		{"a document", `"<problem BAD_PARAM size>"`, problem, true},
		{"a document as text", `"<problem BAD_PARAM size>"`, strconv.Quote(problem), true},
		{"another reason", `"<problem BUSY size>"`, problem, false},
		{"other params", `"<problem BAD_PARAM>"`, problem, false},
		{"a document that contradicts itself", `"<problem BAD_PARAM size>"`, strings.Replace(problem, "422", "403", 1), false},
		{"the same text", `{"result":{"structuredContent":{"a":1},"text":"<structured>"}}`, result(`{"a":1}`, `{"a":1}`), true},
		{"another text", `{"result":{"structuredContent":{"a":1},"text":"<structured>"}}`, result(`{"a":1}`, `{"a":2}`), false},
	}
	for _, c := range cases {
		if difference := match(c.want, []byte(c.got)); (difference == "") != c.same {
			t.Errorf("%s: %q", c.name, difference)
		}
	}
}

// A transcript must not pass because a section was misspelt.
func TestATranscriptWithAMistakeIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no comment":      "-- client --\n@eof\n",
		"unknown section": "A comment that says why it is.\n-- clint --\n@eof\n",
		"broken JSON":     "A comment that says why it is.\n-- server --\n{\n",
		"no exit code":    "A comment that says why it is.\n-- exit --\nsoon\n",
		"unknown bound":   "A comment that says why it is.\n-- exit --\n0 before 1s\n",
	} {
		file := filepath.Join(t.TempDir(), "x.txtar")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if script, err := readTranscript(file); err == nil {
			t.Errorf("%s: read as %+v", name, script)
		}
	}
}
