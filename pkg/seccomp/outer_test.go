package seccomp

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	libseccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/stage"
)

// childOuter puts a filter around itself that denies the system call seccomp, and becomes the child "load" in it.
func childOuter(how string) error {
	f, err := libseccomp.NewFilter(libseccomp.ActAllow)
	if err != nil {
		return err
	}
	nr, err := libseccomp.GetSyscallFromName("seccomp")
	if err != nil {
		return err
	}
	deny := libseccomp.ActErrno.SetReturnCode(int16(unix.EPERM))
	switch how {
	case "all of it":
		err = f.AddRule(nr, deny)
	case "loading":
		err = f.AddRuleConditional(nr, deny, []libseccomp.ScmpCondition{
			{Argument: 0, Op: libseccomp.CompareEqual, Operand1: unix.SECCOMP_SET_MODE_FILTER},
			{Argument: 2, Op: libseccomp.CompareNotEqual, Operand1: 0}, // not what libseccomp asks to see what there is
		})
	case "asking for actions": // as old gVisor answers
		err = f.AddRuleConditional(nr, libseccomp.ActErrno.SetReturnCode(int16(unix.EINVAL)), []libseccomp.ScmpCondition{
			{Argument: 0, Op: libseccomp.CompareEqual, Operand1: unix.SECCOMP_GET_ACTION_AVAIL},
		})
	case "threads":
		err = f.AddRuleConditional(nr, libseccomp.ActErrno.SetReturnCode(int16(unix.EINVAL)), []libseccomp.ScmpCondition{
			{Argument: 1, Op: libseccomp.CompareMaskedEqual, Operand1: 1, Operand2: 1},
		})
	}
	if err != nil {
		return err
	}
	if err := f.Load(); err != nil {
		return err
	}
	return become("/proc/self/exe")
}

// become executes a program; when it is this one, it is the child "load".
func become(program string) error {
	if err := os.Setenv(childVar, "load"); err != nil {
		return err
	}
	return unix.Exec(program, []string{program}, os.Environ())
}

// childLoad prints what Compile and Load say.
func childLoad(string) error {
	f, err := Compile(Settings{PID: os.Getpid()})
	if err != nil {
		fmt.Println(err)
		return nil
	}
	fmt.Println(f.Load())
	return nil
}

func TestAnOuterFilterInTheWayIsAnErrorWithItsName(t *testing.T) {
	if got := (child{name: "load"}).good(t); got != "<nil>\n" {
		t.Fatalf("without an outer filter: %s", got)
	}
	tests := []struct{ name, want, why string }{
		{"all of it", "build filter: KILL_PROCESS for foreign architectures: ", "Docker profiles of old"},
		{"asking for actions", "build filter: KILL_PROCESS for foreign architectures: ", "gVisor of 2022"},
		{
			"threads", "load filter: TSYNC and KILL_PROCESS need API level 3, there is 1",
			"without TSYNC one thread would be filtered",
		},
		{"loading", "load filter: the kernel, or a filter around ours, refuses: ", "nothing but the last step"},
	}
	for _, test := range tests {
		// No filter of ours is loaded, so that the child can write what it has covered.
		if got := (child{name: "outer", arg: test.name, env: stage.Coverage()}).good(t); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s denied (%s): %q, not %q", test.name, test.why, got, test.want)
		}
	}
}

// childWall puts the outer wall around itself, as a runtime does, and becomes the program that it is told.
func childWall(program string) error {
	text, err := OCI()
	if err != nil {
		return err
	}
	var p ociProfile
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	f, err := libseccomp.NewFilter(libseccomp.ActErrno.SetReturnCode(int16(p.DefaultErrnoRet)))
	if err != nil {
		return err
	}
	for _, group := range p.Syscalls {
		action := libseccomp.ActAllow
		if group.Action != "SCMP_ACT_ALLOW" {
			action = libseccomp.ActErrno.SetReturnCode(int16(group.ErrnoRet))
		}
		var conditions []libseccomp.ScmpCondition
		for _, a := range group.Args {
			op := map[string]libseccomp.ScmpCompareOp{
				"SCMP_CMP_EQ": libseccomp.CompareEqual, "SCMP_CMP_MASKED_EQ": libseccomp.CompareMaskedEqual,
			}[a.Op]
			conditions = append(conditions, libseccomp.ScmpCondition{
				Argument: a.Index, Op: op, Operand1: a.Value, Operand2: a.ValueTwo,
			})
		}
		for _, name := range group.Names {
			if _, ok := Number(name, ""); !ok {
				continue // of the other architecture
			}
			nr, err := libseccomp.GetSyscallFromName(name)
			if err != nil {
				return err
			}
			if err := f.AddRuleConditional(nr, action, conditions); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if err := f.Load(); err != nil {
		return err
	}
	return become(program)
}

func TestOurFilterLoadsBehindTheOuterWall(t *testing.T) {
	if got := (child{name: "wall", arg: "/proc/self/exe"}).good(t); got != "<nil>\n" {
		t.Error(got)
	}
}

// The built program, not this test binary: it is static, which starts with other system calls.
func TestTheDaemonServesBehindTheOuterWall(t *testing.T) {
	built, err := filepath.Abs("../../bin/mcp-server-suite")
	must(t, err)
	if _, err := os.Stat(built); errors.Is(err, os.ErrNotExist) {
		t.Skip("bin/mcp-server-suite is missing: make build")
	}
	dir := openDir(t)
	program := filepath.Join(dir, "daemon") // where the child's user may reach it
	text, err := os.ReadFile(built)
	must(t, err)
	must(t, os.WriteFile(program, text, 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("the text"), 0o644))
	in, w, err := os.Pipe()
	must(t, err)
	defer in.Close()
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
			`"clientInfo":{"name":"test","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"sandbox_fs_read",` +
			`"arguments":{"relative_path":"a.txt"}}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"system_metrics","arguments":{}}}`,
	} {
		_, err := fmt.Fprintln(w, message)
		must(t, err)
	}
	must(t, w.Close())
	got := child{name: "wall", arg: program, stdin: in, env: []string{"MCP_SAFE_DATA_DIR=" + dir}}.good(t)
	for _, want := range []string{`"id":1,"result"`, "the text", "load_average_1m"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

func TestTheOuterWallHoldsAllThatAProfileAllowsAndNothingLoudButExecve(t *testing.T) {
	text, err := OCI()
	must(t, err)
	var p ociProfile
	must(t, json.Unmarshal(text, &p))
	allowed := map[string]bool{}
	for _, group := range p.Syscalls {
		if len(group.Names) == 0 || group.Comment == "" {
			t.Errorf("an empty group, or one without a reason: %+v", group)
		}
		for _, name := range group.Names {
			allowed[name] = allowed[name] || group.Action == "SCMP_ACT_ALLOW"
			if _, ok := Number(name, "amd64"); !ok {
				t.Errorf("amd64 has no %s", name)
			}
		}
	}
	for _, row := range Table() {
		switch {
		case row.Action == Allow && !allowed[row.Syscall]:
			t.Errorf("%s is allowed inside but not outside", row.ID)
		case row.Action == Kill && allowed[row.Syscall] && row.Syscall != "execve":
			t.Errorf("%s ends the daemon but is allowed outside", row.ID)
		}
	}
	for _, group := range p.Syscalls {
		if slices.Contains(group.Names, "personality") && (len(group.Args) != 1 || group.Args[0].Op != "SCMP_CMP_EQ" ||
			group.Args[0].Value != 0 && group.Args[0].Value != 0xffffffff) {
			t.Errorf("the outer wall allows personality with %+v", group.Args)
		}
	}
	for _, name := range []string{"clone3", "setuid", "chmod", "unlink", "socketpair"} {
		if allowed[name] {
			t.Errorf("the outer wall allows %s", name)
		}
	}
}
