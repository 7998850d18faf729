//go:build wiretest

package tools

import (
	"context"
	"strconv"
	"strings"
	"time"

	"mcp-server-suite/pkg/contract"
	"mcp-server-suite/pkg/problem"
	"mcp-server-suite/pkg/surface"
)

// Bounds of the test tool: four times the largest frame, so that answers larger than any frame can be made too.
const (
	maxRowsBytes = 4 << 20
	maxSleepMS   = 60_000
	rowBytes     = 45 // of one row as JSON, about
)

// Extra are tools that only test builds have: rows, which answers with about size bytes after sleep_ms milliseconds and
// stops when it is cancelled.
func Extra() ([]surface.Tool, error) {
	input, err := contract.NewSchema(
		contract.Int("size", "About how many bytes of JSON to answer with.").Between(0, maxRowsBytes).Default(0),
		contract.Int("sleep_ms", "How long to wait before, in milliseconds.").Between(0, maxSleepMS).Default(0),
	)
	if err != nil {
		return nil, err
	}
	output, err := contract.NewSchema(
		contract.Array("rows", "", contract.Object("", "",
			contract.Int("id", ""),
			contract.String("name", ""),
			contract.Number("value", ""),
		)),
		contract.Int("row_count", ""),
	)
	if err != nil {
		return nil, err
	}
	return []surface.Tool{{
		Name:        "rows",
		Title:       "Rows for tests",
		Description: "Answers with rows of about the asked size after the asked time. Only in test builds.",
		Input:       input,
		Output:      output,
		ReplyBytes: func(v contract.Values) int {
			return contract.ReplyBytes(2*int(v.Int("size"))+4*rowBytes, 0)
		},
		Run: func(ctx context.Context, v contract.Values) (contract.Result, error) {
			if pause := v.Int("sleep_ms"); pause > 0 {
				select {
				case <-time.After(time.Duration(pause) * time.Millisecond):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			rows := make([]any, max(1, v.Int("size")/rowBytes))
			for i := range rows {
				rows[i] = contract.Result{
					{Name: "id", Value: int64(i + 1)},
					{Name: "name", Value: "customer-" + strconv.Itoa(100_000+i)},
					{Name: "value", Value: float64(i)*1.25 + 0.5},
				}
			}
			return contract.Result{
				{Name: "rows", Value: rows}, {Name: "row_count", Value: int64(len(rows))},
			}, nil
		},
	}}, nil
}

// ResourcesTitle is the server's title with which a test build offers its resources, too. With any other it has none,
// as the daemon without a database: its capabilities and methods are tested without.
const ResourcesTitle = "with resources"

// largeTextBytes is more than the largest frame that the daemon takes.
const largeTextBytes = 2 << 20

// ExtraResources are resources that only test builds have, for tests of what is done to a text on its way, of a read
// that only its cancel or deadline ends, of an answer that takes megabytes, and of a refusal.
func ExtraResources(title string) []surface.Resource {
	if title != ResourcesTitle {
		return nil
	}
	text := func(text string) func(context.Context) ([]byte, error) {
		return func(context.Context) ([]byte, error) { return []byte(text), nil }
	}
	resource := func(name, mimeType string, bytes int, read func(context.Context) ([]byte, error)) surface.Resource {
		return surface.Resource{
			URI: "test://" + name, Name: name, Title: "A text for tests", Description: "Only in test builds.",
			MIMEType: mimeType, ReplyBytes: bytes, Read: read,
		}
	}
	const foreign = "{\"caf\u00e9\":[\"\u65e5\",\"\U0001F600\"],\"n\":9007199254740993}\n"
	return []surface.Resource{
		resource("text", "application/json", 1<<10, text(foreign)),
		resource("slow", "text/plain", 1<<10, func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}),
		resource("large", "text/plain", largeTextBytes, text(strings.Repeat("x", largeTextBytes))),
		resource("refused", "text/plain", 1<<10, func(context.Context) ([]byte, error) {
			return nil, problem.New(problem.DBUnavailable, "the database cannot be reached")
		}),
	}
}
