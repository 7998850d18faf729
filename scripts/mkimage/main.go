package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const usage = `usage: mkimage archive --out FILE [INPUTS] [SAYS]
       mkimage rootfs --out DIR [INPUTS]
       mkimage list FILE

archive  writes the image as a Docker archive that is an OCI layout as well, and prints its ID, the digest of its
         manifest, and its size in bytes
rootfs   lays the files of the image down below DIR, which must not exist; needs root
list     prints what the image in an archive holds, one file or setting a line

INPUTS:
  --binary FILE   the daemon, as scripts/build.sh builds it
  --ca PATH       certificates: a PEM file or a folder of *.crt files (Debian: /usr/share/ca-certificates/mozilla)
  --source DIR    the repository (default: .)
  --arch ARCH     amd64 or arm64 (default: this machine's)
SAYS:
  --version V     label and program should agree (default: 0.0.0-unversioned)
  --revision R    commit of the source (default: unknown)
  --label K=V     one more label, or another value for one that is always there; may be given again
  --tag NAME:TAG  name for docker load, no part of the image; may be given again

SOURCE_DATE_EPOCH, in seconds, is the time of every file and of the image; the default is 0.
Exit codes: 0 done, 1 it could not be done, 2 usage.
`

func main() {
	os.Exit(command(os.Args[1:], os.Getenv("SOURCE_DATE_EPOCH"), os.Stdout, os.Stderr))
}

// errUsage marks an error of the command line.
var errUsage = errors.New("see mkimage --help")

// command does what args say and returns the exit code. An error is one line on stderr.
func command(args []string, epoch string, stdout, stderr io.Writer) int {
	err := dispatch(args, epoch, stdout)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		_, _ = io.WriteString(stdout, usage) // nobody is left to tell
		return 0
	}
	_, _ = fmt.Fprintf(stderr, "mkimage: %s\n", strings.ReplaceAll(err.Error(), "\n", " ")) // as above
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

func dispatch(args []string, epoch string, stdout io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("what is to be done is missing; %w", errUsage)
	}
	switch args[0] {
	case "--help", "-help", "-h", "help":
		return flag.ErrHelp
	case "archive", "rootfs":
		return create(args[0], args[1:], epoch, stdout)
	case "list":
		if len(args) == 2 && (args[1] == "--help" || args[1] == "-h") {
			return flag.ErrHelp
		}
		if len(args) != 2 {
			return fmt.Errorf("list takes one archive; %w", errUsage)
		}
		return printList(args[1], stdout)
	}
	return fmt.Errorf("%q is nothing that can be done; %w", args[0], errUsage)
}

// What may stand in a label or a tag, so that nothing in them surprises whoever prints or parses them.
var (
	versionForm  = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_-]{0,127}$`)
	revisionForm = regexp.MustCompile(`^(unknown|[0-9a-f]{40}|[0-9a-f]{64})$`)
	labelForm    = regexp.MustCompile(`^([a-z0-9][a-z0-9.-]*)=([ -~]{1,512})$`)
	tagForm      = regexp.MustCompile(`^[a-z0-9][a-z0-9._/:-]*:[0-9A-Za-z_][0-9A-Za-z._-]{0,127}$`)
)

// texts is a flag that may be given more than once; each value has to have a form.
type texts struct {
	form   *regexp.Regexp
	values []string
}

func (t *texts) String() string { return "" }

func (t *texts) Set(value string) error {
	if !t.form.MatchString(value) {
		return errors.New("not of the form " + t.form.String())
	}
	t.values = append(t.values, value)
	return nil
}

// create is archive and rootfs, which take the same inputs.
func create(what string, args []string, epoch string, stdout io.Writer) error {
	in := inputs{}
	version, revision := texts{form: versionForm}, texts{form: revisionForm}
	extra, tags := texts{form: labelForm}, texts{form: tagForm}
	flags := flag.NewFlagSet(what, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&in.binary, "binary", "", "")
	flags.StringVar(&in.ca, "ca", "", "")
	flags.StringVar(&in.source, "source", ".", "")
	flags.StringVar(&in.arch, "arch", runtime.GOARCH, "")
	out := flags.String("out", "", "")
	if what == "archive" {
		flags.Var(&version, "version", "")
		flags.Var(&revision, "revision", "")
		flags.Var(&extra, "label", "")
		flags.Var(&tags, "tag", "")
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w; %w", err, errUsage)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is too much; %w", flags.Arg(0), errUsage)
	}
	for _, need := range [][2]string{{"--out", *out}, {"--binary", in.binary}, {"--ca", in.ca}} {
		if need[1] == "" {
			return fmt.Errorf("%s is missing; %w", need[0], errUsage)
		}
	}
	when, err := parseEpoch(epoch)
	if err != nil {
		return err
	}
	tree, err := in.tree()
	if err != nil {
		return err
	}
	if what == "rootfs" {
		return layDown(tree, *out, when)
	}

	more := map[string]string{}
	for _, label := range extra.values {
		name, value, _ := strings.Cut(label, "=")
		more[name] = value
	}
	made, err := build(tree, settings{
		arch: in.arch, created: when, tags: tags.values,
		labels: labels(last(version, "0.0.0-unversioned"), last(revision, "unknown"), more),
	})
	if err != nil {
		return err
	}
	if err := replace(*out, made.archive); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "id %s\ndigest %s\nbytes %d\n", made.id, made.digest, len(made.archive))
	return err
}

// last returns the last value of a flag, or what holds without one.
func last(t texts, without string) string {
	if len(t.values) == 0 {
		return without
	}
	return t.values[len(t.values)-1]
}

// parseEpoch reads SOURCE_DATE_EPOCH; empty is 0. The bound is that of a USTAR header (33 bits).
func parseEpoch(text string) (time.Time, error) {
	if text == "" {
		text = "0"
	}
	seconds, err := strconv.ParseUint(text, 10, 33)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is not a number of seconds since 1970; %w", errUsage)
	}
	return time.Unix(int64(seconds), 0).UTC(), nil // #nosec G115 -- 33 bits
}

// replace puts data in place of name at once: an archive that is there is whole.
func replace(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".mkimage-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Close()) // #nosec G302 -- an image is for everybody to read
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is the one to tell
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func printList(name string, stdout io.Writer) error {
	f, err := os.Open(name) // #nosec G304 -- the name comes from the command line of a build
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // nothing was written
	lines, err := list(f)
	if err != nil {
		return fmt.Errorf("list %s: %w", name, err)
	}
	_, err = fmt.Fprintln(stdout, strings.Join(lines, "\n"))
	return err
}
