package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// columns is the width of the transcript.
const columns = 100

// Kinds of evidence.
const (
	asked    = "asked"    // what this client sent
	answered = "answered" // what the daemon sent
	checked  = "checked"  // what was compared, and came out as it should
)

// evidence is one piece of what a step shows. The text may have several lines.
type evidence struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// record is one step as it went.
type record struct {
	Number       int        `json:"step"`
	Name         string     `json:"name"`
	Claim        string     `json:"claim"`
	Held         bool       `json:"held"`
	Failure      string     `json:"failure,omitempty"`
	Evidence     []evidence `json:"evidence"`
	Milliseconds int64      `json:"milliseconds"`
}

type opening struct {
	daemon  string
	environ []string
	pid     int
}

type closing struct {
	steps, messages int
	took            time.Duration
}

// viewer is how the steps are shown.
type viewer interface {
	open(opening)
	begin(record)
	evidence(evidence)
	end(record)
	close(closing)
}

// lines shows one JSON object a step.
type lines struct{ out io.Writer }

func (l *lines) open(opening)      {}
func (l *lines) begin(record)      {}
func (l *lines) evidence(evidence) {}
func (l *lines) close(closing)     {}

func (l *lines) end(r record) {
	text, err := json.Marshal(r)
	if err != nil {
		text = []byte(`{"failure":"the step cannot be encoded"}`) // strings and numbers always can
	}
	fmt.Fprintf(l.out, "%s\n", text)
}

// transcript shows text for a person.
type transcript struct {
	out    io.Writer
	colour bool
}

// The colours: SGR parameters (ECMA-48, 8.3.117).
const (
	bold  = "1"
	faint = "2"
	green = "32"
	red   = "31"
)

func (t *transcript) paint(how, text string) string {
	if !t.colour {
		return text
	}
	return "\x1b[" + how + "m" + text + "\x1b[0m"
}

func (t *transcript) open(o opening) {
	fmt.Fprintln(t.out, t.paint(bold, "mcp-server-suite, shown by one session over stdin and stdout"))
	who := "as the current user"
	if os.Geteuid() == 0 {
		who = "as user 10001"
	}
	for _, line := range wrap(fmt.Sprintf("%s runs %s, process %d, with nothing in its environment but:", o.daemon, who, o.pid), columns) {
		fmt.Fprintln(t.out, line)
	}
	for _, variable := range o.environ {
		fmt.Fprintln(t.out, "  "+variable)
	}
	fmt.Fprintln(t.out, t.paint(faint, "> is what the client sends, < what the daemon answers, ok what was checked."))
}

func (t *transcript) begin(r record) {
	fmt.Fprintln(t.out)
	for i, line := range wrap(r.Claim, columns-4) {
		head := "    "
		if i == 0 {
			head = fmt.Sprintf("%2d. ", r.Number)
		}
		fmt.Fprintln(t.out, t.paint(bold, head+line))
	}
}

func (t *transcript) evidence(e evidence) {
	mark, how := map[string]string{asked: "> ", answered: "< ", checked: "ok "}[e.Kind], ""
	if e.Kind == checked {
		how = green
	}
	indent := "    "
	width := columns - len(indent) - len(mark)
	for i, part := range strings.Split(strings.TrimRight(e.Text, "\n"), "\n") {
		for j, line := range wrap(part, width) {
			head := strings.Repeat(" ", len(mark))
			if i == 0 && j == 0 {
				head = mark
				if how != "" {
					head = t.paint(how, mark)
				}
			}
			fmt.Fprintln(t.out, strings.TrimRight(indent+head+line, " "))
		}
	}
}

func (t *transcript) end(r record) {
	if r.Held {
		return
	}
	for i, line := range wrap(r.Failure, columns-len("    FAILED ")) {
		head := "           "
		if i == 0 {
			head = "    " + t.paint(red, "FAILED") + " "
		}
		fmt.Fprintln(t.out, head+line)
	}
}

func (t *transcript) close(c closing) {
	text := fmt.Sprintf("All %d claims held: %d messages to one daemon, %.1f s.", c.steps, c.messages, c.took.Seconds())
	fmt.Fprintf(t.out, "\n%s\n", t.paint(green, text))
}

// wantsColour is true for a terminal whose user has not said otherwise (no-color.org).
func wantsColour(out io.Writer, environ []string) bool {
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if name == "NO_COLOR" && value != "" || name == "TERM" && value == "dumb" {
			return false
		}
	}
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// wrap cuts text into lines of at most width characters, at spaces where there are any, keeping the text's own
// indentation on every line. It gives at least one line.
func wrap(text string, width int) []string {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	if len(indent) > width/2 {
		indent = ""
	}
	var out []string
	for rest := text; ; {
		if utf8.RuneCountInString(rest) <= width {
			return append(out, rest)
		}
		cut := 0 // in bytes: behind width characters
		for range width {
			_, size := utf8.DecodeRuneInString(rest[cut:])
			cut += size
		}
		if space := strings.LastIndexByte(rest[:cut+1], ' '); space > width/2 {
			cut = space
		}
		out = append(out, strings.TrimRight(rest[:cut], " "))
		rest = indent + strings.TrimLeft(rest[cut:], " ")
	}
}

// short cuts text to most characters; a cut shows as three dots.
func short(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-3]) + "..."
}
