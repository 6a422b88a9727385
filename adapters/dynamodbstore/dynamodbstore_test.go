package dynamodbstore

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
)

const resource sdk.ResourceID = "invoice/42"

func createTeamTable(t *testing.T, s *server) {
	t.Helper()
	if err := CreateTable(t.Context(), s.client, "team"); err != nil {
		t.Fatal(err)
	}
}

func updateOf(table, pk string) types.Update {
	return types.Update{TableName: &table, Key: keyOf(pk, "n"), UpdateExpression: aws.String("ADD n :one"), ExpressionAttributeValues: item{":one": number(1)}}
}

func checkOf(table, pk string) types.ConditionCheck {
	return types.ConditionCheck{TableName: &table, Key: keyOf(pk, "never"), ConditionExpression: aws.String("attribute_exists(pk)")}
}

func mutation(fence sdk.Token, segment int, op string, effects ...sdk.Effect) *sdk.Mutation {
	id := sdk.OperationID(op)
	return &sdk.Mutation{Resource: resource, Operation: id, Fence: fence, Segment: sdk.Segment(segment), Owner: "w",
		Root: sdk.SumDigest([]byte("root")), Grant: sdk.SumDigest([]byte(fence.String())),
		Payload: sdk.PayloadDigest(id, nil, effects), Effects: effects}
}

func opened(t testing.TB, s *server) sdk.FencedStore {
	t.Helper()
	st, err := Open(t.Context(), s.dsn(), sdk.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

func apply(t testing.TB, s sdk.FencedStore, m *sdk.Mutation, want sdk.Code) sdk.Outcome {
	t.Helper()
	out, err := s.Apply(t.Context(), sdk.NewAdmission(seal.Cut(), m))
	if out.Code != want || (err == nil) != want.Ok() {
		t.Fatalf("%s: %v, %v; want %v", m.Operation, out.Code, err, want)
	}
	return out
}

// C63, C66: a fence that does not parse, such as one that is a random name, is
// never 0; tokens are whole numbers and exact.
func TestDamagedFence(t *testing.T) {
	for name, value := range map[string]types.AttributeValue{
		"text": str("7"), "random name": str("0b8a1c9e-2f5d-4e6a-9d3f-1f2e3d4c5b6a"), "exponent": &types.AttributeValueMemberN{Value: "1e3"}, "point": &types.AttributeValueMemberN{Value: "1.0"}, "fraction": &types.AttributeValueMemberN{Value: "7.5"}, "negative": &types.AttributeValueMemberN{Value: "-7"},
		"too high": &types.AttributeValueMemberN{Value: "18446744073709551616"}, "above 2^63": &types.AttributeValueMemberN{Value: "9223372036854775808"}, "zero": number(0),
	} {
		state, err := parseFence(item{"highest": value, "segment": number(1), "grantDigest": bin(make([]byte, 32)), "root": bin(make([]byte, 32)), "policyGeneration": number(0), "trustGeneration": number(0)})
		if !errors.Is(err, sdk.ErrUnsuitable) {
			t.Errorf("%s: %+v, %v", name, state, err)
		}
	}
	const long = 1556893286484340854
	exact := item{"highest": number(long), "segment": number(1), "grantDigest": bin(make([]byte, 32)), "root": bin(make([]byte, 32)), "policyGeneration": number(0), "trustGeneration": number(0)}
	if state, err := parseFence(exact); err != nil || state.Highest != long {
		t.Errorf("%+v, %v", state, err)
	}
}

// C26: the whole table of answers.
func TestJudge(t *testing.T) {
	for _, a := range answers {
		if m, err := judge(&smithy.GenericAPIError{Code: a.code}, true, all); m != a.means || sdk.CodeOf(err) == 0 {
			t.Errorf("%s: %v, %v", a.code, m, err)
		}
	}
	if m, err := judge(errors.New("connection refused"), false, all); m != retry || sdk.CodeOf(err) != sdk.NotApplied {
		t.Errorf("not sent: %v, %v", m, err)
	}
	for _, err := range []error{io.EOF, context.DeadlineExceeded, &smithy.GenericAPIError{Code: "X"}} {
		if m, got := judge(err, true, all); m != unknown || sdk.CodeOf(got) != sdk.MutationUnknown {
			t.Errorf("%v: %v, %v", err, m, got)
		}
	}
}

func TestBadDSN(t *testing.T) {
	for _, d := range []string{"", "dynamodb:", "dynamodb://", "dynamodb://ab", "dynamodb://user:pw@table", "dynamodb://table/x", "dynamodb://table?x=1", "dynamodb://table?region=",
		"dynamodb://table?endpoint=ftp://x", "dynamodb://table?environment=embedded", "dynamodb://table#x", "s3://table"} {
		if _, err := Open(t.Context(), d, sdk.OpenOptions{}); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%q: %v, want INVALID", d, err)
		}
	}
}
