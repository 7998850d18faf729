package latency

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"mcp-server-suite/pkg/strictjson"
)

// peerLineBytes is the longest request that a bare program reads.
const peerLineBytes = 64 << 10

// echo answers every line that has an id with a canned line of answerBytes bytes, newline included, until in ends.
func echo(in io.Reader, out io.Writer, answerBytes int) error {
	const middle, end = `,"result":"`, "\"}\n"
	filling := bytes.Repeat([]byte("x"), max(answerBytes, 0))
	return peer(in, out, func(line, _, id []byte) ([]byte, error) {
		line = append(append(append(line, answerHead...), id...), middle...)
		missing := answerBytes - len(line) - len(end)
		if missing < 0 {
			return nil, fmt.Errorf("an answer of %d bytes has no room for its id", answerBytes)
		}
		return append(append(line, filling[:missing]...), end...), nil
	})
}

// serveFile answers every line that has an id with the whole file, in the shape of the daemon's sandbox_fs_read, until
// in ends. The file must be text in UTF-8.
func serveFile(in io.Reader, out io.Writer, path string) error {
	name := filepath.Base(path)
	return peer(in, out, func(line, _, id []byte) ([]byte, error) {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		line = append(append(append(line, answerHead...), id...), `,"result":{"structuredContent":`...)
		start := len(line)
		line = strictjson.AppendString(append(line, `{"resolved_path":`...), name)
		line = strictjson.AppendString(append(line, `,"content":`...), content)
		line = strconv.AppendInt(append(line, `,"bytes_read":`...), int64(len(content)), 10)
		line = append(line, `,"truncated":false,"next_offset":null,"size_bytes":`...)
		line = append(strconv.AppendInt(line, int64(len(content)), 10), '}')
		result := line[start:]
		line = append(line, `,"content":[{"type":"text","text":"`...)
		line = strictjson.AppendEscaped(line, result)
		return append(line, "\"}],\"isError\":false}}\n"...), nil
	})
}

// peer reads lines and writes what answer appends to an empty line. Lines without an id are dropped.
func peer(in io.Reader, out io.Writer, answer func(line, request, id []byte) ([]byte, error)) error {
	lines := bufio.NewReaderSize(in, peerLineBytes)
	var line []byte
	for {
		request, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		id := idDigits(request)
		if id == nil {
			continue
		}
		if line, err = answer(line[:0], request, id); err != nil {
			return err
		}
		if _, err := out.Write(line); err != nil {
			return fmt.Errorf("write an answer: %w", err)
		}
	}
}

// idDigits gives the digits behind the first "id":, nil if there are none.
func idDigits(line []byte) []byte {
	_, rest, _ := bytes.Cut(line, []byte(`"id":`))
	n := 0
	for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
		n++
	}
	if n == 0 {
		return nil
	}
	return rest[:n]
}
