package seccomp

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	libseccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// A table that libseccomp cannot make a filter of is a fault that names the row, not a filter without it.
func TestATableThatCannotBeCompiledIsAFault(t *testing.T) {
	t.Parallel()
	here, err := findArch("")
	must(t, err)
	row := func(r Row) *policy { return &policy{arch: here, otherwise: EPERM, rules: []*rule{{Row: r}}} }
	const noAction = Action(9)
	for _, c := range []struct {
		name   string
		policy *policy
		says   string
	}{
		{"no such action for the rest", &policy{arch: here, otherwise: noAction}, "the table has no "},
		{
			"no such architecture", &policy{arch: arch{"pdp11", libseccomp.ArchInvalid, 0}, otherwise: EPERM},
			"architecture pdp11: ",
		},
		{"no such action", row(Row{ID: "bent", Syscall: "read", Action: noAction}), `row "bent": the table has no `},
		{"no such call", row(Row{ID: "bent", Syscall: "no_such_call", Action: Allow}), `row "bent": `},
		{
			"no such argument",
			row(Row{ID: "bent", Syscall: "read", Action: Allow, Args: []Condition{{Arg: 6, Mask: 1, Value: 1}}}),
			`row "bent": condition on argument 6: `,
		},
		{
			"the action that is the rest's anyway", &policy{arch: here, otherwise: Kill, rules: []*rule{
				{Row: Row{ID: "same", Syscall: "read", Action: Kill}},
			}}, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := build(c.policy, hole{})
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

func TestAnOptionThatNobodySetsChoosesNoRow(t *testing.T) {
	t.Parallel()
	all := Settings{Openat2: true, INET: true, Unix: true, DNS: true, Profiles: []Profile{SQL, Audit, Socket}}
	if all.wants(Row{Profile: Base, If: "moon is full"}) || !all.wants(Row{Profile: Base}) {
		t.Error("a condition that the settings do not know is not met")
	}
}

func TestThereIsNoNumberOnAnUnknownArchitecture(t *testing.T) {
	t.Parallel()
	if n, known := Number("read", "pdp11"); known {
		t.Errorf("read is %d", n)
	}
	if _, known := Number("read", runtime.GOARCH); !known { // the control
		t.Error("read has no number here")
	}
}

// What one architecture's kernel would do can be asked anywhere; it can be loaded there only.
func TestAFilterForAnotherArchitectureIsNotLoaded(t *testing.T) {
	t.Parallel()
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	f, err := Compile(Settings{PID: os.Getpid(), Arch: other})
	must(t, err)
	if err := f.Load(); err == nil || !strings.Contains(err.Error(), "it is for "+other) {
		t.Error(err)
	}
}

// After it was loaded a filter is released. Here it is released only, so that the test itself goes on without one.
func TestAFilterThatWasLoadedIsNeitherLoadedNorPrintedAgain(t *testing.T) {
	t.Parallel()
	f, err := Compile(Settings{PID: os.Getpid()})
	must(t, err)
	if text, err := f.PFC(); err != nil || text == "" { // the control
		t.Fatalf("%q, %v", text, err)
	}
	f.context.Release()
	if text, err := f.PFC(); err == nil || text != "" || !strings.Contains(err.Error(), "it is loaded") {
		t.Errorf("%q, %v", text, err)
	}
	if err := f.Load(); err == nil || !strings.Contains(err.Error(), "it was loaded before") {
		t.Error(err)
	}
}

func TestAnExportThatFailsGivesNoText(t *testing.T) {
	t.Parallel()
	fault := errors.New("the disk is full")
	text, err := written(func(f *os.File) error {
		_, err := f.WriteString("half")
		return errors.Join(err, fault)
	})
	if !errors.Is(err, fault) || text != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// The holes of TestEachPlantedHoleIsFound are rows. These are where no row is: an architecture, and a number that no
// kernel has yet.
func TestAProgramThatIsWrongWhereNoRowIsIsFound(t *testing.T) {
	t.Parallel()
	f, err := Compile(Settings{PID: os.Getpid()})
	must(t, err)
	const number, architecture = 0, 4 // offsets in struct seccomp_data
	wrong := []struct {
		name          string
		offset, value uint32
		harmless      bool
	}{
		{"a foreign architecture", architecture, unix.AUDIT_ARCH_RISCV64, false},
		{"a number that no kernel has", number, 1 << 20, false},
		{"the same, counted down", number, ^uint32(1<<20) + 1, false},
		{"an architecture that nobody asks for", architecture, 12345, true}, // the control: the rest is as it was
	}
	if runtime.GOARCH == "amd64" {
		for _, call := range []uint32{1, 39, 59, 322, 520} { // write, getpid, execve, execveat, execve of x32
			row := wrong[0]
			row.name, row.offset, row.value = fmt.Sprintf("call %d of x32", call), number, x32Bit|call
			wrong = append(wrong, row)
		}
	}
	for _, c := range wrong {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			bent := append(program{
				{Code: opLoad, K: c.offset},
				{Code: opEq, K: c.value, Jf: 1},
				{Code: opRet, K: unix.SECCOMP_RET_ALLOW},
			}, f.program...)
			err := f.policy.verify(bent)
			if (err == nil) != c.harmless || err != nil && !strings.HasPrefix(err.Error(), "no row: ") {
				t.Error(err)
			}
		})
	}
}
