package daemon_test

import (
	"strings"
	"testing"
	"time"
)

// metrics is the result of system_metrics that seed 000 knows, and what was added.
type metrics struct {
	CPU struct {
		Utilization *float64 `json:"utilization_percent"`
		Cores       *int     `json:"core_count"`
		Load        *float64 `json:"load_average_1m"`
	} `json:"cpu"`
	Memory struct {
		Total     *int64   `json:"total_bytes"`
		Available *int64   `json:"available_bytes"`
		Used      *float64 `json:"percent_used"`
	} `json:"memory"`
	Disk        *float64 `json:"disk_percent_used"`
	Cgroup      any      `json:"cgroup"`
	Unavailable []struct {
		Figure string `json:"figure"`
		Reason string `json:"reason"`
	} `json:"unavailable"`
	Timestamp time.Time `json:"timestamp_utc"`
}

func within(low, high float64, v *float64) bool { return v != nil && *v >= low && *v <= high }

func TestMetricsFitTheirSchemaAndTheHost(t *testing.T) {
	t.Parallel()
	schema := validator(t, "system_metrics")
	s := open(t)
	for arguments, disk := range map[string]bool{`{}`: false, `{"include_disk":false}`: false, `{"include_disk":true}`: true} {
		o := s.call("system_metrics", arguments)
		fits(t, schema, o)
		m := into[metrics](t, o)
		if !within(0, 100, m.CPU.Utilization) || m.CPU.Cores == nil || *m.CPU.Cores < 1 || !within(0, 1e6, m.CPU.Load) {
			t.Errorf("cpu: %s", o.Structured)
		}
		if m.Memory.Total == nil || m.Memory.Available == nil || *m.Memory.Available > *m.Memory.Total ||
			*m.Memory.Total < 64<<20 || !within(0, 100, m.Memory.Used) {
			t.Errorf("memory: %s", o.Structured)
		}
		if disk != within(0, 100, m.Disk) || !disk && m.Disk != nil {
			t.Errorf("disk with %s: %s", arguments, o.Structured)
		}
		if age := time.Since(m.Timestamp); age < -time.Minute || age > time.Minute || m.Timestamp.Location() != time.UTC {
			t.Errorf("timestamp %v", m.Timestamp)
		}
	}
	for _, arguments := range []string{`{"include_disk":"yes"}`, `{"include_disk":1}`, `{"include_disk":null}`} {
		s.call("system_metrics", arguments).refused(t, "BAD_PARAM", "include_disk")
	}
	s.call("system_metrics", `{"disk_path":"/etc"}`).refused(t, "BAD_PARAM", "arguments")
}

// The path is the operator's own and is not told, also where nothing can be said about it.
func TestTheDiskPathIsNotTold(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"/proc", "/no/such/place"} { // a filesystem without a size, and none at all
		s := open(t, "MCP_METRICS_DISK_PATH="+place)
		o := s.call("system_metrics", `{"include_disk":true}`)
		m := into[metrics](t, o)
		named := false
		for _, u := range m.Unavailable {
			named = named || u.Figure == "disk_percent_used" && u.Reason != ""
		}
		if m.Disk != nil || !named || strings.Contains(string(o.Structured), place) {
			t.Errorf("%s: %s", place, o.Structured)
		}
	}
}

// A sample sleeps for two seconds and holds a slot meanwhile: sixteen of them run beside each other, and one that is
// cancelled is not answered and leaves nothing behind.
func TestSixteenSlowSamplesRunAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t, "MCP_METRICS_CPU_SAMPLE_SECONDS=2", "MCP_TOOL_ACQUIRE_TIMEOUT_SECONDS=1")
	s.call("rows", `{}`)
	idle := s.figures()
	begin := time.Now()
	for i := range 16 {
		s.request(i, "tools/call", callParams("system_metrics", `{"include_disk":true}`))
	}
	time.Sleep(settled)
	s.cancel(7)
	into[any](t, s.call("rows", `{}`)) // in the slot that came free: the sixteen held them all
	if took := time.Since(begin); took > 1500*time.Millisecond {
		t.Errorf("the slot came free after %v", took)
	}
	for i := range 16 {
		if i != 7 {
			into[metrics](t, outcomeOf(t, s.await(i)))
		}
	}
	if took := time.Since(begin); took < 1900*time.Millisecond || took > 12*time.Second { // one after the other: 30 s
		t.Errorf("fifteen samples took %v", took)
	}
	after := s.figures()
	if after.Descriptors > idle.Descriptors+2 || after.Threads > idle.Threads+6 {
		t.Errorf("idle %+v, after %+v", idle, after)
	}
}

func TestAToolThatIsSwitchedOffIsNotThere(t *testing.T) {
	t.Parallel()
	s := open(t, "MCP_METRICS_ENABLED=false")
	for _, tool := range []string{"system_metrics", "sandbox_fs_read", "read_only_sql"} {
		if o := s.call(tool, `{}`); o.reason() != "UNKNOWN_NAME" || o.Code != -32602 {
			t.Errorf("%s: %+v", tool, o)
		}
	}
	a, err := s.Call("tools/list", "")
	if err != nil || strings.Count(string(a.Result), `"inputSchema"`) != 1 { // rows, the control
		t.Errorf("%v: %s", err, a.Result)
	}
}
