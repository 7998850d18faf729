package tools

import (
	"context"
	"time"

	"mcp-server-suite/pkg/contract"
	"mcp-server-suite/pkg/hostmetrics"
	"mcp-server-suite/pkg/surface"
)

// SystemMetrics is the tool system_metrics (seed 000, with the cgroup block and unavailable added).
func SystemMetrics(host *hostmetrics.Host) (surface.Tool, error) {
	input, err := contract.NewSchema(
		contract.Bool("include_disk", "Also report how full the disk is.").Default(false),
	)
	if err != nil {
		return surface.Tool{}, err
	}
	percent := func(name, description string) contract.Property {
		return contract.Number(name, description).Between(0, 100).OrNull()
	}
	output, err := contract.NewSchema(
		contract.Object("cpu", "The whole machine's CPU.",
			percent("utilization_percent", "Of all cores, over a short sample."),
			contract.Int("core_count", "Cores online.").AtLeast(1).OrNull(),
			contract.Number("load_average_1m", "Runnable tasks over the last minute.").AtLeast(0).OrNull(),
		),
		contract.Object("memory", "The whole machine's memory.",
			contract.Int("total_bytes", "").AtLeast(0).OrNull(),
			contract.Int("available_bytes", "Usable without swapping.").AtLeast(0).OrNull(),
			percent("percent_used", "What is not available."),
		),
		percent("disk_percent_used", "Null unless include_disk was true."),
		contract.Object("cgroup", "The limits of the container or service that this server runs in; where they are set, they "+
			"bind before the machine's.",
			contract.Int("version", "Control group version, 1 or 2.").Between(1, 2).OrNull(),
			contract.Int("memory_limit_bytes", "").AtLeast(0).OrNull(),
			contract.Int("memory_current_bytes", "").AtLeast(0).OrNull(),
			percent("memory_percent_used", "Of the limit."),
			contract.Number("cpu_quota_cores", "CPU time allowed, in cores.").AtLeast(0).OrNull(),
			percent("cpu_utilization_percent", "Of the quota."),
		),
		contract.Array("unavailable", "Why a figure above is null.", contract.Object("", "",
			contract.String("figure", "Dotted name of the figure."),
			contract.String("reason", ""),
		)),
		contract.String("timestamp_utc", "When the sample ended, ISO 8601."),
	)
	if err != nil {
		return surface.Tool{}, err
	}
	return surface.Tool{
		Name:  "system_metrics",
		Title: "Host CPU, memory and disk",
		Description: "Reports CPU, memory and, on request, disk use of the machine that this server runs on, and beside them " +
			"the limits of its own container (cgroup), which are the ones that bind where they are set. A figure that " +
			"cannot be had is null, with the reason in unavailable.",
		Input:      input,
		Output:     output,
		ReplyBytes: func(contract.Values) int { return contract.ReplyBytes(4<<10, 0) },
		Run: func(ctx context.Context, v contract.Values) (contract.Result, error) {
			f, err := host.Sample(ctx, v.Bool("include_disk"))
			if err != nil {
				return nil, err
			}
			return metricsResult(f), nil
		},
	}, nil
}

func metricsResult(f hostmetrics.Figures) contract.Result {
	unavailable := make([]any, len(f.Unavailable))
	for i, u := range f.Unavailable {
		unavailable[i] = contract.Result{{Name: "figure", Value: u.Figure}, {Name: "reason", Value: string(u.Reason)}}
	}
	return contract.Result{
		{Name: "cpu", Value: contract.Result{
			{Name: "utilization_percent", Value: orNull(f.CPU.UtilizationPercent)},
			{Name: "core_count", Value: orNull(f.CPU.CoreCount)},
			{Name: "load_average_1m", Value: orNull(f.CPU.LoadAverage1m)},
		}},
		{Name: "memory", Value: contract.Result{
			{Name: "total_bytes", Value: orNull(f.Memory.TotalBytes)},
			{Name: "available_bytes", Value: orNull(f.Memory.AvailableBytes)},
			{Name: "percent_used", Value: orNull(f.Memory.PercentUsed)},
		}},
		{Name: "disk_percent_used", Value: orNull(f.DiskPercentUsed)},
		{Name: "cgroup", Value: contract.Result{
			{Name: "version", Value: orNull(f.Cgroup.Version)},
			{Name: "memory_limit_bytes", Value: orNull(f.Cgroup.MemoryLimitBytes)},
			{Name: "memory_current_bytes", Value: orNull(f.Cgroup.MemoryCurrentBytes)},
			{Name: "memory_percent_used", Value: orNull(f.Cgroup.MemoryPercentUsed)},
			{Name: "cpu_quota_cores", Value: orNull(f.Cgroup.CPUQuotaCores)},
			{Name: "cpu_utilization_percent", Value: orNull(f.Cgroup.CPUUtilizationPercent)},
		}},
		{Name: "unavailable", Value: unavailable},
		{Name: "timestamp_utc", Value: f.Timestamp.UTC().Format(time.RFC3339Nano)},
	}
}

func orNull[T int64 | float64](n hostmetrics.Number[T]) any {
	if !n.Known {
		return nil
	}
	return n.Value
}
