package pipeline

import (
	"log/slog"
	"testing"
)

// BenchmarkRun is what the guards cost around a tool that does nothing, with the buffer used again as mcpserve does.
func BenchmarkRun(b *testing.B) {
	s := newStage(b, echo, func(s *Settings) { s.Log = slog.New(slog.DiscardHandler) })
	in := Call{Name: "tool", Arguments: []byte(`{"text":"hello","number":7}`)}
	buffer := make([]byte, 0, 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		a := s.Run(b.Context(), in, buffer[:0])
		if a.Release == nil {
			b.Fatalf("refused: %s", a.Result)
		}
		a.Release()
		buffer = a.Result
	}
}

// BenchmarkRefuse is what a call costs that the sanitizer refuses.
func BenchmarkRefuse(b *testing.B) {
	s := newStage(b, echo, func(s *Settings) { s.Log = slog.New(slog.DiscardHandler) })
	in := Call{Name: "tool", Arguments: []byte(`{"text":"\u202e"}`)}
	buffer := make([]byte, 0, 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		buffer = s.Run(b.Context(), in, buffer[:0]).Result
	}
}
