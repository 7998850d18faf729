package workflows_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// registry stands for the two programs that speak to one: it writes down what it is asked for, and says that it has
// stored the digest of FAKE_DIGEST, or the one that was to be stored.
const registry = `#!/usr/bin/env bash
set -euo pipefail
echo "$(basename "$0") $*" >>asked
case $(basename "$0") in
skopeo)
	all=$*
	arch=${all##*linux-}
	arch=${arch%%.tar*}
	while [ "$1" != --digestfile ]; do shift; done
	printf '%s' "${FAKE_DIGEST:-$(cat "out/digest-$arch")}" >"$2"
	;;
docker)
	case "$*" in
	*inspect*) printf '{"manifests":["%s","%s"]}' "$(cat out/digest-amd64)" "${FAKE_LISTED:-$(cat out/digest-arm64)}" ;;
	esac
	;;
esac
`

// What the job does is run, with programs in place of those that need the network.
func TestWhatIsPublishedIsWhatWasTried(t *testing.T) {
	t.Parallel()
	var w workflow
	if err := yaml.Unmarshal(files(t)["release.yml"], &w); err != nil {
		t.Fatal(err)
	}
	push := ""
	for _, s := range w.Jobs["publish"].Steps {
		if s.Name == "push, and compare with what was tried" {
			push = s.Run
		}
	}
	if push == "" {
		t.Fatal("no step pushes")
	}
	other := "sha256:" + strings.Repeat("f", 64)
	for _, c := range []struct {
		name, setting, forbidden string
		passes                   bool
	}{
		{"as it was tried", "", "", true},
		{"the registry has another digest", "FAKE_DIGEST=" + other, "docker buildx", false},
		{"the list names another digest", "FAKE_LISTED=" + other, "", false},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"bin/skopeo": registry, "bin/docker": registry,
			"out/digest-amd64": "sha256:" + strings.Repeat("a", 64), "out/digest-arm64": "sha256:" + strings.Repeat("b", 64),
		} {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("bash", "-eo", "pipefail", "-c", push) // as the shell of a job is started
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "REGISTRY=registry.example",
			"GITHUB_REPOSITORY=Owner/Name", "GITHUB_REF_NAME=v1.2.3", "GITHUB_SHA=0123", "GITHUB_OUTPUT="+filepath.Join(dir, "output"),
			c.setting)
		log, err := cmd.CombinedOutput()
		output, _ := os.ReadFile(filepath.Join(dir, "output")) // absent: nothing is handed on
		asked, _ := os.ReadFile(filepath.Join(dir, "asked"))
		if (err == nil) != c.passes || strings.Contains(string(output), "image=registry.example/owner/name@sha256:") != c.passes {
			t.Errorf("%s: %v, output %q\n%s", c.name, err, output, log)
		}
		if c.forbidden != "" && strings.Contains(string(asked), c.forbidden) {
			t.Errorf("%s: it went on: %s", c.name, asked)
		}
	}
}
