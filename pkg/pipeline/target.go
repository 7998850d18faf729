package pipeline

import (
	"bytes"
	"context"
	"log/slog"
	"unicode/utf8"

	"mcp-server-suite/pkg/problem"
	"mcp-server-suite/pkg/strictjson"
	"mcp-server-suite/pkg/surface"
)

// target is what a call reaches behind the guards: what differs between a tool and a resource, and nothing else. Its
// methods are called by the guards of the same name.
type target interface {
	decode(*call) *problem.Problem // the arguments
	replyBytes(*call) int          // the most that the answer may take, its frame included
	run(context.Context, *call) error
	encode(*call) ([]byte, error) // appends the result object to the call's buffer
	subject() slog.Attr           // what the log calls it: our own name of it
}

// find looks for what a call names; if this session has none of that name, the refusal does not say of what there is.
func find(s *surface.Surface, k Kind, name string) (target, *problem.Problem) {
	switch k {
	case CallTool:
		if t := s.Tool(name); t != nil {
			return (*tool)(t), nil
		}
		return nil, problem.New(problem.UnknownName, "Unknown tool", "name").About(name, "Unknown tool: %s")
	case ReadResource:
		if r := s.Resource(name); r != nil {
			return (*resource)(r), nil
		}
		return nil, problem.New(problem.UnknownName, "no resource of that name is offered to this session", "uri").
			About(name, "no resource of the name %s is offered to this session")
	}
	return nil, internal // deny is the default
}

// subject is what the log calls the call's target. The name that the caller wrote stays out of the log.
func (c *call) subject() slog.Attr {
	if c.target == nil {
		return slog.String("tool", "")
	}
	return c.target.subject()
}

// envelopeBytes stands around a result: the JSON-RPC envelope with an id of ordinary length. A longer id is memory of
// the client's own making, bounded by its frame.
const envelopeBytes = 256

// grow returns the call's buffer with room for so many bytes more, but no more than is promised.
func (c *call) grow(need int) []byte {
	need = len(c.out) + min(need, c.promise)
	if cap(c.out) < need {
		return append(Buffer(need), c.out...) // the old one is not recycled: whoever stops waiting still reads its head
	}
	return c.out
}

// tool is the target of tools/call.
type tool surface.Tool

func (t *tool) subject() slog.Attr { return slog.String("tool", t.Name) }

func (t *tool) decode(c *call) (refusal *problem.Problem) {
	c.values, refusal = t.Input.Decode(c.Arguments)
	return refusal
}

func (t *tool) replyBytes(c *call) int { return t.ReplyBytes(c.values) + frameBytes }

func (t *tool) run(ctx context.Context, c *call) (err error) {
	c.result, err = t.Run(ctx, c.values)
	return err
}

// The frame of a tool's result. The text block holds the same JSON once more, escaped into a string.
const (
	resultHead = `{"structuredContent":`
	resultText = `,"content":[{"type":"text","text":"`
	resultEnd  = `"}],"isError":false}`

	frameBytes = len(resultHead) + len(resultText) + len(resultEnd) + envelopeBytes
)

func (t *tool) encode(c *call) (out []byte, err error) {
	plain, escaped := c.result.Sizes()
	// The bound for a list of short numbers is several times too large: the promise may be less.
	out = append(c.grow(plain+escaped+frameBytes), resultHead...)
	start := len(out)
	if out, err = t.Output.Append(out, c.result); err != nil {
		return nil, err
	}
	end := len(out)
	out = append(out, resultText...)
	out = strictjson.AppendEscaped(out, out[start:end])
	return append(out, resultEnd...), nil
}

// resource is the target of resources/read.
type resource surface.Resource

func (r *resource) subject() slog.Attr { return slog.String("resource", r.URI) }

func (r *resource) decode(*call) *problem.Problem { return nil }

// The frame of a resource's text (MCP, ReadResourceResult): one entry, the whole text.
const (
	contentsHead = `{"contents":[{"uri":`
	contentsType = `,"mimeType":`
	contentsText = `,"text":"`
	contentsEnd  = `"}]}`
)

// frameBytes is what stands around the text; the names in it are ours, and may need escapes.
func (r *resource) frameBytes() int {
	uri, _ := strictjson.EscapedLen(r.URI)
	kind, _ := strictjson.EscapedLen(r.MIMEType)
	return len(contentsHead) + len(contentsType) + len(contentsText) + len(contentsEnd) + len(`""""`) + uri + kind +
		envelopeBytes
}

func (r *resource) replyBytes(*call) int { return r.ReplyBytes + r.frameBytes() }

func (r *resource) run(ctx context.Context, c *call) (err error) {
	c.text, err = r.Read(ctx)
	return err
}

func (r *resource) encode(c *call) ([]byte, error) {
	if !utf8.Valid(c.text) {
		c.text = bytes.ToValidUTF8(c.text, []byte("\uFFFD")) // AppendEscaped would write a lone surrogate as one
	}
	escaped, _ := strictjson.EscapedLen(c.text)
	out := append(c.grow(escaped+r.frameBytes()), contentsHead...)
	out = strictjson.AppendString(out, r.URI)
	out = append(out, contentsType...)
	out = strictjson.AppendString(out, r.MIMEType)
	out = append(out, contentsText...)
	out = strictjson.AppendEscaped(out, c.text)
	return append(out, contentsEnd...), nil
}
