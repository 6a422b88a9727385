package dynamodbstore

import (
	"context"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/fencedstore/fencedstore/sdk"
)

// items is layout "item": one conditional write of one item per mutation.
type items struct {
	*Store

	mu    sync.Mutex
	heads map[sdk.ResourceID]*known // what this handle saw last; a guess to send on, no basis for a refusal
	held  int                       // bytes in heads, about
}

// maxHeld is how many bytes a handle remembers.
const maxHeld = 64 << 20

// known is a head that was read or written, and the index that was read with it.
type known struct {
	head  *head
	index *index
}

func (k *known) bytes() int {
	n := k.head.size + 512
	if k.index != nil {
		n += 8 * len(k.index.fingerprints)
	}
	return n
}

// guess returns a copy of what was seen last.
func (l *items) guess(r sdk.ResourceID) *known {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.heads[r]; k != nil {
		return &known{k.head, k.index}
	}
	return nil
}

// keep remembers k unless a newer head is known.
func (l *items) keep(r sdk.ResourceID, k *known) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.heads[r]
	if old != nil && old.head.sequence > k.head.sequence {
		return
	}
	if old != nil {
		l.held -= old.bytes()
	}
	if l.held+k.bytes() > maxHeld {
		clear(l.heads)
		l.held = 0
	}
	l.heads[r] = &known{k.head, k.index}
	l.held += k.bytes()
}

func (l *items) drop(r sdk.ResourceID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.heads[r]; old != nil {
		l.held -= old.bytes()
		delete(l.heads, r)
	}
}

// adopt joins a head that was just read to the index that this handle has.
func (l *items) adopt(r sdk.ResourceID, h *head) *known {
	k := &known{head: h}
	if old := l.guess(r); old != nil {
		k.index = old.index
		if old.head.sequence > h.sequence {
			l.drop(r) // the table went back, or another call of this handle was faster
		}
	}
	return k
}

// fresh reads the head of r, nil where there is none and never was one.
// FENCE_REGRESSION: there is none, and other items of r show that there was (F7).
func (l *items) fresh(ctx context.Context, r sdk.ResourceID) (*known, error) {
	pk := pkOf(l.namespace, r)
	for looked := false; ; looked = true {
		it, err := l.get(ctx, pk, skHead)
		if err != nil {
			return nil, err
		}
		h, err := parseHead(it, r)
		if err != nil {
			return nil, err
		}
		if h != nil {
			return l.adopt(r, h), nil
		}
		l.drop(r)
		if looked {
			return nil, missing("head")
		}
		// Everything else is written after the first head: if there is anything, a
		// head that was made meanwhile is there now.
		out, err := l.client.Query(ctx, &dynamodb.QueryInput{TableName: &l.table, ConsistentRead: aws.Bool(true), Limit: aws.Int32(1), ProjectionExpression: aws.String("sk"),
			KeyConditionExpression: aws.String("pk = :pk"), ExpressionAttributeValues: item{":pk": str(pk)}})
		if err != nil {
			return nil, readError(err)
		}
		if len(out.Items) == 0 {
			return nil, nil
		}
	}
}

// prior is the receipt of an operation, nil if it has none.
func (l *items) prior(ctx context.Context, k *known, r sdk.ResourceID, op sdk.OperationID) (*sdk.Receipt, error) {
	if k == nil {
		return nil, nil
	}
	if receipt := k.head.receipt(op); receipt != nil {
		return receipt, nil
	}
	return l.archived(ctx, k, r, op)
}

func (l *items) inspect(ctx context.Context, r sdk.ResourceID) (sdk.FenceState, error) {
	k, err := l.fresh(ctx, r)
	if err != nil || k == nil {
		return sdk.FenceState{}, err
	}
	return k.head.state, nil
}

func (l *items) receipt(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (*sdk.Receipt, error) {
	k, err := l.fresh(ctx, r)
	if err != nil {
		return nil, err
	}
	receipt, err := l.prior(ctx, k, r, op)
	if k != nil && err == nil {
		l.keep(r, k)
	}
	return receipt, err
}

func (l *items) value(ctx context.Context, r sdk.ResourceID, key string) ([]byte, bool, error) {
	k, err := l.fresh(ctx, r)
	if err != nil || k == nil {
		return nil, false, err
	}
	v, ok := k.head.values[key]
	return v, ok, nil
}

func (l *items) resolved(ctx context.Context, r sdk.ResourceID) (func(sdk.QuarantineKey) sdk.OperationID, error) {
	k, err := l.fresh(ctx, r)
	if err != nil || k == nil {
		return nil, err
	}
	return func(q sdk.QuarantineKey) sdk.OperationID { return sdk.OperationID(k.head.resolved[shortKey(q)]) }, nil
}
