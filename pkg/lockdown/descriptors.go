package lockdown

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"

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
