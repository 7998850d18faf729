// Package lockdown takes the process's own rights away and proves that they are gone.
//
// It happens in two stages, because landlock_restrict_self(2) binds the calling thread only, and a Go program has other
// threads before main begins (measured: 80 of 81 threads stayed free). Stage 1 puts the Landlock domain on one thread
// and replaces the program with itself from there; every thread of stage 2 is then born inside the domain. Stage 2
// proves that, opens what it serves ([Confined] is its licence to do so), and [Confined.Seal] installs the system-call
// filter, holds every thread against it, tries what must be denied, and says what it found: the [Posture].
//
// Nothing here is best effort. A layer that cannot be had is a [Fault] that names the layer and the one setting that
// does without it.
//
// It does not decide what is needed (the Plan does) and knows no tool, no protocol and no setting but the names of its
// opt-outs. What it does not cover is in SECURITY.md.
//
// Needs: /proc, and a kernel with seccomp filters; Landlock unless the Plan says otherwise.
//
// An attacker controls nothing yet: not a byte from outside is read before Seal has returned.
package lockdown
