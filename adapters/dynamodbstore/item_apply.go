package dynamodbstore

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptrace"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/fencedstore/fencedstore/sdk"
)

func (l *items) apply(ctx context.Context, a sdk.Admission, m *sdk.Mutation) (sdk.Outcome, error) {
	t := &itemTry{l: l, a: a, m: m, pk: pkOf(l.namespace, m.Resource), nonce: newNonce()}
	base, guessed := l.guess(m.Resource), true
	var err error
	for wait := 5 * time.Millisecond; ; {
		if base == nil {
			guessed = false
			if base, err = l.fresh(ctx, m.Resource); err != nil {
				return sdk.Outcome{}, err
			}
		}
		out, means, old, err := t.once(ctx, base, guessed)
		switch means {
		case done:
			return out, err
		case recheck: // another writer was faster, or the guess is no basis for a refusal
			base, guessed = old, false
			if t.lost++; t.lost < 3 {
				continue
			}
			if old == nil && t.lost > maxLost {
				return sdk.Outcome{}, sdk.Errorf(sdk.Unsuitable, "head", "%d times the table refused to create it since it is there, and said that it is not: it is deleted and made at once, or reads are not of what writes see", t.lost)
			}
		}
		if !pause(ctx, wait) {
			if err == nil {
				err = sdk.Errorf(sdk.NotApplied, "head", "other writers were faster until the context ended; nothing was applied: %w", ctx.Err())
			}
			return sdk.Outcome{}, err
		}
		wait = min(2*wait, 500*time.Millisecond)
		if means == retry {
			base, guessed = nil, false
		}
	}
}

// maxLost is how often creating a head may lose to one that then is not there.
const maxLost = 12

// itemTry is one Apply in layout "item".
type itemTry struct {
	l     *items
	a     sdk.Admission
	m     *sdk.Mutation
	pk    string
	nonce []byte // of every head that this call writes
	lost  int
}

// once judges by base, nil for none, and writes. It means done, with the answer;
// retry, with the error to give when there is no time; or recheck, with the head
// that is there instead, nil if that has to be read.
func (t *itemTry) once(ctx context.Context, base *known, guessed bool) (out sdk.Outcome, means meaning, now *known, err error) {
	var state sdk.FenceState
	var h *head
	if base != nil {
		h, state = base.head, base.head.state
	}
	prior, err := t.l.prior(ctx, base, t.m.Resource, t.m.Operation)
	if err != nil && guessed {
		return out, recheck, nil, nil
	}
	if err != nil {
		return out, done, nil, err
	}
	d := sdk.Decide(state, prior, t.a)
	if d.Code != sdk.Accepted {
		if guessed {
			return out, recheck, nil, nil
		}
		if base != nil {
			t.l.keep(t.m.Resource, base)
		}
		out, err := t.l.refuse(ctx, t.pk, t.m, &d)
		return out, done, nil, err
	}
	if h != nil && !h.marked {
		if err := t.l.mark(ctx, t.pk); err != nil {
			return out, done, nil, sdk.Errorf(sdk.NotApplied, "marker", "it could not be written, and nothing was applied: %w", err)
		}
	}
	next := h.next()
	next.nonce, next.state = t.nonce, d.Next
	if n := next.leaving(); n > 0 {
		if err := t.l.archive(ctx, t.pk, next, n); err != nil {
			return out, done, nil, err
		}
	}
	next.recent = append(next.recent, d.Receipt)
	if err := t.effects(ctx, next); err != nil {
		return out, done, nil, err
	}
	it, err := next.item(t.pk)
	if err != nil {
		return out, done, nil, err
	}
	if next.size > maxItemBytes {
		return out, done, nil, sdk.Errorf(sdk.TooLarge, "resource", "its item would have %d bytes, above %d: too much in one resource", next.size, maxItemBytes)
	}
	means, old, err := t.send(ctx, h, it)
	switch means {
	case done:
		if base == nil {
			base = &known{}
		}
		out, err = t.accepted(ctx, next, base.index, &d)
		return out, done, nil, err
	case recheck:
		return t.overtaken(ctx, old, next, &d)
	case unknown:
		t.l.drop(t.m.Resource)
		return t.settle(ctx, h, next, &d, err)
	case retry:
		return out, retry, nil, err
	}
	return out, done, nil, err
}

// accepted answers once the marker is known to be there.
func (t *itemTry) accepted(ctx context.Context, next *head, idx *index, d *sdk.Decision) (sdk.Outcome, error) {
	if !next.marked {
		if err := t.l.mark(ctx, t.pk); err != nil {
			return sdk.Outcome{}, sdk.Errorf(sdk.MutationUnknown, "marker", "the head was written and its marker, without which it is not safe, could not be: %w", err)
		}
		marked := *next
		marked.marked = true
		next = &marked
	}
	t.l.keep(t.m.Resource, &known{next, idx})
	return d.Outcome()
}

// overtaken answers a condition that did not hold. A head with this call's own
// nonce means that the request came to the server twice and the first was
// applied (C1). Some servers do not return the old item: it is then read.
func (t *itemTry) overtaken(ctx context.Context, old item, next *head, d *sdk.Decision) (sdk.Outcome, meaning, *known, error) {
	h, err := parseHead(old, t.m.Resource)
	if err != nil {
		return sdk.Outcome{}, done, nil, err
	}
	var k *known
	if h != nil {
		k = t.l.adopt(t.m.Resource, h)
	} else if k, err = t.l.fresh(ctx, t.m.Resource); err != nil {
		if c := sdk.CodeOf(err); c == sdk.FenceRegression || c == sdk.Unsuitable {
			return sdk.Outcome{}, done, nil, err
		}
		return sdk.Outcome{}, done, nil, sdk.Errorf(sdk.MutationUnknown, "head", "a condition did not hold, and what was there instead could not be read: %w", err)
	}
	if k != nil && bytes.Equal(k.head.nonce, t.nonce) {
		out, err := t.accepted(ctx, next, k.index, d)
		return out, done, nil, err
	}
	return sdk.Outcome{}, recheck, k, nil
}

// settle finds out what became of a write without an answer. The head that its
// condition names never comes back: once there is another, the write has landed
// or never will.
func (t *itemTry) settle(ctx context.Context, base, next *head, d *sdk.Decision, lost error) (sdk.Outcome, meaning, *known, error) {
	fail := func(why error) (sdk.Outcome, meaning, *known, error) {
		return sdk.Outcome{}, done, nil, sdk.Errorf(sdk.MutationUnknown, "receipt", "the answer was lost (%v), and what became of it could not be read: %w", lost, why)
	}
	for wait := 20 * time.Millisecond; ; wait *= 2 {
		k, err := t.l.fresh(ctx, t.m.Resource)
		if err != nil {
			return fail(err)
		}
		switch {
		case k == nil && base == nil, k != nil && base != nil && bytes.Equal(k.head.nonce, base.nonce):
			// It may yet land. Wait a little for that; the caller's time is the limit.
			if wait > 200*time.Millisecond || !pause(ctx, wait) {
				return sdk.Outcome{}, done, nil, lost
			}
			continue
		case k == nil:
			return fail(missing("head"))
		case bytes.Equal(k.head.nonce, t.nonce):
			if !k.head.marked {
				if err := t.l.mark(ctx, t.pk); err != nil {
					return fail(err)
				}
			}
			return sdk.Outcome{Code: sdk.Replayed, Receipt: d.Receipt, Observed: k.head.state}, done, nil, nil
		}
		prior, err := t.l.prior(ctx, k, t.m.Resource, t.m.Operation)
		if err != nil {
			return fail(err)
		}
		if prior != nil && prior.Echoes(t.m) {
			return sdk.Outcome{Code: sdk.Replayed, Receipt: prior, Observed: k.head.state}, done, nil, nil
		}
		return sdk.Outcome{}, recheck, k, nil
	}
}

// effects carries the effects out on a head that is being built. The forms were
// checked by Mutation.Validate.
func (t *itemTry) effects(ctx context.Context, h *head) error {
	for _, e := range t.m.Effects {
		switch e.Kind {
		case sdk.KindPut:
			key, v, _ := sdk.ParsePut(e.Body)
			h.values[key] = slices.Clone(notNil(v))
		case sdk.KindDelete:
			key, _ := sdk.ParseDelete(e.Body)
			delete(h.values, key)
		case sdk.KindResolve:
			k, _ := sdk.ParseResolve(e.Body)
			if _, ok := h.resolved[shortKey(k)]; ok {
				continue
			}
			it, err := t.l.get(ctx, t.pk, skQuarantine(k))
			if err != nil {
				return err
			}
			if len(it) > 0 {
				h.resolved[shortKey(k)] = string(t.m.Operation)
			}
		}
	}
	return nil
}

// send writes a head on the condition that base, nil for none, is still there: a
// nonce is of one head, so no two heads are taken for one.
func (t *itemTry) send(ctx context.Context, base *head, it item) (meaning, item, error) {
	in := &dynamodb.PutItemInput{TableName: &t.l.table, Item: it, ConditionExpression: aws.String("attribute_not_exists(pk)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}
	if base != nil {
		in.ConditionExpression = aws.String("#n = :n")
		in.ExpressionAttributeNames = map[string]string{"#n": "nonce"}
		in.ExpressionAttributeValues = item{":n": bin(base.nonce)}
	}
	if err := ctx.Err(); err != nil {
		return retry, nil, sdk.Errorf(sdk.NotApplied, "DynamoDB", "nothing was sent: %w", err)
	}
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	_, err := t.l.client.PutItem(traced, in, once)
	if err == nil {
		return done, nil, nil
	}
	means, jerr := judge(err, sent.Load(), all)
	var failed *types.ConditionalCheckFailedException
	if means == recheck && errors.As(err, &failed) {
		return recheck, failed.Item, jerr
	}
	return means, nil, jerr
}

// mark writes the marker, which may be there already.
func (l *items) mark(ctx context.Context, pk string) error {
	_, err := retried(ctx, func() (*dynamodb.PutItemOutput, error) {
		return l.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &l.table, Item: keyOf(pk, skMarker)})
	})
	if err != nil {
		_, err = judge(err, true, all)
	}
	return err
}
