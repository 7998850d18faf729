package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func modules(t *testing.T) []module {
	t.Helper()
	all, err := linked(root, "go")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 5 {
		t.Fatalf("the daemon links %d modules only: %v", len(all), all)
	}
	return all
}

// The file is rewritten by make golden; a reviewer reads that diff first.
func TestNoticesGolden(t *testing.T) {
	now, err := document(modules(t))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(root, file)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(name, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	then, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := current(string(then), now); err != nil {
		t.Error(err)
	}
}

func TestEveryModuleIsNamedWithItsLicenceAndItsText(t *testing.T) {
	all := modules(t)
	text, err := document(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		for what, want := range map[string]string{
			"row":  "| " + m.path + " | " + m.version + " | " + m.licence + " |\n",
			"text": m.texts,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the %s is missing", m.path, what)
			}
		}
	}
	for _, l := range libraries {
		if !strings.Contains(text, "| "+l.name+" | "+l.version+" |") {
			t.Errorf("%s is missing", l.name)
		}
	}
	// The folders of this machine are where the texts come from; none of them may get in.
	for _, command := range []string{"GOMODCACHE", "GOROOT"} {
		out, err := exec.Command("go", "env", command).Output()
		if dir := strings.TrimSpace(string(out)); err != nil || strings.Contains(text, dir) {
			t.Errorf("the document holds %q (%v)", dir, err)
		}
	}
}

func TestModuleThatIsLeftOutIsNoticed(t *testing.T) {
	all := modules(t)
	whole, err := document(all)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range all {
		less, err := document(slices.Delete(slices.Clone(all), i, i+1))
		if err != nil {
			t.Fatal(err)
		}
		if err := current(less, whole); err == nil || !strings.Contains(err.Error(), m.path) {
			t.Errorf("without %s: %v", m.path, err)
		}
	}
}

// This program links nothing but Go itself, so every module that the notices name is one too many for it.
func TestProgramThatConsistsOfOtherModulesIsNoticed(t *testing.T) {
	program := filepath.Join(t.TempDir(), "notices")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := matches(nil, program); err != nil {
		t.Errorf("no module: %v", err)
	}
	err := matches([]module{{path: "golang.org/x/sys", version: "v0.50.0"}}, program)
	if err == nil || !strings.Contains(err.Error(), "golang.org/x/sys v0.50.0") {
		t.Errorf("one that is not linked: %v", err)
	}
}

func TestLicenceOfAFolderInsideAModuleIsFound(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "internal", "theirs")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"LICENSE", "licenses.go", "NOTICE.txt", "internal/COPYING", "internal/theirs/License-MIT", "README",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, name := range licenceFiles(dir, inner) {
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, rel)
	}
	slices.Sort(got)
	want := []string{"LICENSE", "NOTICE.txt", "internal/COPYING", "internal/theirs/License-MIT"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTermsInTheCFilesOfPostgresParserAreInTheDocument(t *testing.T) {
	text, err := document(modules(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, holder := range []string{
		"Yann Collet", "the protobuf-c authors", "Todd C. Miller", "Eric P. Allman", "Zilong Tan", "Henry Spencer",
		"PostgreSQL Global Development Group", "As a special exception, you may create a larger work",
	} {
		if !strings.Contains(text, holder) {
			t.Errorf("nothing of %q", holder)
		}
	}
}

func TestEachLicenceInACFileIsFoundOnce(t *testing.T) {
	const licence = "/*-\n * Copyright (c) 1992 Somebody\n *\n *\tRedistribution is permitted.\n */\nint i;\n"
	holders := regexp.MustCompile("Ours")
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := embeddedLicences(dir, holders); err == nil {
		t.Error("no file, and no error")
	}
	put("a.c", "/* Copyright (c) 1996 Ours */\n"+licence)
	put("b.h", licence)
	got, err := embeddedLicences(dir, holders)
	want := []string{"Copyright (c) 1992 Somebody\n\nRedistribution is permitted."}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	put("c.c", "/* Copyright (C) 2001 Others */")
	if _, err := embeddedLicences(dir, holders); err == nil || !strings.Contains(err.Error(), "c.c") {
		t.Errorf("a copyright without terms: %v", err)
	}
}

// The text is kept here because a Go from a distribution need not have the file.
func TestTextOfGoIsTheOneOfThisGo(t *testing.T) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"LICENSE", "PATENTS"} {
		have, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), name))
		if err != nil {
			t.Skipf("this Go comes without its %s", name)
		}
		kept, err := fs.ReadFile(texts, "texts/go-"+name+".txt")
		if err != nil {
			t.Fatal(err)
		}
		if tidy(string(kept)) != tidy(string(have)) {
			t.Errorf("%s of %s is another one", name, runtime.Version())
		}
	}
}

func TestLibraryInAnotherVersionIsTold(t *testing.T) {
	here := library{name: "here", version: "2.0", ask: []string{"echo", "library", "2.0"}}
	other := library{name: "other", version: "1.0", ask: []string{"echo", "2.0"}}
	gone := library{name: "gone", version: "1.0", ask: []string{"false"}}
	got := strange([]library{here, other, gone})
	if len(got) != 1 || !strings.HasPrefix(got[0], "other is 2.0 here") {
		t.Errorf("got %q", got)
	}
}

// Releases are built on Debian 12; there the table has to be right.
func TestVersionsOfTheLibrariesAreThoseOfDebian12(t *testing.T) {
	release, err := os.ReadFile("/etc/os-release")
	if err != nil || !strings.Contains(string(release), `VERSION_ID="12"`) ||
		!strings.Contains(string(release), "ID=debian") {
		t.Skip("this is not Debian 12")
	}
	for _, line := range strange(libraries) {
		t.Error(line)
	}
}

func TestWrongOptionIsAUsageError(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := command([]string{"--chek"}, "go", &stdout, &stderr)
	if said := stderr.String(); code != 2 || strings.Count(said, "\n") == 0 || !strings.Contains(said, `"--chek"`) {
		t.Errorf("exit code %d, %q", code, stderr.String())
	}
	stderr.Reset()
	code = command([]string{"--help"}, "go", &stdout, &stderr)
	if code != 0 || !strings.HasPrefix(stdout.String(), "usage: ") {
		t.Errorf("--help: exit code %d, %q", code, stdout.String())
	}
}
