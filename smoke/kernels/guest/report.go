//go:build linux && amd64

package main

import (
	"fmt"
	"io"
	"strings"
)

// maxDiagnostics is how many lines of a failure are shown: the last ones, where Go's tests say what failed. The serial
// line is slow.
const maxDiagnostics = 120

// report writes what the host reads: per check one line "ok NAME # COMMENT" or "not ok NAME # COMMENT", lines "# ..."
// that explain the one before, and at the end "end: N checks, M failed".
type report struct {
	out            io.Writer
	checks, failed int
}

// check reports one check. Of a failure it shows the error and the details.
func (r *report) check(name string, failure error, comment string, details ...string) {
	r.checks++
	state := "ok"
	if failure != nil {
		r.failed++
		state = "not ok"
		details = append([]string{failure.Error()}, details...)
	}
	if comment != "" {
		comment = " # " + comment
	}
	r.line(state + " " + name + comment)
	if failure != nil {
		r.diagnose(details...)
	}
}

// diagnose writes lines that explain.
func (r *report) diagnose(texts ...string) {
	for _, text := range texts {
		lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
		for _, line := range lines[max(0, len(lines)-maxDiagnostics):] {
			r.line("#   " + strings.ToValidUTF8(line, "?"))
		}
	}
}

func (r *report) end() { r.line(fmt.Sprintf("end: %d checks, %d failed", r.checks, r.failed)) }

// A port that takes no more lines leaves the host without the last one, which is a failure there.
func (r *report) line(text string) { _, _ = io.WriteString(r.out, text+"\n") }
