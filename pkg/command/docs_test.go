package command_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"mcp-server-suite/pkg/config"
	"mcp-server-suite/pkg/hostmetrics"
	"mcp-server-suite/pkg/problem"
	"mcp-server-suite/pkg/sandboxfs"
	"mcp-server-suite/pkg/surface"
	"mcp-server-suite/pkg/tools"
)

// TestDocsTablesAreTheCode compares the tables of the README with the values they describe. UPDATE_GOLDEN=1 rewrites
// them.
func TestDocsTablesAreTheCode(t *testing.T) {
	const readme = "../../README.md"
	raw, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for name, table := range map[string]string{
		"settings": config.Markdown(), "reasons": reasons(), "codes": codes(), "tools": toolTable(t),
	} {
		begin, end := "<!-- "+name+":begin -->\n", "<!-- "+name+":end -->"
		head, rest, found := strings.Cut(text, begin)
		old, tail, closed := strings.Cut(rest, end)
		if !found || !closed {
			t.Errorf("README.md has no markers for %s", name)
			continue
		}
		if old != table && os.Getenv("UPDATE_GOLDEN") == "" {
			t.Errorf("README.md: the table of %s is not what the code says; run make golden", name)
		}
		text = head + begin + table + end + tail
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(readme, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func reasons() string {
	var b strings.Builder
	b.WriteString("| reason | code | retryable | meaning |\n|---|---|---|---|\n")
	for _, r := range problem.Table() {
		retry := "no"
		if r.Retryable {
			retry = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", r.Reason, r.Code, retry, r.Meaning)
	}
	return b.String()
}

func codes() string {
	var b strings.Builder
	b.WriteString("| code | type | status | JSON-RPC code | title |\n|---|---|---|---|---|\n")
	for _, c := range problem.Classes() {
		fmt.Fprintf(&b, "| `%s` | `%s` | %d | `%d` | %s |\n", c.Code, c.Type, c.Status, c.JSONRPC, c.Title)
	}
	return b.String()
}

func toolTable(t *testing.T) string {
	root, err := sandboxfs.Open(sandboxfs.Settings{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	read, err := tools.SandboxFSRead(root)
	if err != nil {
		t.Fatal(err)
	}
	host, err := hostmetrics.Open(hostmetrics.Settings{
		ProcRoot: "/proc", CgroupRoot: "/sys/fs/cgroup", DiskPath: "/", CPUSample: hostmetrics.MaxCPUSample,
	})
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := tools.SystemMetrics(host)
	if err != nil {
		t.Fatal(err)
	}
	sql, err := tools.ReadOnlySQL(nil, nil, 1) // its schemas need no database
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| tool | takes | gives | there when |\n|---|---|---|---|\n")
	for _, row := range []struct {
		tool surface.Tool
		when string
	}{{sql, "`MCP_SQL_DSN` or `MCP_SQL_DSN_FILE` is set"}, {read, "`MCP_SAFE_DATA_DIR` is set"}, {metrics, "`MCP_METRICS_ENABLED` is true"}} {
		var takes, gives []string
		for _, p := range row.tool.Input.Properties() {
			takes = append(takes, "`"+p.Name()+"`")
		}
		for _, p := range row.tool.Output.Properties() {
			gives = append(gives, "`"+p.Name()+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n",
			row.tool.Name, strings.Join(takes, ", "), strings.Join(gives, ", "), row.when)
	}
	return b.String()
}
