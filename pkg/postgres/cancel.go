package postgres

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// canceller asks the server to end the statement of a connection whose context has ended, and closes nothing.
//
// It is not pgconn.CancelRequestContextWatcherHandler, which drops the request's connection as soon as the statement
// has ended. PgBouncer 1.18 (Debian 12) dies of that with all its clients ("bad client state: 0", by the second cancel
// here), and a request that was dropped may still arrive, against which pgconn waits 100 ms in the hope that it is
// enough. This one waits until the server has closed the request's connection, which it does after it has sent the
// signal (processCancelRequest): a cancelled call ends within some milliseconds instead of 104 to 111.
type canceller struct {
	conn *pgconn.PgConn
	done chan struct{} // closed when the server has taken the request, or had no time left
}

var _ ctxwatch.Handler = (*canceller)(nil)

// HandleCancel begins to cancel. After cancelWait the connection is given up.
func (c *canceller) HandleCancel(context.Context) {
	c.done = make(chan struct{})
	deadline := time.Now().Add(cancelWait)
	_ = c.conn.Conn().SetDeadline(deadline) // it fails on a closed connection, which needs none
	// #nosec G118 -- the request outlives the context whose end is the reason for it
	go func() {
		defer close(c.done)
		ctx, stop := context.WithDeadline(context.Background(), deadline)
		defer stop()
		_ = c.conn.CancelRequest(ctx) // the deadline ends what it could not
	}()
}

// HandleUnwatchAfterCancel waits for the end of the request.
func (c *canceller) HandleUnwatchAfterCancel() {
	<-c.done
	_ = c.conn.Conn().SetDeadline(time.Time{}) // as above
}

// sameServer is a dialer for one connection to one of a list of servers. Once that is open, what is dialed next (a
// cancel request) goes where it went: of a connection by a unix socket, whose path the kernel need not know, pgconn
// would send it to the first server of the list.
func sameServer(dial pgconn.DialFunc) (dialer pgconn.DialFunc, open func()) {
	var way, where string
	var isOpen atomic.Bool
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if !isOpen.Load() {
			way, where = network, address
		} else if way == "unix" {
			network, address = way, where
		}
		return dial(ctx, network, address)
	}, func() { isOpen.Store(true) }
}
