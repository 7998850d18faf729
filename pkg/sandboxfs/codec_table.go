package sandboxfs

import (
	"encoding/binary"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// codecs is the table: Python 3.12's text codecs with all their aliases, as far as we know them. The tests compare it,
// name by name and character by character, with what Python said (testdata/oracle.py). In the order of Unicode, one byte
// a character, more bytes a character.
var codecs = []codec{
	{name: "utf-8", aliases: "cp65001 u8 utf utf8 utf8_ucs2 utf8_ucs4", by: own, decode: decodeUTF8, unit: 1, inside: insideUTF8},
	{name: "utf-8-sig", aliases: "", by: own, decode: decodeUTF8, unit: 1, inside: insideUTF8, signed: true},
	{name: "utf-16-le", aliases: "unicodelittleunmarked utf_16le", by: own, decode: decodeUTF16(binary.LittleEndian), unit: 2, inside: insideUTF16(binary.LittleEndian)},
	{name: "utf-16-be", aliases: "unicodebigunmarked utf_16be", by: own, decode: decodeUTF16(binary.BigEndian), unit: 2, inside: insideUTF16(binary.BigEndian)},
	{name: "utf-16", aliases: "u16 utf16", by: own, decode: marked("\xFF\xFE", "\xFE\xFF", decodeUTF16)},
	{name: "utf-32-le", aliases: "utf_32le", by: own, decode: decodeUTF32(binary.LittleEndian), unit: 4},
	{name: "utf-32-be", aliases: "utf_32be", by: own, decode: decodeUTF32(binary.BigEndian), unit: 4},
	{name: "utf-32", aliases: "u32 utf32", by: own, decode: marked("\xFF\xFE\x00\x00", "\x00\x00\xFE\xFF", decodeUTF32)},
	{name: "ascii", aliases: "646 ansi_x3_4_1968 ansi_x3_4_1986 cp367 csascii ibm367 iso646_us iso_646_irv_1991 iso_ir_6 us us_ascii", by: own, decode: decodeASCII, unit: 1},
	{name: "iso8859-1", aliases: "8859 cp819 csisolatin1 ibm819 iso8859 iso_8859_1 iso_8859_1_1987 iso_ir_100 l1 latin latin1 latin_1", by: own, decode: decodeLatin1, unit: 1},
	{name: "charmap", aliases: "", by: own, decode: decodeLatin1, unit: 1},

	{name: "cp037", aliases: "037 csibm037 ebcdic_cp_ca ebcdic_cp_nl ebcdic_cp_us ebcdic_cp_wt ibm037 ibm039", by: xtext, decode: single(charmap.CodePage037.DecodeByte), unit: 1},
	{name: "cp273", aliases: "273 csibm273 ibm273", by: pages, decode: page(cp273), unit: 1},
	{name: "cp424", aliases: "424 csibm424 ebcdic_cp_he ibm424", by: pages, decode: page(cp424), unit: 1},
	{name: "cp437", aliases: "437 cspc8codepage437 ibm437", by: xtext, decode: single(charmap.CodePage437.DecodeByte), unit: 1},
	{name: "cp500", aliases: "500 csibm500 ebcdic_cp_be ebcdic_cp_ch ibm500", by: pages, decode: page(cp500), unit: 1},
	{name: "cp720", aliases: "", by: pages, decode: page(cp720), unit: 1},
	{name: "cp737", aliases: "", by: pages, decode: page(cp737), unit: 1},
	{name: "cp775", aliases: "775 cspc775baltic ibm775", by: pages, decode: page(cp775), unit: 1},
	{name: "cp850", aliases: "850 cspc850multilingual ibm850", by: xtext, decode: single(charmap.CodePage850.DecodeByte), unit: 1},
	{name: "cp852", aliases: "852 cspcp852 ibm852", by: xtext, decode: single(charmap.CodePage852.DecodeByte), unit: 1},
	{name: "cp855", aliases: "855 csibm855 ibm855", by: xtext, decode: single(charmap.CodePage855.DecodeByte), unit: 1},
	{name: "cp856", aliases: "", by: pages, decode: page(cp856), unit: 1},
	{name: "cp857", aliases: "857 csibm857 ibm857", by: pages, decode: page(cp857), unit: 1},
	{name: "cp858", aliases: "858 csibm858 ibm858", by: xtext, decode: single(charmap.CodePage858.DecodeByte), unit: 1},
	{name: "cp860", aliases: "860 csibm860 ibm860", by: xtext, decode: single(charmap.CodePage860.DecodeByte), unit: 1},
	{name: "cp861", aliases: "861 cp_is csibm861 ibm861", by: pages, decode: page(cp861), unit: 1},
	{name: "cp862", aliases: "862 cspc862latinhebrew ibm862", by: xtext, decode: single(charmap.CodePage862.DecodeByte), unit: 1},
	{name: "cp863", aliases: "863 csibm863 ibm863", by: xtext, decode: single(charmap.CodePage863.DecodeByte), unit: 1},
	{name: "cp864", aliases: "864 csibm864 ibm864", by: pages, decode: page(cp864), unit: 1},
	{name: "cp865", aliases: "865 csibm865 ibm865", by: xtext, decode: single(charmap.CodePage865.DecodeByte), unit: 1},
	{name: "cp866", aliases: "866 csibm866 ibm866", by: xtext, decode: single(charmap.CodePage866.DecodeByte), unit: 1},
	{name: "cp869", aliases: "869 cp_gr csibm869 ibm869", by: pages, decode: page(cp869), unit: 1},
	{name: "cp874", aliases: "", by: xtext, decode: single(charmap.Windows874.DecodeByte), unit: 1},
	{name: "cp875", aliases: "", by: pages, decode: page(cp875), unit: 1},
	{name: "cp1006", aliases: "", by: pages, decode: page(cp1006), unit: 1},
	{name: "cp1026", aliases: "1026 csibm1026 ibm1026", by: pages, decode: page(cp1026), unit: 1},
	{name: "cp1125", aliases: "1125 cp866u ibm1125 ruscii", by: pages, decode: page(cp1125), unit: 1},
	{name: "cp1140", aliases: "1140 ibm1140", by: xtext, decode: single(charmap.CodePage1140.DecodeByte), unit: 1},
	{name: "cp1250", aliases: "1250 windows_1250", by: xtext, decode: single(charmap.Windows1250.DecodeByte), unit: 1},
	{name: "cp1251", aliases: "1251 windows_1251", by: xtext, decode: single(charmap.Windows1251.DecodeByte), unit: 1},
	{name: "cp1252", aliases: "1252 windows_1252", by: xtext, decode: single(charmap.Windows1252.DecodeByte), unit: 1},
	{name: "cp1253", aliases: "1253 windows_1253", by: xtext, decode: single(charmap.Windows1253.DecodeByte), unit: 1},
	{name: "cp1254", aliases: "1254 windows_1254", by: xtext, decode: single(charmap.Windows1254.DecodeByte), unit: 1},
	{name: "cp1255", aliases: "1255 windows_1255", by: corrected, decode: except(charmap.Windows1255, map[byte]rune{0xCA: utf8.RuneError}), unit: 1},
	{name: "cp1256", aliases: "1256 windows_1256", by: xtext, decode: single(charmap.Windows1256.DecodeByte), unit: 1},
	{name: "cp1257", aliases: "1257 windows_1257", by: xtext, decode: single(charmap.Windows1257.DecodeByte), unit: 1},
	{name: "cp1258", aliases: "1258 windows_1258", by: xtext, decode: single(charmap.Windows1258.DecodeByte), unit: 1},
	{name: "hp-roman8", aliases: "cp1051 ibm1051 r8 roman8", by: pages, decode: page(hproman8), unit: 1},
	{name: "iso8859-2", aliases: "csisolatin2 iso_8859_2 iso_8859_2_1987 iso_ir_101 l2 latin2", by: corrected, decode: withC1(charmap.ISO8859_2), unit: 1},
	{name: "iso8859-3", aliases: "csisolatin3 iso_8859_3 iso_8859_3_1988 iso_ir_109 l3 latin3", by: corrected, decode: withC1(charmap.ISO8859_3), unit: 1},
	{name: "iso8859-4", aliases: "csisolatin4 iso_8859_4 iso_8859_4_1988 iso_ir_110 l4 latin4", by: corrected, decode: withC1(charmap.ISO8859_4), unit: 1},
	{name: "iso8859-5", aliases: "csisolatincyrillic cyrillic iso_8859_5 iso_8859_5_1988 iso_ir_144", by: corrected, decode: withC1(charmap.ISO8859_5), unit: 1},
	{name: "iso8859-6", aliases: "arabic asmo_708 csisolatinarabic ecma_114 iso_8859_6 iso_8859_6_1987 iso_ir_127", by: corrected, decode: withC1(charmap.ISO8859_6), unit: 1},
	{name: "iso8859-7", aliases: "csisolatingreek ecma_118 elot_928 greek greek8 iso_8859_7 iso_8859_7_1987 iso_ir_126", by: corrected, decode: withC1(charmap.ISO8859_7), unit: 1},
	{name: "iso8859-8", aliases: "csisolatinhebrew hebrew iso_8859_8 iso_8859_8_1988 iso_ir_138", by: corrected, decode: withC1(charmap.ISO8859_8), unit: 1},
	{name: "iso8859-9", aliases: "csisolatin5 iso_8859_9 iso_8859_9_1989 iso_ir_148 l5 latin5", by: xtext, decode: single(charmap.ISO8859_9.DecodeByte), unit: 1},
	{name: "iso8859-10", aliases: "csisolatin6 iso_8859_10 iso_8859_10_1992 iso_ir_157 l6 latin6", by: corrected, decode: withC1(charmap.ISO8859_10), unit: 1},
	{name: "iso8859-11", aliases: "iso_8859_11 iso_8859_11_2001 thai", by: pages, decode: page(iso885911), unit: 1},
	{name: "iso8859-13", aliases: "iso_8859_13 l7 latin7", by: corrected, decode: withC1(charmap.ISO8859_13), unit: 1},
	{name: "iso8859-14", aliases: "iso_8859_14 iso_8859_14_1998 iso_celtic iso_ir_199 l8 latin8", by: corrected, decode: withC1(charmap.ISO8859_14), unit: 1},
	{name: "iso8859-15", aliases: "iso_8859_15 l9 latin9", by: corrected, decode: withC1(charmap.ISO8859_15), unit: 1},
	{name: "iso8859-16", aliases: "iso_8859_16 iso_8859_16_2001 iso_ir_226 l10 latin10", by: corrected, decode: withC1(charmap.ISO8859_16), unit: 1},
	{name: "koi8-r", aliases: "cskoi8r", by: xtext, decode: single(charmap.KOI8R.DecodeByte), unit: 1},
	{name: "koi8-t", aliases: "", by: pages, decode: page(koi8t), unit: 1},
	{name: "koi8-u", aliases: "", by: corrected, decode: except(charmap.KOI8U, map[byte]rune{0xAE: '\u255D', 0xBE: '\u256C'}), unit: 1},
	{name: "kz1048", aliases: "kz_1048 rk1048 strk1048_2002", by: pages, decode: page(kz1048), unit: 1},
	{name: "mac-arabic", aliases: "", by: pages, decode: page(macarabic), unit: 1},
	{name: "mac-croatian", aliases: "", by: pages, decode: page(maccroatian), unit: 1},
	{name: "mac-cyrillic", aliases: "maccyrillic", by: xtext, decode: single(charmap.MacintoshCyrillic.DecodeByte), unit: 1},
	{name: "mac-farsi", aliases: "", by: pages, decode: page(macfarsi), unit: 1},
	{name: "mac-greek", aliases: "macgreek", by: pages, decode: page(macgreek), unit: 1},
	{name: "mac-iceland", aliases: "maciceland", by: pages, decode: page(maciceland), unit: 1},
	{name: "mac-latin2", aliases: "mac_centeuro maccentraleurope maclatin2", by: pages, decode: page(maclatin2), unit: 1},
	{name: "mac-roman", aliases: "macintosh macroman", by: xtext, decode: single(charmap.Macintosh.DecodeByte), unit: 1},
	{name: "mac-romanian", aliases: "", by: pages, decode: page(macromanian), unit: 1},
	{name: "mac-turkish", aliases: "macturkish", by: pages, decode: page(macturkish), unit: 1},
	{name: "palmos", aliases: "", by: pages, decode: page(palmos), unit: 1},
	{name: "ptcp154", aliases: "cp154 csptcp154 cyrillic_asian pt154", by: pages, decode: page(ptcp154), unit: 1},
	{name: "tis-620", aliases: "iso_ir_166 tis620 tis_620_0 tis_620_2529_0 tis_620_2529_1", by: pages, decode: page(tis620), unit: 1},

	{name: "shift_jis", aliases: "csshiftjis s_jis shiftjis sjis x_mac_japanese", by: corrected, decode: shiftJIS.decoder()},
	{name: "cp932", aliases: "932 ms932 ms_kanji mskanji", by: corrected, decode: cp932.decoder(), refused: "the private-use characters: 0xA0, 0xFD to 0xFF, 0xF040 to 0xF9FC"},
	{name: "euc_jp", aliases: "eucjp u_jis ujis", by: corrected, decode: eucJP.decoder()},
	{name: "euc_kr", aliases: "euckr korean ks_c_5601 ks_c_5601_1987 ks_x_1001 ksc5601 ksx1001 x_mac_korean", by: corrected, decode: eucKR.decoder(), refused: "syllables composed of their parts (0xA4D4 and what follows)"},
	{name: "cp949", aliases: "949 ms949 uhc", by: xtext, decode: cp949.decoder()},
	{name: "gb2312", aliases: "chinese csiso58gb231280 euc_cn euccn eucgb2312_cn gb2312_1980 gb2312_80 iso_ir_58 x_mac_simp_chinese", by: corrected, decode: gb2312.decoder()},
	{name: "gbk", aliases: "936 cp936 ms936", by: corrected, decode: gbk.decoder()},
	{name: "gb18030", aliases: "gb18030_2000", by: corrected, decode: gb18030.decoder(), refused: "the private-use characters of two bytes"},
	{name: "big5", aliases: "big5_tw csbig5 x_mac_trad_chinese", by: corrected, decode: big5.decoder(), refused: "0xC6A1 to 0xC8FE"},
	{name: "cp950", aliases: "950 ms950", by: corrected, decode: cp950.decoder(), refused: "0xC6A1 to 0xC8FE"},
	{name: "hz", aliases: "hz_gb hz_gb_2312 hzgb", by: corrected, decode: decodeHZ},
	{name: "iso2022_jp", aliases: "csiso2022jp iso2022jp iso_2022_jp", by: corrected, decode: iso2022(designationsJP...), refused: "other escape sequences"},
	{name: "iso2022_jp_1", aliases: "iso2022jp_1 iso_2022_jp_1", by: corrected, decode: iso2022(designationsJP1...), refused: "other escape sequences"},
	{name: "iso2022_jp_ext", aliases: "iso2022jp_ext iso_2022_jp_ext", by: corrected, decode: iso2022(designationsJPExt...), refused: "other escape sequences"},
}

// Where x/text has WHATWG's version of a charset (what browsers do) and Python that of the standard.
var (
	shiftJIS = multibyte{
		charset: japanese.ShiftJIS,
		length:  lengthShiftJIS,
		refused: []span{{0x80, 0x80}, {0x8740, 0x879C}, {0xED40, 0xFC4B}}, // vendors' rows
		other: map[uint32]rune{
			0x8160: '\u301C', 0x8161: '\u2016', 0x817C: '\u2212', 0x8191: '\u00A2', 0x8192: '\u00A3', 0x81CA: '\u00AC',
		},
	}
	cp932 = multibyte{charset: japanese.ShiftJIS, length: lengthShiftJIS}
	eucJP = multibyte{
		charset: japanese.EUCJP,
		length:  lengthEUCJP,
		refused: []span{{0xADA1, 0xADFC}, {0xF9A1, 0xFCFE}}, // vendors' rows
		other: map[uint32]rune{
			0xA1C1: '\u301C', 0xA1C2: '\u2016', 0xA1DD: '\u2212', 0xA1F1: '\u00A2', 0xA1F2: '\u00A3', 0xA2CC: '\u00AC',
			0x8FA2B7: '~',
		},
	}
	eucKR  = multibyte{charset: korean.EUCKR, length: lengthPair, euc: true, refused: []span{{0xA4D4, 0xA4D4}}}
	cp949  = multibyte{charset: korean.EUCKR, length: lengthPair}
	gb2312 = multibyte{
		charset: simplifiedchinese.GBK,
		length:  lengthPair,
		euc:     true,
		refused: []span{{0xA2A1, 0xA2AA}, {0xA2E3, 0xA2E3}, {0xA6E0, 0xA6F5}, {0xA8BB, 0xA8C0}, {0xF8A1, 0xFEFE}},
		other:   map[uint32]rune{0xA1A4: '\u30FB', 0xA1AA: '\u2015'},
	}
	gbk = multibyte{
		charset: simplifiedchinese.GBK,
		length:  lengthPair,
		refused: []span{{0xA2E3, 0xA2E3}, {0xA3A0, 0xA3A0}, {0xA8BF, 0xA8BF}, {0xA989, 0xA995}, {0xFE50, 0xFE9F}},
	}
	gb18030 = multibyte{
		charset: simplifiedchinese.GB18030,
		length:  lengthGB18030,
		refused: []span{{0xA3A0, 0xA3A0}},
		other:   map[uint32]rune{0x8431A437: utf8.RuneError}, // the one charset that has U+FFFD as a character
	}
	big5 = multibyte{
		charset: traditionalchinese.Big5,
		length:  lengthPair,
		refused: []span{{0x8740, 0xA0FE}, {0xA3C0, 0xA3E1}, {0xC6A1, 0xC8FE}, {0xF9D6, 0xFEFE}}, // extensions
		other: map[uint32]rune{
			0xA145: '\u2022', 0xA14E: '\uFF64', 0xA1C2: '\u203E', 0xA1E3: '\u223C', 0xA1F2: '\u2641', 0xA1F3: '\u2609',
			0xA241: '\uFF0F', 0xA242: '\uFF3C', 0xA244: '\u00A5', 0xA246: '\u00A2', 0xA247: '\u00A3',
		},
	}
	cp950 = multibyte{
		charset: traditionalchinese.Big5,
		length:  lengthPair,
		refused: []span{{0x8740, 0xA0FE}, {0xA3C0, 0xA3E0}, {0xC6A1, 0xC8FE}, {0xFA40, 0xFEFE}}, // extensions
		other:   map[uint32]rune{0xF9FE: '\u2593'},
	}
)

// The designations of iso2022_jp, and what iso2022_jp_1 and iso2022_jp_ext add.
var (
	designationsJP = []designation{
		{"(B", setASCII}, {"(J", setRoman}, {"$@", setKanji}, {"$B", setKanji}, {"$(@", setKanji}, {"$(B", setKanji},
	}
	designationsJP1   = append(designationsJP[:len(designationsJP):len(designationsJP)], designation{"$(D", setExtra})
	designationsJPExt = append(designationsJP1[:len(designationsJP1):len(designationsJP1)], designation{"(I", setKana})
)
