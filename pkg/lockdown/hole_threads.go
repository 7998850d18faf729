//go:build lockdownhole

package lockdown

import (
	"errors"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/seccomp"
)

// This file is in no program that is shipped (which has its unsafe in raw.go alone). It plants what only one of two
// guards can see, so that tests can show that each of them is there: a filter on one thread only, one with nothing in
// it, and one thread among many that is odd.

// load puts the filter on every thread, unless a hole is planted: "filter" loads nothing, "tsync" loads it on this
// thread alone, and "hollow" loads one on all of them that allows everything. With "hollow, probes" nothing tries it
// either.
func load(f *seccomp.Filter) error {
	switch {
	case leftOut("filter"):
		return nil
	case leftOut("tsync"):
		return install(f.Program(), 0)
	case leftOut("hollow"), leftOut("hollow, probes"):
		allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
		return install([]unix.SockFilter{allow}, unix.SECCOMP_FILTER_FLAG_TSYNC)
	}
	return f.Load()
}

func install(program []unix.SockFilter, flags uintptr) error {
	// #nosec G115 -- a compiled filter has some hundred instructions, at most BPF_MAXINSNS
	head := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	// #nosec G103 -- the kernel reads the program during the call and keeps no pointer
	got, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&head)))
	switch {
	case errno != 0:
		return errno
	case got != 0:
		return errors.New("a thread has another filter") // TSYNC returns its number
	}
	return nil
}

// elsewhere returns an f that is answered as ever on the thread that calls elsewhere, and on all fresh ones but the
// last, as many as there have to be. With the hole "door elsewhere" the last one's connect(2) pretends to have connected.
// Once the filter is loaded no thread can be made odd any more: with "denial elsewhere" the error itself is planted.
func elsewhere(what string, f func() error) func() error {
	if !leftOut(what + " elsewhere") {
		return f
	}
	runtime.LockOSThread() // for good: f shall be called on the thread that is named here
	here := unix.Gettid()
	var others atomic.Int64
	return func() error {
		if unix.Gettid() == here || others.Add(1) != int64(fresh()) {
			return f()
		}
		if what != "door" {
			return errors.New("planted on another thread")
		}
		if err := install([]unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CONNECT, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO}, // errno 0
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}, 0); err != nil {
			return err
		}
		return f()
	}
}
