// Package etcdcoord is a coordinator under a prefix of an etcd cluster.
//
// A resource has three kinds of keys, named by hashes so that no name is another's
// prefix:
//
//	c/RESOURCE          the sequence: the highest token, in decimal
//	q/RESOURCE/REQUEST  the queue, in the order of create revisions; its first
//	                    key, once it carries a token, is the holder's
//	r/RESOURCE/REQUEST  the record of a grant, on a lease of its own that outlives
//	                    the holder's by [registry.Retention]
//
// A grant is one Txn: it compares the sequence with the number that it goes up
// from, sees that nobody else is in the queue (or before the waiter), that the
// request has no record, and writes sequence, queue and record together (R1, R2,
// R4). A queue key lives on the owner's lease, so the end of the lease is the end
// of the holding, decided by etcd. Each waiter watches the key before its own and
// nothing else, so an end wakes one.
//
// No Txn that writes is sent twice. Where its answer was lost the record is read
// by owner and request: there, it was granted, whatever a repetition would have
// been told (C32).
//
// # Restored clusters
//
// A handle remembers the highest token that it saw of each resource and the
// highest revision, and answers FENCE_REGRESSION where either goes back, until
// the floor is raised. A snapshot that is restored with a higher revision is
// noticed by the tokens (C29). What no handle saw, the registry's marks and
// stores know.
//
// # Limits
//
// Leases have whole seconds in etcd; the coordinator asks for the TTL rounded up
// and counts on no more than the TTL. The server's shortest lease is about one and
// a half election timeouts, 2 s by default; a shorter TTL ends later there.
//
// # Whose prefix it is
//
// Grant readwrite on the prefix to the registry's role alone.
package etcdcoord

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/registry"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// Scheme begins a DSN: etcd://HOST:PORT[,HOST:PORT…]/PREFIX[?tls=true]
const Scheme = "etcd://"

// Options may be nil; the zero value is useful.
type Options struct {
	// Dial opens every connection; nil is net.Dialer.
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	Logger *slog.Logger // nil discards
}

// Coordinator is a handle. It implements registry.Coordinator.
type Coordinator struct {
	client *clientv3.Client
	prefix string
	own    bool // the client is ours to close
	log    *slog.Logger

	mu       sync.Mutex
	closed   bool
	revision int64 // the highest that an answer carried
	back     int   // how often it was seen to go back
	seen     map[sdk.ResourceID]sdk.Token
	cleared  map[sdk.ResourceID]int // back, when the floor was raised last
	granted  map[registry.Ref]*held // by this handle, as written; a release compares and is spared a read
}

var _ registry.Coordinator = (*Coordinator)(nil)

// Open opens the coordinator under the prefix that a DSN names. User and
// certificates come from the variables of etcdctl: ETCDCTL_USER (as
// NAME:PASSWORD), ETCDCTL_CACERT, ETCDCTL_CERT and ETCDCTL_KEY.
//
//  1. coordinator, nil: the cluster answered.
//  2. INVALID: the DSN or a variable does not parse.
//  3. UNSUITABLE: the cluster refuses the user, or is too old.
//  4. NOT_APPLIED: it could not be reached.
func Open(ctx context.Context, dsn string, opts *Options) (*Coordinator, error) {
	d, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	cfg := clientv3.Config{Endpoints: d.endpoints, DialTimeout: 5 * time.Second, Logger: zap.NewNop()}
	if user, password, ok := strings.Cut(os.Getenv("ETCDCTL_USER"), ":"); ok {
		cfg.Username, cfg.Password = user, password
	}
	if d.tls {
		if cfg.TLS, err = tlsFromEnvironment(); err != nil {
			return nil, err
		}
	}
	if opts != nil && opts.Dial != nil {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return opts.Dial(ctx, "tcp", strings.TrimPrefix(addr, "passthrough:///"))
		}))
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, sdk.Errorf(sdk.NotApplied, "etcd", "no client: %w", err)
	}
	c, err := New(client, d.prefix, opts)
	if err == nil {
		c.own = true
		_, err = c.txn(ctx, reading, nil, []clientv3.Op{clientv3.OpGet(c.prefix + "c/")}, nil)
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	return c, nil
}

// New is Open with a client that the team already has, and without a call to the
// cluster. Close does not close the client.
func New(client *clientv3.Client, prefix string, opts *Options) (*Coordinator, error) {
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	c := &Coordinator{client: client, prefix: prefix + "/", log: slog.New(slog.DiscardHandler),
		seen: map[sdk.ResourceID]sdk.Token{}, cleared: map[sdk.ResourceID]int{}, granted: map[registry.Ref]*held{}}
	if opts != nil && opts.Logger != nil {
		c.log = opts.Logger
	}
	return c, nil
}

// Close closes the handle; calls under way end. Leases that are held last on. A
// second Close does nothing.
func (c *Coordinator) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || !c.own {
		c.closed = true
		return nil
	}
	c.closed = true
	if err := c.client.Close(); err != nil && !isContext(err) {
		return sdk.Errorf(sdk.NotApplied, "etcd", "%w", err)
	}
	return nil
}

type dsn struct {
	endpoints []string
	prefix    string
	tls       bool
}

func parseDSN(s string) (dsn, error) {
	bad := func(format string, args ...any) (dsn, error) {
		return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", format+"; write etcd://HOST:PORT/PREFIX", args...)
	}
	rest, ok := strings.CutPrefix(s, Scheme)
	if !ok || strings.ContainsAny(rest, "#@\x00") {
		return bad("it does not begin with %q, or names a user (that is ETCDCTL_USER's matter)", Scheme)
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, prefix, _ := strings.Cut(rest, "/")
	d := dsn{prefix: strings.Trim(prefix, "/")}
	values, err := url.ParseQuery(query)
	if err != nil {
		return bad("options: %v", err)
	}
	for name, v := range values {
		if name != "tls" || len(v) != 1 || v[0] != "true" && v[0] != "false" {
			return bad("option %s=%s is not known; tls=true is", name, strings.Join(v, ","))
		}
		d.tls = v[0] == "true"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		h, p, err := net.SplitHostPort(host)
		if err != nil || h == "" || p == "" {
			return bad("%q is not HOST:PORT", host)
		}
		if d.tls {
			host = "https://" + host
		}
		d.endpoints = append(d.endpoints, host)
	}
	return d, checkPrefix(d.prefix)
}

func checkPrefix(prefix string) error {
	if err := sdk.ResourceID(prefix).Validate(); err != nil {
		return sdk.Errorf(sdk.Invalid, "prefix", "%q is not a plain path; the coordinator has a prefix of its own", prefix)
	}
	return nil
}

func tlsFromEnvironment() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := os.Getenv("ETCDCTL_CACERT"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, sdk.Errorf(sdk.Invalid, "ETCDCTL_CACERT", "%w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, sdk.Errorf(sdk.Invalid, "ETCDCTL_CACERT", "%s has no certificate", file)
		}
	}
	if cert, key := os.Getenv("ETCDCTL_CERT"), os.Getenv("ETCDCTL_KEY"); cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, sdk.Errorf(sdk.Invalid, "ETCDCTL_CERT", "%w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
