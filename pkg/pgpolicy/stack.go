package pgpolicy

/*
#cgo CFLAGS: -std=gnu11 -Wall -Wextra
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#ifndef __GLIBC__
#error "glibc is needed: musl bounds the default size of a thread's stack at 8 MiB, where a query can end the process"
#endif

#define STACK_BYTES (64UL << 20)

// How far below its descriptor a thread of ours may already stand: static thread-local storage (under 10 KiB here) and
// the frames of Go's scheduler. What is further away, or above, is not the thread's own stack.
#define NEAR_TOP_BYTES (1UL << 20)

static pthread_t first_thread;

// Runs before main, and so before the Go runtime makes its threads: they get their stack's size from this default
// (runtime/cgo passes an attribute without one). It is a reservation of addresses; only touched pages take memory.
__attribute__((constructor)) static void pgpolicy_default_stack(void)
{
	pthread_attr_t attr;
	first_thread = pthread_self();
	if (pthread_attr_init(&attr) != 0)
		return; // pgpolicy_stack_state finds out
	if (pthread_attr_setstacksize(&attr, STACK_BYTES) == 0)
		(void)pthread_setattr_default_np(&attr);
	(void)pthread_attr_destroy(&attr);
}

enum { STACK_OK, STACK_FIRST_THREAD, STACK_SMALL, STACK_FOREIGN };

// pgpolicy_stack_state says whether this thread has the stack, without a system call. pthread_getattr_np would measure
// it, but asks sched_getaffinity on the way. Instead: every thread but the first was made after the constructor; the
// default that it was made with is still there; and this very frame lies just below the thread's descriptor, which
// glibc keeps at the upper end of the stack that it allocated. SelfTest measures once that the conclusion holds.
static int pgpolicy_stack_state(void)
{
	pthread_attr_t attr;
	size_t size = 0;
	if (pthread_equal(pthread_self(), first_thread))
		return STACK_FIRST_THREAD;
	if (pthread_getattr_default_np(&attr) != 0)
		return STACK_SMALL;
	if (pthread_attr_getstacksize(&attr, &size) != 0)
		size = 0;
	(void)pthread_attr_destroy(&attr);
	if (size < STACK_BYTES)
		return STACK_SMALL;
	uintptr_t top = (uintptr_t)pthread_self();
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	if (here >= top || top - here > NEAR_TOP_BYTES)
		return STACK_FOREIGN;
	return STACK_OK;
}

// pgpolicy_stack_bytes measures the stack of this thread; 0 if that fails.
static size_t pgpolicy_stack_bytes(void)
{
	pthread_attr_t attr;
	void *low = NULL;
	size_t size = 0;
	if (pthread_getattr_np(pthread_self(), &attr) != 0)
		return 0;
	if (pthread_attr_getstack(&attr, &low, &size) != 0)
		size = 0;
	(void)pthread_attr_destroy(&attr);
	return size;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
)

// StackBytes is the least stack of a thread that parses. Measured: 10,000 characters of the worst of 67 shapes need
// 51 MiB of memory all in all, and end in an error; with 8 MiB, six of the shapes end the process.
const StackBytes = C.STACK_BYTES

// onBigStack runs f on a thread whose stack has [StackBytes], and waits for it. The process's first thread has its
// stack from the kernel (RLIMIT_STACK), so f never runs there.
func onBigStack(f func() error) error {
	runtime.LockOSThread() // between the question and f, the goroutine must not move
	defer runtime.UnlockOSThread()
	switch C.pgpolicy_stack_state() {
	case C.STACK_OK:
		return f()
	case C.STACK_FIRST_THREAD:
		return elsewhere(func() error { return onBigStack(f) })
	case C.STACK_SMALL:
		return errors.New("check stack: new threads do not get 64 MiB")
	default:
		return errors.New("check stack: the frame is not where a thread's stack begins")
	}
}

// elsewhere runs f in another goroutine and waits. The caller keeps its thread locked, so that f gets another thread.
func elsewhere(f func() error) error {
	type end struct {
		err   error
		panic any
	}
	ended := make(chan end, 1)
	go func() {
		e := end{panic: errors.New("the goroutine was ended")}
		defer func() {
			if p := recover(); p != nil {
				e.panic = p
			}
			ended <- e
		}()
		e.err = f()
		e.panic = nil
	}()
	e := <-ended
	if e.panic != nil {
		panic(e.panic) // the caller's caller may know what to do about a bug; an unrecovered one would end the process
	}
	return e.err
}

// measureStack gives the real size of the stack that onBigStack offers, in bytes.
func measureStack() (size uint64, err error) {
	err = onBigStack(func() error {
		size = uint64(C.pgpolicy_stack_bytes())
		return nil
	})
	if err != nil {
		return 0, err
	}
	if size < StackBytes {
		return 0, fmt.Errorf("measure stack: %d bytes instead of %d", size, uint64(StackBytes))
	}
	return size, nil
}
