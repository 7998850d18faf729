package main

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

// texts are the licences of what is not a Go module: of Go as its distribution has them, of glibc as Debian's libc6-dev
// has it, and the LGPL as Debian's base-files has it.
//
//go:embed texts
var texts embed.FS

// library is C code that ends up in the program.
type library struct {
	name, version string // the version that Debian 12 has, which the program is built on
	licence       string
	source        string // Debian source package
	ask           []string
}

// libraries lists the C code in the program. ask is a command whose output ends in the version on this machine.
var libraries = []library{
	{
		"libseccomp", "2.5.4", "LGPL-2.1-only", "libseccomp",
		[]string{"pkg-config", "--modversion", "libseccomp"},
	},
	{
		"GNU C Library", "2.36", "LGPL-2.1-or-later, parts BSD-like", "glibc",
		[]string{"getconf", "GNU_LIBC_VERSION"},
	},
	{
		"GCC runtime (libgcc, crtbegin, crtend)", "12.2.0", "GPL-3.0-or-later WITH GCC-exception-3.1", "gcc-12",
		[]string{"gcc", "-dumpfullversion"},
	},
}

const opening = `<!-- Written by scripts/notices; change that, and run make golden. -->
# Third-party notices

mcp-server-suite itself is under the MIT licence (file LICENSE). This file is about what the program
"mcp-server-suite" has in it that others wrote, and about the certificates beside it in the container image. Programs
that only build or test it (mcp-proof, tokenizers, linters) are not in it.

| What | Version | Licence |
|---|---|---|
`

const afterTable = `
"Go" is the Go release that the program was built with: 'go version -m mcp-server-suite' names it, and repeats the
modules with their checksums. The versions of the C libraries are those of Debian 12, on which releases are built; a
program that was built elsewhere has the versions of that system.

pg_query_go is libpg_query in C: the parser of PostgreSQL 17 (PostgreSQL licence), with what it has taken over from the
BSDs (BSD-3-Clause, ISC), fast-hash (MIT) and a header of Henry Spencer's regular expressions, code that Bison has written
(GPL-3.0-or-later with an exception that leaves the licence of the parser to its authors), protobuf-c and xxHash
(BSD-2-Clause). The terms of each stand in its section below.

## The libraries under the LGPL, and how to exchange them

The program is linked statically with libseccomp and with the GNU C Library. Both are free software under the GNU
Lesser General Public License 2.1; its text stands at the end. You may change them and use the program with your
changed version:

1. The source of the program is complete and free: this repository, at the commit that the image's label
   org.opencontainers.image.revision and 'mcp-server-suite --version' name.
2. The sources of the libraries are Debian's source packages, in the version of the binary package that was linked:
   'apt-get source libseccomp glibc' on Debian 12; older versions are kept by https://snapshot.debian.org.
3. Put your libseccomp.a or libc.a into a directory DIR and link the program anew:
   'CGO_LDFLAGS=-LDIR scripts/build.sh -o mcp-server-suite ./cmd/mcp-server-suite' looks there first. scripts/image.sh
   makes an image of the result. (PKG_CONFIG_PATH alone is not enough: Go's build cache does not notice it.) The program
   checks no signature of itself or of its parts, and its licence does not forbid to take it apart.

Whoever passes the program or the image on passes on these duties with it: this file, and access to the sources above.

The GCC runtime library exception permits to pass the program on under terms of our choice; its parts need no text here.

## Certificates in the image

/etc/ssl/certs/ca-certificates.crt is made of the certificates of Debian's package ca-certificates, which come from
Mozilla's list (certdata.txt, Mozilla Public License 2.0, https://mozilla.org/MPL/2.0/). Their source form is Debian's
source package ca-certificates. The program loads no code from there.

`

// document returns the whole file.
func document(modules []module) (string, error) {
	var out strings.Builder
	out.WriteString(opening)
	fmt.Fprintf(&out, "| Go (standard library and runtime) | see below | BSD-3-Clause |\n")
	for _, m := range modules {
		fmt.Fprintf(&out, "| %s | %s | %s |\n", m.path, m.version, m.licence)
	}
	for _, l := range libraries {
		fmt.Fprintf(&out, "| %s | %s | %s |\n", l.name, l.version, l.licence)
	}
	out.WriteString(afterTable)

	text := func(names ...string) (string, error) {
		var all []string
		for _, name := range names {
			data, err := fs.ReadFile(texts, "texts/"+name)
			if err != nil {
				return "", err
			}
			all = append(all, tidy(string(data))+"\n")
		}
		return strings.Join(all, ""), nil
	}
	ofGo, err := text("go-LICENSE.txt", "go-PATENTS.txt")
	if err != nil {
		return "", err
	}
	ofC, err := text("glibc.txt")
	if err != nil {
		return "", err
	}
	lgpl, err := text("LGPL-2.1.txt")
	if err != nil {
		return "", err
	}

	// What has the same text shares a section.
	order, owners := []string{ofGo}, map[string][]string{ofGo: {"Go"}}
	for _, m := range modules {
		if len(owners[m.texts]) == 0 {
			order = append(order, m.texts)
		}
		owners[m.texts] = append(owners[m.texts], m.path)
	}
	for _, text := range order {
		section(&out, strings.Join(owners[text], ", "), text)
	}
	section(&out, "GNU C Library, as Debian's package states it", ofC)
	section(&out, "GNU Lesser General Public License 2.1 (libseccomp, GNU C Library)", lgpl)
	return strings.TrimRight(out.String(), "\n") + "\n", nil
}

func section(out *strings.Builder, title, text string) {
	fmt.Fprintf(out, "## %s\n\n```text\n%s```\n\n", title, text)
}
