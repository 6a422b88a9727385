package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/plugins"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate/gatetest"
)

func TestMain(m *testing.M) {
	if os.Getenv("FENCEDSTORE_PLUGIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

const account sdk.ResourceID = "accounts/42"

// The host has a gate and no credentials; with what the registry signed it
// writes, and with anything else the plug-in refuses and nothing changes.
func TestHostThatLies(t *testing.T) {
	registry, err := gatetest.New("ledger")
	if err != nil {
		t.Fatal(err)
	}
	registry.Advance(time.Since(registry.Now())) // the plug-in's clock is the real one
	folder := t.TempDir()
	text, err := registry.Bundle().Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "trust.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	store, err := plugins.Open(t.Context(), self, &plugins.Options{DSN: "ledger:", Env: []string{"LEDGER_FOLDER=" + folder}, StartTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()

	gate, err := registry.Gate(store, "worker", nil)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := registry.Acquire(account, "worker", "close-march")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Claim(t.Context(), lease.Claim()); err != nil {
		t.Fatalf("an honest claim: %v", err)
	}
	if out, err := gate.ApplyFencedMutation(t.Context(), lease.Request(2, "post/1", sdk.Put("balance", []byte("100")))); out.Code != sdk.Accepted {
		t.Fatalf("an honest write: %v", err)
	}
	before, err := store.Inspect(t.Context(), account)
	if err != nil {
		t.Fatal(err)
	}

	other, err := registry.Issue("accounts/1", "worker", "close-march", 900)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := gatetest.New("ledger") // another key
	if err != nil {
		t.Fatal(err)
	}
	stranger.Advance(time.Since(stranger.Now()))
	forged, err := stranger.Issue(account, "worker", "close-march", 901)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := gatetest.New("payroll")
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := elsewhere.Acquire(account, "worker", "close-march")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		want sdk.Code
		lie  func(m *sdk.Mutation)
	}{
		"no grant":            {sdk.Malformed, func(m *sdk.Mutation) { m.GrantEnvelope = nil }},
		"changed grant":       {sdk.Unauthenticated, func(m *sdk.Mutation) { m.GrantEnvelope = flip(m.GrantEnvelope) }},
		"forged grant":        {sdk.Unauthenticated, func(m *sdk.Mutation) { m.GrantEnvelope, m.StatusEnvelope = forged.Envelope, forged.Proof() }},
		"another store's":     {sdk.Unauthenticated, func(m *sdk.Mutation) { m.GrantEnvelope = foreign.Envelope }},
		"another resource's":  {sdk.ResourceMismatch, func(m *sdk.Mutation) { m.GrantEnvelope, m.StatusEnvelope = other.Envelope, other.Proof() }},
		"no proof":            {sdk.NotHeld, func(m *sdk.Mutation) { m.StatusEnvelope = nil }},
		"an old proof":        {sdk.NotHeld, func(m *sdk.Mutation) { m.StatusEnvelope = lease.ProofAt(time.Now().Add(-time.Hour), 5*time.Second) }},
		"another grant's":     {sdk.NotHeld, func(m *sdk.Mutation) { m.StatusEnvelope = other.Proof() }},
		"a higher fence":      {sdk.ResourceMismatch, func(m *sdk.Mutation) { m.Fence = 1000 }},
		"another job":         {sdk.ResourceMismatch, func(m *sdk.Mutation) { m.Root = sdk.SumDigest([]byte("x")) }},
		"another digest":      {sdk.ResourceMismatch, func(m *sdk.Mutation) { m.Grant = sdk.SumDigest([]byte("x")) }},
		"another owner":       {sdk.OwnerMismatch, func(m *sdk.Mutation) { m.Owner = "somebody" }},
		"another payload":     {sdk.Invalid, func(m *sdk.Mutation) { m.Effects = []sdk.Effect{sdk.Put("balance", []byte("1000000"))} }},
		"a reserved name":     {sdk.Invalid, func(m *sdk.Mutation) { named(m, "fencedstore.mine") }},
		"a seed":              {sdk.Invalid, func(m *sdk.Mutation) { m.Seed = before }},
		"a trust from beyond": {sdk.PolicyStale, func(m *sdk.Mutation) { m.Generations.Trust = 99 }},
	} {
		t.Run(name, func(t *testing.T) {
			m := sdk.Mutation{Resource: account, Fence: lease.Grant.Fence, Segment: 3, Root: lease.Grant.Root, Grant: lease.Digest,
				Owner: "worker", Time: time.Now().UTC().Truncate(time.Millisecond), GrantEnvelope: lease.Envelope, StatusEnvelope: lease.Proof(),
				Effects: []sdk.Effect{sdk.Put("balance", []byte("170"))}, Generations: sdk.Generations{Trust: 1}}
			named(&m, "post/2")
			tc.lie(&m)
			out, err := store.Apply(t.Context(), sdk.NewAdmission(seal.Cut(), &m))
			if out.Code != tc.want {
				t.Errorf("%v, want %v (%v)", out.Code, tc.want, err)
			}
		})
	}
	after, err := store.Inspect(t.Context(), account)
	if err != nil || after != before {
		t.Errorf("the fence is %v, was %v (%v)", after, before, err)
	}
	if v, err := store.Read(t.Context(), account, "balance"); string(v) != "100" {
		t.Errorf("the balance is %q (%v)", v, err)
	}
}

func named(m *sdk.Mutation, op sdk.OperationID) {
	m.Operation, m.Payload = op, sdk.PayloadDigest(op, m.Result, m.Effects)
}

// flip changes one character of the payload's base64.
func flip(b []byte) []byte {
	out := append([]byte{}, b...)
	for i := range out {
		if i > 200 && out[i] == 'A' {
			out[i] = 'B'
			break
		}
	}
	return out
}
