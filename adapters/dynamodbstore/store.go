package dynamodbstore

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/fencedstore/fencedstore/sdk"
)

// Version is this adapter's.
const Version = "1.0.0"

// Layouts of a table, see the package's description.
const (
	LayoutTransaction = "transaction"
	LayoutItem        = "item"
)

// layoutVersion is behind a layout's name in the table's own record.
const layoutVersion = ".v1"

// Limits of one mutation and of the quarantine of one resource.
const (
	MaxEffects    = 96
	MaxValueBytes = 256 << 10
	MaxTotalBytes = 3 << 20
	MaxQuarantine = 1000
)

// Limits of layout "item", where all values of a resource share one item of 400
// KB with its result.
const (
	MaxItemValueBytes = 64 << 10
	MaxItemTotalBytes = 192 << 10
	MaxItemQuarantine = 200
)

// Store is a handle on a table. It implements sdk.FencedStore.
type Store struct {
	client     *dynamodb.Client
	table      string
	namespace  string
	homeRegion string
	layout     layout
	opts       Options
	desc       sdk.Description

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// layout is how fence, receipts and values lie in the table, and what moves them.
type layout interface {
	apply(context.Context, sdk.Admission, *sdk.Mutation) (sdk.Outcome, error)
	inspect(context.Context, sdk.ResourceID) (sdk.FenceState, error)
	// receipt is nil for none.
	receipt(context.Context, sdk.ResourceID, sdk.OperationID) (*sdk.Receipt, error)
	value(context.Context, sdk.ResourceID, string) (v []byte, found bool, err error)
	// resolved says what settled a quarantine record; nil if the records say so.
	resolved(context.Context, sdk.ResourceID) (func(sdk.QuarantineKey) sdk.OperationID, error)
	// probe proves on items below pk, "a" and up, that the layout's primitive works.
	probe(ctx context.Context, pk string) error
}

func describe(o *Options) sdk.Description {
	d := sdk.Description{
		Name: "dynamodb", Version: Version, Backend: o.Backend, Environment: o.Environment, Layout: o.Layout + layoutVersion,
		Kinds: append(sdk.PortableKinds(), KindWrite),
		Capabilities: map[sdk.Capability]sdk.Declared{
			sdk.CapDurable:       {Support: sdk.Supported},
			sdk.CapShared:        {Support: sdk.Supported},
			sdk.CapApplyTx:       {Support: sdk.NotSupported, Reason: "DynamoDB has no transaction that stays open for caller's code"},
			sdk.CapNativeEffects: {Support: sdk.Supported},
			sdk.CapParallel:      {Support: sdk.NotSupported, Reason: "it runs no caller's code, so there is none to hold another resource up"},
			sdk.CapDial:          {Support: sdk.Supported},
		},
		Limits: sdk.Limits{Effects: MaxEffects, ValueBytes: MaxValueBytes, TotalBytes: MaxTotalBytes, Quarantine: MaxQuarantine},
	}
	if d.Backend == "" {
		d.Backend = "DynamoDB"
	}
	if o.Layout == LayoutItem {
		d.Kinds = sdk.PortableKinds()
		d.Capabilities[sdk.CapNativeEffects] = sdk.Declared{Support: sdk.NotSupported, Reason: "one item is written at a time; for writes in other tables use layout transaction"}
		d.Limits = sdk.Limits{Effects: MaxEffects, ValueBytes: MaxItemValueBytes, TotalBytes: MaxItemTotalBytes, Quarantine: MaxItemQuarantine}
	}
	if n := o.Quarantine; n > 0 && n < d.Limits.Quarantine {
		d.Limits.Quarantine = n
	}
	if d.Environment == "" {
		d.Environment = sdk.Live
	}
	if !o.Dialled {
		d.Capabilities[sdk.CapDial] = sdk.Declared{Support: sdk.NotSupported, Reason: "the client was given; its transport is the team's"}
	}
	return d
}

// Describe implements sdk.FencedStore.
func (s *Store) Describe() sdk.Description {
	d := s.desc
	d.Kinds, d.Capabilities = slices.Clone(d.Kinds), maps.Clone(d.Capabilities)
	return d
}

// Close implements sdk.FencedStore; it waits for the calls under way and leaves
// the client alone.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.running.Wait()
	return nil
}

func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return sdk.Errorf(sdk.NotApplied, "", "nothing was sent: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return sdk.Errorf(sdk.Closed, "store", "the handle was closed")
	}
	s.running.Add(1)
	return nil
}

// get reads one item, strongly consistent.
func (s *Store) get(ctx context.Context, pk, sk string) (item, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: keyOf(pk, sk), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, readError(err)
	}
	return out.Item, nil
}

// Inspect implements sdk.FencedStore.
func (s *Store) Inspect(ctx context.Context, r sdk.ResourceID) (sdk.FenceState, error) {
	if err := r.Validate(); err != nil {
		return sdk.FenceState{}, err
	}
	if err := s.enter(ctx); err != nil {
		return sdk.FenceState{}, err
	}
	defer s.running.Done()
	return s.layout.inspect(ctx, r)
}

// Receipt implements sdk.FencedStore.
func (s *Store) Receipt(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (sdk.Receipt, error) {
	if err := r.Validate(); err != nil {
		return sdk.Receipt{}, err
	}
	if err := op.Validate(); err != nil {
		return sdk.Receipt{}, err
	}
	if err := s.enter(ctx); err != nil {
		return sdk.Receipt{}, err
	}
	defer s.running.Done()
	receipt, err := s.layout.receipt(ctx, r, op)
	if err != nil {
		return sdk.Receipt{}, err
	}
	if receipt == nil {
		return sdk.Receipt{}, sdk.Errorf(sdk.NotFound, "operation", "%q has no receipt at %q", op, r)
	}
	return *receipt, nil
}

// Read implements sdk.FencedStore.
func (s *Store) Read(ctx context.Context, r sdk.ResourceID, key string) ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if err := sdk.ValidateKey(key); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.running.Done()
	v, ok, err := s.layout.value(ctx, r, key)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, sdk.Errorf(sdk.NotFound, "key", "%q is not set at %q", key, r)
	}
	return notNil(slices.Clone(v)), nil
}

// Quarantined implements sdk.FencedStore.
func (s *Store) Quarantined(ctx context.Context, r sdk.ResourceID) ([]sdk.Quarantine, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.running.Done()
	pk := pkOf(s.namespace, r)
	resolved, err := s.layout.resolved(ctx, r)
	if err != nil {
		return nil, err
	}
	var out []sdk.Quarantine
	err = s.eachQuarantine(ctx, pk, false, func(it item) error {
		q, err := parseQuarantine(it, r)
		if resolved != nil {
			q.ResolvedBy = resolved(q.QuarantineKey)
		}
		out = append(out, q)
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, compareQuarantine)
	dropped, err := s.get(ctx, pk, skDropped)
	if err != nil {
		return nil, err
	}
	if len(dropped) > 0 {
		rd := reader{item: dropped, what: "dropped"}
		out = append(out, sdk.Quarantine{Resource: r, Dropped: rd.number("records")})
		return out, rd.err
	}
	return out, nil
}

// eachQuarantine walks the records of a resource.
func (s *Store) eachQuarantine(ctx context.Context, pk string, countOnly bool, each func(item) error) error {
	in := &dynamodb.QueryInput{TableName: &s.table, ConsistentRead: aws.Bool(true),
		KeyConditionExpression:    aws.String("pk = :pk AND begins_with(sk, :sk)"),
		ExpressionAttributeValues: item{":pk": str(pk), ":sk": str(skQuarant)}}
	if countOnly {
		in.ProjectionExpression = aws.String("sk")
	}
	pages := dynamodb.NewQueryPaginator(s.client, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return readError(err)
		}
		for _, it := range page.Items {
			if err := each(it); err != nil {
				return err
			}
		}
	}
	return nil
}
