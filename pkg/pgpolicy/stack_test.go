package pgpolicy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"mcp-server-suite/pkg/problem"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// crashShapes nest by repetition: before, what is repeated, the middle, what is repeated after it, the end. In parallel
// to the finding's list, which had 67.
var crashShapes = []struct{ name, before, open, middle, shut, after string }{
	{"sum", "SELECT 1", "+1", "", "", ""},
	{"difference", "SELECT 1", "-1", "", "", ""},
	{"power", "SELECT 1", "^1", "", "", ""},
	{"product", "SELECT 1", "*1", "", "", ""},
	{"remainder", "SELECT 1", "%1", "", "", ""},
	{"concatenation", "SELECT a", "||a", "", "", ""},
	{"arrow", "SELECT a", "->a", "", "", ""},
	{"other operator", "SELECT 1", "@1", "", "", ""},
	{"plus signs", "SELECT ", "+", "a", "", ""},
	{"minus signs", "SELECT ", "- ", "a", "", ""},
	{"minus signs on a number", "SELECT ", "- ", "1", "", ""},
	{"prefix operator", "SELECT ", "@ ", "a", "", ""},
	{"not", "SELECT ", "NOT ", "a", "", ""},
	{"and", "SELECT a", " AND a", "", "", ""},
	{"or", "SELECT a", " OR a", "", "", ""},
	{"and in brackets", "SELECT ", "(a AND ", "a", ")", ""},
	{"or and and", "SELECT ", "(a OR (a AND ", "a", "))", ""},
	{"equals in brackets", "SELECT ", "(a=", "a", ")", ""},
	{"brackets", "SELECT ", "(", "1", ")", ""},
	{"brackets that stay open", "SELECT ", "(", "", "", ""},
	{"subscripts", "SELECT ", "a[", "1", "]", ""},
	{"flat subscripts", "SELECT a", "[1]", "", "", ""},
	{"slices", "SELECT ", "a[1:", "1", "]", ""},
	{"array", "SELECT ARRAY", "[", "1", "]", ""},
	{"array words", "SELECT ", "ARRAY[", "1", "]", ""},
	{"array of selects", "SELECT ", "ARRAY(SELECT ", "1", ")", ""},
	{"row", "SELECT ", "ROW(", "1", ")", ""},
	{"implicit row", "SELECT ", "(1,", "1", ")", ""},
	{"fields", "SELECT (a)", ".b", "", "", ""},
	{"fields in brackets", "SELECT ", "(", "a", ").b", ""},
	{"name", "SELECT a", ".b", "", "", ""},
	{"function", "SELECT ", "f(", "1", ")", ""},
	{"second argument", "SELECT ", "f(1,", "1", ")", ""},
	{"named argument", "SELECT ", "f(a=>", "1", ")", ""},
	{"variadic", "SELECT ", "f(VARIADIC ", "1", ")", ""},
	{"filter", "SELECT ", "f() FILTER (WHERE ", "a", ")", ""},
	{"over", "SELECT ", "f() OVER (ORDER BY ", "a", ")", ""},
	{"within group", "SELECT ", "f() WITHIN GROUP (ORDER BY ", "a", ")", ""},
	{"order in an aggregate", "SELECT ", "f(a ORDER BY ", "a", ")", ""},
	{"cast", "SELECT 1", "::int", "", "", ""},
	{"cast word", "SELECT ", "CAST(", "1", " AS int)", ""},
	{"dimensions", "SELECT a::int", "[]", "", "", ""},
	{"typed literal", "SELECT ", "(int '1'+", "1", ")", ""},
	{"collate", "SELECT a", ` COLLATE "C"`, "", "", ""},
	{"at time zone", "SELECT a", " AT TIME ZONE 'UTC'", "", "", ""},
	{"at time zone, right", "SELECT ", "a AT TIME ZONE (", "a", ")", ""},
	{"is null", "SELECT a", " IS NULL", "", "", ""},
	{"isnull", "SELECT a", " ISNULL", "", "", ""},
	{"is true", "SELECT a", " IS TRUE", "", "", ""},
	{"is distinct from", "SELECT ", "a IS DISTINCT FROM (", "a", ")", ""},
	{"in", "SELECT ", "a IN (", "1", ")", ""},
	{"in select", "SELECT ", "a IN (SELECT ", "1", ")", ""},
	{"in, left", "SELECT a", " IN (1)", "", "", ""},
	{"like", "SELECT ", "a LIKE (", "a", ")", ""},
	{"like any", "SELECT ", "a LIKE ANY (", "a", ")", ""},
	{"between", "SELECT ", "a BETWEEN 1 AND (", "a", ")", ""},
	{"between, left", "SELECT ", "(", "a", " BETWEEN 1 AND 2)", ""},
	{"case", "SELECT ", "CASE WHEN ", "a", " THEN 1 END", ""},
	{"case else", "SELECT ", "CASE WHEN a THEN 1 ELSE ", "1", " END", ""},
	{"case argument", "SELECT ", "CASE ", "a", " WHEN 1 THEN 1 END", ""},
	{"coalesce", "SELECT ", "COALESCE(1,", "1", ")", ""},
	{"greatest", "SELECT ", "GREATEST(1,", "1", ")", ""},
	{"nullif", "SELECT ", "NULLIF(1,", "1", ")", ""},
	{"exists", "SELECT ", "EXISTS(SELECT ", "1", ")", ""},
	{"sublink", "SELECT ", "(SELECT ", "1", ")", ""},
	{"any", "SELECT ", "a=ANY(", "a", ")", ""},
	{"extract", "SELECT ", "EXTRACT(year FROM ", "a", ")", ""},
	{"overlay", "SELECT ", "OVERLAY(a PLACING ", "a", " FROM 1)", ""},
	{"position", "SELECT ", "POSITION('a' IN ", "a", ")", ""},
	{"trim", "SELECT ", "TRIM(", "a", ")", ""},
	{"xmlelement", "SELECT ", "xmlelement(name a,", "a", ")", ""},
	{"xmlconcat", "SELECT ", "xmlconcat(a,", "a", ")", ""},
	{"xmlforest", "SELECT ", "xmlforest(", "a", " AS b)", ""},
	{"xmlparse", "SELECT ", "xmlparse(document ", "a", ")", ""},
	{"is document", "SELECT a", " IS DOCUMENT", "", "", ""},
	{"json_object", "SELECT ", "JSON_OBJECT('a':", "1", ")", ""},
	{"json_array", "SELECT ", "JSON_ARRAY(", "1", ")", ""},
	{"json_value", "SELECT ", "JSON_VALUE(", "a", ",'$')", ""},
	{"is json", "SELECT a", " IS JSON", "", "", ""},
	{"json_table columns", "SELECT * FROM JSON_TABLE(a,'$' COLUMNS (", "NESTED '$' COLUMNS (", "b int", ")", "))"},
	{"union", "SELECT 1", " UNION SELECT 1", "", "", ""},
	{"union, right", "SELECT 1", " UNION (SELECT 1", "", ")", ""},
	{"except", "SELECT 1", " EXCEPT ALL SELECT 1", "", "", ""},
	{"intersect", "TABLE a", " INTERSECT TABLE a", "", "", ""},
	{"with", "", "WITH a AS (", "SELECT 1", ") SELECT 1", ""},
	{"from subselect", "SELECT * FROM ", "(SELECT * FROM ", "a", ") b", ""},
	{"lateral", "SELECT * FROM ", "LATERAL (SELECT * FROM ", "a", ") b", ""},
	{"cross join", "SELECT * FROM a", " CROSS JOIN a", "", "", ""},
	{"join on", "SELECT * FROM a", " JOIN a ON true", "", "", ""},
	{"join, right", "SELECT * FROM ", "(a CROSS JOIN ", "a", ")", ""},
	{"join stack", "SELECT * FROM a", " JOIN a", "", " ON true", ""},
	{"natural join", "SELECT * FROM a", " NATURAL JOIN a", "", "", ""},
	{"values", "", "VALUES ((", "VALUES (1)", "))", ""},
	{"select brackets", "", "(", "SELECT 1", ")", ""},
	{"table function", "SELECT * FROM ", "f((SELECT a FROM ", "f()", "))", ""},
	{"grouping sets", "SELECT 1 GROUP BY ", "GROUPING SETS (", "a", ")", ""},
	{"rollup", "SELECT 1 GROUP BY ", "GROUPING SETS (ROLLUP (a),", "a", ")", ""},
	{"order by", "SELECT 1 ORDER BY ", "(SELECT 1 ORDER BY ", "1", ")", ""},
	{"limit", "SELECT 1 LIMIT ", "(SELECT 1 LIMIT ", "1", ")", ""},
	{"operator word", "SELECT 1", " OPERATOR(pg_catalog.+) 1", "", "", ""},
	{"explain", "EXPLAIN ", "(", "SELECT 1", ")", ""},
	{"comments", "SELECT 1 ", "/*", "", "*/", ""},
	{"list", "SELECT a IN (1", ",1", "", "", ")"},
	{"targets", "SELECT 1", ",1", "", "", ""},
	{"statements", "SELECT 1", ";SELECT 1", "", "", ""},
	{"literal", "SELECT '", "x", "", "", "'"},
	{"name of one letter", "SELECT a", "a", "", "", ""},
}

// shapeText repeats a shape up to MaxChars characters.
func shapeText(before, open, middle, shut, after string) string {
	n := (MaxChars - len(before) - len(middle) - len(after)) / (len(open) + len(shut))
	return before + strings.Repeat(open, n) + middle + strings.Repeat(shut, n) + after
}

// parseShapes is the subprocess: every shape goes through the whole policy, and, as if the look in Go were not there,
// through the C code. The exit code is 0 if the process lives and each ends in a verdict.
func parseShapes(only string) int {
	r, err := Settings{}.rules()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	p := &Policy{rules: r, slots: make(chan struct{}, maxParses)}
	for _, c := range crashShapes {
		if only != "all" && only != c.name {
			continue
		}
		text := shapeText(c.before, c.open, c.middle, c.shut, c.after)
		_, err := p.Approve(context.Background(), text, 50)
		var refusal *problem.Problem
		if err != nil && !errors.As(err, &refusal) {
			fmt.Printf("%s: %v\n", c.name, err)
			return 1
		}
		fmt.Printf("%s: %v\n", c.name, err)
		if err := onBigStack(func() error {
			tree, err := pg.Parse(text)
			if err != nil {
				return nil //nolint:nilerr // any end but a crash is fine
			}
			_, _ = pg.Deparse(tree) // as above
			return nil
		}); err != nil {
			fmt.Printf("%s: %v\n", c.name, err)
			return 1
		}
	}
	return 0
}

func TestNoShapeOfTenThousandCharactersEndsTheProcess(t *testing.T) {
	if len(crashShapes) < 67 {
		t.Errorf("%d shapes; the finding had 67", len(crashShapes))
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), shapeVariable+"=all")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := strings.Count(string(out), "\n"); got < len(crashShapes) {
		t.Errorf("%d lines for %d shapes", got, len(crashShapes))
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Fatal("no resource usage")
	}
	t.Logf("%d shapes, %v of processor time, at most %d MiB",
		len(crashShapes), cmd.ProcessState.UserTime(), usage.Maxrss>>10)
}

// notFirst is the exit code of a child that does not run on its first thread, and is to be started again.
const notFirst = 99

// onTheFirstThread is a subprocess: what it gives to onBigStack must run on another thread than the one that it has.
func onTheFirstThread() int {
	runtime.LockOSThread()
	if syscall.Gettid() != os.Getpid() {
		return notFirst
	}
	err := onBigStack(func() error {
		if syscall.Gettid() == os.Getpid() {
			return errors.New("on the first thread")
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// onASmallStack is a subprocess, the control: the same C code without our stack. It is meant to die.
func onASmallStack(text string) int {
	runtime.LockOSThread()
	if syscall.Gettid() != os.Getpid() {
		return notFirst
	}
	// Of the first thread, the kernel asks at each growth how far it may go.
	if err := syscall.Setrlimit(syscall.RLIMIT_STACK, &syscall.Rlimit{Cur: 8 << 20, Max: 8 << 20}); err != nil {
		fmt.Println(err)
		return 1
	}
	tree, err := pg.Parse(text)
	if err == nil {
		_, err = pg.Deparse(tree)
	}
	fmt.Println("lived:", err)
	return 0
}

// child runs a subprocess of that name, if need be a few times, until it has its first thread.
func child(t *testing.T, name string) (state *os.ProcessState, out string) {
	t.Helper()
	for range 20 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), shapeVariable+"="+name)
		text, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if cmd.ProcessState.ExitCode() != notFirst {
			return cmd.ProcessState, string(text)
		}
	}
	t.Fatal("no child ran on its first thread")
	return nil, ""
}

func TestNothingIsParsedOnTheFirstThread(t *testing.T) {
	if state, out := child(t, "first thread"); state.ExitCode() != 0 {
		t.Errorf("%v: %s", state, out)
	}
}

func TestASmallStackEndsTheProcess(t *testing.T) {
	// Why all this is there. Should a version of the parser survive this, the guard may go.
	for i := range worstShapes() {
		state, out := child(t, smallStack+strconv.Itoa(i))
		if state.ExitCode() == 0 || !strings.Contains(out, "SIGSEGV") {
			t.Errorf("shape %d: %v: %.300s", i, state, out)
		}
		if at := strings.Index(out, "parser._Cfunc_"); at >= 0 {
			t.Logf("shape %d: %v in %.50s", i, state, out[at:])
		}
	}
}

func TestAPanicOfTheParserReachesItsCaller(t *testing.T) {
	for _, where := range []string{"here", "elsewhere"} {
		func() {
			defer func() {
				if recover() != "bug" {
					t.Errorf("%s: no panic", where)
				}
			}()
			f := func() error { panic("bug") }
			if where == "here" {
				_ = onBigStack(f) // it panics
				return
			}
			_ = elsewhere(f) // it panics
		}()
	}
}

func TestTheStackIsMeasured(t *testing.T) {
	size, err := measureStack()
	if err != nil || size < 64<<20 {
		t.Errorf("%d bytes, %v", size, err)
	}
	if err := SelfTest(); err != nil {
		t.Error(err)
	}
}

func BenchmarkSelfTest(b *testing.B) {
	for b.Loop() {
		for _, text := range worstShapes() {
			_ = onBigStack(func() error {
				if tree, err := pg.Parse(text); err == nil {
					_, _ = pg.Deparse(tree) // its verdict is not the question
				}
				return nil
			})
		}
	}
}
