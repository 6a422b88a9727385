// Package mutant holds stores that break one law each, in the ways that real
// adapters break them. The suite is tested by them: one that it certifies is a
// hole in the suite. They are over a store of the package's own, in which each
// step can be bent.
package mutant

import (
	"context"

	"github.com/fencedstore/fencedstore/sdk"
)

// Mutant is a broken store.
type Mutant struct {
	Name  string  // never changes
	Law   sdk.Law // that it breaks
	Story string  // how real adapters get there
	bend  func(*flaws)
}

// Target is what the suite opens.
type Target struct {
	// Open opens the same data each time.
	Open func(ctx context.Context, opts sdk.OpenOptions) (sdk.FencedStore, error)
	// Damage removes the fence of a resource and leaves its receipts.
	Damage func(ctx context.Context, r sdk.ResourceID) error
}

// New returns a fresh target with the mutant's flaw.
func (m Mutant) New() Target {
	var f flaws
	m.bend(&f)
	return target(f)
}

// Honest returns a fresh target without a flaw; it must pass.
func Honest() Target { return target(flaws{}) }

func target(f flaws) Target {
	d := &data{flaws: f, records: map[string]*record{}}
	return Target{Open: d.open, Damage: d.damage}
}
