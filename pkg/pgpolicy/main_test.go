package pgpolicy

import (
	"os"
	"testing"

	"mcp-server-suite/pkg/pgstage"
)

// shapeVariable names a crash shape; the test binary then only parses that and exits.
const shapeVariable = "PGPOLICY_TEST_SHAPE"

// smallStack with the number of one of the worst shapes is the control of it.
const smallStack = "small stack "

func TestMain(m *testing.M) {
	switch name := os.Getenv(shapeVariable); name {
	case "":
	case "first thread":
		os.Exit(onTheFirstThread())
	case smallStack + "0", smallStack + "1":
		os.Exit(onASmallStack(worstShapes()[name[len(smallStack)]-'0']))
	default:
		os.Exit(parseShapes(name))
	}
	pgstage.Main(m)
}
