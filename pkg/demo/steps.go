package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// step is one claim and what shows it. run returns an error when the claim does not hold.
type step struct {
	name, claim string
	run         func(*session) error
}

// steps is the demonstration, in order. The first opens the session and the last ends it.
func steps(withDatabase bool) []step {
	all := []step{
		{"handshake", "A session opens with one question: the daemon agrees on the protocol and says what it is.", handshake},
		{"locked", "Before it read the first byte it had taken its own rights away, and it says which are left.", locked},
		{"tools", "It offers few tools, marks each as read-only, and accepts no argument that it has not published.", tools},
		{"file", "It reads a text file below the served folder.", readFile},
		{"parts", "A long file comes in parts, and no part ends inside a character.", readParts},
		{"link inside", "A symlink that stays inside is followed, and the answer says where it led.", linkInside},
		{"link outside", "A symlink that leads out is refused.", linkOutside},
		{
			"traversal", "A path that leads out is refused, and the refusal does not tell whether anything is there.",
			traversal,
		},
		{"metrics", "It reports this machine's CPU, memory and disk.", metrics},
		{"concurrency", "A slow call holds nobody up.", concurrency},
		{"bad calls", "A call that is not exactly right is refused, says what to change, and repeats nothing of it.", badCalls},
		{"bad lines", "A malformed or over-long line is answered, and the session goes on.", badLines},
		{"cancel", "A cancelled call is not answered.", cancelled},
	}
	if withDatabase {
		all = append(all, databaseSteps()...)
	}
	return append(all, step{"end", "At the end of its input the daemon finishes what it has begun, and exits with 0.", end})
}

const protocolVersion = "2025-11-25"

// logWait is how long the line about the lock-down may take after the first answer: the log is written beside it.
const logWait = 5 * time.Second

func locked(s *session) error {
	s.asked("the line that it has written to stderr at its start")
	line := ""
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		var whole bool
		if line, _, whole = strings.Cut(s.Stderr(), "\n"); whole {
			break
		}
		if time.Since(begun) > logWait {
			return errors.New("it has not said anything about it")
		}
	}
	var said struct {
		Msg     string `json:"msg"`
		Posture struct {
			Level    string `json:"level"`
			Threads  int    `json:"threads"`
			Landlock struct {
				Enforced bool  `json:"enforced"`
				ABI      int   `json:"abi"`
				TCP      []int `json:"connect_tcp"`
				Rules    []struct {
					Path   string   `json:"path"`
					Rights []string `json:"rights"`
				} `json:"rules"`
			} `json:"landlock"`
			Seccomp struct {
				Enforced bool `json:"enforced"`
				Before   int  `json:"filters_before"`
				Filters  int  `json:"filters"`
			} `json:"seccomp"`
			Probes struct {
				Tried  int      `json:"tried"`
				Denied int      `json:"denied"`
				Open   []string `json:"open"`
				Other  int      `json:"other"`
			} `json:"probes"`
		} `json:"posture"`
	}
	if err := json.Unmarshal([]byte(line), &said); err != nil || said.Msg != "posture" {
		return fmt.Errorf("its first line on stderr is another: %q", short(line, 200))
	}
	p := said.Posture
	s.answered("level %s", p.Level)
	s.answered("Landlock ABI %d; %d filters on each of %d threads, %d of them before it began", p.Landlock.ABI, p.Seccomp.Filters, p.Threads, p.Seccomp.Before)
	for _, r := range p.Landlock.Rules {
		s.answered("%s: %s", r.Path, strings.Join(r.Rights, ", "))
		for _, right := range r.Rights {
			if right != "read_file" && right != "read_dir" && r.Path != "/proc/self/exe" {
				return fmt.Errorf("it has kept %s on %s", right, r.Path)
			}
		}
	}
	if len(p.Landlock.TCP) > 0 {
		s.answered("connections by TCP to the ports %v", p.Landlock.TCP)
	}
	s.answered("%d forbidden things tried, %d denied", p.Probes.Tried, p.Probes.Denied)
	if left := strings.Join(p.Probes.Open, "; "); left != "" {
		s.answered("left for the database: %s; and connect, to that port", left)
	}
	switch {
	case p.Level != "full" || !p.Landlock.Enforced || !p.Seccomp.Enforced:
		return errors.New("that is not the whole")
	case p.Seccomp.Filters != p.Seccomp.Before+1:
		return errors.New("its own filter is not on every thread")
	case p.Probes.Tried == 0 || p.Probes.Tried != p.Probes.Denied+len(p.Probes.Open)+p.Probes.Other,
		!slices.Equal(p.Probes.Open, s.scene.sockets()), s.scene.database == nil && p.Probes.Other != 0:
		return errors.New("not everything was denied")
	case !slices.Equal(p.Landlock.TCP, s.scene.ports()):
		return errors.New("it may connect to other ports than the database's")
	}
	s.checked("both layers are in force, nothing can be written, and everything that was tried was denied%s",
		map[bool]string{true: " but what the database needs"}[s.scene.database != nil])
	return nil
}

func handshake(s *session) error {
	s.asked(`initialize {"protocolVersion":"%s", ...}`, protocolVersion)
	s.sent += 2
	answer, err := s.Handshake(protocolVersion)
	if err != nil {
		return err
	}
	if answer.Error != nil {
		return errors.New(answer.Error.Message)
	}
	var hello struct {
		ProtocolVersion string                     `json:"protocolVersion"`
		Capabilities    map[string]json.RawMessage `json:"capabilities"`
		Instructions    string                     `json:"instructions"`
		ServerInfo      struct {
			Name    string `json:"name"`
			Title   string `json:"title"`
			Version string `json:"version"`
		} `json:"serverInfo"`
	}
	if err := decode(answer.Result, &hello); err != nil {
		return err
	}
	s.answered("%s %s, protocol %s", hello.ServerInfo.Name, hello.ServerInfo.Version, hello.ProtocolVersion)
	s.answered("%q", short(hello.Instructions, 180))
	switch {
	case hello.ProtocolVersion != protocolVersion:
		return fmt.Errorf("it agrees on %q, not on %s", hello.ProtocolVersion, protocolVersion)
	case hello.ServerInfo.Name == "" || hello.ServerInfo.Version == "":
		return errors.New("it does not say what it is")
	}
	claimed, right := slices.Sorted(maps.Keys(hello.Capabilities)), []string{"tools"}
	if s.scene.database != nil {
		right = []string{"resources", "tools"}
	}
	if !slices.Equal(claimed, right) {
		return fmt.Errorf("it claims %q where %q is all it should have", claimed, right)
	}
	s.checked("the version is the one asked for; it claims no capability but %s", strings.Join(right, " and "))
	return nil
}

func tools(s *session) error {
	s.asked("tools/list")
	answer, err := s.request("tools/list", "")
	if err != nil {
		return err
	}
	var list struct {
		Tools []struct {
			Name        string          `json:"name"`
			Title       string          `json:"title"`
			Description string          `json:"description"`
			Output      json.RawMessage `json:"outputSchema"`
			Input       struct {
				Schema     string                     `json:"$schema"`
				Type       string                     `json:"type"`
				Properties map[string]json.RawMessage `json:"properties"`
				Required   []string                   `json:"required"`
				Additional *bool                      `json:"additionalProperties"`
			} `json:"inputSchema"`
			Annotations struct {
				ReadOnly    bool  `json:"readOnlyHint"`
				Destructive *bool `json:"destructiveHint"`
				Idempotent  bool  `json:"idempotentHint"`
				OpenWorld   *bool `json:"openWorldHint"`
			} `json:"annotations"`
		} `json:"tools"`
	}
	if answer.Error != nil {
		return errors.New(answer.Error.Message)
	}
	if err := decode(answer.Result, &list); err != nil {
		return err
	}
	var names []string
	for _, t := range list.Tools {
		names = append(names, t.Name)
		var arguments []string
		for name := range t.Input.Properties {
			if slices.Contains(t.Input.Required, name) {
				name += " (required)"
			}
			arguments = append(arguments, name)
		}
		slices.Sort(arguments)
		s.answered("%s: %s. Arguments: %s", t.Name, t.Title, strings.Join(arguments, ", "))
	}
	for _, t := range list.Tools {
		if !t.Annotations.ReadOnly || t.Input.Additional == nil || *t.Input.Additional {
			return fmt.Errorf("%s is not marked read-only, or takes arguments that it does not publish", t.Name)
		}
	}
	right := []string{"sandbox_fs_read", "system_metrics"}
	if s.scene.database != nil {
		right = append(right, "read_only_sql")
	}
	for _, name := range right {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%s is not offered", name)
		}
	}
	s.checked("each has readOnlyHint true and additionalProperties false")
	return nil
}

// text is the result of sandbox_fs_read.
type text struct {
	ResolvedPath string `json:"resolved_path"`
	Content      string `json:"content"`
	BytesRead    int    `json:"bytes_read"`
	Truncated    bool   `json:"truncated"`
	NextOffset   *int   `json:"next_offset"`
	SizeBytes    int    `json:"size_bytes"`
}

// readText calls sandbox_fs_read and expects a result.
func (s *session) readText(arguments string) (t text, err error) {
	answer, err := s.read(arguments)
	if err != nil {
		return t, err
	}
	return t, result(answer, &t)
}

func readFile(s *session) error {
	got, err := s.readText(fmt.Sprintf(`{"relative_path":%q}`, notes))
	if err != nil {
		return err
	}
	s.answered("%s", got.Content)
	if got.Content != notesText || got.BytesRead != len(notesText) || got.Truncated || got.NextOffset != nil {
		return errors.New("that is not what the file holds")
	}
	s.checked("its %d bytes, in structuredContent and in the text block alike", got.BytesRead)
	return nil
}

func readParts(s *session) error {
	// Somewhere behind the middle there is a letter of two bytes: cut between them.
	cut := len(s.scene.long) / 2
	for utf8.RuneStart(s.scene.long[cut]) {
		cut++
	}
	first, err := s.readText(fmt.Sprintf(`{"relative_path":%q,"max_bytes":%d}`, logbook, cut))
	if err != nil {
		return err
	}
	s.answered("%d of %d bytes, truncated: %t, next_offset: %s; it ends with %q", first.BytesRead, first.SizeBytes,
		first.Truncated, optional(first.NextOffset), ending(first.Content))
	if !first.Truncated || first.NextOffset == nil {
		return errors.New("the first part does not say how to go on")
	}
	second, err := s.readText(fmt.Sprintf(`{"relative_path":%q,"offset":%d}`, logbook, *first.NextOffset))
	if err != nil {
		return err
	}
	s.answered("%d of %d bytes, truncated: %t, next_offset: %s; it begins with %q", second.BytesRead, second.SizeBytes,
		second.Truncated, optional(second.NextOffset), beginning(second.Content))
	if first.Content+second.Content != s.scene.long || second.Truncated || second.NextOffset != nil {
		return errors.New("the two parts together are not the file")
	}
	s.checked("the parts together are the file; %d bytes would have ended inside a character", cut)
	return nil
}

func optional(n *int) string {
	if n == nil {
		return "null"
	}
	return strconv.Itoa(*n)
}

const shownCharacters = 12

func ending(text string) string {
	r := []rune(text)
	return string(r[max(0, len(r)-shownCharacters):])
}

func beginning(text string) string {
	r := []rune(text)
	return string(r[:min(len(r), shownCharacters)])
}

func linkInside(s *session) error {
	target, err := os.Readlink(s.scene.tree + "/" + inside)
	if err != nil {
		return err
	}
	got, err := s.readText(fmt.Sprintf(`{"relative_path":%q}`, inside))
	if err != nil {
		return err
	}
	s.answered("resolved_path: %s, %d bytes", got.ResolvedPath, got.BytesRead)
	if got.ResolvedPath != notes || got.Content != notesText {
		return errors.New("that is not where the link leads")
	}
	s.checked("%s is a link to %s", inside, target)
	return nil
}

const (
	accessDenied = "MCP_ACCESS_DENIED"
	validation   = "MCP_VALIDATION_ERROR"
)

// readRefused calls sandbox_fs_read on a path that leads out and returns the problem document.
func (s *session) readRefused(path string) (document, string, error) {
	answer, err := s.read(fmt.Sprintf(`{"relative_path":%q}`, path))
	if err != nil {
		return document{}, "", err
	}
	if strings.Contains(string(answer.Result), secret) {
		return document{}, "", errors.New("the answer holds what is outside")
	}
	return refusal(answer, accessDenied, "OUTSIDE_SANDBOX")
}

func linkOutside(s *session) error {
	if _, err := os.ReadFile(s.scene.tree + "/" + outside); err != nil {
		return fmt.Errorf("the link should lead to a file: %w", err)
	}
	d, _, err := s.readRefused(outside)
	if err != nil {
		return err
	}
	s.answered("%s, %s: %s", d.Code, d.Reason, d.Detail)
	s.checked("the file behind the link exists and is readable; nothing of it is in the answer")
	return nil
}

func traversal(s *session) error {
	_, there, err := s.readRefused(private)
	if err != nil {
		return err
	}
	s.answered("%s", indented(there))
	_, notThere, err := s.readRefused(missing)
	if err != nil {
		return err
	}
	_, absolute, err := s.readRefused("/etc/passwd")
	if err != nil {
		return err
	}
	if there != notThere || there != absolute {
		return errors.New("the answers differ by what is there")
	}
	s.answered("the same document, byte for byte, twice")
	if strings.Contains(there, "diary") {
		return errors.New("the answer repeats the path")
	}
	s.checked("the first file exists, the second does not; neither name is in the answer")
	return nil
}

func concurrency(s *session) error {
	s.asked("system_metrics, id 1 (it watches the counters for %v)", sample)
	s.asked("sandbox_fs_read, id 2, while the first is running")
	if err := s.send(request("1", "tools/call", metricsCall) +
		request("2", "tools/call", callParams("sandbox_fs_read", fmt.Sprintf(`{"relative_path":%q}`, archived)))); err != nil {
		return err
	}
	began := time.Now()
	for _, id := range []string{"2", "1"} {
		line, err := s.Line()
		if err != nil {
			return err
		}
		s.answered("%s (after %d ms)", short(string(line), 75), time.Since(began).Milliseconds())
		if !strings.HasPrefix(string(line), `{"jsonrpc":"2.0","id":`+id+`,"result":`) {
			return fmt.Errorf("that is not the result for id %s", id)
		}
	}
	s.checked("the second call was answered first")
	return nil
}

func request(id, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`+"\n", id, method, params)
}

// send sends whole lines as they are.
func (s *session) send(lines string) error {
	s.sent += strings.Count(lines, "\n")
	return s.Send([]byte(lines))
}

func badCalls(s *session) error {
	const sent = "tamarind" // must not come back
	for _, bad := range []struct{ arguments, parameter string }{
		{`{"relative_path":"field-notes.txt","` + sent + `":true}`, ""},
		{`{"relative_path":"field-notes.txt","max_bytes":"` + sent + `"}`, "max_bytes"},
		{`{"relative_path":"` + sent + `\u202etxt.exe"}`, ""}, // as an escape: an editor would show it reversed
	} {
		answer, err := s.read(bad.arguments)
		if err != nil {
			return err
		}
		d, text, err := refusal(answer, validation, "BAD_PARAM")
		if err != nil {
			return err
		}
		about := ""
		if len(d.InvalidParams) > 0 {
			about = " (" + strings.Join(d.InvalidParams, ", ") + ")"
		}
		s.answered("%s: %s%s", d.Reason, d.Detail, about)
		if strings.Contains(text, sent) {
			return errors.New("the answer repeats what was sent")
		}
		if bad.parameter != "" && !slices.Contains(d.InvalidParams, bad.parameter) {
			return fmt.Errorf("it does not say that %s is at fault", bad.parameter)
		}
	}
	s.checked("nothing that was sent comes back: what an error repeats, a model may obey")
	return nil
}

func badLines(s *session) error {
	const frame = 1 << 20 // the longest line that is read (seed 000, wire specification)
	for _, bad := range []struct {
		line, shown, code string
	}{
		{`{"jsonrpc":"2.0","id":3,"method":`, `{"jsonrpc":"2.0","id":3,"method":`, "-32700"},
		{strings.Repeat("x", frame+2), "a line of 1 MiB and two bytes", "-32600"},
	} {
		s.asked("%s", bad.shown)
		if err := s.send(bad.line + "\n"); err != nil {
			return err
		}
		line, err := s.Line()
		if err != nil {
			return err
		}
		s.answered("%s", line)
		if !strings.HasPrefix(string(line), `{"jsonrpc":"2.0","id":null,"error":{"code":`+bad.code+`,`) {
			return fmt.Errorf("that is not the error %s for an unknown id", bad.code)
		}
	}
	s.asked("ping")
	answer, err := s.request("ping", "")
	if err != nil {
		return err
	}
	s.answered("%s", answer.Result)
	if string(answer.Result) != "{}" {
		return errors.New("that is no answer to a ping")
	}
	s.checked("the session goes on")
	return nil
}

func cancelled(s *session) error {
	const after = 50 * time.Millisecond
	s.asked("system_metrics, id 4")
	s.asked("notifications/cancelled, id 4, %v later", after)
	s.asked("system_metrics, id 5, which takes as long as the first would have taken")
	if err := s.send(request("4", "tools/call", metricsCall)); err != nil {
		return err
	}
	time.Sleep(after)
	if err := s.send(
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}` + "\n" + request("5", "tools/call", metricsCall)); err != nil {
		return err
	}
	line, err := s.Line()
	if err != nil {
		return err
	}
	s.answered("%s", short(string(line), 90))
	if !strings.HasPrefix(string(line), `{"jsonrpc":"2.0","id":5,"result":`) {
		return errors.New("that is not the result for id 5")
	}
	s.checked("only the second was answered")
	return nil
}

func end(s *session) error {
	s.asked("system_metrics, id 6, and the end of the input behind it")
	if err := s.send(request("6", "tools/call", metricsCall)); err != nil {
		return err
	}
	if err := s.CloseInput(); err != nil {
		return err
	}
	line, err := s.Line()
	if err != nil {
		return err
	}
	s.answered("%s", short(string(line), 90))
	if !strings.HasPrefix(string(line), `{"jsonrpc":"2.0","id":6,"result":`) {
		return errors.New("that is not the result for id 6")
	}
	switch line, err := s.Line(); {
	case err == nil:
		return fmt.Errorf("behind the last answer comes %q", short(string(line), 200))
	case !errors.Is(err, io.EOF):
		return err
	}
	exit, err := s.Wait()
	if err != nil {
		return err
	}
	s.answered("exit code %d after %.0f ms of CPU time in all", exit.Code, float64(exit.CPU.Microseconds())/1000)
	if exit.Code != 0 {
		return fmt.Errorf("it ended with %d", exit.Code)
	}
	if strings.Count(s.Stderr(), "\n") != 1 {
		return errors.New("it has written more to stderr than what it said at its start")
	}
	s.checked("the call was answered; nothing else was written in the whole session, and to stderr only what is shown above")
	return nil
}
