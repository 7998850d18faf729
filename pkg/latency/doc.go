// Package latency measures the daemon against bare Go programs over the same kind of pipes, in one run, and compares the
// figures with what the project promises (latency, CPU, throughput, start, memory).
//
// Milliseconds of two runs on a shared machine cannot be compared; ratios inside one run can. So the programs take turns:
// a round runs one block of calls on each, the order changes from round to round, every round gives one ratio, and the
// figure is the median of the ratios. A figure that misses its bound is a figure, not a failure.
//
// The bare programs are this program, started again:
//
//   - "--peer echo --answer-bytes N" reads a line, takes the digits behind "id": and writes a canned line of N bytes with
//     them in it, one write(2) a line. It parses nothing and checks nothing.
//   - "--peer file --file PATH" reads a line, takes the digits behind "id":, opens and reads PATH whole (os.ReadFile) and
//     writes the line that the daemon would answer, byte for byte, in one write(2): structuredContent, and the text
//     block with the same JSON escaped. It does not look at the request, has no path to resolve, no limit, no time-out and
//     no concurrency. It encodes with package strictjson, as the daemon does: what the ratio shows is the price of
//     dispatch, guards and sandbox, not of two encoders.
//   - "--peer sql --dsn-file PATH --connections N" reads a line, takes the digits behind "id": and the text behind "query":,
//     runs that text as it is on a connection of its own (pgconn's ExecParams, text format) and writes the rows in the
//     shape of the daemon's answer, in one write(2). Values stay the text that PostgreSQL sends, so its line has about the
//     length of the daemon's (an eighth more or less at most). There is no transaction, no policy, no session setting, no
//     limit and no time-out. With --serial the server gives it no parallel workers: the daemon forbids them.
//
// Queries are measured where there is a database (--dsn-file) that holds what readings.sql makes; without, the report says
// that they are not. A known text of 2,000 characters is compared with texts that were never seen, on one daemon: were it
// parsed again, the ratio would be 1. Peak memory is that of the daemon from its start on.
//
// What the lock-down costs is measured on one binary with other settings: the unlocked daemon (MCP_LANDLOCK=off,
// MCP_SECCOMP=off) against the locked one, reading a small file in a folder, and starting. Both begin themselves anew once
// and set the same limits; so the difference is Landlock, the filter and the proofs of both, and the re-exec counts in the
// start alone. The posture that each logs is held against its name first. "seccomp only" is the mode for kernels without
// Landlock: there is no openat2, so the folder is opened by a walk.
//
// Threads are counted while what is read is in the page cache, where 16 reads at once took up to 13. A read that waits
// for its storage takes a thread for as long. Measured with strace, which held up every pread64 for 150 ms: 25 threads
// for 16 reads, 26 with the opens held up as well; under RLIMIT_NPROC 16 the daemon then aborted ("pthread_create failed:
// Resource temporarily unavailable"). So the figure says that a process limit of 16 does for a tree in memory, not for
// any tree.
//
// The client is raw system calls on pipes of the kernel's default size; it looks at nothing but the newline, the length
// and the id of an answer. Between two calls it is busy with itself for a moment that is not timed, because that decides
// what the echo costs: see defaultPause. The figure without it is in the report too.
//
// Every answer must have the length of the first, which was looked at; so no refusal is timed as an answer. What is not
// measured here: containers, a client that parses, a database on another machine.
//
// Needs: the built programs, Landlock and seccomp for the locked one, a temporary folder, status in /proc of the programs
// that it starts, and for queries PostgreSQL. Who controls that server controls what the bare program and we read of it.
package latency
