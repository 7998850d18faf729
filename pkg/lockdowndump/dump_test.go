package lockdowndump_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"mcp-server-suite/pkg/landlock"
	"mcp-server-suite/pkg/lockdowndump"
	"mcp-server-suite/pkg/seccomp"
)

func dump(args ...string) (code int, stdout, stderr string) {
	var out, log bytes.Buffer
	code = lockdowndump.Main(args, &out, &log)
	return code, out.String(), log.String()
}

func TestTheDumpHasEveryRowOfTheTables(t *testing.T) {
	t.Parallel()
	code, text, stderr := dump()
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	code, asJSON, stderr := dump("--json")
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var d struct {
		Syscalls []struct{ ID, Action, Why string }
		Landlock []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(asJSON), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Syscalls) != len(seccomp.Table()) || len(d.Landlock) != len(landlock.Rights()) {
		t.Errorf("%d calls of %d, %d rights of %d", len(d.Syscalls), len(seccomp.Table()), len(d.Landlock), len(landlock.Rights()))
	}
	for i, row := range seccomp.Table() {
		if d.Syscalls[i].ID != row.ID || d.Syscalls[i].Why == "" || d.Syscalls[i].Action != row.Action.String() ||
			!strings.Contains(text, " "+row.ID) || !strings.Contains(text, row.Why) {
			t.Errorf("row %d: %+v", i, d.Syscalls[i])
		}
	}
	for _, r := range landlock.Rights() {
		if !strings.Contains(text, r.Name) {
			t.Errorf("%s is missing", r.Name)
		}
	}
}

func TestTheOuterWallIsTheFileThatIsShipped(t *testing.T) {
	t.Parallel()
	code, out, stderr := dump("--oci")
	shipped, err := os.ReadFile("../../images/seccomp.json")
	if err != nil {
		t.Fatal(err)
	}
	if code != 0 || stderr != "" || out != string(shipped) {
		t.Errorf("exit %d, %q: it is not images/seccomp.json; run make golden", code, stderr)
	}
}

func TestTheFilterIsPrintedForBothArchitecturesAndEachProfile(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, args := range []string{
		"--arch amd64", "--arch arm64", "--arch arm64 --without-landlock", "--arch amd64 --profiles sql",
		"--arch amd64 --profiles base,audit", "--arch amd64 --profiles sql,audit,socket",
	} {
		code, out, stderr := dump(append([]string{"--pfc"}, strings.Fields(args)...)...)
		if code != 0 || stderr != "" || !strings.Contains(out, "# pseudo filter code start") {
			t.Errorf("%s: exit %d, %q, %.200q", args, code, stderr, out)
		}
		if other := seen[out]; other != "" {
			t.Errorf("%s prints what %s prints", args, other)
		}
		seen[out] = args
	}
}

func TestAWrongCommandLineIsOneLine(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"--EVIL", "EVIL", "--pfc --oci", "--pfc --profiles EVIL", "--json extra", "--json --oci",
		"--arch arm64", "--oci --without-landlock", "--pfc --arch vax", "--pfc --arch",
	} {
		code, stdout, stderr := dump(strings.Fields(args)...)
		if code != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "EVIL") {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	if code, stdout, _ := dump("--help"); code != 0 || !strings.Contains(stdout, "Usage:") {
		t.Errorf("exit %d, %q", code, stdout)
	}
}

// A pipe whose reader has gone, a full disk: the program must not end as if all had been said.
func TestOutputThatCannotBeWrittenIsExitOne(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("needs the device: %v", err)
	}
	t.Cleanup(func() { _ = full.Close() }) // nothing was written
	var log strings.Builder
	if code := lockdowndump.Main([]string{"--json"}, full, &log); code != 1 || !strings.Contains(log.String(), "no space left") {
		t.Errorf("exit %d, %q", code, log.String())
	}
}
