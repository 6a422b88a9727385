// Command gate writes to a fenced store, loses its lease, and is refused.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/fencedstore/fencedstore/adapters/sqlitestore"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/gate/gatetest"
)

func main() {
	dir, err := os.MkdirTemp("", "gate-*")
	check(err)
	defer os.RemoveAll(dir)
	ctx := context.Background()
	store, err := sqlitestore.Open(ctx, "sqlite:"+filepath.Join(dir, "ledger.db"), sdk.OpenOptions{})
	check(err)
	defer store.Close()

	// A registry in miniature, with a throw-away key. Yours signs the grants and gives the bundle.
	registry, err := gatetest.New("ledger")
	check(err)
	gateOf := func(worker string) *gate.Gate {
		g, err := gate.New(store, registry.Bundle(), &gate.Options{Caller: gate.FixedCaller(worker), Now: registry.Now})
		check(err)
		return g
	}
	a, b := gateOf("worker-a"), gateOf("worker-b")

	leaseA, err := registry.Acquire("accounts/42", "worker-a", "close-march")
	check(err)
	out, err := a.ApplyFencedMutation(ctx, leaseA.Request(1, "post/1", sdk.Put("balance", []byte("100"))))
	check(err)
	fmt.Println("A, fence 1:", out.Code)

	registry.Advance(2 * time.Minute) // A pauses, and its lease ends.

	leaseB, err := registry.Acquire("accounts/42", "worker-b", "close-march")
	check(err)
	_, err = b.Claim(ctx, leaseB.Claim()) // From here on A cannot write.
	check(err)
	out, err = b.ApplyFencedMutation(ctx, leaseB.Request(2, "post/2", sdk.Put("balance", []byte("250"))))
	check(err)
	fmt.Println("B, fence 2:", out.Code)

	out, err = a.ApplyFencedMutation(ctx, leaseA.Request(2, "post/2", sdk.Put("balance", []byte("170"))))
	fmt.Println("A, fence 1:", out.Code, "-", err)
	balance, err := store.Read(ctx, "accounts/42", "balance")
	check(err)
	fmt.Printf("balance: %s\n", balance)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
