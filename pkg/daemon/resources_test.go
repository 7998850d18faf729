package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-server-suite/pkg/rawclient"
	"mcp-server-suite/pkg/stage"
)

// withResources is what makes the wiretest daemon offer its resources (pkg/tools/rows.go).
const withResources = "MCP_SERVER_TITLE=with resources"

func TestTheOfficialClientReadsResources(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*rawclient.Patience)
	defer cancel()
	cmd := stage.Daemon(t, stage.Options{Tags: wiretest, Env: []string{withResources, "MCP_MAX_CONCURRENT_TOOLS=1"}})
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	must(t, err)
	defer func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	if r := c.InitializeResult().Capabilities.Resources; r == nil || r.Subscribe || r.ListChanged {
		t.Errorf("capability %+v", r)
	}
	var uris []string
	for r, err := range c.Resources(ctx, nil) {
		must(t, err)
		uris = append(uris, r.URI)
		if r.Name == "" || r.Title == "" || r.Description == "" || r.MIMEType == "" {
			t.Errorf("%+v", r)
		}
	}
	if !slices.Equal(uris, []string{"test://large", "test://refused", "test://slow", "test://text"}) {
		t.Errorf("resources %v", uris)
	}
	for template, err := range c.ResourceTemplates(ctx, nil) {
		t.Errorf("a template: %+v, %v", template, err)
	}
	read := func(ctx context.Context, uri string) (string, error) {
		r, err := c.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
		if err != nil {
			return "", err
		}
		if len(r.Contents) != 1 || r.Contents[0].URI != uri || r.Contents[0].MIMEType == "" || r.Contents[0].Blob != nil {
			t.Errorf("%s: %+v", uri, r)
		}
		return r.Contents[0].Text, nil
	}
	// A read that is given up lets the only slot go.
	short, giveUp := context.WithTimeout(ctx, settled)
	defer giveUp()
	if _, err := read(short, "test://slow"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	const text = "{\"caf\u00e9\":[\"\u65e5\",\"\U0001F600\"],\"n\":9007199254740993}\n"
	if got, err := read(ctx, "test://text"); err != nil || got != text {
		t.Errorf("%q, %v", got, err)
	}
	for uri, reason := range map[string]string{"test://refused": "DB_UNAVAILABLE", "test://none": "UNKNOWN_NAME", "rows": "UNKNOWN_NAME"} {
		_, err := read(ctx, uri)
		var failure *jsonrpc.Error
		if !errors.As(err, &failure) || failure.Code != -32602 {
			t.Errorf("%s: %v", uri, err)
		} else if doc, err := readDocument(failure.Data); err != nil || doc.Reason != reason {
			t.Errorf("%s: %v: %s", uri, err, failure.Data)
		}
	}
}

// In every revision that initialize agrees on, the capability is there with the resources and not without.
func TestResourcesAreAnnouncedWhereTheyAre(t *testing.T) {
	t.Parallel()
	for _, env := range []string{withResources, "MCP_SERVER_TITLE=without"} {
		for _, version := range []string{newest, "2025-06-18", "2025-03-26", "2024-11-05"} {
			s := start(t, env)
			got, offers := string(s.handshake(version)), env == withResources
			if strings.Contains(got, `"capabilities":{"resources":{},"tools":{}}`) != offers || strings.Contains(got, "resources\":") != offers {
				t.Errorf("%s in %s: %s", env, version, got)
			}
			a, err := s.Call("resources/list", "")
			if err != nil || (a.Error == nil) != offers || a.Error != nil && a.Error.Code != -32601 {
				t.Errorf("%s in %s: %+v, %v", env, version, a, err)
			}
			if strings.Contains(string(a.Result), "ttlMs") || strings.Contains(string(a.Result), "cacheScope") {
				t.Errorf("members of a later revision in %s: %s", version, a.Result)
			}
		}
	}
}

// Texts of 2 MiB, more of them than the budget of reply bytes holds at once: all come whole, one after the other, because
// the bytes of those that are written come back.
func TestLargeTextsComeWholeAndGiveTheirBytesBack(t *testing.T) {
	t.Parallel()
	s := open(t, withResources)
	const count = 100
	for id := range count {
		s.request(id+1, "resources/read", `{"uri":"test://large"}`)
		if id%4 != 3 { // some in flight together, never more than may wait
			continue
		}
		for i := id - 3; i <= id; i++ {
			a := s.await(i + 1)
			if a.Error != nil {
				t.Fatalf("read %d: %+v", i, a.Error)
			}
			if n := len(a.Result); n < 2<<20 || n > 2<<20+200 {
				t.Fatalf("read %d: %d bytes", i, n)
			}
		}
	}
	if got := s.call("rows", `{"size":1000}`); got.reason() != "" {
		t.Errorf("a call afterwards: %s", got.reason())
	}
}

// A read that runs is told to stop when the session's grace is over, like a call, and gets no answer.
func TestAReadInFlightDoesNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	s := launch(t, stage.Daemon(t, stage.Options{Tags: wiretest, Env: []string{withResources}}))
	s.handshake(newest)
	s.request(1, "resources/read", `{"uri":"test://slow"}`)
	s.ping()
	if err := s.CloseInput(); err != nil {
		t.Fatal(err)
	}
	if e := s.wait(); e.Code != 0 {
		t.Errorf("exit %d: %s", e.Code, s.Stderr())
	}
	if rest := s.rest(); len(rest) != 0 {
		t.Errorf("an answer: %.200s", fmt.Sprint(rest))
	}
}
