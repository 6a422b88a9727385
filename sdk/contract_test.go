package sdk_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
)

func description() sdk.Description {
	return sdk.Description{
		Name: "x", Kinds: sdk.PortableKinds(),
		Capabilities: map[sdk.Capability]sdk.Declared{sdk.CapApplyTx: {Support: sdk.NotSupported, Reason: "no transactions"}},
		Limits:       sdk.Limits{Effects: 2, ValueBytes: 100, TotalBytes: 150},
	}
}

func TestDescriptionCheck(t *testing.T) {
	put := func(n int) sdk.Effect { return sdk.Put(fmt.Sprintf("key-%d", n), make([]byte, n)) }
	for name, tc := range map[string]struct {
		change func(*sdk.Mutation)
		want   sdk.Code
	}{
		"fits":              {func(m *sdk.Mutation) { m.Effects = []sdk.Effect{put(1), put(2)} }, 0},
		"fence 0":           {func(m *sdk.Mutation) { m.Fence = 0 }, sdk.Invalid},
		"fence over":        {func(m *sdk.Mutation) { m.Fence = 1 << 63 }, sdk.Invalid},
		"segment 0":         {func(m *sdk.Mutation) { m.Segment = 0 }, sdk.Invalid},
		"segment over":      {func(m *sdk.Mutation) { m.Segment = 1<<62 + 1 }, sdk.Invalid},
		"resource":          {func(m *sdk.Mutation) { m.Resource = "a//b" }, sdk.Invalid},
		"operation":         {func(m *sdk.Mutation) { m.Operation = "" }, sdk.Invalid},
		"root":              {func(m *sdk.Mutation) { m.Root = sdk.Digest{} }, sdk.Invalid},
		"grant":             {func(m *sdk.Mutation) { m.Grant = sdk.Digest{} }, sdk.Invalid},
		"payload":           {func(m *sdk.Mutation) { m.Payload = sdk.Digest{} }, sdk.Invalid},
		"owner":             {func(m *sdk.Mutation) { m.Owner = "" }, sdk.Invalid},
		"result":            {func(m *sdk.Mutation) { m.Result = make([]byte, sdk.MaxResultBytes+1) }, sdk.TooLarge},
		"too many effects":  {func(m *sdk.Mutation) { m.Effects = []sdk.Effect{put(1), put(2), put(3)} }, sdk.TooLarge},
		"effect too large":  {func(m *sdk.Mutation) { m.Effects = []sdk.Effect{put(100)} }, sdk.TooLarge},
		"total too large":   {func(m *sdk.Mutation) { m.Effects = []sdk.Effect{put(80), put(81)} }, sdk.TooLarge},
		"total with result": {func(m *sdk.Mutation) { m.Result = make([]byte, 151) }, sdk.TooLarge},
		"foreign kind":      {func(m *sdk.Mutation) { m.Effects = []sdk.Effect{{Kind: "sql.exec.v1"}} }, sdk.Unsupported},
		"kind form":         {func(m *sdk.Mutation) { m.Effects = []sdk.Effect{{Kind: "KV.PUT"}} }, sdk.Invalid},
		"kind empty":        {func(m *sdk.Mutation) { m.Effects = []sdk.Effect{{}} }, sdk.Invalid},
		"key empty":         {func(m *sdk.Mutation) { m.Effects = []sdk.Effect{sdk.Delete("")} }, sdk.Invalid},
		"key control":       {func(m *sdk.Mutation) { m.Effects = []sdk.Effect{sdk.Put("a\x00", nil)} }, sdk.Invalid},
		"key too long":      {func(m *sdk.Mutation) { m.Effects = []sdk.Effect{sdk.Delete(strings.Repeat("k", 513))} }, sdk.Invalid},
		"one key twice":     {func(m *sdk.Mutation) { m.Effects = []sdk.Effect{put(1), sdk.Delete("key-1")} }, sdk.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, m := atFive()
			tc.change(m)
			d := description()
			_, err := d.Check(sdk.NewAdmission(seal.Cut(), m))
			if sdk.CodeOf(err) != tc.want {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
	d := description()
	if _, err := d.Check(sdk.Admission{}); sdk.CodeOf(err) != sdk.Invalid {
		t.Errorf("zero admission: %v", err)
	}
}

func TestNamespace(t *testing.T) {
	for in, want := range map[string]struct {
		name, base string
		shadow     bool
	}{
		"":            {"main", "main", false},
		"main":        {"main", "main", false},
		"a-b_1":       {"a-b_1", "a-b_1", false},
		"main.shadow": {"main.shadow", "main", true},
	} {
		o := sdk.OpenOptions{Namespace: in}
		name, base, shadow, err := o.ParseNamespace()
		if err != nil || name != want.name || base != want.base || shadow != want.shadow {
			t.Errorf("%q: %q %q %v %v", in, name, base, shadow, err)
		}
	}
	for _, in := range []string{"A", "a b", "a/b", ".shadow", "a.shadow.shadow", "a.b", "é", strings.Repeat("a", 65)} {
		o := sdk.OpenOptions{Namespace: in}
		if _, _, _, err := o.ParseNamespace(); sdk.CodeOf(err) != sdk.Invalid {
			t.Errorf("%q: %v", in, err)
		}
	}
	if got := sdk.ShadowNamespace(""); got != "main.shadow" {
		t.Errorf("shadow of the default is %q", got)
	}
}

func TestScope(t *testing.T) {
	native := sdk.Effect{Kind: "sql.exec.v1"}
	closed := sdk.OpenOptions{}
	if err := closed.CheckScope("a", native); sdk.CodeOf(err) != sdk.Invalid {
		t.Errorf("without a scope function: %v", err)
	}
	no := errors.New("not this table")
	open := sdk.OpenOptions{Scope: func(r sdk.ResourceID, e sdk.Effect) error {
		if r == "a" {
			return nil
		}
		return no
	}}
	if err := open.CheckScope("a", native); err != nil {
		t.Errorf("in scope: %v", err)
	}
	if err := open.CheckScope("b", native); !errors.Is(err, no) || sdk.CodeOf(err) != sdk.Invalid {
		t.Errorf("out of scope: %v", err)
	}
	if err := closed.CheckScope("a", sdk.Put("k", nil)); err != nil {
		t.Errorf("portable: %v", err)
	}
}

func TestRefusalCarriesWhatWasObserved(t *testing.T) {
	s, m := atFive()
	m.Fence = 4
	prior := &sdk.Receipt{Operation: m.Operation, Fence: 4, Segment: 1}
	_, err := decide(s, prior, m).Outcome()
	out := sdk.Refusal(fmt.Errorf("wrapped: %w", err))
	if out.Code != sdk.StaleOwner || out.Observed != s || out.Receipt != prior {
		t.Errorf("%+v", out)
	}
	if out := sdk.Refusal(errors.New("x")); out.Code != sdk.MutationUnknown {
		t.Errorf("plain error is %v", out.Code)
	}
}

func ExampleDecide() {
	// A takes fence 1, B takes fence 2, and A wakes up.
	admit := func(fence sdk.Token, op sdk.OperationID) sdk.Admission {
		return sdk.NewAdmission(seal.Cut(), &sdk.Mutation{ // the gate's work
			Resource: "invoice/42", Operation: op, Fence: fence, Segment: 1, Owner: "worker",
			Root: sdk.SumDigest([]byte("settle")), Grant: sdk.SumDigest([]byte(fence.String())), Payload: sdk.SumDigest([]byte(op)),
		})
	}
	var state sdk.FenceState
	for _, a := range []sdk.Admission{admit(1, "op-1"), admit(2, "op-2"), admit(1, "op-3")} {
		d := sdk.Decide(state, nil, a)
		fmt.Println(d.Code, "fence", d.Next.Highest)
		state = d.Next
	}
	// Output:
	// ACCEPTED fence 1
	// ACCEPTED fence 2
	// STALE_OWNER fence 2
}
