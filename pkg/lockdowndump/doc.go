// Package lockdowndump prints what the daemon's lock-down consists of: the table of system calls with the reason of each
// row, the filter that it compiles to, the rights of Landlock by ABI, and a seccomp profile for the container runtime. It
// is for a reviewer, who reads it, and for a pipeline, which keeps it and compares.
//
// It prints what this build would use; that a running daemon uses it is the affair of its posture and of /proc.
package lockdowndump
