package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

// maxArchiveBytes bounds what list reads of an archive, in all.
const maxArchiveBytes = 256 << 20

// builderOnly lists what builders leave in a configuration for themselves: the ID of an image or container that only
// they know, and a mark (deprecated, for Windows) that BuildKit puts on a CMD in exec form.
var builderOnly = []string{"ArgsEscaped", "Hostname", "Image"}

// list returns what the one image of an archive holds, a line each: mode, owner, size, digest, time and name of every
// file and directory in the order of their names, then the configuration. Two images with equal lists differ in nothing
// that a container can see. The archive is one that build made or docker save wrote; deletions between layers, links
// and devices are an error, because no image of ours has them.
func list(archive io.Reader) ([]string, error) {
	files := map[string][]byte{}
	r := tar.NewReader(io.LimitReader(archive, maxArchiveBytes))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read archive: %w", err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if files[path.Clean(h.Name)], err = io.ReadAll(r); err != nil {
			return nil, fmt.Errorf("read archive: %w", err)
		}
	}
	var manifest []dockerManifest
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		return nil, fmt.Errorf("read manifest.json: %w", err)
	}
	if len(manifest) != 1 {
		return nil, fmt.Errorf("read manifest.json: %d images, not one", len(manifest))
	}
	tree := map[string]string{}
	for _, name := range manifest[0].Layers {
		layer, ok := files[path.Clean(name)]
		if !ok {
			return nil, fmt.Errorf("read archive: layer %s is missing", name)
		}
		if err := unpack(tree, layer); err != nil {
			return nil, fmt.Errorf("read layer %s: %w", name, err)
		}
	}
	var config struct {
		Architecture string
		Variant      string
		OS           string
		Config       map[string]json.RawMessage
	}
	if err := json.Unmarshal(files[path.Clean(manifest[0].Config)], &config); err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		lines = append(lines, tree[name])
	}
	lines = append(lines, strings.TrimRight("platform "+config.OS+"/"+config.Architecture+"/"+config.Variant, "/"))
	for _, name := range slices.Sorted(maps.Keys(config.Config)) {
		// Docker writes what is not set in many ways; only what is set counts.
		switch value := string(config.Config[name]); value {
		case "null", "false", `""`, "[]", "{}":
		default:
			if !slices.Contains(builderOnly, name) {
				lines = append(lines, name+" "+value)
			}
		}
	}
	return lines, nil
}

// unpack adds the lines of one layer to tree; a later layer wins.
func unpack(tree map[string]string, layer []byte) error {
	r := tar.NewReader(bytes.NewReader(layer))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Join("/", h.Name) // #nosec G305 -- it is printed, nothing is extracted
		if name == "/" {
			continue
		}
		owner := fmt.Sprintf("%04o %d:%d", h.Mode&0o7777, h.Uid, h.Gid)
		switch {
		case strings.HasPrefix(path.Base(name), ".wh."):
			return fmt.Errorf("%s deletes what an earlier layer has", name)
		case h.Typeflag == tar.TypeDir:
			tree[name] = fmt.Sprintf("%s - - %d %s/", owner, h.ModTime.Unix(), name)
		case h.Typeflag == tar.TypeReg:
			data, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			tree[name] = fmt.Sprintf("%s %d %s %d %s", owner, len(data), digestOf(data), h.ModTime.Unix(), name)
		default:
			return fmt.Errorf("%s is neither a file nor a directory", name)
		}
	}
}
