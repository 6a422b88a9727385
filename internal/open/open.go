// Package open opens stores and coordinators of this module by DSN, for the
// commands. Whoever uses one of them imports its adapter alone.
package open

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/fencedstore/fencedstore/adapters/dynamodbstore"
	"github.com/fencedstore/fencedstore/adapters/etcdcoord"
	"github.com/fencedstore/fencedstore/adapters/etcdstore"
	"github.com/fencedstore/fencedstore/adapters/fsstore"
	"github.com/fencedstore/fencedstore/adapters/memstore"
	"github.com/fencedstore/fencedstore/adapters/mongostore"
	"github.com/fencedstore/fencedstore/adapters/s3store"
	"github.com/fencedstore/fencedstore/adapters/spannerstore"
	"github.com/fencedstore/fencedstore/adapters/sqlitecoord"
	"github.com/fencedstore/fencedstore/adapters/sqlitestore"
	"github.com/fencedstore/fencedstore/adapters/zkcoord"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/clock"
	"github.com/fencedstore/fencedstore/sdk/registry"
)

// stores by the scheme of their DSN.
var stores = map[string]func(context.Context, string, sdk.OpenOptions) (sdk.FencedStore, error){
	"mem":         memstore.Open,
	"sqlite":      sqlitestore.Open,
	"fs":          fsstore.Open,
	"etcdkv":      etcdstore.Open,
	"dynamodb":    dynamodbstore.Open,
	"mongodb":     mongostore.Open,
	"mongodb+srv": mongostore.Open,
	"s3":          s3store.Open,
	"spanner":     spannerstore.Open,
}

// Store opens the store that a DSN names; INVALID for a scheme that is not
// known, else as the adapter answers.
func Store(ctx context.Context, dsn string, o sdk.OpenOptions) (sdk.FencedStore, error) {
	open, err := pick(stores, dsn)
	if err != nil {
		return nil, err
	}
	return open(ctx, dsn, o)
}

// Coordinator is an open one.
type Coordinator interface {
	registry.Coordinator
	Close() error
}

// CoordinatorOptions may be zero.
type CoordinatorOptions struct {
	Clock  clock.Clock  // of leases, where the coordinator counts them itself; nil is the system's
	Logger *slog.Logger // nil discards
}

// coordinators by the scheme of their DSN.
var coordinators = map[string]func(context.Context, string, CoordinatorOptions) (Coordinator, error){
	"sqlitecoord": func(ctx context.Context, dsn string, o CoordinatorOptions) (Coordinator, error) {
		return some(sqlitecoord.Open(ctx, dsn, &sqlitecoord.Options{Clock: o.Clock}))
	},
	"etcd": func(ctx context.Context, dsn string, o CoordinatorOptions) (Coordinator, error) {
		return some(etcdcoord.Open(ctx, dsn, &etcdcoord.Options{Logger: o.Logger}))
	},
	"zookeeper": func(ctx context.Context, dsn string, o CoordinatorOptions) (Coordinator, error) {
		return some(zkcoord.Open(ctx, dsn, &zkcoord.Options{Clock: o.Clock, Logger: o.Logger}))
	},
}

// some keeps a nil *T from becoming a Coordinator.
func some[T Coordinator](c T, err error) (Coordinator, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}

// OpenCoordinator opens the coordinator that a DSN names; INVALID for a scheme
// that is not known, else as the adapter answers.
func OpenCoordinator(ctx context.Context, dsn string, o CoordinatorOptions) (Coordinator, error) {
	open, err := pick(coordinators, dsn)
	if err != nil {
		return nil, err
	}
	return open(ctx, dsn, o)
}

// pick finds the opener of a DSN's scheme. Its error leaves the rest of the DSN
// out, which may hold a password.
func pick[F any](known map[string]F, dsn string) (open F, err error) {
	scheme, _, ok := strings.Cut(dsn, ":")
	if open, found := known[scheme]; ok && found {
		return open, nil
	}
	return open, sdk.Errorf(sdk.Invalid, "DSN", "its scheme is none of %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
}
