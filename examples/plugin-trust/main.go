// Command plugin-trust is a plug-in that verifies every write for itself. It
// holds what the store is opened with; its host has neither that nor a say in
// what is accepted: a write needs a grant and a status proof that the registry
// signed, whatever the host claims.
//
// Its folder, in LEDGER_FOLDER, holds ledger.db (here in place of a server's
// credentials) and trust.json, the trust bundle. In production it belongs to a
// user of its own, for whom the host's user may start this binary and no more.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fencedstore/fencedstore/adapters/sqlitestore"
	"github.com/fencedstore/fencedstore/plugins"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/trust"
)

func main() {
	folder := os.Getenv("LEDGER_FOLDER")
	options := &plugins.ServeOptions{}
	if folder != "" { // not when started by hand
		text, err := os.ReadFile(filepath.Join(folder, "trust.json"))
		check(err)
		bundle, err := trust.Load(text)
		check(err)
		options.Trust = bundle // or a trust.Holder, which can be rotated
	}
	plugins.Serve(func(ctx context.Context, dsn string, o sdk.OpenOptions) (sdk.FencedStore, error) {
		if dsn != "ledger:" {
			return nil, sdk.Errorf(sdk.Invalid, "DSN", "this plug-in opens ledger: and nothing else")
		}
		return sqlitestore.Open(ctx, "sqlite:"+filepath.Join(folder, "ledger.db"), o)
	}, options)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
