package mcpserve

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-server-suite/pkg/envelope"
	"mcp-server-suite/pkg/framing"
	"mcp-server-suite/pkg/session"
	"mcp-server-suite/pkg/strictjson"
	"mcp-server-suite/pkg/surface"
)

// protocolVersions are the revisions that initialize may agree on, newest first. To any other the newest is offered
// (MCP, lifecycle, version negotiation).
var protocolVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// newSDK gives the SDK what it needs for the conversation. Its tools and resources have no handler that could run:
// calls and reads never reach it.
func newSDK(s *surface.Surface) *mcp.Server {
	info := s.Server()
	// Without listChanged and subscribe, which the SDK would announce by itself: the surface is sealed.
	capabilities := &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}
	if len(s.Resources()) > 0 {
		capabilities.Resources = &mcp.ResourceCapabilities{}
	}
	server := mcp.NewServer(
		&mcp.Implementation{Name: info.Name, Title: info.Title, Version: info.Version},
		&mcp.ServerOptions{
			Instructions:              info.Instructions,
			Logger:                    slog.New(slog.DiscardHandler), // its messages quote the client
			Capabilities:              capabilities,
			SupportedProtocolVersions: protocolVersions,
		})
	hints := surface.ToolAnnotations
	for _, t := range s.Tools() {
		server.AddTool(&mcp.Tool{
			Name: t.Name, Title: t.Title, Description: t.Description,
			InputSchema: json.RawMessage(t.Input.JSON()), OutputSchema: json.RawMessage(t.Output.JSON()),
			Annotations: &mcp.ToolAnnotations{
				ReadOnlyHint: hints.ReadOnly, DestructiveHint: &hints.Destructive,
				IdempotentHint: hints.Idempotent, OpenWorldHint: &hints.OpenWorld,
			},
		}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, errors.New("mcpserve: a call has reached the SDK")
		})
	}
	for _, r := range s.Resources() {
		server.AddResource(&mcp.Resource{
			URI: r.URI, Name: r.Name, Title: r.Title, Description: r.Description, MIMEType: r.MIMEType,
		}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return nil, errors.New("mcpserve: a read has reached the SDK")
		})
	}
	return server
}

// conversationParams checks the params of a message of the conversation, by the method that it stands for, and returns
// what the SDK gets in their place.
func conversationParams(method string, raw []byte) (params json.RawMessage, faulty string) {
	switch method {
	case session.MethodInitialize:
		in, faulty := envelope.ParseInitialize(raw)
		if faulty != "" {
			return nil, faulty
		}
		params = strictjson.AppendString(params, in.ProtocolVersion)
		params = append(json.RawMessage(`{"protocolVersion":`), params...)
		return append(params, `,"capabilities":{},"clientInfo":{"name":"client","version":"0"}}`...), ""
	case session.MethodToolsList:
		return nil, envelope.ParseList(raw)
	}
	return nil, envelope.ParseMeta(raw)
}

// sdkMessage is a message for the SDK; number 0 makes it a notification.
type sdkMessage struct {
	number int64
	method string
	params json.RawMessage
}

// pending is the one message of the conversation that waits for its answer. The reading goroutine sets it before it
// delivers the message; Write reads it afterwards.
type pending struct {
	number int64
	answer chan *jsonrpc.Response // holds one
	ready  bool                   // notifications/initialized has been delivered
}

// converse has the SDK answer a message, and returns when the answer is written; false ends the reading. The answer is
// written here and not by the SDK's goroutine: where nobody reads the output, that one could not end.
func (c *conn) converse(m envelope.Message, ticket *session.Ticket, params json.RawMessage) bool {
	c.pending.number++
	answer := make(chan *jsonrpc.Response, 1)
	c.pending.answer = answer
	if !c.deliver(sdkMessage{number: c.pending.number, method: m.Method, params: params}) {
		return false
	}
	select {
	case response := <-answer:
		if c.session.Claim(ticket) {
			c.out.Send(framing.Frame{Bytes: conversationFrame(m, response)})
		}
		return true
	case <-c.closed:
		return false
	}
}

func (c *conn) deliver(m sdkMessage) bool {
	select {
	case c.toSDK <- m:
		return true
	case <-c.closed:
		return false
	}
}

// Connect makes conn the SDK's transport.
func (c *conn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID is empty: stdio and the socket have one session a connection.
func (c *conn) SessionID() string { return "" }

// Close is called by the SDK when it is done; the session is ended by Serve alone.
func (c *conn) Close() error { return nil }

// Read gives the SDK the next message of the conversation.
func (c *conn) Read(context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.toSDK:
		request := &jsonrpc.Request{Method: m.method, Params: m.params}
		if m.number != 0 {
			id, err := jsonrpc.MakeID(float64(m.number))
			if err != nil {
				return nil, err
			}
			request.ID = id
		}
		return request, nil
	case <-c.closed:
		return nil, io.EOF
	}
}

// Write takes the SDK's answer to the message that is pending. It takes nothing else: this server asks its client nothing
// and notifies it of nothing.
func (c *conn) Write(_ context.Context, m jsonrpc.Message) error {
	response, ok := m.(*jsonrpc.Response)
	if !ok || response.ID.Raw() != c.pending.number {
		return nil
	}
	select {
	case c.pending.answer <- response:
	default: // a second answer to one message
	}
	return nil
}

// conversationFrame renders the SDK's answer: ASCII, with the client's own id. Every message that reaches the SDK has
// been checked, so an error of its is a fault, and its text (which may quote) stays here.
func conversationFrame(m envelope.Message, r *jsonrpc.Response) []byte {
	if r.Error != nil {
		return envelope.AppendError(nil, m.ID, envelope.InternalError, "Internal error", nil)
	}
	out := envelope.AppendResultHead(nil, m.ID)
	switch m.Method {
	case session.MethodToolsList, methodResourcesList, methodTemplatesList:
		out = appendWithout(out, r.Result, "ttlMs", "cacheScope")
	default:
		out = strictjson.AppendASCII(out, r.Result)
	}
	return envelope.AppendResultTail(out)
}

// appendWithout copies an object without the members of these names. The SDK adds the list members of 2026-07-28 in
// every revision (findings); clients of the older ones validate strictly.
func appendWithout(dst, object []byte, names ...string) []byte {
	dst = append(dst, '{')
	first := true
members:
	for c := strictjson.Open(object); c.Next(); {
		key, _ := strictjson.String(c.Key())
		for _, name := range names {
			if key == name {
				continue members
			}
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = strictjson.AppendASCII(dst, c.Key())
		dst = append(dst, ':')
		dst = strictjson.AppendASCII(dst, c.Value())
	}
	return append(dst, '}')
}
