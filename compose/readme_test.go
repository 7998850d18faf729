package compose_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const (
	blockBegin = "<!-- docker-run:begin -->"
	blockEnd   = "<!-- docker-run:end -->"
)

// word is one word of a shell line: bare, or with parts in double quotes, as "$PWD/data". Nothing else is used there.
var word = regexp.MustCompile(`(?:"[^"]*"|[^\s"])+`)

// runOfBlock takes the docker run command out of a block of README.md.
func runOfBlock(block string) (run, error) {
	block = strings.ReplaceAll(block, "\\\n", " ")
	var words []string
	for line := range strings.Lines(block) {
		_, command, found := strings.Cut(line, "docker run ")
		if !found {
			continue
		}
		words = []string{"run"}
		for _, w := range word.FindAllString(command, -1) {
			if strings.ContainsAny(w[:1], "<>|&;#") {
				break
			}
			words = append(words, strings.ReplaceAll(w, `"`, ""))
		}
	}
	return parseRun(words)
}

func TestDocsReadmeDockerRunIsTheList(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), blockBegin)
	if !found {
		t.Skipf("NOT CHECKED: README.md has no %s yet; put it and %s around the docker run block", blockBegin, blockEnd)
	}
	block, _, found := strings.Cut(after, blockEnd)
	if !found {
		t.Fatalf("README.md has no %s", blockEnd)
	}
	got, err := runOfBlock(block)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences(got, wanted(t, "$PWD/data")) {
		t.Errorf("README.md: %s", d)
	}
}

func TestABlockOfAReadmeIsReadAsAShellDoes(t *testing.T) {
	flags := readFlags(t, "$PWD/data")
	var b strings.Builder
	for _, flag := range flags[1:] {
		if strings.HasPrefix(flag, "type=") {
			flag = `"` + flag + `"`
		}
		b.WriteString(flag + " \\\n  ")
	}
	for _, c := range []struct {
		name, block string
		faults      bool
	}{
		{"as it should be", "```sh\nprintf 'x' |\n  docker run " + b.String() + image + "\n```\n", false},
		{"with a redirection", "docker run " + b.String() + image + " < requests.jsonl\n", false},
		{"a flag less", "docker run " + strings.Replace(b.String(), "--read-only \\\n", "", 1) + image + "\n", true},
		{"another value", "docker run " + strings.Replace(b.String(), "64", "128", 1) + image + "\n", true},
		{"another image", "docker run " + b.String() + "other\n", true},
		{"no command", "docker build .\n", true},
	} {
		got, err := runOfBlock(c.block)
		if faults := err != nil || len(differences(got, wanted(t, "$PWD/data"))) > 0; faults != c.faults {
			t.Errorf("%s: %v, %v, %v", c.name, got, err, differences(got, wanted(t, "$PWD/data")))
		}
	}
}
