package postgres

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// password is in every DSN below that has one, so that a test can look for it in every error.
const password = "s3cr3t"

func TestADSNIsReadOrRefusedByItsKind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, dsn string
		plaintext []string
		want      string // target in short, or
		says      string // part of the refusal
	}{
		{"plain", "postgres://u@localhost/d", nil, "u localhost:5432 d prefer any", ""},
		{"the other scheme", "postgresql://u@localhost/d", nil, "u localhost:5432 d prefer any", ""},
		{"database of the user", "postgres://u@localhost", nil, "u localhost:5432 u prefer any", ""},
		{"remote", "postgres://u:" + password + "@db.internal:6432/d", nil, "u db.internal:6432 d verify-full any", ""},
		{"remote, weaker but encrypted", "postgres://u@db/d?sslmode=require", nil, "u db:5432 d require any", ""},
		{"remote, unencrypted", "postgres://u:" + password + "@db/d?sslmode=disable", nil, "", "MCP_SQL_ALLOW_PLAINTEXT"},
		{"remote, maybe unencrypted", "postgres://u@db/d?sslmode=prefer", nil, "", "unencrypted"},
		{"remote, allow", "postgres://u@db/d?sslmode=allow", nil, "", "unencrypted"},
		{"named", "postgres://u@db/d?sslmode=disable", []string{"db"}, "u db:5432 d disable any", ""},
		{"another one is named", "postgres://u@db/d?sslmode=disable", []string{"db2"}, "", "unencrypted"},
		{"one of two is named", "postgres://u@db,db2/d?sslmode=disable", []string{"db2"}, "", "unencrypted"},
		{"loopback", "postgres://u@127.8.9.1/d", nil, "u 127.8.9.1:5432 d prefer any", ""},
		{"not loopback", "postgres://u@128.0.0.1/d?sslmode=disable", nil, "", "unencrypted"},
		{"IPv6", "postgres://u@[::1]:99/d", nil, "u ::1:99 d prefer any", ""},
		{"IPv6 without brackets", "postgres://u@::1/d", nil, "", "between brackets"},
		{"two hosts", "postgres://u@a:1,b:2/d", nil, "u a:1,b:2 d verify-full prefer-standby", ""},
		{"two hosts, said otherwise", "postgres://u@a,b/d?target_session_attrs=any", nil, "u a:5432,b:5432 d verify-full any", ""},
		{"two hosts, one port", "postgres://u@/d?host=a,b&port=7", nil, "u a:7,b:7 d verify-full prefer-standby", ""},
		{"one local, one remote", "postgres://u@localhost,b/d", nil, "u localhost:5432,b:5432 d verify-full prefer-standby", ""},
		{"socket", "postgres://u@/d?host=/run/postgresql", nil, "u /run/postgresql:5432 d prefer any", ""},
		{"socket, encoded", "postgres://u@%2Frun%2Fpostgresql:99/d", nil, "u /run/postgresql:99 d prefer any", ""},
		{"socket, dotted", "postgres://u@/d?host=/run/../etc", nil, "", "plain absolute path"},
		{"encoded user and password", "postgres://u%40x:" + password + "%2F%40@localhost/d%20e", nil, "u@x localhost:5432 d e prefer any", ""},
		{"an @ in the password", "postgres://u:" + password + "@x@localhost/d", nil, "u localhost:5432 d prefer any", ""},
		{"the password as a key", "postgres://u@localhost/d?password=" + password, nil, "u localhost:5432 d prefer any", ""},
		{"no user", "postgres://localhost/d", nil, "", "user is missing"},
		{"no host", "postgres://u:" + password + "@/d", nil, "", "host is missing"},
		{"another scheme", "mysql://u:" + password + "@h/d", nil, "", "does not begin"},
		{"key=value", "host=h password=" + password, nil, "", "does not begin"},
		{"a hidden scheme", "x postgres://u@h/d", nil, "", "does not begin"},
		{"bad percent", "postgres://u:" + password + "%zz@h/d", nil, "", "percent-encoded"},
		{"newline", "postgres://u:" + password + "\n@h/d", nil, "", "control"},
		{"port 0", "postgres://u@h:0/d", nil, "", "1 to 65535"},
		{"port too large", "postgres://u@h:65536/d", nil, "", "1 to 65535"},
		{"password where the port is", "postgres://u@h:" + password + "/d", nil, "", "1 to 65535"},
		{"an unknown key", "postgres://u@h/d?" + password + "=1", nil, "", "a key is none of"},
		{"passfile", "postgres://u@h/d?passfile=/etc/passwd", nil, "", "a key is none of"},
		{"service", "postgres://u@h/d?service=x", nil, "", "a key is none of"},
		{"servicefile", "postgres://u@h/d?servicefile=/x", nil, "", "a key is none of"},
		{"krbsrvname", "postgres://u@h/d?krbsrvname=x", nil, "", "a key is none of"},
		{"sslpassword", "postgres://u@h/d?sslpassword=" + password, nil, "", "a key is none of"},
		{"options", "postgres://u@h/d?options=-c%20x", nil, "", "pinned"},
		{"search_path", "postgres://u@h/d?search_path=x", nil, "", "MCP_SQL_SEARCH_PATH"},
		{"connect_timeout", "postgres://u@h/d?connect_timeout=5", nil, "", "MCP_SQL_CONNECT_TIMEOUT"},
		{"application_name", "postgres://u@h/d?application_name=x", nil, "", "MCP_SQL_APPLICATION_NAME"},
		{"a key twice", "postgres://u@h/d?sslmode=require&sslmode=disable", nil, "", "stands twice"},
		{"hosts twice", "postgres://u@h/d?host=x", nil, "", "keep one"},
		{"sslmode", "postgres://u@h/d?sslmode=" + password, nil, "", "sslmode is none of"},
		{"target_session_attrs", "postgres://u@h/d?target_session_attrs=" + password, nil, "", "is none of"},
		{"a relative file", "postgres://u@h/d?sslrootcert=ca.pem", nil, "", "absolute"},
		{"the system's certificates", "postgres://u@h/d?sslrootcert=system", nil, "u h:5432 d verify-full any", ""},
		{"half of a certificate", "postgres://u@h/d?sslcert=/c.pem", nil, "", "come together"},
		{"too many hosts", "postgres://u@" + strings.Repeat("h,", 16) + "h/d", nil, "", "more than 16"},
		{"a host with a space", "postgres://u@h%20x/d", nil, "", "neither a name"},
		{"a host with a quote", "postgres://u@h'x/d", nil, "", "neither a name"},
		{"a comma inside of a host", "postgres://u@a%2Cb/d", nil, "", "comma"},
		{"a comma inside of a folder", "postgres://u@%2Fa%2Cb/d", nil, "", "comma"},
		{"an encoded newline in the host", "postgres://u@h%0A/d", nil, "", "control"},
		{"an encoded NUL in the user", "postgres://u%00@h/d", nil, "", "control"},
		{"an encoded NUL in the password", "postgres://u:" + password + "%00@h/d", nil, "", "control"},
		{"an encoded NUL in the database", "postgres://u@h/d%00", nil, "", "control"},
		{"semicolon", "postgres://u@h/d?a=" + password + ";b=2", nil, "", "key=value"},
	} {
		got, err := parseDSN(c.dsn, c.plaintext)
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %q", c.name, err, c.says)
			}
			if err != nil && strings.Contains(err.Error(), password) {
				t.Errorf("%s: the error holds the password: %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var hosts []string
		for _, e := range got.endpoints {
			hosts = append(hosts, fmt.Sprintf("%s:%d", e.host, e.port))
		}
		if short := fmt.Sprintf("%s %s %s %s %s", got.user, strings.Join(hosts, ","), got.database, got.tls, got.attributes); short != c.want {
			t.Errorf("%s: got %s, want %s", c.name, short, c.want)
		}
	}
}

func settingsFor(dsn string) Settings {
	return Settings{
		DSN: dsn, ConnectTimeout: time.Second, QueryTimeout: time.Second, PoolSize: 1, ApplicationName: "test",
		ResultBytes: 100_000, Log: slog.New(slog.DiscardHandler),
	}
}

func TestNeedsAreThoseOfTheDSN(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(file, []byte("postgres://u@db/d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dsn string
		file      string
		want      string
	}{
		{"socket", "postgres://u@/d?host=/run/x", "", "ports [] inet false unix true dns false files [] roots false folders [/run/x]"},
		{"address", "postgres://u@127.0.0.1:99/d", "", "ports [99] inet true unix false dns false files [] roots false folders []"},
		{"name", "postgres://u@db/d", "", "ports [5432] inet true unix false dns true files [] roots true folders []"},
		{"its own root", "postgres://u@10.0.0.1/d?sslrootcert=/ca.pem", "", "ports [5432] inet true unix false dns false files [/ca.pem] roots false folders []"},
		{"two", "postgres://u@10.0.0.1:2,10.0.0.2:1/d?sslmode=require", "", "ports [1 2] inet true unix false dns false files [] roots false folders []"},
		{"file", "", file, "ports [5432] inet true unix false dns true files [" + filepath.Dir(file) + "] roots true folders []"},
	} {
		s := settingsFor(c.dsn)
		s.DSNFile = c.file
		n, err := s.Needs()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := fmt.Sprintf("ports %v inet %t unix %t dns %t files %v roots %t folders %v", n.Ports, n.INET, n.Unix, n.DNS, n.Files, n.Roots, n.Folders); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// pgconn.ParseConfig reads some twenty variables and files in the home folder; none of them may count.
func TestNothingButTheDSNSaysWhereToConnect(t *testing.T) {
	home := t.TempDir()
	for name, text := range map[string]string{
		".pgpass": "*:*:*:*:evil", ".pg_service.conf": "[evil]\nhost=evil\nuser=evil\n",
		".postgresql/root.crt": "no certificate",
	} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	for _, name := range []string{
		"PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD", "PGPASSFILE", "PGAPPNAME", "PGCONNECT_TIMEOUT", "PGSSLMODE",
		"PGSSLKEY", "PGSSLCERT", "PGSSLROOTCERT", "PGSSLPASSWORD", "PGOPTIONS", "PGTARGETSESSIONATTRS", "PGTZ", "PGSSLSNI",
	} {
		t.Setenv(name, "disable")
	}
	t.Setenv("PGPORT", "6666")
	t.Setenv("PGCONNECT_TIMEOUT", "77")
	d, err := Open(settingsFor("postgres://u@127.0.0.1:5/d?sslmode=require"))
	if err != nil {
		t.Fatal(err)
	}
	c := d.base
	if c.Host != "127.0.0.1" || c.Port != 5 || c.User != "u" || c.Password != "" || c.Database != "d" || c.TLSConfig == nil ||
		len(c.Fallbacks) != 0 || c.ConnectTimeout != time.Second || len(c.RuntimeParams) != 2 || len(c.TLSConfig.Certificates) != 0 {
		t.Errorf("%+v", c)
	}
}

func TestEveryKeyReachesPgconn(t *testing.T) {
	t.Parallel()
	awkward := `it's a \ "d"`
	target, err := parseDSN("postgres://u@a:1,b:2/x?sslmode=require&password=p%27%5C&target_session_attrs=standby", nil)
	if err != nil {
		t.Fatal(err)
	}
	target.database = awkward
	c, err := pgconn.ParseConfig(target.connString("app"))
	if err != nil {
		t.Fatal(err)
	}
	var hosts []string
	for _, f := range c.Fallbacks {
		hosts = append(hosts, fmt.Sprint(f.Host, f.Port))
	}
	if c.Host != "a" || c.Port != 1 || !slices.Equal(hosts, []string{"b2"}) || c.User != "u" || c.Password != `p'\` ||
		c.Database != awkward || c.ValidateConnect == nil || c.RuntimeParams["application_name"] != "app" {
		t.Errorf("%+v, %v", c, hosts)
	}
}

func FuzzParseDSN(f *testing.F) {
	for _, dsn := range []string{
		"postgres://u:p@h:1,[::1]:2/d?sslmode=require&host=/x", "postgresql://%2Frun/d?port=1,2&user=x", "postgres://u@/?dbname=d&host=a",
	} {
		f.Add(dsn)
	}
	f.Fuzz(func(t *testing.T, dsn string) {
		got, err := parseDSN(dsn, nil)
		if err != nil {
			return
		}
		if len(got.endpoints) == 0 || got.user == "" || got.database == "" || got.tls == "" {
			t.Fatalf("half a target: %+v", got)
		}
		for _, e := range got.endpoints {
			if e.host == "" || e.port == 0 || slices.Contains(plaintextModes, got.tls) && !e.isLocal() {
				t.Fatalf("%+v", got)
			}
		}
		c, err := pgconn.ParseConfig(got.connString("x"))
		if err != nil {
			return // files that do not exist
		}
		if c.User != got.user || c.Database != got.database || c.Password != got.password || c.Host != got.endpoints[0].host {
			t.Fatalf("%q became %+v", dsn, c)
		}
	})
}
