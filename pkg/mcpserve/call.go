package mcpserve

import (
	"context"

	"mcp-server-suite/pkg/envelope"
	"mcp-server-suite/pkg/framing"
	"mcp-server-suite/pkg/pipeline"
	"mcp-server-suite/pkg/problem"
	"mcp-server-suite/pkg/session"
)

// call begins one tools/call; false ends the reading.
func (c *conn) call(m envelope.Message) bool {
	if !c.begin() {
		return false
	}
	ctx, cancel := context.WithCancelCause(c.base)
	ticket, verdict := c.session.Request(m.ID.Key(), m.Method, func() { cancel(pipeline.ErrClientCancelled) })
	if verdict != session.Accepted {
		cancel(nil)
		c.calls.Done()
		return c.refuse(m.ID, verdict)
	}
	params, faulty := envelope.ParseCall(m.Params)
	if faulty != "" {
		cancel(nil)
		c.session.Claim(ticket)
		c.calls.Done()
		c.rejectParams(m.ID, "the params of tools/call are a name and an object of arguments", faulty)
		return true
	}
	in := pipeline.Call{Tool: params.Name}
	if params.Arguments != nil {
		in.Arguments = append([]byte(nil), params.Arguments...) // the line is reused
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
