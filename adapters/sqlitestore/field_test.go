package sqlitestore_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
)

// C41: two nodes believe that they are active. A holds 5 and stands still, B
// takes over with 6 and writes three entries; A wakes and goes on as if nothing
// had happened. What is there is B's, in B's order.
func TestTwoActiveNodes(t *testing.T) {
	path := tempFile(t)
	a, b := open(t, path, sdk.OpenOptions{}), open(t, path, sdk.OpenOptions{})
	apply(t, a, mutation(5, 1, "a-1", sdk.Put("log", []byte("a1"))), sdk.Accepted)
	log := ""
	for i := 1; i <= 3; i++ {
		log += fmt.Sprintf("b%d ", i)
		apply(t, b, mutation(6, sdk.Segment(i), fmt.Sprint("b-", i), sdk.Put("log", []byte(log))), sdk.Accepted)
	}
	for i := sdk.Segment(2); i <= 4; i++ {
		apply(t, a, mutation(5, i, fmt.Sprint("a-", i), sdk.Put("log", []byte("a"))), sdk.StaleOwner)
	}
	if v, err := a.Read(t.Context(), resource, "log"); err != nil || string(v) != "b1 b2 b3 " {
		t.Errorf("%q, %v", v, err)
	}
}

// C101: an operator unlocks by hand by raising the token, which leaves a receipt
// of who did it; the old holder is shut out. Deleting or lowering the row past
// the store is refused by its triggers.
func TestForcedUnlock(t *testing.T) {
	path := tempFile(t)
	s := open(t, path, sdk.OpenOptions{})
	apply(t, s, mutation(7, 1, "held", sdk.Put("k", []byte("v"))), sdk.Accepted)
	forced := mutation(8, 1, "forced-unlock: ticket 4711")
	forced.Owner = "operator"
	apply(t, s, forced, sdk.Accepted)
	apply(t, s, mutation(7, 2, "late"), sdk.StaleOwner)
	if r, err := s.Receipt(t.Context(), resource, forced.Operation); err != nil || r.Owner != "operator" || r.Fence != 8 {
		t.Errorf("%+v, %v", r, err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range []string{"DELETE FROM fencedstore_fence", "UPDATE fencedstore_fence SET highest = 1", "DELETE FROM fencedstore_receipt"} {
		if _, err := db.Exec(q); err == nil {
			t.Errorf("%s was carried out", q)
		}
	}
}
