//go:build !lockdownhole

package landlock

import "testing"

func TestTheVariableForHolesMeansNothingInThisBuild(t *testing.T) {
	highest := needABI(t, 1)
	t.Setenv("MCP_TEST_HOLE", "landlock:read_file")
	r, err := New(highest)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }() // nothing depends on it
	if err := r.Confirm(); err != nil {
		t.Error(err)
	}
}
