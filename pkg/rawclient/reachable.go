package rawclient

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// Reachable returns an absolute path of the program at path under which the user that [Command] makes can execute it: a
// copy at copyTo if we are root, because that user may not pass through the folder in which the program was built. An
// error that wraps fs.ErrNotExist says that there is no program at path.
func Reachable(path, copyTo string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is no program", path)
	case os.Geteuid() != 0:
		return filepath.Abs(path)
	}
	from, err := os.Open(path)
	if err != nil {
		return "", err
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
