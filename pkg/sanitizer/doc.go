// Package sanitizer refuses argument trees by their shape and their code points. It never repairs: what is refused is
// not run in a changed form.
//
// Keys must be plain identifiers (ASCII letters, digits, underscore, no digit first, no leading double underscore), nesting
// and the number of items in one container are bounded, and strings must not hold code points that a reader cannot see
// or that change how the others are shown: controls (tab, line feed and carriage return are text), bidi marks, zero-width and
// other default-ignorable characters, tags, lone surrogates (seed 000; Trojan Source, CVE-2021-42574). Characters that
// are merely unusual pass: emoji with their style selectors, every script, spaces of any width.
//
// Residual: zero-width joiners are refused although some emoji and some Indic and Persian spellings need them; a path
// or a query with one of those must be written without. The two variation selectors that pass (text and emoji style)
// can still spell out hidden bits to whoever counts them; here they are part of an argument and no more than that.
//
// Needs: text that strictjson has accepted. An attacker controls the whole tree.
package sanitizer
