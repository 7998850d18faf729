package latency

const help = `mcp-proof latency measures the daemon against bare Go programs over the same kind of pipes, and
says which of the project's promises about speed and memory are met on this machine.

Usage: mcp-proof latency [options]

  --quick            3 short rounds, about 15 s, instead of 12, about 75 s; twice that with SQL
  --rounds N         blocks of each program
  --block DURATION   length of one block, for example 350ms
  --pause DURATION   how long the client is busy with itself between two calls, not timed (20us)
  --only A,B         some measures only: call, call-tight, file-64k, file-1k, lock-down, in-flight,
                     start, idle, large, threads, sql-1, sql-50, sql-sum, sql-text, sql-flight,
                     sql-mixed, sql-value, sql-rows
  --dsn-file PATH    a file with the DSN of a database that holds what pkg/latency/readings.sql
                     makes, as that of make bench does; without it nothing named sql- is measured
  --calls N          queries of sql-mixed (100000)
  --json             everything that was measured, as one JSON object
  --daemon PATH      the daemon; default: mcp-server-suite beside this program
  --wiretest PATH    the daemon with the test tool rows (make wiretest builds it); default:
                     mcp-server-suite-wiretest beside this program

The programs take turns: a round runs one block of calls on each, the order changes from round to
round, each round gives one ratio, and the figure is the median of the ratios. Ratios inside one
run can be compared between machines and days; milliseconds cannot. lowest..highest tells how quiet
the machine was. Run by root, all programs become user 10001. What exactly the bare programs do is
in the package documentation: go doc ./pkg/latency

The daemon locks itself down when it starts. What that costs is measured on the same binary with
other settings, in turns too: the unlocked daemon has MCP_LANDLOCK=off and MCP_SECCOMP=off (it still
begins itself anew once, under its limits), "seccomp only" has MCP_LANDLOCK=off.

CPU time is that of the process's CPU clock (clock_getcpuclockid(3), nanoseconds): it counts threads
that have ended, and all of a program that replaces itself. RSS and peak RSS are VmRSS and VmHWM.
Threads are counted while all files are in memory; reads that wait for a disk take one thread each.

To see where the time goes, profile the daemon from outside; it has no profiling endpoint, and its
binary keeps the symbols that perf needs:

  mcp-proof latency --only call --rounds 1 --block 20s &
  perf record -e cpu-clock -F 999 -g -p "$(pgrep -f 'wiretest$')" -- sleep 10
  perf report --no-children

or profile one package from inside, where it has a benchmark: go test -bench . -cpuprofile cpu.prof

Exit codes: 0 measured, whatever the verdicts; 1 something could not be measured; 2 wrong usage.
`
