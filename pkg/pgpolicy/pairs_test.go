package pgpolicy

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mcp-server-suite/pkg/problem"
)

// forms are expressions with up to three operands. They are put into each other in every place, with brackets and
// without: that is where the C writer loses some.
var forms = strings.Split(strings.TrimSpace(`
{0} + {1}
{0} - {1}
{0} * {1}
{0} / {1}
{0} ^ {1}
- {0}
+ {0}
@ {0}
~ {0}
{0} || {1}
{0} OPERATOR(pg_catalog.+) {1}
OPERATOR(pg_catalog.-) {0}
{0} = {1}
{0} < {1}
{0} <> {1}
{0} >= {1}
{0} AND {1}
{0} OR {1}
NOT {0}
{0} IS NULL
{0} IS NOT NULL
{0} IS TRUE
{0} IS NOT FALSE
{0} IS UNKNOWN
{0} IS DISTINCT FROM {1}
{0} IS NOT DISTINCT FROM {1}
{0} LIKE {1}
{0} NOT ILIKE {1} ESCAPE {2}
{0} SIMILAR TO {1}
{0} NOT SIMILAR TO {1} ESCAPE {2}
{0} BETWEEN {1} AND {2}
{0} NOT BETWEEN SYMMETRIC {1} AND {2}
{0} IN ({1}, {2})
{0} NOT IN ({1})
{0} IN (SELECT {1})
{0} = ANY ({1})
{0} <> ALL ({1})
{0} LIKE ANY ({1})
{0} = ANY (SELECT {1})
{0} AT TIME ZONE {1}
{0} AT LOCAL
{0} COLLATE "C"
{0}::text
{0}::numeric(10,2)[]
CAST({0} AS int)
{0}::int::text
CASE WHEN {0} THEN {1} ELSE {2} END
CASE {0} WHEN {1} THEN {2} END
ARRAY[{0}, {1}]
ARRAY(SELECT {0})
ROW({0}, {1})
({0}, {1})
ROW({0})
ROW()
{0}[1]
{0}[1:{1}]
{0}[:]
({0}).f
({0}).*
lower({0})
concat(VARIADIC {0})
make_interval(days => {0})
count(DISTINCT {0} ORDER BY {1})
sum({0}) FILTER (WHERE {1})
sum({0}) OVER (PARTITION BY {1} ORDER BY {2})
mode() WITHIN GROUP (ORDER BY {0})
sum({0}) OVER w
sum({0}) OVER (ROWS BETWEEN {1} PRECEDING AND {2} FOLLOWING)
COALESCE({0}, {1})
GREATEST({0}, {1})
NULLIF({0}, {1})
EXISTS (SELECT {0})
(SELECT {0})
EXTRACT(year FROM {0})
OVERLAY({0} PLACING {1} FROM {2})
POSITION({0} IN {1})
SUBSTRING({0} FROM {1} FOR {2})
SUBSTRING({0} SIMILAR {1} ESCAPE {2})
SUBSTRING({0} FOR {1})
TRIM(BOTH {0} FROM {1})
TRIM({0})
TREAT({0} AS text)
NORMALIZE({0}, NFC)
{0} IS NORMALIZED
{0} IS NOT NFKC NORMALIZED
COLLATION FOR ({0})
xmlelement(name a, xmlattributes({0} AS b), {1})
xmlconcat({0}, {1})
xmlforest({0} AS x)
xmlparse(document {0})
xmlpi(name php, {0})
xmlroot({0}, version {1}, standalone yes)
xmlserialize(content {0} AS text)
{0} IS DOCUMENT
xmlexists({0} PASSING {1})
({0}, {1}) OVERLAPS ({2}, {0})
({0}, {1}) = ({2}, {0})
({0}, {1}) IN (SELECT {2}, 1)
({0},{1}) IS NULL
interval '1' day
interval(3) '1 day'
date '2020-01-01'
{0} -> {1}
{0} ->> {1}
{0} @> {1}
{0} ? {1}
{0} !~~ {1}
{0} <-> {1}
x'1F'
b'101'
'it''s'
E'a\nb\\'
U&'\0041'
$$a'b$$
1.5e10
-1
- 1.5
-9223372036854775808
9999999999999999999
a.b.c
"A b"."C""d"
a.*
NULL
TRUE
current_date
current_timestamp(3)
localtime
current_user
current_catalog
GROUPING({0})
json_object('a': {0})
json_array({0}, {1})
{0} IS JSON
{0} IS JSON OBJECT WITH UNIQUE KEYS
json_arrayagg({0} ORDER BY {1})
json_objectagg('k': {0})
JSON_VALUE({0}, '$' RETURNING int DEFAULT {1} ON EMPTY)
JSON_QUERY({0}, '$.a' WITH WRAPPER)
count(*)
`), "\n")

// places are where an expression stands in a statement.
var places = strings.Split(strings.TrimSpace(`
SELECT {e}
SELECT 1 FROM t WHERE {e}
SELECT {e} AS x FROM t GROUP BY {e} HAVING {e}
SELECT 1 ORDER BY {e} DESC NULLS LAST
SELECT 1 LIMIT {e}
SELECT 1 OFFSET {e} ROWS
SELECT 1 ORDER BY 1 FETCH FIRST ({e}) ROWS WITH TIES
SELECT 1 FROM a JOIN b ON {e}
VALUES ({e})
SELECT * FROM lower({e}) WITH ORDINALITY AS t(a, b)
SELECT DISTINCT ON ({e}) 1
SELECT 1 WINDOW w AS (PARTITION BY {e} ORDER BY {e})
SELECT * FROM t TABLESAMPLE bernoulli ({e}) REPEATABLE ({e})
SELECT 1 GROUP BY ROLLUP ({e}), CUBE (a, {e}), GROUPING SETS (({e}), ())
SELECT 1 UNION ALL SELECT {e} ORDER BY 1
SELECT 1 ORDER BY {e} USING <
SELECT (SELECT {e} LIMIT 3)
SELECT * FROM ROWS FROM (lower({e}), upper({e}) AS (x int)) AS q
EXPLAIN SELECT {e}
`), "\n")

func fill(form string, operands [3]string) string {
	return strings.NewReplacer("{0}", operands[0], "{1}", operands[1], "{2}", operands[2]).Replace(form)
}

// TestWhatIsAcceptedMeansWhatItsCallerWrote puts every form into every place of every other, and some thousand deeper ones.
func TestWhatIsAcceptedMeansWhatItsCallerWrote(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	p := newPolicy(t, Settings{})
	leaves := [3]string{"a", "1", "'s'"}
	verdicts := map[problem.Reason]int{}
	try := func(sql string) {
		a, err := p.Approve(context.Background(), sql, 50)
		var refusal *problem.Problem
		switch {
		case err == nil:
			verdicts["accepted"]++
			mustMeanTheSame(t, sql, a)
		case errors.As(err, &refusal):
			verdicts[refusal.Reason]++
		default:
			t.Fatalf("%s\n%v", sql, err)
		}
	}
	for _, form := range forms {
		for _, place := range places {
			try(strings.ReplaceAll(place, "{e}", fill(form, leaves)))
		}
	}
	for _, outer := range forms {
		for i, operand := range []string{"{0}", "{1}", "{2}"} {
			if !strings.Contains(outer, operand) {
				continue
			}
			for _, inner := range forms {
				operands := leaves
				operands[i] = fill(inner, leaves)
				try("SELECT " + fill(outer, operands))
				operands[i] = "(" + operands[i] + ")"
				try("SELECT " + fill(outer, operands))
			}
		}
	}
	random := rand.New(rand.NewPCG(7, 7)) // the same ones each time
	pick := func(list []string) string { return list[random.IntN(len(list))] }
	for range 3_000 {
		e := pick(leaves[:])
		for range 3 + random.IntN(3) {
			var operands [3]string
			for i := range operands {
				operands[i] = pick(leaves[:])
				if random.IntN(2) == 0 {
					operands[i] = "(" + fill(pick(forms), leaves) + ")"
				}
			}
			operands[random.IntN(3)] = "(" + e + ")"
			e = fill(pick(forms), operands)
		}
		try(strings.ReplaceAll(pick(places), "{e}", e))
	}
	heads := []string{
		"SELECT 1", "TABLE t", "VALUES (1), (2)", "SELECT a FROM t ORDER BY a", "SELECT a FROM t LIMIT 3", "SELECT a FROM t OFFSET 2",
		"SELECT a FROM t ORDER BY a FETCH FIRST 3 ROWS WITH TIES", "WITH c AS (SELECT 1) SELECT * FROM c", "SELECT",
		"WITH RECURSIVE r AS (SELECT 1 UNION SELECT 1 FROM r) SEARCH DEPTH FIRST BY a SET o CYCLE a SET c USING p SELECT * FROM r",
	}
	operators := []string{"UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL", "INTERSECT ALL"}
	for _, shape := range []string{
		"({0}) {1} ({2})", "{0} {1} {2}", "({0}) {1} (({2}) {3} ({4}))", "(({0}) {1} ({2})) {3} ({4})",
		"({0}) {1} ({2}) ORDER BY 1 LIMIT 2", "(({0}) {1} ({2}) LIMIT 5) OFFSET 7", "WITH z AS ({0}) ({2}) {1} ({4})",
		"SELECT * FROM ({0}) q", "SELECT * FROM ({0}) AS q(a, b) JOIN LATERAL ({2}) r ON true", "SELECT ({0}), ARRAY({2}), 1 IN ({4})",
		"({0})", "(({0})) LIMIT 3",
	} {
		for range 60 {
			try(strings.NewReplacer("{0}", pick(heads), "{1}", pick(operators), "{2}", pick(heads), "{3}", pick(operators),
				"{4}", pick(heads)).Replace(shape))
		}
	}
	items := []string{
		"a", "a AS x", "ONLY a", "a AS x(p, q)", "(a JOIN b ON true)", "(a JOIN b USING (i) AS u)", "(a JOIN b USING (i)) AS j",
		"LATERAL generate_series(1, 2) AS l", "(SELECT 1) s", "(VALUES (1)) v", "a CROSS JOIN b", "a NATURAL LEFT JOIN b",
		"a FULL JOIN b ON a.i = b.i", "json_to_record('{}') AS (p int, q text)", "jsonb_to_record('{}') AS r(p int)",
		"ROWS FROM (generate_series(1, 2), unnest(ARRAY[1])) WITH ORDINALITY", "a TABLESAMPLE system (10)", `"Sch"."Tab le"`,
		"xmltable('/r' PASSING d COLUMNS a int PATH 'a' DEFAULT 1 NOT NULL, n FOR ORDINALITY)",
		"JSON_TABLE(j, '$[*]' COLUMNS (a int PATH '$.a', NESTED '$.b[*]' COLUMNS (c text PATH '$'))) jt",
	}
	for _, x := range items {
		for _, y := range items {
			for _, join := range []string{
				"{0}, {1}", "{0} JOIN {1} ON (1 = 1)", "{0} LEFT JOIN {1} USING (i)", "({0} CROSS JOIN {1}) RIGHT JOIN c ON true",
				"{0} JOIN ({1} JOIN c ON true) ON false",
			} {
				try("SELECT * FROM " + fill(join, [3]string{x, y}))
			}
		}
	}
	for _, reason := range slices.Sorted(mapKeys(verdicts)) {
		t.Logf("%6d %s", verdicts[reason], reason)
	}
	if len(forms) < 130 || verdicts["accepted"] < 20_000 || verdicts[problem.NotRegenerable] == 0 {
		t.Errorf("%d forms, %v", len(forms), verdicts)
	}
	if share := float64(verdicts[problem.NotRegenerable]) / float64(verdicts["accepted"]); share > 0.1 {
		t.Errorf("%.1f%% are not regenerated", 100*share)
	}
}

func mapKeys(m map[problem.Reason]int) func(func(problem.Reason) bool) {
	return func(yield func(problem.Reason) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
