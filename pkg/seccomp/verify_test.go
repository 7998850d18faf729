package seccomp

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestEachPlantedHoleIsFound(t *testing.T) {
	for _, a := range arches() {
		left, bare := map[string]bool{}, map[string]bool{}
		for _, s := range every(a.name) {
			p, err := newPolicy(s)
			must(t, err)
			for _, r := range p.rules {
				// A rule that says what would happen anyway is not in the filter; one that another row repeats is no
				// hole.
				repeated := slices.ContainsFunc(p.byNumber[r.number], func(o *rule) bool {
					return o != r && slices.Equal(o.Args, r.Args)
				})
				if r.Action == p.otherwise || repeated {
					continue
				}
				if !left[r.ID] {
					left[r.ID] = true
					found(t, s, hole{row: r.ID}, r)
				}
				if len(r.Args) > 0 && !bare[r.ID] {
					bare[r.ID] = true
					found(t, s, hole{argsOf: r.ID}, r)
				}
			}
		}
		for _, row := range Table() {
			if len(row.Archs) > 0 && !slices.Contains(row.Archs, a.name) {
				continue
			}
			if !left[row.ID] || len(row.Args) > 0 && !bare[row.ID] {
				t.Errorf("%s: %s was never left out", a.name, row.ID)
			}
		}
	}
}

func found(t *testing.T, s Settings, h hole, r *rule) {
	t.Helper()
	f, err := compile(s, h)
	if f != nil || err == nil || !strings.HasPrefix(err.Error(), `verify filter: row "`+r.Syscall) {
		t.Errorf("%+v: %+v is not found: %v", s, h, err)
	}
}

func TestAProgramThatSaysMoreThanTheTableIsFound(t *testing.T) {
	settings := Settings{PID: 4242}
	p, err := newPolicy(settings)
	must(t, err)
	tests := []struct {
		name   string
		change func(p *policy)
		want   string
		why    string
	}{
		{
			"a system call that no row names", func(p *policy) {
				p.rules = append(p.rules, &rule{Row{ID: "x", Syscall: "chmod", Action: Allow}, 90})
			}, "verify filter: no row: the program answers allow to call 90 ", "an allowed call too many",
		},
		{
			"another default", func(p *policy) { p.otherwise = Allow }, "verify filter: row ", "the most of the table",
		},
		{
			"another process", func(p *policy) {
				for _, r := range p.rules {
					if r.Syscall == "tgkill" {
						r.Args[0].Value = 1
					}
				}
			}, `verify filter: row "tgkill own process": `, "the process that was asked for",
		},
	}
	for _, test := range tests {
		other, err := newPolicy(settings)
		must(t, err)
		test.change(other)
		context, err := build(other, hole{})
		must(t, err)
		prog, err := export(context)
		must(t, err)
		if err := p.verify(prog); err == nil || !strings.HasPrefix("verify filter: "+err.Error(), test.want) {
			t.Errorf("%s (%s): %v", test.name, test.why, err)
		}
	}
}

func TestVerifyFindsEachChangedInstruction(t *testing.T) {
	p, err := newPolicy(Settings{PID: 4242, Profiles: []Profile{SQL, Audit, Socket}, INET: true, Unix: true, DNS: true})
	must(t, err)
	context, err := build(p, hole{})
	must(t, err)
	good, err := export(context)
	must(t, err)
	must(t, p.verify(good))
	for i := range good {
		bad := slices.Clone(good)
		bad[i].K ^= 1 << 1
		if _, err := check(bad); err != nil {
			continue // found earlier: a load across words, a jump out of the program
		}
		if p.verify(bad) == nil {
			t.Errorf("instruction %d: %+v passes for %+v", i, bad[i], good[i])
		}
	}
}

// tableSays is what the table wants, read a second time: no code is shared with policy.
func tableSays(s Settings, c Call) Action {
	want := EPERM
	if s.KillByDefault {
		want = Kill
	}
	audit := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[s.Arch]
	if c.Arch != audit || s.Arch == "amd64" && c.Number>>30 == 1 || s.Arch == "amd64" && int32(c.Number) < -1 {
		return Kill
	}
	on := map[Option]bool{
		"": true, WithOpenat2: s.Openat2, WithoutOpenat2: !s.Openat2, WithINET: s.INET, WithUnix: s.Unix, WithDNS: s.DNS,
	}
rows:
	for _, row := range Table() {
		n, ok := Number(row.Syscall, s.Arch)
		if !ok || n != c.Number || !on[row.If] || row.Profile != Base && !slices.Contains(s.Profiles, row.Profile) {
			continue
		}
		for _, cond := range row.Args {
			value := cond.Value
			if cond.PID {
				value = uint64(s.PID)
			}
			if (c.Args[cond.Arg]^value)&cond.Mask != 0 {
				continue rows
			}
		}
		return row.Action
	}
	return want
}

// FuzzDecideSaysWhatTheTableSays asks compiled filters about arbitrary calls.
func FuzzDecideSaysWhatTheTableSays(f *testing.F) {
	type filter struct {
		s Settings
		f *Filter
	}
	var filters []filter
	seeds := 0
	for _, a := range arches() {
		for _, s := range every(a.name) {
			compiled, err := Compile(s)
			if err != nil {
				f.Fatal(err)
			}
			filters = append(filters, filter{s, compiled})
			for _, r := range compiled.policy.rules {
				for c := range r.calls(a.audit) {
					if seeds++; seeds%199 == 0 { // a sample of them
						f.Add(uint8(len(filters)-1), c.Arch, c.Number, c.Args[0], c.Args[1], c.Args[2], c.Args[3])
					}
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, arch, number uint32, a0, a1, a2, a3 uint64) {
		x := filters[int(which)%len(filters)]
		if arch%4 != 0 {
			arch = x.f.policy.arch.audit
		}
		if number%4 != 0 && number < x32Bit {
			number %= 512
		}
		c := Call{Arch: arch, Number: number, Args: [6]uint64{a0, a1, a2, a3}}
		if got, want := x.f.Decide(c), tableSays(x.s, c); arch != 0 && got != want {
			t.Errorf("%+v: %+v is answered %v, the table says %v", x.s, c, got, want)
		}
	})
}
