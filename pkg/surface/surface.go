package surface

import (
	"context"
	"errors"
	"fmt"

	"mcp-server-suite/pkg/contract"
)

// Server is how this instance presents itself. Name and Version are required; Title and Instructions may be empty.
type Server struct {
	Name         string
	Title        string
	Version      string
	Instructions string
}

// Tool is one tool: what is published of it and what it does.
type Tool struct {
	Name        string
	Title       string
	Description string
	Input       contract.Schema
	Output      contract.Schema

	// ReplyBytes bounds from above, in bytes, what the result of these arguments takes in an answer, where it travels
	// twice: as structured content and once more inside a text block. contract.ReplyBytes computes it. So much is
	// reserved before Run begins; a result that takes more is a fault.
	ReplyBytes func(contract.Values) int

	// Run does the work. It returns a result, a *problem.Problem as a refusal, the context's error if it was told to
	// stop, or any other error as a fault. It must stop when the context ends.
	Run func(context.Context, contract.Values) (contract.Result, error)
}

// Annotations are the hints that every tool of this server carries (seed 000, tool contracts). They are the same for
// all because the server has no other kind of tool.
type Annotations struct {
	ReadOnly, Destructive, Idempotent, OpenWorld bool
}

// ToolAnnotations holds for every tool: it reads, destroys nothing, may be repeated and reaches no open world.
var ToolAnnotations = Annotations{ReadOnly: true, Destructive: false, Idempotent: true, OpenWorld: false}

// Surface is a sealed set of tools.
type Surface struct {
	server Server
	tools  []Tool
	byName map[string]*Tool
}

// Seal checks that every tool is complete and its name unique, and returns the surface.
func Seal(server Server, tools ...Tool) (*Surface, error) {
	if server.Name == "" || server.Version == "" {
		return nil, fmt.Errorf("the server needs a name and a version")
	}
	s := &Surface{server: server, tools: append([]Tool(nil), tools...), byName: make(map[string]*Tool, len(tools))}
	for i := range s.tools {
		t := &s.tools[i]
		if t.Name == "" || t.Title == "" || t.Description == "" || t.Run == nil || t.ReplyBytes == nil ||
			t.Input.JSON() == nil || t.Output.JSON() == nil {
			return nil, fmt.Errorf("tool %q is not complete", t.Name)
		}
		if err := errors.Join(t.Input.CheckArguments(), t.Output.CheckResult()); err != nil {
			return nil, fmt.Errorf("tool %s: %w", t.Name, err)
		}
		if s.byName[t.Name] != nil {
			return nil, fmt.Errorf("tool %q stands twice", t.Name)
		}
		s.byName[t.Name] = t
	}
	return s, nil
}

// Server is how the instance presents itself.
func (s *Surface) Server() Server { return s.server }

// Tools are the tools in the order in which they were given.
func (s *Surface) Tools() []Tool { return append([]Tool(nil), s.tools...) }

// Tool finds a tool by its exact name; nil if this surface has none of that name.
func (s *Surface) Tool(name string) *Tool { return s.byName[name] }
