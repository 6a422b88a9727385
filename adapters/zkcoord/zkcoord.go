// Package zkcoord is a coordinator under a path of a ZooKeeper ensemble, 3.8 or
// newer.
//
// A resource is a node, named by a hash, with
//
//	s    the sequence: the highest token in decimal
//	h    the holder, ephemeral
//	q/   the waiters, ephemeral and sequential; the name carries the attempt's ID
//	r/   a record for each request, persistent
//
// A grant is one multi: it sets the sequence from the version that was read,
// creates the holder and the request's record (R1, R2, R4). The token is the
// content of s, never the suffix of a sequential node, which has 32 bits and
// starts again with its parent (C30, C106). A multi whose answer was lost is not
// sent again: the record tells.
//
// What is answered is confirmed by a multi that only checks versions, since a read
// of ZooKeeper may lag.
//
// # Leases
//
// The holder's node lives with the session of the handle that granted or last
// renewed it, so the end of that session is the end of the lease, and a TTL beyond
// the session's timeout is refused. A lease that nobody renews is ended by its
// handle, by its own clock, if no renewal came by another handle meanwhile.
// Renewing through another handle moves the holder's node to that one's session.
//
// That a session is over the client hears only once it is connected again. So
// nothing is counted from silence: [registry.Record.Until] counts from before a
// request that the server answered, over the TTL, which is within the session's
// timeout (C79).
//
// # Limits
//
// Closing a handle ends its session and with it the leases that live there. A
// handle's Until of a lease that lives on another's session is now: that one, or
// Renew, tells more. Records of requests are kept for good (R2 asks for a day). A
// restored ensemble refuses clients that saw more than it knows: a handle from
// before then answers NOT_APPLIED, and a new one is told by the registry's marks.
package zkcoord

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/clock"
	"github.com/fencedstore/fencedstore/sdk/registry"
	"github.com/go-zookeeper/zk"
)

// Scheme begins a DSN: zookeeper://HOST:PORT[,HOST:PORT…]/PREFIX[?session=30s]
const Scheme = "zookeeper://"

// DefaultSession is the session timeout that is asked for without one.
const DefaultSession = 30 * time.Second

// Options may be nil; the zero value is useful.
type Options struct {
	// Digest is USER:PASSWORD of ZooKeeper's digest scheme; nodes are then its
	// user's alone. Empty: nodes are open to the world.
	Digest string
	// Dial opens every connection; nil is net.Dialer.
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	Clock  clock.Clock  // of leases; nil is the system's
	Logger *slog.Logger // nil discards
}

// Coordinator is a handle with a session of its own. It implements
// registry.Coordinator.
type Coordinator struct {
	conn    *zk.Conn
	root    string
	acl     []zk.ACL
	clock   clock.Clock
	log     *slog.Logger
	session atomic.Int64 // the negotiated timeout, ms

	mu     sync.Mutex
	made   map[sdk.ResourceID]bool
	seen   map[sdk.ResourceID]sdk.Token
	leases map[registry.Key]*lease // whose holder may live on this session
	over   bool
	closed chan struct{}
	work   sync.WaitGroup
}

var _ registry.Coordinator = (*Coordinator)(nil)

// Open opens the coordinator under the path that a DSN names.
//
//  1. coordinator, nil: the ensemble answered, and the path is there.
//  2. INVALID: the DSN or an option does not parse.
//  3. UNSUITABLE: the ensemble refuses the user.
//  4. NOT_APPLIED: it could not be reached.
func Open(ctx context.Context, dsn string, opts *Options) (*Coordinator, error) {
	d, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	c := &Coordinator{root: "/" + d.prefix, acl: zk.WorldACL(zk.PermAll), clock: clock.Or(o.Clock), log: o.Logger,
		made: map[sdk.ResourceID]bool{}, seen: map[sdk.ResourceID]sdk.Token{}, leases: map[registry.Key]*lease{}, closed: make(chan struct{})}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	c.conn, _, err = zk.Connect(d.servers, d.session, zk.WithLogger(silent{}), zk.WithLogInfo(false), zk.WithDialer(func(network, addr string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &listening{Conn: conn, session: &c.session}, nil
	}))
	if err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "DSN", "%w", err)
	}
	if o.Digest != "" {
		c.acl = zk.AuthACL(zk.PermAll)
		err = c.do(ctx, reading, func() error { return c.conn.AddAuth("digest", []byte(o.Digest)) })
	}
	if err == nil {
		err = c.create(ctx, c.root)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// silent keeps the client library from writing to standard error.
type silent struct{}

func (silent) Printf(string, ...any) {}

// listening reads the session's timeout off the answer to the first request of a
// connection, which the client library keeps to itself: length, protocol, timeout.
type listening struct {
	net.Conn
	session *atomic.Int64
	head    []byte
}

func (l *listening) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if len(l.head) < 12 {
		l.head = append(l.head, b[:n]...)
		if len(l.head) >= 12 {
			l.session.Store(int64(int32(binary.BigEndian.Uint32(l.head[8:12]))))
		}
	}
	return n, err
}

// handshake is how long a server that took the connection may be silent. The
// library would wait ten times as long as it waits for anything else; a server that
// was just starting never answers.
const handshake = 3 * time.Second

func (l *listening) SetReadDeadline(t time.Time) error {
	if most := time.Now().Add(handshake); len(l.head) < 12 && t.After(most) {
		t = most
	}
	return l.Conn.SetReadDeadline(t)
}

// Close ends the session, and the leases that live on it. A second Close does
// nothing.
func (c *Coordinator) Close() error {
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return nil
	}
	c.over = true
	close(c.closed)
	c.mu.Unlock()
	c.conn.Close()
	c.work.Wait()
	return nil
}

type dsn struct {
	servers []string
	prefix  string
	session time.Duration
}

func parseDSN(s string) (dsn, error) {
	bad := func(format string, args ...any) (dsn, error) {
		return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", format+"; write zookeeper://HOST:PORT/PREFIX", args...)
	}
	rest, ok := strings.CutPrefix(s, Scheme)
	if !ok || strings.ContainsAny(rest, "#@\x00") {
		return bad("it does not begin with %q, or names a user (that is Options.Digest's matter)", Scheme)
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, prefix, _ := strings.Cut(rest, "/")
	d := dsn{prefix: strings.Trim(prefix, "/"), session: DefaultSession}
	values, err := url.ParseQuery(query)
	if err != nil {
		return bad("options: %v", err)
	}
	for name, v := range values {
		if name == "session" && len(v) == 1 {
			d.session, err = time.ParseDuration(v[0])
		}
		if name != "session" || len(v) != 1 || err != nil || d.session < time.Second || d.session > time.Hour {
			return bad("option %s=%s is not known; session=DURATION from 1s to 1h is", name, strings.Join(v, ","))
		}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		h, p, err := net.SplitHostPort(host)
		if err != nil || h == "" || p == "" {
			return bad("%q is not HOST:PORT", host)
		}
		d.servers = append(d.servers, host)
	}
	if err := sdk.ResourceID(d.prefix).Validate(); err != nil || d.prefix == "zookeeper" || strings.HasPrefix(d.prefix, "zookeeper/") {
		return bad("%q is not a plain path of its own", d.prefix)
	}
	return d, nil
}

// paths of a resource, and of a request in it.
type paths struct{ base, sequence, holder, queue, records, record string }

func (c *Coordinator) resource(r sdk.ResourceID) paths {
	sum := sha256.Sum256([]byte(r))
	base := c.root + "/" + hex.EncodeToString(sum[:])
	return paths{base: base, sequence: base + "/s", holder: base + "/h", queue: base + "/q", records: base + "/r"}
}

func (c *Coordinator) paths(k registry.Key) paths {
	p := c.resource(k.Resource)
	sum := sha256.Sum256([]byte(strconv.Itoa(len(k.Owner)) + ":" + k.Owner + k.RequestID))
	p.record = p.records + "/" + hex.EncodeToString(sum[:])
	return p
}

// create makes a persistent node and what is above it.
func (c *Coordinator) create(ctx context.Context, path string) error {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		if err := c.createOne(ctx, path[:i], nil); err != nil {
			return err
		}
	}
	return nil
}

func (c *Coordinator) createOne(ctx context.Context, path string, data []byte) error {
	err := c.do(ctx, reading, func() error {
		_, err := c.conn.Create(path, data, 0, c.acl)
		return err
	})
	if is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// ensure makes the nodes of a resource, which are never deleted.
func (c *Coordinator) ensure(ctx context.Context, r sdk.ResourceID) error {
	c.mu.Lock()
	made := c.made[r]
	c.mu.Unlock()
	if made {
		return nil
	}
	p := c.resource(r)
	for _, n := range []struct {
		path string
		data string
	}{{p.base, string(r)}, {p.queue, ""}, {p.records, ""}, {p.sequence, "0"}} {
		if err := c.createOne(ctx, n.path, []byte(n.data)); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made[r] = true
	return nil
}
