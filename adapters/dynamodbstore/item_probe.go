package dynamodbstore

import (
	"context"
	"errors"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/fencedstore/fencedstore/sdk"
)

const (
	probeWriters = 8
	probeRounds  = 3
	// probeBig is a token that floating point cannot tell from its neighbour.
	probeBig = 1<<53 + 1
)

// probe proves that a condition keeps an item from being written, atomically,
// that numbers are exact, and that everything that the layout sends is permitted.
func (l *items) probe(ctx context.Context, pk string) error {
	put := func(n uint64, condition string, values item) (bool, error) {
		it := keyOf(pk, "a")
		it["n"] = number(n)
		_, err := l.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &l.table, Item: it, ConditionExpression: &condition, ExpressionAttributeValues: values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}, once)
		if err == nil {
			return true, nil
		}
		if m, jerr := judge(err, true, all); m != recheck {
			return false, jerr
		}
		return false, nil
	}
	for _, step := range []struct {
		what      string
		n         uint64
		condition string
		values    item
		want      bool
		field     string
	}{
		{"making an item where there is none", probeBig, "attribute_not_exists(pk)", nil, true, "condition"},
		{"making an item where there is one", 1, "attribute_not_exists(pk)", nil, false, "condition"},
		{"replacing an item of a number 1 above the expected one (numbers kept as floating point are one)", 1, "n = :n", item{":n": number(probeBig - 1)}, false, "numbers"},
		{"replacing the item of the expected number", probeBig + 2, "n = :n", item{":n": number(probeBig)}, true, "numbers"},
	} {
		got, err := put(step.n, step.condition, step.values)
		if err != nil {
			return err
		}
		if got != step.want {
			return sdk.Errorf(sdk.Unsuitable, step.field, "%s: the server said %v", step.what, got)
		}
	}
	it, err := l.get(ctx, pk, "a")
	if err != nil {
		return err
	}
	if n, ok := it["n"].(*types.AttributeValueMemberN); !ok || n.Value != number(probeBig+2).(*types.AttributeValueMemberN).Value {
		return sdk.Errorf(sdk.Unsuitable, "numbers", "%d was written and %+v read", uint64(probeBig+2), it["n"])
	}
	if err := l.putAll(ctx, []types.WriteRequest{{PutRequest: &types.PutRequest{Item: keyOf(pk, "b")}}}); err != nil {
		return err
	}
	out, err := l.client.Query(ctx, &dynamodb.QueryInput{TableName: &l.table, ConsistentRead: aws.Bool(true),
		KeyConditionExpression: aws.String("pk = :pk"), ExpressionAttributeValues: item{":pk": str(pk)}})
	if err != nil {
		return readError(err)
	}
	if len(out.Items) != 2 {
		return sdk.Errorf(sdk.Unsuitable, "query", "2 items were written and %d are found", len(out.Items))
	}
	return race(probeRounds, func(round uint64) error {
		ok, err := put(probeBig+3+round, "n = :n", item{":n": number(probeBig + 2 + round)})
		if err == nil && !ok {
			err = errLost
		}
		return err
	})
}

var errLost = errors.New("another writer was faster")

// race starts writers together, round after round, each of which wants to move
// the same state on: exactly one may.
func race(rounds int, write func(round uint64) error) error {
	for round := range rounds {
		start := make(chan struct{})
		errs := make([]error, probeWriters)
		var wg sync.WaitGroup
		for i := range probeWriters {
			wg.Go(func() {
				<-start
				errs[i] = write(uint64(round))
			})
		}
		close(start)
		wg.Wait()
		winners := 0
		for _, err := range errs {
			switch {
			case err == nil:
				winners++
			case !errors.Is(err, errLost) && sdk.CodeOf(err) != sdk.NotApplied:
				return err
			}
		}
		if winners > 1 {
			return sdk.Errorf(sdk.Unsuitable, "condition", "%d of %d writers that wanted the same state replaced it: the server does not decide conditions atomically", winners, probeWriters)
		}
		if winners == 0 {
			return sdk.Errorf(sdk.NotApplied, "condition", "none of %d writers came through: %w", probeWriters, errors.Join(errs...))
		}
	}
	return nil
}
