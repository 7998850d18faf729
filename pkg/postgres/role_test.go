package postgres

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"mcp-server-suite/pkg/pgstage"
)

// inspected is a database with a schema "reporting" of somebody else's, and a role made by
// compose/postgres/roles.sql.
type inspected struct {
	server         *pgstage.Server
	database, role string
	settings       Settings
}

// look opens the role's DB, as the daemon does.
func (i *inspected) look(t *testing.T) *DB {
	t.Helper()
	d, err := Open(i.settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func inspectSettings(dsn string) Settings {
	return Settings{
		DSN: dsn, ConnectTimeout: 10 * time.Second, QueryTimeout: 10 * time.Second, PoolSize: 4, ApplicationName: "test",
		SearchPath: []string{"reporting"}, ResultBytes: 100_000, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// faultsOf connects as the role and asks what the daemon asks.
func (i *inspected) faultsOf(t *testing.T) []Fault {
	t.Helper()
	s := i.settings
	s.AllowUnsafeRole = true
	d, err := Open(s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	c, err := d.connect(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer d.disconnect(c)
	faults, err := unsafeRole(within(t), c.PgConn)
	if err != nil {
		t.Fatal(err)
	}
	return faults
}

// BenchmarkRole measures what each new connection costs on a server with 20,000 tables.
func BenchmarkRole(b *testing.B) {
	s := pgstage.Shared(b)
	db := s.Database(b, "CREATE SCHEMA reporting")
	role := s.Role(b, db, pgstage.Reader{Password: "secret", Schemas: []string{"reporting"}})
	for n := 0; n < 20_000; n += 500 {
		s.Exec(b, db, fmt.Sprintf(`DO $$ BEGIN FOR i IN %d..%d LOOP EXECUTE format('CREATE TABLE reporting.t%%s
			(a int, b int, c text, d text, e int, f int, g int, h int, i int, j int)', i); END LOOP; END $$`, n, n+499))
	}
	s.Exec(b, db, "VACUUM ANALYZE pg_class")
	s.Exec(b, db, "VACUUM ANALYZE pg_attribute")
	settings := inspectSettings(s.DSN(db, role, "secret", true))
	settings.AllowUnsafeRole = true
	d, err := Open(settings)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	b.Run("faults", func(b *testing.B) {
		for b.Loop() {
			c, err := d.connect(context.Background())
			if err != nil {
				b.Fatal(err)
			}
			if faults, err := unsafeRole(context.Background(), c.PgConn); err != nil || len(faults) > 0 {
				b.Fatal(faults, err)
			}
			d.disconnect(c)
		}
	})
	b.Run("inspect", func(b *testing.B) {
		for b.Loop() {
			if _, err := d.Inspect(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("schema", func(b *testing.B) {
		for b.Loop() {
			if _, err := d.Schema(context.Background(), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
