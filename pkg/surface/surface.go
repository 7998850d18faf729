package surface

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

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

// Resource is one text that clients can read by its URI: what is published of it and where the text comes from.
type Resource struct {
	URI         string // absolute (RFC 3986), in ASCII; a read must give it byte for byte
	Name        string
	Title       string
	Description string
	MIMEType    string

	// ReplyBytes bounds from above, in bytes, what the text takes in an answer, where it travels once, escaped into a
	// string: at worst six bytes for each, two for each of JSON in ASCII. So much is reserved before Read begins; a text
	// that takes more is a fault.
	ReplyBytes int

	// Read gives the whole text, whose bytes belong to the caller from then on; those that are not UTF-8 become U+FFFD.
	// It returns a *problem.Problem as a refusal, the context's error if it was told to stop, or any other error as a
	// fault. It must stop when the context ends.
	Read func(context.Context) (text []byte, err error)
}

// Offer is what an instance offers, in the order in which clients get to see it.
type Offer struct {
	Tools     []Tool
	Resources []Resource
}

// Surface is a sealed offer.
type Surface struct {
	server Server
	offer  Offer
	byName map[string]*Tool
	byURI  map[string]*Resource
}

// Seal checks that every tool and resource is complete and its name or URI unique, and returns the surface.
func Seal(server Server, o Offer) (*Surface, error) {
	if server.Name == "" || server.Version == "" {
		return nil, fmt.Errorf("the server needs a name and a version")
	}
	s := &Surface{
		server: server, offer: Offer{slices.Clone(o.Tools), slices.Clone(o.Resources)},
		byName: make(map[string]*Tool, len(o.Tools)), byURI: make(map[string]*Resource, len(o.Resources)),
	}
	for i := range s.offer.Tools {
		t := &s.offer.Tools[i]
		if err := t.check(); err != nil {
			return nil, err
		}
		if s.byName[t.Name] != nil {
			return nil, fmt.Errorf("tool %q stands twice", t.Name)
		}
		s.byName[t.Name] = t
	}
	for i := range s.offer.Resources {
		r := &s.offer.Resources[i]
		if err := r.check(); err != nil {
			return nil, err
		}
		if s.byURI[r.URI] != nil {
			return nil, fmt.Errorf("resource %q stands twice", r.URI)
		}
		s.byURI[r.URI] = r
	}
	return s, nil
}

func (t *Tool) check() error {
	if t.Name == "" || t.Title == "" || t.Description == "" || t.Run == nil || t.ReplyBytes == nil ||
		t.Input.JSON() == nil || t.Output.JSON() == nil {
		return fmt.Errorf("tool %q is not complete", t.Name)
	}
	if err := errors.Join(t.Input.CheckArguments(), t.Output.CheckResult()); err != nil {
		return fmt.Errorf("tool %s: %w", t.Name, err)
	}
	return nil
}

func (r *Resource) check() error {
	if r.Name == "" || r.Title == "" || r.Description == "" || r.MIMEType == "" || r.Read == nil || r.ReplyBytes <= 0 {
		return fmt.Errorf("resource %q is not complete", r.URI)
	}
	// Clients compare and send it back; a spelling that one of them would change could never be read again.
	u, err := url.Parse(r.URI)
	if err != nil || !u.IsAbs() || u.String() != r.URI || strings.ContainsFunc(r.URI, isNoURI) {
		return fmt.Errorf("resource %q: not an absolute URI in its own spelling", r.URI)
	}
	return nil
}

// isNoURI tells the characters that url.Parse lets stand in an opaque part or a query and RFC 3986 does not.
func isNoURI(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune("\"<>\\^`{|}", c) }

// Server is how the instance presents itself.
func (s *Surface) Server() Server { return s.server }

// Tools are the tools in the order in which they were given.
func (s *Surface) Tools() []Tool { return slices.Clone(s.offer.Tools) }

// Tool finds a tool by its exact name; nil if this surface has none of that name.
func (s *Surface) Tool(name string) *Tool { return s.byName[name] }

// Resources are the resources in the order in which they were given.
func (s *Surface) Resources() []Resource { return slices.Clone(s.offer.Resources) }

// Resource finds a resource by its exact URI; nil if this surface has none of that URI.
func (s *Surface) Resource(uri string) *Resource { return s.byURI[uri] }
