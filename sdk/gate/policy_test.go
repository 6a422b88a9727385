package gate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fencedstore/fencedstore/adapters/memstore"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
)

func policy(t testing.TB, generation uint64, rules ...gate.Rule) *gate.Policy {
	t.Helper()
	p, err := gate.NewPolicy(generation, rules)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPolicyFirstRuleDecides(t *testing.T) {
	p := policy(t, 1, gate.Rule{Pattern: "a/vip", Mode: gate.Enforce}, gate.Rule{Pattern: "a/**", Mode: gate.Shadow})
	for r, want := range map[sdk.ResourceID]gate.Mode{"a/vip": gate.Enforce, "a/b": gate.Shadow, "a": gate.Enforce, "b": gate.Enforce} {
		if got := p.Mode(r); got != want {
			t.Errorf("%s: %s, want %s", r, got, want)
		}
	}
}

func TestPolicyRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		generation uint64
		rule       gate.Rule
	}{
		"generation 0": {0, gate.Rule{Pattern: "a", Mode: gate.Shadow}},
		"off":          {1, gate.Rule{Pattern: "a", Mode: "off"}},
		"no mode":      {1, gate.Rule{Pattern: "a"}},
		"bad pattern":  {1, gate.Rule{Pattern: "a/**/b", Mode: gate.Shadow}},
	} {
		if _, err := gate.NewPolicy(tc.generation, []gate.Rule{tc.rule}); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// From enforce there is no way back.
func TestPolicyNeverBack(t *testing.T) {
	shadow := func(p string) gate.Rule { return gate.Rule{Pattern: p, Mode: gate.Shadow} }
	enforce := func(p string) gate.Rule { return gate.Rule{Pattern: p, Mode: gate.Enforce} }
	for _, tc := range []struct {
		name     string
		from, to []gate.Rule
		want     error
	}{
		{"narrower shadow", []gate.Rule{shadow("a/**")}, []gate.Rule{shadow("a/b")}, nil},
		{"same", []gate.Rule{shadow("a/**")}, []gate.Rule{shadow("a/**")}, nil},
		{"all enforced", []gate.Rule{shadow("a/**")}, nil, nil},
		{"an exception", []gate.Rule{shadow("a/**")}, []gate.Rule{enforce("a/b"), shadow("a/**")}, nil},
		{"wider shadow", []gate.Rule{shadow("a/b")}, []gate.Rule{shadow("a/**")}, sdk.ErrUnsuitable},
		{"new shadow", []gate.Rule{shadow("a/b")}, []gate.Rule{shadow("c")}, sdk.ErrUnsuitable},
		{"exception dropped", []gate.Rule{enforce("a/b"), shadow("a/**")}, []gate.Rule{shadow("a/**")}, sdk.ErrUnsuitable},
		{"exception made shadow", []gate.Rule{enforce("a/b"), shadow("a/**")}, []gate.Rule{shadow("a/b")}, sdk.ErrUnsuitable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := gate.NewPolicyHolder(policy(t, 3, tc.from...))
			if err := h.Replace(policy(t, 3, tc.to...)); !errors.Is(err, sdk.ErrPolicyStale) {
				t.Errorf("same generation: %v", err)
			}
			if err := h.Replace(policy(t, 4, tc.to...)); !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if want := uint64(3); tc.want != nil && h.Policy().Generation() != want {
				t.Errorf("a refused policy is in force")
			}
		})
	}
}

// rollout is a store with its shadow, and a legacy write that has no fence.
type rollout struct {
	*world
	shadow *memstore.Store
	legacy string
	runs   int
}

func newRollout(t *testing.T) *rollout {
	t.Helper()
	r := &rollout{world: newWorld(t)}
	data := memstore.NewData()
	open := func(ns string) *memstore.Store {
		s, err := data.Open(sdk.OpenOptions{Namespace: ns})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	r.store = &counting{FencedStore: open("")}
	r.shadow = open(sdk.ShadowNamespace(""))
	return r
}

func (r *rollout) gate(t *testing.T, owner string, p *gate.PolicyHolder) *gate.Gate {
	return r.world.gate(t, owner, &gate.Options{Policy: p, Shadow: r.shadow})
}

func (r *rollout) write(t *testing.T, g *gate.Gate, req gate.Request, value string) (gate.WriteResult, error) {
	t.Helper()
	return g.Write(t.Context(), req, func(context.Context) error {
		r.runs++
		r.legacy = value
		return nil
	})
}

func TestShadowRecordsWhatTheGateWouldSay(t *testing.T) {
	r := newRollout(t)
	h := gate.NewPolicyHolder(policy(t, 1, gate.Rule{Pattern: "invoice-batch/**", Mode: gate.Shadow}))
	ga, gb := r.gate(t, "a", h), r.gate(t, "b", h)
	a := r.acquire(t, "a")
	late := a.Request(2, "op-2", put("late"))
	for _, tc := range []struct {
		g     *gate.Gate
		req   gate.Request
		value string
		want  sdk.Code
	}{
		{ga, a.Request(1, "op-1", put("a")), "a", sdk.Accepted},
		{gb, r.acquire(t, "b").Request(1, "op-3", put("b")), "b", sdk.Accepted},
		{ga, late, "late", sdk.StaleOwner}, // and the data is corrupt, as without a fence
		{ga, gate.Request{Resource: resource, Segment: 1, Operation: "op"}, "no grant", sdk.Malformed},
	} {
		res, err := r.write(t, tc.g, tc.req, tc.value)
		if err != nil || res.Mode != gate.Shadow || res.Outcome.Code != tc.want || (res.Shadow == nil) != tc.want.Ok() {
			t.Errorf("%s: %+v, %v; want shadow %v", tc.value, res, err, tc.want)
		}
		if r.legacy != tc.value {
			t.Errorf("the legacy write of %q did not run", tc.value)
		}
	}
	if got := r.value(t); got != "" {
		t.Errorf("shadow mode wrote %q", got)
	}
	if v, err := r.shadow.Read(t.Context(), resource, "key"); sdk.CodeOf(err) != sdk.NotFound {
		t.Errorf("shadow mode wrote %q into the shadow, %v", v, err)
	}
	legacyErr := errors.New("legacy failed")
	_, err := ga.Write(t.Context(), late, func(context.Context) error { return legacyErr })
	if err != legacyErr {
		t.Errorf("got %v, want the legacy write's own error", err)
	}
}

// Going to enforce starts from the shadow's fence, and the store remembers: a
// gate with the old policy, on another host or after a restart, enforces too.
func TestShadowToEnforce(t *testing.T) {
	r := newRollout(t)
	first := policy(t, 1, gate.Rule{Pattern: "invoice-batch/**", Mode: gate.Shadow})
	h := gate.NewPolicyHolder(first)
	g := r.gate(t, "b", h)
	a := r.acquire(t, "a")
	staleReq := a.Request(1, "op-a", put("stale"))
	b := r.acquire(t, "b")
	if res, err := r.write(t, g, b.Request(1, "op-1", put("1")), "1"); err != nil || res.Mode != gate.Shadow {
		t.Fatalf("%+v, %v", res, err)
	}
	if err := h.Replace(policy(t, 2)); err != nil {
		t.Fatal(err)
	}
	// A token below what shadow mode saw is stale from the first enforced write.
	if res, err := r.write(t, r.gate(t, "a", h), staleReq, "stale"); !errors.Is(err, sdk.ErrStaleOwner) || res.Mode != gate.Enforce {
		t.Errorf("stale: %+v, %v", res, err)
	}
	runs := r.runs
	if res, err := r.write(t, g, b.Request(2, "op-2", put("2")), "2"); err != nil || res.Mode != gate.Enforce || res.Outcome.Code != sdk.Accepted {
		t.Errorf("the running job goes on: %+v, %v", res, err)
	}
	if r.runs != runs || r.value(t) != "2" {
		t.Errorf("legacy ran %d times in enforce; value %q", r.runs-runs, r.value(t))
	}
	// A takeover writes the generation; then the old policy is refused.
	c := r.acquire(t, "c")
	mustApply(t, r.gate(t, "c", h), c.Request(1, "op-3", put("3")), sdk.Accepted)
	old := r.gate(t, "c", gate.NewPolicyHolder(first))
	res, err := r.write(t, old, c.Request(2, "op-4", put("4")), "legacy again")
	if !errors.Is(err, sdk.ErrPolicyStale) || r.legacy == "legacy again" {
		t.Errorf("old policy: %+v, %v; legacy %q", res, err, r.legacy)
	}
}

func TestShadowStoreDownDoesNotStopTheLegacyWrite(t *testing.T) {
	r := newRollout(t)
	h := gate.NewPolicyHolder(policy(t, 1, gate.Rule{Pattern: "**", Mode: gate.Shadow}))
	g := r.gate(t, "a", h)
	l := r.acquire(t, "a")
	r.shadow.Close()
	res, err := r.write(t, g, l.Request(1, "op", put("x")), "x")
	if err != nil || r.legacy != "x" || res.Shadow == nil {
		t.Errorf("%+v, %v, legacy %q", res, err, r.legacy)
	}
}

// Where it cannot be told whether the resource is enforced, nothing runs.
func TestUnreadableStoreStopsTheLegacyWrite(t *testing.T) {
	r := newRollout(t)
	r.store.inspect = func(context.Context, sdk.ResourceID) (sdk.FenceState, error) {
		return sdk.FenceState{}, sdk.Errorf(sdk.NotApplied, "", "no connection")
	}
	g := r.gate(t, "a", gate.NewPolicyHolder(policy(t, 1, gate.Rule{Pattern: "**", Mode: gate.Shadow})))
	if _, err := r.write(t, g, r.acquire(t, "a").Request(1, "op", put("x")), "x"); !errors.Is(err, sdk.ErrNotApplied) || r.runs != 0 {
		t.Errorf("%v, legacy ran %d times", err, r.runs)
	}
}

func TestLoadPolicy(t *testing.T) {
	p, err := gate.LoadPolicy([]byte(`{"generation":"2","rules":[{"pattern":"a/**","mode":"shadow"}]}`))
	if err != nil || p.Generation() != 2 || p.Mode("a/b") != gate.Shadow || p.Mode("b") != gate.Enforce {
		t.Errorf("%+v, %v", p, err)
	}
	for _, text := range []string{"", "{}", "null", `{"generation":2,"rules":[]}`, `{"generation":"0","rules":[]}`, `{"generation":"2","rules":[{"pattern":"a","mode":"off"}]}`,
		`{"generation":"2","Rules":[]}`, `{"generation":"2","rules":[],"off":true}`, `{"generation":"2","generation":"1","rules":[]}`, `{"generation":"9223372036854775808","rules":[]}`,
		`{"generation":"2","rules":[{"pattern":"a//b","mode":"shadow"}]}`} {
		if _, err := gate.LoadPolicy([]byte(text)); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := gate.LoadPolicy(make([]byte, gate.MaxPolicyBytes+1)); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("too long: %v", err)
	}
}

func FuzzLoadPolicy(f *testing.F) {
	f.Add([]byte(`{"generation":"2","rules":[{"pattern":"a/**","mode":"shadow"},{"pattern":"b/*","mode":"enforce"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := gate.LoadPolicy(b)
		if err != nil {
			return
		}
		if p.Generation() == 0 {
			t.Error("generation 0")
		}
		// A policy may always be followed by itself with a higher generation.
		if p.Generation() < uint64(sdk.MaxToken) {
			h := gate.NewPolicyHolder(p)
			if err := h.Replace(p); !errors.Is(err, sdk.ErrPolicyStale) {
				t.Error(err)
			}
		}
	})
}
