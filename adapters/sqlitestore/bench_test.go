package sqlitestore_test

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/gate/gatetest"
)

// BenchmarkApply is a fenced put (one fence, one receipt, one value) through the
// gate and by the store alone, beside the same three rows written by hand in a
// transaction with the same settings. With more writers the store's shared
// commits show.
func BenchmarkApply(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run("gate-"+strconv.Itoa(writers), func(b *testing.B) {
			gates, leases := openGates(b, writers)
			b.ReportAllocs()
			parallel(b, writers, func(w, i int) error {
				req := leases[w]
				req.Segment, req.Operation = sdk.Segment(i+1), sdk.OperationID("operation-"+strconv.Itoa(i))
				_, err := gates[w].ApplyFencedMutation(context.Background(), req)
				return err
			})
		})
		b.Run("store-"+strconv.Itoa(writers), func(b *testing.B) {
			s := open(b, tempFile(b), sdk.OpenOptions{})
			b.ReportAllocs()
			parallel(b, writers, func(w, i int) error {
				m := mutation(1, sdk.Segment(i+1), "operation-"+strconv.Itoa(i), sdk.Put("key", []byte("a value of some length")))
				m.Resource = sdk.ResourceID("r/" + strconv.Itoa(w))
				_, err := s.Apply(context.Background(), admit(m))
				return err
			})
		})
		b.Run("by-hand-"+strconv.Itoa(writers), func(b *testing.B) {
			hand := openByHand(b)
			b.ReportAllocs()
			parallel(b, writers, hand.write)
		})
	}
}

// openGates returns a gate and a request per writer, over one store.
func openGates(b *testing.B, writers int) (gates []*gate.Gate, requests []gate.Request) {
	a, err := gatetest.New("sqlite:bench")
	if err != nil {
		b.Fatal(err)
	}
	s := open(b, tempFile(b), sdk.OpenOptions{})
	for w := range writers {
		owner := "w-" + strconv.Itoa(w)
		g, err := a.Gate(s, owner, nil)
		if err != nil {
			b.Fatal(err)
		}
		l, err := a.Acquire(sdk.ResourceID("r/"+strconv.Itoa(w)), owner, "job")
		if err != nil {
			b.Fatal(err)
		}
		gates = append(gates, g)
		requests = append(requests, l.Request(1, "op", sdk.Put("key", []byte("a value of some length"))))
	}
	return gates, requests
}

// parallel splits b.N over writers.
func parallel(b *testing.B, writers int, write func(w, i int) error) {
	b.ResetTimer()
	var wg sync.WaitGroup
	for w := range writers {
		n := b.N / writers
		if w < b.N%writers {
			n++
		}
		wg.Go(func() {
			for i := range n {
				if err := write(w, i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

type byHand struct {
	mu                    sync.Mutex
	db                    *sql.DB
	fence, receipt, value *sql.Stmt
}

func openByHand(b *testing.B) *byHand {
	db, err := sql.Open("sqlite", "file:"+tempFile(b)+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(50)&_txlock=immediate")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`CREATE TABLE fence (ns TEXT, r TEXT, h INTEGER, g BLOB, root BLOB, s INTEGER, p INTEGER, t INTEGER, PRIMARY KEY (ns, r)) STRICT, WITHOUT ROWID;
		CREATE TABLE receipt (ns TEXT, r TEXT, op TEXT, f INTEGER, s INTEGER, root BLOB, g BLOB, p BLOB, o TEXT, t INTEGER, res BLOB, PRIMARY KEY (ns, r, op)) STRICT, WITHOUT ROWID;
		CREATE TABLE value (ns TEXT, r TEXT, k TEXT, v BLOB, PRIMARY KEY (ns, r, k)) STRICT`); err != nil {
		b.Fatal(err)
	}
	h := &byHand{db: db}
	for to, q := range map[**sql.Stmt]string{
		&h.fence:   "INSERT INTO fence VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (ns, r) DO UPDATE SET h = excluded.h, s = excluded.s",
		&h.receipt: "INSERT INTO receipt VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		&h.value:   "INSERT INTO value VALUES (?, ?, ?, ?) ON CONFLICT (ns, r, k) DO UPDATE SET v = excluded.v",
	} {
		if *to, err = db.Prepare(q); err != nil {
			b.Fatal(err)
		}
	}
	return h
}

func (h *byHand) write(w, i int) error {
	d := sdk.SumDigest(nil)
	r := "r/" + strconv.Itoa(w)
	h.mu.Lock()
	defer h.mu.Unlock()
	tx, err := h.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.Stmt(h.fence).Exec("main", r, 1, d[:], d[:], i+1, 0, 0); err != nil {
		return err
	}
	if _, err := tx.Stmt(h.receipt).Exec("main", r, "operation-"+strconv.Itoa(i), 1, i+1, d[:], d[:], d[:], "w", 0, []byte{}); err != nil {
		return err
	}
	if _, err := tx.Stmt(h.value).Exec("main", r, "key", []byte("a value of some length")); err != nil {
		return err
	}
	return tx.Commit()
}

// BenchmarkRatio measures the fenced write through the gate against the one by
// hand in turns, so that whatever else the machine does falls on both, and
// reports the ratio of the medians. The aim is 1.25 or less.
func BenchmarkRatio(b *testing.B) {
	for _, writers := range []int{1, 16} {
		b.Run(strconv.Itoa(writers), func(b *testing.B) {
			gates, requests := openGates(b, writers)
			hand := openByHand(b)
			round := func(write func(w int) error) time.Duration {
				start := time.Now()
				var wg sync.WaitGroup
				for w := range writers {
					wg.Go(func() {
						if err := write(w); err != nil {
							b.Error(err)
						}
					})
				}
				wg.Wait()
				return time.Since(start)
			}
			var fenced, plain []time.Duration
			for i := 0; b.Loop(); i++ {
				fenced = append(fenced, round(func(w int) error {
					req := requests[w]
					req.Segment, req.Operation = sdk.Segment(i+1), sdk.OperationID("operation-"+strconv.Itoa(i))
					_, err := gates[w].ApplyFencedMutation(context.Background(), req)
					return err
				}))
				plain = append(plain, round(func(w int) error { return hand.write(w, i) }))
			}
			slices.Sort(fenced)
			slices.Sort(plain)
			b.ReportMetric(float64(fenced[len(fenced)/2])/float64(plain[len(plain)/2]), "fenced/by-hand")
		})
	}
}
