//go:build !wiretest

package tools

import "mcp-server-suite/pkg/surface"

// Extra are tools that only test builds have: none.
func Extra() ([]surface.Tool, error) { return nil, nil }

// ExtraResources are resources that only test builds have: none.
func ExtraResources(string) []surface.Resource { return nil }
