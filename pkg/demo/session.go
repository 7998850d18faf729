package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"mcp-server-suite/pkg/rawclient"
	"mcp-server-suite/pkg/visible"
)

// session is the running daemon and the step that is being played on it.
type session struct {
	*rawclient.Client
	scene *scene
	sent  int // messages so far

	step record
	show func(evidence)
}

func (s *session) add(kind, format string, args ...any) {
	e := evidence{kind, visible.Text(fmt.Sprintf(format, args...))}
	s.step.Evidence = append(s.step.Evidence, e)
	s.show(e)
}

func (s *session) asked(format string, args ...any)    { s.add(asked, format, args...) }
func (s *session) answered(format string, args ...any) { s.add(answered, format, args...) }
func (s *session) checked(format string, args ...any)  { s.add(checked, format, args...) }

// request sends a request and waits for its answer.
func (s *session) request(method, params string) (rawclient.Answer, error) {
	s.sent++
	return s.Call(method, params)
}

// read calls sandbox_fs_read with these arguments, which it shows.
func (s *session) read(arguments string) (rawclient.Answer, error) {
	s.asked("sandbox_fs_read %s", arguments)
	return s.request("tools/call", callParams("sandbox_fs_read", arguments))
}

func callParams(tool, arguments string) string {
	return fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments)
}

// content is what a call's result holds.
type content struct {
	StructuredContent json.RawMessage `json:"structuredContent"`
	Content           []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	IsError *bool `json:"isError"`
}

func contentOf(a rawclient.Answer) (c content, text string, err error) {
	if a.Error != nil {
		return c, "", fmt.Errorf("it answers with the error %d: %s", a.Error.Code, a.Error.Message)
	}
	if err := decode(a.Result, &c); err != nil {
		return c, "", err
	}
	if len(c.Content) != 1 || c.Content[0].Type != "text" || c.IsError == nil {
		return c, "", errors.New("the result is not one text block and isError")
	}
	return c, c.Content[0].Text, nil
}

// result reads a success into out, and checks that the text block holds the same JSON.
func result(a rawclient.Answer, out any) error {
	c, text, err := contentOf(a)
	switch {
	case err != nil:
		return err
	case *c.IsError:
		return fmt.Errorf("it refuses: %s", short(text, 300))
	case text != string(c.StructuredContent):
		return errors.New("the text block is not the structured content")
	}
	return decode(c.StructuredContent, out)
}

// document is a refusal: RFC 9457 with the members of this project.
type document struct {
	Type          string          `json:"type"`
	Title         string          `json:"title"`
	Status        int             `json:"status"`
	Detail        string          `json:"detail"`
	Code          string          `json:"code"`
	Reason        string          `json:"reason"`
	InvalidParams []string        `json:"invalid_params"`
	Metadata      json.RawMessage `json:"metadata"`
}

// refusal reads a refusal that must have this code and this reason. It gives the document and its text.
func refusal(a rawclient.Answer, code, reason string) (d document, text string, err error) {
	c, text, err := contentOf(a)
	if err != nil {
		return d, "", err
	}
	if !*c.IsError || c.StructuredContent != nil {
		return d, "", errors.New("it does not refuse")
	}
	if err := decode([]byte(text), &d); err != nil {
		return d, "", err
	}
	if d.Code != code || d.Reason != reason {
		return d, "", fmt.Errorf("it refuses with %s and %s, not with %s and %s", d.Code, d.Reason, code, reason)
	}
	if d.Status < 400 || d.Title == "" || d.Detail == "" || !strings.HasPrefix(d.Type, "urn:mcp-server-suite:problem:") {
		return d, "", errors.New("the problem document is not complete")
	}
	return d, text, nil
}

// decode reads JSON that may have no member but those of out.
func decode(text []byte, out any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(out); err != nil {
		return fmt.Errorf("the answer has another shape: %w", err)
	}
	return nil
}

// indented shows a JSON document on several lines.
func indented(text string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(text), "", "  ") != nil {
		return text
	}
	return b.String()
}
