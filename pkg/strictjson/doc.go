// Package strictjson reads one JSON value exactly as RFC 8259 has it and writes JSON as ASCII.
//
// Exactly means: strict UTF-8 (no overlong forms, no encoded surrogates), no byte order mark, no duplicate object key
// (compared after escapes are decoded), no NaN or Infinity, nothing after the value, and at most [MaxDepth] levels.
// Keys are compared byte for byte; [CaseVariant] tells when a key only differs by letter case from a name somebody knows.
//
// It does not decode into Go structs and does not judge numbers: a number is its text, so 2^53+1 and 1e400 survive.
// A lone surrogate escape (backslash u d800) is legal JSON and is kept, decoded to its three-byte WTF-8 form; who reads
// [Document.LoneSurrogate] decides about it.
//
// Needs: nothing. An attacker controls every byte given to [Scanner.Scan]; memory is bounded by the length of the input,
// time is linear in it. Everything else in this package takes text that Scan has accepted.
package strictjson
