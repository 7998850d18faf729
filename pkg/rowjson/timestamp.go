package rowjson

// The shapes of what PostgreSQL writes; 0 stands for a digit. A year beyond 9999, one BC (with that suffix) and
// infinity have other shapes.
const (
	dateShape = "0000-00-00"
	timeShape = "00:00:00"

	maxFraction  = 6 // digits: PostgreSQL counts microseconds
	maxTimestamp = len(dateShape) + len("T") + len(timeShape) + len(".") + maxFraction + len("+00:00")
)

// appendTimestamp writes a timestamp as RFC 3339 has it, with its offset if it is one with time zone. It returns nil
// for what has no such form: another year, infinity, and an offset with seconds (local mean time, Amsterdam until
// 1937).
func appendTimestamp(dst, text []byte, zoned bool) []byte {
	clock := len(dateShape) + len(" ")
	end := clock + len(timeShape)
	if len(text) < end || !hasShape(text[:len(dateShape)], dateShape) || text[clock-1] != ' ' ||
		!hasShape(text[clock:end], timeShape) {
		return nil
	}
	if end < len(text) && text[end] == '.' {
		start := end + 1
		if end = skipDigits(text, start); end == start || end-start > maxFraction {
			return nil
		}
	}
	dst = append(dst, text[:clock-1]...)
	dst = append(dst, 'T')
	dst = append(dst, text[clock:end]...)
	offset := text[end:]
	switch {
	case !zoned:
		if len(offset) > 0 {
			return nil
		}
		return dst
	case string(offset) == "+00", string(offset) == "+00:00":
		return append(dst, 'Z')
	case len(offset) == 0 || offset[0] != '+' && offset[0] != '-':
		return nil
	case hasShape(offset[1:], "00:00"):
		return append(dst, offset...)
	case hasShape(offset[1:], "00"):
		return append(append(dst, offset...), ":00"...)
	}
	return nil
}

func hasShape(text []byte, shape string) bool {
	if len(text) != len(shape) {
		return false
	}
	for i, c := range text {
		if shape[i] == '0' && !isDigit(c) || shape[i] != '0' && c != shape[i] {
			return false
		}
	}
	return true
}
