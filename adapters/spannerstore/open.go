package spannerstore

import (
	"context"
	"net"
	"net/url"
	"os"
	"regexp"

	"cloud.google.com/go/spanner"
	"github.com/fencedstore/fencedstore/sdk"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Scheme begins a DSN: spanner://projects/P/instances/I/databases/D
const Scheme = "spanner://"

// Options of New. The zero value is useful.
type Options struct {
	sdk.OpenOptions
	// Backend names the server for reports, "Spanner" if empty. Environment says
	// whether it is the real service; empty it is sdk.Live, or sdk.Emulator where
	// SPANNER_EMULATOR_HOST sends the client library there. With sdk.Emulator a
	// handle runs one transaction at a time: of a client's session the emulator
	// keeps only one, so there a client is for one handle.
	Backend     string
	Environment sdk.Environment
	// Quarantine is how many records are kept per resource, MaxQuarantine if 0;
	// more are only counted.
	Quarantine int
	// Dialled says that the client was made with OpenOptions.Dial.
	Dialled bool
}

// Open opens the store in the database that a DSN names; see sdk.OpenFunc.
// Credentials come from Google's own chain, never from the DSN; where
// SPANNER_EMULATOR_HOST is set, the client library goes there.
//
//	spanner://projects/P/instances/I/databases/D
//	?endpoint=HOST:PORT      another server than Google's
//	&plaintext=true          without TLS and credentials: an emulator
//	&environment=emulator    for reports: the endpoint is a stand-in
//	&quarantine=N            records kept per resource, 1 to 1000, the default
func Open(ctx context.Context, s string, opts sdk.OpenOptions) (sdk.FencedStore, error) {
	d, err := parseDSN(s)
	if err != nil {
		return nil, err
	}
	connect := func(ctx context.Context) (*spanner.Client, error) {
		return spanner.NewClientWithConfig(ctx, d.database, spanner.ClientConfig{DisableNativeMetrics: d.plaintext},
			append(d.clientOptions(opts), option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(countCommits)))...)
	}
	client, err := connect(ctx)
	if err != nil {
		return nil, readError(err)
	}
	o := &Options{OpenOptions: opts, Environment: d.environment, Quarantine: d.quarantine, Dialled: true}
	if d.endpoint != "" {
		o.Backend = "Spanner at " + d.endpoint
	}
	st, err := newStore(ctx, client, o, d.endpoint == "" && emulated())
	if err != nil {
		client.Close()
		return nil, err
	}
	st.counted, st.connect, st.made = true, connect, []*spanner.Client{client}
	return st, nil
}

// emulated: the client library goes to an emulator, whatever it is told, unless
// there is an endpoint.
func emulated() bool { return os.Getenv("SPANNER_EMULATOR_HOST") != "" }

// New opens the store in the database of a client that the team already has;
// answers as Open. Close does not close the client.
func New(ctx context.Context, client *spanner.Client, opts *Options) (*Store, error) {
	return newStore(ctx, client, opts, emulated())
}

func newStore(ctx context.Context, client *spanner.Client, opts *Options, emulated bool) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if emulated && o.Environment == "" {
		o.Environment = sdk.Emulator
		if o.Backend == "" {
			o.Backend = "Spanner emulator"
		}
	}
	namespace, base, _, err := o.ParseNamespace()
	if err != nil {
		return nil, err
	}
	s := &Store{client: client, namespace: namespace, opts: o, desc: describe(&o)}
	if o.Environment == sdk.Emulator {
		s.one = make(chan struct{}, 1)
	}
	return s, s.claimPlace(ctx, base)
}

// claimPlace reads what the database says of the store, and writes it if there
// is nothing.
func (s *Store) claimPlace(ctx context.Context, base string) error {
	want := map[string]string{"layout": Layout, "namespace": base}
	have, err := s.meta(ctx)
	if err == nil && len(have) == 0 {
		err = s.transaction(ctx, func(_ context.Context, tx *spanner.ReadWriteTransaction, _ *bool) error {
			for name, value := range want {
				if err := tx.BufferWrite([]*spanner.Mutation{spanner.Insert(metaTable, []string{"Name", "Value"}, []any{name, value})}); err != nil {
					return err
				}
			}
			return nil
		}).err
		if isAlreadyThere(err) {
			err = nil // another opening was faster
		}
		if err == nil {
			have, err = s.meta(ctx)
		}
	}
	if err != nil {
		return s.asked(ctx, s.db(), err)
	}
	switch {
	case have["layout"] != Layout:
		return sdk.Errorf(sdk.Unsuitable, "layout", "this database has %q, not %q", have["layout"], Layout)
	case have["namespace"] != base:
		return sdk.Errorf(sdk.Unsuitable, "namespace", "%q; this database was made with %q and a resource has one fence", base, have["namespace"])
	}
	return nil
}

func (s *Store) meta(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	rows := s.db().Single().Read(ctx, metaTable, spanner.AllKeys(), []string{"Name", "Value"})
	err := rows.Do(func(r *spanner.Row) error {
		var name, value string
		if err := r.Columns(&name, &value); err != nil {
			return err
		}
		out[name] = value
		return nil
	})
	return out, err
}

type dsn struct {
	database, endpoint string
	plaintext          bool
	environment        sdk.Environment
	quarantine         int
}

var databaseName = regexp.MustCompile(`^projects/[a-z0-9:.-]{1,100}/instances/[a-z0-9_-]{1,64}/databases/[a-z][a-z0-9_-]{1,29}$`)

func parseDSN(s string) (dsn, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "spanner" || u.User != nil || u.Fragment != "" || !databaseName.MatchString(u.Host+u.Path) {
		return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "it is not spanner://projects/P/instances/I/databases/D; credentials come from Google's own chain")
	}
	d := dsn{database: u.Host + u.Path}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "options: %w", err)
	}
	for name, values := range query {
		if len(values) != 1 || values[0] == "" {
			return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "option %s is given %d times or empty", name, len(values))
		}
		if err := d.option(name, values[0]); err != nil {
			return dsn{}, err
		}
	}
	if d.plaintext && d.endpoint == "" {
		return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "plaintext=true needs an endpoint: credentials never go out in the clear")
	}
	return d, nil
}

func (d *dsn) option(name, value string) error {
	switch name {
	case "endpoint":
		if host, port, err := net.SplitHostPort(value); err != nil || host == "" || port == "" {
			return sdk.Errorf(sdk.Invalid, "DSN", "endpoint %q is not HOST:PORT", value)
		}
		d.endpoint = value
	case "plaintext":
		if value != "true" && value != "false" {
			return sdk.Errorf(sdk.Invalid, "DSN", "plaintext=%s is not true or false", value)
		}
		d.plaintext = value == "true"
	case "environment":
		if d.environment = sdk.Environment(value); d.environment != sdk.Emulator && d.environment != sdk.Live {
			return sdk.Errorf(sdk.Invalid, "DSN", "environment=%s is not emulator or live", value)
		}
	case "quarantine":
		n, err := sdk.ParseDecimal("quarantine", value)
		if err != nil || n < 1 || n > MaxQuarantine {
			return sdk.Errorf(sdk.Invalid, "DSN", "quarantine=%s is not 1 to %d", value, MaxQuarantine)
		}
		d.quarantine = int(n)
	default:
		return sdk.Errorf(sdk.Invalid, "DSN", "option %s is not known", name)
	}
	return nil
}

func (d *dsn) clientOptions(opts sdk.OpenOptions) (out []option.ClientOption) {
	if d.endpoint != "" {
		out = append(out, option.WithEndpoint("passthrough:///"+d.endpoint))
	}
	if d.plaintext {
		out = append(out, option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	}
	if opts.Dial != nil {
		out = append(out, option.WithGRPCDialOption(grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return opts.Dial(ctx, "tcp", addr)
		})))
	}
	return out
}
