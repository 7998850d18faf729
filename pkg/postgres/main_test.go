package postgres

import (
	"testing"

	"mcp-server-suite/pkg/pgstage"
)

func TestMain(m *testing.M) { pgstage.Main(m) }
