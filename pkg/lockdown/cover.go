//go:build lockdowncover

package lockdown

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// This file is in no program that is shipped. A locked process can open no file to write its coverage to, so stage 1
// opens one for each stage, below GOCOVERDIR, and stage 2 inherits its own.

const (
	coverFolder     = "GOCOVERDIR"
	coverDescriptor = "MCP_TEST_COVERAGE"
)

// hashAt is where the header of the meta-data has its hash, by which the files are named (internal/coverage, MetaFileHeader).
const hashAt, hashBytes = 24, 16

// openCoverage returns the file for stage 2, and a function that writes what stage 1 has covered. It changes set, the
// variables of stage 2.
func openCoverage(set map[string]string) (pins []int, write func(), err error) {
	folder := os.Getenv(coverFolder)
	if folder == "" {
		return nil, func() {}, nil
	}
	var meta bytes.Buffer
	if err := coverage.WriteMeta(&meta); err != nil {
		return nil, nil, fmt.Errorf("coverage: %w", err)
	}
	hash := fmt.Sprintf("%x", meta.Bytes()[hashAt:hashAt+hashBytes])
	// Go's own start-up code has written them, for this process or for another user's.
	if _, err := os.Stat(filepath.Join(folder, "covmeta."+hash)); err != nil {
		return nil, nil, fmt.Errorf("coverage: the meta-data are not there: %w", err)
	}
	var stages [2]int
	for i := range stages {
		name := fmt.Sprintf("covcounters.%s.%d.%d", hash, os.Getpid(), time.Now().UnixNano()+int64(i))
		// No os.File, which would be closed behind our back.
		stages[i], err = unix.Open(filepath.Join(folder, name), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return nil, nil, fmt.Errorf("coverage: %w", err)
		}
	}
	set[coverDescriptor] = strconv.Itoa(stages[1])
	// For a fault of stage 1 inside its domain. Stage 2 gets its variables from set.
	if err := os.Setenv(coverDescriptor, strconv.Itoa(stages[0])); err != nil {
		return nil, nil, fmt.Errorf("coverage: %w", err)
	}
	return stages[1:], WriteCoverage, nil
}

// WriteCoverage writes what this stage has covered, once: before the re-exec, or at the end of the process.
func WriteCoverage() {
	fd, err := strconv.Atoi(os.Getenv(coverDescriptor))
	if err != nil {
		return
	}
	_ = coverage.WriteCounters(os.NewFile(uintptr(fd), "coverage")) // a lost count fails the gate
	_ = os.Unsetenv(coverDescriptor)                                // a second one would spoil the file
}

// isCoverage says whether stage 1 has opened this one for the counts of stage 2.
func isCoverage(fd int) bool { return os.Getenv(coverDescriptor) == strconv.Itoa(fd) }

// forCoverage says whether a variable tells stage 2 where to write its coverage.
func forCoverage(name string) bool { return name == coverDescriptor }
