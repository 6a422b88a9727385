package mongostore

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fencedstore/fencedstore/internal/lab/mongofake"
	"github.com/fencedstore/fencedstore/internal/lab/mongowire"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// documentFake is the fake with the document layout: quick, and a replica set.
func documentFake(t testing.TB) *server {
	t.Helper()
	s := newFake(t)
	s.layout = ""
	return s
}

// isHeadWrite says whether a command replaces a head.
func isHeadWrite(name string, c bson.Raw) bool {
	id, _ := c.Lookup("updates", "0", "q", "_id").StringValueOK()
	return name == "update" && isHead(id)
}

func raw(t testing.TB, d bson.D) bson.Raw {
	t.Helper()
	b, err := bson.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// with is a reply with one more member.
func with(t testing.TB, reply bson.Raw, key string, v any) bson.Raw {
	t.Helper()
	var d bson.D
	if err := bson.Unmarshal(reply, &d); err != nil {
		t.Fatal(err)
	}
	return raw(t, append(d, bson.E{Key: key, Value: v}))
}

// C22, C76: the write concern's error comes after the write. It is no refusal:
// the head is read, linearizable, and tells.
func TestWriteConcernError(t *testing.T) {
	s := documentFake(t)
	st := opened(t, s)
	apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
	for i, code := range []int32{64, 100, 91, 189, 11602} {
		for _, written := range []bool{true, false} {
			segment := 2 + 2*i
			if !written {
				segment++
			}
			m := mutation(1, segment, fmt.Sprint("op-", segment))
			s.Set(func(name string, c bson.Raw, next func(bson.Raw) (bson.Raw, error)) (bson.Raw, error) {
				if !isHeadWrite(name, c) {
					return next(c)
				}
				reply := raw(t, bson.D{{Key: "n", Value: int32(1)}, {Key: "ok", Value: 1.0}})
				if written {
					var err error
					if reply, err = next(c); err != nil {
						return nil, err
					}
				}
				return with(t, reply, "writeConcernError", bson.D{{Key: "code", Value: code}, {Key: "errmsg", Value: "waiting for replication"}}), nil
			})
			if written {
				apply(t, st, m, sdk.Accepted)
			} else {
				apply(t, st, m, sdk.MutationUnknown)
			}
			s.Set(nil)
			if !written {
				apply(t, st, m, sdk.Accepted)
			}
		}
	}
}

// C22, C76: every write asks for the majority and its journals, every read is
// linearizable, whatever the client's defaults are; and a URI that asks for less
// is refused.
func TestConcerns(t *testing.T) {
	s := documentFake(t)
	weak := client(t, s.Addr()+"/?w=1&readConcernLevel=local")
	st, err := New(t.Context(), weak, "test", "p", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var writes, reads atomic.Int64
	s.Set(func(name string, c bson.Raw, next func(bson.Raw) (bson.Raw, error)) (bson.Raw, error) {
		switch name {
		case "insert", "update", "delete":
			writes.Add(1)
			w, _ := c.Lookup("writeConcern", "w").StringValueOK()
			j, _ := c.Lookup("writeConcern", "j").BooleanOK()
			if w != "majority" || !j {
				t.Errorf("%s with %v", name, c.Lookup("writeConcern"))
			}
			if _, err := c.LookupErr("txnNumber"); err == nil {
				t.Errorf("%s may be retried by the driver", name)
			}
		case "find":
			reads.Add(1)
			if level, _ := c.Lookup("readConcern", "level").StringValueOK(); level != "linearizable" {
				t.Errorf("find with %v", c.Lookup("readConcern"))
			}
		}
		return next(c)
	})
	apply(t, st, mutation(1, 1, "op-1", sdk.Put("k", []byte("v"))), sdk.Accepted)
	apply(t, st, mutation(2, 1, "op-2"), sdk.Accepted)
	if _, err := st.Receipt(t.Context(), resource, "op-1"); err != nil {
		t.Error(err)
	}
	if writes.Load() < 3 || reads.Load() < 2 {
		t.Errorf("%d writes and %d reads were seen", writes.Load(), reads.Load())
	}
	for _, option := range []string{"w=0", "w=1", "w=2", "w=racks", "journal=false", "readConcernLevel=local", "readConcernLevel=available", "readConcernLevel=snapshot", "readPreference=secondary", "readPreference=nearest"} {
		if _, err := Open(t.Context(), s.dsn("p")+"&"+option, sdk.OpenOptions{}); !errors.Is(err, sdk.ErrUnsuitable) {
			t.Errorf("%s: %v, want UNSUITABLE", option, err)
		}
	}
	for _, option := range []string{"w=majority", "journal=true", "readConcernLevel=majority", "retryWrites=true", "readPreference=primary"} {
		st, err := Open(t.Context(), s.dsn("p")+"&"+option, sdk.OpenOptions{})
		if err != nil {
			t.Errorf("%s: %v", option, err)
			continue
		}
		st.Close()
	}
}

// C13: tokens beyond a signed 64-bit integer are refused before the store, all
// within come back exactly, and a fence of another type or sign is no fence.
func TestExactTokens(t *testing.T) {
	for _, layout := range []string{"", "&layout=transaction"} {
		s := newFake(t)
		s.layout = layout
		st := opened(t, s)
		before := s.Count("")
		apply(t, st, mutation(sdk.Token(9223372036854775808), 1, "op"), sdk.Invalid)
		apply(t, st, mutation(sdk.Token(14697929703826477056), 1, "op"), sdk.Invalid)
		if n := s.Count("") - before; n != 0 {
			t.Errorf("%d commands", n)
		}
		tokens := []sdk.Token{9, 10, 1 << 53, 1<<53 + 1, sdk.MaxToken}
		for i, f := range tokens {
			apply(t, st, mutation(f, 1, fmt.Sprint("op-", i)), sdk.Accepted)
			if state, err := opened(t, s).Inspect(t.Context(), resource); err != nil || state.Highest != f {
				t.Errorf("%v came back as %v, %v", f, state.Highest, err)
			}
		}
		apply(t, st, mutation(1, 1, "op-x"), sdk.StaleOwner)
		id := headName(resource)
		if layout != "" {
			id = fenceName(resource)
		}
		c := client(t, s.Addr()).Database("test").Collection("p")
		for _, bad := range []any{int64(-1), float64(9007199254740992), int32(7), "12", nil} {
			if _, err := c.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$set", Value: bson.D{{Key: "highest", Value: bad}}}}); err != nil {
				t.Fatal(err)
			}
			if _, err := opened(t, s).Inspect(t.Context(), resource); !errors.Is(err, sdk.ErrUnsuitable) {
				t.Errorf("highest %v: %v, want UNSUITABLE", bad, err)
			}
			apply(t, opened(t, s), mutation(1, 1, "op-y"), sdk.Unsuitable)
		}
	}
}

// C74, C75: of two first writers both are told the truth: the one that meets a
// duplicate key reads what is there and is judged by it, and what is accepted has
// its receipt.
func TestFirstWriters(t *testing.T) {
	for _, layout := range []string{"", "&layout=transaction"} {
		s := newFake(t)
		s.layout = layout
		handles := []sdk.FencedStore{opened(t, s), opened(t, s)}
		for round := range 20 {
			r := sdk.ResourceID(fmt.Sprint("first/", round))
			codes := make([]sdk.Code, 2)
			var wg sync.WaitGroup
			for i := range 2 {
				m := mutation(sdk.Token(i+1), 1, fmt.Sprint("op-", i+1))
				m.Resource = r
				wg.Go(func() {
					out, _ := handles[i].Apply(t.Context(), sdk.NewAdmission(seal.Cut(), m))
					codes[i] = out.Code
				})
			}
			wg.Wait()
			state, err := handles[0].Inspect(t.Context(), r)
			if err != nil || state.Highest != 2 || codes[1] != sdk.Accepted || codes[0] != sdk.Accepted && codes[0] != sdk.StaleOwner {
				t.Fatalf("round %d: %v, %v, %v", round, codes, state.Highest, err)
			}
			for i, code := range codes {
				_, err := handles[0].Receipt(t.Context(), r, sdk.OperationID(fmt.Sprint("op-", i+1)))
				if (code == sdk.Accepted) != (err == nil) {
					t.Fatalf("round %d: %v, and its receipt: %v", round, code, err)
				}
			}
		}
	}
}

// C74: the duplicate key comes back for an insert that nobody has seen: another
// was faster.
func TestDuplicateKey(t *testing.T) {
	s := newServer(t)
	first, second := opened(t, s), opened(t, s)
	var once sync.Once
	s.Set(func(name string, c bson.Raw, next func(bson.Raw) (bson.Raw, error)) (bson.Raw, error) {
		if id, _ := c.Lookup("documents", "0", "_id").StringValueOK(); name == "insert" && isHead(id) {
			once.Do(func() {
				s.Set(nil)
				apply(t, second, mutation(2, 1, "op-2"), sdk.Accepted)
			})
		}
		return next(c)
	})
	apply(t, first, mutation(1, 1, "op-1"), sdk.StaleOwner)
	if _, err := first.Receipt(t.Context(), resource, "op-1"); !errors.Is(err, sdk.ErrNotFound) {
		t.Errorf("the loser's receipt: %v", err)
	}
}

// C26: the whole classification, through a real client. After each the same call
// is accepted: nothing that was answered as refused had been applied.
func TestAnswers(t *testing.T) {
	want := map[meaning]sdk.Code{notApplied: sdk.NotApplied, unsuitable: sdk.Unsuitable, tooLarge: sdk.TooLarge}
	rows := map[int]sdk.Code{50: sdk.MutationUnknown, 91: sdk.MutationUnknown, 189: sdk.MutationUnknown, 262: sdk.MutationUnknown, 11600: sdk.MutationUnknown, 11602: sdk.MutationUnknown, 4711: sdk.MutationUnknown}
	for _, a := range answers {
		if c, ok := want[a.means]; ok {
			rows[a.code] = c
		}
	}
	s := documentFake(t)
	st := opened(t, s)
	apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
	segment := 1
	for code, want := range rows {
		for _, statement := range []bool{false, true} {
			s.Set(func(name string, c bson.Raw, next func(bson.Raw) (bson.Raw, error)) (bson.Raw, error) {
				switch {
				case !isHeadWrite(name, c):
					return next(c)
				case statement:
					return raw(t, bson.D{{Key: "n", Value: int32(0)}, {Key: "ok", Value: 1.0}, {Key: "writeErrors", Value: bson.A{bson.D{{Key: "index", Value: int32(0)}, {Key: "code", Value: int32(code)}, {Key: "errmsg", Value: "x"}}}}}), nil
				}
				return mongofake.Failure(code, "x"), nil
			})
			segment++
			m := mutation(1, segment, fmt.Sprint("op-", segment))
			out, err := st.Apply(t.Context(), sdk.NewAdmission(seal.Cut(), m))
			if out.Code != want {
				t.Errorf("code %d: %v, %v; want %v", code, out.Code, err, want)
			}
			s.Set(nil)
			apply(t, st, m, sdk.Accepted)
		}
	}
	// The server's own word that it wrote nothing.
	s.Set(func(name string, c bson.Raw, next func(bson.Raw) (bson.Raw, error)) (bson.Raw, error) {
		if isHeadWrite(name, c) {
			return mongofake.Failure(11600, "x", noWrites), nil
		}
		return next(c)
	})
	apply(t, st, mutation(1, segment+1, "op-last"), sdk.NotApplied)
}

// C26: cut after the server has written: settled by the head, and sent once. Cut
// before: unknown.
func TestLostAnswer(t *testing.T) {
	s := documentFake(t)
	st := opened(t, s)
	apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
	for i, written := range []bool{true, false} {
		var sent atomic.Int64
		s.Set(func(name string, c bson.Raw, next func(bson.Raw) (bson.Raw, error)) (bson.Raw, error) {
			if !isHeadWrite(name, c) {
				return next(c)
			}
			sent.Add(1)
			if written {
				if _, err := next(c); err != nil {
					return nil, err
				}
			}
			return nil, mongowire.ErrCut
		})
		m := mutation(1, 2+i, fmt.Sprint("op-", 2+i))
		apply(t, st, m, map[bool]sdk.Code{true: sdk.Accepted, false: sdk.MutationUnknown}[written])
		if sent.Load() != 1 {
			t.Errorf("the head was sent %d times", sent.Load())
		}
		s.Set(nil)
		apply(t, st, m, map[bool]sdk.Code{true: sdk.Replayed, false: sdk.Accepted}[written])
	}
}
