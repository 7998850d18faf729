package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-server-suite/pkg/config"
	"mcp-server-suite/pkg/lockdown"
)

// planOf is the plan for these settings and no others.
func planOf(t *testing.T, env ...string) lockdown.Plan {
	t.Helper()
	c, faults := config.Parse(env)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	p, err := plan(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

type word struct {
	text  string
	holds bool
}

// words are those that hold, one after the other.
func words(all ...word) (text string) {
	for _, w := range all {
		if w.holds {
			text += w.text
		}
	}
	return text
}

// grantsOf are the grants of a plan, with what is special about them.
func grantsOf(p lockdown.Plan) (list []string) {
	for _, g := range p.Grants {
		list = append(list, g.Path+words(word{" listed", g.List}, word{" called", g.Sockets}, word{" if there", g.Optional}))
	}
	return list
}

// What each DSN adds to the plan of a daemon without a database. The tests of package lockdown show that what is not in
// the plan is not to be had; what a kernel does not tell of it, UDP above all, is seen here.
func TestADSNAddsToThePlanWhatItNeedsAndNoMore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "dsn")
	if err := os.WriteFile(file, []byte("postgres://u:p@192.0.2.1/d?sslmode=require"), 0o600); err != nil {
		t.Fatal(err)
	}
	const noMetrics = "MCP_METRICS_ENABLED=false"
	resolver := "/etc/resolv.conf if there,/etc/hosts if there,/etc/nsswitch.conf if there"
	roots := "/etc/ssl listed if there,/etc/pki listed if there,/usr/share/ca-certificates listed if there," +
		"/usr/local/share/ca-certificates listed if there"
	for _, c := range []struct {
		name, setting string
		tcp, udp      string
		filter        string // profiles; sockets
		grants        string
		waived        string
		why           string
	}{
		{"none", "", "[]", "[]", "[]", "", "[]", "the control"},
		{
			"this machine", "MCP_SQL_DSN=postgres://u:p@127.0.0.1:5433/d", "[5433]", "[]", "[sql] inet", "", "[]",
			"there is no name to ask for and no certificate to check",
		},
		{
			"an address", "MCP_SQL_DSN=postgres://u:p@192.0.2.1/d?sslmode=verify-full", "[5432]", "[]", "[sql] inet", roots, "[]",
			"the system's certificates",
		},
		{
			"its own root", "MCP_SQL_DSN=postgres://u:p@192.0.2.1/d?sslrootcert=" + file, "[5432]", "[]", "[sql] inet", file, "[]",
			"and none of the system's",
		},
		{
			"a name", "MCP_SQL_DSN=postgres://u:p@db.example:5433,192.0.2.1:53/d", "[53 5433]", "[53]", "[sql] inet dns",
			resolver + "," + roots, "[]", "name servers, too",
		},
		{
			"a socket", "MCP_SQL_DSN=postgres://u:p@/d?host=" + dir, "[]", "[]", "[sql] unix", dir + " called", "[]",
			"nothing to read, and no network",
		},
		{
			"a file", "MCP_SQL_DSN_FILE=" + file, "[5432]", "[]", "[sql] inet", dir, "[]",
			"its folder, whose links Kubernetes swaps; no certificate is checked",
		},
	} {
		base := planOf(t, noMetrics)
		p := planOf(t, noMetrics, c.setting)
		filter := fmt.Sprint(p.Filter.Profiles) +
			words(word{" inet", p.Filter.INET}, word{" unix", p.Filter.Unix}, word{" dns", p.Filter.DNS})
		if got := fmt.Sprint(p.ConnectTCP); got != c.tcp {
			t.Errorf("%s: TCP %s, want %s (%s)", c.name, got, c.tcp, c.why)
		}
		if got := fmt.Sprint(p.SendUDP); got != c.udp {
			t.Errorf("%s: UDP %s, want %s (%s)", c.name, got, c.udp, c.why)
		}
		if filter != c.filter {
			t.Errorf("%s: filter %s, want %s (%s)", c.name, filter, c.filter, c.why)
		}
		if got := strings.Join(grantsOf(p), ","); got != c.grants {
			t.Errorf("%s: grants %s, want %s (%s)", c.name, got, c.grants, c.why)
		}
		if got := fmt.Sprint(p.Waived); got != c.waived {
			t.Errorf("%s: waived %s, want %s", c.name, got, c.waived)
		}
		if c.setting == "" {
			continue
		}
		if waived := planOf(t, noMetrics, c.setting, "MCP_SQL_ALLOW_UNSAFE_ROLE=true").Waived; !slices.Equal(waived,
			[]string{"MCP_SQL_ALLOW_UNSAFE_ROLE=true"}) {
			t.Errorf("%s: with leave for an unsafe role, waived %v", c.name, waived)
		}
		small := planOf(t, noMetrics, c.setting, "MCP_SQL_POOL_MAX_SIZE=1")
		large := planOf(t, noMetrics, c.setting, "MCP_SQL_POOL_MAX_SIZE=9")
		if small.OpenFiles != base.OpenFiles+2 || large.OpenFiles != base.OpenFiles+18 ||
			small.Memory != base.Memory+connectionBytes || large.Memory != base.Memory+9*connectionBytes {
			t.Errorf("%s: files %d and %d, bytes %d and %d; without a database %d and %d", c.name,
				small.OpenFiles, large.OpenFiles, small.Memory, large.Memory, base.OpenFiles, base.Memory)
		}
	}
}
