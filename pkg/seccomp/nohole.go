//go:build !lockdownhole

package seccomp

// plantedHole is that nothing is left out.
func plantedHole() hole { return hole{} }
