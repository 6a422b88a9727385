package cas_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/cas"
)

// fill applies segments 1 to n under fence 1, so that the next one seals.
func fill(t *testing.T, s sdk.FencedStore) (n int) {
	t.Helper()
	for n = 1; n <= 81; n++ {
		apply(t, s, mutation(1, n, "op-"+strconv.Itoa(n)), sdk.Accepted)
	}
	return n - 1
}

// A handle that remembers an old head, of which CleanUp has removed the archive,
// is judged by the head that there is.
func TestOldHeadWasCleanedUp(t *testing.T) {
	for name, c := range map[string]struct {
		fence   sdk.Token
		segment int
		want    sdk.Code
	}{
		"stale":    {1, 82, sdk.StaleOwner},
		"takeover": {9, 1, sdk.Accepted},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBucket()
			s, other := open(t, b), open(t, b)
			fill(t, s)
			apply(t, other, mutation(5, 1, "takes over and seals"), sdk.Accepted)
			if n, err := other.CleanUp(t.Context(), resource, b); err != nil || n == 0 {
				t.Fatalf("%d parts removed, %v", n, err)
			}
			apply(t, s, mutation(c.fence, c.segment, "op"), c.want)
		})
	}
}

// The head moves on and its old parts are removed between this writer's look at
// the head and at its archive. That is no damage.
func TestHeadMovesOnWhileTheArchiveIsRead(t *testing.T) {
	for _, op := range []string{"op-1", "new"} {
		t.Run(op, func(t *testing.T) {
			b := newBucket()
			s, other := open(t, b), open(t, b)
			n := fill(t, s)
			fresh := open(t, b)
			b.got = func(name string) {
				if !strings.Contains(name, "/head/") {
					return
				}
				b.got = nil
				apply(t, other, mutation(1, n+1, "seals"), sdk.Accepted)
				if n, err := other.CleanUp(t.Context(), resource, b); err != nil || n == 0 {
					t.Errorf("%d parts removed, %v", n, err)
				}
			}
			want := sdk.Accepted
			if op != "new" {
				want = sdk.AlreadyApplied
			}
			apply(t, fresh, mutation(9, 1, op), want)
		})
	}
}

// F7: an Apply that finds a head without its marker writes it first, whatever it
// answers then.
func TestMarkerBeforeEveryAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		m    *sdk.Mutation
		want sdk.Code
	}{
		"replayed": {mutation(3, 1, "op"), sdk.Replayed},
		"stale":    {mutation(2, 1, "older"), sdk.StaleOwner},
		"skipped":  {mutation(3, 7, "later"), sdk.SegmentSkipped},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBucket()
			b.before = func(name string) error {
				if strings.Contains(name, "/marker/") {
					return errLost
				}
				return nil
			}
			apply(t, open(t, b), mutation(3, 1, "op"), sdk.MutationUnknown)
			b.before = nil
			apply(t, open(t, b), c.m, c.want)
			if err := b.Remove(t.Context(), cas.HeadName("main", resource)); err != nil {
				t.Fatal(err)
			}
			apply(t, open(t, b), mutation(1, 1, "forgotten"), sdk.FenceRegression)
		})
	}
}

// F7: a receipt, or a fence that a claim was made for, is an answer to an Apply
// that lost its own; the marker comes before it too.
func TestMarkerBeforeALookUp(t *testing.T) {
	for name, look := range map[string]func(*cas.Store) error{
		"receipt": func(s *cas.Store) error { _, err := s.Receipt(t.Context(), resource, "op"); return err },
		"inspect": func(s *cas.Store) error { _, err := s.Inspect(t.Context(), resource); return err },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBucket()
			lose := func(name string) error {
				if strings.Contains(name, "/marker/") {
					return errLost
				}
				return nil
			}
			b.before = lose
			apply(t, open(t, b), mutation(3, 1, "op"), sdk.MutationUnknown)
			s := open(t, b)
			if err := look(s); sdk.CodeOf(err) != sdk.NotApplied {
				t.Errorf("while the marker cannot be written: %v; want NOT_APPLIED", err)
			}
			b.before = nil
			if err := look(s); err != nil {
				t.Fatal(err)
			}
			if err := b.Remove(t.Context(), cas.HeadName("main", resource)); err != nil {
				t.Fatal(err)
			}
			apply(t, open(t, b), mutation(1, 1, "forgotten"), sdk.FenceRegression)
		})
	}
}
