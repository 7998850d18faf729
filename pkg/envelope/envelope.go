package envelope

import (
	"strconv"

	"mcp-server-suite/pkg/strictjson"
)

// The JSON-RPC 2.0 error codes that this server puts on the wire (section 5.1).
const (
	ParseError     = -32700
	InvalidRequest = -32600
	MethodNotFound = -32601
	InvalidParams  = -32602
	InternalError  = -32603
)

// MaxIDBytes is the longest id that is taken, as it is written. Ids of waiting calls are kept and come back escaped, up to
// six times as long; without a bound of their own a few hundred of them fill the memory (measured: 400 ids of 1 MiB).
const MaxIDBytes = 16 << 10

// Kind is what a message is.
type Kind uint8

// The kinds of JSON-RPC 2.0 messages (sections 4, 4.1 and 5).
const (
	Request Kind = iota
	Notification
	Response
)

// ID is the id of a request as it was written. The zero value stands for no id and is written as null.
type ID struct{ raw []byte }

// Key gives two ids the same text exactly if they are the same value: 1 and "1" differ, "a" and "\u0061" do not.
func (id ID) Key() string {
	if s, ok := strictjson.String(id.raw); ok {
		return `"` + s
	}
	if string(id.raw) == "-0" {
		return "0"
	}
	return string(id.raw)
}

// Append appends the id as an equal JSON value in ASCII.
func (id ID) Append(dst []byte) []byte {
	if id.raw == nil {
		return append(dst, "null"...)
	}
	return strictjson.AppendASCII(dst, id.raw)
}

// Size is how many bytes the id has as it was written.
func (id ID) Size() int { return len(id.raw) }

// Clone returns the id with memory of its own.
func (id ID) Clone() ID { return ID{append([]byte(nil), id.raw...)} }

// Message is one accepted message. ID and Params alias the line; Params is nil or the raw text of an object.
type Message struct {
	Kind   Kind
	ID     ID
	Method string
	Params []byte
}

// Rejection answers a line that is no message: a JSON-RPC error code, a fixed text, optional raw JSON for error.data,
// and the id as far as it could be read and trusted.
type Rejection struct {
	Code int
	Text string
	Data string
	ID   ID
}

// TooLong answers a line that framing has dropped (seed 000, wire specification).
func TooLong(maxFrameBytes int) *Rejection {
	return &Rejection{
		Code: InvalidRequest, Text: "Invalid Request: frame too large",
		Data: `{"max_frame_bytes":` + strconv.Itoa(maxFrameBytes) + `}`,
	}
}

// Parser checks lines; it keeps scratch memory between them and is not safe for concurrent use.
type Parser struct{ scanner strictjson.Scanner }

// Parse returns the message of one line, or the rejection that answers it; never both.
func (p *Parser) Parse(line []byte) (Message, *Rejection) {
	doc, err := p.scanner.Scan(line)
	if err != nil {
		return Message{}, unreadable(err)
	}
	switch doc.Value[0] {
	case '{':
	case '[':
		return Message{}, &Rejection{Code: InvalidRequest, Text: "Invalid Request: batches are not supported"}
	default:
		return Message{}, &Rejection{Code: InvalidRequest, Text: "Invalid Request: a message is an object"}
	}
	if doc.DuplicateKey == strictjson.AtTop { // which id is meant cannot be told
		return Message{}, &Rejection{Code: InvalidRequest, Text: "Invalid Request: duplicate object key"}
	}
	return assemble(doc)
}

func unreadable(err error) *Rejection {
	text := "Parse error"
	switch err {
	case strictjson.ErrUTF8:
		text = "Parse error: invalid UTF-8"
	case strictjson.ErrDepth:
		text = "Parse error: nested too deeply"
	}
	return &Rejection{Code: ParseError, Text: text}
}

// parts are the raw values of the members that an envelope may have; nil where absent.
type parts struct {
	version, id, method, params, result, failure []byte
	unknown                                      bool
}

func split(members []strictjson.Member) (p parts) {
	for _, m := range members {
		switch string(m.Key) {
		case "jsonrpc":
			p.version = m.Value
		case "id":
			p.id = m.Value
		case "method":
			p.method = m.Value
		case "params":
			p.params = m.Value
		case "result":
			p.result = m.Value
		case "error":
			p.failure = m.Value
		default:
			p.unknown = true
		}
	}
	return p
}

func assemble(doc strictjson.Document) (Message, *Rejection) {
	p := split(doc.Members)
	if p.method == nil && (p.result != nil || p.failure != nil) {
		// Ignored (seed 000), however malformed: its id is one of ours, and an error sent back with it would answer
		// whatever the client has asked under the same id.
		return Message{Kind: Response}, nil
	}
	var id ID
	if len(p.id) <= MaxIDBytes && (strictjson.IsString(p.id) || strictjson.IsInteger(p.id)) {
		id.raw = p.id
	}
	reject := func(text string) (Message, *Rejection) {
		return Message{}, &Rejection{Code: InvalidRequest, Text: "Invalid Request: " + text, ID: id}
	}
	if version, ok := strictjson.String(p.version); !ok || version != "2.0" {
		return reject(`jsonrpc must be "2.0"`)
	}
	if doc.DuplicateKey != strictjson.Nowhere {
		return reject("duplicate object key")
	}
	if len(p.id) > MaxIDBytes {
		return reject("id is too long")
	}
	if p.id != nil && id.raw == nil {
		return reject("id must be a string or an integer")
	}
	if p.unknown || p.result != nil || p.failure != nil {
		return reject("unknown envelope member")
	}
	method, ok := strictjson.String(p.method)
	if !ok {
		return reject("method must be a string")
	}
	if p.params != nil && !strictjson.IsObject(p.params) {
		return reject("params must be an object")
	}
	kind := Request
	if p.id == nil {
		kind = Notification
	}
	return Message{Kind: kind, ID: id, Method: method, Params: p.params}, nil
}

// AppendError appends one error response (section 5.1) with its newline. data is raw JSON or nil.
func AppendError(dst []byte, id ID, code int, text string, data []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = id.Append(dst)
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"message":`...)
	dst = strictjson.AppendString(dst, text)
	if len(data) > 0 {
		dst = append(dst, `,"data":`...)
		dst = append(dst, data...)
	}
	return append(dst, "}}\n"...)
}

// Append appends the rejection as an error response with its newline.
func (r *Rejection) Append(dst []byte) []byte {
	return AppendError(dst, r.ID, r.Code, r.Text, []byte(r.Data))
}

// AppendResultHead appends a success response up to where the raw JSON of the result goes; AppendResultTail ends it.
func AppendResultHead(dst []byte, id ID) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = id.Append(dst)
	return append(dst, `,"result":`...)
}

// AppendResultTail ends a success response, with its newline.
func AppendResultTail(dst []byte) []byte { return append(dst, "}\n"...) }
