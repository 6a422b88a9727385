package mongostore

import (
	"context"
	"sync"

	"github.com/fencedstore/fencedstore/sdk"
	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	probeWriters = 16
	probeRounds  = 5
)

// probe proves on the live collection that it keeps what is written, that _id is
// unique, that a filtered update is refused where it must be and decided in one
// step, and that the user may do what is needed.
func (d *documents) probe(ctx context.Context) error {
	if err := d.configuration(ctx); err != nil {
		return err
	}
	base := "probe/" + newVersion() + "/"
	defer d.tidy(ctx, base)
	if err := d.conditions(ctx, base+"conditions"); err != nil {
		return err
	}
	for range probeRounds {
		if err := d.race(ctx, base+"race-"+newVersion()); err != nil {
			return err
		}
	}
	return nil
}

// tidy takes away what the probe wrote, as far as it may.
func (d *documents) tidy(ctx context.Context, base string) {
	ctx = context.WithoutCancel(ctx)
	_ = d.List(ctx, base, func(name string) error { return d.Remove(ctx, name) })
}

// configuration refuses a collection that forgets or that is no collection.
func (c *collection) configuration(ctx context.Context) error {
	var lists struct {
		Cursor struct {
			FirstBatch []bson.Raw `bson:"firstBatch"`
		} `bson:"cursor"`
	}
	ask := func(action string, command bson.D) error {
		lists.Cursor.FirstBatch = nil
		if err := ended(ctx); err != nil {
			return err
		}
		reply, _, err := c.run(ctx, command)
		if err != nil {
			return readError(err, action)
		}
		if err := bson.Unmarshal(reply, &lists); err != nil {
			return sdk.Errorf(sdk.NotApplied, "MongoDB", "an answer that is none: %w", err)
		}
		return nil
	}
	if err := ask("listCollections", bson.D{{Key: "listCollections", Value: 1}, {Key: "filter", Value: bson.D{{Key: "name", Value: c.name}}}}); err != nil {
		return err
	}
	for _, raw := range lists.Cursor.FirstBatch {
		if err := c.checkCollection(raw); err != nil {
			return err
		}
	}
	if err := ask("listIndexes", bson.D{{Key: "listIndexes", Value: c.name}}); err != nil {
		return err
	}
	unique := false
	for _, raw := range lists.Cursor.FirstBatch {
		id, err := c.checkIndex(raw)
		if err != nil {
			return err
		}
		unique = unique || id
	}
	if !unique {
		return sdk.Errorf(sdk.Unsuitable, "_id", "collection %q has no index on _id, so nothing keeps two first writers apart; make it without autoIndexId: false", c.name)
	}
	if c.kind == sharded {
		return c.shardKey(ctx)
	}
	return nil
}

func (c *collection) checkCollection(raw bson.Raw) error {
	if kind, ok := raw.Lookup("type").StringValueOK(); ok && kind != "collection" {
		return sdk.Errorf(sdk.Unsuitable, "collection", "%q is a %s", c.name, kind)
	}
	if capped, _ := raw.Lookup("options", "capped").BooleanOK(); capped {
		return sdk.Errorf(sdk.Unsuitable, "capped", "collection %q is capped: it drops its oldest documents, and fences with them", c.name)
	}
	for _, option := range []string{"expireAfterSeconds", "timeseries"} {
		if v, err := raw.LookupErr("options", option); err == nil && v.Type != bson.TypeNull {
			return sdk.Errorf(sdk.Unsuitable, option, "collection %q expires or gathers its documents; fences and receipts are for ever", c.name)
		}
	}
	if locale, ok := raw.Lookup("options", "collation", "locale").StringValueOK(); ok && locale != "simple" {
		return sdk.Errorf(sdk.Unsuitable, "collation", "collection %q compares text by the rules of %q; names of documents are compared byte by byte", c.name, locale)
	}
	return nil
}

// checkIndex reports whether an index is the one on _id.
func (c *collection) checkIndex(raw bson.Raw) (bool, error) {
	name, _ := raw.Lookup("name").StringValueOK()
	if v, err := raw.LookupErr("expireAfterSeconds"); err == nil && v.Type != bson.TypeNull {
		return false, sdk.Errorf(sdk.Unsuitable, "expireAfterSeconds", "index %q on collection %q deletes documents (TTL); fences and receipts are for ever; drop it", name, c.name)
	}
	key, ok := raw.Lookup("key").DocumentOK()
	if !ok {
		return false, nil
	}
	list, err := key.Elements()
	return err == nil && len(list) == 1 && list[0].Key() == "_id", nil
}

// shardKey refuses a collection that is sharded by anything but _id: each shard
// would keep _id unique for itself.
func (c *collection) shardKey(ctx context.Context) error {
	raw, err := c.db.Client().Database("config").RunCommand(ctx, bson.D{{Key: "find", Value: "collections"},
		{Key: "filter", Value: bson.D{{Key: "_id", Value: c.db.Name() + "." + c.name}}}, {Key: "limit", Value: 1}, {Key: "singleBatch", Value: true}}).Raw()
	if err != nil {
		return readError(err, "find on config.collections")
	}
	key, ok := raw.Lookup("cursor", "firstBatch", "0", "key").DocumentOK()
	if !ok {
		return nil // not sharded
	}
	list, err := key.Elements()
	if err != nil || len(list) != 1 || list[0].Key() != "_id" {
		return sdk.Errorf(sdk.Unsuitable, "shard key", "collection %q is sharded by %s; only _id alone is unique over all shards", c.name, key)
	}
	return nil
}

// conditions proves rejection, not just acceptance.
func (d *documents) conditions(ctx context.Context, name string) error {
	var versions [2]string
	for i, step := range []struct {
		what, body, version string
		want                bool
	}{
		{"an insert of a new _id", "1", "", true},
		{"an insert of an _id that is there", "2", "", false},
		{"an update with the current version in its filter", "3", "current", true},
		{"an update with an old version in its filter", "4", "old", false},
	} {
		version := map[string]string{"current": versions[0], "old": versions[0]}[step.version]
		got, next, err := d.PutIf(ctx, name, []byte(step.body), version)
		if err != nil {
			return err
		}
		if got != step.want {
			return sdk.Errorf(sdk.Unsuitable, "filtered update", "%s: the server said %v", step.what, got)
		}
		if got {
			versions[i/2] = next
		}
	}
	body, version, err := d.Get(ctx, name)
	if err != nil {
		return err
	}
	if string(body) != "3" || version != versions[1] {
		return sdk.Errorf(sdk.Unsuitable, "find", "it gave %q after \"3\" was written", body)
	}
	return d.exact(ctx, name+"-exact")
}

// exact proves that 64-bit integers are compared and kept as such (F11).
func (d *documents) exact(ctx context.Context, name string) error {
	const n = int64(1)<<53 + 1
	if _, err := d.insert(ctx, bson.D{{Key: "_id", Value: name}, {Key: "n", Value: n}}); err != nil {
		return err
	}
	for value, want := range map[int64]int{n: 1, n - 1: 0} {
		found, err := d.find(ctx, bson.D{{Key: "_id", Value: name}, {Key: "n", Value: value}}, 1)
		if err != nil {
			return err
		}
		if len(found) != want {
			return sdk.Errorf(sdk.Unsuitable, "int64", "a filter with %d finds %d documents with %d", value, len(found), n)
		}
		if want == 1 {
			if back, ok := found[0].Lookup("n").Int64OK(); !ok || back != n {
				return sdk.Errorf(sdk.Unsuitable, "int64", "%d came back as %v", n, found[0].Lookup("n"))
			}
		}
	}
	return nil
}

// race starts writers together, for a new document and for an update: exactly
// one wins each.
func (d *documents) race(ctx context.Context, name string) error {
	version := ""
	for _, kind := range []string{"insert of one _id", "update of one version"} {
		start := make(chan struct{})
		won, errs := make([]string, probeWriters), make([]error, probeWriters)
		var wg sync.WaitGroup
		for i := range probeWriters {
			wg.Go(func() {
				<-start
				_, won[i], errs[i] = d.PutIf(ctx, name, []byte(kind), version)
				if sdk.CodeOf(errs[i]) == sdk.NotApplied { // it was refused, and not for good
					errs[i] = ended(ctx)
				}
			})
		}
		close(start)
		wg.Wait()
		winners := 0
		for i := range probeWriters {
			if errs[i] != nil {
				return errs[i]
			}
			if won[i] != "" {
				winners++
				version = won[i]
			}
		}
		if winners != 1 {
			return sdk.Errorf(sdk.Unsuitable, "filtered update", "%d of %d writers won one %s: the server does not decide it in one step", winners, probeWriters, kind)
		}
	}
	return nil
}
