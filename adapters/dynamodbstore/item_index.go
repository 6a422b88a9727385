package dynamodbstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/fencedstore/fencedstore/sdk"
)

// Receipts leave the head for items of their own, found by their operation. Of
// each, in the order in which they were accepted, a fingerprint of 64 bits goes
// to the index: pages of pageSize, the rest in the head. What receipts and pages
// hold is history, the same whoever writes it and however late, so they are
// written without a condition, before the head that counts them. A handle reads
// the index once and then only the pages that it lacks: so an operation that was
// never accepted is known for one without a request.

// index is the full pages that a handle has read. It never changes.
type index struct {
	pages        uint64
	fingerprints []uint64
}

func pageKey(n uint64) string { return fmt.Sprintf("%s%019d", skIndex, n) }

// complete returns the index up to what h counts.
func (l *items) complete(ctx context.Context, pk string, have *index, h *head) (*index, error) {
	if have == nil || have.pages > h.pages() {
		have = &index{}
	}
	if have.pages == h.pages() {
		return have, nil
	}
	next := &index{pages: have.pages, fingerprints: slices.Clip(have.fingerprints)}
	in := &dynamodb.QueryInput{TableName: &l.table, ConsistentRead: aws.Bool(true),
		KeyConditionExpression:    aws.String("pk = :pk AND sk BETWEEN :from AND :to"),
		ExpressionAttributeValues: item{":pk": str(pk), ":from": str(pageKey(have.pages)), ":to": str(pageKey(h.pages() - 1))}}
	query := dynamodb.NewQueryPaginator(l.client, in)
	for query.HasMorePages() {
		out, err := query.NextPage(ctx)
		if err != nil {
			return nil, readError(err)
		}
		for _, it := range out.Items {
			r := reader{item: it, what: "index"}
			page, err := unpacked(r.bytes("fingerprints"))
			if sk := r.text("sk"); r.err != nil || err != nil || sk != pageKey(next.pages) || len(page) != pageSize {
				return nil, damaged("index", "page %q where %d comes next: %d fingerprints, %v, %v", sk, next.pages, len(page), err, r.err)
			}
			next.pages, next.fingerprints = next.pages+1, append(next.fingerprints, page...)
		}
	}
	if next.pages != h.pages() {
		return nil, damaged("index", "%d pages of %d", next.pages, h.pages())
	}
	return next, nil
}

// archived returns the receipt of an operation that left the head, nil if none
// did. A receipt that the index has and the table has not was removed behind the
// store's back.
func (l *items) archived(ctx context.Context, k *known, r sdk.ResourceID, op sdk.OperationID) (*sdk.Receipt, error) {
	pk := pkOf(l.namespace, r)
	var err error
	if k.index, err = l.complete(ctx, pk, k.index, k.head); err != nil {
		return nil, err
	}
	f := fingerprint(op)
	if !slices.Contains(k.head.tail, f) && !slices.Contains(k.index.fingerprints, f) {
		return nil, nil
	}
	it, err := l.get(ctx, pk, skReceipt+string(op))
	if err != nil {
		return nil, err
	}
	receipt, err := parseReceipt(it, r, op)
	if err == nil && receipt == nil {
		err = damaged("receipt", "that of operation %q is missing, though the index has it: it was deleted", op)
	}
	return receipt, err
}

// archive gives the n oldest receipts of h items of their own, and counts them
// out of it.
func (l *items) archive(ctx context.Context, pk string, h *head, n int) error {
	var writes []types.WriteRequest
	put := func(it item) {
		writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: it}})
	}
	for _, r := range h.recent[:n] {
		put(receiptItem(pk, r))
		h.tail = append(h.tail, fingerprint(r.Operation))
		if len(h.tail) == pageSize {
			page := keyOf(pk, pageKey(h.pages()))
			page["fingerprints"] = bin(packed(h.tail))
			put(page)
			h.tail = nil
		}
		h.archived++
	}
	h.recent = h.recent[n:]
	return l.putAll(ctx, writes)
}

// putAll writes items without a condition; up to 25 go into one request.
func (l *items) putAll(ctx context.Context, writes []types.WriteRequest) error {
	wait := 5 * time.Millisecond
	for len(writes) > 0 {
		n := min(len(writes), 25)
		out, err := retried(ctx, func() (*dynamodb.BatchWriteItemOutput, error) {
			return l.client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{l.table: writes[:n]}})
		})
		if err != nil {
			return readError(err) // written in part or not: the same comes again
		}
		left := out.UnprocessedItems[l.table]
		writes = append(left, writes[n:]...)
		if len(left) > 0 {
			if !pause(ctx, wait) {
				return sdk.Errorf(sdk.NotApplied, "DynamoDB", "the service sheds load: %w", ctx.Err())
			}
			wait = min(2*wait, 500*time.Millisecond)
		}
	}
	return nil
}
