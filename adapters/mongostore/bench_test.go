package mongostore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// BenchmarkApply holds a fenced mutation against the plain conditional update of
// the same value on the same server, turn by turn, and reports the ratio of the
// medians and the commands of each. It goes straight to the server, and then
// through the proxy to count.
func BenchmarkApply(b *testing.B) {
	for _, x := range []struct {
		name string
		make func(testing.TB) (*server, string)
	}{
		{"document on mongo-java-server", func(t testing.TB) (*server, string) {
			s := newServer(t)
			return s, Scheme + s.process.Addr() + "/test?collection=p&environment=emulator"
		}},
		{"transaction on the fake", func(t testing.TB) (*server, string) { s := newFake(t); return s, s.dsn("p") }},
	} {
		b.Run(x.name, func(b *testing.B) {
			s, dsn := x.make(b)
			st, err := Open(b.Context(), dsn, sdk.OpenOptions{})
			if err != nil {
				b.Fatal(err)
			}
			defer st.Close()
			// In the store's own collection: mongo-java-server reads all of it for
			// a filter that names more than _id, whoever asks.
			addr := s.Addr()
			if s.process != nil {
				addr = s.process.Addr()
			}
			plain := client(b, addr).Database("test").Collection("p", options.Collection().SetWriteConcern(writeconcern.Majority()))
			if _, err := plain.InsertOne(b.Context(), bson.D{{Key: "_id", Value: 1}, {Key: "version", Value: int64(0)}}); err != nil {
				b.Fatal(err)
			}
			value := make([]byte, 256)
			segment := 0
			apply := func(st sdk.FencedStore) time.Duration {
				segment++
				m := mutation(1, segment, fmt.Sprint("op-", segment), sdk.Put("k", value))
				a := sdk.NewAdmission(seal.Cut(), m)
				began := time.Now()
				if _, err := st.Apply(b.Context(), a); err != nil {
					b.Fatal(err)
				}
				return time.Since(began)
			}
			version := int64(0)
			update := func() time.Duration {
				began := time.Now()
				r, err := plain.UpdateOne(b.Context(), bson.D{{Key: "_id", Value: 1}, {Key: "version", Value: version}},
					bson.D{{Key: "$set", Value: bson.D{{Key: "version", Value: version + 1}, {Key: "k", Value: value}}}})
				if err != nil || r.ModifiedCount != 1 {
					b.Fatal(r, err)
				}
				version++
				return time.Since(began)
			}
			apply(st)
			var fenced, bare []time.Duration
			for b.Loop() {
				fenced, bare = append(fenced, apply(st)), append(bare, update())
			}
			slices.Sort(fenced)
			slices.Sort(bare)
			b.ReportMetric(float64(fenced[len(fenced)/2].Microseconds()), "µs/fenced")
			b.ReportMetric(float64(bare[len(bare)/2].Microseconds()), "µs/plain")
			b.ReportMetric(float64(fenced[len(fenced)/2])/float64(bare[len(bare)/2]), "ratio")

			through := opened(b, s)
			apply(through)
			var trips []int
			for range 99 {
				before := s.Count("")
				apply(through)
				trips = append(trips, s.Count("")-before)
			}
			slices.Sort(trips)
			b.ReportMetric(float64(trips[len(trips)/2]), "roundtrips/fenced")
		})
	}
}
