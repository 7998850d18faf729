// Package config turns the environment into one immutable value, or lists every fault in it at once.
//
// It owns the names, defaults, bounds and help of the settings, all in one table. It does not open, create or resolve
// anything, does not log, and does not know what the other packages do with the values. There is no configuration
// file and no flag.
//
// A wrong value is never replaced by a default or cut to a bound: it stops the start (seed 000, "Configuration"). The
// rules that hold for all settings:
//
//   - A variable that is not set has its default. An empty value is the same as not set where the default is empty
//     (MCP_SAFE_DATA_DIR, MCP_SERVER_TITLE, MCP_SERVER_INSTRUCTIONS); everywhere else it is a fault.
//   - Numbers are ASCII digits in base ten with an optional minus and, for seconds, at most nine decimals. No unit, plus
//     sign, exponent, underscore, hexadecimal, infinity or space. Seconds are exact to the nanosecond.
//   - Words (booleans, level names, modes) may be written in any ASCII letter case; numbers and text are taken as is.
//   - A variable that is there twice is a fault. os.Environ of Go 1.26 has already dropped all but the first of them, so
//     this guard works only for an environment that comes from elsewhere (/proc/PID/environ, a test).
//   - A name that starts with MCP_ in any case, is not a setting and is at most two edits away from one is a fault: a
//     misspelt limit would leave the default in force without a word. All other names belong to other software.
//
// A fault text repeats at most 32 bytes of a value, quoted as ASCII, and only of numbers and words; of paths and texts
// it repeats nothing but the code point of a character that is refused.
//
// Needs: stat of MCP_SAFE_DATA_DIR. An attacker controls nothing, unless the environment is already theirs.
package config
