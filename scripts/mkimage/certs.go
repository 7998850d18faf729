package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// certificates returns the certificates of a PEM file, or of all *.crt files of a folder in the order of their names,
// as one PEM file that holds nothing else: no comments, no doubles. Anything but a certificate is an error: a private
// key in that place would be published with the image.
//
// A folder is what a Debian package brings (ca-certificates: /usr/share/ca-certificates/mozilla). The finished bundle
// in /etc/ssl/certs is not a good input: it holds what the administrator of the build host has added, and an image
// would carry that trust to wherever it runs. Measured here: the bundle of this very host had two local authorities.
func certificates(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	files := []string{name}
	if info.IsDir() {
		files = nil
		list, err := os.ReadDir(name)
		if err != nil {
			return nil, err
		}
		for _, file := range list {
			if strings.HasSuffix(file.Name(), ".crt") {
				files = append(files, filepath.Join(name, file.Name()))
			}
		}
	}
	var all bytes.Buffer
	seen := map[string]bool{}
	for _, file := range files {
		data, err := readFile(file)
		if err != nil {
			return nil, err
		}
		found := 0
		for ; ; found++ {
			block, rest := pem.Decode(data)
			if block == nil {
				break
			}
			data = rest
			if block.Type != "CERTIFICATE" {
				return nil, fmt.Errorf("read %s: it holds %q, and only certificates belong there", file, block.Type)
			}
			if _, err := x509.ParseCertificate(block.Bytes); err != nil {
				return nil, fmt.Errorf("read %s: %w", file, err)
			}
			if seen[string(block.Bytes)] {
				continue
			}
			seen[string(block.Bytes)] = true
			all.Write(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
		}
		if found == 0 {
			return nil, fmt.Errorf("read %s: it holds no certificate", file)
		}
	}
	if all.Len() == 0 {
		return nil, fmt.Errorf("read %s: it holds no certificate", name)
	}
	return all.Bytes(), nil
}
