package hostmetrics

import "golang.org/x/sys/unix"

// maxStatfsTries bounds the repeats after a signal: the Go runtime sends itself SIGURG, and a FUSE filesystem may answer
// EINTR to that (the reason for the same loop in package os).
const maxStatfsTries = 8

func readDisk(path string) (float64, Reason) {
	var s unix.Statfs_t
	err := error(unix.EINTR)
	for try := 0; try < maxStatfsTries && err == unix.EINTR; try++ {
		err = unix.Statfs(path, &s)
	}
	if err != nil {
		return 0, reasonOf(err)
	}
	return diskPercent(s.Blocks, s.Bfree, s.Bavail)
}

// diskPercent counts as df and psutil do: used / (used + available to users), so that 100 means that users get ENOSPC
// although root has a reserve. A filesystem without blocks (proc, cgroup) has no percentage; df prints a dash.
func diskPercent(blocks, free, available uint64) (float64, Reason) {
	used := rise(float64(free), float64(blocks))
	if int64(available) < 0 { // some filesystems report a reserve that is being used up as a negative number
		available = 0
	}
	total := used + float64(available)
	if total == 0 {
		return 0, NotPresent
	}
	return percent(used, total), known
}
