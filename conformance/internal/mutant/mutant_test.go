package mutant

import (
	"testing"

	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
)

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range All() {
		if m.Name == "" || m.Law == "" || m.Story == "" || m.bend == nil || seen[m.Name] {
			t.Errorf("%+v: incomplete or twice", m.Name)
		}
		seen[m.Name] = true
	}
	if len(seen) < 25 {
		t.Errorf("%d mutants", len(seen))
	}
	t.Logf("%d mutants", len(seen))
}

// Every mutant opens and takes a first write, so that what it is rejected for is
// its flaw.
func TestMutantsWork(t *testing.T) {
	admit := func() sdk.Admission {
		return sdk.NewAdmission(seal.Cut(), &sdk.Mutation{Resource: "a", Operation: "op", Fence: 1, Segment: 1, Owner: "w",
			Root: sdk.SumDigest([]byte("r")), Grant: sdk.SumDigest([]byte("g")), Payload: sdk.SumDigest([]byte("p")), Effects: []sdk.Effect{sdk.Put("k", []byte("v"))}})
	}
	for _, m := range append(All(), Mutant{Name: "honest", bend: func(*flaws) {}}) {
		target := m.New()
		s, err := target.Open(t.Context(), sdk.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if out, err := s.Apply(t.Context(), admit()); err != nil {
			t.Errorf("%s: %v, %v", m.Name, out.Code, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
