package latency

const help = `mcp-proof latency measures the daemon against bare Go programs over the same kind of pipes, and
says which of the project's promises about speed and memory are met on this machine.

Usage: mcp-proof latency [options]

  --quick            3 short rounds, about 10 s, instead of 15, about 60 s
  --rounds N         blocks of each program
  --block DURATION   length of one block, for example 350ms
  --pause DURATION   how long the client is busy with itself between two calls, not timed (20us)
  --only A,B         some measures only: call, call-tight, file-64k, file-1k, in-flight, start,
                     idle, large
  --json             everything that was measured, as one JSON object
  --daemon PATH      the daemon; default: mcp-server-suite beside this program
  --wiretest PATH    the daemon with the test tool rows (make wiretest builds it); default:
                     mcp-server-suite-wiretest beside this program

The programs take turns: a round runs one block of calls on each, the order changes from round to
round, each round gives one ratio, and the figure is the median of the ratios. Ratios inside one
run can be compared between machines and days; milliseconds cannot. lowest..highest tells how quiet
the machine was. Run by root, all programs become user 10001. What exactly the bare programs do is
in the package documentation: go doc ./pkg/latency

CPU time is the kernel's account of each thread (schedstat, nanoseconds), checked against that of
the process (stat, 10 ms). RSS and peak RSS are VmRSS and VmHWM.

To see where the time goes, profile the daemon from outside; it has no profiling endpoint, and its
binary keeps the symbols that perf needs:

  mcp-proof latency --only call --rounds 1 --block 20s &
  perf record -e cpu-clock -F 999 -g -p "$(pgrep -f 'wiretest$')" -- sleep 10
  perf report --no-children

or profile one package from inside, where it has a benchmark: go test -bench . -cpuprofile cpu.prof

Exit codes: 0 measured, whatever the verdicts; 1 something could not be measured; 2 wrong usage.
`
