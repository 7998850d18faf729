package rawclient

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Figures are what the kernel says about a running program.
type Figures struct {
	PeakRSSBytes int // VmHWM: the most memory that was resident at once
	RSSBytes     int // VmRSS
	Threads      int
	Descriptors  int
}

// Figures reads /proc/PID/status and /proc/PID/fd (proc(5)). The program must still run.
func (c *Client) Figures() (Figures, error) {
	folder := fmt.Sprintf("/proc/%d/", c.PID())
	status, err := os.ReadFile(folder + "status")
	if err != nil {
		return Figures{}, err
	}
	descriptors, err := os.ReadDir(folder + "fd")
	if err != nil {
		return Figures{}, err
	}
	f := Figures{Descriptors: len(descriptors)}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		number, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			continue // not one of ours
		}
		switch name {
		case "VmHWM":
			f.PeakRSSBytes = n << 10
		case "VmRSS":
			f.RSSBytes = n << 10
		case "Threads":
			f.Threads = n
		}
	}
	if f.PeakRSSBytes == 0 || f.Threads == 0 {
		return Figures{}, fmt.Errorf("%sstatus lacks VmHWM or Threads: the program has ended", folder)
	}
	return f, nil
}
