package gate_test

import (
	"context"
	"fmt"

	"github.com/fencedstore/fencedstore/adapters/memstore"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/gate/gatetest"
)

// A worker pauses, another takes over, the first one wakes up.
func ExampleGate_ApplyFencedMutation() {
	registry, err := gatetest.New("mem:reports") // in production: the registry's grants and its trust bundle
	if err != nil {
		panic(err)
	}
	store := memstore.New()
	ctx := context.Background()
	worker := func(name string) (*gate.Gate, *gatetest.Lease) {
		g, err := registry.Gate(store, name, nil)
		if err != nil {
			panic(err)
		}
		lease, err := registry.Acquire("report/2026-07", name, "build the report")
		if err != nil {
			panic(err)
		}
		return g, lease
	}
	gateA, leaseA := worker("a")
	gateB, leaseB := worker("b")

	out, err := gateB.ApplyFencedMutation(ctx, leaseB.Request(1, "total", sdk.Put("total", []byte("1240"))))
	fmt.Println(out.Code, err)
	out, _ = gateA.ApplyFencedMutation(ctx, leaseA.Request(1, "total-of-A", sdk.Put("total", []byte("1180"))))
	fmt.Println(out.Code, "highest fence", out.Observed.Highest)
	total, err := store.Read(ctx, "report/2026-07", "total")
	fmt.Println(string(total), err)
	// Output:
	// ACCEPTED <nil>
	// STALE_OWNER highest fence 2
	// 1240 <nil>
}

// A new owner claims, and only then asks whether the work was done.
func ExampleGate_Claim() {
	registry, err := gatetest.New("mem:reports")
	if err != nil {
		panic(err)
	}
	store := memstore.New()
	g, err := registry.Gate(store, "b", nil)
	if err != nil {
		panic(err)
	}
	lease, err := registry.Acquire("report/2026-07", "b", "build the report")
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	state, err := g.Claim(ctx, lease.Claim())
	if err != nil {
		panic(err)
	}
	_, err = store.Receipt(ctx, "report/2026-07", "total")
	fmt.Println("next segment", state.Segment+1, "total:", sdk.CodeOf(err))
	// Output: next segment 2 total: NOT_FOUND
}
