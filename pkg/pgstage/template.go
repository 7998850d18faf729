package pgstage

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/stage"
)

const (
	// BinVariable names an environment variable of the tests: the folder of the programs of the PostgreSQL that servers
	// without Options.Bin are, instead of the newest one that is installed.
	BinVariable = "MCP_POSTGRES_BIN"

	// SecondVariable names an environment variable of the tests: the folder of the programs of a further major version,
	// which scripts/postgres18.sh fetches. See [Second].
	SecondVariable = "MCP_POSTGRES18_BIN"

	// RequireVariable names an environment variable of the tests: with the value 1 a test fails where it would skip for
	// want of PostgreSQL or PgBouncer.
	RequireVariable = "MCP_REQUIRE_POSTGRES"

	superuser = "postgres"

	// reaper removes the folder $1 when its standard input ends, that is, when the test process does, however it does.
	// The servers are ending at the same moment and may still write: it tries for 20 seconds.
	reaper = `read -r _; for _ in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do
		rm -rf "$1" && exit; sleep 1; done`
)

// password is that of the superuser of all servers of this process.
var password = sync.OnceValue(rand.Text)

// folders counts the folders made below the process's own.
var folders atomic.Int64

// folder is where a process keeps everything. Its pipe must stay open as long as the process lives: the shell that
// removes the folder waits for its end.
type folder struct {
	path string
	pipe io.Closer
}

// ground is the folder below which everything is kept: the temporary one when TMPDIR names it, otherwise memory where
// there is enough. To copy a cluster means to make 970 files: 1.5 s on the disk of a busy machine, 0.07 s in memory.
func ground() string {
	const memory, enough = "/dev/shm", 2 << 30 // bytes; a server takes 30 MB, and 130 MB when it has written much
	var fs unix.Statfs_t
	if os.Getenv("TMPDIR") == "" && unix.Statfs(memory, &fs) == nil && fs.Type == unix.TMPFS_MAGIC &&
		fs.Bavail*uint64(fs.Bsize) >= enough && unix.Access(memory, unix.W_OK|unix.X_OK) == nil {
		return memory
	}
	return os.TempDir()
}

// home makes the folder of this process and starts the shell.
var home = sync.OnceValues(func() (folder, error) {
	ground := ground()
	for above := ground; ; above = filepath.Dir(above) {
		info, err := os.Stat(above)
		if err != nil {
			return folder{}, fmt.Errorf("look at the folder for servers: %w", err)
		}
		if os.Geteuid() == 0 && info.Mode().Perm()&0o001 == 0 {
			return folder{}, fmt.Errorf("user %d may not pass %s: set TMPDIR to a folder that it may", stage.UserID, above)
		}
		if above == filepath.Dir(above) {
			break
		}
	}
	path, err := os.MkdirTemp(ground, "mcp-pg-")
	if err != nil {
		return folder{}, fmt.Errorf("make a folder for servers: %w", err)
	}
	shell := exec.Command("/bin/sh", "-c", reaper, "mcp-pg-reaper", path)
	shell.Dir = "/"
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // an interrupt of the terminal is not for it
	pipe, err := shell.StdinPipe()
	if err == nil {
		err = shell.Start()
	}
	if err == nil {
		err = os.Chmod(path, 0o755)
	}
	if err != nil {
		return folder{}, errors.Join(fmt.Errorf("start the shell that removes %s: %w", path, err), os.RemoveAll(path))
	}
	return folder{path, pipe}, nil
})

// newFolder makes an empty folder of the servants that every user may read.
func newFolder() (string, error) {
	all, err := home()
	if err != nil {
		return "", err
	}
	path := filepath.Join(all.path, strconv.FormatInt(folders.Add(1), 10))
	return path, servant().mkdir(path, 0o755)
}

// templates are the clusters that servers are copies of, by the folder of their programs: initdb takes 0.9 s of CPU, a
// copy 0.04 s.
var templates struct {
	mu    sync.Mutex
	byBin map[string]func() (string, error)
}

// template returns the folder of a cluster that no server has used.
func template(bin string) (string, error) {
	templates.mu.Lock()
	build, known := templates.byBin[bin]
	if !known {
		build = sync.OnceValues(func() (string, error) { return initdb(bin) })
		if templates.byBin == nil {
			templates.byBin = map[string]func() (string, error){}
		}
		templates.byBin[bin] = build
	}
	templates.mu.Unlock()
	return build()
}

func initdb(bin string) (string, error) {
	folder, err := newFolder()
	if err != nil {
		return "", err
	}
	named := account{} // whoever has a name, see the package's comment
	if os.Geteuid() == 0 {
		nobody, err := user.Lookup("nobody")
		if err != nil {
			return "", fmt.Errorf("find a user with a name for initdb: %w", err)
		}
		uid, err := strconv.Atoi(nobody.Uid)
		if err != nil {
			return "", fmt.Errorf("read the number of nobody: %w", err)
		}
		gid, err := strconv.Atoi(nobody.Gid)
		if err != nil {
			return "", fmt.Errorf("read the group of nobody: %w", err)
		}
		named = account{uid, gid}
	}
	data, secret := filepath.Join(folder, "data"), filepath.Join(folder, "secret")
	if err := named.mkdir(data, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of the template: %w", err)
	}
	if err := named.write(secret, password()+"\n", 0o600); err != nil {
		return "", fmt.Errorf("write the superuser's password: %w", err)
	}
	// Segments of 1 MiB: the 16 MiB that are usual are a third of what each server would have to copy.
	err = named.run(nil, filepath.Join(bin, "initdb"), "--pgdata="+data, "--username="+superuser, "--pwfile="+secret,
		"--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--wal-segsize=1", "--no-sync", "--no-instructions")
	if err != nil {
		return "", err
	}
	err = filepath.WalkDir(data, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return servant().own(path)
	})
	if err != nil {
		return "", fmt.Errorf("hand the template over: %w", err)
	}
	return data, os.Remove(secret)
}

// Bin returns the folder of the programs of PostgreSQL: what [BinVariable] names, otherwise the newest version of
// Debian's packages, otherwise that of the postgres in PATH. It skips (or fails, see [RequireVariable]) without any.
func Bin(t testing.TB) string {
	t.Helper()
	if folder := os.Getenv(BinVariable); folder != "" {
		checkBin(t, folder)
		return folder
	}
	installed, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(installed, func(a, b string) int { return majorOf(a) - majorOf(b) })
	if len(installed) > 0 {
		return filepath.Dir(installed[len(installed)-1])
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path)
	}
	missing(t, "no PostgreSQL server is installed: run scripts/postgres.sh (Debian package postgresql-15)")
	return ""
}

// Second returns the folder of the programs of a further major version of PostgreSQL, for Options.Bin. It skips
// without: it is opt-in, see [SecondVariable].
func Second(t testing.TB) string {
	t.Helper()
	folder := os.Getenv(SecondVariable)
	if folder == "" {
		t.Skipf("no second PostgreSQL: set %s to what scripts/postgres18.sh prints", SecondVariable)
	}
	checkBin(t, folder)
	return folder
}

// checkBin ends the test when the folder that somebody has named is not one: another server instead would test
// something else than what was meant.
func checkBin(t testing.TB, folder string) {
	t.Helper()
	if !filepath.IsAbs(folder) {
		t.Fatalf("the folder of PostgreSQL's programs must be absolute: %s", folder)
	}
	if err := servant().run(nil, filepath.Join(folder, "postgres"), "--version"); err != nil {
		t.Fatalf("no PostgreSQL that user %d can run is where the environment says: %v", servant().uid, err)
	}
}

// majorOf reads the version out of a path of Debian's packages; 0 when there is none.
func majorOf(path string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	if err != nil {
		return 0
	}
	return n
}

// missing skips, or fails where nothing may be missing.
func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv(RequireVariable) == "1" {
		t.Fatalf("%s (%s is set)", what, RequireVariable)
		return
	}
	t.Skip("SKIPPED, nothing was tested: " + what)
}

// setting writes a line of postgresql.conf.
func setting(name, value string) string {
	return name + " = '" + strings.ReplaceAll(value, "'", "''") + "'\n"
}
