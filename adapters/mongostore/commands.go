package mongostore

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/fencedstore/fencedstore/sdk"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// collection runs commands on one collection. They are commands, and not the
// driver's methods, for two reasons: the driver sends a command once, whatever
// the client's retryWrites says (its own success must not come back as a lost
// race), and each carries its concern itself, whatever the client's defaults are
// (C76).
type collection struct {
	db      *mongo.Database
	name    string
	kind    topologyKind
	watched bool // the client has our monitor, which tells what was sent
}

type topologyKind uint8

const (
	standalone topologyKind = iota
	replicaSet
	sharded
)

// majority is the write concern of every write.
var majority = bson.D{{Key: "w", Value: "majority"}, {Key: "j", Value: true}}

// sentKey is the context's key for the flag that the monitor sets.
type sentKey struct{}

// monitor notes that a command is about to be sent.
func monitor() *event.CommandMonitor {
	return &event.CommandMonitor{Started: func(ctx context.Context, _ *event.CommandStartedEvent) {
		if sent, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok {
			sent.Store(true)
		}
	}}
}

// run sends a command once. sent is false only if it is proved that nothing was.
func (c *collection) run(ctx context.Context, command bson.D) (reply bson.Raw, sent bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	var flag atomic.Bool
	reply, err = c.db.RunCommand(context.WithValue(ctx, sentKey{}, &flag), command).Raw()
	return reply, flag.Load() || !c.watched, err
}

// written is the reply to a write.
type written struct {
	N        int64 `bson:"n"`
	Upserted []struct {
		Index int64 `bson:"index"`
	} `bson:"upserted"`
}

// write sends a write outside a transaction. A duplicate key is an answer, no
// error.
func (c *collection) write(ctx context.Context, action string, command bson.D) (n int64, dup bool, err error) {
	if err := ended(ctx); err != nil {
		return 0, false, err
	}
	reply, sent, err := c.run(ctx, append(command, bson.E{Key: "writeConcern", Value: majority}))
	if err != nil {
		means, err := classify(err, sent, action)
		return 0, means == duplicate, err
	}
	var w written
	if err := bson.Unmarshal(reply, &w); err != nil {
		return 0, false, sdk.Errorf(sdk.MutationUnknown, "MongoDB", "an answer that is none: %w", err)
	}
	return w.N, false, nil
}

// find returns up to limit documents. What it returns is durable, and no older
// than the call (F8).
func (c *collection) find(ctx context.Context, filter bson.D, limit int32, more ...bson.E) ([]bson.Raw, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	command := bson.D{{Key: "find", Value: c.name}, {Key: "filter", Value: filter}, {Key: "limit", Value: limit}, {Key: "batchSize", Value: limit}, {Key: "singleBatch", Value: true}}
	if c.kind != standalone {
		command = append(command, bson.E{Key: "readConcern", Value: bson.D{{Key: "level", Value: "linearizable"}}})
	}
	command = append(command, more...)
	reply, _, err := c.run(ctx, command)
	if err != nil && mongo.IsNetworkError(err) && ctx.Err() == nil {
		// A connection that a restart or a failover has left dead; the driver has
		// dropped the others too. A read may be repeated.
		reply, _, err = c.run(ctx, command)
	}
	if err != nil {
		return nil, readError(err, "find")
	}
	if c.kind == standalone {
		if err := c.barrier(ctx); err != nil {
			return nil, err
		}
	}
	var found struct {
		Cursor struct {
			FirstBatch []bson.Raw `bson:"firstBatch"`
		} `bson:"cursor"`
	}
	if err := bson.Unmarshal(reply, &found); err != nil {
		return nil, sdk.Errorf(sdk.NotApplied, "MongoDB", "an answer that is none: %w", err)
	}
	return found.Cursor.FirstBatch, nil
}

// barrier makes durable whatever was read before it: a server without a replica
// set shows what is not yet in its journal, and takes no linearizable reads.
func (c *collection) barrier(ctx context.Context) error {
	update := bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: "barrier"}}}, {Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: "body", Value: ""}}}}}}
	_, _, err := c.write(ctx, "update", bson.D{{Key: "update", Value: c.name}, {Key: "updates", Value: bson.A{update}}})
	if sdk.CodeOf(err) == sdk.MutationUnknown {
		return sdk.Errorf(sdk.NotApplied, "MongoDB", "could not be read: %w", err)
	}
	return err
}

const commandNotFound = 59

// hello asks what the server is.
func hello(ctx context.Context, db *mongo.Database) (topologyKind, error) {
	var h struct {
		SetName           string `bson:"setName"`
		Msg               string `bson:"msg"`
		IsWritablePrimary *bool  `bson:"isWritablePrimary"`
		IsMaster          *bool  `bson:"ismaster"`
	}
	if err := ended(ctx); err != nil {
		return 0, err
	}
	err := db.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&h)
	if ce := (mongo.CommandError{}); errors.As(err, &ce) && ce.Code == commandNotFound {
		err = db.RunCommand(ctx, bson.D{{Key: "isMaster", Value: 1}}).Decode(&h) // its older name
	}
	if err != nil {
		return 0, readError(err, "hello")
	}
	switch {
	case h.Msg == "isdbgrid":
		return sharded, nil
	case h.IsWritablePrimary != nil && !*h.IsWritablePrimary, h.IsWritablePrimary == nil && h.IsMaster != nil && !*h.IsMaster:
		return 0, sdk.Errorf(sdk.NotApplied, "MongoDB", "the node that answered is not the primary")
	case h.SetName != "":
		return replicaSet, nil
	}
	return standalone, nil
}

// backend is the server's name and version, as it reports itself.
func backend(ctx context.Context, db *mongo.Database) (string, error) {
	var b struct {
		Version  string `bson:"version"`
		FerretDB *struct {
			Version string `bson:"version"`
		} `bson:"ferretdb"`
	}
	if err := db.RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&b); err != nil {
		return "", readError(err, "buildInfo")
	}
	if b.FerretDB != nil {
		return "FerretDB " + b.FerretDB.Version + " as MongoDB " + b.Version, nil
	}
	return "MongoDB " + b.Version, nil
}
