package seccomp

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAProgramThatMayNotEndIsRefused(t *testing.T) {
	ret := unix.SockFilter{Code: opRet, K: uint32(Allow)}
	tests := []struct {
		name string
		p    []unix.SockFilter
		want string
		why  string
	}{
		{"nothing", nil, "a program of 0 instructions, not 1 to 4096", "no answer"},
		{"too long", make([]unix.SockFilter, 4097), "a program of 4097 instructions", "BPF_MAXINSNS"},
		{"no return", []unix.SockFilter{ret, {Code: opLoad}}, "the last instruction is no return", "runs off the end"},
		{
			"unknown code",
			[]unix.SockFilter{{Code: 0xfff}, ret},
			"instruction 0 has the unknown code 0xfff", "",
		},
		{
			"return of A",
			[]unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_A}, ret},
			"instruction 0 has the unknown code 0x16", "allowed by the kernel, not written by libseccomp",
		},
		{
			"load of a memory word",
			[]unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_MEM}, ret},
			"instruction 0 has the unknown code 0x60", "",
		},
		{
			"load behind the end",
			[]unix.SockFilter{{Code: opLoad, K: 64}, ret},
			"instruction 0 loads from offset 64", "seccomp_data has 64 bytes",
		},
		{
			"load across words",
			[]unix.SockFilter{{Code: opLoad, K: 2}, ret},
			"instruction 0 loads from offset 2", "the kernel refuses it too",
		},
		{
			"jump behind the end",
			[]unix.SockFilter{{Code: opJump, K: 1}, ret},
			"instruction 0 jumps out of the program", "",
		},
		{
			"jump around the world",
			[]unix.SockFilter{{Code: opJump, K: 0xffffffff}, ret},
			"instruction 0 jumps out of the program", "a loop in 32 bits",
		},
		{
			"branch taken behind the end",
			[]unix.SockFilter{{Code: opEq, Jt: 1}, ret},
			"instruction 0 jumps out of the program", "",
		},
		{
			"branch not taken behind the end",
			[]unix.SockFilter{{Code: opSet, Jf: 1}, ret},
			"instruction 0 jumps out of the program", "",
		},
	}
	for _, test := range tests {
		if p, err := check(test.p); p != nil || err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s (%s): %v, not %s", test.name, test.why, err, test.want)
		}
	}
}

func TestEachInstructionDoesWhatTheKernelDoes(t *testing.T) {
	ret := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: opRet, K: k} }
	load := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: opLoad, K: k} }
	branch := func(code uint16, k uint32) []unix.SockFilter {
		return []unix.SockFilter{load(0), {Code: code, K: k, Jf: 1}, ret(1), ret(0)}
	}
	c := Call{Arch: 0xa0a1a2a3, Number: 0xf0000005, Args: [6]uint64{0: 0x0102030405060708, 5: 0x1112131415161718}}
	tests := []struct {
		name string
		p    []unix.SockFilter
		want uint32
	}{
		{"number", append([]unix.SockFilter{load(0)}, branch(opEq, 0xf0000005)...), 1},
		{"architecture", []unix.SockFilter{load(4), {Code: opEq, K: 0xa0a1a2a3, Jf: 1}, ret(1), ret(0)}, 1},
		{"instruction pointer", []unix.SockFilter{load(8), {Code: opEq, Jf: 1}, ret(1), ret(0)}, 1},
		{"low half of the first", []unix.SockFilter{load(16), {Code: opEq, K: 0x05060708, Jf: 1}, ret(1), ret(0)}, 1},
		{"high half of the first", []unix.SockFilter{load(20), {Code: opEq, K: 0x01020304, Jf: 1}, ret(1), ret(0)}, 1},
		{"high half of the last", []unix.SockFilter{load(60), {Code: opEq, K: 0x11121314, Jf: 1}, ret(1), ret(0)}, 1},
		{"and", []unix.SockFilter{load(0), {Code: opAnd, K: 0xff}, {Code: opEq, K: 5, Jf: 1}, ret(1), ret(0)}, 1},
		{"jump", []unix.SockFilter{{Code: opJump, K: 1}, ret(0), ret(1)}, 1},
		{"greater, without sign", branch(opGt, 0x7fffffff), 1},
		{"not greater than itself", branch(opGt, 0xf0000005), 0},
		{"at least itself", branch(opGe, 0xf0000005), 1},
		{"not at least more", branch(opGe, 0xf0000006), 0},
		{"a bit that is set", branch(opSet, 4), 1},
		{"a bit that is not", branch(opSet, 2), 0},
	}
	for _, test := range tests {
		p, err := check(test.p)
		must(t, err)
		if got := p.run(c); got != Action(test.want) {
			t.Errorf("%s: %d", test.name, got)
		}
	}
}

// FuzzACheckedProgramEnds runs whatever check accepts; run has no bound of its own.
func FuzzACheckedProgramEnds(f *testing.F) {
	for _, a := range arches() {
		compiled, err := Compile(Settings{PID: 1, Arch: a.name})
		if err != nil {
			f.Fatal(err)
		}
		var raw []byte
		for _, in := range compiled.Program() {
			raw = append(raw, byte(in.Code), in.Jt, in.Jf, byte(in.K))
		}
		f.Add(raw, uint64(9))
	}
	f.Fuzz(func(t *testing.T, raw []byte, word uint64) {
		var p []unix.SockFilter
		for ; len(raw) >= 4; raw = raw[4:] {
			p = append(p, unix.SockFilter{Code: uint16(raw[0]), Jt: raw[1], Jf: raw[2], K: uint32(raw[3])})
		}
		checked, err := check(p)
		if (checked == nil) == (err == nil) {
			t.Fatalf("%v and %v", checked, err)
		}
		if err == nil {
			checked.run(Call{Number: uint32(word), Args: [6]uint64{word, word, word, word, word, word}})
		}
	})
}

func TestAnActionIsSpelledOut(t *testing.T) {
	for _, test := range []struct {
		a    Action
		want string
	}{
		{Allow, "allow"},
		{Kill, "kill process"},
		{EPERM, "errno EPERM"},
		{ENOSYS, "errno ENOSYS"},
		{unix.SECCOMP_RET_TRAP, "action 0x00030000"},
		{0, "action 0x00000000"},
	} {
		if got := test.a.String(); got != test.want {
			t.Errorf("%q, not %q", got, test.want)
		}
	}
}
