package surface_test

import (
	"context"
	"fmt"
	"testing"

	"mcp-server-suite/pkg/contract"
	"mcp-server-suite/pkg/surface"
)

var server = surface.Server{Name: "mcp-server-suite", Version: "1"}

func complete(t *testing.T, name string) surface.Tool {
	t.Helper()
	schema, err := contract.NewSchema()
	if err != nil {
		t.Fatal(err)
	}
	return surface.Tool{
		Name: name, Title: "A tool", Description: "Does nothing.", Input: schema, Output: schema,
		ReplyBytes: func(contract.Values) int { return 0 },
		Run:        func(context.Context, contract.Values) (contract.Result, error) { return nil, nil },
	}
}

func offer(tools ...surface.Tool) surface.Offer { return surface.Offer{Tools: tools} }

func text(uri string) surface.Resource {
	return surface.Resource{
		URI: uri, Name: "text", Title: "A text", Description: "Says nothing.", MIMEType: "text/plain", ReplyBytes: 1,
		Read: func(context.Context) ([]byte, error) { return nil, nil },
	}
}

func TestToolsAreFoundByTheirExactName(t *testing.T) {
	s, err := surface.Seal(server, offer(complete(t, "b"), complete(t, "a_tool"), complete(t, "c")))
	if err != nil {
		t.Fatal(err)
	}
	for name, found := range map[string]bool{
		"a_tool": true, "b": true, "c": true,
		"": false, "A_TOOL": false, "a_tool ": false, "a_too": false, "a_tool\x00": false, "\u0430_tool": false,
	} {
		tool := s.Tool(name)
		if (tool != nil) != found || found && tool.Name != name {
			t.Errorf("Tool(%q) = %v", name, tool)
		}
	}
	if got := s.Server(); got != server {
		t.Errorf("Server() = %+v", got)
	}
}

func TestToolsStayInTheirOrder(t *testing.T) {
	s, err := surface.Seal(server, offer(complete(t, "z"), complete(t, "a"), complete(t, "m")))
	if err != nil {
		t.Fatal(err)
	}
	order := ""
	for _, tool := range s.Tools() {
		order += tool.Name
	}
	if order != "zam" {
		t.Errorf("order %q", order)
	}
}

func TestASealedSurfaceCannotBeChanged(t *testing.T) {
	given := []surface.Tool{complete(t, "a"), complete(t, "b")}
	s, err := surface.Seal(server, surface.Offer{Tools: given})
	if err != nil {
		t.Fatal(err)
	}
	given[0] = complete(t, "other")
	s.Tools()[1] = complete(t, "other")
	if got := s.Tools(); got[0].Name != "a" || got[1].Name != "b" || s.Tool("other") != nil || s.Tool("a").Name != "a" {
		t.Errorf("tools %v", got)
	}
}

func TestASurfaceWithoutToolsIsOne(t *testing.T) {
	s, err := surface.Seal(server, surface.Offer{})
	if err != nil || len(s.Tools()) != 0 || s.Tool("a") != nil || len(s.Resources()) != 0 || s.Resource("a:b") != nil {
		t.Errorf("%v, %v", s, err)
	}
}

func TestResourcesAreFoundByTheirExactURIAndStayInTheirOrder(t *testing.T) {
	given := []surface.Resource{text("z://schema"), text("a:b"), text("a://host/p?q=1#f")}
	s, err := surface.Seal(server, surface.Offer{Tools: []surface.Tool{complete(t, "a:b")}, Resources: given})
	if err != nil {
		t.Fatal(err)
	}
	for uri, found := range map[string]bool{
		"z://schema": true, "a:b": true, "a://host/p?q=1#f": true,
		"": false, "Z://schema": false, "z://schema/": false, "z://schem": false, "z://schema\x00": false, "z://%73chema": false,
		" z://schema": false, "a://host/p?q=1": false, "a": false,
	} {
		r := s.Resource(uri)
		if (r != nil) != found || found && r.URI != uri {
			t.Errorf("Resource(%q) = %v", uri, r)
		}
	}
	if s.Tool("z://schema") != nil || s.Tool("a:b") == nil {
		t.Error("tools and resources share their names")
	}
	given[0] = text("other:x")
	s.Resources()[1] = text("other:x")
	for i, want := range []string{"z://schema", "a:b", "a://host/p?q=1#f"} {
		if got := s.Resources()[i].URI; got != want {
			t.Errorf("resource %d is %q", i, got)
		}
	}
}

func TestIncompleteResourcesAreRefused(t *testing.T) {
	const incomplete, spelling = `resource "a:b" is not complete`, `resource %q: not an absolute URI in its own spelling`
	uri := func(uri string) surface.Resource { return text(uri) }
	change := func(f func(*surface.Resource)) surface.Resource {
		r := text("a:b")
		f(&r)
		return r
	}
	cases := []struct {
		name     string
		resource surface.Resource
		want     string
		why      string
	}{
		{"no name", change(func(r *surface.Resource) { r.Name = "" }), incomplete, "MCP requires it"},
		{"no title", change(func(r *surface.Resource) { r.Title = "" }), incomplete, ""},
		{"no description", change(func(r *surface.Resource) { r.Description = "" }), incomplete, "a model chooses by it"},
		{"no type", change(func(r *surface.Resource) { r.MIMEType = "" }), incomplete, "a client could not show it"},
		{"no size", change(func(r *surface.Resource) { r.ReplyBytes = 0 }), incomplete, "nothing would be reserved"},
		{"negative size", change(func(r *surface.Resource) { r.ReplyBytes = -1 }), incomplete, "the reservation would panic"},
		{"no work", change(func(r *surface.Resource) { r.Read = nil }), incomplete, ""},
		{"no URI", uri(""), fmt.Sprintf(spelling, ""), ""},
		{"no scheme", uri("schema"), fmt.Sprintf(spelling, "schema"), "MCP: a URI, no reference"},
		{"no URI at all", uri("a://[x"), fmt.Sprintf(spelling, "a://[x"), "the SDK would panic with it"},
		{"upper case", uri("A://b"), fmt.Sprintf(spelling, "A://b"), "a client that normalizes sends a://b"},
		{"beyond ASCII", uri("a://b/\u00e9"), fmt.Sprintf(spelling, "a://b/\u00e9"), "a client that normalizes sends %C3%A9"},
		{"beyond ASCII in an opaque part", uri("a:\u00e9"), fmt.Sprintf(spelling, "a:\u00e9"), "url.Parse leaves it alone"},
		{"quote in a query", uri("a://b?\""), fmt.Sprintf(spelling, "a://b?\""), "url.Parse leaves it alone"},
		{"space", uri("a://b/c d"), fmt.Sprintf(spelling, "a://b/c d"), "a client that normalizes sends %20"},
		{"control character", uri("a:b\n"), fmt.Sprintf(spelling, "a:b\n"), ""},
		{"twice", uri("first:x"), `resource "first:x" stands twice`, "one of them would never be read"},
		{"the control", uri("postgres://schema"), "", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, err := surface.Seal(server, surface.Offer{Resources: []surface.Resource{text("first:x"), c.resource}})
			if c.want == "" {
				if err != nil || s == nil {
					t.Errorf("%v, %v", s, err)
				}
				return
			}
			if err == nil || err.Error() != c.want || s != nil {
				t.Errorf("%v, %v, want %q %s", s, err, c.want, c.why)
			}
		})
	}
}

func TestIncompleteSurfacesAreRefused(t *testing.T) {
	change := func(f func(*surface.Tool)) []surface.Tool {
		tool := complete(t, "a_tool")
		f(&tool)
		return []surface.Tool{complete(t, "first"), tool}
	}
	cases := []struct {
		name   string
		server surface.Server
		tools  []surface.Tool
		want   string
		why    string
	}{
		{"no server name", surface.Server{Version: "1"}, nil, "the server needs a name and a version", "initialize answers with both"},
		{"no server version", surface.Server{Name: "a"}, nil, "the server needs a name and a version", "initialize answers with both"},
		{"no name", server, change(func(t *surface.Tool) { t.Name = "" }), `tool "" is not complete`, ""},
		{"no title", server, change(func(t *surface.Tool) { t.Title = "" }), `tool "a_tool" is not complete`, ""},
		{"no description", server, change(func(t *surface.Tool) { t.Description = "" }), `tool "a_tool" is not complete`, "a model chooses by it"},
		{"no input", server, change(func(t *surface.Tool) { t.Input = contract.Schema{} }), `tool "a_tool" is not complete`, "a zero schema publishes nothing"},
		{"no output", server, change(func(t *surface.Tool) { t.Output = contract.Schema{} }), `tool "a_tool" is not complete`, "a zero schema publishes nothing"},
		{"no size", server, change(func(t *surface.Tool) { t.ReplyBytes = nil }), `tool "a_tool" is not complete`, "nothing could be reserved"},
		{"no work", server, change(func(t *surface.Tool) { t.Run = nil }), `tool "a_tool" is not complete`, ""},
		{
			"input without a decoder", server, change(func(tool *surface.Tool) {
				tool.Input, _ = contract.NewSchema(contract.Number("share", ""))
			}), `tool a_tool: argument share: no decoder for its type`, "a call would panic",
		},
		{"name twice", server, []surface.Tool{complete(t, "a"), complete(t, "b"), complete(t, "a")}, `tool "a" stands twice`, "one of them would never run"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, err := surface.Seal(c.server, surface.Offer{Tools: c.tools})
			if err == nil || err.Error() != c.want || s != nil {
				t.Errorf("%v, %v, want %q %s", s, err, c.want, c.why)
			}
		})
	}
}

func TestAnnotationsAreThoseOfSeed000(t *testing.T) {
	want := surface.Annotations{ReadOnly: true, Destructive: false, Idempotent: true, OpenWorld: false}
	if surface.ToolAnnotations != want {
		t.Errorf("%+v", surface.ToolAnnotations)
	}
}
