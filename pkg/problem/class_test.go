package problem

import "testing"

// The table test holds that every row has a class, so from outside this cannot be reached.
func TestACodeOutsideTheListIsABug(t *testing.T) {
	defer func() {
		if cause := recover(); cause != "problem: code without a class: NEW" {
			t.Errorf("recovered %v", cause)
		}
	}()
	Code("NEW").class()
}
