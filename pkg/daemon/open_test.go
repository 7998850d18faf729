package daemon_test

import (
	"io"
	"strings"
	"testing"

	"mcp-server-suite/pkg/config"
	"mcp-server-suite/pkg/daemon"
	"mcp-server-suite/pkg/lockdown"
)

// The directory was there when the configuration was checked, and is gone when it is opened.
func TestWhatCannotBeOpenedIsAnErrorThatNamesTheVariable(t *testing.T) {
	d, err := daemon.Open(config.Config{SafeDataDir: "/nonexistent/directory"}, lockdown.Cgroup{}, "0", io.Discard)
	if d != nil || err == nil || !strings.Contains(err.Error(), "MCP_SAFE_DATA_DIR") {
		t.Errorf("%v, %v", d, err)
	}
}
