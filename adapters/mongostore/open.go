package mongostore

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/cas"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"
)

// Version is this adapter's.
const Version = "1.0.0"

// Layouts. A collection keeps the one that it was made with.
const (
	LayoutDocument    = "document"
	LayoutTransaction = "transaction"
)

// Options of New. The zero value is useful.
type Options struct {
	sdk.OpenOptions
	// Layout is LayoutDocument if empty, or LayoutTransaction.
	Layout string
	// Environment says whether it is a real server, sdk.Live if empty.
	Environment sdk.Environment

	// of Open's own client
	dialled bool
	close   func() error
}

// Open opens the store that a DSN names; see sdk.OpenFunc. The DSN is a MongoDB
// URI, with its conventions for hosts, credentials and TLS, and options of ours:
//
//	mongodb://HOST[,HOST…]/DB?collection=NAME   the store's own collection
//	&layout=transaction                         or document, the default; see doc.go
//	&environment=emulator                       for reports: the server is a stand-in
//
// UNSUITABLE: the URI asks for a write concern below majority, for reads that see
// less than the primary's, or the database cannot keep the laws.
func Open(ctx context.Context, dsn string, opts sdk.OpenOptions) (sdk.FencedStore, error) {
	d, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	o := options.Client().ApplyURI(d.uri)
	if err := o.Validate(); err != nil {
		if d.secret {
			return nil, sdk.Errorf(sdk.Invalid, "DSN", "the driver does not take this URI; its reason is left out since the URI holds credentials")
		}
		return nil, sdk.Errorf(sdk.Invalid, "DSN", "the driver does not take this URI: %w", err)
	}
	// The driver lets pass what it does not know; a misspelt option would be lost.
	if parsed, err := connstring.ParseAndValidate(d.uri); err == nil {
		for name := range parsed.UnknownOptions {
			return nil, sdk.Errorf(sdk.Invalid, "DSN", "option %s is neither this store's nor the driver's", name)
		}
	}
	if err := pinned(o); err != nil {
		return nil, err
	}
	o.SetRetryWrites(false).SetMonitor(monitor())
	if opts.Dial != nil {
		o.SetDialer(dialer(opts.Dial))
	}
	client, err := mongo.Connect(o)
	if err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "DSN", "no client: %w", err)
	}
	closed := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		client.Disconnect(ctx)
		return nil
	}
	s, err := open(ctx, client, d.database, d.collection, &Options{OpenOptions: opts, Layout: d.layout, Environment: d.environment, dialled: true, close: closed}, true)
	if err != nil {
		closed()
		return nil, err
	}
	return s, nil
}

// dialer is a Dial function as the driver takes it.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

func (d dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return d(ctx, network, addr)
}

// New opens the store in a collection of a database with a client that the team
// already has; answers as Open. Every command names its own concerns and is sent
// once, whatever the client's defaults are. Close does not close the client.
func New(ctx context.Context, client *mongo.Client, database, collectionName string, opts *Options) (sdk.FencedStore, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.dialled, o.close = false, nil
	if client == nil {
		return nil, sdk.Errorf(sdk.Invalid, "client", "missing")
	}
	return open(ctx, client, database, collectionName, &o, false)
}

func open(ctx context.Context, client *mongo.Client, database, name string, o *Options, watched bool) (sdk.FencedStore, error) {
	if err := checkNames(database, name); err != nil {
		return nil, err
	}
	if o.Layout != "" && o.Layout != LayoutDocument && o.Layout != LayoutTransaction {
		return nil, sdk.Errorf(sdk.Invalid, "layout", "%q is not %q or %q", o.Layout, LayoutDocument, LayoutTransaction)
	}
	c := collection{db: client.Database(database), name: name, watched: watched}
	var err error
	if c.kind, err = hello(ctx, c.db); err != nil {
		return nil, err
	}
	version, err := backend(ctx, c.db)
	if err != nil {
		return nil, err
	}
	desc := describe(o, version)
	if o.Layout == LayoutTransaction {
		return openTransaction(ctx, client, c, desc, o)
	}
	docs := &documents{c}
	return cas.Open(ctx, cas.Adapter{Objects: docs, Description: desc, Probe: docs.probe, Close: o.close}, o.OpenOptions)
}

func describe(o *Options, backend string) sdk.Description {
	d := sdk.Description{Name: "mongodb", Version: Version, Backend: backend, Environment: o.Environment, Layout: documentLayout,
		Capabilities: map[sdk.Capability]sdk.Declared{
			sdk.CapDurable: {Support: sdk.Supported},
			sdk.CapShared:  {Support: sdk.Supported},
			sdk.CapDial:    {Support: sdk.Supported},
		}}
	if d.Environment == "" {
		d.Environment = sdk.Live
	}
	if !o.dialled {
		d.Capabilities[sdk.CapDial] = sdk.Declared{Support: sdk.NotSupported, Reason: "the client was given; its connections are the team's"}
	}
	return d
}

// What the collection's own record says.
const (
	documentLayout    = "document.v1"
	transactionLayout = "transaction.v1"
)

// pinned refuses what a URI asks for against the laws. The store's own commands
// would not heed it; but who wrote it expects that it holds (C22, C76).
func pinned(o *options.ClientOptions) error {
	if w := o.WriteConcern; w != nil {
		if name, ok := w.W.(string); w.W != nil && (!ok || name != "majority") {
			return sdk.Errorf(sdk.Unsuitable, "w", "%v is below majority, or may be: a write that the majority does not have is lost at a failover; leave it out or set w=majority", w.W)
		}
		if w.Journal != nil && !*w.Journal {
			return sdk.Errorf(sdk.Unsuitable, "journal", "false: a write that is in no journal is lost with the process; leave it out")
		}
	}
	if r := o.ReadConcern; r != nil && r.Level != "" && r.Level != "majority" && r.Level != "linearizable" {
		return sdk.Errorf(sdk.Unsuitable, "readConcernLevel", "%q: such reads may show what is lost at a failover, or miss what was written; leave it out", r.Level)
	}
	if p := o.ReadPreference; p != nil && p.Mode().String() != "primary" {
		return sdk.Errorf(sdk.Unsuitable, "readPreference", "%q: fences are read from the primary; leave it out", p.Mode())
	}
	return nil
}

// checkNames refuses names that MongoDB reserves or does not take.
func checkNames(database, name string) error {
	switch {
	case database == "" || len(database) > 63 || strings.ContainsAny(database, "/\\. \"$*<>:|?\x00"):
		return sdk.Errorf(sdk.Invalid, "database", "%q is no database name", database)
	case database == "admin" || database == "local" || database == "config":
		return sdk.Errorf(sdk.Invalid, "database", "%q is the server's own", database)
	case name == "" || len(name) > 120 || strings.ContainsAny(name, "$\x00") || strings.HasPrefix(name, "system.") || name[0] == '.' || name[len(name)-1] == '.':
		return sdk.Errorf(sdk.Invalid, "collection", "%q is no collection name; it has up to 120 bytes, no $, and does not begin with system.", name)
	}
	return nil
}
