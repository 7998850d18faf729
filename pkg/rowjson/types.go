package rowjson

// rule is how a value of a type is written.
type rule uint8

// The rules. asText is also what every other rule falls back to.
const (
	asText rule = iota
	asBool
	asInteger
	asFloat
	asJSON
	asTimestamp
	asTimestampTZ
)

// kind is how the values of a column are written: rule is that of the elements if they are arrays.
type kind struct {
	rule      rule
	array     bool
	delimiter byte
}

// builtin is a row of pg_type: oid, typname and typarray (zero: there are no arrays of it).
type builtin struct {
	oid   uint32
	name  string
	array uint32
	rule  rule
}

// oidBox is the one built-in type whose arrays are not separated by commas (typdelim), because its own text has some.
const oidBox = 603

// builtins lists what a column of a result can be and what every server has under the same oid: the base types,
// ranges and multiranges of pg_type with an oid below 10000 in PostgreSQL 15.18, and five pseudo-types. Older servers
// lack some, younger ones may have more, which are text here. The test compares this with a server.
var builtins = [...]builtin{
	{16, "bool", 1000, asBool},
	{17, "bytea", 1001, asText},
	{18, "char", 1002, asText},
	{19, "name", 1003, asText},
	{20, "int8", 1016, asInteger},
	{21, "int2", 1005, asInteger},
	{22, "int2vector", 1006, asText},
	{23, "int4", 1007, asInteger},
	{24, "regproc", 1008, asText},
	{25, "text", 1009, asText},
	{26, "oid", 1028, asInteger},
	{27, "tid", 1010, asText},
	{28, "xid", 1011, asText},
	{29, "cid", 1012, asText},
	{30, "oidvector", 1013, asText},
	{114, "json", 199, asJSON},
	{142, "xml", 143, asText},
	{194, "pg_node_tree", 0, asText},
	{600, "point", 1017, asText},
	{601, "lseg", 1018, asText},
	{602, "path", 1019, asText},
	{603, "box", 1020, asText},
	{604, "polygon", 1027, asText},
	{628, "line", 629, asText},
	{650, "cidr", 651, asText},
	{700, "float4", 1021, asFloat},
	{701, "float8", 1022, asFloat},
	{705, "unknown", 0, asText},
	{718, "circle", 719, asText},
	{774, "macaddr8", 775, asText},
	{790, "money", 791, asText},
	{829, "macaddr", 1040, asText},
	{869, "inet", 1041, asText},
	{1033, "aclitem", 1034, asText},
	{1042, "bpchar", 1014, asText},
	{1043, "varchar", 1015, asText},
	{1082, "date", 1182, asText},
	{1083, "time", 1183, asText},
	{1114, "timestamp", 1115, asTimestamp},
	{1184, "timestamptz", 1185, asTimestampTZ},
	{1186, "interval", 1187, asText},
	{1266, "timetz", 1270, asText},
	{1560, "bit", 1561, asText},
	{1562, "varbit", 1563, asText},
	{1700, "numeric", 1231, asText},
	{1790, "refcursor", 2201, asText},
	{2202, "regprocedure", 2207, asText},
	{2203, "regoper", 2208, asText},
	{2204, "regoperator", 2209, asText},
	{2205, "regclass", 2210, asText},
	{2206, "regtype", 2211, asText},
	{2249, "record", 2287, asText},
	{2275, "cstring", 1263, asText},
	{2277, "anyarray", 0, asText},
	{2278, "void", 0, asText},
	{2950, "uuid", 2951, asText},
	{2970, "txid_snapshot", 2949, asText},
	{3220, "pg_lsn", 3221, asText},
	{3361, "pg_ndistinct", 0, asText},
	{3402, "pg_dependencies", 0, asText},
	{3614, "tsvector", 3643, asText},
	{3615, "tsquery", 3645, asText},
	{3642, "gtsvector", 3644, asText},
	{3734, "regconfig", 3735, asText},
	{3769, "regdictionary", 3770, asText},
	{3802, "jsonb", 3807, asJSON},
	{3904, "int4range", 3905, asText},
	{3906, "numrange", 3907, asText},
	{3908, "tsrange", 3909, asText},
	{3910, "tstzrange", 3911, asText},
	{3912, "daterange", 3913, asText},
	{3926, "int8range", 3927, asText},
	{4072, "jsonpath", 4073, asText},
	{4089, "regnamespace", 4090, asText},
	{4096, "regrole", 4097, asText},
	{4191, "regcollation", 4192, asText},
	{4451, "int4multirange", 6150, asText},
	{4532, "nummultirange", 6151, asText},
	{4533, "tsmultirange", 6152, asText},
	{4534, "tstzmultirange", 6153, asText},
	{4535, "datemultirange", 6155, asText},
	{4536, "int8multirange", 6157, asText},
	{4600, "pg_brin_bloom_summary", 0, asText},
	{4601, "pg_brin_minmax_multi_summary", 0, asText},
	{5017, "pg_mcv_list", 0, asText},
	{5038, "pg_snapshot", 5039, asText},
	{5069, "xid8", 271, asText},
}

// TypeName returns the name of a built-in type as pg_type has it, "int8" or "varchar", with "[]" behind it for an
// array type, and "" for any other oid.
func TypeName(oid uint32) string {
	b, array := find(oid)
	if array {
		return b.name + "[]"
	}
	return b.name
}

func kindOf(oid uint32) kind {
	b, array := find(oid)
	k := kind{rule: b.rule, array: array, delimiter: ','}
	if b.oid == oidBox {
		k.delimiter = ';'
	}
	return k
}

// find returns the type with this oid or whose array type has it, and which of the two; a zero builtin if there is
// none. It runs once for each column.
func find(oid uint32) (b builtin, array bool) {
	if oid == 0 {
		return builtin{}, false
	}
	for _, b := range builtins {
		if b.oid == oid || b.array == oid {
			return b, b.oid != oid
		}
	}
	return builtin{}, false
}
