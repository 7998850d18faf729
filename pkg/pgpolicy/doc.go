// Package pgpolicy turns the text of one SQL query into an [Approved] statement: one plain read, written anew from its
// checked syntax tree, or a refusal that says which rule it broke. It is the only package that parses SQL.
//
// The order, and why each step is there:
//
//  1. Characters: [MinChars] to [MaxChars] code points of valid UTF-8 without NUL (the parser is C and would read
//     "SELECT 1\0; DROP TABLE t" as SELECT 1), and not blank.
//  2. A linear look at the text in Go (prescan.go) that refuses what nests thousands of levels, before C sees it.
//  3. PostgreSQL's own grammar (pg_query_go, version 17), on a thread whose stack has 64 MiB (stack.go). The grammar
//     and the tree's writers recurse without a limit of their own: on 8 MiB, "SELECT 1+1+1..." ends the process.
//  4. A walk over every populated field of the tree, by an allowlist: of node kinds (kinds.go), of functions
//     (functions.txt), of types (types.go), of relations (relations.go). What nobody has decided on is refused.
//     Names of allowed functions are written as pg_catalog.f, so that a function of the same name in another schema
//     is not taken instead.
//  5. The limit of the outermost SELECT (limit.go).
//  6. The tree is written as text, the text parsed again, and the two trees compared. The C writer loses brackets here
//     and there ("(NOT a) IS NULL" becomes "NOT a IS NULL"), so a text whose tree differs is refused: it is neither run
//     altered nor is the caller's own text run instead. Then the second tree is walked, too.
//
// What it does not do: it knows no database. Whether a table exists and whether the role may read it, only the server
// says. What a syntax tree does not show is the duty of the role that the query runs as: x.f and (x).f call a function
// f of one argument where x has no column f (PostgreSQL's own that do more than compute are refused there by name, see
// functions.go; those of users and extensions are not known here), an operator or an implicit cast may be somebody's
// function, a view may call anything. REVOKE EXECUTE, and no schema on the search path in which others may CREATE, are
// the remedy; a READ ONLY transaction that is rolled back
// bounds the rest. How long a query runs and how much memory it takes at the server, statement_timeout bounds; only
// the crudest constant expressions are refused beforehand (expansion.go).
//
// Needs: glibc (stack.go), no file, no descriptor, no system call that Go's threads do not make anyway.
// An attacker controls the text and, within bounds, the number of rows.
package pgpolicy
