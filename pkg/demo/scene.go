package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mcp-server-suite/pkg/rawclient"
)

// The files of the served folder, and what stands beside it.
const (
	notes    = "field-notes.txt"
	logbook  = "logbook.txt"
	archived = "archive/1987/weather.txt"
	inside   = "today"                // a link to archive/1987/../../field-notes.txt
	outside  = "shortcut"             // a link to the diary
	private  = "../private/diary.txt" // as seen from the served folder
	missing  = "../private/nothing-here.txt"
)

const notesText = `Heron station, 14 May.
Wind from the west, the river two hands higher than yesterday.
Three herons at the weir, one of them with the white feather again.
The miller says he has counted four; he has counted the post.
`

// secret must never be in an answer.
const secret = "marzipan-lighthouse"

// logbookEntry is one line of the logbook. It has characters of two and of three bytes.
const logbookEntry = "Entry: caf\u00e9 closed, Andr\u00e9 says the ferry\u2019s d\u00e9j\u00e0 full.\n"

// scene is the served folder, with the daemon beside it where its user can reach it.
type scene struct {
	folder string // removed by remove
	tree   string // MCP_SAFE_DATA_DIR
	daemon string
	long   string // what the logbook holds

	database *database // nil without one
}

// build makes the scene; dsnFile is "" without a database. The caller must call remove.
func build(daemon, dsnFile string) (s *scene, err error) {
	folder, err := os.MkdirTemp("", "mcp-proof-demo-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	s = &scene{
		folder: folder, tree: filepath.Join(folder, "served"), daemon: daemon,
		long: strings.Repeat(logbookEntry, 40),
	}
	defer func() {
		if err != nil {
			s.remove()
			s = nil
		}
	}()
	if err = os.Chmod(folder, 0o755); err != nil {
		return s, err
	}
	for name, text := range map[string]string{
		notes: notesText, logbook: s.long, archived: "Rain.\n", private: "The safe word is " + secret + ".\n",
	} {
		if err = write(folder, filepath.Join(s.tree, name), text); err != nil {
			return s, err
		}
	}
	err = errors.Join(
		os.Symlink("archive/1987/../../"+notes, filepath.Join(s.tree, inside)),
		os.Symlink(filepath.Join(s.tree, private), filepath.Join(s.tree, outside)),
	)
	if err != nil {
		return s, err
	}
	if dsnFile != "" {
		if s.database, err = openDatabase(dsnFile, filepath.Join(folder, "secret", "dsn")); err != nil {
			return s, err
		}
	}
	s.daemon, err = rawclient.Reachable(daemon, filepath.Join(folder, "daemon"))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s is not there: build it with make build, or name it with --daemon", daemon)
	}
	return s, err
}

func (s *scene) remove() { _ = os.RemoveAll(s.folder) } // what stays is in the temporary folder

// environ is the daemon's whole environment.
func (s *scene) environ() []string {
	environ := []string{
		"MCP_SAFE_DATA_DIR=" + s.tree,
		fmt.Sprintf("MCP_METRICS_CPU_SAMPLE_SECONDS=%g", sample.Seconds()),
	}
	if s.database != nil {
		environ = append(environ, "MCP_SQL_DSN_FILE="+s.database.file)
	}
	return environ
}

// write makes a file that every user may read, with the folders between it and top, whatever the umask says.
func write(top, path, text string) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	for above := filepath.Dir(path); err == nil && above != top; above = filepath.Dir(above) {
		err = os.Chmod(above, 0o755)
	}
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path, []byte(text), 0o644), os.Chmod(path, 0o644))
}
