package conformance

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

// wire is the way to the store: it counts what goes over it, and cuts it where
// it is told to. It knows nothing of the protocol.
type wire struct {
	dials          atomic.Int64
	sent, received atomic.Int64 // bytes since the last cutAfter

	mu      sync.Mutex
	conns   map[*wireConn]bool
	cutSent int64 // cut once so many bytes were sent; < 0: never
	cutRecv int64
	held    bool // nothing that comes back is handed over
}

func newWire() *wire { return &wire{conns: map[*wireConn]bool{}, cutSent: -1, cutRecv: -1} }

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.dials.Add(1)
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	wc := &wireConn{Conn: conn, w: w}
	w.mu.Lock()
	w.conns[wc] = true
	w.mu.Unlock()
	return wc, nil
}

// cutAfter cuts every connection once so many bytes were sent, or received,
// from now on; a negative number is never. New connections can be made after
// the cut, so that a client that retries reaches the store again.
func (w *wire) cutAfter(sent, received int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent.Store(0)
	w.received.Store(0)
	w.cutSent, w.cutRecv = sent, received
}

func (w *wire) cut() {
	w.mu.Lock()
	w.cutSent, w.cutRecv = -1, -1
	all := w.conns
	w.conns = map[*wireConn]bool{}
	w.mu.Unlock()
	for c := range all {
		c.closed.Store(true)
		_ = c.Conn.Close()
	}
}

// hold keeps what comes back until it is released.
func (w *wire) hold(held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = held
}

func (w *wire) limits() (sent, received int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cutSent, w.cutRecv
}

type wireConn struct {
	net.Conn
	w        *wire
	closed   atomic.Bool
	deadline atomic.Int64 // of reads, Unix ns; 0: none
}

// SetDeadline is noted, as a held read ends with it too.
func (c *wireConn) SetDeadline(t time.Time) error {
	c.noteDeadline(t)
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline is noted too.
func (c *wireConn) SetReadDeadline(t time.Time) error {
	c.noteDeadline(t)
	return c.Conn.SetReadDeadline(t)
}

func (c *wireConn) noteDeadline(t time.Time) {
	if t.IsZero() {
		c.deadline.Store(0)
		return
	}
	c.deadline.Store(t.UnixNano())
}

// wait is for as long as the wire is held, and ends as a read would.
func (c *wireConn) wait() error {
	for {
		c.w.mu.Lock()
		held := c.w.held
		c.w.mu.Unlock()
		d := c.deadline.Load()
		switch {
		case c.closed.Load():
			return net.ErrClosed
		case !held:
			return nil
		case d != 0 && time.Now().UnixNano() >= d:
			return os.ErrDeadlineExceeded
		}
		time.Sleep(time.Millisecond)
	}
}

// Write passes on what still may be sent; the rest is lost with the connection.
func (c *wireConn) Write(b []byte) (int, error) {
	limit, _ := c.w.limits()
	if left := limit - c.w.sent.Load(); limit >= 0 && int64(len(b)) >= left {
		n, _ := c.Conn.Write(b[:max(0, left)])
		c.w.sent.Add(int64(n))
		c.w.cut()
		return n, net.ErrClosed
	}
	n, err := c.Conn.Write(b)
	c.w.sent.Add(int64(n))
	return n, err
}

// Read hands over what still may be received, and then cuts.
func (c *wireConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if herr := c.wait(); herr != nil {
		return 0, herr
	}
	_, limit := c.w.limits()
	if left := limit - c.w.received.Load(); n > 0 && limit >= 0 && int64(n) > left {
		c.w.received.Add(int64(n))
		c.w.cut()
		if left > 0 {
			return int(left), nil
		}
		return 0, net.ErrClosed
	}
	c.w.received.Add(int64(n))
	return n, err
}

func (c *wireConn) Close() error {
	c.closed.Store(true)
	c.w.mu.Lock()
	delete(c.w.conns, c)
	c.w.mu.Unlock()
	return c.Conn.Close()
}

// wireUndeclared compares what is declared of dial with what happens.
func wireUndeclared(ctx context.Context, c *C) {
	w := newWire()
	h := c.fresh(ctx, sdk.OpenOptions{Dial: w.dial})
	r := c.resource()
	o := ownerOf(r, 7, "")
	c.accept(ctx, h, o.put(1, "op-1", "k", "1"))
	c.wantState(ctx, h, r, o.state(1))
	declared := c.Description().Supports(sdk.CapDial) == sdk.Supported
	switch dials := w.dials.Load(); {
	case declared && dials == 0:
		c.errorf("every connection through OpenOptions.Dial, as declared", "none was opened through it")
	case !declared && dials > 0:
		c.errorf("dial declared as supported, or not used", "%d connections through OpenOptions.Dial", dials)
	}
}
