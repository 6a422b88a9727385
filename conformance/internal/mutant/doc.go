// Package mutant holds stores that break one law each, in the ways that real
// adapters break them. The suite is tested by them: one that it certifies is a
// hole in the suite. They stand on a store of the package's own, in which each
// step can be bent, so that a mutant owes nothing to an adapter.
//
// Where a story ends with a number like (C63) it is a fault that people met in
// the field.
package mutant

import (
	"context"
	"slices"

	"github.com/fencedstore/fencedstore/sdk"
)

// Mutant is a broken store.
type Mutant struct {
	Name  string  // never changes
	Law   sdk.Law // that it breaks
	Story string  // how real adapters get there
	// Concurrent says why no calls one after the other show the flaw; empty
	// where they do.
	Concurrent string

	bend func(*flaws)
}

// Target is what the suite opens.
type Target struct {
	// Open opens the same data each time.
	Open func(ctx context.Context, opts sdk.OpenOptions) (sdk.FencedStore, error)
	// Damage removes the fence of a resource and leaves its receipts.
	Damage func(ctx context.Context, r sdk.ResourceID) error
	// Native returns effects of the store's own kind; nil where it has none.
	Native func(r sdk.ResourceID) Native
}

// New returns a fresh target with the mutant's flaw.
func (m Mutant) New() Target {
	var f flaws
	m.bend(&f)
	return target(f)
}

// Honest returns a fresh target without a flaw; it must pass.
func Honest() Target { return target(flaws{}) }

// HonestNative is Honest with native effects.
func HonestNative() Target { return target(flaws{native: true}) }

// All returns every mutant.
func All() []Mutant {
	return slices.Concat(stale(), takeovers(), segments(), tokens(), grants(), replays(), conflicts(), quarantines(), once(),
		atomicity(), values(), hooks(), natives(), monotonic(), reads(), durability(), isolation(), names(),
		outcomes(), echoes(), resolution(), promptness(), rollout(), inputs())
}

func target(f flaws) Target {
	d := newData(f)
	t := Target{Open: d.open, Damage: d.damage}
	if f.native {
		t.Native = d.nativeEffects
	}
	return t
}
