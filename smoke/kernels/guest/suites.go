//go:build linux && amd64

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// suiteTime bounds one test binary; the host bounds the whole machine.
const suiteTime = 200 * time.Second

// suites are the test binaries of the initrd, in /t/PACKAGE/PACKAGE.test with their testdata.
var suites = []struct {
	name, program string
	only          []string // these tests; nil for all
	without       []string
}{
	// What the daemon does and does not do for a client. The processor is emulated and a start takes 0.5 to 1 s, so the
	// rest is left out: load, deadlines of a fraction of a second (kept by Go's scheduler, whatever the kernel), and what
	// expects the log of a kernel with Landlock.
	{name: "the daemon's own tests pass", program: "daemon", only: []string{
		"TestTranscripts",
		"TestSurfaceGolden",
		"TestStdoutCarriesOnlyAnswersAndStderrNoArgument",
		"TestTheOfficialClientGetsAlong",
		"TestMetricsFitTheirSchemaAndTheHost",
		"TestTheDiskPathIsNotTold",
		"TestAToolThatIsSwitchedOffIsNotThere",
		"TestPathsLeadWhereTheyShould",
		"TestARefusalTellsNothingOfTheOutside",
		"TestTheRootMayBeALink",
		"TestTheRootMayHaveSpacesAndAccentsInItsPath",
		"TestOnlyRegularFilesAreOpened",
		"TestAFileComesBackWholeFromItsParts",
		"TestNoCharacterIsCut",
		"TestBytesThatAreNoTextAreRefused",
		"TestAHugeFileCostsOnlyWhatIsReadOfIt",
		"TestAConfigMapIsReadWholeWhileItIsSwapped",
		"TestRefusalsDoNotRepeatThemselvesInOtherWords",
	}, without: []string{
		"TestTranscripts/sizes",                 // answers of 4 MiB
		"TestTranscripts/eof-before-initialize", // 4 s from the start of the process, which alone can take them here
	}},
	{name: "the escape table holds", program: "sandboxfs", without: []string{
		"TestMultibyteCharsetsAreThoseOfPython", // asks the kernel for nothing, for 6 s
	}},
	{name: "each right is denied from its ABI on", program: "landlock"},
	{name: "each layer denies what it owes, and the kernel by itself does not", program: "lockdown", only: []string{
		"TestEverythingThatIsOwedIsDenied",
		"TestEachLayerDeniesWithoutTheOther",
		"TestNoDenialIsTheKernelsOwn",
		"TestTheEnvironmentOfProcessOneIsDeniedByLandlock",
	}},
}

// suites runs the test binaries with the daemon of the initrd.
func (e expectation) suites(r *report) {
	for _, s := range suites {
		begin := time.Now()
		output, err := e.suite(s.program, s.only, s.without)
		tests := count(output)
		if err == nil && tests.passed == 0 {
			err = errors.New("no test has run")
		}
		for _, test := range s.only {
			ran := bytes.Contains(output, []byte("--- PASS: "+test+" "))
			skipped := bytes.Contains(output, []byte("--- SKIP: "+test+" "))
			if err == nil && !ran && (!skipped || e.abi != 0) { // renamed, or skipped where Landlock is no reason
				err = fmt.Errorf("%s has not run", test)
			}
		}
		took := time.Since(begin).Seconds()
		comment := fmt.Sprintf("%s.test: %d passed, %.0f s", s.program, tests.passed, took)
		r.check(s.name, err, comment, tests.rest)
		for _, reason := range slices.Sorted(maps.Keys(tests.skipped)) {
			r.diagnose(fmt.Sprintf("skipped: %d because of %s", tests.skipped[reason], reason))
		}
	}
}

// exactly is the regular expression for these tests. Anchored one by one: a slash stands between a test and its
// subtest, and each side is an expression of its own.
func exactly(tests []string) string {
	patterns := make([]string, len(tests))
	for i, test := range tests {
		patterns[i] = "^" + strings.ReplaceAll(test, "/", "$/^") + "$"
	}
	return strings.Join(patterns, "|")
}

func (e expectation) suite(program string, only, without []string) (output []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), suiteTime+10*time.Second)
	defer cancel()
	folder := "/t/" + program
	arguments := []string{"-test.v", "-test.timeout=" + suiteTime.String()}
	if only != nil {
		arguments = append(arguments, "-test.run="+exactly(only))
	}
	if without != nil {
		arguments = append(arguments, "-test.skip="+exactly(without))
	}
	cmd := exec.CommandContext(ctx, folder+"/"+program+".test", arguments...)
	cmd.Dir = folder
	cmd.Env = []string{
		"PATH=/bin", "HOME=/", "TMPDIR=/tmp", "MCP_STAGE_BINARIES=/bin",
		"MCP_STAGE_ENV=" + strings.Join(e.environment(), " "),
	}
	cmd.Env = append(cmd.Env, e.environment()...)
	output, err = cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("run %s.test: %w", program, err)
	}
	return output, err
}

// tests is what a test binary has said.
type tests struct {
	passed  int
	skipped map[string]int // how many, by reason
	rest    string         // the output without what passed and what was skipped
}

// count reads the output of a test binary with -test.v. The reason of a skip is the line before it.
func count(output []byte) tests {
	t := tests{skipped: map[string]int{}}
	var rest []string
	for line := range strings.Lines(string(bytes.ToValidUTF8(output, []byte("?")))) {
		switch words := strings.TrimSpace(line); {
		case strings.HasPrefix(words, "--- PASS: "):
			t.passed++
		case strings.HasPrefix(words, "--- SKIP: "):
			reason := "no reason given"
			if last := len(rest) - 1; last >= 0 {
				reason, rest = strings.TrimSpace(rest[last]), rest[:last]
			}
			t.skipped[reason]++
		case strings.HasPrefix(words, "=== "), words == "PASS":
		default:
			rest = append(rest, line)
		}
	}
	t.rest = strings.Join(rest, "")
	return t
}
