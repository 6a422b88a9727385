package dynamodbstore

import (
	"context"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
)

// The fenced write against a conditional PutItem of the same business data, with
// the same client on the same server in turns.
//
// moto copies the whole table for each transaction, so that what it says of layout
// transaction grows with the run (2.5 after 6 mutations, 3.6 after 100) and is
// moto's own; the requests are the measure there.
//
//	go test -run '^$' -bench Apply ./adapters/dynamodbstore
func BenchmarkApply(b *testing.B) {
	for _, on := range []struct {
		server *lab.Server
		layout string
	}{{lab.Moto, LayoutTransaction}, {lab.Moto, LayoutItem}, {lab.Dynalite, LayoutItem}} {
		b.Run(on.layout+" on "+on.server.Name, func(b *testing.B) {
			s := startOn(b, on.server, on.layout)
			st := opened(b, s)
			value := []byte("1234567890")
			fenced := func(i int) error {
				// A resource has 50 mutations: moto's cost grows with its items.
				m := mutation(1, i%50+1, fmt.Sprint("op-", i), sdk.Put("balance", value))
				m.Resource = sdk.ResourceID(fmt.Sprint("bench/", i/50))
				_, err := st.Apply(b.Context(), sdk.NewAdmission(seal.Cut(), m))
				return err
			}
			plain := func(i int) error { return s.plain(b.Context(), i, value) }
			lab.Compare(b, func() int { return s.Count("") }, fenced, plain)
		})
	}
}

// plain moves an item on by its version number, as a team without fences would.
func (s *server) plain(ctx context.Context, i int, value []byte) error {
	it := keyOf(fmt.Sprint("plain/", i/50), "balance")
	it["value"], it["version"] = bin(value), number(uint64(i%50+1))
	in := &dynamodb.PutItemInput{TableName: &s.table, Item: it, ConditionExpression: aws.String("attribute_not_exists(pk)")}
	if i%50 > 0 {
		in.ConditionExpression = aws.String("#v = :v")
		in.ExpressionAttributeNames = map[string]string{"#v": "version"}
		in.ExpressionAttributeValues = item{":v": number(uint64(i % 50))}
	}
	_, err := s.client.PutItem(ctx, in)
	return err
}
