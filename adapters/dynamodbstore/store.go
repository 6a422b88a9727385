package dynamodbstore

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/fencedstore/fencedstore/sdk"
)

// Version is this adapter's.
const Version = "1.0.0"

// Layout is what the table's own record says.
const Layout = "transaction.v1"

// Limits of one mutation and of the quarantine of one resource.
const (
	MaxEffects    = 96
	MaxValueBytes = 256 << 10
	MaxTotalBytes = 3 << 20
	MaxQuarantine = 1000
)

// Store is a handle on a table. It implements sdk.FencedStore.
type Store struct {
	client     *dynamodb.Client
	table      string
	namespace  string
	homeRegion string
	opts       Options
	desc       sdk.Description

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
	guesses map[sdk.ResourceID]sdk.FenceState // what this handle saw last; a guess to send on, no basis for a refusal
}

const maxGuesses = 4096

func describe(o *Options) sdk.Description {
	d := sdk.Description{
		Name: "dynamodb", Version: Version, Backend: o.Backend, Environment: o.Environment, Layout: Layout,
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
	if n := o.Quarantine; n > 0 && n < MaxQuarantine {
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

func (s *Store) guess(r sdk.ResourceID) (sdk.FenceState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.guesses[r]
	return g, ok
}

func (s *Store) remember(r sdk.ResourceID, state sdk.FenceState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.guesses) >= maxGuesses {
		clear(s.guesses)
	}
	s.guesses[r] = state
}

func (s *Store) forget(r sdk.ResourceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.guesses, r)
}

// get reads one item, strongly consistent.
func (s *Store) get(ctx context.Context, pk, sk string) (item, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: keyOf(pk, sk), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, readError(err)
	}
	return out.Item, nil
}

// look reads fence, marker and the receipt of op (if not empty) in one
// transaction, so that they are of one moment.
func (s *Store) look(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (sdk.FenceState, *sdk.Receipt, error) {
	pk := pkOf(s.namespace, r)
	sks := []string{skFence, skMarker}
	if op != "" {
		sks = append(sks, skReceipt+string(op))
	}
	in := &dynamodb.TransactGetItemsInput{}
	for _, sk := range sks {
		in.TransactItems = append(in.TransactItems, types.TransactGetItem{Get: &types.Get{TableName: &s.table, Key: keyOf(pk, sk)}})
	}
	out, err := retried(ctx, func() (*dynamodb.TransactGetItemsOutput, error) { return s.client.TransactGetItems(ctx, in) })
	if err != nil {
		return sdk.FenceState{}, nil, readError(err)
	}
	if len(out.Responses) != len(sks) {
		return sdk.FenceState{}, nil, sdk.Errorf(sdk.Unsuitable, "DynamoDB", "%d items for %d", len(out.Responses), len(sks))
	}
	state, err := parseFence(out.Responses[0].Item)
	if err != nil {
		return sdk.FenceState{}, nil, err
	}
	var receipt *sdk.Receipt
	if op != "" {
		if receipt, err = parseReceipt(out.Responses[2].Item, r, op); err != nil {
			return sdk.FenceState{}, nil, err
		}
	}
	if state.Absent() && (len(out.Responses[1].Item) > 0 || receipt != nil) {
		e := sdk.Errorf(sdk.FenceRegression, "fence", "missing though its marker is there: the item was deleted; stop writers and raise the registry's floor above every token issued")
		e.Alarm = true
		return sdk.FenceState{}, nil, e
	}
	return state, receipt, nil
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
	state, _, err := s.look(ctx, r, "")
	return state, err
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
	it, err := s.get(ctx, pkOf(s.namespace, r), skReceipt+string(op))
	if err != nil {
		return sdk.Receipt{}, err
	}
	receipt, err := parseReceipt(it, r, op)
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
	it, err := s.get(ctx, pkOf(s.namespace, r), skValue+key)
	if err != nil {
		return nil, err
	}
	if len(it) == 0 {
		return nil, sdk.Errorf(sdk.NotFound, "key", "%q is not set at %q", key, r)
	}
	rd := reader{item: it, what: "value"}
	v := rd.bytes("value")
	return notNil(v), rd.err
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
	var out []sdk.Quarantine
	err := s.eachQuarantine(ctx, pk, false, func(it item) error {
		q, err := parseQuarantine(it, r)
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
