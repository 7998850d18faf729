package lockdown

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// status is what proc_pid_status(5) says of one thread.
type status struct {
	uid, gid                                               [4]int // real, effective, saved, file system
	effective, permitted, inheritable, ambient, boundaries uint64 // capability sets
	noNewPrivs, seccomp, filters                           int    // -1 where the kernel does not say
	tracer                                                 int    // process id of who traces it, or 0
}

// maxStatusBytes bounds one read; a status file has about 1.5 KiB.
const maxStatusBytes = 16 << 10

func readStatus(path string) (status, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return status{}, fmt.Errorf("open status: %w", err)
	}
	defer unix.Close(fd)
	text := make([]byte, 0, maxStatusBytes)
	for len(text) < cap(text) {
		n, err := unix.Read(fd, text[len(text):cap(text)])
		if err == unix.EINTR {
			// coverage: procfs does not wait, so no signal interrupts it; read(2) may say so all the same
			continue
		}
		if err != nil {
			return status{}, fmt.Errorf("read status: %w", err)
		}
		if n == 0 {
			break
		}
		text = text[:len(text)+n]
	}
	return parseStatus(text)
}

func parseStatus(text []byte) (status, error) {
	s := status{noNewPrivs: -1, seccomp: -1, filters: -1}
	need := map[string]bool{"Uid": true, "Gid": true, "CapEff": true, "CapPrm": true} // every kernel has these
	for line := range bytes.Lines(text) {
		name, value, _ := strings.Cut(string(line), ":")
		fields := strings.Fields(value)
		var err error
		switch name {
		case "Uid":
			err = s.ids(&s.uid, fields)
		case "Gid":
			err = s.ids(&s.gid, fields)
		case "CapEff":
			err = set(&s.effective, fields)
		case "CapPrm":
			err = set(&s.permitted, fields)
		case "CapInh":
			err = set(&s.inheritable, fields)
		case "CapAmb":
			err = set(&s.ambient, fields)
		case "CapBnd":
			err = set(&s.boundaries, fields)
		case "TracerPid":
			err = number(&s.tracer, fields)
		case "NoNewPrivs":
			err = number(&s.noNewPrivs, fields)
		case "Seccomp":
			err = number(&s.seccomp, fields)
		case "Seccomp_filters":
			err = number(&s.filters, fields)
		default:
			continue
		}
		if err != nil {
			return status{}, fmt.Errorf("parse status, %s: %w", name, err)
		}
		delete(need, name)
	}
	if len(need) > 0 {
		return status{}, fmt.Errorf("parse status: %d lines are missing that every kernel has", len(need))
	}
	return s, nil
}

func (s *status) ids(to *[4]int, fields []string) error {
	if len(fields) != len(to) {
		return fmt.Errorf("%d numbers", len(fields))
	}
	for i, f := range fields {
		n, err := strconv.ParseUint(f, 10, 32)
		if err != nil {
			return err
		}
		to[i] = int(n)
	}
	return nil
}

func set(to *uint64, fields []string) (err error) {
	if len(fields) != 1 {
		return fmt.Errorf("%d words", len(fields))
	}
	*to, err = strconv.ParseUint(fields[0], 16, 64)
	return err
}

func number(to *int, fields []string) (err error) {
	if len(fields) != 1 {
		return fmt.Errorf("%d words", len(fields))
	}
	*to, err = strconv.Atoi(fields[0])
	return err
}

// tasks reads the status of every thread. A thread that ends meanwhile is left out.
func tasks() (map[int]status, error) {
	entries, err := os.ReadDir(taskFolder)
	if err != nil {
		// coverage: stage 1 grants itself this folder, or does not come as far as here
		return nil, fmt.Errorf("list threads: %w", err)
	}
	all := map[int]status{}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			// coverage: the kernel gives threads numbers and nothing else
			continue
		}
		s, err := readStatus(taskFolder + "/" + e.Name() + "/status")
		if isGone(err) {
			// coverage: by chance: a thread ends between the list and its status
			continue
		}
		if err != nil {
			// coverage: what can be listed can be read, by the same grant
			return nil, err
		}
		all[id] = s
	}
	return all, nil
}

const (
	procFolder = "/proc"
	taskFolder = "/proc/self/task"
)
