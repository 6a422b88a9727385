package s3store

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/cas"
)

// Version is this adapter's.
const Version = "1.0.0"

// Scheme begins a DSN: s3://BUCKET/PREFIX?region=…&endpoint=…
const Scheme = "s3://"

// Options of New. The zero value is useful.
type Options struct {
	sdk.OpenOptions
	// Backend names the server for reports, "S3" if empty; Environment says
	// whether it is the real service, sdk.Live if empty.
	Backend     string
	Environment sdk.Environment
	// Layout is LayoutHead if empty, or LayoutObject. A place keeps the one that
	// it was made with.
	Layout string
	// Objects begins the keys of the resources' objects in LayoutObject, which is
	// Objects followed by the resource; may be empty.
	Objects string
	// Unique says how versions of an object with the same value get different ETags;
	// LayoutObject needs it.
	Unique Unique
	// ContentType is given to those objects, "application/octet-stream" if empty.
	ContentType string
	// Quarantine is how many records are kept per resource, cas.MaxQuarantine if 0;
	// more are only counted.
	Quarantine int
	// Dialled says that the client was made with OpenOptions.Dial.
	Dialled bool
}

// Open opens the store that a DSN names; see sdk.OpenFunc. Credentials come from
// the SDK's own chain (environment, shared files, roles), never from the DSN.
//
//	s3://BUCKET/PREFIX?region=R      the bucket's region; else the chain's
//	&endpoint=URL                    another server than AWS
//	&path_style=true                 the bucket in the path, as most others need
//	&quarantine=N                    records kept per resource, 1 to 1000, the default
//	&layout=object                   the resource's object readable by anyone, see doc.go
//	&objects=PREFIX/                 begins the keys of those objects
//	&content_type=TYPE               of those objects
//	&unique=space                    or gzip or etag; layout=object needs it, see doc.go
//	&checksum=when_required          or when_supported, the SDK's default; explicit
//	                                 per endpoint, since not every server takes
//	                                 the SDK's checksums
//	&environment=emulator            for reports: the endpoint is a stand-in
func Open(ctx context.Context, dsn string, opts sdk.OpenOptions) (sdk.FencedStore, error) {
	d, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	client, err := d.client(ctx, opts)
	if err != nil {
		return nil, err
	}
	o := &Options{OpenOptions: opts, Environment: d.environment, Layout: d.layout, Objects: d.objects, ContentType: d.contentType, Unique: d.unique, Quarantine: d.quarantine, Dialled: true}
	if d.endpoint != "" {
		o.Backend = "S3 at " + d.host
	}
	s, err := New(ctx, client, d.bucket, d.prefix, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// client is the one that a DSN asks for.
func (d *dsn) client(ctx context.Context, opts sdk.OpenOptions) (*s3.Client, error) {
	httpClient := awshttp.NewBuildableClient()
	if opts.Dial != nil {
		httpClient = httpClient.WithTransportOptions(func(t *http.Transport) { t.DialContext = opts.Dial })
	}
	load := []func(*config.LoadOptions) error{config.WithHTTPClient(httpClient), config.WithRequestChecksumCalculation(d.checksum), config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired)}
	if d.region != "" {
		load = append(load, config.WithRegion(d.region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, sdk.Errorf(sdk.NotApplied, "S3", "the SDK's configuration cannot be loaded: %w", err)
	}
	return s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = d.pathStyle
		if d.endpoint != "" {
			o.BaseEndpoint = &d.endpoint
		}
	}), nil
}

// New opens the store under a prefix of a bucket with a client that the team
// already has; answers as Open. The client's own retries are used for reads and
// unconditional writes only. Close does not close the client.
func New(ctx context.Context, client *s3.Client, bucketName, prefix string, opts *Options) (*cas.Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	if bucketName == "" {
		return nil, sdk.Errorf(sdk.Invalid, "bucket", "missing")
	}
	b := &bucket{client: client, bucket: bucketName, prefix: prefix}
	a := cas.Adapter{Objects: b, Description: describe(&o), Probe: func(ctx context.Context) error { return b.probe(ctx, prefix+"/") }}
	switch o.Layout {
	case LayoutObject:
		p, err := newPages(b, &o)
		if err != nil {
			return nil, err
		}
		if err := p.needs(ctx); err != nil {
			return nil, err
		}
		a.Heads, a.ContentKey, a.StateBytes, a.Probe = p, ContentKey, stateBytes, p.probe
	case "", LayoutHead:
		if o.Objects != "" || o.ContentType != "" || o.Unique != "" {
			return nil, sdk.Errorf(sdk.Invalid, "layout", "objects, content type and unique belong to layout %q", LayoutObject)
		}
	default:
		return nil, sdk.Errorf(sdk.Invalid, "layout", "%q is not %q or %q", o.Layout, LayoutHead, LayoutObject)
	}
	return cas.Open(ctx, a, o.OpenOptions)
}

func describe(o *Options) sdk.Description {
	d := sdk.Description{Name: "s3", Version: Version, Backend: o.Backend, Environment: o.Environment,
		Capabilities: map[sdk.Capability]sdk.Declared{
			sdk.CapDurable: {Support: sdk.Supported},
			sdk.CapShared:  {Support: sdk.Supported},
			sdk.CapDial:    {Support: sdk.Supported},
		}}
	if n := o.Quarantine; n > 0 {
		d.Limits.Quarantine = n
	}
	if o.Layout == LayoutObject {
		// Where the objects are is a part of it: another place, another fence.
		d.Layout = "object.v1"
		if o.Objects != "" {
			d.Layout += " at " + o.Objects
		}
	}
	if d.Backend == "" {
		d.Backend = "S3"
	}
	if d.Environment == "" {
		d.Environment = sdk.Live
	}
	if !o.Dialled {
		d.Capabilities[sdk.CapDial] = sdk.Declared{Support: sdk.NotSupported, Reason: "the client was given; its transport is the team's"}
	}
	return d
}

type dsn struct {
	bucket, prefix, region, endpoint, host string
	pathStyle                              bool
	checksum                               aws.RequestChecksumCalculation
	environment                            sdk.Environment
	layout, objects, contentType           string
	unique                                 Unique
	quarantine                             int
}

func parseDSN(s string) (dsn, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return dsn{}, sdk.Errorf(sdk.Invalid, "DSN", "it is not s3://BUCKET/PREFIX?region=…; credentials come from the SDK's own chain")
	}
	d := dsn{bucket: u.Host, prefix: strings.Trim(u.Path, "/"), checksum: aws.RequestChecksumCalculationWhenSupported}
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
	return d, checkPrefix(d.prefix)
}

func (d *dsn) option(name, value string) error {
	bad := sdk.Errorf(sdk.Invalid, "DSN", "option %s=%s is not known", name, value)
	switch name {
	case "region":
		d.region = value
	case "endpoint":
		u, err := url.Parse(value)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			return sdk.Errorf(sdk.Invalid, "DSN", "endpoint %q is not http://HOST:PORT or https://HOST", value)
		}
		d.endpoint, d.host = value, u.Host
	case "path_style":
		if value != "true" && value != "false" {
			return bad
		}
		d.pathStyle = value == "true"
	case "checksum":
		switch value {
		case "when_supported":
			d.checksum = aws.RequestChecksumCalculationWhenSupported
		case "when_required":
			d.checksum = aws.RequestChecksumCalculationWhenRequired
		default:
			return bad
		}
	case "layout":
		d.layout = value
	case "objects":
		d.objects = value
	case "quarantine":
		n, err := sdk.ParseDecimal("quarantine", value)
		if err != nil || n < 1 || n > cas.MaxQuarantine {
			return sdk.Errorf(sdk.Invalid, "DSN", "quarantine=%s is not 1 to %d", value, cas.MaxQuarantine)
		}
		d.quarantine = int(n)
	case "unique":
		d.unique = Unique(value)
	case "content_type":
		d.contentType = value
	case "environment":
		if e := sdk.Environment(value); e == sdk.Emulator || e == sdk.Live {
			d.environment = e
			return nil
		}
		return bad
	default:
		return bad
	}
	return nil
}

// checkPrefix keeps keys below S3's 1,024 bytes and free of what stores treat
// differently.
func checkPrefix(prefix string) error {
	if prefix == "" {
		return sdk.Errorf(sdk.Invalid, "prefix", "missing; the store has a prefix of its own, so that lifecycle rules and permissions can name it")
	}
	if len(prefix) > 256 {
		return sdk.Errorf(sdk.Invalid, "prefix", "%d bytes; it has up to 256", len(prefix))
	}
	for seg := range strings.SplitSeq(prefix, "/") {
		if seg == "" || seg == "." || seg == ".." {
			return sdk.Errorf(sdk.Invalid, "prefix", "%q has an empty, \".\" or \"..\" segment", prefix)
		}
		for i := range len(seg) {
			c := seg[i]
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
				return sdk.Errorf(sdk.Invalid, "prefix", "%q has a character outside A-Z a-z 0-9 . _ - /", prefix)
			}
		}
	}
	return nil
}
