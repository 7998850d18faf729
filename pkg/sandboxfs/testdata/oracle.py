"""Writes what Python says about its text codecs: the golden files beside this script, and ../codepages.go.

Run it with the Python that is the reference (3.12.1 wrote the committed files), nothing else needed:

    python3 oracle.py && gofmt -w ../codepages.go

names.txt       spelling TAB codecs.lookup(spelling).name, or - where that is no text codec: all aliases and modules
                of the encodings package, and spellings that try the normalisation
singlebyte.txt  codec TAB 256 code points in hex, .... where decoding fails
multibyte.txt   codec TAB SHA-256 over the lines "bytes=text" (hex, UTF-8) of all characters of up to 3 bytes, and all of
                GB 18030's four bytes, in order of their bytes and without the ranges that codec_table.go leaves out
vectors.txt     codec TAB bytes TAB text or - : chosen and random texts, decoded strictly as a whole, without those that
                need what we leave out
"""

import codecs
import hashlib
import itertools
import pathlib
import pkgutil
import random
import encodings.aliases

HERE = pathlib.Path(__file__).resolve().parent

# One byte a character, and no table for them in golang.org/x/text/encoding/charmap.
PAGES = """cp273 cp424 cp500 cp720 cp737 cp775 cp856 cp857 cp861 cp864 cp869 cp875 cp1006 cp1026 cp1125 hp_roman8
iso8859_11 koi8_t kz1048 mac_arabic mac_croatian mac_farsi mac_greek mac_iceland mac_latin2 mac_romanian mac_turkish
palmos ptcp154 tis_620""".split()

SINGLE = """ascii charmap latin_1 cp037 cp437 cp850 cp852 cp855 cp858 cp860 cp862 cp863 cp865 cp866 cp874 cp1140 cp1250
cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 iso8859_2 iso8859_3 iso8859_4 iso8859_5 iso8859_6 iso8859_7
iso8859_8 iso8859_9 iso8859_10 iso8859_13 iso8859_14 iso8859_15 iso8859_16 koi8_r koi8_u mac_cyrillic
mac_roman""".split() + PAGES

# What we leave out of Python's, as ranges of the bytes read as a number.
LEFT_OUT = {
    "big5": [(0xC6A1, 0xC8FE)],
    "cp932": [(0xA0, 0xA0), (0xFD, 0xFF), (0xF040, 0xF9FC)],
    "cp949": [],
    "cp950": [(0xC6A1, 0xC8FE)],
    "euc_jp": [],
    "euc_kr": [],
    "gb18030": "private",
    "gb2312": [],
    "gbk": [],
    "shift_jis": [],
}


def decode(raw, codec):
    try:
        return raw.decode(codec)
    except UnicodeDecodeError:
        return None


def canonical(name):
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):
        return "-"
    return found.name if found._is_text_encoding else "-"


def names():
    spellings = set(encodings.aliases.aliases) | {m.name for m in pkgutil.iter_modules(encodings.__path__)}
    spellings |= {canonical(s) for s in set(spellings)} - {"-"}
    spellings |= {" utf-8", "UTF8", "utf 8", "Utf_8", "utf--8", "-utf-8-", "ISO_8859-1:1987", "iso8859.1", "latin 1",
                  "\u00e9utf-8", "utf\u00e98", "ut f8", "utf-8x", "_", "x-sjis", "windows-31j", "windows-1252",
                  "ISO-646.IRV:1991", "utf8" * 20, "Base64", "ROT-13"}
    return [f"{s}\t{canonical(s)}" for s in sorted(spellings)]


def singlebyte():
    for codec in SINGLE:
        chars = (decode(bytes([b]), codec) for b in range(256))
        yield codec + "\t" + "".join("...." if c is None else f"{ord(c):04x}" for c in chars)


def left_out(codec, raw, text):
    rule = LEFT_OUT[codec]
    if rule == "private":
        return len(raw) == 2 and "\ue000" <= text <= "\uf8ff"
    value = int.from_bytes(raw, "big")
    return any(low <= value <= high for low, high in rule)


def characters(codec):
    sequences = itertools.chain(itertools.product(range(256)), itertools.product(range(0x80, 0x100), range(256)),
                                itertools.product(range(0x80, 0x100), range(256), range(256)))
    if codec == "gb18030":
        sequences = itertools.chain(
            itertools.chain.from_iterable(itertools.product(range(256), repeat=n) for n in (1, 2)),
            itertools.product(range(0x81, 0xFF), range(0x30, 0x3A), range(0x81, 0xFF), range(0x30, 0x3A)))
    for sequence in sequences:
        raw = bytes(sequence)
        text = decode(raw, codec)
        if text is not None and len(text) == 1 and not left_out(codec, raw, text):
            yield raw, text


def multibyte():
    for codec in LEFT_OUT:
        digest, count = hashlib.sha256(), 0
        for raw, text in characters(codec):
            digest.update(f"{raw.hex()}={text.encode().hex()}\n".encode())
            count += 1
        yield f"{codec}\t{count}\t{digest.hexdigest()}"


CHOSEN = {
    "hz": [b"~{VPND~}", b"~{VP", b"~{V", b"a~~b", b"a~\nb", b"~\r\n", b"~x", b"~", b"~{VP\nab", b"~{VP~\n", b"~{\x80",
           b"a\x80", b"~{ \n", b"~{~~~}", b"~{VP~{", b"~}", b"~{!$!*~}", b"~{\x7f!~}", b"~{~}", b"~{V~}", b"", b"x~{~}y"],
    "iso2022_jp": [b'a\x1b$B$"\n$"\x1b(Bz', b'\x1b$B$"', b"\x1b$B$", b'\x1b$B\x7f"', b"\x1b$B$\x7f", b"\x1b(J\\~|\x7f",
                   b"\x1b$(D0!", b"\x1b(I1", b"\x80", b"\x1b$B\xa4\xa2", b'\x1b$@$"\x1b(B', b"\x1b", b"\x1b(", b"\x1b$(",
                   b"\x1b(Z", b"\x0e", b'\x1b$B\t$"', b'\x1b$B $"', b"\x1b$B$\x1b(B", b"\x1b.A", b"\x1b[0m",
                   b"\x1b$B!A!B\x1b(B", b"\x1b$B-!", b'\x1b$(D"7', b'\x1b$(B$"', b'\x1b$(@$"', b"\x1b$B!\n!",
                   b'\x1b$B\x00\x1f$"', b"\x1b(I\x20", b"\x1b(I\x60", b"\x1b(I\x5f\x1b(Ba", b""],
    "utf_8": [b"", b"a", "a\u3042\U0001f600".encode(), b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf4\x8f\xbf\xbf",
              b"\xef\xbb\xbfa", b"\xe3\x81", b"\x80", b"\xff", b"\x00\xff\xfe\x80", b"\xef\xbf\xbd", b"\xf0\x80\x80\x80",
              b"\xe0\x80\x80", b"\xef\xbb", b"\xef\xbb\xbf\xef\xbb\xbf"],
    "utf_16": [b"", b"\xff", b"\xff\xfe", b"\xfe\xff", b"\xff\xfea\x00", b"\xfe\xff\x00a", b"a\x00", b"a", b"\xff\xfe\x00",
               b"\x00\xd8\x00\xdc", b"\x00\xd8", b"\x00\xdc", b"\x00\xd8a\x00", b"\xfd\xff", b"\xff\xfe\x00\x00",
               b"\xff\xfe\xff\xfe", b"\xd8\x00\xdc\x00", b"\xdc\x00", b"\x00\xdc\x00\xd8"],
    "utf_32": [b"", b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff", b"\xff\xfe\x00\x00a\x00\x00\x00", b"\x00\x00\xfe\xff\x00\x00\x00a",
               b"a\x00\x00\x00", b"a\x00\x00", b"\xff\xfe", b"\x00\xd8\x00\x00", b"\x00\x00\x11\x00", b"\xff\xff\x10\x00",
               b"\x00\x11\x00\x00", b"\x00\x10\xff\xff", b"\xff\xff\xff\xff", b"\x00\x00\x00\x80", b"\xfd\xff\x00\x00"],
}
CHOSEN["utf_8_sig"] = CHOSEN["utf_8"]
for order in "_le", "_be":
    CHOSEN["utf_16" + order] = CHOSEN["utf_16"]
    CHOSEN["utf_32" + order] = CHOSEN["utf_32"]
for part in "_1", "_ext":
    CHOSEN["iso2022_jp" + part] = CHOSEN["iso2022_jp"]
# Characters that every one of the multi-byte sets has, or that show where x/text differs.
SAMPLE = "aZ~\\09 \n\u4e00\u4e8c\u3042\u30a2\u2460\u03b1\u0430\uac00\u301c\u2016\uff5e\u00a5\uff71\U0001f600\u20ac\ufffd"


def vectors():
    rng = random.Random(20251130)
    for codec in list(LEFT_OUT) + [c for c in CHOSEN]:
        raws = list(CHOSEN.get(codec, []))
        for _ in range(60):
            text = "".join(rng.choice(SAMPLE) for _ in range(rng.randrange(1, 9)))
            raw = bytearray(text.encode(codec, "ignore"))
            if raw and rng.random() < 0.5:
                raw[rng.randrange(len(raw))] = rng.randrange(256)
            if raw and rng.random() < 0.3:
                del raw[-1]
            raws.append(bytes(raw))
        for raw in dict.fromkeys(raws):
            text = decode(raw, codec)
            if codec in LEFT_OUT and any(left_out(codec, c.encode(codec, "ignore"), c) for c in text or ""):
                continue
            if codec.startswith("iso2022") and "\x1b" in (text or ""):
                continue
            yield f"{codec}\t{raw.hex()}\t{'-' if text is None else text.encode().hex()}"


def codepages():
    yield "// Code generated by testdata/oracle.py from Python 3.12. DO NOT EDIT."
    yield ""
    yield "package sandboxfs"
    yield ""
    yield "// Charsets of one byte a character that x/text has no table for: the characters of the upper 128 bytes, or of all"
    yield "// 256 where the lower ones are not ASCII. U+FFFD stands for bytes that mean nothing."
    yield "const ("
    for codec in PAGES:
        chars = [decode(bytes([b]), codec) or "\ufffd" for b in range(256)]
        if chars[:128] == [chr(b) for b in range(128)]:
            chars = chars[128:]
        yield f"\t{codec.replace('_', '')} = \"\" +"
        rows = ["".join(f"\\u{ord(c):04x}" for c in chars[i:i + 16]) for i in range(0, len(chars), 16)]
        yield " +\n".join(f'\t\t"{row}"' for row in rows)
    yield ")"


for name, lines in (("names.txt", names()), ("singlebyte.txt", singlebyte()), ("multibyte.txt", multibyte()),
                    ("vectors.txt", vectors()), ("../codepages.go", codepages())):
    (HERE / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
