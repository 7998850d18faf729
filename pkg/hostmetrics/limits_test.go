package hostmetrics

import (
	"testing"

	"golang.org/x/tools/txtar"
)

// Limits are read at the start, where nobody waits for a sample.
func TestLimitsAreThoseOfTheTightestGroup(t *testing.T) {
	t.Parallel()
	plus := func(files ...string) (all []txtar.File) {
		for i := 0; i < len(files); i += 2 {
			all = append(all, txtar.File{Name: files[i], Data: []byte(files[i+1])})
		}
		return all
	}
	for _, c := range []struct {
		name, tree string
		more       []txtar.File
		memory     int64
		cores      float64
		tasks      int64 // 0: not known, for all three
	}{
		{"v2", "v2_container", plus("cgroup/pids.max", "16\n"), 134217728, 1.5, 16},
		{"v2 without a bound on tasks", "v2_container", plus("cgroup/pids.max", "max\n"), 134217728, 1.5, 0},
		{"v2 with nonsense", "v2_container", plus("cgroup/pids.max", "-1\n"), 134217728, 1.5, 0},
		{"v1", "v1_docker", plus("cgroup/pids/pids.max", "64\n"), 134217728, 0.5, 64},
		{"v1 without the controller", "v1_docker", nil, 134217728, 0.5, 0},
		{"nothing is limited", "v2_unlimited", nil, 0, 0, 0},
		{"nothing is mounted", "sys_not_mounted", nil, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must(t, build(dir, append(tree(t, c.tree).Files, c.more...)))
			got := open(t, dir, sampleTime).Limits()
			want := Limits{
				Number[int64]{c.memory, c.memory != 0}, Number[float64]{c.cores, c.cores != 0}, Number[int64]{c.tasks, c.tasks != 0},
			}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
