package latency

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// The files that are read, by name: their size in bytes.
const (
	smallFile, smallBytes = "1k.txt", 1 << 10
	usualFile, usualBytes = "64k.txt", 64 << 10 // what sandbox_fs_read gives without max_bytes (seed 000)
	largeFile, largeBytes = "1m.txt", 1 << 20   // the most that it gives at once (seed 000)
)

// files are the programs and the served folder, where the unprivileged user can reach them.
type files struct {
	folder   string // removed by remove
	tree     string // MCP_SAFE_DATA_DIR
	daemon   string
	wiretest string
	self     string // this program, for the bare programs
}

// layOut takes the paths of the daemon and of its test build ("" if that is not wanted). It writes the served folder and, when we are root, copies the programs beside it: they will run as another user,
// who may not pass through the folder in which they were built. The caller must call remove.
func layOut(daemon, wiretest string) (f *files, err error) {
	folder, err := os.MkdirTemp("", "mcp-proof-latency-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	f = &files{folder: folder, tree: filepath.Join(folder, "tree")}
	defer func() {
		if err != nil {
			f.remove()
			f = nil
		}
	}()
	if err = errors.Join(os.Chmod(folder, 0o755), os.Mkdir(f.tree, 0o755), os.Chmod(f.tree, 0o755)); err != nil {
		return f, err
	}
	for name, size := range map[string]int{smallFile: smallBytes, usualFile: usualBytes, largeFile: largeBytes} {
		path := filepath.Join(f.tree, name)
		if err = errors.Join(os.WriteFile(path, prose(size), 0o644), os.Chmod(path, 0o644)); err != nil {
			return f, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return f, fmt.Errorf("find this program's own file: %w", err)
	}
	for _, program := range []struct {
		to         *string
		path, name string
	}{{&f.daemon, daemon, "daemon"}, {&f.wiretest, wiretest, "wiretest"}, {&f.self, self, "mcp-proof"}} {
		if program.path == "" {
			continue // not wanted
		}
		if *program.to, err = reachable(program.path, filepath.Join(folder, program.name)); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f *files) remove() { _ = os.RemoveAll(f.folder) } // what stays is in the temporary folder

// reachable returns an absolute path of the program at path under which the user who will run it can execute it: a copy
// if we are root, because it will be another user.
func reachable(path, copyTo string) (string, error) {
	if os.Geteuid() != 0 {
		if _, err := os.Stat(path); err != nil {
			return "", missing(path, err)
		}
		return filepath.Abs(path)
	}
	from, err := os.Open(path)
	if err != nil {
		return "", missing(path, err)
	}
	defer func() { _ = from.Close() }() // opened for reading
	// A program that is started in this moment would inherit the copy open for writing, until it has become itself; and
	// what is open for writing cannot be executed (execve(2), ETXTBSY).
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	to, err := os.OpenFile(copyTo, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return "", fmt.Errorf("copy a program: %w", err)
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close(), os.Chmod(copyTo, 0o755)); err != nil {
		return "", fmt.Errorf("copy a program: %w", err)
	}
	return copyTo, nil
}

func missing(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not there: build it with make build wiretest, or name it with --daemon or --wiretest", path)
	}
	return err
}

// prose is size bytes of ASCII text in lines of 80 bytes.
func prose(size int) []byte {
	const sentence = "The heron stands in the shallows and waits; the river brings what it has to say.\n"
	return []byte(strings.Repeat(sentence, size/len(sentence)+1)[:size])
}
