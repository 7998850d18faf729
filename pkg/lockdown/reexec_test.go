package lockdown_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/rawclient"
	"mcp-server-suite/pkg/stage"
)

// The program begins anew from wherever it was begun.
func TestTheProgramBeginsAnewFromAnyPlace(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for _, c := range []struct {
		name  string
		start func(t *testing.T, dir string) *exec.Cmd // dir is a new folder that everybody may pass
		why   string
	}{
		{"a private folder", func(t *testing.T, dir string) *exec.Cmd {
			cmd := from(t, copyOfDaemon(t, filepath.Join(dir, "daemon")))
			if err := os.Chown(dir, stage.UserID, stage.UserID); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			return cmd
		}, "nobody else may pass it, root's capabilities aside"},
		{"a folder that it may not read", func(t *testing.T, dir string) *exec.Cmd {
			cmd := from(t, copyOfDaemon(t, filepath.Join(dir, "daemon")))
			if err := os.Chmod(dir, 0o711); err != nil {
				t.Fatal(err)
			}
			return cmd
		}, "it may be passed and not be listed"},
		{"a program that it may not read", func(t *testing.T, dir string) *exec.Cmd {
			path := copyOfDaemon(t, filepath.Join(dir, "daemon"))
			if err := os.Chmod(path, 0o711); err != nil {
				t.Fatal(err)
			}
			return from(t, path)
		}, "it may be executed and not be read"},
		{"a deleted program", func(t *testing.T, dir string) *exec.Cmd {
			path := copyOfDaemon(t, filepath.Join(dir, "daemon"))
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = file.Close() }) // opened for reading
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			cmd := from(t, "/proc/self/fd/3")
			cmd.ExtraFiles = []*os.File{file}
			return cmd
		}, "as after an update"},
		{"a replaced program", func(t *testing.T, dir string) *exec.Cmd {
			path := copyOfDaemon(t, filepath.Join(dir, "daemon"))
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = file.Close() }) // opened for reading
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			stage.File(t, dir, "daemon", []byte("another program\n"))
			cmd := from(t, "/proc/self/fd/3")
			cmd.ExtraFiles = []*os.File{file}
			return cmd
		}, "the path leads to something else by now"},
		{"a path with spaces and accents", func(t *testing.T, dir string) *exec.Cmd {
			path := filepath.Join(dir, "my pro\u0301grams;$HOME\n", "the 'daemon'")
			if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			return from(t, copyOfDaemon(t, path))
		}, "no shell is between"},
		{"a link", func(t *testing.T, dir string) *exec.Cmd {
			path := filepath.Join(dir, "link")
			if err := os.Symlink(stage.Binary(t, ""), path); err != nil {
				t.Fatal(err)
			}
			return from(t, path)
		}, "as package managers and /bin on many systems have it"},
		{"a relative path", func(t *testing.T, dir string) *exec.Cmd {
			copyOfDaemon(t, filepath.Join(dir, "daemon"))
			cmd := from(t, "./daemon")
			cmd.Dir = dir
			return cmd
		}, "the folder may be another one later"},
		{"PATH", func(t *testing.T, dir string) *exec.Cmd {
			env, err := exec.LookPath("env")
			if err != nil {
				t.Skip("needs the program env")
			}
			copyOfDaemon(t, filepath.Join(dir, "mcp-server-suite"))
			cmd := from(t, env)
			cmd.Args = []string{"env", "PATH=" + dir, "mcp-server-suite"}
			return cmd
		}, "argv[0] has no folder, and PATH is gone afterwards"},
		{"an empty argv[0]", func(t *testing.T, dir string) *exec.Cmd {
			cmd := from(t, copyOfDaemon(t, filepath.Join(dir, "daemon")))
			cmd.Args = []string{""}
			return cmd
		}, "it is the caller's to choose"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			toTheEnd(t, c.start(t, stage.Dir(t))).serves(t)
		})
	}
}

// from is the daemon's command with another path to it.
func from(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := daemonWith(t)
	cmd.Path, cmd.Args = path, []string{path}
	return cmd
}

// Stage 2 believes nothing of what it is told: it tries the doors itself.
func TestAForgedMarkStopsTheStart(t *testing.T) {
	t.Parallel()
	needRoot(t)
	needLandlock(t)
	const mark = "MCP_SERVER_SUITE_STAGE="
	for _, c := range []struct {
		name, mark string
		env        []string
		why        string
	}{
		{"nothing", "", nil, "as if unset"},
		{"no facts", "{}", nil, "no domain, though it is required"},
		{"a domain that is not there", `{"abi":7}`, nil, "every door is open"},
		{"the oldest domain", `{"abi":1}`, nil, "the fewest doors are tried"},
		{"a domain of the future", `{"abi":99}`, nil, "more than there are"},
		{"a negative domain", `{"abi":-1}`, nil, "less than none"},
		{"another type", `{"abi":"7"}`, nil, "it cannot be read"},
		{"a list", `[]`, nil, "it cannot be read"},
		{"garbage", "stage2", nil, "it cannot be read"},
		{"more than there is", `{"abi":7} {"abi":7}`, nil, "it cannot be read"},
		{"a domain where none is wanted", `{"abi":7}`, []string{"MCP_LANDLOCK=off"}, "it would be reported as in force"},
		{"a domain where none is needed", `{"abi":7}`, []string{"MCP_LANDLOCK=if-available"}, "the same"},
		{"a domain and no filter", `{"abi":7}`, []string{"MCP_SECCOMP=off"}, "nothing else would show it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			toTheEnd(t, daemonWith(t, append(c.env, mark+c.mark)...)).refusesToServe(t, "hardening: ")
		})
	}
}

// The forger knows what stage 1 leaves behind, and has left it: no_new_privs, and nothing but our settings.
func TestAForgedMarkInACleanProcessStopsTheStart(t *testing.T) {
	t.Parallel()
	needRoot(t)
	needLandlock(t)
	const mark = "MCP_SERVER_SUITE_STAGE="
	dir := sandboxTree(t)
	start := func(environ ...string) *exec.Cmd {
		id := strconv.Itoa(stage.UserID)
		cmd := exec.Command("setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--inh-caps=-all", "--no-new-privs",
			stage.Binary(t, ""))
		cmd.Env, cmd.Dir = append(environ, "MCP_SAFE_DATA_DIR="+dir), "/"
		return cmd
	}
	for _, c := range []struct {
		mark, mode, why string
	}{
		{"{}", "require", "there is no domain"},
		{"{}", "if-available", "there would be one"},
		{`{"abi":3}`, "require", "a domain that this kernel would not have"},
		{`{"abi":7}`, "require", "no door is shut"},
		{`{"abi":7}`, "if-available", "no door is shut"},
		{`{"abi":7}`, "off", "none is wanted"},
	} {
		t.Run(c.mark+" "+c.mode, func(t *testing.T) {
			t.Parallel()
			toTheEnd(t, start(mark+c.mark, "MCP_LANDLOCK="+c.mode)).refusesToServe(t, "hardening: ")
		})
	}
	t.Run("with a descriptor", func(t *testing.T) {
		t.Parallel()
		file, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() }) // nothing is in it
		cmd := start(mark+"{}", "MCP_LANDLOCK=off")
		cmd.ExtraFiles = []*os.File{file}
		toTheEnd(t, cmd).refusesToServe(t, "was not left by stage 1")
	})
	toTheEnd(t, start("MCP_LANDLOCK=require")).serves(t) // the control
}

// Without /proc nothing can be proven, so nothing is served.
func TestWithoutProcNothingIsServed(t *testing.T) {
	t.Parallel()
	needRoot(t)
	program := stage.Binary(t, "")
	way := func(steps ...[]string) *exec.Cmd {
		return passage{
			Steps: steps, UID: stage.UserID, Program: program, Environ: []string{"MCP_METRICS_ENABLED=false"},
		}.command(t)
	}
	toTheEnd(t, way([]string{"tmpfs", "/proc"})).refusesToServe(t, "mount /proc")
	toTheEnd(t, way()).serves(t) // the control: the way itself stops nothing
}

// What is missing is said, and not what fails for the lack of it.
func TestAStartThatLacksSomethingSaysWhat(t *testing.T) {
	t.Parallel()
	needRoot(t)
	needLandlock(t)
	way := func(steps ...[]string) passage {
		return passage{
			Steps: steps, UID: stage.UserID, Program: stage.Binary(t, ""), Environ: []string{"MCP_METRICS_ENABLED=false"},
		}
	}
	toTheEnd(t, way([]string{"files", "31"}).command(t)).refusesToServe(t, "31 files may be open at once (ulimit -n)")
	toTheEnd(t, way([]string{"files", "32"}).command(t)).serves(t)
	toTheEnd(t, inContainer(way()).command(t)).refusesToServe(t, "/proc is that of another PID namespace")
	toTheEnd(t, inContainer(way([]string{"proc", "/proc"})).command(t)).serves(t)

	memory, err := unix.MemfdCreate("daemon", 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(memory), "daemon")
	t.Cleanup(func() { _ = file.Close() }) // it is a copy
	program, err := os.ReadFile(stage.Binary(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(program); err != nil {
		t.Fatal(err)
	}
	anywhere := way()
	anywhere.Program = "/proc/self/fd/3"
	cmd := anywhere.command(t)
	cmd.ExtraFiles = []*os.File{file}
	toTheEnd(t, cmd).refusesToServe(t, "a memfd, perhaps")
}

func TestAddressesAreRandomWhoeverStartsIt(t *testing.T) {
	t.Parallel()
	needRoot(t)
	const fixed = "00040000" // ADDR_NO_RANDOMIZE, as setarch -R sets it
	way := passage{Steps: [][]string{{"personality", fixed}}, UID: stage.UserID, Program: stage.Binary(t, "")}
	if got := strings.TrimSpace(ofProcess(t, converse(t, way.command(t)).PID(), "personality")); got != "00000000" {
		t.Errorf("the personality of a serving daemon is %s", got)
	}
	way.Program, way.Args = "/bin/cat", nil // the control
	cmd := way.command(t)
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for ofProcess(t, cmd.Process.Pid, "comm") != "cat\n" && time.Since(begun) < rawclient.Patience {
		time.Sleep(time.Millisecond)
	}
	if got := strings.TrimSpace(ofProcess(t, cmd.Process.Pid, "personality")); got != fixed {
		t.Errorf("the control's personality is %s", got)
	}
	if err := errors.Join(input.Close(), cmd.Wait()); err != nil {
		t.Error(err)
	}
}

// os.Environ hides the second of two entries, and programs differ in which one they take.
func TestASettingThatIsGivenTwiceStopsTheStart(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for _, twice := range [][]string{{"MCP_SECCOMP=require", "MCP_SECCOMP=off"}, {"MCP_SECCOMP=off", "MCP_SECCOMP=require"}} {
		e := toTheEnd(t, passage{UID: stage.UserID, Program: stage.Binary(t, ""), Environ: twice}.command(t))
		if e.code != 2 || e.stdout != "" || !strings.Contains(e.stderr, "MCP_SECCOMP: is set more than once; keep one") {
			t.Errorf("%q: %v", twice, e)
		}
	}
	toTheEnd(t, passage{
		UID: stage.UserID, Program: stage.Binary(t, ""), Environ: []string{"MCP_SECCOMP=require", "OTHER=1", "OTHER=2"},
	}.command(t)).serves(t)
}
