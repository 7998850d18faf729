package lockdown

import (
	"fmt"
	"slices"

	"mcp-server-suite/pkg/seccomp"
)

// Fatal lists what ends a sealed process, for [TryFatal].
func Fatal() []string {
	var names []string
	for _, row := range seccomp.Table() {
		if _, here := seccomp.Number(row.Syscall, ""); here && row.Action == seccomp.Kill && !slices.Contains(names, row.Syscall) {
			names = append(names, row.Syscall)
		}
	}
	return append(names, foreign()...)
}

// TryFatal makes a call of the list, which ends the process by SIGSYS (exit code 159 in a shell). That it returns is the
// finding: with an error that says what the kernel answered instead. The arguments are 0, so that a call that is let
// through does nothing (fork and vfork aside, whose child ends at once with this process's work undone).
func TryFatal(name string) error {
	if try := foreignCall(name); try != nil {
		try()
		return fmt.Errorf("%s: the process is still there", name)
	}
	number, known := seccomp.Number(name, "")
	if !known || !slices.Contains(Fatal(), name) {
		return fmt.Errorf("%q is not in the list", name)
	}
	err := rawCall(uintptr(number))
	return fmt.Errorf("%s: the process is still there; the kernel said: %v", name, err)
}
