package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// maxFileBytes bounds one input. The daemon has 13 MB; the whole image has to stay below 25 MB.
const maxFileBytes = 64 << 20

// The user that the daemon runs as, in numbers: a kubelet cannot tell from a name that it is not root
// (runAsNonRoot, container-001).
const (
	daemonUID = 10001
	daemonGID = 10001
)

// entry is one file or directory of the image.
type entry struct {
	path     string // from the root of the image, without a leading slash; a directory ends in a slash
	mode     int64  // permission bits
	uid, gid int
	from     source
	data     []byte // what a file holds; filled by [inputs.tree]
}

func (e entry) dir() bool { return strings.HasSuffix(e.path, "/") }

// source says which input a file is copied from.
type source int

const (
	nothing source = iota // a directory
	daemon                // inputs.binary
	bundle                // inputs.ca
	rootfs                // the same path below images/rootfs of the repository
	license               // LICENSE of the repository
	notices               // images/THIRD_PARTY_NOTICES.md of the repository
)

// contents lists the whole image in the order of the names. Nothing else gets in, and nothing of it may be missing.
// Everything belongs to root and can be written by nobody else, whatever flags the container is started with.
func contents() []entry {
	return []entry{
		{path: "etc/", mode: 0o755},
		{path: "etc/group", mode: 0o444, from: rootfs},
		{path: "etc/nsswitch.conf", mode: 0o444, from: rootfs},
		{path: "etc/passwd", mode: 0o444, from: rootfs},
		{path: "etc/ssl/", mode: 0o755},
		{path: "etc/ssl/certs/", mode: 0o755},
		{path: "etc/ssl/certs/ca-certificates.crt", mode: 0o444, from: bundle},
		// No write bit: an upgrade replaces the image.
		{path: "mcp-server-suite", mode: 0o555, from: daemon},
		{path: "run/", mode: 0o755},
		// For a socket; the one directory that is the daemon's own. Nobody else may even look into it.
		{path: "run/mcp/", mode: 0o750, uid: daemonUID, gid: daemonGID},
		{path: "run/secrets/", mode: 0o755},
		// What is mounted here is what is served.
		{path: "safe_data_dir/", mode: 0o755},
		// A place to mount a tmpfs on, no more: the daemon writes nothing. A tmpfs of Docker has mode 1777 anyway, and
		// without one a sticky folder that everybody may write would be the only such place of the image.
		{path: "tmp/", mode: 0o755},
		{path: "usr/", mode: 0o755},
		{path: "usr/share/", mode: 0o755},
		{path: "usr/share/doc/", mode: 0o755},
		// The licences of what is linked ask for their texts to go along with the program.
		{path: "usr/share/doc/mcp-server-suite/", mode: 0o755},
		{path: "usr/share/doc/mcp-server-suite/LICENSE", mode: 0o444, from: license},
		{path: "usr/share/doc/mcp-server-suite/THIRD_PARTY_NOTICES.md", mode: 0o444, from: notices},
	}
}

// inputs says where the files of the image come from.
type inputs struct {
	binary string // the daemon
	ca     string // certificates: a PEM file, or a folder of *.crt files
	source string // root of the repository
	arch   string // what the daemon has to be built for, as Go names it
}

// tree returns contents with the data of each file. It fails when an input is missing, is not a regular file, or is not
// what it has to be, and when images/rootfs holds anything that contents does not name.
func (in inputs) tree() ([]entry, error) {
	if err := in.nothingElse(); err != nil {
		return nil, err
	}
	tree := contents()
	for i := range tree {
		if tree[i].dir() {
			continue
		}
		data, err := in.read(tree[i])
		if err != nil {
			return nil, err
		}
		if len(data) == 0 {
			return nil, fmt.Errorf("read /%s: it is empty", tree[i].path)
		}
		tree[i].data = data
	}
	return tree, nil
}

func (in inputs) read(e entry) ([]byte, error) {
	switch e.from {
	case daemon:
		data, err := readFile(in.binary)
		if err != nil {
			return nil, err
		}
		if err := standsAlone(data, in.arch); err != nil {
			return nil, fmt.Errorf("check %s: %w", in.binary, err)
		}
		return data, nil
	case bundle:
		return certificates(in.ca)
	case rootfs:
		return readFile(filepath.Join(in.source, "images", "rootfs", e.path))
	case license:
		return readFile(filepath.Join(in.source, "LICENSE"))
	case notices:
		return readFile(filepath.Join(in.source, "images", "THIRD_PARTY_NOTICES.md"))
	default:
		return nil, fmt.Errorf("bug: /%s comes from nowhere", e.path)
	}
}

// nothingElse fails on a file, folder or link of images/rootfs that is not in contents: what somebody puts there
// believing that it gets into the image would otherwise be left out in silence.
func (in inputs) nothingElse() error {
	root := filepath.Join(in.source, "images", "rootfs")
	known := contents()
	return filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("walk %s: %w", root, err)
		}
		rel, err := filepath.Rel(root, name)
		if err != nil || rel == "." {
			return err
		}
		switch {
		case d.IsDir():
			rel += "/"
		case !d.Type().IsRegular():
			return fmt.Errorf("walk %s: %s is neither a file nor a folder", root, rel)
		}
		if !slices.ContainsFunc(known, func(e entry) bool {
			return e.path == rel && (e.from == rootfs || e.dir())
		}) {
			return fmt.Errorf("walk %s: %s is not a part of the image (tree.go lists them)", root, rel)
		}
		return nil
	})
}

// readFile returns what a regular file holds, at most maxFileBytes. A symbolic link is refused: what it names may be
// different tomorrow. O_NONBLOCK lets the open of a FIFO return, so that it can be refused, too.
func readFile(name string) ([]byte, error) {
	// #nosec G304 -- the names come from the command line of a build
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("open %s: it is a symbolic link", name)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("open %s: it is not a regular file", name)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("read %s: it has more than %d bytes", name, maxFileBytes)
	}
	return data, nil
}

// machines gives the architectures that the system call table is written for, by their Go names.
func machines(arch string) (elf.Machine, bool) {
	switch arch {
	case "amd64":
		return elf.EM_X86_64, true
	case "arm64":
		return elf.EM_AARCH64, true
	}
	return elf.EM_NONE, false
}

// standsAlone fails unless data is a program for arch that needs neither a loader nor a library: the image has none,
// and the kernel would say no more than "no such file or directory".
func standsAlone(data []byte, arch string) error {
	machine, ok := machines(arch)
	if !ok {
		return fmt.Errorf("no such architecture here: %q", arch)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("read ELF: %w", err)
	}
	if f.Machine != machine {
		return fmt.Errorf("it is for %v, not for %s", f.Machine, arch)
	}
	if f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
		return fmt.Errorf("it is no program but %v", f.Type)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("it needs a loader; build it with scripts/build.sh")
		}
	}
	libs, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("read ELF: %w", err)
	}
	if len(libs) > 0 {
		return fmt.Errorf("it needs libraries: %v", libs)
	}
	return nil
}
