// Package rowjson writes rows of PostgreSQL values in text format as one JSON array of arrays, within a budget of
// rows and of bytes, so that every digit survives a reader that keeps numbers as float64, JavaScript above all.
//
// It does not talk to a server and does not choose the session: the rules below are for what PostgreSQL writes under
// DateStyle 'ISO, YMD', IntervalStyle 'iso_8601', bytea_output 'hex', extra_float_digits 1 and TimeZone 'UTC'. What
// does not look as its type's rule expects is handed out as a string of its text, never refused and never repaired.
//
//	bool                  true, false
//	int2, int4, oid, int8 a number up to 2^53-1 either way, beyond it a string
//	float4, float8        a number with PostgreSQL's own digits; NaN, Infinity and -Infinity are strings
//	numeric               always a string: it holds digits that a float64 loses, and what reads the column should not
//	                      meet a number in one row and a string in the next
//	json, jsonb           the value itself, without white space, its numbers digit for digit; as a string of its text
//	                      when it has a duplicate key, a lone surrogate, more than [MaxJSONDepth] levels, or one
//	                      number that a float64 would change
//	timestamp             2024-02-29T12:34:56.789012 for the years 0001 to 9999
//	timestamptz           the same with Z, or an offset such as +05:30
//	arrays                nested arrays, the elements by their own rule; a string if the array has bounds of its own
//	                      ([0:1]={1,2}) or is of a type that is not built in
//	all else              a string of PostgreSQL's text (date, time, interval, bytea, uuid, money, ranges, composites,
//	                      enums, infinity, years BC and beyond 9999)
//
// A number is handed out as such only if the shortest decimal of its nearest float64, which is what JavaScript
// writes, has the same value, and, when it is written without point and exponent, if it is at most 2^53-1, beyond
// which neighbours are one float64. PostgreSQL's shortest digits of a float8 are not always JavaScript's (10^23 is
// 9.999999999999999e+22 to one and 1e+23 to the other); such a value is a string, too. The output is ASCII, and bytes
// that are not UTF-8 (a SQL_ASCII database has them) become U+FFFD each.
//
// Residual: the JSON value null reads like NULL, a JSON string like the text of a value that travels as a string, and
// the sign of -0 is lost by readers that write it back.
//
// Needs: nothing. An attacker controls every byte of every value and of the column names. Time is linear in the
// values; memory is bounded by Limits.Bytes and, for a quoted array element, by that element.
package rowjson
