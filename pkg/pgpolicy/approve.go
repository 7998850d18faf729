package pgpolicy

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"mcp-server-suite/pkg/problem"

	pg "github.com/pganalyze/pg_query_go/v6"
	"github.com/pganalyze/pg_query_go/v6/parser"
)

// Bounds of a text, in code points (seed 000).
const (
	MinChars = 6
	MaxChars = 10_000
)

// param is the name of the parameter that refusals point to.
const param = "query"

// maxParses bounds how many texts are looked at at the same time. The longest takes some tenths of a second of one
// processor, which cannot be interrupted.
const maxParses = 2

// maxTextBytes bounds the regenerated text. Qualified names make it longer than what the caller sent: 10,000 characters
// of UTF-8 are 40,000 bytes, and "a()" becomes "pg_catalog.a()".
const maxTextBytes = 1 << 20

// Approved is a statement that may be run. Only [Policy.Approve] makes one; the zero value is not usable.
type Approved struct {
	text    string
	maxRows int
	probe   bool
	explain bool
	ties    bool
	server  int
}

// Text is the regenerated statement, the only text that is ever sent to a server. It holds one statement, no bind
// parameter and no comment.
func (a Approved) Text() string { return a.text }

// MaxRows is how many rows to hand out at most.
func (a Approved) MaxRows() int { return a.maxRows }

// Probe reports whether the text asks for MaxRows()+1 rows, the last of which only tells that there are more.
func (a Approved) Probe() bool { return a.probe }

// Explain reports whether the rows are a plan. The text then holds no bound for them: whoever reads them counts.
func (a Approved) Explain() bool { return a.explain }

// DropsTies reports whether the outermost SELECT had a WITH TIES that is gone (see capRows).
func (a Approved) DropsTies() bool { return a.ties }

// Server is the oldest major version of PostgreSQL that reads the text as it is meant, 0 for any. On an older one it must
// not be run.
func (a Approved) Server() int { return a.server }

// Policy holds the rules. It is safe for concurrent use.
type Policy struct {
	rules *rules
	slots chan struct{}
	cache cache
}

// New makes a policy. The error names every setting that is wrong, or says that [SelfTest] failed.
func New(s Settings) (*Policy, error) {
	r, err := s.rules()
	if err != nil {
		return nil, err
	}
	if err := SelfTest(); err != nil {
		return nil, err
	}
	return &Policy{rules: r, slots: make(chan struct{}, maxParses), cache: cache{bound: s.CacheBytes}}, nil
}

// Approve gives the statement that may be run in place of sql, with at most maxRows rows (1 to 1,000,000). The error is
// a *problem.Problem (BadSQL: no SQL, or too deep; UnsafeQuery: a rule of the policy; NotRegenerable), the context's if
// it ends while others are being looked at, or a fault of ours.
func (p *Policy) Approve(ctx context.Context, sql string, maxRows int) (Approved, error) {
	if err := ctx.Err(); err != nil {
		return Approved{}, err
	}
	if maxRows < 1 || maxRows > 1_000_000 {
		return Approved{}, fmt.Errorf("approve query: %d rows are out of bounds", maxRows)
	}
	key := cacheKey{sql, maxRows}
	if a, ok := p.cache.get(key); ok {
		return a, nil
	}
	if err := checkText(sql); err != nil {
		return Approved{}, err
	}
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return Approved{}, ctx.Err()
	}
	defer func() { <-p.slots }()
	a := Approved{maxRows: maxRows}
	err := onBigStack(func() error { return p.rules.regenerate(sql, &a) })
	if err != nil {
		return Approved{}, err
	}
	p.cache.put(key, a)
	return a, nil
}

func checkText(sql string) error {
	if !utf8.ValidString(sql) {
		return badSQL("the text is not valid UTF-8")
	}
	if n := utf8.RuneCountInString(sql); n < MinChars || n > MaxChars {
		return badSQL("the text has " + strconv.Itoa(n) + " characters; 6 to 10000 are allowed")
	}
	if strings.IndexByte(sql, 0) >= 0 {
		return badSQL("the text holds a NUL character")
	}
	if strings.TrimSpace(sql) == "" {
		return badSQL("the text is blank")
	}
	if !prescan(sql) {
		return badSQL("the query is nested too deeply")
	}
	return nil
}

// regenerate does steps 3 to 6 of the package's list. It runs on a big stack.
func (r *rules) regenerate(sql string, a *Approved) error {
	tree, err := parse(sql)
	if err != nil {
		return err
	}
	query, explain, err := statement(tree)
	if err != nil {
		return err
	}
	// Before the limit is replaced: what is thrown away is judged as well.
	first := walker{rules: r, text: sql, rewrite: true}
	if err := first.walk(reflect.ValueOf(query), 0, nil); err != nil {
		return err
	}
	if query.GetSelectStmt() == nil {
		return notAllowed(internalKind)
	}
	if err := r.checkExpansion(query.GetSelectStmt(), explain); err != nil {
		return err
	}
	if a.explain = explain; !explain {
		a.ties = query.GetSelectStmt().LimitOption == pg.LimitOption_LIMIT_OPTION_WITH_TIES
		a.probe = capRows(query.GetSelectStmt(), a.maxRows)
	}
	for _, stmt := range tree.Stmts {
		stmt.StmtLocation, stmt.StmtLen = 0, 0
	}
	text, err := pg.Deparse(tree)
	if err != nil {
		return notRegenerable()
	}
	if len(text) > maxTextBytes || strings.IndexByte(text, 0) >= 0 {
		return notRegenerable()
	}
	again, err := pg.Parse(text)
	if err != nil || !r.shapes.equal(reflect.ValueOf(tree), reflect.ValueOf(again)) {
		return notRegenerable()
	}
	if query, _, err = statement(again); err != nil {
		return err
	}
	second := walker{rules: r}
	if err := second.walk(reflect.ValueOf(query), 0, nil); err != nil {
		return fmt.Errorf("walk regenerated tree: %w", errors.New(err.Error())) // no refusal: the first walk let it pass
	}
	a.text, a.server = text, second.server
	return nil
}

func notRegenerable() *problem.Problem {
	return problem.New(problem.NotRegenerable,
		"the query cannot be written anew without a change of meaning; simplify the brackets", param)
}

// parse gives the tree of a text.
func parse(sql string) (*pg.ParseResult, error) {
	tree, err := pg.Parse(sql)
	if err == nil {
		return tree, nil
	}
	var syntax *parser.Error
	if !errors.As(err, &syntax) {
		return nil, badSQL("the query is nested too deeply") // protobuf's own bound, 10,000 levels
	}
	at := ""
	if syntax.Cursorpos > 0 {
		at = " at character " + strconv.Itoa(syntax.Cursorpos)
	}
	return nil, badSQL("PostgreSQL's grammar does not accept the text"+at).
		About(syntax.Message, "PostgreSQL's grammar does not accept the text"+at+": %s")
}

// statement gives the one SELECT of a tree, and whether it is only to be explained.
func statement(tree *pg.ParseResult) (query *pg.Node, explain bool, err error) {
	switch len(tree.Stmts) {
	case 1:
	case 0:
		return nil, false, badSQL("the text holds no statement")
	default:
		return nil, false, refuse("exactly one statement is allowed")
	}
	raw := tree.Stmts[0]
	if hasUnknown(reflect.ValueOf(tree)) || hasUnknown(reflect.ValueOf(raw)) {
		return nil, false, notAllowed("something that this server does not know")
	}
	if e := raw.GetStmt().GetExplainStmt(); e != nil {
		query, err = explained(e)
		return query, true, err
	}
	return raw.Stmt, false, nil
}
