package pgpolicy

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// builtinTypes are the types of chapter 8 of the documentation by the names that the grammar gives them (boolean is
// bool, character is bpchar), with the anonymous row type and system types that hold numbers only. Left out: reg* (they
// look names up in the catalogs), xml (see functions.txt), pseudo-types, aclitem, pg_snapshot and other types of the system's own tables.
const builtinTypes = `
bool int2 int4 int8 float4 float8 numeric money
text varchar bpchar char name bytea bit varbit
date time timetz timestamp timestamptz interval
point line lseg box path polygon circle
inet cidr macaddr macaddr8
tsvector tsquery uuid json jsonb jsonpath
int4range int8range numrange tsrange tstzrange daterange
int4multirange int8multirange nummultirange tsmultirange tstzmultirange datemultirange
record oid tid xid xid8 pg_lsn
`

// typeName allows built-in types and the operator's. A type of somebody else brings its own input function and casts.
// An unqualified built-in name means pg_catalog's: that schema is searched first unless the path says otherwise, which
// ours does not. "_int4" is how the server itself names int4[].
func (w *walker) typeName(t *pg.TypeName) error {
	if t.Setof || t.PctType || t.TypeOid != 0 {
		return refuse("SETOF and %TYPE are not allowed")
	}
	name, ok := nameOf(t.Names)
	if !ok || len(name) > 2 {
		return refuse("a type is named by at most a schema and a name")
	}
	last := name[len(name)-1]
	switch {
	case w.ownTypes[strings.Join(name, ".")]:
		return nil
	case len(name) == 1 || name[0] == catalog:
		if w.types[strings.TrimPrefix(last, "_")] {
			return nil
		}
	}
	return refuse("types are refused unless built in or listed, and the one"+w.at(t.Location)+" is neither").
		About(strings.Join(name, "."), "type %s is not allowed")
}
