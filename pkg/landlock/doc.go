// Package landlock knows the rights that Landlock can take away, by the ABI that first has them, and takes away all
// that a given ABI has.
//
// [Rights] is the table. [New] makes a ruleset that handles every row up to an ABI, AllowPath and AllowConnectTCP say
// what stays, [Ruleset.Confirm] asks the kernel whether it understood, and [Ruleset.RestrictThread] makes it hold, for
// good, for the calling thread and what it starts. [ABI] says what the kernel has; the caller uses the smaller one of
// that, [KnownABI] and a limit of its own.
//
// What it does not do: it chooses no paths and no ports, sets no no_new_privs, restricts no other thread (the caller
// executes itself again) and never tries to do with less: what the ABI should have and the kernel refuses is an error.
// Confirm cannot ask about scopes, nor can anything here tell whether the restriction holds in the end: an outer
// seccomp filter may answer 0 for landlock_restrict_self and do nothing. Only trying the forbidden things tells.
//
// What Landlock itself leaves, measured on 6.18.44 (ABI 7) with everything handled and nothing allowed: stat, access,
// chmod, chown, utimes, setxattr, chdir and O_PATH opens of any path; whatever an open descriptor can do; what no path
// leads to (memfd, pipes); and three ways around the ports. A socket of IPPROTO_MPTCP connects to any TCP port, and a
// socket that listen is called on without bind listens, on a port of the kernel's choice (both so on 6.12.117 and 7.3.4
// as well). sendto with MSG_FASTOPEN connects a TCP socket (no longer on those two). All this is for a system call
// filter to refuse.
//
// Needs: landlock_create_ruleset, landlock_add_rule and landlock_restrict_self, fstat and close; for AllowPath open
// descriptors. No /proc. An attacker controls nothing here: all of it runs before the first byte is read.
package landlock
