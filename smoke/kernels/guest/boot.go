//go:build linux && amd64

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// boot makes the machine habitable and turns the report to the second serial port.
func boot(r *report) error {
	for _, m := range []struct{ kind, at, options string }{
		{"proc", "/proc", ""},
		{"sysfs", "/sys", ""},
		{"securityfs", "/sys/kernel/security", ""},
		{"cgroup2", "/sys/fs/cgroup", ""},
		{"devtmpfs", "/dev", ""},
		{"devpts", "/dev/pts", "mode=620,ptmxmode=666"}, // a test starts the daemon on a terminal
		{"tmpfs", "/tmp", "mode=1777"},
	} {
		// securityfs and cgroup2 bring their mount points along; the others must be made.
		if err := os.Mkdir(m.at, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("make the mount point: %w", err)
		}
		if err := unix.Mount(m.kind, m.at, m.kind, unix.MS_NOSUID, m.options); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.at, err)
		}
	}
	// The first port is the kernel's console. It has its own things to say while we report, and when the machine stops.
	port, err := os.OpenFile("/dev/ttyS1", os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return fmt.Errorf("open the second serial port: %w", err)
	}
	fd := int(port.Fd())
	settings, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err == nil {
		settings.Oflag &^= unix.OPOST // no carriage returns
		err = unix.IoctlSetTermios(fd, unix.TCSETS, settings)
	}
	if err != nil {
		return fmt.Errorf("set up the second serial port: %w", err)
	}
	r.out = port
	return loopback()
}

// loopback brings lo up: nobody has, and a connection would fail for that reason instead of the one that is tested.
func loopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket for lo: %w", err)
	}
	defer func() { _ = unix.Close(s) }()
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("name lo: %w", err)
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	return nil
}

// The debug device ends QEMU with twice the written value plus one: 33 and 35. A kernel panic, a missing process 1 and
// an ordinary power-off all end it with 0 (measured), which must therefore never mean that all is well.
const (
	debugPort     = 0xf4
	verdictPassed = 0x10
	verdictFailed = 0x11
)

// outb writes to a port. Debian's kernels have no /dev/port.
func outb(port uint16, value uint8)

// switchOff writes the last line and ends the machine. It does not return.
func switchOff(r *report) {
	r.end()
	if port, ok := r.out.(*os.File); ok {
		_ = unix.IoctlSetInt(int(port.Fd()), unix.TCSBRK, 1) // drained or not, the end comes; the host counts the lines
	}
	verdict := uint8(verdictPassed)
	if r.failed > 0 {
		verdict = verdictFailed
	}
	runtime.LockOSThread() // ioperm is per thread
	if _, _, errno := unix.Syscall(unix.SYS_IOPERM, debugPort, 1, 1); errno == 0 {
		outb(debugPort, verdict)
	}
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) // without the debug device: the host takes its 0 for a failure
	select {}
}
