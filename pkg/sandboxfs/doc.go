// Package sandboxfs reads bounded, strictly decoded text from one regular file below one directory, race-free.
//
// The path rule is seed 000's, which is Python's: join the path to the root, resolve it without demanding that it
// exists, and refuse it unless the result lies below the root. Absolute links that point inside, links out and back
// in, and an absolute path of a file inside are therefore fine. The difference is how: nothing outside the root is
// ever looked at. There, names are followed as names, so a refusal cannot depend on what exists outside, and it reads
// the same byte for byte. What follows from that, and the other places where we are stricter than Python:
//
//   - A path that leaves the root over a symlink of the outside world is followed by that link's name, not by its
//     target. Only the root's own names count: its canonical path, and the spelling that the operator gave.
//   - A path that runs into a symlink loop, or over more than [MaxLinks] symlinks, is refused, also if a later ".."
//     leaves the loop again.
//   - A path that is not valid UTF-8 is refused (Python would turn surrogate escapes into bytes).
//   - A root path with ".." in it is no second name of the root.
//
// How the file is reached (see open.go): its directory in one step by openat2 that refuses every symlink and every way
// up, or, where openat2 answers ENOSYS or [Settings].ForceWalk is set, by openat with O_NOFOLLOW per component; then
// the file by openat with O_NOFOLLOW in that directory. The file is looked at before it is opened, so that a device, a
// FIFO or a socket is not opened at all, and looked at again on the descriptor, so that one which was swapped in is
// neither waited for nor read.
//
// What it does not do: it lists nothing, writes nothing, reads no directory and no /proc of its own. It cannot tell a
// hard link from any other file of the tree: who may create hard links below the root decides what is below the root.
// Mounts below the root belong to it. A directory that somebody moves out of the root while a read walks through it is
// followed to its new place; that takes write access to both sides. A read from a dead network mount can hang longer
// than the context lives, because the kernel does not let go of it.
//
// Text is decoded as Python decodes it: see [Encodings] for the 94 of Python 3.12's 110 text codecs that are known.
// Left out are big5hkscs, johab, iso2022_kr, iso2022_jp_2 and the six JIS X 0213 codecs (x/text has no tables for them,
// or other ones), utf_7, idna, punycode, unicode_escape and raw_unicode_escape (notations, not charsets) and undefined
// (which never decodes).
//
// Needs: one open O_PATH descriptor of the directory, and openat2, openat, newfstatat, fstat, readlinkat, pread64 and
// close. An attacker controls the whole [Request], and, where others may write below the root, the names, links and
// contents there, while we read.
package sandboxfs
