package lockdown

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// This is the only file of the package with unsafe: bare system calls with pointers, to try what has no wrapper.

const at = ^uintptr(99) // AT_FDCWD, -100

func pointer(b *byte) uintptr { return uintptr(unsafe.Pointer(b)) }

// rawCall makes a system call. Missing arguments are 0.
func rawCall(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

// setThreadName names the calling thread, 15 bytes at most (PR_SET_NAME(2const)).
func setThreadName(name *byte) error {
	return unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)), 0, 0, 0)
}
