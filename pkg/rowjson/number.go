package rowjson

import "strconv"

// maxSafe is 2^53-1, JavaScript's Number.MAX_SAFE_INTEGER: the last integer whose neighbours are not the same
// float64.
const maxSafe = "9007199254740991"

// A float64 takes these digits: any decimal of so few comes back from it unchanged (DBL_DIG), and none of more is the
// shortest one of a float64.
const (
	surelyExact = 15
	maxDigits   = 17
)

// The decimal exponents of the first digit: within the first two every float64 has its full precision, beyond the
// second two there is none.
const (
	lowestNormal, highestNormal = -307, 307
	lowest, highest             = -324, 308
)

// maxExponent is where the exponent of a text stops counting. It is so far out that the zeros of no text in memory
// lead back from there.
const maxExponent = 1 << 48

// isInteger tells a JSON number without point and exponent.
func isInteger(text []byte) bool {
	end, ok := skipInteger(text)
	return ok && end == len(text)
}

// isNumber tells a JSON number (RFC 8259 section 6).
func isNumber(text []byte) bool {
	i, ok := skipInteger(text)
	if !ok {
		return false
	}
	if i < len(text) && text[i] == '.' {
		start := i + 1
		if i = skipDigits(text, start); i == start {
			return false
		}
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		i++
		if i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		start := i
		if i = skipDigits(text, start); i == start {
			return false
		}
	}
	return i == len(text)
}

func skipInteger(text []byte) (end int, ok bool) {
	start := 0
	if len(text) > 0 && text[0] == '-' {
		start = 1
	}
	end = skipDigits(text, start)
	return end, end == start+1 || end > start && text[start] != '0'
}

func skipDigits(text []byte, i int) int {
	for i < len(text) && isDigit(text[i]) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isExact reports whether a JSON number reads the same after a way through float64: an integer up to 2^53-1, or, with
// point or exponent, a decimal that is the shortest one of its nearest float64 (0.1, 1.50 and 1e+300 are).
func isExact(number []byte) bool {
	if number[0] == '-' {
		number = number[1:]
	}
	whole := skipDigits(number, 0)
	if whole == len(number) {
		return whole < len(maxSafe) || whole == len(maxSafe) && string(number) <= maxSafe
	}

	var digits [maxDigits]byte // from the first that is not zero to the last
	n, zeros, first, seen := 0, 0, 0, 0
	i := 0
	for ; i < len(number) && number[i]|0x20 != 'e'; i++ {
		c := number[i]
		switch {
		case c == '.':
			continue
		case c != '0':
			if n == 0 {
				first, zeros = seen, 0
			}
			if n+zeros+1 > maxDigits {
				return false
			}
			for ; zeros > 0; zeros-- {
				digits[n] = '0'
				n++
			}
			digits[n] = c
			n++
		default:
			zeros++
		}
		seen++
	}
	if n == 0 {
		return true
	}
	exponent := whole - 1 - first + exponentOf(number[i:])
	switch {
	case n <= surelyExact && exponent >= lowestNormal && exponent <= highestNormal:
		return true
	case exponent < lowest || exponent > highest:
		return false
	}
	var ours, theirs [32]byte
	text := appendScientific(ours[:0], digits[:n], exponent)
	f, err := strconv.ParseFloat(string(text), 64)
	return err == nil && string(strconv.AppendFloat(theirs[:0], f, 'e', -1, 64)) == string(text)
}

// exponentOf reads the e+300 of a JSON number, or nothing.
func exponentOf(text []byte) int {
	if len(text) == 0 {
		return 0
	}
	text = text[1:]
	negative := text[0] == '-'
	if negative || text[0] == '+' {
		text = text[1:]
	}
	exponent := 0
	for _, c := range text {
		exponent = min(10*exponent+int(c-'0'), maxExponent)
	}
	if negative {
		return -exponent
	}
	return exponent
}

// appendScientific writes a decimal as strconv does with 'e': 1.5e+300, 5e-324, two digits of exponent at least.
func appendScientific(dst, digits []byte, exponent int) []byte {
	dst = append(dst, digits[0])
	if len(digits) > 1 {
		dst = append(append(dst, '.'), digits[1:]...)
	}
	sign := byte('+')
	if exponent < 0 {
		sign, exponent = '-', -exponent
	}
	dst = append(dst, 'e', sign)
	if exponent < 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, int64(exponent), 10)
}
