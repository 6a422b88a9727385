package registry_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/adapters/memcoord"
	"github.com/fencedstore/fencedstore/adapters/memstore"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/clock"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/registry"
	"github.com/fencedstore/fencedstore/sdk/trust"
	"github.com/google/go-cmp/cmp"
)

const resource sdk.ResourceID = "invoice/42"

var start = time.Date(2026, 1, 2, 3, 4, 5, 600e6, time.UTC)

// world is one coordinator, one store and the keys.
type world struct {
	*testing.T
	clock  *clock.Manual
	coord  *memcoord.Coordinator
	marks  *registry.FileMarks
	store  sdk.FencedStore
	signer *grant.Signer
	dir    string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, clock: clock.NewManual(start), dir: filepath.Join(t.TempDir(), "marks")}
	w.coord = memcoord.New(w.clock)
	w.signer, err = grant.NewEd25519Signer("k1", private)
	if err != nil {
		t.Fatal(err)
	}
	if w.marks, err = registry.NewFileMarks(w.dir); err != nil {
		t.Fatal(err)
	}
	if w.store, err = memstore.Open(t.Context(), "mem://", sdk.OpenOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.store.Close() })
	return w
}

func (w *world) options() registry.Options {
	return registry.Options{Issuer: "reg", Epoch: 1, Policy: 1, Backend: "mem/1", Signer: w.signer, Marks: w.marks, Clock: w.clock}
}

func (w *world) registry(change ...func(*registry.Options)) *registry.Registry {
	w.Helper()
	o := w.options()
	for _, f := range change {
		f(&o)
	}
	r, err := registry.New(w.coord, &o)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

func (w *world) bundle() *trust.Bundle {
	w.Helper()
	b, err := trust.New(trust.Spec{Generation: 1, Audience: "db", PolicyGenerations: []uint64{1}, Skew: time.Second, MaxProof: time.Minute,
		Issuers: []trust.Issuer{{Name: "reg", Resources: []string{"**"}, MinEpoch: 1, Keys: []trust.IssuerKey{{Key: w.signer.Key(), Epoch: 1}}}}})
	if err != nil {
		w.Fatal(err)
	}
	return b
}

func request(owner, id string) registry.Request {
	return registry.Request{Key: registry.Key{Resource: resource, Owner: owner, RequestID: id}, Audience: "db", Category: "bill",
		Root: sdk.SumDigest([]byte("job")), TTL: 10 * time.Second}
}

func acquire(t *testing.T, r *registry.Registry, owner, id string) registry.Answer {
	t.Helper()
	a, err := r.Acquire(t.Context(), request(owner, id))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func wantCode(t *testing.T, err error, want sdk.Code) {
	t.Helper()
	if sdk.CodeOf(err) != want {
		t.Errorf("%v, want %v", err, want)
	}
}

// The whole chain: granted, admitted by proof and by query, taken over, and the
// old owner refused.
func TestThroughGate(t *testing.T) {
	w := newWorld(t)
	r := w.registry()
	for _, liveness := range []gate.Liveness{gate.ByProof, gate.ByQuery} {
		a := acquire(t, r, "worker-a", "req-a"+string('0'+rune(liveness)))
		write := func(a registry.Answer, op string, segment sdk.Segment) (sdk.Outcome, error) {
			t.Helper()
			g, err := gate.New(w.store, w.bundle(), &gate.Options{Caller: gate.FixedCaller(a.Owner), Liveness: liveness, Registry: r, Now: w.clock.Now})
			if err != nil {
				t.Fatal(err)
			}
			return g.ApplyFencedMutation(t.Context(), gate.Request{Grant: a.Grant, Status: a.Proof, Audience: "db", Resource: resource,
				Root: a.Content.Root, Category: "bill", Segment: segment, Operation: sdk.OperationID(op + a.RequestID), Effects: []sdk.Effect{sdk.Put("k", []byte(op))}})
		}
		if out, err := write(a, "one", 1); err != nil {
			t.Fatal(out.Code, err)
		}
		renewed, err := r.Renew(t.Context(), a.Ref)
		if err != nil || renewed.Digest != a.Digest || string(renewed.Grant) != string(a.Grant) {
			t.Fatalf("a renewed grant is not the same: %v", err)
		}
		if out, err := write(renewed, "two", 2); err != nil {
			t.Fatal(out.Code, err)
		}
		w.clock.Advance(11 * time.Second)
		b := acquire(t, r, "worker-b", "req-b"+string('0'+rune(liveness)))
		if b.Token != a.Token+1 {
			t.Errorf("token %s after %s", b.Token, a.Token)
		}
		_, err = write(a, "three", 3)
		wantCode(t, err, sdk.NotHeld)
		if out, err := write(b, "one", 1); err != nil {
			t.Fatal(out.Code, err)
		}
		if _, err := r.Release(t.Context(), b.Ref); err != nil {
			t.Fatal(err)
		}
	}
}

// R2, R3: the same key again is the same grant to the byte, also in another
// registry process a day later, then as EXPIRED and without a proof.
func TestRepeated(t *testing.T) {
	w := newWorld(t)
	first := acquire(t, w.registry(), "a", "req")
	w.clock.Advance(3 * time.Second)
	second := acquire(t, w.registry(), "a", "req")
	if string(first.Grant) != string(second.Grant) || second.State != grant.StateHeld || second.Remaining != 7*time.Second {
		t.Errorf("asked again: %v, %v left, same %v", second.State, second.Remaining, string(first.Grant) == string(second.Grant))
	}
	other := request("a", "req")
	for name, change := range map[string]func(*registry.Request){
		"TTL":      func(r *registry.Request) { r.TTL += time.Second },
		"audience": func(r *registry.Request) { r.Audience = "other" },
		"category": func(r *registry.Request) { r.Category = "other" },
		"root":     func(r *registry.Request) { r.Root = sdk.SumDigest([]byte("other")) },
	} {
		o := other
		change(&o)
		_, err := w.registry().Acquire(t.Context(), o)
		if sdk.CodeOf(err) != sdk.Invalid {
			t.Errorf("another %s: %v, want INVALID", name, err)
		}
	}
	w.clock.Advance(24 * time.Hour)
	third := acquire(t, w.registry(), "a", "req")
	if string(first.Grant) != string(third.Grant) || third.State != grant.StateExpired || third.Proof != nil || third.Remaining != 0 {
		t.Errorf("a day later: %v, proof %d bytes", third.State, len(third.Proof))
	}
}

// C44: a proof begins and ends on whole seconds within the lease, and none is
// signed where no second is left.
func TestProofs(t *testing.T) {
	w := newWorld(t)
	r := w.registry()
	a := acquire(t, r, "a", "req")
	for left := 10 * time.Second; left > 0; left -= 300 * time.Millisecond {
		a, err := r.Check(t.Context(), a.Ref)
		if err != nil || a.Remaining != left {
			t.Fatalf("%v left, want %v: %v", a.Remaining, left, err)
		}
		now := w.clock.Now()
		if a.Proof != nil {
			p, err := w.bundle().VerifyProof(a.Proof)
			if err != nil {
				t.Fatal(err)
			}
			if p.IssuedAt.After(now) || p.ExpiresAt.After(now.Add(left)) || !p.ExpiresAt.After(p.IssuedAt) || p.Grant != a.Digest {
				t.Errorf("at %v with %v left: %v to %v", now, left, p.IssuedAt, p.ExpiresAt)
			}
		} else if left >= 2*time.Second {
			t.Errorf("no proof with %v left", left)
		}
		w.clock.Advance(300 * time.Millisecond)
	}
	w.clock.Advance(time.Second)
	ended, err := r.Renew(t.Context(), a.Ref)
	wantCode(t, err, sdk.NotHeld)
	if ended.State != grant.StateExpired || ended.Proof != nil {
		t.Errorf("%v with a proof of %d bytes", ended.State, len(ended.Proof))
	}
}

// A grant of another content under a known key is not HELD by query.
func TestStatusOfForeignDigest(t *testing.T) {
	w := newWorld(t)
	r := w.registry()
	a := acquire(t, r, "a", "req")
	st, err := r.Status(t.Context(), a.Content, sdk.SumDigest([]byte("other")))
	if err != nil || st.State != grant.StateUnknown {
		t.Errorf("%v, %v", st, err)
	}
	g := *a.Content
	g.Fence++
	if st, err := r.Status(t.Context(), &g, a.Digest); err != nil || st.State != grant.StateUnknown {
		t.Errorf("%v, %v", st, err)
	}
}

func TestNewRefuses(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(*registry.Options){
		"no floor": func(o *registry.Options) { o.Marks = nil },
		"signer":   func(o *registry.Options) { o.Signer = nil },
		"epoch":    func(o *registry.Options) { o.Epoch = 0 },
		"policy":   func(o *registry.Options) { o.Policy = 0 },
		"issuer":   func(o *registry.Options) { o.Issuer = "" },
		"backend":  func(o *registry.Options) { o.Backend = "\n" },
		"store":    func(o *registry.Options) { o.Stores = []sdk.FencedStore{nil} },
		"life":     func(o *registry.Options) { o.ProofLife = time.Hour },
	} {
		o := w.options()
		change(&o)
		if _, err := registry.New(w.coord, &o); !errors.Is(err, sdk.ErrUnsuitable) {
			t.Errorf("%s: %v, want UNSUITABLE", name, err)
		}
	}
	if _, err := registry.New(nil, nil); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Error(err)
	}
	_, err := w.registry(func(o *registry.Options) {
		o.Allow = func(context.Context, registry.Request) error { return errors.New("not this tenant") }
	}).Acquire(t.Context(), request("a", "req"))
	wantCode(t, err, sdk.Invalid)
}

func TestDamagedMark(t *testing.T) {
	w := newWorld(t)
	acquire(t, w.registry(), "a", "req")
	files, err := filepath.Glob(filepath.Join(w.dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"", "{}", string(whole[:len(whole)/2]), `{"schema":"fencedstore.mark.v1","resource":"invoice/42","fenceToken":1,"backend":"mem/1","issuerEpoch":"1"}`,
		`{"schema":"fencedstore.mark.v1","resource":"invoice/43","fenceToken":"1","backend":"mem/1","issuerEpoch":"1"}`} {
		if err := os.WriteFile(files[0], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := w.registry().Acquire(t.Context(), request("b", "req"))
		if sdk.CodeOf(err) != sdk.Unsuitable {
			t.Errorf("%q: %v, want UNSUITABLE", content, err)
		}
	}
}

func TestMarksNeverGoDown(t *testing.T) {
	w := newWorld(t)
	for _, n := range []sdk.Token{5, 3, 9, 9, 1} {
		if err := w.marks.Raise(t.Context(), resource, registry.Mark{Token: n, Backend: "b", Epoch: 1}); err != nil {
			t.Fatal(err)
		}
	}
	again, err := registry.NewFileMarks(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := again.Load(t.Context(), resource)
	if diff := cmp.Diff(registry.Mark{Token: 9, Backend: "b", Epoch: 1}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := registry.NewFileMarks(filepath.Join(w.dir, "no", "such")); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Error(err)
	}
}
