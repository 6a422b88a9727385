package dynamodbstore

import (
	"context"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/fencedstore/fencedstore/sdk"
)

// transactions is layout "transaction": fence, receipts and values are items of
// their own, moved by one TransactWriteItems.
type transactions struct {
	*Store

	mu      sync.Mutex
	guesses map[sdk.ResourceID]sdk.FenceState // what this handle saw last; a guess to send on, no basis for a refusal
}

const maxGuesses = 4096

func (s *transactions) guess(r sdk.ResourceID) (sdk.FenceState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.guesses[r]
	return g, ok
}

func (s *transactions) remember(r sdk.ResourceID, state sdk.FenceState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.guesses) >= maxGuesses {
		clear(s.guesses)
	}
	s.guesses[r] = state
}

func (s *transactions) forget(r sdk.ResourceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.guesses, r)
}

// look reads fence, marker and the receipt of op (if not empty) in one
// transaction, so that they are of one moment.
func (s *transactions) look(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (sdk.FenceState, *sdk.Receipt, error) {
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
		return sdk.FenceState{}, nil, missing("fence")
	}
	return state, receipt, nil
}

// missing is the error for a fence that was there (F7).
func missing(what string) error {
	e := sdk.Errorf(sdk.FenceRegression, what, "missing though other items of the resource are there: it was deleted; stop writers and raise the registry's floor above every token issued")
	e.Alarm = true
	return e
}

func (s *transactions) inspect(ctx context.Context, r sdk.ResourceID) (sdk.FenceState, error) {
	state, _, err := s.look(ctx, r, "")
	return state, err
}

func (s *transactions) receipt(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (*sdk.Receipt, error) {
	it, err := s.get(ctx, pkOf(s.namespace, r), skReceipt+string(op))
	if err != nil {
		return nil, err
	}
	return parseReceipt(it, r, op)
}

func (s *transactions) value(ctx context.Context, r sdk.ResourceID, key string) ([]byte, bool, error) {
	it, err := s.get(ctx, pkOf(s.namespace, r), skValue+key)
	if err != nil || len(it) == 0 {
		return nil, false, err
	}
	rd := reader{item: it, what: "value"}
	return rd.bytes("value"), true, rd.err
}

func (s *transactions) resolved(context.Context, sdk.ResourceID) (func(sdk.QuarantineKey) sdk.OperationID, error) {
	return nil, nil
}
