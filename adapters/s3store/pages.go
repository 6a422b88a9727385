package s3store

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"mime"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/fencedstore/fencedstore/sdk"
)

// Layouts.
const (
	// LayoutHead keeps everything of a resource below the prefix, in objects that
	// only this program reads.
	LayoutHead = "head"
	// LayoutObject keeps the value of ContentKey as an object of its own, whose key
	// is Options.Objects followed by the resource, and the fence in its metadata.
	LayoutObject = "object"

	// ContentKey is the key whose value is the object itself in LayoutObject.
	ContentKey = "content"
)

const (
	// metadataName is x-amz-meta-fencedstore; its value is metadataForm, how the
	// bytes are unique, and the state in base64.
	metadataName = "fencedstore"
	metadataForm = "v1."
	// stateBytes in base64, with the name and the content type, stay below S3's
	// 2 KB of user metadata, and below the 2,000 bytes of others.
	stateBytes = 1300

	maxKeyBytes = 1024
)

// pages are the team's objects as cas.Heads.
type pages struct {
	*bucket
	objects     string
	contentType string
	unique      Unique
}

func newPages(b *bucket, o *Options) (*pages, error) {
	p := &pages{bucket: b, objects: o.Objects, contentType: o.ContentType, unique: o.Unique}
	if _, ok := codings[p.unique]; !ok {
		return nil, sdk.Errorf(sdk.Invalid, "unique", "%q is not space, gzip or etag: layout %q must be told how two versions with the same bytes get different ETags, see doc.go", o.Unique, LayoutObject)
	}
	if p.contentType == "" {
		p.contentType = "application/octet-stream"
	}
	if _, _, err := mime.ParseMediaType(p.contentType); err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "content type", "%q: %w", p.contentType, err)
	}
	if o.Objects != "" {
		if err := checkPrefix(strings.TrimSuffix(o.Objects, "/")); err != nil {
			return nil, sdk.Errorf(sdk.Invalid, "objects", "%w", err)
		}
		if strings.HasPrefix(o.Objects, b.prefix+"/") {
			return nil, sdk.Errorf(sdk.Invalid, "objects", "%q lies in the store's own prefix %q; they must be apart", o.Objects, b.prefix)
		}
	}
	return p, nil
}

// keyOf is the key of a resource's object. A resource must not name the store's
// own objects.
func (p *pages) keyOf(r sdk.ResourceID) (string, error) {
	key := p.objects + string(r)
	if key == p.prefix || strings.HasPrefix(key, p.prefix+"/") {
		return "", sdk.Errorf(sdk.Invalid, "resource", "its object %q would lie among the store's own, below %s/", key, p.prefix)
	}
	if len(key) > maxKeyBytes {
		return "", sdk.Errorf(sdk.Invalid, "resource", "its key has %d bytes; S3 takes %d", len(key), maxKeyBytes)
	}
	return key, nil
}

// GetHead implements cas.Heads.
func (p *pages) GetHead(ctx context.Context, r sdk.ResourceID) (state, content []byte, version string, err error) {
	key, err := p.keyOf(r)
	if err != nil {
		return nil, nil, "", err
	}
	body, version, metadata, err := p.get(ctx, key)
	if err != nil {
		return nil, nil, "", err
	}
	for name, text := range metadata {
		if !strings.EqualFold(name, metadataName) {
			continue
		}
		text, ok := strings.CutPrefix(text, metadataForm)
		unique, text, _ := strings.Cut(text, ".")
		c, known := codings[Unique(unique)]
		state, err := base64.RawURLEncoding.Strict().DecodeString(text)
		if !ok || !known || err != nil || len(state) == 0 {
			return nil, nil, "", sdk.Errorf(sdk.Unsuitable, key, "its metadata %q are damaged, or of a newer version", metadataName)
		}
		if content, err = c.decode(body); err != nil {
			return nil, nil, "", sdk.Errorf(sdk.Unsuitable, key, "its body is not the one that was written with its metadata: %w", err)
		}
		return state, content, version, nil
	}
	return nil, body, version, nil
}

// PutHead implements cas.Heads.
func (p *pages) PutHead(ctx context.Context, r sdk.ResourceID, state, content []byte, version string) (bool, string, error) {
	key, err := p.keyOf(r)
	if err != nil {
		return false, "", err
	}
	in, body, err := p.object(key, state, content)
	if err != nil {
		return false, "", sdk.Errorf(sdk.NotApplied, key, "%w", err)
	}
	return p.put(ctx, in, body, version)
}

func (p *pages) object(key string, state, content []byte) (*s3.PutObjectInput, []byte, error) {
	c := codings[p.unique]
	in := &s3.PutObjectInput{Key: &key, ContentType: &p.contentType,
		Metadata: map[string]string{metadataName: metadataForm + string(p.unique) + "." + base64.RawURLEncoding.EncodeToString(state)}}
	if c.header != "" {
		in.ContentEncoding = &c.header
	}
	body, err := c.encode(content)
	return in, body, err
}

// needs refuses a bucket whose ETags are not what unique=etag needs.
func (p *pages) needs(ctx context.Context) error {
	if p.unique != UniqueETag {
		return nil
	}
	name := probeName("etag")
	defer p.Remove(context.WithoutCancel(ctx), name)
	_, err := p.twice(ctx, name, nil)
	return err
}

func probeName(of string) string {
	var nonce [8]byte
	rand.Read(nonce[:])
	return "probe/" + hex.EncodeToString(nonce[:]) + "/" + of
}

// twice writes one value twice and returns the second version, which must be
// another than the first.
func (p *pages) twice(ctx context.Context, name string, state []byte) (version string, err error) {
	for range 2 {
		in, body, err := p.object(p.key(name), state, []byte("1"))
		if err != nil {
			return "", err
		}
		_, next, err := p.put(ctx, in, body, version)
		if err != nil {
			return "", err
		}
		if next == version {
			return "", sdk.Errorf(sdk.Unsuitable, "ETag", "two versions with the same bytes have one ETag here, so a stale writer's condition could hold: use unique=space for text or unique=gzip")
		}
		version = next
	}
	return version, nil
}

// probe proves what bucket.probe does, that metadata come back whole and are
// replaced with their object, and that two versions with the same value have two
// ETags.
func (p *pages) probe(ctx context.Context) error {
	if err := p.bucket.probe(ctx, p.prefix+"/", p.objects); err != nil {
		return err
	}
	name := probeName("metadata")
	defer p.Remove(context.WithoutCancel(ctx), name)
	state := make([]byte, stateBytes)
	rand.Read(state)
	version, err := p.twice(ctx, name, state)
	if err != nil {
		return err
	}
	_, _, metadata, err := p.get(ctx, p.key(name))
	if err != nil {
		return err
	}
	in, _, err := p.object("", state, nil)
	if err != nil {
		return err
	}
	if got, written := metadata[metadataName], in.Metadata[metadataName]; got != written {
		return sdk.Errorf(sdk.Unsuitable, "metadata", "of %d characters written %d came back; layout %q needs them whole", len(written), len(got), LayoutObject)
	}
	if _, _, err := p.put(ctx, &s3.PutObjectInput{Key: aws.String(p.key(name))}, []byte("2"), version); err != nil {
		return err
	}
	if _, _, metadata, err = p.get(ctx, p.key(name)); err != nil {
		return err
	}
	if _, kept := metadata[metadataName]; kept {
		return sdk.Errorf(sdk.Unsuitable, "metadata", "they survive an overwrite, so an object written past the gate would seem fenced; use layout %q", LayoutHead)
	}
	return nil
}
