package sandboxfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/problem"
)

// raceTime is how long each race runs: SANDBOXFS_RACE, for example 15s, or about a second.
func raceTime(t *testing.T) time.Duration {
	text := os.Getenv("SANDBOXFS_RACE")
	if text == "" {
		return time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SANDBOXFS_RACE: %v", err)
	}
	return d
}

// atWork runs step again and again, beside the caller, until the caller is done.
func atWork(t *testing.T, step func() error, caller func()) {
	stop := make(chan struct{})
	var worker sync.WaitGroup
	worker.Go(func() {
		runtime.LockOSThread()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := step(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	caller()
	close(stop)
	worker.Wait()
}

func TestNoRaceOfADirectoryAndALinkLeaks(t *testing.T) {
	s := newStage(t)
	s.dir("root/d", "root/sub/dir")
	s.inside("sub/dir/f")
	s.file("out/f", secret)
	s.links(map[string]string{"sub/link": "../../out", "d/over": "../sub/dir"})
	s.inside("sub/leaf")
	s.links(map[string]string{"sub/leaflink": "../../out/secret"})
	exchange := func(a, b string) error {
		return unix.Renameat2(unix.AT_FDCWD, s.path("root/sub/"+a), unix.AT_FDCWD, s.path("root/sub/"+b), unix.RENAME_EXCHANGE)
	}
	swaps := 0
	swap := func() error {
		swaps++
		if err := exchange("dir", "link"); err != nil {
			return err
		}
		return exchange("leaf", "leaflink")
	}
	asked := []string{"sub/dir/f", "sub/leaf", "d/../sub/dir/f", "d/over/f", "../root/sub/leaf"}
	readers := map[string]func(string) (string, error){
		"os.ReadFile": func(name string) (string, error) {
			raw, err := os.ReadFile(s.path("root/" + name))
			return string(raw), err
		},
	}
	for mechanism, r := range s.openBoth() {
		readers[mechanism] = func(name string) (string, error) {
			text, err := r.Read(context.Background(), request(name))
			return text.Content, err
		}
	}
	for name, read := range readers {
		t.Run(name, func(t *testing.T) {
			leaked, answers := 0, map[problem.Reason]int{}
			swaps = 0
			atWork(t, swap, func() {
				for end := time.Now().Add(raceTime(t)); time.Now().Before(end); {
					for _, path := range asked {
						content, err := read(path)
						answers[reason(err)]++
						if strings.Contains(content, secret) {
							leaked++
						}
					}
				}
			})
			t.Logf("%d swaps, %v, %d leaks", swaps, answers, leaked)
			if name == "os.ReadFile" {
				if leaked == 0 {
					t.Error("without the guard nothing leaks: this race proves nothing")
				}
				return
			}
			if leaked > 0 {
				t.Errorf("%d leaks", leaked)
			}
			if answers["ok"] == 0 || answers[problem.OutsideSandbox] == 0 {
				t.Errorf("the race was not met: %v", answers)
			}
			for answer := range answers {
				if answer != "ok" && answer != problem.OutsideSandbox && answer != problem.Busy {
					t.Errorf("%d times %s", answers[answer], answer)
				}
			}
		})
	}
}

// version is what one version of the ConfigMap's key holds: more than one page, every line the same.
func version(n int) string { return strings.Repeat(fmt.Sprintf("version %06d\n", n), 1000) }

// publish makes version n of a ConfigMap as the kubelet does (pkg/volume/util/atomic_writer.go): a new directory, a
// rename of the link over the old one, and the old directory is removed.
func (s *stage) publish(n int) error {
	dir := s.path(fmt.Sprintf("root/..v%d", n))
	return errors.Join(
		os.Mkdir(dir, 0o755),
		os.WriteFile(dir+"/key", []byte(version(n)), 0o644),
		os.Symlink(filepath.Base(dir), s.path("root/..data_tmp")),
		os.Rename(s.path("root/..data_tmp"), s.path("root/..data")),
		os.RemoveAll(s.path(fmt.Sprintf("root/..v%d", n-1))),
	)
}

func TestEachReadInARaceWithAConfigMapIsOneWholeVersion(t *testing.T) {
	for mechanism, walk := range mechanisms {
		t.Run(mechanism, func(t *testing.T) {
			s := newStage(t)
			s.must(s.publish(0))
			s.links(map[string]string{"key": "..data/key"})
			r := s.open(walk)
			swaps, seen := 0, map[string]bool{}
			swap := func() error {
				time.Sleep(time.Millisecond)
				swaps++
				return s.publish(swaps)
			}
			atWork(t, swap, func() {
				for end := time.Now().Add(time.Minute); len(seen) < 100 && time.Now().Before(end); {
					text, err := r.Read(context.Background(), request("key"))
					n := -1
					_, _ = fmt.Sscanf(text.Content, "version %d", &n) // -1 is no version
					if err != nil || text.Content != version(n) || text.ResolvedPath != fmt.Sprintf("..v%d/key", n) {
						t.Errorf("no whole version: %v, %s: %.40q", err, text.ResolvedPath, text.Content)
						return
					}
					seen[text.ResolvedPath] = true
				}
			})
			t.Logf("%d swaps, %d versions seen", swaps, len(seen))
			if len(seen) < 100 {
				t.Errorf("%d versions seen, want 100", len(seen))
			}
		})
	}
}
