package dynamodbstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/sdk"
)

// trips are the requests that f takes.
func (s *server) trips(f func()) int {
	before := s.Count("")
	f()
	return s.Count("") - before
}

// Round trips: 1 in the steady state; in layout item each eighth mutation moves
// receipts out, which takes another. A refusal costs at most 1 more, 2 where the
// server does not return the old item.
func TestRoundTrips(t *testing.T) {
	for _, on := range []struct {
		server *lab.Server
		layout string
		silent int // requests more than at AWS
	}{{lab.Moto, LayoutTransaction, 0}, {lab.Moto, LayoutItem, 0}, {lab.Dynalite, LayoutItem, 1}} {
		t.Run(on.server.Name+" "+on.layout, func(t *testing.T) {
			s := startOn(t, on.server, on.layout)
			st, other := opened(t, s), opened(t, s)
			apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
			const segments = 33
			more := 0
			for i := 2; i <= segments; i++ {
				n := s.trips(func() { apply(t, st, mutation(1, i, fmt.Sprint("op-", i), sdk.Put("k", []byte("v"))), sdk.Accepted) })
				if more += n - 1; n > 2 {
					t.Errorf("segment %d took %d requests", i, n)
				}
			}
			if want := map[string]int{LayoutTransaction: 0, LayoutItem: segments / (maxRecent - keepRecent)}[on.layout]; more > want {
				t.Errorf("%d requests for receipts, at most %d", more, want)
			}
			expect := func(what string, st sdk.FencedStore, m *sdk.Mutation, want sdk.Code, most int) {
				t.Helper()
				if n := s.trips(func() { apply(t, st, m, want) }); n > most {
					t.Errorf("%s took %d requests, at most %d", what, n, most)
				}
			}
			expect("a takeover by a new handle", other, mutation(2, 1, "op-b", sdk.Put("k", []byte("v"))), sdk.Accepted, 3)
			expect("a stale owner who knows no better", st, mutation(1, segments+1, "late"), sdk.StaleOwner, 2+on.silent)
			expect("a stale owner who knows", st, mutation(1, segments+2, "late"), sdk.StaleOwner, 2)
			expect("a skipped segment", st, mutation(2, 9, "skip"), sdk.SegmentSkipped, 1)
			expect("the same again", other, mutation(2, 1, "op-b", sdk.Put("k", []byte("v"))), sdk.Replayed, 2)
			expect("an operation of long ago", other, mutation(2, 2, "op-3", sdk.Put("k", []byte("v"))), sdk.AlreadyApplied, 2+1)
		})
	}
}

// Receipts are permanent (F10): beyond what the head holds, through pages of the
// index, with results large and small, and for handles that see them for the
// first time. The head stays small.
func TestReceiptsMoveOut(t *testing.T) {
	s := startItem(t)
	st := opened(t, s)
	const segments = 2*pageSize + 30
	result := func(i int) []byte {
		if i%40 == 39 {
			return make([]byte, sdk.MaxResultBytes)
		}
		return fmt.Append(nil, "result ", i)
	}
	made := func(segment int, op string, i int) *sdk.Mutation {
		m := mutation(1, segment, op)
		m.Result = result(i)
		m.Payload = sdk.PayloadDigest(m.Operation, m.Result, nil)
		return m
	}
	for i := 1; i <= segments; i++ {
		apply(t, st, made(i, fmt.Sprint("op-", i), i), sdk.Accepted)
	}
	it, err := s.client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &s.table, Key: keyOf(pkOf("main", resource), skHead), ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	h, err := parseHead(it.Item, resource)
	if err != nil || len(h.recent) > maxRecent || h.pages() != 2 || h.size > 4<<10 {
		t.Fatalf("%+v, %v", h, err)
	}
	for name, st := range map[string]sdk.FencedStore{"the same handle": st, "a new handle": opened(t, s)} {
		for i := 1; i <= segments; i++ {
			r, err := st.Receipt(t.Context(), resource, sdk.OperationID(fmt.Sprint("op-", i)))
			if err != nil || int(r.Segment) != i || string(r.Result) != string(result(i)) {
				t.Fatalf("%s: receipt %d: segment %d, %v", name, i, r.Segment, err)
			}
		}
		for _, i := range []int{1, pageSize, pageSize + 1, 2 * pageSize, segments - 5, segments - 1} {
			apply(t, st, made(segments+1, fmt.Sprint("op-", i), i), sdk.AlreadyApplied)
			apply(t, st, made(i, fmt.Sprint("op-", i), i), sdk.Replayed)
		}
		if _, err := st.Receipt(t.Context(), resource, "never"); !errors.Is(err, sdk.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A page of the index that is gone is no empty one.
	s.delete(t, pageKey(1))
	apply(t, opened(t, s), mutation(1, segments+1, "next"), sdk.Unsuitable)
}

// Many handles write in turns, each with a head and an index of its own age.
func TestManyHandles(t *testing.T) {
	s := startItem(t)
	var handles []sdk.FencedStore
	for range 3 {
		handles = append(handles, opened(t, s))
	}
	const segments = 2*pageSize + 9
	for i := 1; i <= segments; i++ {
		apply(t, handles[i*i%7%3], mutation(1, i, fmt.Sprint("op-", i)), sdk.Accepted)
	}
	for i, st := range handles {
		apply(t, st, mutation(1, segments+1, fmt.Sprint("op-", 1+i*pageSize)), sdk.AlreadyApplied)
	}
}

// All values of a resource share an item: one too many is refused before it is
// sent, and the others can still be written and taken away.
func TestItemIsFull(t *testing.T) {
	s := startItem(t)
	st := opened(t, s)
	i := 1
	for ; i < 10; i++ {
		m := mutation(1, i, fmt.Sprint("op-", i), sdk.Put(fmt.Sprint("k", i), make([]byte, MaxItemValueBytes-100)))
		if n := s.trips(func() {
			if i < 7 {
				apply(t, st, m, sdk.Accepted)
			} else {
				apply(t, st, m, sdk.TooLarge)
			}
		}); i == 7 {
			if n != 0 {
				t.Errorf("%d requests", n)
			}
			break
		}
	}
	apply(t, st, mutation(1, i, "fewer", sdk.Delete("k1")), sdk.Accepted)
	apply(t, st, mutation(1, i+1, "again", sdk.Put("k9", make([]byte, MaxItemValueBytes-100))), sdk.Accepted)
}

// What the item of a small resource costs, as AWS counts: write units of 1 KB,
// two for each item in a transaction.
func TestItemCostsHalf(t *testing.T) {
	s := startItem(t)
	st := opened(t, s)
	const segments = 64
	units := 0.0
	for i := 1; i <= segments; i++ {
		apply(t, st, mutation(1, i, fmt.Sprint("op-", i), sdk.Put("balance", []byte("1234567890"))), sdk.Accepted)
		it, err := s.client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &s.table, Key: keyOf(pkOf("main", resource), skHead), ConsistentRead: aws.Bool(true)})
		if err != nil {
			t.Fatal(err)
		}
		units += float64((sizeOf(it.Item) + 1023) / 1024)
	}
	units = units/segments + 1 + 1.0/pageSize // and each receipt's own item, and its part of a page
	const transaction = 2 * 3                 // fence, receipt, value
	t.Logf("%.2f write units per mutation, %d in a transaction", units, transaction)
	if units > transaction/2 {
		t.Errorf("%.2f write units per mutation", units)
	}
}
