package mcpserve_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-server-suite/pkg/framing"
	"mcp-server-suite/pkg/pipeline"
	"mcp-server-suite/pkg/problem"
	"mcp-server-suite/pkg/surface"
)

// withResources offers two resources; what a read of either comes to is decided as for the tool's calls.
func withResources(r *rig) {
	for _, name := range []string{"b", "a"} {
		r.resources = append(r.resources, surface.Resource{
			URI: "test://" + name, Name: name, Title: "Text " + name, Description: "Says its name.", MIMEType: "text/plain",
			ReplyBytes: replyBytes,
			Read: func(ctx context.Context) ([]byte, error) {
				w := &work{name: name, ctx: ctx, end: make(chan error, 1)}
				r.calls <- w
				select {
				case err := <-w.end:
					return []byte(name), err
				case <-ctx.Done():
					return nil, fmt.Errorf("the resource was told to stop: %w", ctx.Err())
				}
			},
		})
	}
}

func readOf(id any, uri string) string {
	return request(id, "resources/read", fmt.Sprintf(`{"uri":%q}`, uri))
}

func request(id any, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":%q,"params":%s}`, id, method, params)
}

func contents(id any, name string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{"contents":[{"uri":"test://%s","mimeType":"text/plain","text":%q}]}}`,
		id, name, name)
}

func TestTheCapabilityIsAnnouncedOnlyWhereAResourceIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		prepare func(*rig)
		want    string
	}{
		{func(*rig) {}, `"capabilities":{"tools":{}},`},
		{withResources, `"capabilities":{"resources":{},"tools":{}},`},
	} {
		inBubbleWith(t, true, c.prepare, func(r *rig) {
			r.send(initialize("0"))
			if got := r.answers(); len(got) != 1 || !strings.Contains(got[0], c.want) {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestWithoutResourcesTheirMethodsAreUnknown(t *testing.T) {
	t.Parallel()
	inBubble(t, true, func(r *rig) {
		r.open()
		for _, method := range []string{"resources/list", "resources/templates/list", "resources/read", "resources/subscribe"} {
			r.send(request(1, method, `{"uri":"test://a"}`))
			r.expect(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}`)
		}
	})
}

func TestResourcesAreListedWithoutMembersOfLaterRevisions(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, true, withResources, func(r *rig) {
		r.send(request(1, "resources/list", `{}`))
		r.expect(`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Invalid Request: initialize must come first"}}`)
		r.open()
		const cursor = `{"jsonrpc":"2.0","id":%d,"error":{"code":-32602,"message":"Invalid params: cursor"}}`
		const entry = `{"description":"Says its name.","mimeType":"text/plain","name":%[1]q,"title":"Text %[1]s","uri":"test://%[1]s"}`
		r.send(`{"jsonrpc":"2.0","id":1,"method":"resources/list"}`, request(2, "resources/list", `{"_meta":{},"cursor":"x"}`),
			request(3, "resources/templates/list", `{"_meta":{"x":1}}`), request(4, "resources/templates/list", `{"cursor":null}`),
			request(5, "resources/subscribe", `{"uri":"test://a"}`), request(6, "resources/unsubscribe", `{"uri":"test://a"}`))
		r.expect(
			`{"jsonrpc":"2.0","id":1,"result":{"resources":[`+fmt.Sprintf(entry, "a")+`,`+fmt.Sprintf(entry, "b")+`]}}`,
			fmt.Sprintf(cursor, 2),
			`{"jsonrpc":"2.0","id":3,"result":{"resourceTemplates":[]}}`,
			fmt.Sprintf(cursor, 4),
			`{"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"Method not found"}}`,
			`{"jsonrpc":"2.0","id":6,"error":{"code":-32601,"message":"Method not found"}}`,
		)
	})
}

func TestReadsAreAnsweredAsTheyFinishAndOvertaken(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, true, withResources, func(r *rig) {
		r.send(readOf(1, "test://a"))
		r.expect(`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Invalid Request: initialize must come first"}}`)
		r.open()
		r.send(readOf(1, "test://a"))
		a := r.next()
		r.send(readOf(2, "test://b"), readOf(1, "test://b"), ping(3))
		b := r.next()
		r.expect(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request: a request with this id is still in flight"}}`,
			pong(3))
		b.end <- nil
		r.expect(contents(2, "b"))
		a.end <- nil
		r.expect(contents(1, "a"))
		r.nothingHeld()
	})
}

// One line for slots: in the order in which the reader met them, calls and reads alike.
func TestReadsAndCallsWaitInOneLine(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, true, withResources, func(r *rig) {
		r.open()
		for i := range 4 {
			r.send(call(i, "first"))
		}
		r.send(readOf(4, "test://a"), call(5, "b"), readOf(6, "test://b"))
		var first []*work
		for range 4 {
			first = append(first, r.next())
		}
		for i, want := range []string{"a", "b", "b"} {
			first[i].end <- nil
			if w := r.next(); w.name != want {
				t.Errorf("turn %d is that of %s", i, w.name)
			} else {
				defer func() { w.end <- nil }()
			}
		}
		first[3].end <- nil
	})
}

func TestACancelledReadIsToldWhyAndNeverAnswered(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, true, withResources, func(r *rig) {
		r.open()
		r.send(readOf(1, "test://a"))
		a := r.next()
		r.send(cancelled(1))
		if cause := context.Cause(a.ctx); cause != pipeline.ErrClientCancelled {
			t.Errorf("cause %v", cause)
		}
		r.send(readOf(1, "test://b")) // the id is free
		r.next().end <- nil
		r.expect(contents(1, "b"))
		r.nothingHeld()
		if log := r.log.String(); log != "" {
			t.Errorf("log: %s", log)
		}
	})
}

func TestTheDrainWaitsForReadsAndCancelsThemAtItsEnd(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, true, withResources, func(r *rig) {
		r.open()
		r.send(readOf(1, "test://a"), readOf(2, "test://b"))
		a, b := r.next(), r.next()
		if a.name == "b" {
			a, b = b, a
		}
		r.endInput()
		time.Sleep(grace - time.Second)
		a.end <- nil
		r.expect(contents(1, "a"))
		r.endsAfter(time.Second, nil)
		if context.Cause(b.ctx) == nil {
			t.Error("the other goes on")
		}
		r.expect()
		r.nothingHeld()
	})
}

// Every refusal of a read is a JSON-RPC error with the document in its data: its result has no isError.
func TestRefusedReadsAreErrors(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, true, withResources, func(r *rig) {
		r.open()
		refused := func(want ...string) {
			t.Helper()
			got := strings.Join(r.answers(), "\n")
			for _, w := range want {
				if !strings.Contains(got, w) {
					t.Errorf("%s lacks %s", got, w)
				}
			}
			if strings.Contains(got, `"result"`) || strings.Contains(got, "EVIL") || strings.Contains(r.log.String(), "EVIL") {
				t.Errorf("%s; log %s", got, r.log.String())
			}
		}
		r.send(readOf(1, "test://EVIL"))
		refused(`"id":1,"error":{"code":-32602,"message":"no resource of that name is offered to this session","data":{"type":`,
			`"reason":"UNKNOWN_NAME","invalid_params":["uri"]`)
		r.send(readOf(2, "test://a"))
		r.next().end <- problem.New(problem.DBUnavailable, "the database cannot be reached").About("EVIL", "%s")
		refused(`"id":2,"error":{"code":-32602,"message":"the database cannot be reached","data":{`, `"retryable":true`)
		r.send(readOf(3, "test://a"))
		r.next().end <- errors.New("disk on fire")
		refused(`"id":3,"error":{"code":-32603,"message":"Internal error","data":{`, `"reason":"INTERNAL"`)
		if log := r.log.String(); !strings.Contains(log, "disk on fire") || !strings.Contains(log, `"resource":"test://a"`) {
			t.Errorf("log: %s", log)
		}
		for i := range 8 { // 4 run and 4 wait
			r.send(readOf(i, "test://a"))
		}
		r.send(readOf(9, "test://b"))
		refused(`"id":9,"error":{"code":-32602,"message":"too many calls are waiting already"`, `"reason":"BUSY"`, `"retry_after_ms"`)
		for range 8 {
			r.next().end <- nil
		}
		if got := r.answers(); len(got) != 8 {
			t.Errorf("%d answers: %s", len(got), got)
		}
		r.nothingHeld()
	})
}

func TestTheParamsOfAReadAreStrict(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, params, faulty, why string }{
		{"none", ``, "params", "required"},
		{"empty", `{}`, "uri", "required"},
		{"only _meta", `{"_meta":{}}`, "uri", "required"},
		{"number", `{"uri":1}`, "uri", "another type"},
		{"null", `{"uri":null}`, "uri", "another type"},
		{"list", `{"uri":["test://a"]}`, "uri", "another type"},
		{"case variant", `{"URI":"test://a"}`, "params", "a decoder that folds would read it"},
		{"case variant beside it", `{"uri":"test://a","Uri":"test://b"}`, "params", "a decoder that folds would read the other"},
		{"unknown member", `{"uri":"test://a","EVIL":1}`, "params", "strict, as the params of tools/call are"},
		{"a call's members", `{"uri":"test://a","name":"tool"}`, "params", "of another method"},
		{"cursor", `{"uri":"test://a","cursor":"EVIL"}`, "params", "of another method"},
		{"_meta of another type", `{"_meta":[],"uri":"test://a"}`, "_meta", "an object in every method"},
		{"_meta behind", `{"uri":"test://a","_meta":null}`, "_meta", "members have no order"},
		{"_Meta", `{"uri":"test://a","_Meta":{}}`, "params", "a decoder that folds would read it"},
		{"as it should be", `{"uri":"test://a"}`, "", "the control"},
		{"with _meta", `{"_meta":{"progressToken":1},"uri":"test://a"}`, "", "hosts add it on their own"},
		{"with escapes", `{"\u0075ri":"test:\/\/\u0061"}`, "", "the same name and the same value"},
	}
	inBubbleWith(t, true, withResources, func(r *rig) {
		r.open()
		for _, c := range cases {
			line := `{"jsonrpc":"2.0","id":1,"method":"resources/read"}`
			if c.params != "" {
				line = request(1, "resources/read", c.params)
			}
			r.send(line)
			if c.faulty == "" {
				r.next().end <- nil
				r.expect(contents(1, "a"))
				continue
			}
			got := strings.Join(r.answers(), "\n")
			want := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Invalid params: %s","data":{`, c.faulty)
			document := fmt.Sprintf(`"detail":"the params of resources/read are a uri","code":"MCP_VALIDATION_ERROR",`+
				`"reason":"BAD_PARAM","invalid_params":["%s"]`, c.faulty)
			if !strings.HasPrefix(got, want) || !strings.Contains(got, document) || strings.Contains(got, "EVIL") {
				t.Errorf("%s: %s, want %s (%s)", c.name, got, want, c.why)
			}
		}
		if len(r.calls) != 0 {
			t.Error("a resource was reached")
		}
		r.nothingHeld()
	})
}

// The bytes of a text that nobody takes are given back when the session ends.
func TestTextsThatAreDroppedGiveTheirBytesBack(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, false, withResources, func(r *rig) {
		r.send(initialize("0"))
		if _, err := bufio.NewReader(r.out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		for i := range 3 { // the first is being written, the others wait
			r.send(readOf(i, "test://a"))
			r.next().end <- nil
			synctest.Wait()
		}
		if held, err := r.budget.Reserve(r.t.Context(), budgetBytes); err == nil { // the control
			held.Release()
			t.Error("texts that wait hold no bytes")
		}
		close(r.drain)
		r.endsAfter(grace+afterCancel, framing.ErrStuck)
		_ = r.out.Close()
		r.nothingHeld()
	})
}

func TestADrainTakesNoRead(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, true, withResources, func(r *rig) {
		r.open()
		r.send(readOf(1, "test://a"))
		a := r.next()
		close(r.drain)
		synctest.Wait()
		go func() { _, _ = io.WriteString(r.in, readOf(2, "test://b")+"\n") }() // may never be read
		time.Sleep(time.Second)
		a.end <- nil
		r.endsAfter(0, nil)
		r.expect(contents(1, "a"))
		if len(r.calls) != 0 {
			t.Error("a read was begun")
		}
	})
}
