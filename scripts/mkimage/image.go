package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// settings is what the image says about itself.
type settings struct {
	arch    string            // as Go names it
	labels  map[string]string // all of them
	created time.Time         // also the time of every file
	tags    []string          // names for docker load; no part of the image or its ID
}

// runConfig is what a runtime is told about how to start a container. The fields are those of the OCI image
// specification (config.md); what is not set is left out.
type runConfig struct {
	User       string            `json:"User"`
	Env        []string          `json:"Env"`
	Entrypoint []string          `json:"Entrypoint"`
	Cmd        []string          `json:"Cmd"`
	WorkingDir string            `json:"WorkingDir"`
	Labels     map[string]string `json:"Labels"`
	StopSignal string            `json:"StopSignal"`
}

// run returns the run configuration; images/Dockerfile says the same, and a test compares the two.
func run(labels map[string]string) runConfig {
	return runConfig{
		User: fmt.Sprintf("%d:%d", daemonUID, daemonGID),
		// With this PATH `docker exec CONTAINER mcp-server-suite posture` finds the only program there is. Settings may
		// stand here, secrets may not: docker inspect shows them.
		Env:        []string{"PATH=/", "MCP_SAFE_DATA_DIR=/safe_data_dir"},
		Entrypoint: []string{"/mcp-server-suite"},
		Cmd:        []string{"serve"},
		WorkingDir: "/",
		Labels:     labels,
		StopSignal: "SIGTERM",
	}
}

// labels returns what the image says about itself, for a version and a revision ("unknown" if it is), with more or
// other values from extra. There is no org.opencontainers.image.source unless extra brings it: who publishes the image
// knows where its source is. io.modelcontextprotocol.server.name has to be the name under which the MCP registry lists
// the server; until it is listed the name is a local one.
func labels(version, revision string, extra map[string]string) map[string]string {
	all := map[string]string{
		"org.opencontainers.image.title":       "mcp-server-suite",
		"org.opencontainers.image.description": "Read-only MCP server over stdio that takes its own rights away first",
		"org.opencontainers.image.version":     version,
		"org.opencontainers.image.revision":    revision,
		"org.opencontainers.image.licenses":    "MIT",
		"io.modelcontextprotocol.server.name":  "local/mcp-server-suite",
	}
	for name, value := range extra {
		all[name] = value
	}
	return all
}

type imageConfig struct {
	Created      string    `json:"created"`
	Architecture string    `json:"architecture"`
	Variant      string    `json:"variant,omitempty"`
	OS           string    `json:"os"`
	Config       runConfig `json:"config"`
	RootFS       struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
	History []historyEntry `json:"history"`
}

type historyEntry struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

// descriptor refers to a blob (OCI image specification, descriptor.md).
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Variant      string `json:"variant,omitempty"`
}

type ociManifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type ociIndex struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

// dockerManifest is an element of manifest.json, Docker's own list of what an archive holds.
type dockerManifest struct {
	Config   string   `json:"Config"`
	RepoTags []string `json:"RepoTags"`
	Layers   []string `json:"Layers"`
}

// image is a finished image.
type image struct {
	id      string // digest of the configuration: what Docker calls the image ID
	digest  string // digest of the manifest: what a registry calls the image, if it takes the layer as it is
	archive []byte
}

// build makes an image of a tree. The same arguments give the same bytes: names are in order, owners are numbers, all
// times are the same, and the layer is not compressed, because the output of a compressor may change with its version.
func build(tree []entry, s settings) (image, error) {
	layer, err := layerOf(tree, s.created)
	if err != nil {
		return image{}, err
	}
	created := s.created.UTC().Format(time.RFC3339)
	at := platform{Architecture: s.arch, OS: "linux"}
	if s.arch == "arm64" {
		at.Variant = "v8"
	}
	config := imageConfig{
		Created: created, Architecture: at.Architecture, Variant: at.Variant, OS: at.OS, Config: run(s.labels),
		History: []historyEntry{{Created: created, CreatedBy: "scripts/mkimage"}},
	}
	config.RootFS.Type = "layers"
	config.RootFS.DiffIDs = []string{digestOf(layer)}

	files := map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)}
	blob := func(mediaType string, data []byte) descriptor {
		files[blobPath(digestOf(data))] = data
		return descriptor{MediaType: mediaType, Digest: digestOf(data), Size: len(data)}
	}
	encode := func(value any) []byte {
		data, mistake := json.Marshal(value)
		if mistake != nil && err == nil {
			err = fmt.Errorf("encode %T: %w", value, mistake)
		}
		return data
	}
	layerBlob := blob("application/vnd.oci.image.layer.v1.tar", layer)
	configBlob := blob("application/vnd.oci.image.config.v1+json", encode(config))
	manifest := blob("application/vnd.oci.image.manifest.v1+json", encode(ociManifest{
		SchemaVersion: 2, MediaType: "application/vnd.oci.image.manifest.v1+json",
		Config: configBlob, Layers: []descriptor{layerBlob},
	}))

	manifest.Platform = &at
	index := ociIndex{SchemaVersion: 2, MediaType: "application/vnd.oci.image.index.v1+json"}
	for _, tag := range s.tags {
		named := manifest
		// containerd takes the whole name from its own key, everybody else the tag from the specification's.
		named.Annotations = map[string]string{
			"io.containerd.image.name":          fullName(tag),
			"org.opencontainers.image.ref.name": tag[strings.LastIndex(tag, ":")+1:],
		}
		index.Manifests = append(index.Manifests, named)
	}
	if len(s.tags) == 0 {
		index.Manifests = []descriptor{manifest}
	}
	files["index.json"] = encode(index)
	files["manifest.json"] = encode([]dockerManifest{{
		Config: blobPath(configBlob.Digest), RepoTags: s.tags, Layers: []string{blobPath(layerBlob.Digest)},
	}})
	if err != nil {
		return image{}, err
	}
	archive, err := archiveOf(files)
	if err != nil {
		return image{}, err
	}
	return image{configBlob.Digest, manifest.Digest, archive}, nil
}

// fullName returns NAME:TAG with the registry that Docker means when none is named. A first part with a dot or a colon
// is a registry, and so is localhost.
func fullName(tag string) string {
	first, _, more := strings.Cut(tag, "/")
	switch {
	case !more:
		return "docker.io/library/" + tag
	case strings.ContainsAny(first, ".:") || first == "localhost":
		return tag
	default:
		return "docker.io/" + tag
	}
}

// layerOf writes the tree as a tar file in the oldest format that holds it, which leaves nothing to choose.
func layerOf(tree []entry, when time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range tree {
		h := tar.Header{
			Name: e.path, Mode: e.mode, Uid: e.uid, Gid: e.gid, ModTime: when, Size: int64(len(e.data)),
			Typeflag: tar.TypeReg, Format: tar.FormatUSTAR,
		}
		if e.dir() {
			h.Typeflag = tar.TypeDir
		}
		if err := add(w, &h, e.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	return out.Bytes(), nil
}

// archiveOf writes files, by name, as a tar file. Its own times are no part of the image and stay 0.
func archiveOf(files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, dir := range []string{"blobs/", "blobs/sha256/"} {
		h := tar.Header{
			Name: dir, Mode: 0o755, ModTime: time.Unix(0, 0), Typeflag: tar.TypeDir, Format: tar.FormatUSTAR,
		}
		if err := add(w, &h, nil); err != nil {
			return nil, err
		}
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		h := tar.Header{
			Name: name, Mode: 0o644, ModTime: time.Unix(0, 0), Size: int64(len(files[name])),
			Typeflag: tar.TypeReg, Format: tar.FormatUSTAR,
		}
		if err := add(w, &h, files[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write archive: %w", err)
	}
	return out.Bytes(), nil
}

func add(w *tar.Writer, h *tar.Header, data []byte) error {
	if err := w.WriteHeader(h); err != nil {
		return fmt.Errorf("write header of %s: %w", h.Name, err)
	}
	if _, err := io.Copy(w, bytes.NewReader(data)); err != nil {
		return fmt.Errorf("write %s: %w", h.Name, err)
	}
	return nil
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func blobPath(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }
