// Package tools joins a domain to the surface, one file per tool. A tool has texts, schemas, a bound on its answer's size
// and a translation of arguments and results; it holds no rule of its own.
//
// Needs: what its domains need. An attacker controls the arguments, which have been checked against the schema here.
package tools
