package sqlitestore_test

import (
	"context"
	"database/sql"
	"strconv"
	"sync"
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
)

// BenchmarkApply is a fenced put: one fence, one receipt, one value; beside the
// same three rows written by hand in a transaction with the same settings. With
// 16 writers the store's shared commits show. The ratio is by-hand's to compare.
func BenchmarkApply(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run("fenced-"+strconv.Itoa(writers), func(b *testing.B) {
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
