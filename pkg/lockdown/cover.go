//go:build lockdowncover

package lockdown

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"
	"strconv"
	"strings"
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
	if err := os.WriteFile(filepath.Join(folder, "covmeta."+hash), meta.Bytes(), 0o644); err != nil {
		return nil, nil, fmt.Errorf("coverage: %w", err)
	}
	var files [2]*os.File
	for i := range files {
		name := fmt.Sprintf("covcounters.%s.%d.%d", hash, os.Getpid(), time.Now().UnixNano()+int64(i))
		if files[i], err = os.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644); err != nil {
			return nil, nil, fmt.Errorf("coverage: %w", err)
		}
	}
	// A copy without an os.File around it, which nothing closes.
	second, err := unix.FcntlInt(files[1].Fd(), unix.F_DUPFD_CLOEXEC, firstDescriptor)
	if err != nil {
		return nil, nil, fmt.Errorf("coverage: %w", err)
	}
	set[coverDescriptor] = strconv.Itoa(second)
	return []int{second}, func() { _ = coverage.WriteCounters(files[0]) }, nil // a lost count fails the gate
}

// WriteCoverage writes what this stage has covered. The process calls it once, at its end.
func WriteCoverage() {
	fd, err := strconv.Atoi(strings.TrimSpace(os.Getenv(coverDescriptor)))
	if err != nil {
		return
	}
	_ = coverage.WriteCounters(os.NewFile(uintptr(fd), "coverage")) // a lost count fails the gate
}

// isCoverage says whether stage 1 has opened this one for the counts of stage 2.
func isCoverage(fd int) bool { return os.Getenv(coverDescriptor) == strconv.Itoa(fd) }
