package latency

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mcp-server-suite/pkg/rawclient"
)

// The files that are read, by name: their size in bytes.
const (
	smallFile, smallBytes = "1k.txt", 1 << 10
	usualFile, usualBytes = "64k.txt", 64 << 10 // what sandbox_fs_read gives without max_bytes (seed 000)
	largeFile, largeBytes = "1m.txt", 1 << 20   // the most that it gives at once (seed 000)

	// A small one in a folder: the folder is opened by openat2, which a file of the root does without, or by a walk.
	innerFolder = "inner"
	innerFile   = innerFolder + "/" + smallFile
)

// files are the programs and the served folder, where the unprivileged user can reach them.
type files struct {
	folder   string // removed by remove
	tree     string // MCP_SAFE_DATA_DIR
	daemon   string
	wiretest string
	self     string // this program, for the bare programs
	dsn      string // a file with the DSN of the database, "" if there is none
}

// layOut takes the paths of the daemon, of its test build and of the DSN file ("" if that is not wanted). It writes the served folder, with
// the programs beside it where another user can reach them. The caller must call remove.
func layOut(daemon, wiretest, dsnFile string) (f *files, err error) {
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
	inner := filepath.Join(f.tree, innerFolder)
	for _, path := range []string{folder, f.tree, inner} {
		if path != folder {
			err = os.Mkdir(path, 0o755)
		}
		if err = errors.Join(err, os.Chmod(path, 0o755)); err != nil { // whatever the umask says
			return f, err
		}
	}
	for name, size := range map[string]int{
		smallFile: smallBytes, usualFile: usualBytes, largeFile: largeBytes, innerFile: smallBytes,
	} {
		path := filepath.Join(f.tree, name)
		if err = errors.Join(os.WriteFile(path, prose(size), 0o644), os.Chmod(path, 0o644)); err != nil {
			return f, err
		}
	}
	if dsnFile != "" {
		if f.dsn, err = handDSN(dsnFile, filepath.Join(folder, "database")); err != nil {
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
		if *program.to, err = rawclient.Reachable(program.path, filepath.Join(folder, program.name)); err != nil {
			return f, missing(program.path, err)
		}
	}
	return f, nil
}

func (f *files) remove() { _ = os.RemoveAll(f.folder) } // what stays is in the temporary folder

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
