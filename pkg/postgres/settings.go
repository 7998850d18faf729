package postgres

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Settings say where the server is and what a statement may cost. All but the marked ones are required.
type Settings struct {
	DSN     string // postgres:// URL; or else
	DSNFile string // the absolute path of a file that holds one, read again for each new connection

	ConnectTimeout  time.Duration // of one host, and for a free connection of the pool
	QueryTimeout    time.Duration // statement_timeout; the role's own counts where it is smaller
	PoolSize        int           // most connections at once
	ApplicationName string        // as pg_stat_activity shows it
	SearchPath      []string      // schemas for unqualified names, in order; empty: pg_catalog only
	Pooler          bool          // a pooler in transaction mode stands between: the session is not ours to reset
	AllowPlaintext  []string      // hosts of other machines that may be reached unencrypted; may be empty
	AllowUnsafeRole bool          // serve with a role that may write
	MaxCost         float64       // most planner cost units of a statement; 0: not asked
	ResultBytes     int           // bytes of JSON of all rows of a result
	Log             *slog.Logger
}

// maxDSNBytes bounds the DSN file.
const maxDSNBytes = 64 << 10

// maxPool is far more connections than one daemon has use for.
const maxPool = 1000

// maxNameBytes is the longest name that PostgreSQL keeps (NAMEDATALEN - 1).
const maxNameBytes = 63

func (s Settings) check() error {
	switch {
	case (s.DSN == "") == (s.DSNFile == ""):
		return errors.New("check settings: one of DSN and DSN file is needed, and only one")
	case s.DSNFile != "" && !filepath.IsAbs(s.DSNFile):
		return errors.New("check settings: the DSN file is no absolute path")
	case s.ConnectTimeout <= 0 || s.QueryTimeout <= 0:
		return errors.New("check settings: a timeout is missing")
	case s.PoolSize < 1 || s.PoolSize > maxPool || s.ResultBytes < 1 || s.MaxCost < 0 || s.Log == nil:
		return errors.New("check settings: pool size, result bytes, cost or log")
	case s.ApplicationName == "" || len(s.ApplicationName) > maxNameBytes:
		return fmt.Errorf("check settings: the application name has 1 to %d bytes", maxNameBytes)
	}
	for _, schema := range s.SearchPath {
		if schema == "" || len(schema) > maxNameBytes || strings.ContainsRune(schema, 0) {
			return errors.New("check settings: a schema of the search path is no name")
		}
	}
	return nil
}

// read gives the target as it is now.
func (s Settings) read() (target, error) {
	dsn := s.DSN
	if s.DSNFile != "" {
		f, err := os.OpenFile(s.DSNFile, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe that nobody writes to is not waited for
		if err != nil {
			return target{}, fmt.Errorf("open DSN file: %w", errors.Unwrap(err))
		}
		text, err := io.ReadAll(io.LimitReader(f, maxDSNBytes+1))
		_ = f.Close() // only read from
		if err != nil {
			return target{}, fmt.Errorf("read DSN file: %w", errors.Unwrap(err))
		}
		if len(text) > maxDSNBytes {
			return target{}, fmt.Errorf("read DSN file: at most %d bytes are taken", maxDSNBytes)
		}
		dsn = strings.TrimRight(string(text), "\r\n")
	}
	t, err := parseDSN(dsn, s.AllowPlaintext)
	if err != nil {
		return target{}, fmt.Errorf("parse DSN: %w", err)
	}
	return t, nil
}

// Needs is what the operating system must let the process do for a [DB] to work.
type Needs struct {
	Ports []uint16 // remote TCP ports
	INET  bool     // TCP sockets
	Unix  bool     // unix stream sockets
	DNS   bool     // host names to resolve
	Files []string // files and folders to read
	// Secrets are those of the files that nobody else may read: the DSN's, the private key.
	Secrets []string
	Roots   bool // the system's list of trusted certificates
	// Folders hold the unix sockets to connect to.
	Folders []string
}

// Needs reads the DSN and says what it takes, before anything is connected. It fails where the DSN is wrong; the error
// repeats nothing of it.
func (s Settings) Needs() (Needs, error) {
	if err := s.check(); err != nil {
		return Needs{}, err
	}
	t, err := s.read()
	if err != nil {
		return Needs{}, err
	}
	var n Needs
	for _, e := range t.endpoints {
		if e.isSocket() {
			n.Unix = true
			n.Folders = append(n.Folders, e.host)
			continue
		}
		n.INET = true
		n.Ports = append(n.Ports, e.port)
		if !isAddress(e.host) {
			n.DNS = true
		}
	}
	for _, file := range []string{t.rootCert, t.clientCert, t.private} {
		if file != "" && file != "system" {
			n.Files = append(n.Files, file)
		}
	}
	n.Roots = n.INET && t.trustsSystem()
	if t.private != "" {
		n.Secrets = append(n.Secrets, t.private)
	}
	if s.DSNFile != "" {
		n.Secrets = append(n.Secrets, s.DSNFile)
		// The folder: Kubernetes swaps a secret by a link beside it.
		n.Files = append(n.Files, filepath.Dir(s.DSNFile))
	}
	slices.Sort(n.Ports)
	n.Ports = slices.Compact(n.Ports)
	return n, nil
}
