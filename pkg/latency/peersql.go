package latency

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"mcp-server-suite/pkg/strictjson"
)

// serveSQL answers every line that has an id with the rows of the query in it, in the shape of the daemon's
// read_only_sql, until in ends: on one connection, or on several side by side. settings are those of the session, name
// and value. There is no transaction, no policy, no limit and no time-out; the text of the query goes out as it stands in
// the line.
func serveSQL(in io.Reader, out io.Writer, dsnFile string, connections int, settings ...string) error {
	ctx := context.Background()
	all := make([]*pgconn.PgConn, connections)
	for i := range all {
		conn, err := connect(ctx, dsnFile, settings...)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(ctx) }() // it has nothing to say any more
		all[i] = conn
	}
	if connections == 1 {
		return peer(in, out, func(line, request, id []byte) ([]byte, error) {
			return answerQuery(ctx, all[0], line, request, id)
		})
	}
	return sideBySide(in, out, all)
}

// sideBySide gives each line to the next connection that is free.
func sideBySide(in io.Reader, out io.Writer, all []*pgconn.PgConn) error {
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	requests := make(chan []byte)
	var writing sync.Mutex
	var workers sync.WaitGroup
	for _, conn := range all {
		workers.Go(func() {
			var line []byte
			for request := range requests {
				id := idDigits(request)
				if id == nil || ctx.Err() != nil {
					continue
				}
				var err error
				// Without a context that can end: to watch one costs the statement two goroutines' switches.
				if line, err = answerQuery(context.Background(), conn, line[:0], request, id); err == nil {
					writing.Lock()
					_, err = out.Write(line)
					writing.Unlock()
				}
				if err != nil {
					stop(err)
				}
			}
		})
	}
	lines := bufio.NewReaderSize(in, peerLineBytes)
	for ctx.Err() == nil {
		request, err := lines.ReadSlice('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				stop(fmt.Errorf("read a request: %w", err))
			}
			break
		}
		requests <- bytes.Clone(request)
	}
	close(requests)
	workers.Wait()
	return context.Cause(ctx)
}

// answerQuery appends an answer to line.
func answerQuery(ctx context.Context, conn *pgconn.PgConn, line, request, id []byte) ([]byte, error) {
	_, text, _ := bytes.Cut(request, []byte(`"query":"`))
	text, _, found := bytes.Cut(text, []byte(`"`))
	if !found {
		return nil, errors.New("a request without a query")
	}
	line = append(append(append(line, answerHead...), id...), `,"result":{"structuredContent":`...)
	start := len(line)
	rows := conn.ExecParams(ctx, string(text), nil, nil, nil, nil)
	fields := rows.FieldDescriptions()
	line = append(line, `{"columns":[`...)
	for i, field := range fields {
		line = strictjson.AppendString(separated(line, i), field.Name)
	}
	line = append(line, `],"types":[`...)
	for i, field := range fields {
		line = strconv.AppendUint(separated(line, i), uint64(field.DataTypeOID), 10)
	}
	line = append(line, `],"rows":[`...)
	count := 0
	for ; rows.NextRow(); count++ {
		line = append(separated(line, count), '[')
		for i, value := range rows.Values() {
			if line = separated(line, i); value == nil {
				line = append(line, "null"...)
			} else {
				line = strictjson.AppendString(line, value)
			}
		}
		line = append(line, ']')
	}
	if _, err := rows.Close(); err != nil {
		return nil, fmt.Errorf("run a query: %w", err)
	}
	line = strconv.AppendInt(append(line, `],"row_count":`...), int64(count), 10)
	line = append(line, `,"truncated":false,"truncated_by":null,"max_rows":50,"in_recovery":false,`+
		`"flagged_columns":[],"note":null}`...)
	result := line[start:]
	line = append(line, `,"content":[{"type":"text","text":"`...)
	line = strictjson.AppendEscaped(line, result)
	return append(line, "\"}],\"isError\":false}}\n"...), nil
}

func separated(line []byte, i int) []byte {
	if i > 0 {
		line = append(line, ',')
	}
	return line
}
