package mcpserve

import (
	"context"

	"mcp-server-suite/pkg/envelope"
	"mcp-server-suite/pkg/framing"
	"mcp-server-suite/pkg/pipeline"
	"mcp-server-suite/pkg/problem"
	"mcp-server-suite/pkg/session"
	"mcp-server-suite/pkg/strictjson"
)

// call begins one tools/call or resources/read; false ends the reading.
func (c *conn) call(m envelope.Message) bool {
	if !c.begin() {
		return false
	}
	ctx, cancel := context.WithCancelCause(c.base)
	giveUp := func() { cancel(pipeline.ErrClientCancelled) }
	ticket, verdict := c.session.Request(m.ID.Key(), session.MethodToolsCall, giveUp)
	if verdict != session.Accepted {
		cancel(nil)
		c.calls.Done()
		return c.refuse(m.ID, verdict)
	}
	in, shape, faulty := callOf(m)
	if faulty != "" {
		cancel(nil)
		c.session.Claim(ticket)
		c.calls.Done()
		c.rejectParams(m.ID, shape, faulty)
		return true
	}
	id, size := m.ID.Clone(), len(m.Params)+m.ID.Size()
	if !c.Gate.Enter(size) {
		defer cancel(nil)
		defer c.calls.Done()
		c.respond(ticket, id, c.Pipeline.Overloaded(ctx, in, resultHead(id)))
		return true
	}
	in.Place = c.Pipeline.Join()
	go func() {
		defer c.calls.Done()
		defer c.Gate.Leave(size)
		defer cancel(nil)
		c.respond(ticket, id, c.Pipeline.Run(ctx, in, resultHead(id)))
	}()
	return true
}

// callOf checks the params of a call and gives it the form of the pipeline; nothing of it aliases the line, which is
// used again. It returns the name of the member that is faulty, "" if none is, and in words what shape was due.
func callOf(m envelope.Message) (in pipeline.Call, shape, faulty string) {
	if m.Method == methodResourcesRead {
		uri, faulty := parseRead(m.Params)
		return pipeline.Call{Kind: pipeline.ReadResource, Name: uri}, "the params of resources/read are a uri", faulty
	}
	params, faulty := envelope.ParseCall(m.Params)
	in = pipeline.Call{Kind: pipeline.CallTool, Name: params.Name}
	if params.Arguments != nil {
		in.Arguments = append([]byte(nil), params.Arguments...)
	}
	return in, "the params of tools/call are a name and an object of arguments", faulty
}

// parseRead checks the params of resources/read as strictly as envelope does those of tools/call: a uri, which is a
// string, and _meta, an object that is not looked into; any other member, in whatever case, is refused.
func parseRead(raw []byte) (uri, faulty string) {
	if raw == nil {
		return "", "params"
	}
	given := false
	for c := strictjson.Open(raw); c.Next(); {
		switch key, _ := strictjson.String(c.Key()); key {
		case "uri":
			if uri, given = strictjson.String(c.Value()); !given {
				return "", "uri"
			}
		case "_meta":
			if !strictjson.IsObject(c.Value()) {
				return "", "_meta"
			}
		default:
			return "", "params"
		}
	}
	if !given {
		return "", "uri"
	}
	return uri, ""
}

// respond sends the answer of a call, if the call may still be answered.
func (c *conn) respond(ticket *session.Ticket, id envelope.ID, a pipeline.Answer) {
	frame := framing.Frame{Reserved: a.Release != nil, Done: func() {
		if a.Release != nil {
			a.Release()
		}
		pipeline.Recycle(a.Result)
	}}
	if !c.session.Claim(ticket) || a.Silent {
		frame.Done()
		return
	}
	if a.Refusal == nil {
		a.Result = envelope.AppendResultTail(a.Result)
		frame.Bytes = a.Result
	} else {
		frame.Bytes = c.refusalFrame(id, a.Refusal)
	}
	c.out.Send(frame)
}

func (c *conn) refusalFrame(id envelope.ID, refusal *problem.Problem) []byte {
	code, text := envelope.InvalidParams, refusal.Text(c.Pipeline.ErrorEcho)
	if refusal.Reason == problem.Internal {
		code, text = envelope.InternalError, "Internal error"
	}
	return envelope.AppendError(nil, id, code, text, refusal.Append(nil, c.Pipeline.ErrorEcho))
}

// headBytes is room for a short answer.
const headBytes = 512

func resultHead(id envelope.ID) []byte {
	return envelope.AppendResultHead(pipeline.Buffer(headBytes), id)
}
