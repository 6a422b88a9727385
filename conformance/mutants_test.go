package conformance_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/conformance/internal/mutant"
	"github.com/fencedstore/fencedstore/sdk"
)

// elsewhere are the cases that no mutant can fail, as a mutant is one process
// without a wire, and the test that fails them.
var elsewhere = map[string]string{
	"durable/killed-writer":       "TestKilledWriterFindsEarlyAcknowledgement",
	"wire/dial-undeclared":        "TestWireFlawsAreFound",
	"wire/cut-while-sending":      "TestWireFlawsAreFound",
	"wire/lost-acknowledgement":   "TestWireFlawsAreFound",
	"wire/lost-reads":             "TestWireFlawsAreFound",
	"wire/cancelled-while-silent": "TestWireFlawsAreFound",
}

// options of a run against a mutant. Stall is short because some mutants hang;
// what they are waited for is nothing that an honest store needs.
func mutantOptions() *conformance.Options {
	return &conformance.Options{Profile: conformance.Quick, Seed: 42, Schedules: 60, Stall: 8 * time.Second}
}

func mutantHarness(name string, t mutant.Target) conformance.Harness {
	h := conformance.Harness{Name: name, Open: t.Open, Damage: t.Damage}
	if t.Native != nil {
		h.Native = func(r sdk.ResourceID) conformance.Native { return conformance.Native(t.Native(r)) }
	}
	return h
}

// A mutant is rejected, and the law that it breaks is named.
func TestMutantsAreRejected(t *testing.T) {
	if testing.Short() {
		t.Skip("a run per mutant is long; the full test run has it")
	}
	all := mutant.All()
	if len(all) < 25 {
		t.Errorf("%d mutants, want 25 at least", len(all))
	}
	var mu sync.Mutex
	kills := map[string][]string{}
	t.Run("mutants", func(t *testing.T) {
		for _, m := range all {
			t.Run(m.Name, func(t *testing.T) {
				t.Parallel()
				r, err := conformance.Check(t.Context(), mutantHarness(m.Name, m.New()), mutantOptions())
				if err != nil {
					t.Fatal(err)
				}
				var failed, laws []string
				for i := range r.Results {
					if res := &r.Results[i]; res.Status == conformance.Failed {
						failed, laws = append(failed, res.ID), append(laws, string(res.Law))
					}
				}
				if r.Certified || !slices.Contains(laws, string(m.Law)) {
					t.Errorf("it breaks %s (%s); the suite failed %v", m.Law, m.Story, failed)
				}
				if !strings.Contains(r.Verdict, string(m.Law)+" ") {
					t.Errorf("the verdict does not name %s: %s", m.Law, r.Verdict)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, id := range failed {
					kills[id] = append(kills[id], m.Name)
				}
			})
		}
	})
	for _, cs := range conformance.Cases() {
		_, excused := elsewhere[cs.ID]
		switch n := len(kills[cs.ID]); {
		case n == 0 && !excused:
			t.Errorf("%s fails for no mutant: a check that cannot fail is a defect", cs.ID)
		}
	}
	if testing.Verbose() {
		for _, cs := range conformance.Cases() {
			fmt.Printf("%-40s %d\n", cs.ID, len(kills[cs.ID]))
		}
	}
}

// What the mutants stand on passes, so that each is rejected for its flaw.
func TestHonestPasses(t *testing.T) {
	for name, target := range map[string]mutant.Target{"honest": mutant.Honest(), "honest with native effects": mutant.HonestNative()} {
		r, err := conformance.Check(t.Context(), mutantHarness(name, target), mutantOptions())
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Results {
			if res := &r.Results[i]; res.Status == conformance.Failed {
				t.Errorf("%s: %s: %+v", name, res.ID, res.Failures)
			}
		}
		if !r.Complete || r.Figures.Schedules != 60 {
			t.Errorf("%s: complete %v, %d schedules", name, r.Complete, r.Figures.Schedules)
		}
	}
}
