package landlock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// rulesetBytes is how much of unix.LandlockRulesetAttr the kernel is shown: the fields that take rights away
// (handled_access_fs, handled_access_net, scoped), not the three behind them, which only silence log lines. A kernel
// that knows fewer fields accepts the rest when it is zero (copy_struct_from_user; measured on ABI 2, 6 and 7).
const rulesetBytes = 24

// ruleNetPort is LANDLOCK_RULE_NET_PORT, which x/sys does not have; nor has it the struct that belongs to it.
const ruleNetPort = 2

// netPort is struct landlock_net_port_attr.
type netPort struct {
	allowed uint64
	port    uint64
}

func kernelABI() (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(abi), nil // #nosec G115 -- a small number
}

// createRuleset returns a descriptor that the kernel has opened with O_CLOEXEC.
func createRuleset(m masks) (int, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: m.fs, Handled_access_net: m.net, Scoped: m.scope}
	// #nosec G103 -- the kernel reads rulesetBytes of attr during the call and keeps no pointer
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), rulesetBytes, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil // #nosec G115 -- a descriptor
}

// addPathRule hands over 16 bytes of which the kernel reads the first 12: its struct is packed, and up to there Go lays
// the fields out in the same way.
func addPathRule(ruleset int, allowed uint64, parent int) error {
	attr := unix.LandlockPathBeneathAttr{Allowed_access: allowed, Parent_fd: int32(parent)} // #nosec G115 -- a descriptor
	// #nosec G103 -- the kernel reads attr during the call and keeps no pointer
	return addRule(ruleset, unix.LANDLOCK_RULE_PATH_BENEATH, unsafe.Pointer(&attr))
}

func addPortRule(ruleset int, allowed uint64, port uint16) error {
	attr := netPort{allowed: allowed, port: uint64(port)}
	// #nosec G103 -- as above
	return addRule(ruleset, ruleNetPort, unsafe.Pointer(&attr))
}

func addRule(ruleset int, kind uintptr, attr unsafe.Pointer) error {
	// #nosec G115 -- a descriptor
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), kind, uintptr(attr), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func restrictSelf(ruleset int) error {
	_, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0) // #nosec G115 -- a descriptor
	if errno != 0 {
		return errno
	}
	return nil
}
