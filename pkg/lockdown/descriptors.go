package lockdown

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// firstDescriptor is the one after the three streams.
const firstDescriptor = 3

// closeOnExec keeps stage 2 from inheriting anything but the streams and what is in keep. Linux before 5.11 has
// close_range(2) without the flag and says EINVAL; there each descriptor is marked by its number.
func closeOnExec(keep []int) error {
	err := unix.CloseRange(firstDescriptor, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if errors.Is(err, unix.EINVAL) {
		err = markEach()
	}
	if err != nil {
		return fmt.Errorf("mark descriptors close-on-exec: %w", err)
	}
	for _, fd := range keep {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("keep a descriptor: %w", err)
		}
	}
	return nil
}

func markEach() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < firstDescriptor {
			continue
		}
		// EBADF is the one that listed the folder.
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil && !errors.Is(err, unix.EBADF) {
			return err
		}
	}
	return nil
}

// inherited finds a descriptor that stage 1 would not have left: one above the streams that is neither an O_PATH pin nor
// the runtime's own. Without a domain the Go runtime holds the CPU limits of its control group open, for reading.
func inherited() error {
	folder := taskFolder + "/" + strconv.Itoa(os.Getpid()) + "/fd"
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("list descriptors: %w", err)
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < firstDescriptor || isCoverage(fd) {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil || flags&unix.O_PATH != 0 { // EBADF is the one that listed the folder
			continue
		}
		target, err := os.Readlink(folder + "/" + e.Name())
		limit := flags&unix.O_ACCMODE == unix.O_RDONLY && strings.HasPrefix(target, "/sys/fs/cgroup/")
		if err == nil && target != "anon_inode:[eventpoll]" && target != "anon_inode:[eventfd]" && !limit {
			return fmt.Errorf("descriptor %d was not left by stage 1", fd)
		}
	}
	return nil
}
