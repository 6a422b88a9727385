package dynamodbstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/fencedstore/fencedstore/sdk"
)

// Probe implements sdk.FencedStore: it looks at keys, time to live and replicas,
// and proves on items of its own that a condition that does not hold keeps a
// whole transaction from being applied, that of several such
// transactions one wins, and that numbers are exact.
func (s *Store) Probe(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.running.Done()
	if err := s.probeTable(ctx); err != nil {
		return err
	}
	var nonce [8]byte
	rand.Read(nonce[:])
	pk := "probe#" + hex.EncodeToString(nonce[:])
	defer func() {
		ctx := context.WithoutCancel(ctx)
		for _, sk := range []string{"a", "b"} {
			s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.table, Key: keyOf(pk, sk)})
		}
	}()
	return s.layout.probe(ctx, pk)
}

func (s *Store) probeTable(ctx context.Context) error {
	out, err := s.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.table})
	if err != nil {
		return readError(err)
	}
	keys := map[string]types.KeyType{}
	for _, k := range out.Table.KeySchema {
		keys[aws.ToString(k.AttributeName)] = k.KeyType
	}
	if keys["pk"] != types.KeyTypeHash || keys["sk"] != types.KeyTypeRange || len(keys) != 2 {
		return sdk.Errorf(sdk.Unsuitable, "table", "its keys are not pk (partition) and sk (sort); use CreateTable")
	}
	if err := s.probeReplicas(out.Table); err != nil {
		return err
	}
	ttl, err := s.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.table})
	if err != nil {
		return readError(err)
	}
	if d := ttl.TimeToLiveDescription; d != nil && (d.TimeToLiveStatus == types.TimeToLiveStatusEnabled || d.TimeToLiveStatus == types.TimeToLiveStatusEnabling) {
		return sdk.Errorf(sdk.Unsuitable, "time to live", "it is on, by attribute %q: fences and receipts must never expire; turn it off", aws.ToString(d.AttributeName))
	}
	return nil
}

// probeReplicas refuses global tables in which the last writer wins, unless one
// region alone writes (C12).
func (s *Store) probeReplicas(t *types.TableDescription) error {
	if len(t.Replicas) == 0 {
		return nil
	}
	if t.MultiRegionConsistency == types.MultiRegionConsistencyStrong {
		if s.opts.Layout == LayoutItem {
			return nil
		}
		return sdk.Errorf(sdk.Unsuitable, "replicas", "a global table with strong consistency takes no transactions; use layout item, or a table in one region")
	}
	region := s.client.Options().Region
	switch s.homeRegion {
	case "":
		return sdk.Errorf(sdk.Unsuitable, "replicas", "a global table resolves by the last writer, whatever a condition said elsewhere; set home_region and write in it alone")
	case region:
		return nil
	}
	return sdk.Errorf(sdk.Unsuitable, "home_region", "it is %q and this client is in %q", s.homeRegion, region)
}

func (s *transactions) probe(ctx context.Context, pk string) error {
	const big = 1<<53 + 1
	put := func(sk string, n uint64, condition string) types.TransactWriteItem {
		it := keyOf(pk, sk)
		it["n"] = number(n)
		return types.TransactWriteItem{Put: &types.Put{TableName: &s.table, Item: it, ConditionExpression: aws.String(condition)}}
	}
	send := func(items ...types.TransactWriteItem) error {
		_, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: items}, once)
		return err
	}
	if err := send(put("a", big, "attribute_not_exists(pk)")); err != nil {
		_, jerr := judge(err, true, all)
		return jerr
	}
	err := send(put("b", 1, "attribute_not_exists(pk)"), put("a", 2, "attribute_not_exists(pk)"))
	if err == nil {
		return sdk.Errorf(sdk.Unsuitable, "condition", "a transaction whose condition does not hold was committed")
	}
	if m, jerr := judge(err, true, all); m != recheck {
		return jerr
	}
	below := put("a", 3, "n = :n")
	below.Put.ExpressionAttributeValues = item{":n": number(big - 1)}
	if err := send(below); err == nil {
		return sdk.Errorf(sdk.Unsuitable, "numbers", "%d and %d are taken for one: the server keeps numbers as floating point", uint64(big), uint64(big-1))
	}
	it, err := s.get(ctx, pk, "b")
	if err != nil {
		return err
	}
	if len(it) > 0 {
		return sdk.Errorf(sdk.Unsuitable, "transaction", "half of a transaction was applied")
	}
	return race(probeRounds, func(round uint64) error {
		next := put("a", big+1+round, "n = :n")
		next.Put.ExpressionAttributeValues = item{":n": number(big + round)}
		err := send(next)
		if m, jerr := judge(err, true, all); err != nil && m != recheck {
			return jerr
		} else if err != nil {
			return errLost
		}
		return nil
	})
}
