package stage

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mcp-server-suite/pkg/rawclient"
)

const (
	// UserID is the user and the group that programs become when the tests run as root: those of the image (seed 000,
	// container deployment). Without root they stay the current user, and what only another user shows is not tested.
	UserID = rawclient.UnprivilegedID

	// Version is what the binary says it is, so that golden files do not change with each commit.
	Version = "0.0.0-test"

	// BinariesVariable names an environment variable of the tests: a folder that holds daemons which are built already,
	// for a place without a compiler (smoke/kernels). See [Binary].
	BinariesVariable = "MCP_STAGE_BINARIES"

	// EnvironmentVariable names an environment variable of the tests: NAME=value, separated by spaces, which every daemon
	// gets before what its test gives it. The test's own value of a name is the one that counts.
	EnvironmentVariable = "MCP_STAGE_ENV"

	daemonPackage = "mcp-server-suite/cmd/mcp-server-suite"
)

// builds are the binaries of this test process, by tags.
var builds struct {
	mu     sync.Mutex
	folder string // "" outside of Main
	byTags map[string]func() (string, error)
}

// Main runs the tests and takes down what Binary has built. It is the whole of a TestMain:
//
//	func TestMain(m *testing.M) { stage.Main(m) }
func Main(m *testing.M) {
	folder, err := worldReadable("")
	if err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
		os.Exit(1)
	}
	builds.folder, builds.byTags = folder, map[string]func() (string, error){}
	code := m.Run()
	if err := os.RemoveAll(folder); err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Binary builds the static daemon with these build tags (separated by commas; "" is the shipped one), once per test
// process, and returns its path. Every user may execute it.
//
// With [BinariesVariable] nothing is built: FOLDER/mcp-server-suite is returned for "", FOLDER/mcp-server-suite-wiretest
// for "wiretest", FOLDER/mcp-server-suite-a-b for "a,b". Whoever made them has built them as [Version].
func Binary(t testing.TB, tags string) string {
	t.Helper()
	if folder := os.Getenv(BinariesVariable); folder != "" {
		path, err := prebuilt(folder, tags)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	builds.mu.Lock()
	if builds.folder == "" {
		builds.mu.Unlock()
		t.Fatal("the package has no TestMain that calls stage.Main")
	}
	build := builds.byTags[tags]
	if build == nil {
		path := filepath.Join(builds.folder, fmt.Sprintf("daemon-%d", len(builds.byTags)))
		build = sync.OnceValues(func() (string, error) { return path, goBuild(path, tags) })
		builds.byTags[tags] = build
	}
	builds.mu.Unlock()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// prebuilt returns the path of a daemon that is built already. Building one instead of a missing one would test another
// binary than the one that was meant.
func prebuilt(folder, tags string) (string, error) {
	name := "mcp-server-suite"
	if tags != "" {
		name += "-" + strings.ReplaceAll(tags, ",", "-")
	}
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find the daemon that %s promises: %w", BinariesVariable, err)
	}
	return path, nil
}

// noteSources opens every source of the module and returns its folder. The test cache remembers what a test has opened
// and runs it again when that has changed; it cannot see what the compiler started by goBuild reads.
func noteSources() (root string, err error) {
	root, err = filepath.Abs(".")
	for ; err == nil; root = filepath.Dir(root) {
		if _, missing := os.Stat(filepath.Join(root, "go.mod")); missing == nil {
			break
		} else if root == filepath.Dir(root) {
			return "", fmt.Errorf("find the module: %w", missing)
		}
	}
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return root, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (name[0] == '.' || name == "testdata" || name == "bin"):
			return fs.SkipDir
		case name == "go.sum", name == "build.sh", strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			return f.Close()
		}
		return nil
	})
}

// goBuild builds with the script that builds what is shipped, without the race detector: what is tested is what is
// shipped.
func goBuild(path, tags string) error {
	root, err := noteSources()
	if err != nil {
		return err
	}
	arguments := []string{"-o", path, daemonPackage}
	if os.Getenv(CoverVariable) != "" {
		overlay, err := silence(path + "-silence")
		if err != nil {
			return err
		}
		tags, arguments = covering(tags), append([]string{"-overlay=" + overlay}, arguments...)
	}
	cmd := exec.Command(filepath.Join(root, "scripts/build.sh"), arguments...)
	cmd.Env = append(os.Environ(), "TAGS="+tags, "VERSION="+Version)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the daemon: %w\n%s", err, out)
	}
	return os.Chmod(path, 0o755)
}

// Options say how to start the daemon.
type Options struct {
	Tags string   // build tags, see Binary
	Args []string // arguments
	Env  []string // NAME=value; nothing else but PATH, HOME and what EnvironmentVariable and CoverVariable add
}

// Daemon prepares the daemon, which the caller starts. Run by root it becomes user and group UserID without any
// supplementary group. It works in the folder /.
func Daemon(t testing.TB, o Options) *exec.Cmd {
	t.Helper()
	environ := []string{"PATH=" + os.Getenv("PATH"), "HOME=/"}
	environ = append(environ, Coverage()...)
	environ = append(environ, strings.Fields(os.Getenv(EnvironmentVariable))...)
	environ = append(environ, o.Env...) // os/exec keeps the last one of a name
	return rawclient.Command(Binary(t, o.Tags), environ, o.Args...)
}

// Dir makes an empty folder that every user may read, and removes it when the test ends (t.TempDir is for its owner only).
func Dir(t testing.TB) string {
	t.Helper()
	folder, err := worldReadable(t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	return folder
}

// File writes a file that every user may read, with the folders above it, below a folder that Dir has made. It returns
// the file's path.
func File(t testing.TB, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	for above := filepath.Dir(path); err == nil && len(above) > len(dir); above = filepath.Dir(above) {
		err = os.Chmod(above, 0o755) // whatever the umask says
	}
	if err == nil {
		err = os.WriteFile(path, content, 0o644)
	}
	if err == nil {
		err = os.Chmod(path, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// worldReadable makes a new folder below the temporary one, which must let every user through.
func worldReadable(name string) (string, error) {
	for above := os.TempDir(); ; above = filepath.Dir(above) {
		info, err := os.Stat(above)
		if err != nil {
			return "", fmt.Errorf("look at the temporary folder: %w", err)
		}
		if os.Geteuid() == 0 && info.Mode().Perm()&0o001 == 0 {
			return "", fmt.Errorf("user %d may not pass %s: set TMPDIR to a folder that it may", UserID, above)
		}
		if above == filepath.Dir(above) {
			break
		}
	}
	plain := strings.Map(func(r rune) rune {
		if r == '-' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' {
			return r
		}
		return '_'
	}, name)
	folder, err := os.MkdirTemp("", "mcp-stage-"+plain[:min(len(plain), 64)]+"-")
	if err != nil {
		return "", fmt.Errorf("make a folder for the stage: %w", err)
	}
	return folder, os.Chmod(folder, 0o755)
}
