// Command fencedstore-mem is the adapter memstore as a plug-in, for tests of
// hosts. Every store that is opened in one process shares its data; nothing
// survives the process.
package main

import (
	"context"

	"github.com/fencedstore/fencedstore/adapters/memstore"
	"github.com/fencedstore/fencedstore/plugins"
	"github.com/fencedstore/fencedstore/sdk"
)

func main() { plugins.Serve(opener()) }

func opener() sdk.OpenFunc {
	data := memstore.NewData()
	return func(ctx context.Context, dsn string, o sdk.OpenOptions) (sdk.FencedStore, error) {
		if _, err := memstore.Open(ctx, dsn, o); err != nil {
			return nil, err
		}
		s, err := data.Open(o)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}
