//go:build lockdownhole

package landlock

import (
	"fmt"
	"testing"
)

// Runs only with `go test -tags lockdownhole`.
func TestTheVariablePlantsAHole(t *testing.T) {
	highest := needABI(t, 1)
	for _, right := range Handled(highest) {
		t.Setenv(holeVariable, "landlock:"+right.Name)
		r, err := New(highest)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("confirm landlock ruleset for abi %d: %s is not handled", highest, right.Name)
		if right.Kind == KindScope {
			want = "<nil>"
		}
		if err := r.Confirm(); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
