package pgstage

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Address returns where the server listens: the path of its socket, or host:port. See NewProxy.
func (s *Server) Address(viaSocket bool) string {
	if viaSocket {
		return filepath.Join(s.SocketDir, ".s.PGSQL."+strconv.Itoa(s.Port))
	}
	return net.JoinHostPort(Host, strconv.Itoa(s.Port))
}

// Proxy passes connections on to a server, and stops doing so when a test says so. It listens on TCP and on a socket
// that is named like that of a server, see DSNAt. Its methods may be called by several goroutines.
type Proxy struct {
	Port      int
	SocketDir string

	mu     sync.Mutex
	target string
	delay  time.Duration
	open   chan struct{} // closed while it is not paused
	pairs  map[*pair]struct{}
	closed bool
	wg     sync.WaitGroup
}

// pair is a connection of a client with the one to the server.
type pair struct {
	mu    sync.Mutex
	conns []net.Conn
	cut   chan struct{} // closed when both are
	once  sync.Once
}

// NewProxy starts a proxy in front of a target: an absolute path is a socket, everything else host:port of TCP. It
// ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	all, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{SocketDir: all, target: target, open: make(chan struct{}), pairs: map[*pair]struct{}{}}
	close(p.open)
	listeners, err := p.listen()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range listeners {
		p.wg.Go(func() { p.accept(l) })
	}
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		for _, l := range listeners {
			_ = l.Close() // accept ends by it
		}
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// listen listens on a free port and on the socket with its number.
func (p *Proxy) listen() ([]net.Listener, error) {
	tcp, err := net.Listen("tcp", net.JoinHostPort(Host, "0")) // it is never left and taken again: any port will do
	if err != nil {
		return nil, fmt.Errorf("listen for the proxy: %w", err)
	}
	p.Port = tcp.Addr().(*net.TCPAddr).Port
	path := filepath.Join(p.SocketDir, ".s.PGSQL."+strconv.Itoa(p.Port))
	local, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o777)
	}
	if err != nil {
		_ = tcp.Close() // the first error says more
		return nil, fmt.Errorf("listen for the proxy: %w", err)
	}
	return []net.Listener{tcp, local}, nil
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		c := &pair{conns: []net.Conn{client}, cut: make(chan struct{})}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			c.close()
			return
		}
		p.pairs[c] = struct{}{}
		p.mu.Unlock()
		p.wg.Go(func() { p.serve(c, client) })
	}
}

// serve connects a client to the target and passes on in both directions until one side ends.
func (p *Proxy) serve(c *pair, client net.Conn) {
	defer func() {
		c.close()
		p.mu.Lock()
		delete(p.pairs, c)
		p.mu.Unlock()
	}()
	if !p.pass(c) {
		return
	}
	p.mu.Lock()
	network, target := "tcp", p.target
	p.mu.Unlock()
	if filepath.IsAbs(target) {
		network = "unix"
	}
	server, err := net.DialTimeout(network, target, patience)
	if err != nil || !c.add(server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.pump(c, server, client) })
	both.Go(func() { p.pump(c, client, server) })
	both.Wait()
}

// pump passes on what comes from one side, and its end. What is under way when a pause begins is held, the end too: a
// client must not learn from a network that is down that the server has closed.
func (p *Proxy) pump(c *pair, to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !p.pass(c) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				c.close()
				return
			}
		}
		if err != nil {
			c.close()
			return
		}
	}
}

// pass waits for the delay, then as long as the proxy is paused. It returns false when the connection has been cut.
func (p *Proxy) pass(c *pair) bool {
	p.mu.Lock()
	delay := p.delay
	p.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-c.cut:
			return false
		}
	}
	p.mu.Lock()
	open := p.open
	p.mu.Unlock()
	select {
	case <-open:
		return true
	case <-c.cut:
		return false
	}
}

// add gives the pair its second connection, unless it has been cut.
func (c *pair) add(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.cut:
		_ = conn.Close() // nobody uses it
		return false
	default:
		c.conns = append(c.conns, conn)
		return true
	}
}

func (c *pair) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.once.Do(func() { close(c.cut) })
	for _, conn := range c.conns {
		_ = conn.Close() // a pair is closed from several sides
	}
}

// Pause stops passing on: connections are still accepted and stay open, and nobody hears anything, as when packets are
// dropped on the way.
func (p *Proxy) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
		p.open = make(chan struct{})
	default:
	}
}

// Resume passes on what a pause has held, as the repetitions of TCP would, and what comes after it.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
	default:
		close(p.open)
	}
}

// Cut closes all connections at once, on TCP with a reset; both sides see it. New ones are accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		c.reset()
	}
}

// reset makes closing discard what was not sent, and tell the other side so (SO_LINGER of 0 seconds, socket(7)).
func (c *pair) reset() {
	c.mu.Lock()
	for _, conn := range c.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // it may have been closed
		}
	}
	c.mu.Unlock()
	c.close()
}

// Delay makes everything (32 KiB at most at a time) wait this long in each direction; so does a new connection.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Target is where connections lead from now on, see NewProxy. Those that are open stay where they are.
func (p *Proxy) Target(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = address
}

// Connections returns how many clients are connected.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pairs)
}
