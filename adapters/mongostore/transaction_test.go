package mongostore

import (
	"context"
	"errors"
	"testing"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/internal/lab/mongofake"
	"github.com/fencedstore/fencedstore/sdk"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// newFake is the replica set in this process; see what it can show there.
func newFake(t testing.TB) *server {
	t.Helper()
	return &server{Proxy: mongofake.Start(t).Proxy, layout: "&layout=transaction"}
}

func fenceName(r sdk.ResourceID) string { return names{"main", r}.fence() }

// nativeOf are native effects on a collection of the team's.
func nativeOf(t testing.TB, db *mongo.Database, own string) func(sdk.ResourceID) conformance.Native {
	return func(r sdk.ResourceID) conformance.Native {
		id := string(r)
		mine := bson.D{{Key: "_id", Value: id}}
		effect := func(e sdk.Effect, err error) sdk.Effect {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		raw := func(v any) bson.Raw {
			b, err := bson.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		return conformance.Native{
			Scope: func(_ sdk.ResourceID, e sdk.Effect) error {
				w, err := ParseWrite(e.Body)
				if err == nil && w.Collection != "counters" {
					err = errors.New("not the team's collection")
				}
				return err
			},
			Inside:  effect(Write{Collection: "counters", Filter: raw(mine), Update: raw(bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: int64(1)}}}}), Upsert: true}.Effect()),
			Outside: effect(Replace("others", mine, bson.D{{Key: "n", Value: 1}})),
			Own: []sdk.Effect{
				effect(Delete(own, bson.D{{Key: "_id", Value: fenceName(r)}})),
				effect(Write{Database: db.Name(), Collection: own, Filter: raw(bson.D{}), Update: raw(bson.D{{Key: "$set", Value: bson.D{{Key: "highest", Value: int64(1)}}}})}.Effect()),
			},
			Failing: effect(Update("counters", bson.D{{Key: "_id", Value: "nobody"}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: int64(1)}}}})),
			Count: func(ctx context.Context) (int, error) {
				var got struct{ N int }
				err := db.Collection("counters").FindOne(ctx, mine).Decode(&got)
				if errors.Is(err, mongo.ErrNoDocuments) {
					err = nil
				}
				return got.N, err
			},
		}
	}
}

func TestConformanceTransaction(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	db := client(t, s.Addr()).Database("test")
	certify(t, "mongodb transaction on a fake", s.dsn("suite"), db.Collection("suite"), fenceName, nativeOf(t, db, "suite"), cases(quickly))
}
