package seccomp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	libseccomp "github.com/seccomp/libseccomp-golang"
)

// golden compares text with a file, or rewrites it with UPDATE_GOLDEN=1 (make golden).
func golden(t *testing.T, name, text string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must(t, os.WriteFile(name, []byte(text), 0o644))
		return
	}
	want, err := os.ReadFile(name)
	must(t, err)
	if text == string(want) {
		return
	}
	got, old := strings.Split(text, "\n"), strings.Split(string(want), "\n")
	for i := range got {
		if i >= len(old) || got[i] != old[i] {
			t.Fatalf("%s is not up to date from line %d on (%q): make golden, then read the diff", name, i+1, got[i])
		}
	}
	t.Fatalf("%s is longer than it has to be: make golden, then read the diff", name)
}

func TestGoldenFilters(t *testing.T) {
	if major, minor, micro := libseccomp.GetLibraryVersion(); major != 2 || minor != 5 || micro != 4 {
		t.Skipf("the files were written by libseccomp 2.5.4; %d.%d.%d may order the rules differently", major, minor, micro)
	}
	const pid = 4242
	for _, a := range arches() {
		for name, s := range map[string]Settings{
			"base":   {Openat2: true},
			"strict": {},
			"all":    {Openat2: true, Profiles: []Profile{SQL, Audit, Socket}, INET: true, Unix: true, DNS: true},
		} {
			s.PID, s.Arch = pid, a.name
			f, err := Compile(s)
			must(t, err)
			text, err := f.PFC()
			must(t, err)
			golden(t, filepath.Join("testdata", "pfc", a.name+"-"+name+".pfc"), text)
		}
	}
}

func TestGoldenOuterWall(t *testing.T) {
	text, err := OCI()
	must(t, err)
	golden(t, "../../images/seccomp.json", string(text))
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if _, err := Compile(Settings{PID: 1, Openat2: true}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	f, err := Compile(Settings{PID: 1, Openat2: true})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := f.policy.verify(f.program); err != nil {
			b.Fatal(err)
		}
	}
}
