package conformance_test

import (
	"context"
	"testing"

	"github.com/fencedstore/fencedstore/adapters/memstore"
	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/sdk"
)

func memHarness() conformance.Harness {
	data := memstore.NewData()
	return conformance.Harness{Name: "mem", Open: func(_ context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
		s, err := data.Open(o)
		if err != nil {
			return nil, err
		}
		return s, nil
	}}
}

func TestMemstore(t *testing.T) {
	conformance.Run(t, memHarness(), &conformance.Options{Profile: conformance.Quick, Schedules: 200})
}
