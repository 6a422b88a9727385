package cas_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/cas"
)

const (
	contentKey = "content"
	stateBytes = 1300
)

// pages keeps heads beside values in a bucket: "state\nvalue".
type pages struct{ *bucket }

func pageName(r sdk.ResourceID) string { return "pages/" + string(r) }

func (p pages) GetHead(ctx context.Context, r sdk.ResourceID) (state, content []byte, version string, err error) {
	b, version, err := p.Get(ctx, pageName(r))
	if err != nil {
		return nil, nil, "", err
	}
	first, content, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return nil, b, version, nil
	}
	state, err = base64.StdEncoding.DecodeString(string(first))
	return state, content, version, err
}

func (p pages) PutHead(ctx context.Context, r sdk.ResourceID, state, content []byte, version string) (bool, string, error) {
	if len(state) > stateBytes {
		panic("a state above its limit")
	}
	return p.PutIf(ctx, pageName(r), fmt.Appendf(nil, "%s\n%s", base64.StdEncoding.EncodeToString(state), content), version)
}

func (p pages) open(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
	yes := sdk.Declared{Support: sdk.Supported}
	s, err := cas.Open(ctx, cas.Adapter{Objects: p.bucket, Heads: p, ContentKey: contentKey, StateBytes: stateBytes,
		Description: sdk.Description{Name: "pages", Version: "1", Backend: "Go map", Environment: sdk.Embedded, Layout: "object.v1",
			Capabilities: map[sdk.Capability]sdk.Declared{sdk.CapDurable: yes, sdk.CapShared: yes,
				sdk.CapDial: {Support: sdk.NotSupported, Reason: "nothing goes over a wire"}},
			Limits: sdk.Limits{Quarantine: 20}}}, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openPages(t testing.TB, p pages) *cas.Store {
	t.Helper()
	s, err := p.open(t.Context(), sdk.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(*cas.Store)
}

func TestConformanceBeside(t *testing.T) {
	p := pages{newBucket()}
	conformance.Run(t, conformance.Harness{Name: "pages", Open: p.open,
		Damage: func(ctx context.Context, r sdk.ResourceID) error { return p.Remove(ctx, pageName(r)) },
	}, &conformance.Options{Profile: conformance.Quick, Schedules: 300})
}

// One swap in the steady state, but for the write that moves receipts away; the
// value is the object's own bytes.
func TestBesideRoundTrips(t *testing.T) {
	p := pages{newBucket()}
	s := openPages(t, p)
	const all = 500
	one := 0
	for i := 1; i <= all; i++ {
		before := p.count("get", "putif", "putnew", "list")
		value := fmt.Sprintf("invoice %d", i)
		apply(t, s, mutation(1, i, "op-"+strconv.Itoa(i), sdk.Put(contentKey, []byte(value))), sdk.Accepted)
		if p.count("get", "putif", "putnew", "list")-before == 1 {
			one++
		}
		_, body, _, err := p.GetHead(t.Context(), resource)
		if err != nil || string(body) != value {
			t.Fatalf("%q, %v", body, err)
		}
	}
	if one < all*2/3 {
		t.Errorf("only %d of %d writes took one round trip", one, all)
	}
	other := openPages(t, p)
	for i := 1; i <= all; i++ {
		if r, err := other.Receipt(t.Context(), resource, sdk.OperationID("op-"+strconv.Itoa(i))); err != nil || r.Segment != sdk.Segment(i) {
			t.Fatalf("%d: %+v, %v", i, r, err)
		}
	}
	removed, err := s.CleanUp(t.Context(), resource, p)
	if err != nil || removed == 0 {
		t.Errorf("removed %d, %v", removed, err)
	}
	third := openPages(t, p)
	if r, err := third.Receipt(t.Context(), resource, "op-1"); err != nil || r.Segment != 1 {
		t.Errorf("after the clean-up: %+v, %v", r, err)
	}
}

// The longest names there are, hard to compress, fit.
func TestBesideLongNames(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[rng.IntN(64)]
		}
		return string(b)
	}
	p := pages{newBucket()}
	s := openPages(t, p)
	for i := 1; i <= 120; i++ {
		m := mutation(1, i, random(sdk.MaxNameBytes), sdk.Put(contentKey, []byte("v")), sdk.Put("k", []byte("v")))
		m.Resource, m.Owner, m.Result = sdk.ResourceID(strings.Repeat("x", 400)), random(sdk.MaxNameBytes), []byte(random(64))
		m.Payload = sdk.PayloadDigest(m.Operation, m.Result, m.Effects)
		apply(t, s, m, sdk.Accepted)
	}
}

// An object that was there before is taken on with its bytes; one that was
// overwritten past the gate is an alarm, one changed under its state a damage.
func TestBesideStrangers(t *testing.T) {
	put := func(p pages, body string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.last++
		p.objects[pageName(resource)] = object{[]byte(body), strconv.Itoa(p.last)}
	}
	p := pages{newBucket()}
	s := openPages(t, p)
	put(p, "old")
	if v, err := s.Read(t.Context(), resource, contentKey); err != nil || string(v) != "old" {
		t.Errorf("%q, %v", v, err)
	}
	if st, err := s.Inspect(t.Context(), resource); err != nil || !st.Absent() {
		t.Errorf("%+v, %v", st, err)
	}
	apply(t, s, mutation(5, 1, "op-1"), sdk.Accepted) // a claim keeps the bytes
	if v, err := s.Read(t.Context(), resource, contentKey); err != nil || string(v) != "old" {
		t.Errorf("%q, %v", v, err)
	}
	apply(t, s, mutation(5, 2, "op-2", sdk.Put(contentKey, []byte("new"))), sdk.Accepted)

	state, _, _, err := p.GetHead(t.Context(), resource)
	if err != nil {
		t.Fatal(err)
	}
	put(p, base64.StdEncoding.EncodeToString(state)+"\nforged")
	if _, err := s.Inspect(t.Context(), resource); sdk.CodeOf(err) != sdk.Unsuitable {
		t.Errorf("another value behind a state: %v", err)
	}
	apply(t, s, mutation(5, 3, "op-3"), sdk.Unsuitable)

	put(p, "overwritten")
	if _, err := s.Inspect(t.Context(), resource); sdk.CodeOf(err) != sdk.FenceRegression {
		t.Errorf("overwritten: %v", err)
	}
	apply(t, openPages(t, p), mutation(4, 1, "op-4"), sdk.FenceRegression)

	// A head that was copied to another resource's name is none of its own.
	p.mu.Lock()
	p.objects[pageName("copy")] = object{[]byte(base64.StdEncoding.EncodeToString(state) + "\nnew"), "x"}
	p.mu.Unlock()
	if _, err := s.Inspect(t.Context(), "copy"); sdk.CodeOf(err) != sdk.Unsuitable {
		t.Errorf("a copied head: %v", err)
	}
}

// Nobody overwrites what changed since it was read, fenced or not.
func TestBesideAdoptionRace(t *testing.T) {
	p := pages{newBucket()}
	s := openPages(t, p)
	p.objects[pageName(resource)] = object{[]byte("one"), "v1"}
	first := true
	p.before = func(name string) error {
		if name == pageName(resource) && first {
			first = false
			p.objects[name] = object{[]byte("two"), "v2"}
		}
		return nil
	}
	apply(t, s, mutation(1, 1, "op-1"), sdk.Accepted)
	if v, err := s.Read(t.Context(), resource, contentKey); err != nil || string(v) != "two" {
		t.Errorf("%q, %v", v, err)
	}
}

// The shadow's state is not beside the team's object.
func TestBesideShadow(t *testing.T) {
	p := pages{newBucket()}
	openPages(t, p)
	shadow, err := p.open(t.Context(), sdk.OpenOptions{Namespace: sdk.ShadowNamespace("")})
	if err != nil {
		t.Fatal(err)
	}
	defer shadow.Close()
	before := maps.Clone(p.objects)
	apply(t, shadow, mutation(1, 1, "op-1", sdk.Put(contentKey, []byte("v"))), sdk.Accepted)
	if len(p.objects) == len(before) {
		t.Error("the shadow keeps nothing")
	}
	if _, _, err := p.Get(t.Context(), pageName(resource)); sdk.CodeOf(err) != sdk.NotFound {
		t.Errorf("the shadow wrote the team's object: %v", err)
	}
}
