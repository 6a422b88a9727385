package main

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/fencedstore/fencedstore/adapters/memstore"
	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/plugins"
	"github.com/fencedstore/fencedstore/sdk"
)

// The test binary is the plug-in too.
func TestMain(m *testing.M) {
	if os.Getenv("FENCEDSTORE_PLUGIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

func start(t testing.TB, o *plugins.Options) *plugins.Plugin {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := plugins.Start(t.Context(), self, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// inProcess is memstore without what no plug-in can offer, so that the suite
// asks both for the same.
type inProcess struct{ sdk.FencedStore }

func (s inProcess) Describe() sdk.Description {
	d := s.FencedStore.Describe()
	d.Capabilities[sdk.CapApplyTx] = sdk.Declared{Support: sdk.NotSupported, Reason: "as in a plug-in"}
	return d
}

func (s inProcess) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	d := s.Describe()
	if _, err := d.Check(a); err != nil {
		return sdk.Refusal(err), err
	}
	return s.FencedStore.Apply(ctx, a)
}

// The whole suite gives the same verdict for every case over the wire as in
// process.
func TestSameVerdicts(t *testing.T) {
	p := start(t, nil)
	data := memstore.NewData()
	over := conformance.Harness{Name: "mem", Open: func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
		s, err := p.Open(ctx, "mem://", o)
		if err != nil {
			return nil, err
		}
		return s, nil
	}}
	within := conformance.Harness{Name: "mem", Open: func(_ context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
		s, err := data.Open(o)
		if err != nil {
			return nil, err
		}
		return inProcess{s}, nil
	}}
	verdicts := func(h conformance.Harness) []string {
		r, err := conformance.Check(t.Context(), h, &conformance.Options{Profile: conformance.Quick, Seed: 7, Schedules: 100})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for i := range r.Results {
			res := &r.Results[i]
			out = append(out, res.ID+" "+string(res.Status))
			for _, f := range res.Failures {
				t.Errorf("%s: got %s, want %s", res.ID, f.Got, f.Want)
			}
		}
		return out
	}
	a, b := verdicts(within), verdicts(over)
	if !slices.Equal(a, b) {
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				t.Errorf("in process %s, through the plug-in %s", a[i], b[i])
			}
		}
		t.Errorf("%d and %d cases", len(a), len(b))
	}
}
