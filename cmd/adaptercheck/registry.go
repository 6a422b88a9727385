package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/fencedstore/fencedstore/adapters/dynamodbstore"
	"github.com/fencedstore/fencedstore/adapters/etcdstore"
	"github.com/fencedstore/fencedstore/adapters/fsstore"
	"github.com/fencedstore/fencedstore/adapters/memstore"
	"github.com/fencedstore/fencedstore/adapters/mongostore"
	"github.com/fencedstore/fencedstore/adapters/s3store"
	"github.com/fencedstore/fencedstore/adapters/spannerstore"
	"github.com/fencedstore/fencedstore/adapters/sqlitestore"
	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/sdk"
)

// opener opens the same data at every call.
type opener func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error)

// adapter is one that this binary can check. A new one is a new element of
// builtin.
type adapter struct {
	Name    string   // the bare name on the command line
	Schemes []string // of the DSNs that it opens
	About   string   // one sentence
	Example string   // a DSN
	Network bool     // schedules get a time budget in place of a number
	Kill    bool     // another process can open the same DSN

	// Bind settles which data a DSN names; it opens nothing yet.
	Bind func(dsn string) (opener, error)

	// Fresh makes an empty store that remove takes away again; nil where that
	// needs a server.
	Fresh func() (dsn string, remove func() error, err error)

	// Schema says what a DSN needs before it is opened, nil for nothing; Create
	// makes what the credentials at hand may, nil where Open does.
	Schema func(dsn string) ([]sdk.SchemaPart, error)
	Create func(ctx context.Context, dsn string, o sdk.OpenOptions) error

	// Damage takes the fence of r away behind the adapter's back (F7); nil where
	// that cannot be done.
	Damage func(ctx context.Context, dsn string, r sdk.ResourceID) error

	// Native gives the suite native effects to try (F12); nil where there are
	// none.
	Native func(dsn string, r sdk.ResourceID) conformance.Native
}

// builtin is every adapter of this binary.
func builtin() []adapter {
	return []adapter{
		{
			Name: "mem", Schemes: []string{"mem"}, Example: "mem://",
			About: "In memory, for tests: the reference that shows what the laws mean. Nothing survives the process.",
			Bind:  bindMem,
			Fresh: func() (string, func() error, error) {
				return "mem://", func() error { return nil }, nil
			},
		},
		{
			Name: "sqlite", Schemes: []string{"sqlite"}, Example: "sqlite:./my.db",
			About: "One SQLite file: the durable store that comes with fencedstore.",
			Kill:  true,
			Bind: func(dsn string) (opener, error) {
				return func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
					return sqlitestore.Open(ctx, dsn, o)
				}, nil
			},
			Fresh:  freshSQLite,
			Schema: sqlitestore.Schema,
			Damage: damageSQLite,
			Native: nativeSQLite,
		},
		{
			Name: "fs", Schemes: []string{"fs"}, Example: "fs:./store",
			About: "A directory of a local file system: compare-and-swap by hard links, without a library.",
			Kill:  true,
			Bind: func(dsn string) (opener, error) {
				return func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
					return fsstore.Open(ctx, dsn, o)
				}, nil
			},
			Fresh:  freshFS,
			Damage: damageFS,
		},
		{
			Name: "etcdkv", Schemes: []string{"etcdkv"}, Example: "etcdkv://127.0.0.1:2379/PREFIX",
			About:   "A prefix of an etcd cluster: one transaction per mutation. User and certificates come from etcdctl's variables.",
			Network: true,
			Kill:    true,
			Bind: func(dsn string) (opener, error) {
				return func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
					return etcdstore.Open(ctx, dsn, o)
				}, nil
			},
			Schema: etcdstore.Schema,
		},
		{
			Name: "dynamodb", Schemes: []string{"dynamodb"}, Example: "dynamodb://TABLE?region=eu-central-1",
			About:   "A DynamoDB table: one TransactWriteItems per mutation, or with layout=item one PutItem. Credentials come from the SDK's own chain.",
			Network: true,
			Kill:    true,
			Bind: func(dsn string) (opener, error) {
				return func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
					return dynamodbstore.Open(ctx, dsn, o)
				}, nil
			},
			Schema: dynamodbstore.Schema,
			Create: dynamodbstore.CreateSchema,
		},
		{
			Name: "mongodb", Schemes: []string{"mongodb", "mongodb+srv"}, Example: "mongodb://127.0.0.1:27017/DB?collection=fences",
			About:   "A MongoDB collection: one filtered update per mutation, or transactions. Credentials and hosts as in any MongoDB URI.",
			Network: true,
			Kill:    true,
			Bind: func(dsn string) (opener, error) {
				return func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
					return mongostore.Open(ctx, dsn, o)
				}, nil
			},
			Schema: mongostore.Schema,
		},
		{
			Name: "s3", Schemes: []string{"s3"}, Example: "s3://BUCKET/PREFIX?region=eu-central-1",
			About:   "An S3 bucket: conditional PUTs. Credentials come from the SDK's own chain.",
			Network: true,
			Kill:    true,
			Bind: func(dsn string) (opener, error) {
				return func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
					return s3store.Open(ctx, dsn, o)
				}, nil
			},
			Schema: s3store.Schema,
			Create: s3store.CreateSchema,
		},
		{
			Name: "spanner", Schemes: []string{"spanner"}, Example: "spanner://projects/P/instances/I/databases/D",
			About:   "A Spanner database: one read-write transaction per mutation. Credentials come from Google's own chain.",
			Network: true,
			Kill:    true,
			Bind: func(dsn string) (opener, error) {
				return func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
					return spannerstore.Open(ctx, dsn, o)
				}, nil
			},
			Schema: spannerstore.Schema,
			Create: spannerstore.CreateSchema,
		},
	}
}

// bindMem holds on to one set of data, which a DSN of memstore does not.
func bindMem(dsn string) (opener, error) {
	if _, err := memstore.Open(context.Background(), dsn, sdk.OpenOptions{}); err != nil {
		return nil, err
	}
	data := memstore.NewData()
	return func(_ context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
		s, err := data.Open(o)
		if err != nil {
			return nil, err
		}
		return s, nil
	}, nil
}

// freshSQLite makes a directory for a database of its own.
func freshSQLite() (dsn string, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "adaptercheck-*")
	if err != nil {
		return "", nil, err
	}
	return "sqlite:" + filepath.Join(dir, "store.db"), func() error { return os.RemoveAll(dir) }, nil
}

// harness is the suite's view of the subject.
func (s *subject) harness() conformance.Harness {
	h := conformance.Harness{Name: s.Name(), Open: s.open, Network: s.adapter.Network}
	if s.adapter.Kill {
		h.Spawn = s.spawn
	}
	if s.adapter.Damage != nil {
		h.Damage = func(ctx context.Context, r sdk.ResourceID) error { return s.adapter.Damage(ctx, s.dsn, r) }
	}
	if s.adapter.Native != nil {
		h.Native = func(r sdk.ResourceID) conformance.Native { return s.adapter.Native(s.dsn, r) }
	}
	return s.pluginHarness(h)
}

// spawn starts this program again as a writer on the same data; the suite kills
// it. The DSN goes through the environment: it may hold a password, and
// arguments can be read by everyone on the host.
func (s *subject) spawn(context.Context) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, writerCommand)
	cmd.Args[0] = "adaptercheck"
	cmd.Env = append(append(os.Environ(), writerEnv+"="+s.dsn), s.plugin.environ()...)
	return cmd, nil
}
