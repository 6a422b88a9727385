package dirstore_test

import (
	"context"
	"testing"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/examples/dirstore"
	"github.com/fencedstore/fencedstore/sdk"
)

func TestConformance(t *testing.T) {
	dir := dirstore.New(t.TempDir())
	conformance.Run(t, conformance.Harness{
		Name: "dirstore",
		Open: func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
			return dir.Open(ctx, o) // each call opens the same data again
		},
	}, &conformance.Options{Profile: conformance.Quick, Schedules: 100}) // nil is the standard profile, which certifies
}
