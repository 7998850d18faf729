package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/puddle/v2"

	"mcp-server-suite/pkg/problem"
)

const (
	// maxLifetime is the longest that a connection serves; one that nobody uses is closed within half of it more. With several hosts it is how long reads stay on a primary after its
	// standby has come back (measured: with pgx's default of one hour, they stay for that).
	maxLifetime = 5 * time.Minute

	// cancelWait is how long the server may take to end a cancelled statement before the connection is closed instead;
	// 139 ms is the longest that was measured on a quiet machine, 0.95 s on one with a load of 30.
	cancelWait = 2 * time.Second

	// minMessageBytes is the least that one message of the server may hold: a row of a default result, twice and more, and
	// every error text.
	minMessageBytes = 256 << 10
)

// DB is a pool of connections that are made when they are first needed.
type DB struct {
	settings Settings
	target   target // as it was at the start; later readings may change user and password only
	base     *pgconn.Config
	pool     *puddle.Pool[*conn]
	pins     pins
	shared   atomic.Bool    // what stands there takes no startup parameters
	lifetime atomic.Int64   // maxLifetime; a field for the sake of tests
	closed   chan struct{}  // ends tidying
	closing  sync.WaitGroup // connections that are being closed, and tidying
}

// conn is one connection with what is known of its server.
type conn struct {
	*pgconn.PgConn
	limits string // the SELECT that pins the session
	meter  *meter
}

// Open checks the settings and reads the DSN. It connects to nothing: the server may come up later. What it needs from
// the system later on is in [Settings.Needs].
func Open(s Settings) (*DB, error) { return open(s, maxLifetime) }

func open(s Settings, lifetime time.Duration) (*DB, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	t, err := s.read()
	if err != nil {
		return nil, err
	}
	d := &DB{settings: s, target: t, pins: newPins(s), closed: make(chan struct{})}
	d.lifetime.Store(int64(lifetime))
	if d.base, err = d.config(t); err != nil {
		return nil, err
	}
	d.pool, err = puddle.NewPool(&puddle.Config[*conn]{
		Constructor: d.connect,
		Destructor:  d.disconnect,
		MaxSize:     int32(s.PoolSize), // #nosec G115 -- checked to be at most maxPool
	})
	if err != nil {
		return nil, fmt.Errorf("make pool: %w", err)
	}
	d.closing.Go(func() { d.tidy(lifetime / 2) })
	return d, nil
}

// tidy closes what has outlived its time and is not in use, so that a session that has asked once does not hold
// connections of the server for ever.
func (d *DB) tidy(every time.Duration) {
	turn := time.NewTicker(every)
	defer turn.Stop()
	for {
		select {
		case <-d.closed:
			return
		case <-turn.C:
		}
		for _, r := range d.pool.AcquireAllIdle() {
			if d.fit(r) {
				r.ReleaseUnused()
			} else {
				r.Destroy()
			}
		}
	}
}

// fit says that a connection that is not in use may serve the next statement.
func (d *DB) fit(r *puddle.Resource[*conn]) bool {
	return time.Since(r.CreationTime()) <= time.Duration(d.lifetime.Load()) && !r.Value().IsClosed() && r.Value().silent() &&
		r.Value().meter.parameters.Load() <= maxParameterBytes
}

// Close ends every connection and waits for it; none may be in use. It is called once.
func (d *DB) Close() error {
	close(d.closed)
	d.pool.Close()
	d.closing.Wait()
	return nil
}

// config is the target in pgconn's form.
func (d *DB) config(t target) (*pgconn.Config, error) {
	c, err := pgconn.ParseConfig(t.connString(d.settings.ApplicationName))
	if err != nil {
		// Its text shows the connection string, with the password cut out as well as pgconn can.
		return nil, errors.New("read DSN: a certificate or key that it names cannot be read, or does not fit")
	}
	if t.trustsSystem() {
		// Now: the first handshake would look for the files when nothing can be opened any more.
		roots, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("read the system's certificates: %w", err)
		}
		if c.TLSConfig != nil {
			c.TLSConfig.RootCAs = roots
		}
		for _, f := range c.Fallbacks {
			if f.TLSConfig != nil {
				f.TLSConfig.RootCAs = roots
			}
		}
	}
	c.RuntimeParams = map[string]string{"application_name": d.settings.ApplicationName, "client_encoding": "UTF8"}
	c.ConnectTimeout = d.settings.ConnectTimeout
	c.DialFunc = (&net.Dialer{Timeout: d.settings.ConnectTimeout, KeepAlive: keepAlive}).DialContext
	c.MaxProtocolMessageBodyLen = max(minMessageBytes, 2*d.settings.ResultBytes)
	c.BuildContextWatcherHandler = func(p *pgconn.PgConn) ctxwatch.Handler {
		return &canceller{conn: p}
	}
	return c, nil
}

// keepAlive is how often an idle connection is probed, so that a server that has vanished is noticed while a statement
// waits for it.
const keepAlive = 15 * time.Second

// connect makes one connection and learns what its server is. It fails where the role could do harm.
func (d *DB) connect(ctx context.Context) (_ *conn, err error) {
	defer func() { // in a goroutine of the pool, where a panic would end the process
		if cause := recover(); cause != nil {
			err = fmt.Errorf("connect: panic: %T", cause)
		}
	}()
	t := d.target
	if d.settings.DSNFile != "" {
		now, err := d.settings.read()
		if err != nil {
			return nil, err
		}
		if !now.sameServer(t) {
			return nil, errors.New("read DSN file: it names another server than at the start; restart to go there")
		}
		t = now
	}
	// pgconn bounds each host by its own timeout; this bounds their sum, and what is asked below.
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(t.endpoints)+1)*d.settings.ConnectTimeout)
	defer cancel()
	c := d.base.Copy()
	c.User, c.Password = t.user, t.password
	made, err := d.dial(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := d.admit(ctx, made); err != nil {
		d.disconnect(made)
		return nil, err
	}
	return made, nil
}

// dial connects, on a session of our own if one can be had.
func (d *DB) dial(ctx context.Context, c *pgconn.Config) (*conn, error) {
	own := !d.settings.Pooler && !d.shared.Load()
	if own {
		maps.Copy(c.RuntimeParams, d.pins.startup())
	}
	dialer, open := sameServer(c.DialFunc)
	c.DialFunc = dialer
	bound := &meter{}
	bound.left.Store(connectBytes)
	c.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		bound.from = r
		return pgproto3.NewFrontend(bound, w)
	}
	pg, err := pgconn.ConnectConfig(ctx, c)
	var server *pgconn.PgError
	if own && errors.As(err, &server) && slices.Contains(notTaken, server.Code) {
		// A pooler, or a server that lacks a setting (PgBouncer: "unsupported startup parameter"): then as behind a pooler.
		d.shared.Store(true)
		again := d.base.Copy()
		again.User, again.Password = c.User, c.Password
		return d.dial(ctx, again)
	}
	if err != nil {
		return nil, err
	}
	open()
	made := &conn{PgConn: pg, limits: d.pins.shared(pg.ParameterStatus("server_version")), meter: bound}
	if own {
		answer := pg.ExecParams(ctx, d.pins.question(), nil, nil, nil, nil)
		if answer.NextRow() {
			if text, ok := d.pins.own(answer.Values(), pg.ParameterStatus("server_version")); ok {
				made.limits = text
			}
		}
		if _, err := answer.Close(); err != nil {
			d.disconnect(made)
			return nil, fmt.Errorf("look at the session: %w", err)
		}
	}
	return made, nil
}

// notTaken are the SQLSTATEs of a startup parameter that is not known, has a wrong value, or is not passed on.
var notTaken = []string{"08P01", "42704", "22023"}

// admit refuses a role that may do more than read.
func (d *DB) admit(ctx context.Context, c *conn) error {
	if d.settings.AllowUnsafeRole {
		return nil
	}
	faults, err := unsafeRole(ctx, c.PgConn)
	if err != nil {
		return err
	}
	if len(faults) == 0 {
		return nil
	}
	// One line for each attempt: the names are the operator's, and doctor has them all.
	d.settings.Log.Error("the database role may do more than read", "first", faults[0].Kind, "object", faults[0].Object,
		"kinds", len(faults), "hint", "mcp-server-suite doctor lists all and prints the SQL of a right role; "+
			"MCP_SQL_ALLOW_UNSAFE_ROLE=true serves all the same")
	return problem.New(problem.DBUnsafeRole, "the database role of this server may do more than read, so no query is run; its "+
		"operator must act")
}

// disconnect closes a connection without making anybody wait.
func (d *DB) disconnect(c *conn) {
	d.closing.Add(1)
	go func() {
		defer d.closing.Done()
		ctx, cancel := context.WithTimeout(context.Background(), cancelWait)
		defer cancel()
		_ = c.Close(ctx) // on a broken connection it fails; it is gone all the same
		select {
		case <-c.CleanupDone():
		case <-ctx.Done():
		}
	}()
}

// acquire takes a connection that is free, or makes one.
func (d *DB) acquire(ctx context.Context) (*puddle.Resource[*conn], error) {
	wait, cancel := context.WithTimeout(ctx, time.Duration(len(d.target.endpoints)+1)*d.settings.ConnectTimeout)
	defer cancel()
	// A connection that is being made may take each host's time; one that is in use is not waited for so long.
	full := time.AfterFunc(d.settings.ConnectTimeout, func() {
		if d.pool.Stat().ConstructingResources() == 0 {
			cancel()
		}
	})
	defer full.Stop()
	for {
		r, err := d.pool.Acquire(wait)
		if err == nil && !d.fit(r) {
			r.Destroy()
			continue
		}
		if err == nil {
			return r, nil
		}
		return nil, d.noConnection(ctx, wait, err)
	}
}

// silent says whether nothing has come on an idle connection. What comes there is its end, with or without a last word
// of the server's (57P01, 57P05), and to see that before a statement is sent is better than to wonder afterwards
// whether the statement was the reason. One read(2) of a socket that does not block: 1 us.
//
// It must not wait for its turn to read: after a slow write pgconn leaves a goroutine behind that reads until the next
// answer comes.
func (c *conn) silent() bool {
	raw := c.Conn()
	if encrypted, ok := raw.(*tls.Conn); ok {
		raw = encrypted.NetConn()
	}
	socket, ok := raw.(syscall.Conn)
	if !ok {
		return true // nothing that a dialer of ours gives
	}
	access, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	var b [1]byte // lost when there is one, with the connection
	var read error
	err = access.Control(func(fd uintptr) { _, read = syscall.Read(int(fd), b[:]) })
	return err == nil && read == syscall.EAGAIN
}

// retryAfterMS is the advice where all connections are in use, in milliseconds: most queries take less.
const retryAfterMS = 1000

// noConnection says why there is none: the call has ended, all are in use, or the server cannot be reached.
func (d *DB) noConnection(ctx, wait context.Context, err error) error {
	var known *problem.Problem
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &known):
		return known
	case wait.Err() != nil && d.pool.Stat().ConstructingResources() == 0:
		busy := problem.New(problem.Busy, "all connections to the database are in use (MCP_SQL_POOL_MAX_SIZE); wait and repeat")
		busy.RetryAfterMS = retryAfterMS
		return busy
	case wait.Err() != nil:
		return problem.New(problem.DBUnavailable, "the database does not answer; wait and repeat")
	}
	p, why := unreachable(err), cause(err)
	if p != nil && (why == "" || p.Reason == problem.DBRejected) {
		why = p.Detail
	}
	d.settings.Log.Warn("no connection to the database", "cause", why)
	if p != nil {
		return p
	}
	return fmt.Errorf("connect: %s", why)
}

// cause is an error of connecting for the log: its kind, without the addresses, names and server texts that pgconn puts
// around it; "" where there is none that says more than unreachable does.
func cause(err error) string {
	var server *pgconn.PgError
	var address *net.AddrError
	var dns *net.DNSError
	var operation *net.OpError
	switch {
	case errors.As(err, &server):
		return "SQLSTATE " + printable(server.Code)
	case errors.As(err, &dns):
		return "the name cannot be resolved"
	case errors.As(err, &address):
		return "the address is not valid"
	case errors.As(err, &operation):
		return operation.Op + ": " + inner(operation.Err)
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	if errors.As(err, new(*pgconn.ConnectError)) {
		return ""
	}
	return err.Error() // ours
}

func inner(err error) string {
	if unwrapped := errors.Unwrap(err); unwrapped != nil {
		return unwrapped.Error()
	}
	return err.Error()
}

func isAddress(host string) bool { return net.ParseIP(host) != nil }

// level is for the one log line of an event that must not happen.
const level = slog.LevelError + 4
