// Command spanner moves money between two accounts in a Spanner database, inside
// the transaction that moves the fence: a worker whose lease is over moves
// nothing.
//
//	adaptercheck schema --apply spanner://projects/P/instances/I/databases/D
//	go run ./examples/spanner spanner://projects/P/instances/I/databases/D
//
// The database needs a table of the team's own:
//
//	CREATE TABLE Accounts (Name STRING(64) NOT NULL, Balance INT64 NOT NULL) PRIMARY KEY (Name)
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"cloud.google.com/go/spanner"
	"github.com/fencedstore/fencedstore/adapters/spannerstore"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/gate/gatetest"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: spanner spanner://projects/P/instances/I/databases/D")
	}
	if err := run(context.Background(), os.Args[1], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// transfer is business logic that must read before it writes.
func transfer(amount int64) func(context.Context, *spannerstore.Tx) ([]byte, error) {
	return func(ctx context.Context, t *spannerstore.Tx) ([]byte, error) {
		balances := map[string]int64{}
		for _, name := range []string{"a", "b"} {
			row, err := t.ReadRow(ctx, "Accounts", spanner.Key{name}, []string{"Balance"})
			if err == nil {
				var n int64
				err = row.Columns(&n)
				balances[name] = n
			} else if errors.Is(err, spanner.ErrRowNotFound) {
				err = nil
			}
			if err != nil {
				return nil, err
			}
		}
		balances["a"] -= amount
		balances["b"] += amount
		for name, n := range balances {
			if err := t.InsertOrUpdate("Accounts", []string{"Name", "Balance"}, []any{name, n}); err != nil {
				return nil, err
			}
		}
		return fmt.Appendf(nil, "a %d, b %d", balances["a"], balances["b"]), nil
	}
}

func run(ctx context.Context, dsn string, out io.Writer) error {
	store, err := spannerstore.Open(ctx, dsn, sdk.OpenOptions{})
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.Probe(ctx); err != nil { // once, when a service starts
		return err
	}

	// A registry in miniature, with a throw-away key. Yours signs the grants and
	// gives the bundle; its tokens are above all that the store has seen.
	books := sdk.ResourceID(fmt.Sprintf("books/%d", time.Now().UnixNano()))
	registry, err := gatetest.New("books")
	if err != nil {
		return err
	}
	gates := map[string]*gate.Gate{}
	for _, worker := range []string{"worker-a", "worker-b"} {
		if gates[worker], err = gate.New(store, registry.Bundle(), &gate.Options{Caller: gate.FixedCaller(worker), Now: registry.Now}); err != nil {
			return err
		}
	}

	lease, err := registry.Acquire(books, "worker-a", "settle")
	if err != nil {
		return err
	}
	answer, err := gate.ApplyTx(ctx, gates["worker-a"], lease.Request(1, "transfer/1"), transfer(10))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "worker-a: %s\n", answer.Receipt.Result)

	registry.Advance(2 * time.Minute) // worker-a stands still, and its lease ends.

	next, err := registry.Acquire(books, "worker-b", "settle")
	if err != nil {
		return err
	}
	if _, err := gates["worker-b"].Claim(ctx, next.Claim()); err != nil { // From here on worker-a cannot write.
		return err
	}
	answer, err = gate.ApplyTx(ctx, gates["worker-b"], next.Request(2, "transfer/2"), transfer(5))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "worker-b: %s\n", answer.Receipt.Result)

	// worker-a wakes up and goes on.
	if _, err = gate.ApplyTx(ctx, gates["worker-a"], lease.Request(2, "transfer/2"), transfer(100)); !errors.Is(err, sdk.ErrStaleOwner) {
		return fmt.Errorf("a stale owner was answered %w", err)
	}
	fmt.Fprintln(out, "worker-a:", sdk.CodeOf(err))
	return nil
}
