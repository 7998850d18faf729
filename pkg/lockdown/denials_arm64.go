package lockdown

// archDenials is for calls that only this architecture has. arm64 began with the newer forms.
func archDenials(func(name string, number uintptr, args ...uintptr) denial) []denial { return nil }
