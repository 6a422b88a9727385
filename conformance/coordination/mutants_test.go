package coordination_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/adapters/memcoord"
	"github.com/fencedstore/fencedstore/conformance/coordination"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/clock"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/registry"
)

// mutant is the model with one law broken, in a way that a real coordinator
// would break it.
type mutant struct {
	*memcoord.Coordinator
	now *clock.Manual

	mu     sync.Mutex
	tokens map[registry.Ref]sdk.Token // true to shown, where they differ
	true_  map[registry.Ref]registry.Ref
	tops   map[sdk.ResourceID]sdk.Token
	n      int
	held   map[sdk.ResourceID]int
	stack  []registry.Key

	token     func(m *mutant, r registry.Record) sdk.Token // what is shown for a true token
	acquire   func(m *mutant, ctx context.Context, a registry.Acquisition) (registry.Record, error)
	renew     func(m *mutant, ctx context.Context, ref registry.Ref) (registry.Record, error)
	release   func(m *mutant, ctx context.Context, ref registry.Ref) (registry.Record, error)
	status    func(m *mutant, ctx context.Context, ref registry.Ref) (registry.Record, error)
	highest   func(m *mutant, ctx context.Context, r sdk.ResourceID) (sdk.Token, error)
	raise     func(m *mutant, ctx context.Context, r sdk.ResourceID, floor sdk.Token) (sdk.Token, error)
	byRequest func(m *mutant, ctx context.Context, key registry.Key) (registry.Record, error)
}

// show gives a record the mutant's token.
func (m *mutant) show(r registry.Record) registry.Record {
	if m.token == nil || r.Token == 0 {
		return r
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	is := r.Ref
	if _, ok := m.tokens[is]; !ok {
		m.tokens[is] = m.token(m, r)
	}
	r.Token = m.tokens[is]
	m.true_[r.Ref] = is
	m.tops[r.Resource] = r.Token
	return r
}

// real is the model's name of a grant.
func (m *mutant) real(ref registry.Ref) registry.Ref {
	m.mu.Lock()
	defer m.mu.Unlock()
	if is, ok := m.true_[ref]; ok {
		return is
	}
	return ref
}

func (m *mutant) Acquire(ctx context.Context, a registry.Acquisition) (registry.Record, error) {
	if m.acquire != nil {
		return m.acquire(m, ctx, a)
	}
	r, err := m.Coordinator.Acquire(ctx, a)
	return m.show(r), err
}

func (m *mutant) Renew(ctx context.Context, ref registry.Ref) (registry.Record, error) {
	if m.renew != nil {
		return m.renew(m, ctx, ref)
	}
	r, err := m.Coordinator.Renew(ctx, m.real(ref))
	return m.show(r), err
}

func (m *mutant) Release(ctx context.Context, ref registry.Ref) (registry.Record, error) {
	if m.release != nil {
		return m.release(m, ctx, ref)
	}
	r, err := m.Coordinator.Release(ctx, m.real(ref))
	return m.show(r), err
}

func (m *mutant) Status(ctx context.Context, ref registry.Ref) (registry.Record, error) {
	if m.status != nil {
		return m.status(m, ctx, ref)
	}
	r, err := m.Coordinator.Status(ctx, m.real(ref))
	return m.show(r), err
}

func (m *mutant) ByRequest(ctx context.Context, key registry.Key) (registry.Record, error) {
	if m.byRequest != nil {
		return m.byRequest(m, ctx, key)
	}
	r, err := m.Coordinator.ByRequest(ctx, key)
	return m.show(r), err
}

func (m *mutant) Highest(ctx context.Context, r sdk.ResourceID) (sdk.Token, error) {
	if m.highest != nil {
		return m.highest(m, ctx, r)
	}
	if m.token != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.tops[r], nil
	}
	return m.Coordinator.Highest(ctx, r)
}

func (m *mutant) Raise(ctx context.Context, r sdk.ResourceID, floor sdk.Token) (sdk.Token, error) {
	if m.raise != nil {
		return m.raise(m, ctx, r, floor)
	}
	return m.Coordinator.Raise(ctx, r, floor)
}

// forget lets the model forget a resource but for its sequence.
func (m *mutant) forget(ctx context.Context, r sdk.ResourceID, at sdk.Token) {
	m.Coordinator.Rewind(r, at)
}

var mutants = []struct {
	name  string
	law   sdk.Law
	build func(m *mutant)
}{
	{"token from a random ID", sdk.R1, func(m *mutant) {
		rng := rand.New(rand.NewPCG(1, 2))
		m.token = func(*mutant, registry.Record) sdk.Token { return sdk.Token(rng.Uint64()>>1) | 1 }
	}},
	{"token from a clock", sdk.R1, func(m *mutant) {
		m.token = func(m *mutant, _ registry.Record) sdk.Token { return sdk.Token(m.now.Now().UnixNano()) }
	}},
	{"token from the suffix, which starts again when nobody is in the folder", sdk.R1, func(m *mutant) {
		m.token = func(m *mutant, r registry.Record) sdk.Token {
			m.held[r.Resource]++
			return sdk.Token(m.held[r.Resource])
		}
		m.release = func(m *mutant, ctx context.Context, ref registry.Ref) (registry.Record, error) {
			r, err := m.Coordinator.Release(ctx, m.real(ref))
			if err == nil && m.Queued(ref.Resource) == 0 {
				m.mu.Lock()
				delete(m.held, ref.Resource)
				m.mu.Unlock()
			}
			return m.show(r), err
		}
	}},
	{"token reused after delete", sdk.R1, func(m *mutant) {
		m.release = func(m *mutant, ctx context.Context, ref registry.Ref) (registry.Record, error) {
			r, err := m.Coordinator.Release(ctx, ref)
			if err == nil {
				m.forget(ctx, ref.Resource, ref.Token-1)
			}
			return r, err
		}
	}},
	{"two holders", sdk.R4, func(m *mutant) {
		m.acquire = func(m *mutant, ctx context.Context, a registry.Acquisition) (registry.Record, error) {
			r, err := m.Coordinator.Acquire(ctx, a)
			if sdk.CodeOf(err) != sdk.NotHeld {
				return r, err
			}
			at, err := m.Coordinator.Highest(ctx, a.Resource)
			if err != nil {
				return registry.Record{}, err
			}
			m.forget(ctx, a.Resource, at)
			return m.Coordinator.Acquire(ctx, a)
		}
	}},
	{"the race is decided by reading first", sdk.R4, func(m *mutant) {
		m.acquire = func(m *mutant, ctx context.Context, a registry.Acquisition) (registry.Record, error) {
			a.Wait = true // what it is worth to have looked before: nothing
			r, err := m.Coordinator.Acquire(ctx, a)
			if err == nil {
				m.forget(ctx, a.Resource, r.Token)
			}
			return r, err
		}
	}},
	{"release by a stranger", sdk.R4, func(m *mutant) {
		m.release = func(m *mutant, ctx context.Context, ref registry.Ref) (registry.Record, error) {
			r, err := m.Coordinator.Release(ctx, ref)
			if sdk.CodeOf(err) == sdk.NotFound {
				at, _ := m.Coordinator.Highest(ctx, ref.Resource)
				m.forget(ctx, ref.Resource, at)
			}
			return r, err
		}
	}},
	{"release by name: the old holder's ends the new one's lease", sdk.R6, func(m *mutant) {
		m.release = func(m *mutant, ctx context.Context, ref registry.Ref) (registry.Record, error) {
			r, err := m.Coordinator.Release(ctx, ref)
			if err == nil && r.State == grant.StateExpired {
				at, _ := m.Coordinator.Highest(ctx, ref.Resource)
				m.forget(ctx, ref.Resource, at)
			}
			return r, err
		}
	}},
	{"renew after expiry", sdk.R4, func(m *mutant) {
		m.renew = func(m *mutant, ctx context.Context, ref registry.Ref) (registry.Record, error) {
			r, err := m.Coordinator.Renew(ctx, ref)
			if sdk.CodeOf(err) == sdk.NotHeld && r.State == grant.StateExpired {
				r.State, r.Until, err = grant.StateHeld, m.now.Now().Add(r.TTL), nil
			}
			return r, err
		}
	}},
	{"renew does not extend", sdk.R3, func(m *mutant) {
		m.renew = func(m *mutant, ctx context.Context, ref registry.Ref) (registry.Record, error) {
			return m.Coordinator.Status(ctx, ref)
		}
	}},
	{"request ID ignored", sdk.R2, func(m *mutant) {
		m.acquire = func(m *mutant, ctx context.Context, a registry.Acquisition) (registry.Record, error) {
			m.mu.Lock()
			m.n++
			id := a.RequestID
			a.RequestID += strings.Repeat("x", m.n%200)
			m.mu.Unlock()
			r, err := m.Coordinator.Acquire(ctx, a)
			r.RequestID = id
			return r, err
		}
	}},
	{"the request goes with its lease", sdk.R2, func(m *mutant) {
		m.release = func(m *mutant, ctx context.Context, ref registry.Ref) (registry.Record, error) {
			r, err := m.Coordinator.Release(ctx, ref)
			if err == nil {
				at, _ := m.Coordinator.Highest(ctx, ref.Resource)
				m.forget(ctx, ref.Resource, at)
			}
			return r, err
		}
	}},
	{"other parameters are served", sdk.R2, func(m *mutant) {
		m.acquire = func(m *mutant, ctx context.Context, a registry.Acquisition) (registry.Record, error) {
			if r, err := m.Coordinator.ByRequest(ctx, a.Key); err == nil {
				return r, nil
			}
			return m.Coordinator.Acquire(ctx, a)
		}
	}},
	{"an ended request is answered as held", sdk.R2, func(m *mutant) {
		m.acquire = func(m *mutant, ctx context.Context, a registry.Acquisition) (registry.Record, error) {
			r, err := m.Coordinator.Acquire(ctx, a)
			if err == nil && r.State != grant.StateHeld {
				r.State, r.Until = grant.StateHeld, m.now.Now().Add(r.TTL)
			}
			return r, err
		}
	}},
	{"the grant takes the newest note", sdk.R3, func(m *mutant) {
		m.acquire = func(m *mutant, ctx context.Context, a registry.Acquisition) (registry.Record, error) {
			r, err := m.Coordinator.Acquire(ctx, a)
			r.Note = a.Note
			return r, err
		}
	}},
	{"raise that lowers", sdk.R5, func(m *mutant) {
		m.raise = func(m *mutant, ctx context.Context, r sdk.ResourceID, floor sdk.Token) (sdk.Token, error) {
			if at, _ := m.Coordinator.Highest(ctx, r); floor > 0 && floor < at {
				m.forget(ctx, r, floor)
			}
			return m.Coordinator.Raise(ctx, r, floor)
		}
	}},
	{"raise through a float", sdk.R5, func(m *mutant) {
		m.raise = func(m *mutant, ctx context.Context, r sdk.ResourceID, floor sdk.Token) (sdk.Token, error) {
			return m.Coordinator.Raise(ctx, r, sdk.Token(float64(floor)))
		}
	}},
	{"raise does nothing while the resource is held", sdk.R5, func(m *mutant) {
		m.raise = func(m *mutant, ctx context.Context, r sdk.ResourceID, floor sdk.Token) (sdk.Token, error) {
			if _, err := m.Coordinator.Acquire(ctx, registry.Acquisition{Key: registry.Key{Resource: r, Owner: "probe", RequestID: "probe"}, TTL: time.Second}); err != nil {
				return m.Coordinator.Highest(ctx, r)
			}
			return m.Coordinator.Raise(ctx, r, floor)
		}
	}},
	{"the floor of a request is ignored", sdk.R5, func(m *mutant) {
		m.acquire = func(m *mutant, ctx context.Context, a registry.Acquisition) (registry.Record, error) {
			a.Floor = 0
			return m.Coordinator.Acquire(ctx, a)
		}
	}},
	{"the sequence wraps", sdk.R1, func(m *mutant) {
		m.acquire = func(m *mutant, ctx context.Context, a registry.Acquisition) (registry.Record, error) {
			r, err := m.Coordinator.Acquire(ctx, a)
			if sdk.CodeOf(err) == sdk.Unsuitable {
				m.forget(ctx, a.Resource, 0)
				return m.Coordinator.Acquire(ctx, a)
			}
			return r, err
		}
	}},
	{"Highest from a cache", sdk.R1, func(m *mutant) {
		m.highest = func(m *mutant, ctx context.Context, r sdk.ResourceID) (sdk.Token, error) {
			at, err := m.Coordinator.Highest(ctx, r)
			m.mu.Lock()
			defer m.mu.Unlock()
			was := m.tops[r]
			m.tops[r] = at
			return was, err
		}
	}},
	{"status says held until somebody asks for the resource", sdk.R3, func(m *mutant) {
		m.status = func(m *mutant, ctx context.Context, ref registry.Ref) (registry.Record, error) {
			r, err := m.Coordinator.Status(ctx, ref)
			if r.State == grant.StateExpired {
				r.State, r.Until = grant.StateHeld, m.now.Now().Add(time.Second)
			}
			return r, err
		}
	}},
	{"the newest waiter first", sdk.R4, func(m *mutant) {
		m.acquire = func(m *mutant, ctx context.Context, a registry.Acquisition) (registry.Record, error) {
			if !a.Wait {
				return m.Coordinator.Acquire(ctx, a)
			}
			a.Wait = false
			m.mu.Lock()
			m.stack = append(m.stack, a.Key)
			m.mu.Unlock()
			defer func() {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.stack = slices.DeleteFunc(m.stack, func(k registry.Key) bool { return k == a.Key })
			}()
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				m.mu.Lock()
				last := m.stack[len(m.stack)-1] == a.Key
				m.mu.Unlock()
				if last {
					if r, err := m.Coordinator.Acquire(ctx, a); sdk.CodeOf(err) != sdk.NotHeld {
						return r, err
					}
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
					return registry.Record{}, sdk.Errorf(sdk.NotApplied, "", "%w", ctx.Err())
				}
			}
		}
	}},
	{"resources by prefix", sdk.R1, func(m *mutant) {
		cut := func(r sdk.ResourceID) sdk.ResourceID { return r[:min(len(r), 40)] }
		m.highest = func(m *mutant, ctx context.Context, r sdk.ResourceID) (sdk.Token, error) {
			return m.Coordinator.Highest(ctx, cut(r))
		}
		m.acquire = func(m *mutant, ctx context.Context, a registry.Acquisition) (registry.Record, error) {
			full := a.Resource
			a.Resource = sdk.ResourceID(strings.TrimRight(string(cut(full)), "/. "))
			r, err := m.Coordinator.Acquire(ctx, a)
			r.Resource = full
			return r, err
		}
	}},
	{"a call outlives its context", sdk.O4, func(m *mutant) {
		m.release = func(m *mutant, ctx context.Context, ref registry.Ref) (registry.Record, error) {
			return m.Coordinator.Release(context.WithoutCancel(ctx), ref)
		}
	}},
}

func (m *mutant) harness() coordination.Harness {
	return coordination.Harness{Name: "mutant",
		Open: func(context.Context) (coordination.Handle, error) { return coordination.Handle{Coordinator: m}, nil },
		Queued: func(_ context.Context, r sdk.ResourceID) (int, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.Coordinator.Queued(r) + len(m.stack), nil
		},
		Advance: m.now.Advance,
		Expire: func(_ context.Context, r registry.Record) error {
			m.now.Advance(r.TTL)
			return nil
		}}
}

func newMutant() *mutant {
	now := clock.NewManual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	return &mutant{Coordinator: memcoord.New(now), now: now, tokens: map[registry.Ref]sdk.Token{}, true_: map[registry.Ref]registry.Ref{},
		tops: map[sdk.ResourceID]sdk.Token{}, held: map[sdk.ResourceID]int{}}
}

func TestMutants(t *testing.T) {
	for _, x := range mutants {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			m := newMutant()
			x.build(m)
			h := m.harness()
			h.Patience = time.Second
			found := map[sdk.Law][]string{}
			for _, r := range coordination.Check(t.Context(), h) {
				for _, f := range r.Failures {
					found[f.Law] = append(found[f.Law], r.Case.ID)
				}
			}
			t.Logf("cases that failed, by law: %v", found)
			if found[x.law] == nil {
				t.Errorf("not rejected for %s", x.law)
			}
		})
	}
}

// The wrapper by itself breaks nothing.
func TestNoMutant(t *testing.T) { coordination.Run(t, newMutant().harness()) }
