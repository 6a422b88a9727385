package mutant

import (
	"context"
	"strings"

	"github.com/fencedstore/fencedstore/sdk"
)

// kindNative adds one to the counter that its body names. The store's own
// tables are the names that begin with "fencedstore_"; one that ends with
// "/full" takes no more.
const kindNative = "mutant.add.v1"

// Native is a set of native effects with which the suite tries the scope.
type Native struct {
	Scope   func(sdk.ResourceID, sdk.Effect) error
	Inside  sdk.Effect
	Outside sdk.Effect
	Own     []sdk.Effect
	Failing sdk.Effect
	Count   func(ctx context.Context) (int, error)
}

func (d *data) nativeEffects(r sdk.ResourceID) Native {
	add := func(counter string) sdk.Effect { return sdk.Effect{Kind: kindNative, Body: []byte(counter)} }
	return Native{
		Scope: func(of sdk.ResourceID, e sdk.Effect) error {
			if !strings.HasPrefix(string(e.Body)+"/", string(of)+"/") {
				return sdk.Errorf(sdk.Invalid, "counter", "%q is not of %q", e.Body, of)
			}
			return nil
		},
		Inside:  add(string(r)),
		Outside: add("elsewhere"),
		Failing: add(string(r) + "/full"),
		Own:     []sdk.Effect{add(ownPrefix + "fence"), add(ownPrefix + "receipt")},
		Count: func(context.Context) (int, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.native[string(r)] + d.native["elsewhere"], nil
		},
	}
}

const ownPrefix = "fencedstore_"

// checkNative refuses native effects outside the scope, and those that name the
// store's own tables, before anything is done.
func (s *store) checkNative(m *sdk.Mutation) error {
	f := &s.data.flaws
	if !f.native {
		return nil
	}
	for _, e := range m.Effects {
		if e.Kind != kindNative {
			continue
		}
		if strings.HasPrefix(string(e.Body), ownPrefix) && !f.ownTables {
			return sdk.Errorf(sdk.Invalid, "effect", "%q is a table of the store's own", e.Body)
		}
		if f.noScope || f.scopeOption && s.opts.Scope == nil {
			continue
		}
		if err := s.opts.CheckScope(m.Resource, e); err != nil {
			return err
		}
	}
	return nil
}

// nativeFails finds an effect that cannot be carried out while nothing is.
func (s *store) nativeFails(m *sdk.Mutation) error {
	if s.data.flaws.nativeLate {
		return nil
	}
	for _, e := range m.Effects {
		if fails(e) {
			return full(e)
		}
	}
	return nil
}

func fails(e sdk.Effect) bool {
	return e.Kind == kindNative && strings.HasSuffix(string(e.Body), "/full")
}

func full(e sdk.Effect) error {
	return sdk.Errorf(sdk.NotApplied, "effect", "%q takes no more", e.Body)
}

func (s *store) applyNative(rec *record, e sdk.Effect) {
	if strings.HasPrefix(string(e.Body), ownPrefix) {
		rec.state.Highest = 1 // whoever writes to the fence's own table moves it
		return
	}
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	s.data.native[string(e.Body)]++
}
