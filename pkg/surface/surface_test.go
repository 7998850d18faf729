package surface_test

import (
	"context"
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

func TestToolsAreFoundByTheirExactName(t *testing.T) {
	s, err := surface.Seal(server, complete(t, "b"), complete(t, "a_tool"), complete(t, "c"))
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
	s, err := surface.Seal(server, complete(t, "z"), complete(t, "a"), complete(t, "m"))
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
	s, err := surface.Seal(server, given...)
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
	s, err := surface.Seal(server)
	if err != nil || len(s.Tools()) != 0 || s.Tool("a") != nil {
		t.Errorf("%v, %v", s, err)
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
		{"name twice", server, []surface.Tool{complete(t, "a"), complete(t, "b"), complete(t, "a")}, `tool "a" stands twice`, "one of them would never run"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, err := surface.Seal(c.server, c.tools...)
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
