package main

import (
	"archive/tar"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fixture is a small repository with everything that an image is made of, all of it real: a static program,
// certificates.
type fixture struct {
	dir string
	in  inputs
}

// program is a static program of this machine's architecture; TestMain builds it once.
var program = filepath.Join(os.TempDir(), fmt.Sprintf("mkimage-test-%d", os.Getpid()))

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "mkimage-test-*")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		source := filepath.Join(dir, "main.go")
		if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		build := exec.Command("go", "build", "-o", program, source)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=amd64")
		defer func() { _ = os.Remove(program) }()
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	dir := t.TempDir()
	f := fixture{dir: dir}
	f.in = f.inputs()
	static, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	f.put(t, "bin/mcp-server-suite", string(static))
	f.put(t, "certs/a.crt", certificate(t, "a"))
	f.put(t, "certs/b.crt", certificate(t, "b"))
	f.put(t, "images/rootfs/etc/group", "mcp:x:10001:\n")
	f.put(t, "images/rootfs/etc/nsswitch.conf", "hosts: files dns\n")
	f.put(t, "images/rootfs/etc/passwd", "mcp:x:10001:10001::/:/sbin/nologin\n")
	f.put(t, "images/THIRD_PARTY_NOTICES.md", "# Notices\n")
	f.put(t, "LICENSE", "MIT License\n")
	return f
}

func (f fixture) inputs() inputs {
	return inputs{
		binary: filepath.Join(f.dir, "bin", "mcp-server-suite"), ca: filepath.Join(f.dir, "certs"), source: f.dir,
		arch: "amd64",
	}
}

func (f fixture) put(t *testing.T, name, text string) {
	t.Helper()
	name = filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// shell makes the program this machine's /bin/sh, whose program header for the loader becomes one of another type.
func (f *fixture) shell(t *testing.T, loader elf.ProgType) {
	t.Helper()
	name, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if elf.Machine(binary.LittleEndian.Uint16(data[18:])) == elf.EM_AARCH64 {
		f.in.arch = "arm64"
	}
	headers := data[binary.LittleEndian.Uint64(data[32:]):]
	for range binary.LittleEndian.Uint16(data[56:]) {
		if elf.ProgType(binary.LittleEndian.Uint32(headers)) == elf.PT_INTERP {
			binary.LittleEndian.PutUint32(headers, uint32(loader))
		}
		headers = headers[56:] // the size of a header in 64-bit files
	}
	f.put(t, "bin/mcp-server-suite", string(data))
}

// certificate returns a certificate of its own authority as PEM.
func certificate(t *testing.T, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &cert, &cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func standard() settings {
	return settings{
		arch: "amd64", labels: labels("1.2.3", "unknown", nil), created: time.Unix(0, 0), tags: []string{"suite:1.2.3"},
	}
}

func (f fixture) image(t *testing.T, s settings) image {
	t.Helper()
	tree, err := f.in.tree()
	if err != nil {
		t.Fatal(err)
	}
	made, err := build(tree, s)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// untar returns the headers and the data of a tar file, by name.
func untar(t *testing.T, data []byte) (headers []*tar.Header, files map[string][]byte) {
	t.Helper()
	files = map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return headers, files
		}
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, h)
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func decode(t *testing.T, data []byte, to any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
}

func TestSameFilesGiveTheSameBytes(t *testing.T) {
	f := newFixture(t)
	first := f.image(t, standard())
	// A checkout elsewhere, at another time, with another umask.
	g := fixture{dir: t.TempDir()}
	if err := os.CopyFS(g.dir, os.DirFS(f.dir)); err != nil {
		t.Fatal(err)
	}
	g.in = g.inputs()
	for _, name := range []string{"bin/mcp-server-suite", "images/rootfs/etc/passwd"} {
		if err := os.Chmod(filepath.Join(g.dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(g.dir, name), time.Now(), time.Unix(1234567890, 0)); err != nil {
			t.Fatal(err)
		}
	}
	second := g.image(t, standard())
	if first.id != second.id || first.digest != second.digest || !bytes.Equal(first.archive, second.archive) {
		t.Errorf("%s and %s: the same files gave two images", first.id, second.id)
	}
}

func TestEveryInputIsAPartOfTheID(t *testing.T) {
	type change func(t *testing.T, f *fixture, s *settings)
	file := func(name, text string) change {
		return func(t *testing.T, f *fixture, _ *settings) { f.put(t, name, text) }
	}
	for _, row := range []struct {
		name   string
		change change
		same   bool
		why    string
	}{
		{"passwd", file("images/rootfs/etc/passwd", "x\n"), false, "a file of images/rootfs"},
		{"notices", file("images/THIRD_PARTY_NOTICES.md", "x\n"), false, "it goes along with the program"},
		{"licence", file("LICENSE", "x\n"), false, "it goes along with the program"},
		{"certificate", func(t *testing.T, f *fixture, _ *settings) {
			f.put(t, "certs/c.crt", certificate(t, "c"))
		}, false, "one authority more"},
		{"program", func(t *testing.T, f *fixture, _ *settings) {
			data, err := os.ReadFile(f.in.binary)
			if err != nil {
				t.Fatal(err)
			}
			f.put(t, "bin/mcp-server-suite", string(data)+"x")
		}, false, "one byte more"},
		{"version", func(_ *testing.T, _ *fixture, s *settings) {
			s.labels = labels("1.2.4", "unknown", nil)
		}, false, "a label"},
		{"time", func(_ *testing.T, _ *fixture, s *settings) {
			s.created = time.Unix(1, 0)
		}, false, "SOURCE_DATE_EPOCH"},
		{"tag", func(_ *testing.T, _ *fixture, s *settings) {
			s.tags = []string{"other:1"}
		}, true, "a name is no part of what it names"},
		{"certificate twice", func(t *testing.T, f *fixture, _ *settings) {
			data, err := os.ReadFile(filepath.Join(f.dir, "certs", "a.crt"))
			if err != nil {
				t.Fatal(err)
			}
			f.put(t, "certs/z.crt", "# a comment\n"+string(data))
		}, true, "neither a comment nor a double says anything new"},
	} {
		t.Run(row.name, func(t *testing.T) {
			f, s := newFixture(t), standard()
			before := f.image(t, s)
			row.change(t, &f, &s)
			after := f.image(t, s)
			if (before.id == after.id) != row.same || (before.digest == after.digest) != row.same {
				t.Errorf("%s (%s): before %s, after %s", row.name, row.why, before.id, after.id)
			}
		})
	}
}

func TestLayerHoldsExactlyTheTree(t *testing.T) {
	s := standard()
	s.created = time.Unix(1700000000, 0)
	_, files := untar(t, newFixture(t).image(t, s).archive)
	var manifest []dockerManifest
	decode(t, files["manifest.json"], &manifest)
	headers, _ := untar(t, files[manifest[0].Layers[0]])
	var got []string
	for _, h := range headers {
		got = append(got, fmt.Sprintf("%c %04o %d:%d %s", h.Typeflag, h.Mode, h.Uid, h.Gid, h.Name))
		if h.ModTime.Unix() != 1700000000 {
			t.Errorf("%s: time %v", h.Name, h.ModTime)
		}
		if h.Uname != "" || h.Gname != "" || h.Format != tar.FormatUSTAR || len(h.PAXRecords) > 0 {
			t.Errorf("%s: names a user, or has a format that leaves choices: %+v", h.Name, h)
		}
	}
	// Written out once more, so that a change of the image has to be meant.
	want := []string{
		"5 0755 0:0 etc/",
		"0 0444 0:0 etc/group",
		"0 0444 0:0 etc/nsswitch.conf",
		"0 0444 0:0 etc/passwd",
		"5 0755 0:0 etc/ssl/",
		"5 0755 0:0 etc/ssl/certs/",
		"0 0444 0:0 etc/ssl/certs/ca-certificates.crt",
		"0 0555 0:0 mcp-server-suite",
		"5 0755 0:0 run/",
		"5 0750 10001:10001 run/mcp/",
		"5 0755 0:0 run/secrets/",
		"5 0755 0:0 safe_data_dir/",
		"5 0755 0:0 tmp/",
		"5 0755 0:0 usr/",
		"5 0755 0:0 usr/share/",
		"5 0755 0:0 usr/share/doc/",
		"5 0755 0:0 usr/share/doc/mcp-server-suite/",
		"0 0444 0:0 usr/share/doc/mcp-server-suite/LICENSE",
		"0 0444 0:0 usr/share/doc/mcp-server-suite/THIRD_PARTY_NOTICES.md",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestConfigurationSaysHowToRun(t *testing.T) {
	s := standard()
	s.created = time.Unix(1700000000, 0)
	source := map[string]string{"org.opencontainers.image.source": "https://x.test/"}
	s.labels = labels("1.2.3", strings.Repeat("ab", 20), source)
	made := newFixture(t).image(t, s)
	_, files := untar(t, made.archive)
	var config imageConfig
	decode(t, files[blobPath(made.id)], &config)
	want := runConfig{
		User: "10001:10001", Env: []string{"PATH=/", "MCP_SAFE_DATA_DIR=/safe_data_dir"},
		Entrypoint: []string{"/mcp-server-suite"}, Cmd: []string{"serve"}, WorkingDir: "/", StopSignal: "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title":       "mcp-server-suite",
			"org.opencontainers.image.description": "Read-only MCP server over stdio that takes its own rights away first",
			"org.opencontainers.image.version":     "1.2.3",
			"org.opencontainers.image.revision":    "abababababababababababababababababababab",
			"org.opencontainers.image.licenses":    "MIT",
			"org.opencontainers.image.source":      "https://x.test/",
			"io.modelcontextprotocol.server.name":  "local/mcp-server-suite",
		},
	}
	if !reflect.DeepEqual(config.Config, want) {
		t.Errorf("got %+v", config.Config)
	}
	if config.OS != "linux" || config.Architecture != "amd64" || config.Created != "2023-11-14T22:13:20Z" {
		t.Errorf("got %+v", config)
	}
}

// Each digest and size is looked up in the archive, along both ways in: manifest.json and index.json.
func TestArchiveIsWholeAsDockerArchiveAndAsOCILayout(t *testing.T) {
	s := standard()
	s.tags = []string{"suite:1", "localhost:5000/team/suite:2"}
	made := newFixture(t).image(t, s)
	headers, files := untar(t, made.archive)
	names := []string{}
	for _, h := range headers {
		names = append(names, h.Name)
		if digest, ok := strings.CutPrefix(h.Name, "blobs/sha256/"); ok && digest != "" {
			if blobPath(digestOf(files[h.Name])) != h.Name {
				t.Errorf("%s holds %s", h.Name, digestOf(files[h.Name]))
			}
		}
	}
	if len(names) != 8 || !slices.IsSorted(names) {
		t.Errorf("two folders and six files, sorted; got %q", names)
	}
	blob := func(d descriptor, mediaType string) []byte {
		data, ok := files[blobPath(d.Digest)]
		if !ok || len(data) != d.Size || d.MediaType != mediaType {
			t.Errorf("%+v: got %d bytes", d, len(data))
		}
		return data
	}
	var index ociIndex
	decode(t, files["index.json"], &index)
	var full, short []string
	for _, named := range index.Manifests {
		full = append(full, named.Annotations["io.containerd.image.name"])
		short = append(short, named.Annotations["org.opencontainers.image.ref.name"])
		var manifest ociManifest
		decode(t, blob(named, "application/vnd.oci.image.manifest.v1+json"), &manifest)
		var config imageConfig
		decode(t, blob(manifest.Config, "application/vnd.oci.image.config.v1+json"), &config)
		blob(manifest.Layers[0], "application/vnd.oci.image.layer.v1.tar")
		if named.Digest != made.digest || manifest.Config.Digest != made.id ||
			!slices.Equal(config.RootFS.DiffIDs, []string{manifest.Layers[0].Digest}) {
			t.Errorf("%+v does not lead to %s", named, made.id)
		}
	}
	if !slices.Equal(full, []string{"docker.io/library/suite:1", "localhost:5000/team/suite:2"}) ||
		!slices.Equal(short, []string{"1", "2"}) {
		t.Errorf("names %q, tags %q", full, short)
	}
	var docker []dockerManifest
	decode(t, files["manifest.json"], &docker)
	if len(docker) != 1 || docker[0].Config != blobPath(made.id) || !slices.Equal(docker[0].RepoTags, s.tags) {
		t.Errorf("manifest.json: %+v", docker)
	}
	if string(files["oci-layout"]) != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout: %s", files["oci-layout"])
	}
}

func TestWrongInputIsRefused(t *testing.T) {
	link := func(name, to string) func(*testing.T, *fixture) {
		return func(t *testing.T, f *fixture) {
			name := filepath.Join(f.dir, name)
			_ = os.Remove(name) // it may be a new one
			if err := os.Symlink(to, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(name string) func(*testing.T, *fixture) {
		return func(t *testing.T, f *fixture) {
			if err := os.RemoveAll(filepath.Join(f.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	put := func(name, text string) func(*testing.T, *fixture) {
		return func(t *testing.T, f *fixture) { f.put(t, name, text) }
	}
	patched := func(offset int, value byte) func(*testing.T, *fixture) {
		return func(t *testing.T, f *fixture) {
			data, err := os.ReadFile(f.in.binary)
			if err != nil {
				t.Fatal(err)
			}
			data[offset] = value
			f.put(t, "bin/mcp-server-suite", string(data))
		}
	}
	for _, row := range []struct {
		name  string
		spoil func(*testing.T, *fixture)
		says  string
		why   string
	}{
		{"file missing", remove("images/rootfs/etc/group"), "no such file", "an image with a hole"},
		{"folder missing", remove("images/rootfs"), "no such file", "another folder is not the repository"},
		{"program missing", remove("bin"), "no such file", "nothing to run"},
		{"licence missing", remove("LICENSE"), "no such file", "the texts must go along"},
		{"notices missing", remove("images/THIRD_PARTY_NOTICES.md"), "no such file", "the texts must go along"},
		{"file empty", put("images/rootfs/etc/passwd", ""), "it is empty", "half a checkout"},
		{"file too many", put("images/rootfs/etc/shadow", "x"), "etc/shadow is not a part", "it would be left out"},
		{"folder too many", put("images/rootfs/opt/x", "x"), "opt/ is not a part", "as above"},
		{
			"file from elsewhere", put("images/rootfs/mcp-server-suite", "x"), "mcp-server-suite is not a part",
			"the program comes from --binary only",
		},
		{"link for a file", link("images/rootfs/etc/passwd", "group"), "neither a file nor a folder", "it leads anywhere"},
		{"link too many", link("images/rootfs/etc/mtab", "/proc/mounts"), "neither a file nor a folder", "as above"},
		{"link for a folder", func(t *testing.T, f *fixture) {
			remove("images/rootfs/etc")(t, f)
			link("images/rootfs/etc", "/etc")(t, f)
		}, "neither a file nor a folder", "it would take the passwd of the build host"},
		{"link for the program", link("bin/mcp-server-suite", "/bin/sh"), "is a symbolic link", "as above"},
		{"link for a certificate", link("certs/a.crt", "b.crt"), "is a symbolic link", "as above"},
		{"link for the licence", link("LICENSE", "images/THIRD_PARTY_NOTICES.md"), "is a symbolic link", "as above"},
		{"FIFO for the licence", func(t *testing.T, f *fixture) {
			remove("LICENSE")(t, f)
			if err := syscall.Mkfifo(filepath.Join(f.dir, "LICENSE"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "is not a regular file", "an open must not wait for a writer"},
		{"program that needs a loader", func(t *testing.T, f *fixture) {
			f.shell(t, elf.PT_INTERP)
		}, "needs a loader", "the image has none"},
		{"program that needs a library", func(t *testing.T, f *fixture) {
			f.shell(t, elf.PT_NULL)
		}, "needs libraries", "as above"},
		{"program of another machine", patched(18, 183), "not for amd64", "e_machine is EM_AARCH64"},
		{"program that is an object file", patched(16, 1), "no program", "e_type is ET_REL"},
		{"program that is a script", put("bin/mcp-server-suite", "#!/bin/sh\n"), "read ELF", "there is no shell"},
		{"architecture without a table", func(_ *testing.T, f *fixture) {
			f.in.arch = "riscv64"
		}, "no such architecture", "the filter knows two"},
		{"key among the certificates", func(t *testing.T, f *fixture) {
			f.put(t, "certs/c.crt", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})))
		}, `it holds "PRIVATE KEY"`, "it would be published"},
		{"certificate that is none", func(t *testing.T, f *fixture) {
			f.put(t, "certs/c.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})))
		}, "c.crt", "Go's pool would skip it in silence"},
		{"certificate file with nothing in it", put("certs/c.crt", "hello\n"), "holds no certificate", "a cut file"},
		{"no certificates", func(t *testing.T, f *fixture) {
			remove("certs/a.crt")(t, f)
			remove("certs/b.crt")(t, f)
		}, "holds no certificate", "another folder"},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := newFixture(t)
			row.spoil(t, &f)
			tree, err := f.in.tree()
			if err == nil || !strings.Contains(err.Error(), row.says) || tree != nil {
				t.Errorf("%s (%s): got %v, want %q", row.name, row.why, err, row.says)
			}
		})
	}
}

func TestBundleOfAFolderIsTheOneOfItsFilesInOrder(t *testing.T) {
	f := newFixture(t)
	f.put(t, "certs/README", "not a certificate, and not called .crt\n")
	var whole string
	for _, name := range []string{"a.crt", "b.crt"} {
		data, err := os.ReadFile(filepath.Join(f.in.ca, name))
		if err != nil {
			t.Fatal(err)
		}
		whole += string(data)
	}
	f.put(t, "bundle.pem", "comment\n"+whole)
	for _, name := range []string{f.in.ca, filepath.Join(f.dir, "bundle.pem")} {
		got, err := certificates(name)
		if err != nil || string(got) != whole {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}

func TestRootfsOnDiskIsTheLayer(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("giving /run/mcp away needs root")
	}
	f := newFixture(t)
	tree, err := f.in.tree()
	if err != nil {
		t.Fatal(err)
	}
	old := syscall.Umask(0o077) // modes must not depend on it
	defer syscall.Umask(old)
	dir := filepath.Join(t.TempDir(), "root")
	if err := layDown(tree, dir, time.Unix(1700000000, 0)); err != nil {
		t.Fatal(err)
	}
	for _, e := range tree {
		name := filepath.Join(dir, e.path)
		info, err := os.Lstat(name)
		if err != nil {
			t.Error(err)
			continue
		}
		stat := info.Sys().(*syscall.Stat_t)
		if info.IsDir() != e.dir() || int64(info.Mode().Perm()) != e.mode || int(stat.Uid) != e.uid ||
			int(stat.Gid) != e.gid || info.ModTime().Unix() != 1700000000 {
			t.Errorf("%s: %v %d:%d %v", e.path, info.Mode(), stat.Uid, stat.Gid, info.ModTime())
		}
		if !e.dir() {
			if data, err := os.ReadFile(name); err != nil || !bytes.Equal(data, e.data) {
				t.Errorf("%s: %d bytes, %v", e.path, len(data), err)
			}
		}
	}
	if err := layDown(tree, dir, time.Unix(0, 0)); err == nil {
		t.Error("a second time over the first: no error")
	}
}

func TestListShowsEveryFileAndSetting(t *testing.T) {
	f := newFixture(t)
	s := standard()
	lines, err := list(bytes.NewReader(f.image(t, s).archive))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, line := range lines[:len(contents())] {
		names = append(names, strings.TrimPrefix(line[strings.LastIndex(line, " ")+1:], "/"))
	}
	want := contents()
	for i, e := range want {
		if names[i] != e.path {
			t.Errorf("line %d: %s, want %s", i, names[i], e.path)
		}
	}
	if first := lines[1]; !strings.HasPrefix(first, "0444 0:0 13 sha256:") || !strings.HasSuffix(first, " 0 /etc/group") {
		t.Errorf("got %s", first)
	}
	rest := strings.Join(lines[len(contents()):], "\n")
	for _, setting := range []string{
		"platform linux/amd64", `Cmd ["serve"]`, `Entrypoint ["/mcp-server-suite"]`, `User "10001:10001"`,
		`StopSignal "SIGTERM"`, `WorkingDir "/"`, `Labels {`, `Env ["PATH=/",`,
	} {
		if !strings.Contains(rest, setting) {
			t.Errorf("%s is missing:\n%s", setting, rest)
		}
	}
	s.labels["org.opencontainers.image.title"] = "another"
	other, err := list(bytes.NewReader(f.image(t, s).archive))
	if err != nil || slices.Equal(lines, other) {
		t.Errorf("two images with the same list (%v)", err)
	}
}

func TestListRefusesWhatItCannotShow(t *testing.T) {
	pack := func(files map[string]string) []byte {
		data := map[string][]byte{}
		for name, text := range files {
			data[name] = []byte(text)
		}
		archive, err := archiveOf(data)
		if err != nil {
			t.Fatal(err)
		}
		return archive
	}
	layer := func(h tar.Header) string {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		if err := errors.Join(w.WriteHeader(&h), w.Close()); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	one := `[{"Config":"c","Layers":["l"]}]`
	for _, row := range []struct {
		name    string
		archive []byte
		says    string
	}{
		{"no archive", []byte(strings.Repeat("x", 1024)), "read archive"},
		{"no manifest", pack(nil), "manifest.json"},
		{"two images", pack(map[string]string{"manifest.json": `[{},{}]`}), "2 images"},
		{"layer missing", pack(map[string]string{"manifest.json": one, "c": "{}"}), "layer l is missing"},
		{"configuration missing", pack(map[string]string{"manifest.json": one, "l": ""}), "configuration"},
		{"link", pack(map[string]string{
			"manifest.json": one, "c": "{}", "l": layer(tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "b"}),
		}), "neither a file"},
		{"deletion", pack(map[string]string{
			"manifest.json": one, "c": "{}", "l": layer(tar.Header{Name: "etc/.wh.passwd", Typeflag: tar.TypeReg}),
		}), "deletes"},
	} {
		if lines, err := list(bytes.NewReader(row.archive)); err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: got %q, %v", row.name, lines, err)
		}
	}
}

// images/Dockerfile must give the same image. Its files come from mkimage rootfs; what it says itself is compared here.
func TestDockerfileSaysTheSameAsMkimage(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "images", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	var got runConfig
	got.Labels = map[string]string{}
	var copies []string
	stages := regexp.MustCompile(`(?m)^FROM .*$`).Split(strings.ReplaceAll(string(data), "\\\n", " "), -1)
	for line := range strings.Lines(stages[len(stages)-1]) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.NewReplacer("${VERSION}", "1.2.3", "${REVISION}", "unknown").Replace(strings.TrimSpace(rest))
		switch word {
		case "", "#", "ARG":
		case "COPY":
			copies = append(copies, rest)
		case "USER":
			got.User = rest
		case "WORKDIR":
			got.WorkingDir = rest
		case "STOPSIGNAL":
			got.StopSignal = rest
		case "ENTRYPOINT":
			decode(t, []byte(rest), &got.Entrypoint) // not the shell form
		case "CMD":
			decode(t, []byte(rest), &got.Cmd)
		case "ENV":
			got.Env = append(got.Env, strings.Fields(rest)...)
		case "LABEL":
			for _, pair := range regexp.MustCompile(`(\S+)="([^"]*)"`).FindAllStringSubmatch(rest, -1) {
				got.Labels[pair[1]] = pair[2]
			}
		default:
			t.Errorf("the last stage has %s, which mkimage knows nothing of", word)
		}
	}
	if want := run(labels("1.2.3", "unknown", nil)); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !slices.Equal(copies, []string{"--from=build /out/rootfs/ /"}) {
		t.Errorf("copies %q: more than the one layer, or another", copies)
	}
}

func TestCommandLine(t *testing.T) {
	f := newFixture(t)
	out := filepath.Join(f.dir, "out.tar")
	good := []string{
		"archive", "--out", out, "--binary", f.in.binary, "--ca", f.in.ca, "--source", f.dir, "--arch", "amd64",
		"--version", "1.2.3", "--tag", "suite:1.2.3",
	}
	with := func(more ...string) []string { return append(slices.Clone(good), more...) }
	for _, row := range []struct {
		name  string
		args  []string
		epoch string
		code  int
		says  string // on stdout with code 0, else on stderr
	}{
		{"help", []string{"--help"}, "", 0, "usage: mkimage"},
		{"help of a part", []string{"archive", "--help"}, "", 0, "usage: mkimage"},
		{"nothing", nil, "", 2, "what is to be done"},
		{"something else", []string{"push"}, "", 2, `"push"`},
		{"good", good, "", 0, "\nbytes "},
		{"with a time", good, "1700000000", 0, "id sha256:"},
		{"with a label", with("--label", "org.opencontainers.image.source=https://x.test/"), "", 0, "id sha256:"},
		{"time in words", good, "now", 2, "SOURCE_DATE_EPOCH"},
		{"time before 1970", good, "-1", 2, "SOURCE_DATE_EPOCH"},
		{"time that a header cannot hold", good, "8589934592", 2, "SOURCE_DATE_EPOCH"},
		{"version with a space", with("--version", "1 2"), "", 2, "-version"},
		{"revision that is a branch", with("--revision", "main"), "", 2, "-revision"},
		{"label without a value", with("--label", "x"), "", 2, "-label"},
		{"label with a line break", with("--label", "x=a\nb"), "", 2, "-label"},
		{"tag without a version", with("--tag", "suite"), "", 2, "-tag"},
		{"tag with a plus", with("--tag", "suite:1+2"), "", 2, "-tag"},
		{"too much", with("x"), "", 2, `"x" is too much`},
		{"out is missing", []string{"archive"}, "", 2, "--out is missing"},
		{"rootfs has no version", []string{"rootfs", "--version", "1"}, "", 2, "-version"},
		{"program is missing", with("--binary", filepath.Join(f.dir, "none")), "", 1, "no such file"},
		{"folder is missing", with("--out", filepath.Join(f.dir, "none", "x")), "", 1, "no such file"},
		{"list of nothing", []string{"list"}, "", 2, "takes one archive"},
		{"list of a folder", []string{"list", f.dir}, "", 1, "list "},
		{"list", []string{"list", out}, "", 0, " /mcp-server-suite\n"},
	} {
		var stdout, stderr bytes.Buffer
		code := command(row.args, row.epoch, &stdout, &stderr)
		said, silent := &stdout, &stderr
		if row.code != 0 {
			said, silent = silent, said
		}
		if code != row.code || !strings.Contains(said.String(), row.says) || silent.Len() > 0 {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", row.name, code, stdout.String(), stderr.String())
		}
		oneLine := strings.Count(stderr.String(), "\n") == 1 && strings.HasPrefix(stderr.String(), "mkimage: ")
		if row.code != 0 && !oneLine {
			t.Errorf("%s: not one line: %q", row.name, stderr.String())
		}
	}
	if left, err := filepath.Glob(filepath.Join(f.dir, ".mkimage-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q %v", left, err)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("archive: %v %v", info, err)
	}
}
