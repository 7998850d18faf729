package postgres

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// defaultPort is the port of a host that names none (libpq).
const defaultPort = 5432

// maxHosts bounds the list of hosts in a DSN: each costs a connect timeout when none answers.
const maxHosts = 16

// endpoint is one server of the DSN.
type endpoint struct {
	host string // a name, an address, or the absolute path of a folder with a unix socket
	port uint16
}

func (e endpoint) isSocket() bool { return strings.HasPrefix(e.host, "/") }

// isLocal says that nothing between this process and the server is out of the machine's hands.
func (e endpoint) isLocal() bool {
	address := net.ParseIP(e.host)
	return e.isSocket() || e.host == "localhost" || address != nil && address.IsLoopback()
}

// target is what a DSN says: where to connect, as whom, and how.
type target struct {
	endpoints                     []endpoint
	user, password, database      string
	tls                           string // sslmode
	rootCert, clientCert, private string // files, "" for none
	attributes                    string // target_session_attrs
}

// The values that a DSN may give to sslmode and target_session_attrs (libpq).
var (
	plaintextModes = []string{"disable", "allow", "prefer"} // nothing on the way is certain to be encrypted
	encryptedModes = []string{"require", "verify-ca", "verify-full"}
	attributes     = []string{"any", "read-write", "read-only", "primary", "standby", "prefer-standby"}
)

// parseDSN reads postgres://user:password@host:port,host:port/database?key=value. plaintext names the hosts that may be
// reached unencrypted although they are not on this machine. An error never repeats any part of the text, which holds
// a password.
func parseDSN(dsn string, plaintext []string) (target, error) {
	if strings.TrimSpace(dsn) == "" {
		return target{}, errors.New("it is empty")
	}
	_, rest, isURL := strings.Cut(dsn, "://")
	if !isURL || !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return target{}, errors.New("it does not begin with postgres:// or postgresql://")
	}
	if strings.ContainsFunc(dsn, isControl) {
		return target{}, errors.New("it is more than one line, or holds control characters")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, database, _ := strings.Cut(rest, "/")
	var t target
	var err error
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		t.user, err = url.PathUnescape(user)
		if err == nil {
			t.password, err = url.PathUnescape(password)
		}
		if err != nil {
			return target{}, errors.New("user or password are not percent-encoded: write % as %25, @ as %40, / as %2F, ? as %3F")
		}
		authority = authority[at+1:]
	}
	if t.database, err = url.PathUnescape(database); err != nil || strings.Contains(database, "/") {
		return target{}, errors.New("the database's name is not percent-encoded; if the password holds / or @, write %2F and %40")
	}
	hosts := strings.Split(authority, ",")
	ports := make([]string, len(hosts))
	for i, h := range hosts {
		if hosts[i], ports[i], err = splitHost(h); err != nil {
			return target{}, err
		}
	}
	if err := t.options(query, &hosts, &ports); err != nil {
		return target{}, err
	}
	return t, t.complete(hosts, ports, plaintext)
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func splitHost(text string) (host, port string, err error) {
	host = text
	if bracket := strings.LastIndexByte(text, ']'); bracket < 0 && strings.Count(text, ":") > 1 {
		return "", "", errors.New("an IPv6 address stands between brackets: [::1]:5432")
	} else if at := strings.LastIndexByte(text, ':'); at > bracket {
		host, port = text[:at], text[at+1:]
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	if host, err = url.PathUnescape(host); err != nil {
		return "", "", errors.New("a host is not percent-encoded")
	}
	return host, port, nil
}

// options reads what stands behind the question mark.
func (t *target) options(query string, hosts, ports *[]string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("what follows the question mark is not key=value&key=value")
	}
	for key, list := range values {
		if len(list) != 1 {
			return fmt.Errorf("the key %s stands twice", known(key))
		}
		value := list[0]
		switch key {
		case "host":
			if !slices.Equal(*hosts, []string{""}) {
				return errors.New("hosts stand before the database's name and behind the question mark; keep one")
			}
			*hosts = strings.Split(value, ",")
			*ports = slices.Repeat([]string{(*ports)[0]}, len(*hosts))
		case "port":
			// below, when it is known how many hosts there are
		case "user":
			t.user = value
		case "password":
			t.password = value
		case "dbname":
			t.database = value
		case "sslmode":
			if !slices.Contains(plaintextModes, value) && !slices.Contains(encryptedModes, value) {
				return errors.New("sslmode is none of disable, allow, prefer, require, verify-ca, verify-full")
			}
			t.tls = value
		case "sslrootcert":
			t.rootCert = value
		case "sslcert":
			t.clientCert = value
		case "sslkey":
			t.private = value
		case "target_session_attrs":
			if !slices.Contains(attributes, value) {
				return fmt.Errorf("target_session_attrs is none of %s", strings.Join(attributes, ", "))
			}
			t.attributes = value
		case "connect_timeout":
			return errors.New("connect_timeout is set by MCP_SQL_CONNECT_TIMEOUT")
		case "application_name":
			return errors.New("application_name is set by MCP_SQL_APPLICATION_NAME")
		case "options", "search_path":
			return errors.New("session settings are pinned by the server; the search path is set by MCP_SQL_SEARCH_PATH")
		default:
			return fmt.Errorf("a key is none of %s", strings.Join(keys, ", "))
		}
	}
	if value := values.Get("port"); value != "" {
		list := strings.Split(value, ",")
		if len(list) == 1 {
			list = slices.Repeat(list, len(*hosts))
		}
		if len(list) != len(*hosts) {
			return errors.New("there are not as many ports as hosts")
		}
		*ports = list
	}
	return nil
}

// keys are the keys that a DSN may have. What is not here could name a file or a program to read passwords from, or
// change the session behind the pins.
var keys = []string{
	"host", "port", "user", "password", "dbname", "sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs",
}

// known is the key if it is one that may be shown.
func known(key string) string {
	if slices.Contains(keys, key) {
		return key
	}
	return "that is not known"
}

// complete puts the endpoints together, fills in defaults and refuses what must not be.
func (t *target) complete(hosts, ports, plaintext []string) error {
	// Encoded they pass the look at the whole text. Names of roles and databases may hold them, but for NUL.
	if strings.ContainsFunc(strings.Join(hosts, ""), isControl) || strings.ContainsRune(t.user+t.password+t.database, 0) {
		return errors.New("it holds control characters")
	}
	if len(hosts) > maxHosts {
		return fmt.Errorf("more than %d hosts", maxHosts)
	}
	for i, host := range hosts {
		port := uint64(defaultPort)
		if ports[i] != "" {
			n, err := strconv.ParseUint(ports[i], 10, 16)
			if err != nil || n == 0 {
				return errors.New("a port is no number from 1 to 65535 (or the password holds : / ? # or a space that is not percent-encoded)")
			}
			port = n
		}
		switch {
		case host == "":
			return errors.New("a host is missing: postgres://user@host:5432/database, or host=/folder/of/the/socket as a key")
		case strings.Contains(host, ","): // pgconn would take it for two
			return errors.New("a host or the folder of the socket holds a comma")
		case strings.HasPrefix(host, "/") && path.Clean(host) != host:
			return errors.New("the folder of the socket is no plain absolute path")
		case !strings.HasPrefix(host, "/") && strings.ContainsAny(host, " /\\'%"):
			return errors.New("a host is neither a name, an address nor an absolute path")
		}
		t.endpoints = append(t.endpoints, endpoint{host, uint16(port)})
	}
	if t.user == "" {
		return errors.New("the user is missing: postgres://user@host:5432/database")
	}
	if t.database == "" {
		t.database = t.user // libpq
	}
	for _, file := range []string{t.rootCert, t.clientCert, t.private} {
		if file != "" && file != "system" && (!path.IsAbs(file) || path.Clean(file) != file) {
			return errors.New("sslrootcert, sslcert and sslkey are plain absolute paths")
		}
	}
	if (t.clientCert == "") != (t.private == "") {
		return errors.New("sslcert and sslkey come together")
	}
	if t.attributes == "" {
		t.attributes = "any"
		if len(t.endpoints) > 1 {
			t.attributes = "prefer-standby" // reading from a replica leaves the primary alone
		}
	}
	local := !slices.ContainsFunc(t.endpoints, func(e endpoint) bool { return !e.isLocal() })
	if t.tls == "" {
		t.tls = "verify-full"
		if local {
			t.tls = "prefer"
		}
	}
	if slices.Contains(plaintextModes, t.tls) {
		for _, e := range t.endpoints {
			if !e.isLocal() && !slices.Contains(plaintext, e.host) {
				return fmt.Errorf("sslmode=%s lets the password and the rows travel unencrypted to another machine: "+
					"use verify-full, or name the host in MCP_SQL_ALLOW_PLAINTEXT", t.tls)
			}
		}
	}
	return nil
}

// trustsSystem says that certificates are checked against the system's list.
func (t target) trustsSystem() bool {
	return t.tls == "verify-full" && (t.rootCert == "" || t.rootCert == "system") || t.tls == "verify-ca" && t.rootCert == ""
}

// connString is the target for pgconn.ParseConfig, with every key that it would otherwise take from the environment or
// from files in the home folder.
func (t target) connString(application string) string {
	hosts, ports := make([]string, len(t.endpoints)), make([]string, len(t.endpoints))
	for i, e := range t.endpoints {
		hosts[i], ports[i] = e.host, strconv.Itoa(int(e.port))
	}
	var b strings.Builder
	for _, pair := range [][2]string{
		{"host", strings.Join(hosts, ",")},
		{"port", strings.Join(ports, ",")},
		{"user", t.user},
		{"password", t.password},
		{"dbname", t.database},
		{"sslmode", t.tls},
		{"sslrootcert", t.rootCert},
		{"sslcert", t.clientCert},
		{"sslkey", t.private},
		{"target_session_attrs", t.attributes},
		{"application_name", application},
		{"passfile", ""},
	} {
		b.WriteString(pair[0] + "='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(pair[1]) + "' ")
	}
	return b.String()
}

// sameServer says whether two targets differ in nothing but user and password: the only things that a rotated DSN file
// may change, because the rights to reach the rest were fixed at the start.
func (t target) sameServer(other target) bool {
	return slices.Equal(t.endpoints, other.endpoints) && t.database == other.database && t.tls == other.tls &&
		t.rootCert == other.rootCert && t.clientCert == other.clientCert && t.private == other.private &&
		t.attributes == other.attributes
}
