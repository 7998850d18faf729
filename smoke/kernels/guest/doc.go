//go:build linux && amd64

// Command guest is process 1 of a virtual machine that runs another kernel. It mounts what a container would find
// mounted, runs the locked daemon and its tests as they are shipped, compares what they say with what the host expects
// of this kernel, and switches the machine off with a verdict.
//
// It decides nothing about kernels: the expectation comes from the host on the kernel's command line (see expect), so
// that a kernel which is not the one that was meant is a failure and not another expectation. It builds nothing; the
// initrd (smoke/smoke-kernels.sh) holds everything.
//
// Needs: to be process 1 of a Linux machine with a second serial port and QEMU's isa-debug-exit at port 0xf4. Nothing
// here is in the hands of an attacker: whatever it reads was built a minute before.
package main
