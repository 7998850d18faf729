package lockdown_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"mcp-server-suite/pkg/lockdown"
)

// check is one of the adversarial checks of the design (findings on hardening, "Adversarial checks"), and what has
// become of it.
type check struct {
	number    int
	what      string
	probes    []string // tried at every start, see Plan.denials
	fatal     []string // ends the process, see Fatal
	tests     []string // package.Test, of this module
	container bool     // belongs to the tests of the image (issue 4), because only a container runtime has it
}

func checks() []check {
	probe := func(n int, what string, names ...string) check { return check{number: n, what: what, probes: names} }
	fatal := func(n int, what string, names ...string) check { return check{number: n, what: what, fatal: names} }
	test := func(n int, what string, names ...string) check { return check{number: n, what: what, tests: names} }
	with := func(c check, tests ...string) check {
		c.tests = append(c.tests, tests...)
		return c
	}
	image := func(c check) check {
		c.container = true
		return c
	}
	const (
		eachRight = "landlock.TestEachRightIsTakenAwayByTheABIsThatHaveIt"
		wall      = "lockdown.TestAWallThatDeniesOurLayersStopsTheStart"
		threads   = "lockdown.TestEveryThreadOfAServingDaemonIsLocked"
		anywhere  = "lockdown.TestNoFileIsMadeWhereEveryUserMayMakeThem"
		reached   = "lockdown.TestOnlyWhatIsGrantedIsReached"
		told      = "lockdown.TestTheKernelIsToldTheRulesOfThePostureAndNoOther"
	)
	list := []check{
		probe(1, "open a file outside", "open a file outside of the grants"),
		with(probe(2, "create a file in /", "create a file in /"), "lockdown.TestNoFileIsMadeInTheRoot"),
		with(
			probe(3, "create a file in /tmp", "create a file in /tmp", "create a file in /dev/shm", "create a file in /dev/mqueue"),
			anywhere, reached,
		),
		with(probe(4, "openat2 to create"), anywhere, reached, "lockdown.TestOpenat2IsReadOnlyOrAbsent", eachRight),
		with(probe(5, "read /proc/1/environ", inProcessOne), "lockdown.TestTheEnvironmentOfProcessOneIsDeniedByLandlock"),
		probe(6, "open /proc/self/mem for writing", "open our memory for writing"),
		probe(7, "mkdir", "mkdirat"),
		probe(8, "unlink", "unlinkat"),
		probe(9, "rename", "renameat2"),
		probe(10, "symlink", "symlinkat"),
		probe(11, "chmod", "fchmodat", "fchmod"),
		probe(12, "setuid(0)", "setuid", "setresuid"),
		probe(13, "setgroups", "setgroups"),
		probe(14, "socket INET", "socket AF_INET, stream", "socket AF_INET6, stream", "socket AF_INET, datagram"),
		probe(15, "socket RAW", "socket AF_INET, raw", "socket AF_PACKET"),
		probe(16, "socket NETLINK", "socket AF_NETLINK"),
		probe(17, "socket ALG", "socket AF_ALG"),
		probe(18, "socket VSOCK", "socket AF_VSOCK"),
		probe(19, "socketpair", "socketpair"),
		probe(20, "bind", "bind", "listen"),
		with(probe(21, "connect to an unlisted TCP port", "connect"), reached, told, eachRight),
		with(probe(22, "abstract socket", "socket AF_UNIX, stream", "socket AF_UNIX, datagram"), eachRight),
		with(probe(23, "kill the parent", "kill"), "lockdown.TestTheParentIsNotKilled", eachRight),
		probe(24, "tgkill another process", "tgkill of another process"),
		probe(25, "mmap RWX", "mmap of writable and executable memory"),
		probe(26, "mprotect RX", "mprotect to executable"),
		probe(27, "pkey_mprotect", "pkey_mprotect"),
		probe(28, "memfd_create", "memfd_create", "memfd_secret"),
		probe(29, "clone NEWUSER", "clone into a new user namespace"),
		probe(30, "clone3 is absent", "clone3"),
		probe(31, "ioctl TIOCSTI", "ioctl TIOCSTI"),
		probe(32, "PR_SET_DUMPABLE", "prctl PR_SET_DUMPABLE"),
		probe(33, "seccomp", "seccomp", "prctl PR_SET_SECCOMP"),
		probe(34, "landlock_create_ruleset", "landlock_create_ruleset"),
		probe(35, "prlimit64", "setrlimit by prlimit64"),
		probe(36, "F_SETOWN", "fcntl F_SETOWN"),
		probe(37, "chdir", "chdir"),
		probe(38, "umask", "umask"),
		probe(39, "getxattr", "getxattr", "setxattr"),
		probe(40, "inotify", "inotify_init1", "fanotify_init"),
		probe(41, "accept4", "accept4"),
		probe(42, "splice", "splice", "sendfile"),
		probe(43, "pidfd_getfd", "pidfd_getfd"),
		probe(44, "shmget", "shmget", "msgget", "semget"),
		probe(45, "mq_open", "mq_open"),
		probe(46, "modify_ldt"), // amd64, below
		probe(47, "unknown number", "a system call that does not exist"),
		fatal(48, "execve", "execve", "execveat"),
		with(fatal(49, "ptrace", "ptrace"), "lockdown.TestPtraceIsTheEndWhateverItAsksFor"),
		fatal(50, "bpf", "bpf"),
		fatal(51, "unshare", "unshare"),
		fatal(52, "mount", "mount"),
		fatal(53, "io_uring_setup", "io_uring_setup"),
		fatal(54, "x32 number"), // amd64, below
		with(test(55, "every task has one filter more", threads), "lockdown.TestCompareNamesTheThreadThatDiffers"),
		test(56, "no new privileges, no capabilities, uid 10001", threads, "lockdown.TestAFullBoundingSetIsNoPrivilege"),
		image(test(57, "/ is read-only, /tmp noexec,nosuid,nodev", "lockdown.TestTheRootFileSystemIsReportedAsItIs")),
		test(58, "an outer profile denies landlock", wall),
		test(59, "an outer profile denies seccomp", wall),
		test(60, "uid 0", "lockdown.TestTooManyPrivilegesStopTheStart"),
		test(61, "metrics after drop_caches", "lockdown.TestFiguresSurviveMemoryPressure"),
		image(test(62, "pids-limit 16", "lockdown.TestSixteenThreadsAreEnough",
			"lockdown.TestFewerThanTwelveThreadsStopTheStart")),
		test(63, "80 threads", "lockdown.TestEightyThreadsAreAllDenied", "lockdown.TestEachGuardFindsWhatOnlyItCanSee",
			"seccomp.TestEveryThreadIsFiltered"),
		test(64, "crashes end as ever", "lockdown.TestACrashEndsAsItWouldUnlocked",
			"seccomp.TestDyingIsTheSameWithAndWithoutTheFilter"),
		image(test(65, "docker stop ends with 0", "lockdown.TestASignalToEndIsHeardWhenLocked")),
		test(66, "ways out of the sandbox", "lockdown.TestTheToolsWorkInEveryMode", "daemon.TestPathsLeadWhereTheyShould",
			"daemon.TestOnlyRegularFilesAreOpened", "sandboxfs.TestPathRule", reached, told,
			"lockdown.TestNoOtherFolderOfTheMachineIsOpen"),
	}
	if runtime.GOARCH == "amd64" {
		for i, c := range list {
			switch c.number {
			case 46:
				list[i].probes = []string{"modify_ldt"}
			case 54:
				list[i].fatal = []string{"x32", "i386"}
			}
		}
	}
	return list
}

// archOnly are the checks that mean something on amd64 only.
var archOnly = []int{46, 54}

func TestNoCheckOfTheDesignIsForgotten(t *testing.T) {
	t.Parallel()
	needRoot(t)
	needLandlock(t)
	known := testsOfTheModule(t)
	denials := postureIn(t).denials
	for i, c := range checks() {
		if c.number != i+1 {
			t.Fatalf("check %d stands where %d should", c.number, i+1)
		}
		for _, name := range c.probes {
			if !slices.ContainsFunc(denials, func(o lockdown.Outcome) bool { return o.Name == name && o.Owed && o.Denied }) {
				t.Errorf("check %d (%s): no probe %q is owed and denied", c.number, c.what, name)
			}
		}
		for _, name := range c.fatal {
			if !slices.Contains(lockdown.Fatal(), name) {
				t.Errorf("check %d (%s): %s is not fatal", c.number, c.what, name)
			}
		}
		for _, name := range c.tests {
			if !known[name] {
				t.Errorf("check %d (%s): there is no %s", c.number, c.what, name)
			}
		}
		elsewhere := runtime.GOARCH != "amd64" && slices.Contains(archOnly, c.number)
		if len(c.probes)+len(c.fatal)+len(c.tests) == 0 && !elsewhere {
			t.Errorf("check %d (%s) has come to nothing", c.number, c.what)
		}
	}
	if n := len(checks()); n != 66 {
		t.Errorf("%d checks, the design has 66", n)
	}
}

// testsOfTheModule are the tests in the packages beside this one, as package.Test.
func testsOfTheModule(t *testing.T) map[string]bool {
	t.Helper()
	if _, err := os.Stat("../../go.mod"); err != nil {
		t.Skipf("needs the sources: %v", err)
	}
	known := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil // somebody is writing it
		}
		for _, declared := range file.Decls {
			if f, ok := declared.(*ast.FuncDecl); ok && f.Recv == nil {
				known[filepath.Base(filepath.Dir(path))+"."+f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return known
}
