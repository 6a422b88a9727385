package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

// O1, F6, F12: whatever callers, statements and hooks do to a shared commit, an
// answer is true of the file afterwards.
func TestAnswersAreTrue(t *testing.T) {
	path := tempFile(t)
	all := func(sdk.ResourceID, sdk.Effect) error { return nil }
	stores := []sdk.FencedStore{open(t, path, sdk.OpenOptions{Scope: all}), open(t, path, sdk.OpenOptions{Scope: all})}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`CREATE TABLE once (resource, operation, PRIMARY KEY (resource, operation)); CREATE TABLE one (id INTEGER PRIMARY KEY); INSERT INTO one VALUES (1);
		CREATE TABLE child (id REFERENCES one (id) DEFERRABLE INITIALLY DEFERRED)`); err != nil {
		t.Fatal(err)
	}
	const workers, each = 16, 40
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(w)))
			r := sdk.ResourceID(fmt.Sprintf("r/%d", w))
			segment := sdk.Segment(1)
			for i := range each {
				op := fmt.Sprintf("op-%d", i)
				insert := fmt.Sprintf("INSERT INTO once VALUES ('%s', '%s')", r, op)
				m := mutation(1, segment, op, raw(insert))
				bad := true
				switch rnd.IntN(6) {
				case 0:
					m.Effects = append(m.Effects, raw("INSERT OR ROLLBACK INTO one VALUES (1)"))
				case 1:
					m.Effects = append(m.Effects, raw("INSERT INTO child VALUES (2)"))
				case 2:
					m.Effects = nil
					m.Hook = func(ctx context.Context, tx any) ([]byte, error) {
						tx.(*sql.Tx).Exec(insert)
						tx.(*sql.Tx).Exec("INSERT OR ROLLBACK INTO one VALUES (1)")
						return nil, nil
					}
				case 3:
					m.Effects = nil
					m.Hook = func(ctx context.Context, tx any) ([]byte, error) {
						_, err := tx.(*sql.Tx).ExecContext(ctx, insert)
						return nil, err
					}
					bad = false
				default:
					bad = false
				}
				m.Resource = r
				ctx, cancel := context.WithCancel(t.Context())
				if rnd.IntN(3) == 0 {
					ctx, cancel = context.WithTimeout(t.Context(), time.Duration(rnd.IntN(4000))*time.Microsecond)
				}
				out, err := stores[rnd.IntN(2)].Apply(ctx, admit(m))
				ended := ctx.Err() != nil
				cancel()
				_, rerr := stores[0].Receipt(t.Context(), r, m.Operation)
				for out.Code == sdk.MutationUnknown && errors.Is(rerr, sdk.ErrNotFound) {
					// It may land yet; the same call again tells.
					out, err = stores[0].Apply(t.Context(), admit(m))
					_, rerr = stores[0].Receipt(t.Context(), r, m.Operation)
				}
				var rows int
				if err := db.QueryRow("SELECT count(*) FROM once WHERE resource = ? AND operation = ?", string(r), op).Scan(&rows); err != nil {
					t.Error(err)
				}
				landed := rerr == nil
				switch {
				case out.Code == sdk.Accepted && !landed, out.Code.Refused() && landed, landed != (rows == 1), landed && bad:
					t.Errorf("%s %s: %v, %v; receipt: %v, %d rows", r, op, out.Code, err, rerr, rows)
				case !landed && !bad && !ended:
					t.Errorf("%s %s: refused for another's fault: %v", r, op, err)
				}
				if landed {
					segment++
				}
			}
		})
	}
	wg.Wait()
}
