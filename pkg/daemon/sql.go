package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mcp-server-suite/pkg/config"
	"mcp-server-suite/pkg/lockdown"
	"mcp-server-suite/pkg/pgpolicy"
	"mcp-server-suite/pkg/postgres"
	"mcp-server-suite/pkg/seccomp"
)

// cacheBytes bounds the texts that the policy has approved and keeps; a hundred long ones, or thousands of short ones.
const cacheBytes = 4 << 20

// dnsPort is the port of a name server (RFC 1035, section 4.2).
const dnsPort = 53

// resolverFiles are what Go's resolver reads, and what glibc's would, to find the name server and the local names.
var resolverFiles = []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"}

// certificates are where distributions keep the list of trusted certificates (Go, crypto/x509/root_linux.go).
var certificates = []string{"/etc/ssl", "/etc/pki", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates"}

// SettingFault is a setting that is wrong in a way that its own text does not show.
type SettingFault struct {
	Setting string
	Err     error
}

func (f *SettingFault) Error() string { return f.Setting + ": " + f.Err.Error() }

func (f *SettingFault) Unwrap() error { return f.Err }

func dsnFault(c config.Config, err error) error {
	if c.SQLDSNFile != "" {
		return &SettingFault{"MCP_SQL_DSN_FILE", err}
	}
	return &SettingFault{"MCP_SQL_DSN", err}
}

// planSQL adds what the database needs: no socket but those of the DSN's family, no port but its ports.
func planSQL(c config.Config, p *lockdown.Plan) error {
	needs, err := databaseSettings(c, slog.New(slog.DiscardHandler)).Needs()
	if err != nil {
		return dsnFault(c, err)
	}
	p.Filter.Profiles = append(p.Filter.Profiles, seccomp.SQL)
	p.Filter.INET, p.Filter.Unix, p.Filter.DNS = needs.INET, needs.Unix, needs.DNS
	p.ConnectTCP = append(p.ConnectTCP, needs.Ports...)
	if needs.DNS {
		p.ConnectTCP = append(p.ConnectTCP, dnsPort) // an answer that is too long for a datagram
		p.SendUDP = append(p.SendUDP, dnsPort)
		for _, file := range resolverFiles {
			p.Grants = append(p.Grants, lockdown.Grant{Path: file, Optional: true})
		}
	}
	if needs.Roots {
		for _, folder := range certificates {
			p.Grants = append(p.Grants, lockdown.Grant{Path: folder, List: true, Optional: true})
		}
	}
	for _, needed := range []struct {
		what  string
		paths []string
	}{
		{"a certificate or key that it names, or its own folder,", needs.Files},
		{"the folder of the server's socket", needs.Folders},
	} {
		for _, path := range needed.paths {
			// A rule holds for what is there: what comes later could not be reached.
			if _, err := os.Stat(path); err != nil {
				return dsnFault(c, fmt.Errorf("%s cannot be used: %w (it must be there before this program)", needed.what, errors.Unwrap(err)))
			}
		}
	}
	for _, path := range needs.Secrets {
		if c.SafeDataDir != "" && below(path, c.SafeDataDir) {
			return dsnFault(c, errors.New("a secret that it is or names lies below MCP_SAFE_DATA_DIR, where every client could read it; "+
				"keep it elsewhere"))
		}
	}
	for _, file := range needs.Files {
		p.Grants = append(p.Grants, lockdown.Grant{Path: file})
	}
	for _, folder := range needs.Folders {
		p.Grants = append(p.Grants, lockdown.Grant{Path: folder, Sockets: true})
	}
	if c.SQLUnsafeRole {
		p.Waived = append(p.Waived, "MCP_SQL_ALLOW_UNSAFE_ROLE=true")
	}
	slices.Sort(p.ConnectTCP)
	p.ConnectTCP = slices.Compact(p.ConnectTCP) // a server may listen on the name server's port
	// Each connection is a socket, and one more while a statement is cancelled.
	p.OpenFiles += 2 * uint64(c.SQLPoolMaxSize)
	p.Memory += int64(c.SQLPoolMaxSize) * connectionBytes
	return nil
}

// below says whether a file is in a folder, or in one below it, when links have been followed. Other names of the same file,
// hard links and bind mounts, are not found.
func below(path, folder string) bool {
	for _, p := range []*string{&path, &folder} {
		if real, err := filepath.EvalSymlinks(*p); err == nil { // else it fails elsewhere
			*p = real
		}
	}
	relative, err := filepath.Rel(folder, path)
	return err == nil && relative != ".." && !strings.HasPrefix(relative, "../")
}

// connectionBytes is what a connection may hold: one message of the longest kind, and what it is read into.
const connectionBytes = 4 << 20

func databaseSettings(c config.Config, log *slog.Logger) postgres.Settings {
	return postgres.Settings{
		DSN: c.SQLDSN, DSNFile: c.SQLDSNFile,
		ConnectTimeout: c.SQLConnectTimeout, QueryTimeout: c.SQLQueryTimeout,
		PoolSize: c.SQLPoolMaxSize, ApplicationName: c.SQLApplicationName, SearchPath: c.SQLSearchPath,
		Pooler: c.SQLPooler, AllowPlaintext: c.SQLPlaintext, AllowUnsafeRole: c.SQLUnsafeRole,
		MaxCost: float64(c.SQLMaxCost), ResultBytes: c.SQLMaxResultBytes, Log: log,
	}
}

// policySettings are the fields of pgpolicy.Settings by the names that operators know.
var policySettings = map[string]string{
	"AllowFunctions": "MCP_SQL_ALLOW_FUNCTIONS", "AllowTypes": "MCP_SQL_ALLOW_TYPES", "AllowRelations": "MCP_SQL_ALLOW_RELATIONS",
	"SearchPath": "MCP_SQL_SEARCH_PATH",
}

// Policy is the policy on SQL texts that the settings ask for.
func Policy(c config.Config) (*pgpolicy.Policy, error) {
	policy, err := pgpolicy.New(pgpolicy.Settings{
		AllowFunctions: c.SQLFunctions, AllowRelations: c.SQLRelations, AllowTypes: c.SQLTypes,
		SearchPath: c.SQLSearchPath, NoRecursive: !c.SQLRecursive, CacheBytes: cacheBytes,
	})
	var wrong *pgpolicy.SettingFault
	if errors.As(err, &wrong) { // the first of them
		return nil, &SettingFault{policySettings[wrong.Field], wrong}
	}
	if err != nil {
		return nil, fmt.Errorf("make policy: %w", err)
	}
	return policy, nil
}

// Database opens the pool of connections that the settings ask for; nothing is connected yet. It is for a confined process:
// pgconn reads some twenty variables, and fails over a wrong one, and stage 2 of lockdown has none of them.
func Database(c config.Config, log *slog.Logger) (*postgres.DB, error) {
	if !c.SQL() {
		return nil, &SettingFault{"MCP_SQL_DSN", errors.New("is not set, nor is MCP_SQL_DSN_FILE")}
	}
	db, err := postgres.Open(databaseSettings(c, log))
	if err != nil {
		return nil, dsnFault(c, fmt.Errorf("open database: %w", err))
	}
	return db, nil
}
