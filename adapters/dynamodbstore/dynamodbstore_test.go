package dynamodbstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
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

// C1: the transaction is committed and its answer lost; the receipt tells. On
// the first write, on the next one and at a takeover.
func TestLostAnswer(t *testing.T) {
	s := start(t)
	st := opened(t, s)
	lose := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if operation(r) != "TransactWriteItems" {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	for i, m := range []*sdk.Mutation{mutation(1, 1, "op-1"), mutation(1, 2, "op-2", sdk.Put("k", []byte("v"))), mutation(2, 1, "op-3")} {
		s.Set(lose)
		before := s.Count("TransactWriteItems")
		apply(t, st, m, sdk.Replayed)
		if n := s.Count("TransactWriteItems") - before; n != 1 {
			t.Errorf("%d: sent %d times", i, n)
		}
		s.Set(nil)
		apply(t, st, m, sdk.Replayed)
	}
}

func TestLostRequest(t *testing.T) {
	s := start(t)
	st := opened(t, s)
	apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
	s.Set(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if operation(r) == "TransactWriteItems" {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
	apply(t, st, mutation(1, 2, "op-2"), sdk.MutationUnknown)
	s.Set(nil)
	apply(t, st, mutation(1, 2, "op-2"), sdk.Accepted)
}

// answers rewrites the answer to the first transactions.
func rewrite(times int, body string) func(w http.ResponseWriter, r *http.Request, next http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if operation(r) != "TransactWriteItems" || times == 0 {
			next.ServeHTTP(w, r)
			return
		}
		times--
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, body)
	}
}

func cancelled(codes ...string) string {
	var list []string
	for _, c := range codes {
		list = append(list, fmt.Sprintf(`{"Code":%q}`, c))
	}
	return `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","message":"cancelled","CancellationReasons":[` + strings.Join(list, ",") + `]}`
}

func failed(code string) string {
	return fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"x"}`, code)
}

// C4, C17, C61, C62: answers that no local server gives. What proves nothing is
// settled by the receipt, what says that nothing was decided is sent again.
func TestAnswers(t *testing.T) {
	s := start(t)
	st := opened(t, s)
	apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
	segment := 1
	for _, tc := range []struct {
		name  string
		times int
		body  string
		want  sdk.Code
	}{
		{"conflict", 2, cancelled("None", "None", "TransactionConflict"), sdk.Accepted},
		{"condition and conflict", 2, cancelled("ConditionalCheckFailed", "TransactionConflict", "None"), sdk.Accepted},
		{"condition that holds", 1, cancelled("ConditionalCheckFailed", "None", "None"), sdk.Accepted},
		{"throttled", 2, cancelled("ThrottlingError", "None"), sdk.Accepted},
		{"no reasons", 1, cancelled(), sdk.Accepted},
		{"throughput", 2, failed("ProvisionedThroughputExceededException"), sdk.Accepted},
		{"throttling", 2, failed("ThrottlingException"), sdk.Accepted},
		{"replicated write conflict", 2, failed("ReplicatedWriteConflictException"), sdk.Accepted},
		{"validation of the fence", 1, cancelled("None", "ValidationError", "None"), sdk.Unsuitable},
		{"validation of an effect", 1, cancelled("None", "None", "ValidationError"), sdk.Invalid},
		{"access denied", 1, failed("AccessDeniedException"), sdk.Unsuitable},
		{"no table", 1, failed("ResourceNotFoundException"), sdk.Unsuitable},
		{"in progress", 1, failed("TransactionInProgressException"), sdk.MutationUnknown},
		{"parameter mismatch", 1, failed("IdempotentParameterMismatchException"), sdk.MutationUnknown},
		{"internal error", 1, failed("InternalServerError"), sdk.MutationUnknown},
		{"something new", 1, failed("BrandNewException"), sdk.MutationUnknown},
		{"a new reason", 1, cancelled("None", "BrandNew"), sdk.MutationUnknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			segment++
			m := mutation(1, segment, fmt.Sprint("op-", segment), sdk.Put("k", []byte("v")))
			s.Set(rewrite(tc.times, tc.body))
			apply(t, st, m, tc.want)
			s.Set(nil)
			if tc.want != sdk.Accepted {
				apply(t, st, m, sdk.Accepted)
			}
		})
	}
	if q, err := st.Quarantined(t.Context(), resource); err != nil || len(q) != 0 {
		t.Errorf("quarantined %v, %v", q, err)
	}
}

func TestRoundTrips(t *testing.T) {
	s := start(t)
	st := opened(t, s)
	apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
	for i := 2; i < 8; i++ {
		before := s.Count("")
		apply(t, st, mutation(1, i, fmt.Sprint("op-", i), sdk.Put("k", []byte("v"))), sdk.Accepted)
		if n := s.Count("") - before; n != 1 {
			t.Errorf("segment %d took %d requests", i, n)
		}
	}
	before := s.Count("")
	apply(t, st, mutation(1, 20, "op-20"), sdk.SegmentSkipped)
	if n := s.Count("") - before; n != 1 {
		t.Errorf("a refusal took %d requests", n)
	}
}

// C8, C63: a fence that was removed, and one that does not parse.
func TestDamagedFence(t *testing.T) {
	for name, value := range map[string]types.AttributeValue{
		"text": str("7"), "fraction": &types.AttributeValueMemberN{Value: "7.5"}, "negative": &types.AttributeValueMemberN{Value: "-7"},
		"too high": &types.AttributeValueMemberN{Value: "18446744073709551616"}, "above 2^63": &types.AttributeValueMemberN{Value: "9223372036854775808"}, "zero": number(0),
	} {
		state, err := parseFence(item{"highest": value, "segment": number(1), "grantDigest": bin(make([]byte, 32)), "root": bin(make([]byte, 32)), "policyGeneration": number(0), "trustGeneration": number(0)})
		if !errors.Is(err, sdk.ErrUnsuitable) {
			t.Errorf("%s: %+v, %v", name, state, err)
		}
	}
	exact := item{"highest": number(1<<53 + 1), "segment": number(1), "grantDigest": bin(make([]byte, 32)), "root": bin(make([]byte, 32)), "policyGeneration": number(0), "trustGeneration": number(0)}
	if state, err := parseFence(exact); err != nil || state.Highest != 1<<53+1 {
		t.Errorf("%+v, %v", state, err)
	}
}

func TestProbe(t *testing.T) {
	s := start(t)
	st := opened(t, s)
	if err := st.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{TableName: &s.table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("expires"), Enabled: aws.Bool(true)}}); err != nil {
		t.Fatal(err)
	}
	if err := st.Probe(t.Context()); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("with a time to live: %v", err)
	}
}

// C12, C62: global tables.
func TestReplicas(t *testing.T) {
	replicas := []types.ReplicaDescription{{RegionName: aws.String("us-east-1")}, {RegionName: aws.String("eu-west-1")}}
	client := dynamodb.New(dynamodb.Options{Region: "us-east-1"})
	for _, tc := range []struct {
		name  string
		home  string
		table types.TableDescription
		want  error
	}{
		{"one region", "", types.TableDescription{}, nil},
		{"last writer wins", "", types.TableDescription{Replicas: replicas}, sdk.ErrUnsuitable},
		{"home region", "us-east-1", types.TableDescription{Replicas: replicas}, nil},
		{"away from home", "eu-west-1", types.TableDescription{Replicas: replicas}, sdk.ErrUnsuitable},
		{"strong", "us-east-1", types.TableDescription{Replicas: replicas, MultiRegionConsistency: types.MultiRegionConsistencyStrong}, sdk.ErrUnsuitable},
	} {
		st := &Store{client: client, homeRegion: tc.home}
		if err := st.probeReplicas(&tc.table); !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
			t.Errorf("%s: %v", tc.name, err)
		}
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

func TestWriteForm(t *testing.T) {
	full := types.Put{TableName: aws.String("team"), Item: item{"pk": str("a"), "n": &types.AttributeValueMemberN{Value: "1556893286484340854"}, "b": bin([]byte{0, 1}),
		"t": &types.AttributeValueMemberBOOL{Value: true}, "u": &types.AttributeValueMemberNULL{Value: true}, "ss": &types.AttributeValueMemberSS{Value: []string{"x"}},
		"ns": &types.AttributeValueMemberNS{Value: []string{"1"}}, "bs": &types.AttributeValueMemberBS{Value: [][]byte{{1}}},
		"m": &types.AttributeValueMemberM{Value: item{"x": str("")}}, "l": &types.AttributeValueMemberL{Value: []types.AttributeValue{number(1), str("y")}}}}
	e, err := Put(full)
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseWrite(e.Body)
	if err != nil || len(back.Put.Item) != len(full.Item) || back.Put.Item["n"].(*types.AttributeValueMemberN).Value != "1556893286484340854" {
		t.Errorf("%+v, %v", back, err)
	}
	for _, body := range []string{"", "{}", "[]", `{"put":{"table":"t"}}`, `{"put":{"table":"","item":{"a":{"S":"x"}}}}`, `{"put":{"table":"t","item":{"a":{}}}}`,
		`{"put":{"table":"t","item":{"a":{"S":"x","N":"1"}}}}`, `{"put":{"table":"t","item":{"a":null}}}`, `{"put":{"table":"t","key":{"a":{"S":"x"}}}}`,
		`{"put":{"table":"t","item":{"a":{"N":1}}}}`, `{"update":{"table":"t","key":{"a":{"S":"x"}}}}`, `{"check":{"table":"t","key":{"a":{"S":"x"}}}}`,
		`{"put":{"table":"t","item":{"a":{"S":"x"}}},"delete":{"table":"t","key":{"a":{"S":"x"}}}}`, `{"put":{"table":"t","item":{"a":{"S":"x"}},"x":1}}`} {
		if _, err := ParseWrite([]byte(body)); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%s: %v", body, err)
		}
	}
	if _, err := Write(types.TransactWriteItem{}); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("no action: %v", err)
	}
}

func FuzzParseWrite(f *testing.F) {
	f.Add([]byte(`{"put":{"table":"t","item":{"a":{"S":"x"},"l":{"L":[{"N":"1"},{"M":{"x":{"NULL":true}}}]}}}}`))
	f.Add([]byte(`{"update":{"table":"t","key":{"a":{"S":"x"}},"update":"SET b = :b","values":{":b":{"B":"AA=="}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		w, err := ParseWrite(body)
		if err != nil {
			return
		}
		e, err := Write(*w)
		if err != nil {
			t.Fatalf("parsed, and refused when written again: %v", err)
		}
		if _, err := ParseWrite(e.Body); err != nil {
			t.Errorf("%s: %v", e.Body, err)
		}
	})
}
