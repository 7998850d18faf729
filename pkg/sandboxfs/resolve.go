package sandboxfs

import (
	"bytes"
	"context"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-server-suite/pkg/problem"
)

// MaxLinks is how many symlinks one path may lead over, as in the kernel (path_resolution(7)). More are taken for a loop.
const MaxLinks = 40

// maxResolutions is how often a path is resolved again because what had been found was gone at the opening. A swap of
// a ConfigMap volume costs one repetition.
const maxResolutions = 16

// climbs reports whether the path has a ".." component.
func climbs(path string) bool {
	return path == ".." || strings.HasPrefix(path, "../") || strings.HasSuffix(path, "/..") || strings.Contains(path, "/../")
}

// find opens the regular file that the caller's path leads to, and returns the canonical path below the root with it.
// Errors are refusals, faults and the context's. On error no descriptor stays open.
//
// A path without ".." is opened as it is first: when that succeeds, no symlink was on it, so it is the canonical path.
// Everything else, failures too, is decided by the resolution. An opening that fails because something is missing or
// became a symlink is believed when two resolutions in a row agree that nothing is there; otherwise somebody is
// renaming, and we look again.
func (r *Root) find(ctx context.Context, asked string) (file, string, error) {
	if !climbs(asked) && asked[0] != '/' {
		canonical := path.Clean(asked)
		if f, err := r.openCanonical(canonical); err == nil {
			return f, canonical, nil
		}
	}
	last := ""
	for try := 1; ; try++ {
		canonical, found, err := r.resolve(ctx, asked)
		if err != nil {
			return file{}, "", err
		}
		f, err := r.openCanonical(canonical)
		switch err {
		case nil:
			return f, canonical, nil
		case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV:
			if try < maxResolutions && (found || canonical != last) {
				last = canonical
				continue
			}
			if found && err == unix.ENOTDIR {
				err = unix.ELOOP // the resolution saw directories there; the walk cannot tell a link from a file
			}
		}
		return file{}, "", unopened(err, asked)
	}
}

// resolve applies the path rule: it returns the canonical path below the root ("." for the root itself) and whether
// something was there. Errors are refusals, faults and the context's. No descriptor stays open.
//
// As in Python's non-strict realpath, what is missing or cannot be looked up is taken for something that is not a
// symlink, and the rest of the path is applied by name.
func (r *Root) resolve(ctx context.Context, asked string) (canonical string, found bool, err error) {
	at := position{root: r, inside: true}
	defer at.leave(0)
	links := 0
	for rest := asked; rest != ""; {
		if err := ctx.Err(); err != nil {
			return "", false, err
		}
		if rest[0] == '/' { // only the caller's path or a link's target can begin like that
			at.leave(0)
			at.move(nil)
		}
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		rest = strings.TrimLeft(rest, "/")
		target, err := at.step(name)
		if err != nil {
			return "", false, unopened(err, asked)
		}
		if target == "" {
			continue
		}
		if links++; links > MaxLinks {
			return "", false, problem.New(problem.OutsideSandbox, "the path runs into a symlink loop", paramPath).
				About(asked, "%s runs into a symlink loop")
		}
		if rest != "" {
			target += "/" + rest
		}
		rest = target
	}
	if !at.inside {
		return "", false, problem.New(problem.OutsideSandbox, "the path resolves outside the sandbox", paramPath).
			About(asked, "%s resolves outside the sandbox")
	}
	names, found := make([]string, len(at.way)), true
	for i, l := range at.way {
		names[i], found = l.name, l.found
	}
	if len(names) == 0 {
		return ".", true, nil
	}
	return strings.Join(names, "/"), found, nil
}

// position is where a resolution stands: outside the root, as a name; or inside, as the way from the root to there.
// It holds one descriptor for each directory on that way, so never more than the tree is deep.
type position struct {
	root    *Root
	inside  bool
	way     []level // inside
	outside []byte  // outside: the absolute path without a slash at the end, so "" for /
}

// level is one component below the root.
type level struct {
	name  string
	dir   int  // O_PATH descriptor, or -1: no directory that we could look into
	found bool // something of that name is there
}

// step moves the position by one component and returns the target, if that is a symlink; the position then stays in
// the link's directory. Its errors are errnos.
func (p *position) step(name string) (target string, err error) {
	switch {
	case name == "" || name == ".":
	case p.inside && name != "..":
		return p.enter(name)
	case p.inside && len(p.way) > 0:
		p.leave(len(p.way) - 1)
	case p.inside:
		p.move(parent(append(p.outside[:0], p.root.names[0]...)))
	case name == "..":
		p.move(parent(p.outside))
	default:
		p.move(append(append(p.outside, '/'), name...))
	}
	return "", nil
}

// parent cuts the last component off; the parent of / is /.
func parent(absolute []byte) []byte { return absolute[:max(bytes.LastIndexByte(absolute, '/'), 0)] }

// move puts the position, which is at the root or outside, at an absolute path, by name only.
func (p *position) move(absolute []byte) {
	p.outside = absolute
	p.inside = slices.ContainsFunc(p.root.names, func(name string) bool { return name == string(absolute) })
}

// leave goes back up to the given depth.
func (p *position) leave(depth int) {
	for _, l := range p.way[depth:] {
		if l.dir >= 0 {
			shut(l.dir)
		}
	}
	p.way = p.way[:depth]
}

// enter looks one component up, inside the root.
func (p *position) enter(name string) (target string, err error) {
	r, dir := p.root, p.root.dir
	if n := len(p.way); n > 0 {
		dir = p.way[n-1].dir
	}
	if dir < 0 {
		p.way = append(p.way, level{name: name, dir: -1})
		return "", nil
	}
	fd, err := r.open(dir, name, unix.O_PATH)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.EPERM, unix.ENAMETOOLONG:
		p.way = append(p.way, level{name: name, dir: -1})
		return "", nil
	default:
		return "", err
	}
	seen, err := again(func() (meta, error) { return r.kernel.stat(fd) })
	if err == nil && seen.kind == unix.S_IFLNK {
		target, err = again(func() (string, error) { return r.kernel.readlink(fd) })
	}
	if err == nil && seen.kind == unix.S_IFDIR {
		p.way = append(p.way, level{name: name, dir: fd, found: true})
		return "", nil
	}
	shut(fd)
	if err == nil && target == "" {
		p.way = append(p.way, level{name: name, dir: -1, found: true})
	}
	return target, err
}
