package rawclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Answer is one response of a server.
type Answer struct {
	ID     json.RawMessage
	Result json.RawMessage // nil if Error is set
	Error  *Error
}

// Error is the error member of a response (JSON-RPC 2.0, section 5.1).
type Error struct {
	Code    int
	Message string
	Data    json.RawMessage
}

// Decode reads a line as a response and checks what holds for every line of a server that asks nothing and notifies of
// nothing (seed 000, wire specification): ASCII, one JSON object, jsonrpc 2.0, an id, exactly one of result and error, and
// no further member.
func Decode(line []byte) (Answer, error) {
	for _, c := range line {
		if c < ' ' || c > '~' {
			return Answer{}, fmt.Errorf("byte %#x in the output", c)
		}
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil {
		return Answer{}, fmt.Errorf("decode the answer: %w", err)
	}
	a := Answer{ID: members["id"], Result: members["result"]}
	failure := members["error"]
	switch {
	case string(members["jsonrpc"]) != `"2.0"`:
		return Answer{}, errors.New("jsonrpc is not 2.0")
	case a.ID == nil:
		return Answer{}, errors.New("the answer has no id")
	case (a.Result == nil) == (failure == nil):
		return Answer{}, errors.New("not exactly one of result and error")
	case len(members) != 3:
		return Answer{}, errors.New("the answer has a further member")
	case a.Result != nil:
		return a, nil
	}
	d := json.NewDecoder(bytes.NewReader(failure))
	d.DisallowUnknownFields()
	if err := d.Decode(&a.Error); err != nil || a.Error == nil || a.Error.Code == 0 || a.Error.Message == "" {
		return Answer{}, errors.New("the error has not the members code, message and maybe data")
	}
	return a, nil
}

// Request sends a request and has its answer kept for Await. The id is raw JSON as in 7 or "seven", in the spelling in
// which the server will write it. params is raw JSON; "" sends none.
func (c *Client) Request(id, method, params string) error {
	c.mu.Lock()
	_, twice := c.awaited[id]
	if !twice {
		c.awaited[id] = make(chan []byte, 1)
	}
	c.mu.Unlock()
	if twice {
		return fmt.Errorf("the answer to id %s is awaited already", id)
	}
	return c.Send(message(id, method, params))
}

// Await returns the answer to a Request as it came, without its newline. After an error other than a timeout it does
// not come any more.
func (c *Client) Await(id string) ([]byte, error) {
	c.mu.Lock()
	answer := c.awaited[id]
	c.mu.Unlock()
	if answer == nil {
		return nil, fmt.Errorf("no request with id %s is under way", id)
	}
	line, err := c.receive(answer)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fmt.Errorf("id %s: %w", id, err)
	}
	c.Forget(id)
	return line, err
}

func (c *Client) receive(answer chan []byte) ([]byte, error) {
	timer := time.NewTimer(c.patience)
	defer timer.Stop()
	select {
	case line := <-answer:
		return line, nil
	case <-timer.C:
		return nil, fmt.Errorf("no answer within %v: %w", c.patience, os.ErrDeadlineExceeded)
	case <-c.ended:
	}
	select { // the last answer and the end may have come together
	case line := <-answer:
		return line, nil
	default:
		return nil, c.endErr
	}
}

// Forget stops awaiting the answer to a Request, for one that was cancelled. If it comes, Line returns it.
func (c *Client) Forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.awaited, id)
}

// Call sends a request under an id of its own and returns the decoded answer.
func (c *Client) Call(method, params string) (Answer, error) {
	id := strconv.FormatInt(c.lastID.Add(1)+1<<40, 10) // out of the way of the caller's ids
	if err := c.Request(id, method, params); err != nil {
		return Answer{}, err
	}
	line, err := c.Await(id)
	if err != nil {
		return Answer{}, err
	}
	return Decode(line)
}

// Notify sends a notification. params is raw JSON; "" sends none.
func (c *Client) Notify(method, params string) error { return c.Send(message("", method, params)) }

// Handshake opens the session with this protocol version and returns the answer to initialize.
func (c *Client) Handshake(version string) (Answer, error) {
	params := fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"rawclient","version":"1"}}`, version)
	a, err := c.Call("initialize", params)
	if err != nil {
		return Answer{}, err
	}
	return a, c.Notify("notifications/initialized", "")
}

func message(id, method, params string) []byte {
	m := []byte(`{"jsonrpc":"2.0"`)
	if id != "" {
		m = append(append(m, `,"id":`...), id...)
	}
	m = append(append(append(m, `,"method":"`...), method...), '"')
	if params != "" {
		m = append(append(m, `,"params":`...), params...)
	}
	return append(m, "}\n"...)
}
