package mongostore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/internal/lab/mongofake"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// C22, C74, C76 and the list: what cannot keep the laws is refused, and
// named.
func TestProbe(t *testing.T) {
	type answer = func(c bson.Raw, next func(bson.Raw) (bson.Raw, error)) (bson.Raw, error)
	say := func(d bson.D) answer {
		return func(bson.Raw, func(bson.Raw) (bson.Raw, error)) (bson.Raw, error) {
			return raw(t, append(d, bson.E{Key: "ok", Value: 1.0})), nil
		}
	}
	batch := func(docs ...any) bson.D {
		return bson.D{{Key: "cursor", Value: bson.D{{Key: "id", Value: int64(0)}, {Key: "ns", Value: "x"}, {Key: "firstBatch", Value: bson.A(docs)}}}}
	}
	index := func(key string, more ...bson.E) bson.D {
		return append(bson.D{{Key: "v", Value: 2}, {Key: "key", Value: bson.D{{Key: key, Value: 1}}}, {Key: "name", Value: key + "_"}}, more...)
	}
	of := func(kind string, o bson.D) bson.D {
		return batch(bson.D{{Key: "name", Value: "p"}, {Key: "type", Value: kind}, {Key: "options", Value: o}})
	}
	deny := func(bson.Raw, func(bson.Raw) (bson.Raw, error)) (bson.Raw, error) {
		return mongofake.Failure(13, "Unauthorized"), nil
	}
	// unfiltered updates whatever the filter names beside _id.
	unfiltered := func(c bson.Raw, next func(bson.Raw) (bson.Raw, error)) (bson.Raw, error) {
		u := c.Lookup("updates", "0").Document()
		return next(raw(t, bson.D{{Key: "update", Value: "p"}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: u.Lookup("q", "_id")}}}, {Key: "u", Value: u.Lookup("u")}}}},
			{Key: "$db", Value: "test"}}))
	}
	for name, x := range map[string]struct {
		command string
		bend    answer
		field   string
	}{
		"TTL index":            {"listIndexes", say(batch(index("_id"), index("at", bson.E{Key: "expireAfterSeconds", Value: 60}))), "expireAfterSeconds"},
		"no index on _id":      {"listIndexes", say(batch(index("other"))), "_id"},
		"capped":               {"listCollections", say(of("collection", bson.D{{Key: "capped", Value: true}})), "capped"},
		"clustered with TTL":   {"listCollections", say(of("collection", bson.D{{Key: "expireAfterSeconds", Value: int64(60)}})), "expireAfterSeconds"},
		"view":                 {"listCollections", say(of("view", bson.D{})), "collection"},
		"collation":            {"listCollections", say(of("collection", bson.D{{Key: "collation", Value: bson.D{{Key: "locale", Value: "de"}}}})), "collation"},
		"no permission to see": {"listCollections", deny, "permission"},
		"no permission, index": {"listIndexes", deny, "permission"},
		"no permission, find":  {"find", deny, "permission"},
		"no permission, write": {"update", deny, "permission"},
		"no permission, new":   {"insert", deny, "permission"},
		"filter ignored":       {"update", unfiltered, "filtered update"},
		"not atomic":           {"update", notAtomic(unfiltered), "filtered update"},
		"reads not known": {"find", func(bson.Raw, func(bson.Raw) (bson.Raw, error)) (bson.Raw, error) {
			return mongofake.Failure(72, "InvalidOptions"), nil
		}, "MongoDB"},
		"validator": {"insert", func(bson.Raw, func(bson.Raw) (bson.Raw, error)) (bson.Raw, error) {
			return mongofake.Failure(121, "DocumentValidationFailure"), nil
		}, "MongoDB"},
	} {
		t.Run(name, func(t *testing.T) {
			s := documentFake(t)
			st := opened(t, s)
			if err := st.Probe(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.Set(func(n string, c bson.Raw, next func(bson.Raw) (bson.Raw, error)) (bson.Raw, error) {
				if n == x.command {
					return x.bend(c, next)
				}
				return next(c)
			})
			err := st.Probe(t.Context())
			var e *sdk.Error
			if !errors.Is(err, sdk.ErrUnsuitable) || !errors.As(err, &e) || e.Field != x.field {
				t.Errorf("got %v, want UNSUITABLE naming %q", err, x.field)
			}
		})
	}
}

// notAtomic lets all writers of a race look before any of them writes.
func notAtomic(write func(bson.Raw, func(bson.Raw) (bson.Raw, error)) (bson.Raw, error)) func(bson.Raw, func(bson.Raw) (bson.Raw, error)) (bson.Raw, error) {
	var mu sync.Mutex
	waiting, gate := 0, make(chan struct{})
	return func(c bson.Raw, next func(bson.Raw) (bson.Raw, error)) (bson.Raw, error) {
		if id, _ := c.Lookup("updates", "0", "q", "_id").StringValueOK(); !strings.Contains(id, "/race-") {
			return next(c)
		}
		mu.Lock()
		if waiting++; waiting == probeWriters {
			close(gate)
		}
		mu.Unlock()
		<-gate
		return write(c, next)
	}
}

func TestProbeTransactions(t *testing.T) {
	s := newFake(t)
	st := opened(t, s)
	if err := st.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	found, err := client(t, s.Addr()).Database("test").Collection("p").Find(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: "probe/"}, {Key: "$lt", Value: "probe0"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if found.Next(t.Context()) {
		t.Errorf("the probe left %v", found.Current)
	}
	// Transactions that are none: everything at once.
	s.Set(func(name string, c bson.Raw, next func(bson.Raw) (bson.Raw, error)) (bson.Raw, error) {
		if _, err := c.LookupErr("autocommit"); err != nil {
			return next(c)
		}
		if name == "commitTransaction" || name == "abortTransaction" {
			return raw(t, bson.D{{Key: "ok", Value: 1.0}}), nil
		}
		var d, plain bson.D
		if err := bson.Unmarshal(c, &d); err != nil {
			return nil, err
		}
		for _, e := range d {
			if e.Key != "autocommit" && e.Key != "startTransaction" && e.Key != "txnNumber" {
				plain = append(plain, e)
			}
		}
		return next(raw(t, plain))
	})
	if err := st.Probe(t.Context()); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("no transactions: %v", err)
	}
}

// A collection keeps layout and namespace; and a single server has no
// transactions.
func TestPlace(t *testing.T) {
	s := newFake(t)
	opened(t, s)
	s.layout = "&layout=document"
	if _, err := Open(t.Context(), s.dsn("p"), sdk.OpenOptions{}); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("another layout: %v", err)
	}
	s.layout = "&layout=transaction"
	if _, err := Open(t.Context(), s.dsn("p"), sdk.OpenOptions{Namespace: "other"}); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("another namespace: %v", err)
	}
	one := newServer(t)
	one.layout = "&layout=transaction"
	if _, err := Open(t.Context(), one.dsn("p"), sdk.OpenOptions{}); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("transactions on a single server: %v", err)
	}
}

func TestBadDSN(t *testing.T) {
	for _, d := range []string{"", "mongodb:", "mongodb://", "mongodb://h", "mongodb://h/", "mongodb://h/db", "mongodb://h/db?collection=", "mongodb://h/db?collection=a&collection=b", "mongodb://h/db?collection=system.x",
		"mongodb://h/db?collection=a%24b", "mongodb://h/admin?collection=a", "mongodb://h/db?collection=a&layout=x", "mongodb://h/db?collection=a&environment=embedded", "http://h/db?collection=a",
		"mongodb://h:x/db?collection=a", "mongodb://h/db?collection=a&layuot=transaction", "mongodb://h/db?collection=a&Layout=transaction", "mongodb://user:p/w@h/db?collection=a", "mongodb://h/db?collection=a&replicaSet=x&directConnection=maybe"} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if _, err := Open(ctx, d, sdk.OpenOptions{}); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%q: %v, want INVALID", d, err)
		} else if e := (*sdk.Error)(nil); errors.As(err, &e) && strings.Contains(e.Msg, "pw") {
			t.Errorf("%q is repeated: %s", d, e.Msg)
		}
		cancel()
	}
	for d, want := range map[string]dsn{
		"mongodb://u:p@a:1,b:2/db?w=majority&collection=x.y&tls=true&layout=transaction":            {uri: "mongodb://u:p@a:1,b:2/db?w=majority&tls=true", database: "db", collection: "x.y", layout: "transaction", secret: true},
		"mongodb+srv://h/db?environment=emulator&collection=%C3%A9&authSource=%24external&tls=true": {uri: "mongodb+srv://h/db?authSource=%24external&tls=true", database: "db", collection: "é", environment: sdk.Emulator},
	} {
		if got, err := parseDSN(d); err != nil || got != want {
			t.Errorf("%q: %+v, %v", d, got, err)
		}
	}
}

// C26: what was refused when it was dialled was not sent; a call ends with its
// context.
func TestNoServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, Scheme+nobody+"/db?collection=c", sdk.OpenOptions{}); !errors.Is(err, sdk.ErrNotApplied) {
		t.Errorf("open: %v", err)
	}
	for _, layout := range []string{"", "&layout=transaction"} {
		s := newFake(t)
		s.layout = layout
		st := opened(t, s)
		apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
		s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		// The first may find that out on a connection that was open; then it is unknown.
		for i, want := range []sdk.Code{0, sdk.NotApplied} {
			out, err := st.Apply(ctx, sdk.NewAdmission(seal.Cut(), mutation(1, 2, "op-2")))
			if out.Code != want && (i > 0 || out.Code != sdk.MutationUnknown && out.Code != sdk.NotApplied) {
				t.Errorf("%v, %v", out.Code, err)
			}
		}
	}
}

// One command in the steady state, and one more for a refusal; documents stay
// bounded however many segments there are.
func TestRoundTrips(t *testing.T) {
	s := documentFake(t)
	st := opened(t, s)
	apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
	apply(t, st, mutation(1, 2, "op-2"), sdk.Accepted)
	for i := 3; i < 40; i++ {
		before := s.Count("")
		apply(t, st, mutation(1, i, fmt.Sprint("op-", i), sdk.Put("k", []byte("v"))), sdk.Accepted)
		if n := s.Count("") - before; n != 1 {
			t.Errorf("segment %d took %d commands", i, n)
		}
	}
	before := s.Count("")
	apply(t, st, mutation(1, 60, "op-60"), sdk.SegmentSkipped)
	if n := s.Count("") - before; n != 1 {
		t.Errorf("a refusal took %d commands", n)
	}
	for i := 40; i < 400; i++ {
		apply(t, st, mutation(1, i, fmt.Sprint("op-", i), sdk.Put("k", []byte("v"))), sdk.Accepted)
	}
	var head bson.Raw
	found := client(t, s.Addr()).Database("test").Collection("p").FindOne(t.Context(), bson.D{{Key: "_id", Value: headName(resource)}})
	if err := found.Decode(&head); err != nil || len(head) > 64<<10 {
		t.Errorf("the head has %d bytes after 400 segments, %v", len(head), err)
	}
	if r, err := st.Receipt(t.Context(), resource, "op-7"); err != nil || r.Segment != 7 {
		t.Errorf("an old receipt: %+v, %v", r, err)
	}
	apply(t, st, mutation(1, 400, "op-7"), sdk.Quarantined)
}

// The server is killed while writers write: nothing that was accepted is lost.
// mongo-java-server's own timer writes its file once a second; the lab's main
// syncs it before every answer. FerretDB's files are written before it answers.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	for _, kind := range []*lab.Server{lab.MongoJava, lab.FerretDB} {
		t.Run(kind.Name, func(t *testing.T) {
			p := lab.Start(t, kind)
			st, err := Open(t.Context(), Scheme+p.Addr()+"/test?collection=p&environment=emulator", sdk.OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			k := lab.Killing{Server: p, Store: st, Rounds: 3, Seed: uint64(time.Now().UnixNano()),
				Apply: func(ctx context.Context, m *sdk.Mutation) (sdk.Outcome, error) {
					return st.Apply(ctx, sdk.NewAdmission(seal.Cut(), m))
				}}
			k.Run(t)
		})
	}
}

// clusterURI names a real cluster: mongodb://HOST,…/DB, to which the tests add
// collections of their own.
const clusterURI = "FENCEDSTORE_MONGODB_URI"

func TestCluster(t *testing.T) {
	uri := os.Getenv(clusterURI)
	if uri == "" {
		t.Skipf("%s names no cluster; to run the suite on one: %s='mongodb://HOST/DB?replicaSet=NAME' go test ./adapters/mongostore -run TestCluster", clusterURI, clusterURI)
	}
	join := "?"
	if strings.Contains(uri, "?") {
		join = "&"
	}
	for _, layout := range []string{LayoutDocument, LayoutTransaction} {
		t.Run(layout, func(t *testing.T) {
			name := "suite_" + newVersion()
			dsn := uri + join + "collection=" + name + "&layout=" + layout
			d, err := parseDSN(dsn)
			if err != nil {
				t.Fatal(err)
			}
			db := client(t, strings.TrimPrefix(d.uri, Scheme)).Database(d.database)
			defer db.Collection(name).Drop(context.Background())
			defer db.Collection("counters").Drop(context.Background())
			fence, native := headName, (func(sdk.ResourceID) conformance.Native)(nil)
			if layout == LayoutTransaction {
				fence, native = fenceName, nativeOf(t, db, name)
			}
			certify(t, "mongodb "+layout, dsn, db.Collection(name), fence, native, nil)
		})
	}
}
