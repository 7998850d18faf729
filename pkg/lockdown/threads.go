package lockdown

import "runtime"

// freshThreads is how many new threads try each door beside the one that asks.
const freshThreads = 2

// everywhere runs f on this thread and on new ones, at the same time so that no two are the same.
func everywhere(f func() error) error {
	n := fresh()
	results, ready, start := make(chan error, n), make(chan struct{}, n), make(chan struct{})
	for range n {
		go func() {
			runtime.LockOSThread() // without Unlock: the thread ends with the goroutine
			ready <- struct{}{}
			<-start
			results <- f()
		}()
	}
	for range n {
		<-ready
	}
	close(start)
	err := f()
	for range n {
		if other := <-results; err == nil {
			err = other // one is enough: what is open is open on all of them
		}
	}
	return err
}
