// Package seccomp is the table of system calls that the daemon may make, compiled by libseccomp to a filter, and the
// proof that the compiled filter says what the table says.
//
// [Table] is the policy, one row for each thing that is allowed, killed or answered in a special way, with its
// reason. [Compile] gives the rows to libseccomp, takes the program back that the kernel would get, and runs it in an
// interpreter of its own against what the table says, before anything is loaded; one difference is an error that
// names the row. [Filter.Load] puts the program on every thread of the process, for good. [Filter.Decide] asks the
// same program what would happen to a call. [OCI] writes the wider outer wall for a container runtime.
//
// It does not decide which profiles are needed, it does not look at the threads after loading (the caller reads
// Seccomp_filters in each /proc/self/task/*/status), and it knows nothing of Landlock. A system call filter sees
// numbers, never memory: what a path or a structure says is not its business, so openat2 is all or nothing.
//
// Needs: libseccomp, Linux 4.14 (SECCOMP_RET_KILL_PROCESS) with seccomp(2) itself not denied; pipe2(2) while
// compiling. An attacker controls, once it runs code in the process, every number and argument of every call.
package seccomp
