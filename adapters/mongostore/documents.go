package mongostore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// documents is a collection as cas.Objects: one document per object, its name as
// _id, with a version that is used once. A head has its fence beside its body, as
// 64-bit integers, for the filter and for people.
type documents struct{ collection }

// fields are what the filter of a replacement names.
type fields struct {
	version string // hex, 32 bytes of it

	head             bool
	resource         string
	highest, segment int64
	grant            sdk.Digest
}

func newVersion() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// text is the version that the kit keeps.
func (f *fields) text() string {
	if !f.head {
		return f.version
	}
	return fmt.Sprintf("%s %d %d %x", f.version, f.highest, f.segment, f.grant[:])
}

func parseVersion(s string) (f fields, err error) {
	f.version, s, f.head = strings.Cut(s, " ")
	if f.head {
		var grant []byte
		if _, err := fmt.Sscanf(s, "%d %d %x", &f.highest, &f.segment, &grant); err != nil || len(grant) != len(f.grant) {
			return f, sdk.Errorf(sdk.Invalid, "version", "%q is none of this store's", s)
		}
		copy(f.grant[:], grant)
	}
	return f, nil
}

// filter is the law of a replacement: the head is still the one by which it was
// judged.
func (f *fields) filter(name string) bson.D {
	q := bson.D{{Key: "_id", Value: name}}
	if f.head {
		q = append(q, bson.E{Key: "highest", Value: f.highest}, bson.E{Key: "segment", Value: f.segment}, bson.E{Key: "grant", Value: bson.Binary{Data: f.grant[:]}})
	}
	return append(q, bson.E{Key: "version", Value: f.version})
}

func (f *fields) document(name string, body []byte) bson.D {
	d := bson.D{{Key: "_id", Value: name}, {Key: "version", Value: f.version}}
	if f.head {
		d = append(d, bson.E{Key: "resource", Value: f.resource}, bson.E{Key: "highest", Value: f.highest}, bson.E{Key: "segment", Value: f.segment}, bson.E{Key: "grant", Value: bson.Binary{Data: f.grant[:]}})
	}
	return append(d, bson.E{Key: "body", Value: bson.Binary{Data: body}})
}

// isHead tells a head by its name.
func isHead(name string) bool { return strings.Contains(name, "/head/") }

// fill reads what a head's body says of its fence.
func (f *fields) fill(name string, body []byte) error {
	f.head = true
	bad := func(err error) error {
		return sdk.Errorf(sdk.Unsuitable, name, "a damaged head: %w", err)
	}
	d := jsontext.NewDecoder(bytes.NewReader(body))
	if _, err := d.ReadToken(); err != nil {
		return bad(err)
	}
	var fence struct {
		Highest string     `json:"highest"`
		Segment string     `json:"segment"`
		Grant   sdk.Digest `json:"grant"`
	}
	for found := 0; found < 2; {
		key, err := d.ReadToken()
		if err != nil {
			return bad(err)
		}
		switch key.String() {
		case "resource":
			found++
			err = json.UnmarshalDecode(d, &f.resource)
		case "fence":
			found++
			err = json.UnmarshalDecode(d, &fence)
		case "}":
			return bad(errors.New("it has no fence"))
		default:
			err = d.SkipValue()
		}
		if err != nil {
			return bad(err)
		}
	}
	highest, err := sdk.ParseToken(fence.Highest)
	if err != nil {
		return bad(err)
	}
	segment, err := sdk.ParseDecimal("segment", fence.Segment)
	if err != nil || !sdk.Segment(segment).Valid() {
		return bad(fmt.Errorf("segment %q", fence.Segment))
	}
	// Both are below 2^63 by their types' own limits (C13).
	f.highest, f.segment, f.grant = int64(highest), int64(segment), fence.Grant
	return nil
}

// parse reads a stored document strictly.
func parse(name string, raw bson.Raw) (body []byte, f fields, err error) {
	damaged := func(what string) error {
		return sdk.Errorf(sdk.Unsuitable, name, "a damaged document: %s is missing or of another type than this store writes", what)
	}
	_, body, ok := raw.Lookup("body").BinaryOK()
	if !ok {
		return nil, f, damaged("body")
	}
	if f.version, ok = raw.Lookup("version").StringValueOK(); !ok || f.version == "" || strings.Contains(f.version, " ") {
		return nil, f, damaged("version")
	}
	if !isHead(name) {
		return body, f, nil
	}
	var said fields
	if err := said.fill(name, body); err != nil {
		return nil, f, err
	}
	_, grant, okGrant := raw.Lookup("grant").BinaryOK()
	highest, okHighest := raw.Lookup("highest").Int64OK()
	segment, okSegment := raw.Lookup("segment").Int64OK()
	switch {
	case !okGrant || !bytes.Equal(grant, said.grant[:]):
		return nil, f, damaged("grant")
	case !okHighest || highest != said.highest:
		return nil, f, damaged("highest")
	case !okSegment || segment != said.segment:
		return nil, f, damaged("segment")
	}
	said.version = f.version
	return body, said, nil
}

// Get implements cas.Objects.
func (d *documents) Get(ctx context.Context, name string) ([]byte, string, error) {
	found, err := d.find(ctx, bson.D{{Key: "_id", Value: name}}, 1)
	if err != nil {
		return nil, "", err
	}
	if len(found) == 0 {
		return nil, "", sdk.Errorf(sdk.NotFound, name, "no such document")
	}
	body, f, err := parse(name, found[0])
	if err != nil {
		return nil, "", err
	}
	return bytes.Clone(body), f.text(), nil
}

// PutIf implements cas.Objects.
func (d *documents) PutIf(ctx context.Context, name string, body []byte, version string) (bool, string, error) {
	next := fields{version: newVersion()}
	if isHead(name) {
		if err := next.fill(name, body); err != nil {
			return false, "", err
		}
	}
	if version == "" {
		// _id is unique, so of two first writers one is told of the other (C74). That
		// is no success (C75): the kit reads what is there and decides.
		made, err := d.insert(ctx, next.document(name, body))
		if err != nil || !made {
			return false, "", err
		}
		return true, next.text(), nil
	}
	old, err := parseVersion(version)
	if err != nil {
		return false, "", err
	}
	update := bson.D{{Key: "q", Value: old.filter(name)}, {Key: "u", Value: next.document(name, body)}}
	n, dup, err := d.write(ctx, "update", bson.D{{Key: "update", Value: d.name}, {Key: "updates", Value: bson.A{update}}})
	switch {
	case err != nil:
		return false, "", err
	case dup || n > 1:
		return false, "", sdk.Errorf(sdk.MutationUnknown, "MongoDB", "%d documents with the _id %q: it is not unique", n, name)
	case n == 0:
		return false, "", nil
	}
	return true, next.text(), nil
}

// insert reports whether there was none with the same _id.
func (d *documents) insert(ctx context.Context, doc bson.D) (bool, error) {
	n, dup, err := d.write(ctx, "insert", bson.D{{Key: "insert", Value: d.name}, {Key: "documents", Value: bson.A{doc}}})
	switch {
	case err != nil:
		return false, err
	case dup:
		return false, nil
	case n != 1:
		return false, sdk.Errorf(sdk.MutationUnknown, "MongoDB", "an insert of one document made %d", n)
	}
	return true, nil
}

// PutNew implements cas.Objects.
func (d *documents) PutNew(ctx context.Context, name string, body []byte) error {
	f := fields{version: newVersion()}
	made, err := d.insert(ctx, f.document(name, body))
	switch {
	case sdk.CodeOf(err) == sdk.MutationUnknown:
		return sdk.Errorf(sdk.NotApplied, name, "a part may not have been written: %w", err)
	case err == nil && !made:
		return sdk.Errorf(sdk.NotApplied, name, "there is a document with this name")
	}
	return err
}

// page is how many names are listed at a time.
const page = 1000

// List implements cas.Objects. Each page is a read of its own, as a cursor's
// later batches would be of an older moment.
func (d *documents) List(ctx context.Context, prefix string, each func(name string) error) error {
	for from, op := prefix, "$gte"; ; op = "$gt" {
		// Names are of characters below '~'.
		filter := bson.D{{Key: "_id", Value: bson.D{{Key: op, Value: from}, {Key: "$lt", Value: prefix + "~"}}}}
		found, err := d.find(ctx, filter, page, bson.E{Key: "projection", Value: bson.D{{Key: "_id", Value: 1}}}, bson.E{Key: "sort", Value: bson.D{{Key: "_id", Value: 1}}})
		if err != nil {
			return err
		}
		for _, raw := range found {
			name, ok := raw.Lookup("_id").StringValueOK()
			if !ok {
				return sdk.Errorf(sdk.Unsuitable, prefix, "a document whose _id is no text")
			}
			if err := each(name); err != nil {
				return err
			}
			from = name
		}
		if len(found) < page {
			return nil
		}
	}
}

// Remove implements cas.Remover.
func (d *documents) Remove(ctx context.Context, name string) error {
	one := bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: name}}}, {Key: "limit", Value: 1}}
	_, _, err := d.write(ctx, "remove", bson.D{{Key: "delete", Value: d.name}, {Key: "deletes", Value: bson.A{one}}})
	return err
}
