package dynamodbstore

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
)

// main is the sort key of the item that has the fence.
func (s *server) main() string {
	return map[string]string{LayoutTransaction: skFence, LayoutItem: skHead}[s.layout]
}

func (s *server) delete(t *testing.T, sk string) {
	t.Helper()
	if _, err := s.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &s.table, Key: keyOf(pkOf("main", resource), sk)}); err != nil {
		t.Fatal(err)
	}
}

// C8: the fence is deleted behind the store's back. An old writer's first
// segment is not taken for the first of all, by any handle.
func TestRemovedFence(t *testing.T) {
	eachLayout(t, func(t *testing.T, s *server) {
		st := opened(t, s)
		for i := 1; i <= 12; i++ {
			apply(t, st, mutation(12, i, fmt.Sprint("op-", i)), sdk.Accepted)
		}
		s.delete(t, s.main())
		for name, st := range map[string]sdk.FencedStore{"the same handle": st, "a new handle": opened(t, s)} {
			t.Run(name, func(t *testing.T) {
				apply(t, st, mutation(5, 1, "old"), sdk.FenceRegression)
				apply(t, st, mutation(12, 13, "op-13"), sdk.FenceRegression)
				if _, err := st.Inspect(t.Context(), resource); !errors.Is(err, sdk.ErrFenceRegression) {
					t.Errorf("Inspect: %v", err)
				}
			})
		}
		s.delete(t, skMarker)
		if s.layout == LayoutItem { // receipts are enough
			apply(t, opened(t, s), mutation(5, 1, "old"), sdk.FenceRegression)
		}
	})
}

// C8, C64: a table with a time to live.
func TestTimeToLive(t *testing.T) {
	eachLayout(t, func(t *testing.T, s *server) {
		st := opened(t, s)
		if err := st.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		// dynalite cannot be given one.
		s.Set(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if operation(r) != "DescribeTimeToLive" {
				next.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			io.WriteString(w, `{"TimeToLiveDescription":{"TimeToLiveStatus":"ENABLED","AttributeName":"expires"}}`)
		})
		if err := st.Probe(t.Context()); !errors.Is(err, sdk.ErrUnsuitable) {
			t.Errorf("with a time to live: %v", err)
		}
	})
}

// C64: a receipt is swept out of band and its operation sent again under the same
// fence.
func TestSweptReceipt(t *testing.T) {
	eachLayout(t, func(t *testing.T, s *server) {
		st := opened(t, s)
		for i := 1; i <= 12; i++ {
			apply(t, st, mutation(1, i, fmt.Sprint("op-", i)), sdk.Accepted)
		}
		s.delete(t, skReceipt+"op-2")
		for name, st := range map[string]sdk.FencedStore{"the same handle": st, "a new handle": opened(t, s)} {
			out, err := st.Apply(t.Context(), sdk.NewAdmission(seal.Cut(), mutation(1, 2, "op-2")))
			if out.Code.Ok() || err == nil {
				t.Errorf("%s: %v, %v", name, out.Code, err)
			}
			if s.layout == LayoutTransaction {
				continue
			}
			apply(t, st, mutation(1, 13, "op-2"), sdk.Unsuitable)
			if _, err := st.Receipt(t.Context(), resource, "op-2"); !errors.Is(err, sdk.ErrUnsuitable) {
				t.Errorf("%s: Receipt: %v", name, err)
			}
		}
	})
}

// C12, C62: global tables. Where the last writer wins, one home region writes;
// strong consistency takes no transactions.
func TestReplicas(t *testing.T) {
	replicas := []types.ReplicaDescription{{RegionName: aws.String("us-east-1")}, {RegionName: aws.String("eu-west-1")}}
	client := dynamodb.New(dynamodb.Options{Region: "us-east-1"})
	strong := types.TableDescription{Replicas: replicas, MultiRegionConsistency: types.MultiRegionConsistencyStrong}
	for _, tc := range []struct {
		name, layout, home string
		table              types.TableDescription
		want               error
	}{
		{"one region", LayoutItem, "", types.TableDescription{}, nil},
		{"one region", LayoutTransaction, "", types.TableDescription{}, nil},
		{"last writer wins", LayoutItem, "", types.TableDescription{Replicas: replicas}, sdk.ErrUnsuitable},
		{"last writer wins", LayoutTransaction, "", types.TableDescription{Replicas: replicas}, sdk.ErrUnsuitable},
		{"home region", LayoutItem, "us-east-1", types.TableDescription{Replicas: replicas}, nil},
		{"home region", LayoutTransaction, "us-east-1", types.TableDescription{Replicas: replicas}, nil},
		{"away from home", LayoutItem, "eu-west-1", types.TableDescription{Replicas: replicas}, sdk.ErrUnsuitable},
		{"away from home", LayoutTransaction, "eu-west-1", types.TableDescription{Replicas: replicas}, sdk.ErrUnsuitable},
		{"strong", LayoutItem, "", strong, nil},
		{"strong", LayoutTransaction, "us-east-1", strong, sdk.ErrUnsuitable},
	} {
		st := &Store{client: client, homeRegion: tc.home, opts: Options{Layout: tc.layout}}
		if err := st.probeReplicas(&tc.table); !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
			t.Errorf("%s, %s: %v", tc.name, tc.layout, err)
		}
	}
}

// C63, C66: numbers in the table. A token beyond 2^53 comes back as it was; one
// that is no whole number, or a random name, is a damaged fence and never 0.
func TestNumbersInTheTable(t *testing.T) {
	eachLayout(t, func(t *testing.T, s *server) {
		st := opened(t, s)
		apply(t, st, mutation(1556893286484340854, 1, "op-1"), sdk.Accepted)
		if state, err := opened(t, s).Inspect(t.Context(), resource); err != nil || state.Highest != 1556893286484340854 {
			t.Fatalf("%+v, %v", state, err)
		}
		apply(t, opened(t, s), mutation(1556893286484340853, 1, "op-2"), sdk.StaleOwner)
		apply(t, opened(t, s), mutation(1556893286484340855, 1, "op-3"), sdk.Accepted)
		for _, v := range []types.AttributeValue{&types.AttributeValueMemberN{Value: "7.5"}, &types.AttributeValueMemberN{Value: "-1"},
			&types.AttributeValueMemberN{Value: "18446744073709551616"}, &types.AttributeValueMemberN{Value: "0"}, str("0b8a1c9e-2f5d-4e6a-9d3f-1f2e3d4c5b6a")} {
			if _, err := s.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: &s.table, Key: keyOf(pkOf("main", resource), s.main()),
				UpdateExpression: aws.String("SET highest = :v"), ExpressionAttributeValues: item{":v": v}}); err != nil {
				t.Fatal(err)
			}
			st := opened(t, s)
			if _, err := st.Inspect(t.Context(), resource); !errors.Is(err, sdk.ErrUnsuitable) {
				t.Errorf("%v: Inspect: %v", v, err)
			}
			apply(t, st, mutation(1556893286484340856, 1, "op-4"), sdk.Unsuitable)
		}
	})
}

// C65: a server that is said to be a stand-in is one in every report, and it is
// the DSN that says so.
func TestEmulatedIsOnRecord(t *testing.T) {
	eachLayout(t, func(t *testing.T, s *server) {
		r, err := conformance.Check(t.Context(), s.harness(), &conformance.Options{Profile: conformance.Quick, Match: onlyDescribe})
		if err != nil {
			t.Fatal(err)
		}
		if d := r.Description; d.Environment != sdk.Emulator || d.Layout != s.layout+layoutVersion {
			t.Errorf("%+v", d)
		}
	})
}

// C67: what does not fit is refused before anything is sent: 100 actions, of
// which three are the store's own, and 4 MB; several effects on one key are one
// action; the fence's own table is nobody's business table.
func TestCountedBeforeSending(t *testing.T) {
	eachLayout(t, func(t *testing.T, s *server) {
		st := opened(t, s)
		many := func(n int) (out []sdk.Effect) {
			for i := range n {
				out = append(out, sdk.Put(fmt.Sprint("k", i), []byte("v")))
			}
			return out
		}
		heavy := func(n, size int) (out []sdk.Effect) {
			for i := range n {
				out = append(out, sdk.Put(fmt.Sprint("k", i), make([]byte, size)))
			}
			return out
		}
		size := st.Describe().Limits.ValueBytes - 100
		before := s.Count("")
		apply(t, st, mutation(1, 1, "many", many(MaxEffects+1)...), sdk.TooLarge)
		apply(t, st, mutation(1, 1, "heavy", heavy(1+int(st.Describe().Limits.TotalBytes)/size, size)...), sdk.TooLarge)
		if n := s.Count("") - before; n != 0 {
			t.Errorf("%d requests", n)
		}
		apply(t, st, mutation(1, 1, "just", many(MaxEffects)...), sdk.Accepted)
		// "No two actions on one item" is kept by the SDK: merge them.
		apply(t, st, mutation(1, 2, "same", sdk.Put("k1", []byte("1")), sdk.Delete("k1")), sdk.Invalid)
	})
}

// A table has one layout, for good.
func TestOneLayout(t *testing.T) {
	s := startItem(t)
	opened(t, s)
	s.layout = LayoutTransaction
	if _, err := Open(t.Context(), s.dsn(), sdk.OpenOptions{}); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("%v, want UNSUITABLE", err)
	}
	if _, err := New(t.Context(), s.client, s.table, nil); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("%v, want UNSUITABLE", err)
	}
	if _, err := New(t.Context(), s.client, s.table, &Options{Layout: "other"}); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("%v, want INVALID", err)
	}
	st, err := New(t.Context(), s.client, s.table, &Options{Layout: LayoutItem})
	if err != nil {
		t.Fatal(err)
	}
	e, err := Update(updateOf("team", "x"))
	if err != nil {
		t.Fatal(err)
	}
	apply(t, st, mutation(1, 1, "op-1", e), sdk.Unsupported)
}
