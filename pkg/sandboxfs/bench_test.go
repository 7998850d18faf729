package sandboxfs

import (
	"context"
	"os"
	"strings"
	"testing"
)

// What a read costs beside os.ReadFile on the same file; the pairs stand next to each other so that a run on a noisy
// machine can be repeated as a whole: go test -bench . -count 10 ./pkg/sandboxfs | benchstat -
func BenchmarkRead1KiB(b *testing.B)  { benchmark(b, 1<<10) }
func BenchmarkRead64KiB(b *testing.B) { benchmark(b, 64<<10) }

func benchmark(b *testing.B, size int) {
	s := newStage(b)
	s.dir("root/d/e")
	text := strings.Repeat("0123456789abcde\n", size/16)
	s.file("root/a.txt", text)
	s.file("root/d/e/a.txt", text)
	s.links(map[string]string{"link": "d/e/a.txt"})
	q := request("")
	q.MaxBytes = 64 << 10
	for _, name := range []string{"a.txt", "d/e/a.txt", "link"} {
		b.Run("os.ReadFile/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := os.ReadFile(s.path("root/" + name)); err != nil {
					b.Fatal(err)
				}
			}
		})
		for _, m := range []string{"openat2", "walk"} {
			r := s.open(mechanisms[m])
			b.Run(m+"/"+name, func(b *testing.B) {
				q := q
				q.Path = name
				b.ReportAllocs()
				for b.Loop() {
					if text, err := r.Read(context.Background(), q); err != nil || text.BytesRead != size {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
