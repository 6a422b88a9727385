// Package etcdstore keeps a fenced store under a prefix of an etcd cluster:
// package sdk/cas over transactions of go.etcd.io/etcd/client/v3.
//
// A swap is one Txn that compares the key's whole value with the one that was
// read. A comparison of the revision would be shorter and is not enough: in a
// cluster that was restored from a snapshot revisions come again with other
// content, and a head's bytes never do (C29). A new key is compared by its create
// revision, 0. Reads are linearizable, etcd's default.
//
// The client sends a transaction that writes once; only when no connection could
// be had does it try again. An answer that was lost is settled by the head.
//
// # Limits
//
// An object has up to 512 KiB: etcd takes requests of 1.5 MiB, and a swap carries
// the old value and the new one. etcd is made for small amounts of data (8 GiB is
// its suggested ceiling); keep large results elsewhere.
//
// # Whose prefix it is
//
// Grant readwrite on the prefix to the gate's role alone, and nothing on it to
// the workers' roles: see etcd's role-based access control.
package etcdstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/cas"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// Version is this adapter's.
const Version = "1.0.0"

// Scheme begins a DSN: etcdkv://HOST:PORT[,HOST:PORT…]/PREFIX[?tls=true]
const Scheme = "etcdkv://"

// maxObject is the largest object: see the package's limits.
const maxObject = 512 << 10

// Open opens the store under the prefix that a DSN names; see sdk.OpenFunc. User
// and certificates come from the variables of etcdctl: ETCDCTL_USER (as
// NAME:PASSWORD), ETCDCTL_CACERT, ETCDCTL_CERT and ETCDCTL_KEY.
func Open(ctx context.Context, dsn string, opts sdk.OpenOptions) (sdk.FencedStore, error) {
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
	if opts.Dial != nil {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return opts.Dial(ctx, "tcp", strings.TrimPrefix(addr, "passthrough:///"))
		}))
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, sdk.Errorf(sdk.NotApplied, "etcd", "no client: %w", err)
	}
	s, err := open(ctx, client, d.prefix, opts, client.Close)
	if err != nil {
		client.Close()
		return nil, err
	}
	return s, nil
}

// New opens the store with a client that the team already has; answers as Open.
// Close does not close the client.
func New(ctx context.Context, client *clientv3.Client, prefix string, opts *sdk.OpenOptions) (*cas.Store, error) {
	var o sdk.OpenOptions
	if opts != nil {
		o = *opts
	}
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	return open(ctx, client, prefix, o, nil)
}

func open(ctx context.Context, client *clientv3.Client, prefix string, opts sdk.OpenOptions, done func() error) (*cas.Store, error) {
	k := &keys{client: client, prefix: prefix}
	d := sdk.Description{Name: "etcdkv", Version: Version, Backend: "etcd", Environment: sdk.Live,
		Capabilities: map[sdk.Capability]sdk.Declared{
			sdk.CapDurable: {Support: sdk.Supported},
			sdk.CapShared:  {Support: sdk.Supported},
			sdk.CapDial:    {Support: sdk.Supported},
		},
		Limits: sdk.Limits{ValueBytes: maxObject, TotalBytes: 8 * maxObject}}
	if done == nil {
		d.Capabilities[sdk.CapDial] = sdk.Declared{Support: sdk.NotSupported, Reason: "the client was given; its connections are the team's"}
	}
	version, err := k.serverVersion(ctx)
	if err != nil {
		return nil, err
	}
	d.Backend += " " + version
	opts.Log().Debug("etcd store", slog.String("prefix", prefix), slog.String("server", version))
	return cas.Open(ctx, cas.Adapter{Objects: k, Description: d, Probe: k.probe, MaxObjectBytes: maxObject, Close: done}, opts)
}

type dsn struct {
	endpoints []string
	prefix    string
	tls       bool
}

func parseDSN(s string) (dsn, error) {
	bad := func(format string, args ...any) (dsn, error) {
		return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", format+"; write etcdkv://HOST:PORT/PREFIX", args...)
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
		return sdk.Errorf(sdk.Invalid, "prefix", "%q is not a plain path; the store has a prefix of its own", prefix)
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
