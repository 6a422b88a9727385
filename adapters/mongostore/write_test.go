package mongostore

import (
	"errors"
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestWrites(t *testing.T) {
	id := bson.D{{Key: "_id", Value: "a"}}
	set := bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: int64(1)}}}}
	for name, make := range map[string]func() (sdk.Effect, error){
		"insert":  func() (sdk.Effect, error) { return Insert("c", id) },
		"update":  func() (sdk.Effect, error) { return Update("c", id, set) },
		"replace": func() (sdk.Effect, error) { return Replace("c", id, bson.D{{Key: "n", Value: 1}}) },
		"delete":  func() (sdk.Effect, error) { return Delete("c", id) },
	} {
		e, err := make()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		w, err := ParseWrite(e.Body)
		if err != nil || w.Collection != "c" {
			t.Errorf("%s: %+v, %v", name, w, err)
		}
		again, err := w.Effect()
		if err != nil || string(again.Body) != string(e.Body) {
			t.Errorf("%s: made again it is another, %v", name, err)
		}
	}
	for name, d := range map[string]bson.D{
		"nothing":             {},
		"two":                 {{Key: "insert", Value: "c"}, {Key: "delete", Value: "c"}, {Key: "document", Value: id}},
		"unknown member":      {{Key: "delete", Value: "c"}, {Key: "filter", Value: id}, {Key: "multi", Value: true}},
		"member twice":        {{Key: "delete", Value: "c"}, {Key: "filter", Value: id}, {Key: "delete", Value: "d"}},
		"other case":          {{Key: "Delete", Value: "c"}, {Key: "filter", Value: id}},
		"no filter":           {{Key: "delete", Value: "c"}},
		"no document":         {{Key: "insert", Value: "c"}},
		"no _id":              {{Key: "insert", Value: "c"}, {Key: "document", Value: bson.D{{Key: "n", Value: 1}}}},
		"insert with filter":  {{Key: "insert", Value: "c"}, {Key: "document", Value: id}, {Key: "filter", Value: id}},
		"delete with upsert":  {{Key: "delete", Value: "c"}, {Key: "filter", Value: id}, {Key: "upsert", Value: true}},
		"delete of document":  {{Key: "delete", Value: "c"}, {Key: "filter", Value: id}, {Key: "document", Value: id}},
		"required and upsert": {{Key: "update", Value: "c"}, {Key: "filter", Value: id}, {Key: "document", Value: set}, {Key: "upsert", Value: true}, {Key: "required", Value: true}},
		"replacing update":    {{Key: "update", Value: "c"}, {Key: "filter", Value: id}, {Key: "document", Value: id}},
		"empty update":        {{Key: "update", Value: "c"}, {Key: "filter", Value: id}, {Key: "document", Value: bson.D{}}},
		"updating replace":    {{Key: "replace", Value: "c"}, {Key: "filter", Value: id}, {Key: "document", Value: set}},
		"system collection":   {{Key: "delete", Value: "system.users"}, {Key: "filter", Value: id}},
		"admin":               {{Key: "delete", Value: "c"}, {Key: "db", Value: "admin"}, {Key: "filter", Value: id}},
		"collection type":     {{Key: "delete", Value: 1}, {Key: "filter", Value: id}},
	} {
		if w, err := ParseWrite(raw(t, d)); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%s: %+v, %v, want INVALID", name, w, err)
		}
	}
}

func FuzzParseWrite(f *testing.F) {
	e, err := Update("c", bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(e.Body)
	f.Add([]byte{5, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		w, err := ParseWrite(body)
		if err != nil {
			if !errors.Is(err, sdk.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if _, err := w.Effect(); err != nil {
			t.Fatalf("%+v was read and cannot be made: %v", w, err)
		}
	})
}
