package dynamodbstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/fencedstore/fencedstore/sdk"
)

// once turns the SDK's retries off for one call: a retry could meet its own
// success and come back as a lost race (C1).
func once(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// Apply implements sdk.FencedStore.
func (s *Store) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	m, err := s.desc.Check(a)
	if err != nil {
		return sdk.Refusal(err), err
	}
	if err := s.enter(ctx); err != nil {
		return sdk.Refusal(err), err
	}
	defer s.running.Done()
	out, err := s.layout.apply(ctx, a, m)
	if err != nil && out.Code == 0 {
		out = sdk.Refusal(err)
	}
	return out, err
}

func (s *transactions) apply(ctx context.Context, a sdk.Admission, m *sdk.Mutation) (sdk.Outcome, error) {
	t := &try{s: s, a: a, m: m, pk: pkOf(s.namespace, m.Resource)}
	if err := t.prepare(ctx); err != nil {
		return sdk.Outcome{}, err
	}
	return t.run(ctx)
}

// try is one Apply in layout "transaction".
type try struct {
	s  *transactions
	a  sdk.Admission
	m  *sdk.Mutation
	pk string

	effects  []types.TransactWriteItem
	natives  int
	mayTwice bool // an attempt of this call may have reached the table
}

func (t *try) run(ctx context.Context) (sdk.Outcome, error) {
	state, guessed := t.s.guess(t.m.Resource)
	var prior *sdk.Receipt
	var err error
	for wait := 5 * time.Millisecond; ; {
		if !guessed {
			if state, prior, err = t.s.look(ctx, t.m.Resource, t.m.Operation); err != nil {
				return sdk.Outcome{}, t.unread(err)
			}
			if t.mayTwice && prior != nil && prior.Echoes(t.m) {
				return sdk.Outcome{Code: sdk.Replayed, Receipt: prior, Observed: state}, nil
			}
		}
		d := sdk.Decide(state, prior, t.a)
		if d.Code != sdk.Accepted {
			if guessed {
				guessed = false
				continue
			}
			return t.s.refuse(ctx, t.pk, t.m, &d)
		}
		means, err := t.send(ctx, state, &d)
		switch means {
		case done:
			t.s.remember(t.m.Resource, d.Next)
			return d.Outcome()
		case unsuitable, tooLarge, effect:
			return sdk.Outcome{}, t.unless(err)
		case unknown:
			return t.settle(ctx, state, d, err)
		case retry:
			if !pause(ctx, wait) {
				return sdk.Outcome{}, t.unless(err)
			}
			wait = min(2*wait, 500*time.Millisecond)
		}
		guessed, prior = false, nil
	}
}

// unread is the error of a read: what was sent before decides what it proves.
func (t *try) unread(err error) error {
	if !t.mayTwice {
		return err
	}
	return sdk.Errorf(sdk.MutationUnknown, "receipt", "an attempt's answer was lost, and the receipt could not be read: %w", err)
}

// unless keeps a proof only if no earlier attempt of this call may have landed.
func (t *try) unless(err error) error {
	if !t.mayTwice {
		return err
	}
	return sdk.Errorf(sdk.MutationUnknown, "DynamoDB", "an earlier attempt's answer was lost: %w", err)
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// refuse answers by a decision on a fresh read.
func (s *Store) refuse(ctx context.Context, pk string, m *sdk.Mutation, d *sdk.Decision) (sdk.Outcome, error) {
	if d.Code == sdk.Quarantined {
		if err := s.quarantine(ctx, pk, m.Quarantine()); err != nil {
			return sdk.Outcome{}, sdk.Errorf(sdk.NotApplied, "quarantine", "the conflict could not be put on record; nothing was applied: %w", err)
		}
	}
	return d.Outcome()
}

// settle finds out what became of a transaction without an answer. The fence
// state that its condition names never comes back: once it is another, the
// transaction has landed or never will.
func (t *try) settle(ctx context.Context, base sdk.FenceState, d sdk.Decision, lost error) (sdk.Outcome, error) {
	t.mayTwice = true
	t.s.forget(t.m.Resource)
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		state, prior, err := t.s.look(ctx, t.m.Resource, t.m.Operation)
		switch {
		case err != nil:
			return sdk.Outcome{}, sdk.Errorf(sdk.MutationUnknown, "receipt", "the answer was lost (%v), and the receipt could not be read: %w", lost, err)
		case prior != nil && prior.Echoes(t.m):
			return sdk.Outcome{Code: sdk.Replayed, Receipt: prior, Observed: state}, nil
		case state != base:
			// It can never land. Judge afresh, as if it had not been sent.
			t.mayTwice = false
			return t.run(ctx)
		}
		// It may yet land. Wait a little for that; the caller's time is the limit.
		if wait > 200*time.Millisecond || !pause(ctx, wait) {
			return sdk.Outcome{}, lost
		}
	}
}

// done, beside the meanings of an error: the transaction was committed.
const done meaning = 255

// send sends the transaction that turns state into what was decided.
func (t *try) send(ctx context.Context, state sdk.FenceState, d *sdk.Decision) (meaning, error) {
	var token [16]byte
	rand.Read(token[:])
	in := &dynamodb.TransactWriteItemsInput{ClientRequestToken: aws.String(hex.EncodeToString(token[:]))}
	in.TransactItems = append(in.TransactItems, t.fenceWrite(state, d.Next), types.TransactWriteItem{Put: &types.Put{
		TableName: &t.s.table, Item: receiptItem(t.pk, d.Receipt), ConditionExpression: aws.String("attribute_not_exists(pk)")}})
	if state.Absent() {
		in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Put: &types.Put{
			TableName: &t.s.table, Item: keyOf(t.pk, skMarker), ConditionExpression: aws.String("attribute_not_exists(pk)")}})
	}
	own := len(in.TransactItems)
	in.TransactItems = append(in.TransactItems, t.effects...)
	if err := ctx.Err(); err != nil {
		return retry, sdk.Errorf(sdk.NotApplied, "DynamoDB", "nothing was sent: %w", err)
	}
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	if _, err := t.s.client.TransactWriteItems(traced, in, once); err != nil {
		means, jerr := judge(err, sent.Load(), own)
		if means == unsuitable && t.natives > 0 && errorCode(err) == "ValidationException" {
			means, jerr = effect, coded(effect, "the service does not take the request: an effect's form, or two for one item", err)
		}
		return means, jerr
	}
	return done, nil
}

// fenceWrite moves the fence item, on the condition that it is the one that was
// judged.
func (t *try) fenceWrite(old, next sdk.FenceState) types.TransactWriteItem {
	if old.Absent() {
		it := fenceItem(keyOf(t.pk, skFence), next)
		return types.TransactWriteItem{Put: &types.Put{TableName: &t.s.table, Item: it, ConditionExpression: aws.String("attribute_not_exists(pk)")}}
	}
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &t.s.table, Key: keyOf(t.pk, skFence),
		UpdateExpression:    aws.String("SET #h = :nh, #s = :ns, #g = :ng, #r = :nr, #p = :np, #t = :nt"),
		ConditionExpression: aws.String("#h = :oh AND #s = :os AND #g = :og"),
		// Names behind placeholders: segment is a reserved word, and others may become one.
		ExpressionAttributeNames: map[string]string{"#h": "highest", "#s": "segment", "#g": "grantDigest", "#r": "root", "#p": "policyGeneration", "#t": "trustGeneration"},
		ExpressionAttributeValues: item{
			":nh": number(uint64(next.Highest)), ":ns": number(uint64(next.Segment)), ":ng": bin(next.Grant[:]), ":nr": bin(next.Root[:]),
			":np": number(next.Generations.Policy), ":nt": number(next.Generations.Trust),
			":oh": number(uint64(old.Highest)), ":os": number(uint64(old.Segment)), ":og": bin(old.Grant[:])}}}
}

// prepare turns the effects into actions, and refuses what the team's own
// writes may not touch.
func (t *try) prepare(ctx context.Context) error {
	for _, e := range t.m.Effects {
		switch e.Kind { // the forms were checked by Mutation.Validate
		case sdk.KindPut:
			key, value, _ := sdk.ParsePut(e.Body)
			it := keyOf(t.pk, skValue+key)
			it["value"] = bin(notNil(value))
			t.effects = append(t.effects, types.TransactWriteItem{Put: &types.Put{TableName: &t.s.table, Item: it}})
		case sdk.KindDelete:
			key, _ := sdk.ParseDelete(e.Body)
			t.effects = append(t.effects, types.TransactWriteItem{Delete: &types.Delete{TableName: &t.s.table, Key: keyOf(t.pk, skValue+key)}})
		case sdk.KindResolve:
			if err := t.resolve(ctx, e); err != nil {
				return err
			}
		case KindWrite:
			if err := t.s.opts.CheckScope(t.m.Resource, e); err != nil {
				return err
			}
			w, err := ParseWrite(e.Body)
			if err != nil {
				return err
			}
			if tableOf(w) == t.s.table {
				return sdk.Errorf(sdk.Invalid, "effect", "%s names the fence's own table", KindWrite)
			}
			t.effects = append(t.effects, *w)
			t.natives++
		}
	}
	return nil
}

// resolve settles a quarantine record that is there and open.
func (t *try) resolve(ctx context.Context, e sdk.Effect) error {
	k, _ := sdk.ParseResolve(e.Body)
	sk := skQuarantine(k)
	it, err := t.s.get(ctx, t.pk, sk)
	if err != nil || len(it) == 0 || it["resolvedBy"] != nil {
		return err
	}
	t.effects = append(t.effects, types.TransactWriteItem{Update: &types.Update{
		TableName: &t.s.table, Key: keyOf(t.pk, sk), UpdateExpression: aws.String("SET resolvedBy = if_not_exists(resolvedBy, :op)"),
		ConditionExpression: aws.String("attribute_exists(pk)"), ExpressionAttributeValues: item{":op": str(string(t.m.Operation))}}})
	return nil
}

// quarantine puts a conflict on record, once by its key; beyond the limit it only
// counts.
func (s *Store) quarantine(ctx context.Context, pk string, q sdk.Quarantine) error {
	it := quarantineItem(pk, q)
	known, err := s.get(ctx, pk, skQuarantine(q.QuarantineKey))
	if err != nil || len(known) > 0 {
		return err
	}
	count := 0
	if err := s.eachQuarantine(ctx, pk, true, func(item) error { count++; return nil }); err != nil {
		return err
	}
	if count >= s.desc.Limits.Quarantine {
		_, err := s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: &s.table, Key: keyOf(pk, skDropped),
			UpdateExpression: aws.String("ADD #n :one"), ExpressionAttributeNames: map[string]string{"#n": "records"}, ExpressionAttributeValues: item{":one": number(1)}}, once)
		return err
	}
	_, err = retried(ctx, func() (*dynamodb.PutItemOutput, error) {
		return s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.table, Item: it, ConditionExpression: aws.String("attribute_not_exists(pk)")})
	})
	if m, jerr := judge(err, true, all); err != nil && m != recheck { // recheck: the same attempt was faster
		return jerr
	}
	return nil
}

// retried runs a call that may be repeated while the service says that it did
// not decide.
func retried[T any](ctx context.Context, call func() (T, error)) (T, error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		out, err := call()
		if err == nil {
			return out, nil
		}
		if m, _ := judge(err, true, all); m != retry || !pause(ctx, wait) {
			return out, err
		}
	}
}

func compareQuarantine(a, b sdk.Quarantine) int {
	return cmp.Or(cmp.Compare(a.Fence, b.Fence), cmp.Compare(a.Segment, b.Segment),
		cmp.Compare(a.Operation, b.Operation), bytes.Compare(a.Payload[:], b.Payload[:]))
}
