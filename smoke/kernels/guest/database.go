//go:build linux && amd64

package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Where the database would be. What stands there takes connections and ends them, which is all that a sandbox is about.
const (
	databaseFolder = "/run/db"
	databaseSocket = databaseFolder + "/.s.PGSQL.5432"
	databasePort   = "127.0.0.1:5432"
	databaseName   = "db.test"
	nameServer     = "127.0.0.1:53"
)

// ways are the three kinds of addresses of a database, with the ABI from which on Landlock keeps an intruder from all
// others: TCP ports are its from 4 on, pathname sockets from 9 on, UDP, which finds a name's address, from 10 on.
var ways = []struct {
	name, dsn, plaintext string
	fullFrom             int
}{
	{"an address", "postgres://u:p@" + databasePort + "/d?sslmode=disable", "", 4},
	{"a socket", "postgres://u:p@/d?host=" + databaseFolder, "", 9},
	{"a name", "postgres://u:p@" + databaseName + "/d?sslmode=disable", databaseName, 10},
}

// peers are the stand-ins for a database and a name server.
type peers struct {
	socket, port, asked atomic.Int64 // connections that began as PostgreSQL's do; questions for the name
}

// listen begins to listen as root; the stand-ins live as long as the machine.
func (p *peers) listen() error {
	if err := os.MkdirAll(databaseFolder, 0o755); err != nil {
		return fmt.Errorf("make the folder of the socket: %w", err)
	}
	socket, err := net.Listen("unix", databaseSocket)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := os.Chmod(databaseSocket, 0o666); err != nil {
		return fmt.Errorf("open the socket to all: %w", err)
	}
	port, err := net.Listen("tcp4", databasePort)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	names, err := net.ListenPacket("udp4", nameServer)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	resolver := "nameserver 127.0.0.1\noptions timeout:5 attempts:1\n"
	if err := os.WriteFile("/etc/resolv.conf", []byte(resolver), 0o644); err != nil {
		return fmt.Errorf("name the name server: %w", err)
	}
	go take(socket, &p.socket)
	go take(port, &p.port)
	go p.answer(names)
	return nil
}

// startup is the version in the first message of a client of PostgreSQL (its documentation, "Message Formats").
const startup = 3 << 16

func take(l net.Listener, count *atomic.Int64) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		var head [8]byte
		if _, err := io.ReadFull(c, head[:]); err == nil && binary.BigEndian.Uint32(head[4:]) == startup {
			count.Add(1)
		}
		_ = c.Close()
	}
}

// answer says 127.0.0.1 to every question for an IPv4 address, and that there is none to all others (RFC 1035, 4.1).
func (p *peers) answer(names net.PacketConn) {
	question := make([]byte, 512)
	for {
		n, from, err := names.ReadFrom(question)
		if err != nil {
			return
		}
		end := 12
		for end < n && question[end] != 0 { // the labels of the one name
			end += int(question[end]) + 1
		}
		end += 5 // the root, type, class
		if end > n {
			continue
		}
		reply := append([]byte{}, question[:end]...)
		copy(reply[2:12], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}) // a response, recursion available, one question
		if binary.BigEndian.Uint16(reply[end-4:]) == 1 {
			p.asked.Add(1)
			reply[7] = 1 // one answer: the name at offset 12, A, IN, one second, four bytes
			reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1)
		}
		_, _ = names.WriteTo(reply, from) // who does not get it fails its check
	}
}

// databases checks that a daemon with a database reaches it here, by each kind of address, and says the truth about
// what else it could reach.
func (e expectation) databases(r *report) {
	var p peers
	if err := p.listen(); err != nil {
		r.check("the stand-ins for a database listen", err, "")
		return
	}
	for _, way := range ways {
		socket, port, asked := p.socket.Load(), p.port.Load(), p.asked.Load()
		level, err := e.asksDatabase(way.dsn, way.plaintext)
		want := "reduced"
		if e.abi >= way.fullFrom {
			want = "full"
		}
		if err == nil && level != want {
			err = fmt.Errorf("level %q, want %q", level, want)
		}
		reached := p.port.Load() > port
		if way.fullFrom == 9 {
			reached = p.socket.Load() > socket
		}
		if err == nil && !reached {
			err = errors.New("no connection has come")
		}
		if err == nil && way.plaintext != "" && p.asked.Load() == asked {
			err = errors.New("nobody has asked for the address of the name")
		}
		r.check("a database behind "+way.name+" is reached", err, "level "+level)
	}
}

// asksDatabase runs the daemon for one query, which the stand-in leaves unanswered, and gives the level of its posture.
func (e expectation) asksDatabase(dsn, plaintext string) (level string, err error) {
	const session = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{},"clientInfo":{"name":"guest","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read_only_sql","arguments":{"query":"SELECT 1"}}}` + "\n"
	o, err := daemon(append(e.environment(), "MCP_SQL_DSN="+dsn, "MCP_SQL_ALLOW_PLAINTEXT="+plaintext), session, "serve")
	if err != nil {
		return "", err
	}
	if o.code != 0 || !strings.Contains(o.stdout, `"id":2,`) || !strings.Contains(o.stdout, "DB_UNAVAILABLE") {
		return "", fmt.Errorf("want exit 0 and an answer that the database is not there: %v", o)
	}
	for line := range strings.Lines(o.stderr) {
		var entry struct {
			Message string   `json:"msg"`
			Posture *posture `json:"posture"`
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "posture" && entry.Posture != nil {
			return entry.Posture.Level, nil
		}
	}
	return "", fmt.Errorf("no posture in the log: %v", o)
}
