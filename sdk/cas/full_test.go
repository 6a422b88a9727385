package cas_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/cas"
)

// A resource that is full to the last byte can still be taken over, and emptied.
func TestFullResourceIsTakenOver(t *testing.T) {
	b := newBucket()
	s := open(t, b)
	segment, key := 0, 0
	for size := 2000; size > 0; {
		var effects []sdk.Effect
		for range 20 {
			effects = append(effects, sdk.Put(fmt.Sprintf("key-%06d", key+len(effects)), make([]byte, size)))
		}
		m := mutation(1, segment+1, fmt.Sprintf("op-%d-%d", segment, size), effects...)
		out, err := s.Apply(t.Context(), sdk.NewAdmission(seal.Cut(), m))
		switch out.Code {
		case sdk.Accepted:
			segment++
			key += len(effects)
		case sdk.TooLarge:
			size /= 2
		default:
			t.Fatalf("%v, %v", out.Code, err)
		}
	}
	for fence := sdk.Token(2); fence < 60; fence++ {
		m := mutation(fence, 1, "")
		m.Operation = sdk.ClaimID(m.Grant)
		m.Payload = sdk.PayloadDigest(m.Operation, nil, nil)
		apply(t, s, m, sdk.Accepted)
	}
	for i := 1; i <= 20; i++ {
		apply(t, s, mutation(60, i, fmt.Sprintf("empties-%d", i), sdk.Delete(fmt.Sprintf("key-%06d", i))), sdk.Accepted)
	}
	apply(t, s, mutation(60, 21, "again", sdk.Put("key", make([]byte, 100))), sdk.Accepted)
}

// small is a bucket whose objects have at most limit bytes.
type small struct {
	*bucket
	limit int
}

func (s small) check(name string, body []byte) error {
	if len(body) > s.limit {
		return sdk.Errorf(sdk.TooLarge, name, "%d bytes", len(body))
	}
	return nil
}

func (s small) PutNew(ctx context.Context, name string, body []byte) error {
	if err := s.check(name, body); err != nil {
		return err
	}
	return s.bucket.PutNew(ctx, name, body)
}

func (s small) PutIf(ctx context.Context, name string, body []byte, version string) (bool, string, error) {
	if err := s.check(name, body); err != nil {
		return false, "", err
	}
	return s.bucket.PutIf(ctx, name, body, version)
}

// F10: receipts are for ever, and the store's largest object does not end them.
// With one directory a store of 64 KiB objects took no write and no owner after
// 7,672 operations.
func TestArchiveHasNoEnd(t *testing.T) {
	b := small{newBucket(), 24 << 10}
	openSmall := func() *cas.Store {
		s, err := cas.Open(t.Context(), cas.Adapter{Objects: b, MaxObjectBytes: b.limit,
			Description: sdk.Description{Name: "small", Version: "1", Backend: "Go map"}}, sdk.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := openSmall()
	const all = 3200
	for i := 1; i <= all; i++ {
		apply(t, s, mutation(1, i, fmt.Sprintf("op-%d", i)), sdk.Accepted)
	}
	if n, err := s.CleanUp(t.Context(), resource, b); err != nil || n == 0 {
		t.Fatalf("%d removed, %v", n, err)
	}
	other := openSmall()
	before := b.count("get")
	apply(t, other, mutation(2, 1, "takeover"), sdk.Accepted)
	if n := b.count("get") - before; n > 3 {
		t.Errorf("the first write after a takeover took %d reads", n)
	}
	for i := 1; i <= all; i += 7 {
		op := sdk.OperationID(fmt.Sprintf("op-%d", i))
		if r, err := other.Receipt(t.Context(), resource, op); err != nil || r.Segment != sdk.Segment(i) {
			t.Fatalf("%s: %+v, %v", op, r, err)
		}
	}
}
