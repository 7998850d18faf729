package mcpserve

import (
	"errors"
	"io"
	"runtime"

	"mcp-server-suite/pkg/envelope"
	"mcp-server-suite/pkg/framing"
	"mcp-server-suite/pkg/problem"
	"mcp-server-suite/pkg/session"
)

// receive reads lines until the input ends. Everything but the work of calls happens here, one line after the other.
func (c *conn) receive(in io.Reader) {
	defer close(c.ended)
	lines := framing.NewReader(in)
	for {
		line, err := lines.Next()
		switch {
		case err == nil:
			if !c.take(line) {
				return
			}
		case errors.Is(err, framing.ErrTooLong):
			c.reject(envelope.TooLong(framing.MaxFrameBytes))
		default:
			if !errors.Is(err, io.EOF) {
				c.Log.Warn("the input has failed; the session ends", "error", err)
			}
			return
		}
		if !lines.Buffered() {
			runtime.Gosched() // lets a call that was just begun run here at once: p95 under load fell 12 times (findings)
		}
	}
}

// take handles one line; false ends the reading.
func (c *conn) take(line []byte) bool {
	m, rejection := c.parser.Parse(line)
	if rejection != nil {
		if c.session.IsLive(rejection.ID.Key()) {
			rejection.ID = envelope.ID{} // the client would take this for the answer to what it has asked under that id
		}
		c.reject(rejection)
		return true
	}
	switch m.Kind {
	case envelope.Notification:
		return c.notice(m)
	case envelope.Request:
		return c.request(m)
	}
	return true // a response: this server asks nothing, so there is nothing to match it with
}

func (c *conn) notice(m envelope.Message) bool {
	switch m.Method {
	case session.NoteCancelled:
		if key, ok := envelope.ParseCancelled(m.Params); ok {
			c.session.Cancel(key)
		}
	case session.NoteInitialized:
		if c.session.IsInitialized() && !c.pending.ready {
			c.pending.ready = true
			return c.deliver(sdkMessage{method: m.Method})
		}
	}
	return true
}

func (c *conn) request(m envelope.Message) bool {
	method := c.standsFor(m.Method)
	if method == session.MethodToolsCall {
		return c.call(m)
	}
	if !c.begin() {
		return false
	}
	defer c.calls.Done()
	ticket, verdict := c.session.Request(m.ID.Key(), method, nil)
	if verdict != session.Accepted {
		return c.refuse(m.ID, verdict)
	}
	params, faulty := conversationParams(method, m.Params)
	if faulty != "" {
		c.session.Claim(ticket)
		c.rejectParams(m.ID, "", faulty)
		return true
	}
	if method == session.MethodInitialize {
		c.session.Initialized()
	}
	return c.converse(m, ticket, params)
}

// The methods of resources. Where none is offered there is no such capability, and they are unknown like any other.
const (
	methodResourcesList = "resources/list"
	methodTemplatesList = "resources/templates/list" // of which there are none, but clients ask for both lists
	methodResourcesRead = "resources/read"
)

// standsFor gives the method by which a request is treated. To the session, which only tells what may come when and
// what can be cancelled, and to the checks of a list's params, a read is a call and each list a list of tools.
func (s *Server) standsFor(method string) string {
	if !s.hasResources {
		return method
	}
	switch method {
	case methodResourcesRead:
		return session.MethodToolsCall
	case methodResourcesList, methodTemplatesList:
		return session.MethodToolsList
	}
	return method
}

// refuse answers a request that may not come now; false if nothing may come any more.
func (c *conn) refuse(id envelope.ID, verdict session.Verdict) bool {
	r := &envelope.Rejection{Code: envelope.InvalidRequest, ID: id}
	switch verdict {
	case session.Closing:
		return false
	case session.UnknownMethod:
		r.Code, r.Text = envelope.MethodNotFound, "Method not found"
	case session.NotInitialized:
		r.Text = "Invalid Request: initialize must come first"
	case session.AlreadyInitialized:
		r.Text = "Invalid Request: initialize comes only once"
	case session.DuplicateID:
		// With the id, the client would take this for the answer to its first request.
		r.Text, r.ID = "Invalid Request: a request with this id is still in flight", envelope.ID{}
	}
	c.reject(r)
	return true
}

func (c *conn) reject(r *envelope.Rejection) {
	c.out.Send(framing.Frame{Bytes: r.Append(nil)})
}

// rejectParams answers a request whose params do not have the shape of its method. detail is added for the methods of
// which a model decides the params.
func (c *conn) rejectParams(id envelope.ID, detail, faulty string) {
	var data []byte
	if detail != "" {
		data = problem.New(problem.BadParam, detail, faulty).Append(nil, false)
	}
	c.reject(&envelope.Rejection{
		Code: envelope.InvalidParams, Text: "Invalid params: " + faulty, Data: string(data), ID: id,
	})
}
