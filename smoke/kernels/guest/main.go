//go:build linux && amd64

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest: runs as process 1 of a virtual machine only; see smoke/smoke-kernels.sh --help")
		os.Exit(2)
	}
	report := &report{out: os.Stdout} // the kernel's console until there is something better
	if err := boot(report); err != nil {
		report.check("the guest starts", err, "")
	} else if words, err := expect(); err != nil {
		report.check("the guest knows what to expect", err, "")
	} else {
		words.run(report)
	}
	switchOff(report)
}

// expectation is what the host says of this kernel, on the kernel's command line.
type expectation struct {
	abi   int        // kt.abi=N: the ABI of Landlock; 0 if there is none
	errno unix.Errno // kt.abi=ENOSYS or EOPNOTSUPP: what the kernel answers instead
	quick bool       // kt.quick: without the test binaries
	fail  bool       // kt.fail: one check fails, for a host that wants to see it reported
}

func expect() (expectation, error) {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return expectation{}, fmt.Errorf("read the kernel's command line: %w", err)
	}
	var e expectation
	for word := range strings.FieldsSeq(string(line)) {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "kt.quick":
			e.quick = true
		case "kt.fail":
			e.fail = true
		case "kt.abi":
			switch value {
			case "ENOSYS":
				e.errno = unix.ENOSYS
			case "EOPNOTSUPP":
				e.errno = unix.EOPNOTSUPP
			default:
				if e.abi, err = strconv.Atoi(value); err != nil || e.abi < 1 {
					return expectation{}, fmt.Errorf("read kt.abi=%s: neither a version nor an errno", value)
				}
			}
		}
	}
	if e.abi == 0 && e.errno == 0 {
		return expectation{}, fmt.Errorf("read the kernel's command line: no kt.abi in %s", line)
	}
	return e, nil
}

// String is the expectation as the host has spelt it.
func (e expectation) String() string {
	if e.abi == 0 {
		if e.errno == unix.ENOSYS {
			return "no Landlock (ENOSYS, it was built without)"
		}
		return "no Landlock (EOPNOTSUPP, it was started without)" // ErrnoName says ENOTSUP, the same number
	}
	return "Landlock ABI " + strconv.Itoa(e.abi)
}
