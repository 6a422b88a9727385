package dynamodbstore

import (
	"context"
	"net/http"
	"net/url"
	"regexp"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"
	"github.com/fencedstore/fencedstore/sdk"
)

// Scheme begins a DSN: dynamodb://TABLE?region=…
const Scheme = "dynamodb://"

// Options of New. The zero value is useful.
type Options struct {
	sdk.OpenOptions
	// Layout is LayoutTransaction (if empty) or LayoutItem. The first opening of a
	// table fixes it.
	Layout string
	// HomeRegion is the one region in which a global table is written; Probe then
	// accepts replicas, and refuses a client of another region.
	HomeRegion string
	// Backend names the server for reports, "DynamoDB" if empty; Environment says
	// whether it is the real service, sdk.Live if empty.
	Backend     string
	Environment sdk.Environment
	// Quarantine is how many records are kept per resource, as many as the layout
	// takes if 0; more are only counted.
	Quarantine int
	// Dialled says that the client was made with OpenOptions.Dial.
	Dialled bool
}

var tableName = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`)

// Open opens the store in the table that a DSN names; see sdk.OpenFunc.
// Credentials come from the SDK's own chain, never from the DSN.
//
//	dynamodb://TABLE?region=R
//	&layout=item             or transaction, the default; fixed by the first opening
//	&endpoint=URL            another server than AWS
//	&home_region=R           the one region in which a global table is written
//	&quarantine=N            records kept per resource, 1 to 1000, the default
//	&environment=emulator    for reports: the endpoint is a stand-in
func Open(ctx context.Context, dsn string, opts sdk.OpenOptions) (sdk.FencedStore, error) {
	d, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	client, err := d.client(ctx, opts)
	if err != nil {
		return nil, err
	}
	o := &Options{OpenOptions: opts, Layout: d.layout, HomeRegion: d.home, Environment: d.environment, Quarantine: d.quarantine, Dialled: true}
	if d.endpoint != "" {
		o.Backend = "DynamoDB at " + d.host
	}
	s, err := New(ctx, client, d.table, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// client makes a client by the SDK's own chain.
func (d *dsn) client(ctx context.Context, opts sdk.OpenOptions) (*dynamodb.Client, error) {
	httpClient := awshttp.NewBuildableClient()
	if opts.Dial != nil {
		httpClient = httpClient.WithTransportOptions(func(t *http.Transport) { t.DialContext = opts.Dial })
	}
	load := []func(*config.LoadOptions) error{config.WithHTTPClient(httpClient), config.WithLogger(logging.Nop{})}
	if d.region != "" {
		load = append(load, config.WithRegion(d.region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, sdk.Errorf(sdk.NotApplied, "DynamoDB", "the SDK's configuration cannot be loaded: %w", err)
	}
	return dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		if d.endpoint != "" {
			o.BaseEndpoint = &d.endpoint
		}
	}), nil
}

// New opens the store in a table with a client that the team already has;
// answers as Open. The client's own retries are used for reads only. Close does
// not close the client.
func New(ctx context.Context, client *dynamodb.Client, table string, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if !tableName.MatchString(table) {
		return nil, sdk.Errorf(sdk.Invalid, "table", "%q is not 3 to 255 of A-Z a-z 0-9 _ . -", table)
	}
	namespace, base, _, err := o.ParseNamespace()
	if err != nil {
		return nil, err
	}
	switch o.Layout {
	case "":
		o.Layout = LayoutTransaction
	case LayoutTransaction, LayoutItem:
	default:
		return nil, sdk.Errorf(sdk.Invalid, "layout", "%q is not transaction or item", o.Layout)
	}
	s := &Store{client: client, table: table, namespace: namespace, homeRegion: o.HomeRegion, opts: o, desc: describe(&o)}
	s.layout = &transactions{Store: s, guesses: map[sdk.ResourceID]sdk.FenceState{}}
	if o.Layout == LayoutItem {
		s.layout = &items{Store: s, heads: map[sdk.ResourceID]*known{}}
	}
	return s, s.claimTable(ctx, base)
}

// claimTable reads the table's own record, and makes it if there is none.
func (s *Store) claimTable(ctx context.Context, base string) error {
	const id = "store"
	it, err := s.get(ctx, id, id)
	if err == nil && len(it) == 0 {
		fresh := keyOf(id, id)
		fresh["layout"], fresh["namespace"] = str(s.desc.Layout), str(base)
		_, err = s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.table, Item: fresh, ConditionExpression: aws.String("attribute_not_exists(pk)")})
		if m, jerr := judge(err, true, all); err != nil && m != recheck && m != unknown {
			return jerr
		}
		it, err = s.get(ctx, id, id)
	}
	if err != nil {
		return err
	}
	r := reader{item: it, what: "store"}
	layout, namespace := r.text("layout"), r.text("namespace")
	switch {
	case r.err != nil:
		return r.err
	case layout != s.desc.Layout:
		return sdk.Errorf(sdk.Unsuitable, "layout", "this table has %q, not %q", layout, s.desc.Layout)
	case namespace != base:
		return sdk.Errorf(sdk.Unsuitable, "namespace", "%q; this table was made with %q and a resource has one fence", base, namespace)
	}
	return nil
}

type dsn struct {
	table, region, endpoint, host, home, layout string
	environment                                 sdk.Environment
	quarantine                                  int
}

func parseDSN(s string) (dsn, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "dynamodb" || u.User != nil || u.Fragment != "" || u.Path != "" && u.Path != "/" || !tableName.MatchString(u.Host) {
		return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "it is not dynamodb://TABLE?region=…; credentials come from the SDK's own chain")
	}
	d := dsn{table: u.Host}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "options: %w", err)
	}
	for name, values := range query {
		if len(values) != 1 || values[0] == "" {
			return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "option %s is given %d times or empty", name, len(values))
		}
		value := values[0]
		switch name {
		case "region":
			d.region = value
		case "home_region":
			d.home = value
		case "layout":
			if d.layout = value; value != LayoutTransaction && value != LayoutItem {
				return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "layout=%s is not transaction or item", value)
			}
		case "endpoint":
			e, err := url.Parse(value)
			if err != nil || e.Scheme != "http" && e.Scheme != "https" || e.Host == "" || e.User != nil {
				return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "endpoint %q is not http://HOST:PORT or https://HOST", value)
			}
			d.endpoint, d.host = value, e.Host
		case "environment":
			if d.environment = sdk.Environment(value); d.environment != sdk.Emulator && d.environment != sdk.Live {
				return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "environment=%s is not emulator or live", value)
			}
		case "quarantine":
			n, err := sdk.ParseDecimal("quarantine", value)
			if err != nil || n < 1 || n > MaxQuarantine {
				return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "quarantine=%s is not 1 to %d", value, MaxQuarantine)
			}
			d.quarantine = int(n)
		default:
			return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "option %s is not known", name)
		}
	}
	return d, nil
}
