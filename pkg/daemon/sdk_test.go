package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-server-suite/pkg/rawclient"
	"mcp-server-suite/pkg/stage"
)

// The official client probes for the newest revision first (server/discover), falls back to initialize, and checks results
// against the published schemas.
func TestTheOfficialClientGetsAlong(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*rawclient.Patience)
	defer cancel()
	dir := stage.Dir(t)
	stage.File(t, dir, "a.txt", []byte("hello"))
	cmd := stage.Daemon(t, stage.Options{Tags: wiretest, Env: []string{"MCP_SAFE_DATA_DIR=" + dir, "MCP_MAX_CONCURRENT_TOOLS=1"}})
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	c, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	must(t, err)
	if got := c.InitializeResult(); got.ProtocolVersion != newest || got.ServerInfo.Name != "mcp-server-suite" || got.Instructions == "" {
		t.Errorf("%+v", got)
	}
	must(t, c.Ping(ctx, nil))
	var names []string
	for tool, err := range c.Tools(ctx, nil) {
		must(t, err)
		names = append(names, tool.Name)
		if tool.Annotations == nil || !tool.Annotations.ReadOnlyHint {
			t.Errorf("%s: %+v", tool.Name, tool.Annotations)
		}
	}
	if !slices.Equal(names, []string{"rows", "sandbox_fs_read", "system_metrics"}) {
		t.Errorf("tools %v", names)
	}
	r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "sandbox_fs_read", Arguments: map[string]any{"relative_path": "a.txt"}})
	must(t, err)
	structured, _ := r.StructuredContent.(map[string]any)
	text, _ := r.Content[0].(*mcp.TextContent)
	if r.IsError || structured["content"] != "hello" || text == nil || match(text.Text, mustJSON(structured)) != "" {
		t.Errorf("%+v", r)
	}
	r, err = c.CallTool(ctx, &mcp.CallToolParams{Name: "sandbox_fs_read", Arguments: map[string]any{"relative_path": "b.txt"}})
	must(t, err)
	text, _ = r.Content[0].(*mcp.TextContent)
	if !r.IsError || text == nil {
		t.Fatalf("%+v", r)
	}
	if doc, err := readDocument([]byte(text.Text)); err != nil || doc.Reason != "NOT_FOUND" {
		t.Errorf("%v: %+v", err, doc)
	}
	_, err = c.CallTool(ctx, &mcp.CallToolParams{Name: "no_such_tool"})
	var failure *jsonrpc.Error
	if !errors.As(err, &failure) || failure.Code != -32602 {
		t.Errorf("%v", err)
	} else if doc, err := readDocument(failure.Data); err != nil || doc.Reason != "UNKNOWN_NAME" {
		t.Errorf("%v: %s", err, failure.Data)
	}
	// A call that is given up lets the only slot go.
	short, giveUp := context.WithTimeout(ctx, settled)
	defer giveUp()
	slow := json.RawMessage(`{"sleep_ms":60000}`)
	if _, err := c.CallTool(short, &mcp.CallToolParams{Name: "rows", Arguments: slow}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if _, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "rows"}); err != nil {
		t.Error(err)
	}
	begin := time.Now()
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if state := cmd.ProcessState; state == nil || state.ExitCode() != 0 || time.Since(begin) > 4*time.Second {
		t.Errorf("ended as %v after %v", state, time.Since(begin))
	}
}
