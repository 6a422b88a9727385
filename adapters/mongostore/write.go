package mongostore

import (
	"errors"
	"strings"

	"github.com/fencedstore/fencedstore/sdk"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// KindWrite is this adapter's native effect: one write to one document of the
// team's own collections. Body: BSON with exactly one of "insert", "update",
// "replace" and "delete", which names the collection; "db" where it is not the
// store's database; "filter", "update" or "document" as the write takes them;
// "upsert" and "required".
const KindWrite = "mongodb.write.v1"

// Write is a write to one document. Exactly one of Insert, Update, Replace and
// Delete is set.
type Write struct {
	Database   string // the store's own if empty
	Collection string

	Insert  bson.Raw // a document with an _id
	Update  bson.Raw // update operators
	Replace bson.Raw // a document
	Delete  bool

	Filter bson.Raw // which document; of all but Insert
	Upsert bool     // of Update and Replace: make it where there is none
	// Required refuses the whole mutation, as INVALID, if no document matches.
	Required bool
}

// Insert returns the effect that inserts a document, which has an _id: a
// repetition must be the same insert. An _id that is there refuses the mutation.
func Insert(collection string, document any) (sdk.Effect, error) {
	raw, err := marshal("document", document)
	if err != nil {
		return sdk.Effect{}, err
	}
	return Write{Collection: collection, Insert: raw}.Effect()
}

// Update returns the effect that updates the document that matches filter, and
// refuses the mutation if there is none.
func Update(collection string, filter, update any) (sdk.Effect, error) {
	f, err := marshal("filter", filter)
	if err != nil {
		return sdk.Effect{}, err
	}
	u, err := marshal("update", update)
	if err != nil {
		return sdk.Effect{}, err
	}
	return Write{Collection: collection, Filter: f, Update: u, Required: true}.Effect()
}

// Replace returns the effect that puts document in the place of the one that
// matches filter, or makes it.
func Replace(collection string, filter, document any) (sdk.Effect, error) {
	f, err := marshal("filter", filter)
	if err != nil {
		return sdk.Effect{}, err
	}
	d, err := marshal("document", document)
	if err != nil {
		return sdk.Effect{}, err
	}
	return Write{Collection: collection, Filter: f, Replace: d, Upsert: true}.Effect()
}

// Delete returns the effect that deletes the document that matches filter, if
// there is one.
func Delete(collection string, filter any) (sdk.Effect, error) {
	f, err := marshal("filter", filter)
	if err != nil {
		return sdk.Effect{}, err
	}
	return Write{Collection: collection, Filter: f, Delete: true}.Effect()
}

func marshal(what string, v any) (bson.Raw, error) {
	b, err := bson.Marshal(v)
	if err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "effect", "%s: %w", what, err)
	}
	return b, nil
}

// wireWrite is the body.
type wireWrite struct {
	Insert   string   `bson:"insert,omitempty"`
	Update   string   `bson:"update,omitempty"`
	Replace  string   `bson:"replace,omitempty"`
	Delete   string   `bson:"delete,omitempty"`
	Database string   `bson:"db,omitempty"`
	Filter   bson.Raw `bson:"filter,omitempty"`
	Document bson.Raw `bson:"document,omitempty"`
	Upsert   bool     `bson:"upsert,omitempty"`
	Required bool     `bson:"required,omitempty"`
}

// Effect returns w as an effect; INVALID if it is not well formed.
func (w Write) Effect() (sdk.Effect, error) {
	if err := w.check(); err != nil {
		return sdk.Effect{}, err
	}
	out := wireWrite{Database: w.Database, Filter: w.Filter, Upsert: w.Upsert, Required: w.Required}
	switch {
	case w.Insert != nil:
		out.Insert, out.Document = w.Collection, w.Insert
	case w.Update != nil:
		out.Update, out.Document = w.Collection, w.Update
	case w.Replace != nil:
		out.Replace, out.Document = w.Collection, w.Replace
	default:
		out.Delete = w.Collection
	}
	body, err := bson.Marshal(out)
	if err != nil {
		return sdk.Effect{}, sdk.Errorf(sdk.Invalid, "effect", "%w", err)
	}
	return sdk.Effect{Kind: KindWrite, Body: body}, nil
}

// known are the members of a body, each of which may be there once.
var known = map[string]bool{"insert": true, "update": true, "replace": true, "delete": true, "db": true, "filter": true, "document": true, "upsert": true, "required": true}

// ParseWrite reads the body of a mongodb.write.v1 effect strictly, for scope
// functions; INVALID for anything that Effect does not make.
func ParseWrite(body []byte) (Write, error) {
	bad := func(format string, args ...any) (Write, error) {
		return Write{}, sdk.Errorf(sdk.Invalid, "effect", KindWrite+": "+format, args...)
	}
	if err := bson.Raw(body).Validate(); err != nil {
		return bad("the body is no BSON: %w", err)
	}
	elements, err := bson.Raw(body).Elements()
	if err != nil {
		return bad("the body is no BSON: %w", err)
	}
	seen := map[string]bool{}
	for _, e := range elements {
		if k := e.Key(); !known[k] || seen[k] {
			return bad("member %q is not known or given twice", k)
		}
		seen[e.Key()] = true
	}
	var in wireWrite
	if err := bson.Unmarshal(body, &in); err != nil {
		return bad("%w", err)
	}
	w := Write{Database: in.Database, Filter: in.Filter, Upsert: in.Upsert, Required: in.Required}
	set := 0
	for _, k := range []struct {
		collection string
		to         *bson.Raw
	}{{in.Insert, &w.Insert}, {in.Update, &w.Update}, {in.Replace, &w.Replace}, {in.Delete, nil}} {
		if k.collection == "" {
			continue
		}
		set++
		w.Collection = k.collection
		if k.to == nil {
			w.Delete = true
			if in.Document != nil {
				return bad("a delete has no document")
			}
		} else if *k.to = in.Document; in.Document == nil {
			return bad("the document is missing")
		}
	}
	if set != 1 {
		return bad("it is not exactly one of insert, update, replace and delete")
	}
	return w, w.check()
}

func (w *Write) check() error {
	bad := func(format string, args ...any) error {
		return sdk.Errorf(sdk.Invalid, "effect", KindWrite+": "+format, args...)
	}
	set := 0
	for _, is := range []bool{w.Insert != nil, w.Update != nil, w.Replace != nil, w.Delete} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return bad("exactly one of insert, update, replace and delete")
	case w.Insert == nil && w.Filter == nil, w.Insert != nil && w.Filter != nil:
		return bad("an insert has no filter, and every other write has one")
	case w.Upsert && w.Update == nil && w.Replace == nil, w.Upsert && w.Required, w.Required && w.Insert != nil:
		return bad("upsert goes with update and replace, and required with neither upsert nor insert")
	}
	database := w.Database
	if database == "" {
		database = "x"
	}
	if err := checkNames(database, w.Collection); err != nil {
		return err
	}
	for _, raw := range []bson.Raw{w.Insert, w.Update, w.Replace, w.Filter} {
		if err := raw.Validate(); raw != nil && err != nil {
			return bad("no BSON: %w", err)
		}
	}
	if w.Insert != nil {
		if _, err := w.Insert.LookupErr("_id"); err != nil {
			return bad("the document to insert has no _id; choose it, so that a repetition is the same insert")
		}
	}
	return operators(w.Update, w.Replace)
}

// operators keeps updates and replacements apart, as the server tells them apart
// by their first member.
func operators(update, replace bson.Raw) error {
	for raw, want := range map[*bson.Raw]bool{&update: true, &replace: false} {
		if *raw == nil {
			continue
		}
		elements, err := raw.Elements()
		if err != nil || want && len(elements) == 0 {
			return sdk.Errorf(sdk.Invalid, "effect", "%s: an update without operators", KindWrite)
		}
		for _, e := range elements {
			if strings.HasPrefix(e.Key(), "$") != want {
				return sdk.Errorf(sdk.Invalid, "effect", "%s: an update has operators only, and a replacement none; %q", KindWrite, e.Key())
			}
		}
	}
	return nil
}

// command is the write as a command.
func (w *Write) command() (action string, c bson.D) {
	switch {
	case w.Insert != nil:
		return "insert", bson.D{{Key: "insert", Value: w.Collection}, {Key: "documents", Value: bson.A{w.Insert}}}
	case w.Delete:
		return "remove", bson.D{{Key: "delete", Value: w.Collection}, {Key: "deletes", Value: bson.A{bson.D{{Key: "q", Value: w.Filter}, {Key: "limit", Value: 1}}}}}
	}
	u := w.Update
	if u == nil {
		u = w.Replace
	}
	return "update", bson.D{{Key: "update", Value: w.Collection}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: w.Filter}, {Key: "u", Value: u}, {Key: "upsert", Value: w.Upsert}}}}}
}

// write carries out a write of the team's. What the server refuses for the sake
// of the data (a key that is there, a validator) refuses the mutation.
func (t *transaction) write(s *txStore, w *Write) (outcome, error) {
	action, command := w.command()
	c := collection{db: s.client.Database(w.Database), name: w.Collection, kind: s.kind, watched: s.watched}
	reply, _, err := c.run(t.ctx, command)
	if err != nil {
		if le := mongo.LabeledError(nil); errors.As(err, &le) && le.HasErrorLabel(transientTransaction) && t.ctx.Err() == nil {
			return raced, nil
		}
		if se := mongo.ServerError(nil); errors.As(err, &se) {
			if se.HasErrorCode(unauthorized) {
				return failed, unfit(err, "permission", action+" on "+w.Database+"."+w.Collection)
			}
			return failed, sdk.Errorf(sdk.Invalid, "effect", "%s on %s was refused, nothing was applied: %w", action, w.Collection, err)
		}
		return failed, sdk.Errorf(sdk.NotApplied, "MongoDB", "the commit was not sent: %w", err)
	}
	var done written
	if err := bson.Unmarshal(reply, &done); err != nil {
		return failed, sdk.Errorf(sdk.NotApplied, "MongoDB", "an answer that is none; the commit was not sent: %w", err)
	}
	if w.Required && done.N == 0 {
		return failed, sdk.Errorf(sdk.Invalid, "effect", "%s on %s: no document matches the filter, nothing was applied", action, w.Collection)
	}
	return committed, nil
}

const unauthorized = 13
