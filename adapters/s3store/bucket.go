package s3store

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"io"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/cas"
)

// maxObjectBytes bounds what is read of one object: above every part and head.
const maxObjectBytes = cas.MaxTotalBytes + 1<<20

// bucket is a prefix of a bucket as cas.Objects.
type bucket struct {
	client *s3.Client
	bucket string
	prefix string

	// md5 says whether this bucket's ETags are the MD5 of the body: learnt from
	// what was written.
	md5 atomic.Int32
}

const (
	etagUnknown = iota
	etagMD5
	etagOther
)

func (b *bucket) key(name string) string { return b.prefix + "/" + name }

// once turns the client's retries off for one call.
func once(o *s3.Options) { o.Retryer = aws.NopRetryer{} }

// isMD5 reports whether an ETag is the MD5 of body.
func isMD5(etag string, body []byte) bool {
	sum := md5.Sum(body)
	return strings.EqualFold(strings.Trim(etag, `"`), hex.EncodeToString(sum[:]))
}

// Get implements cas.Objects. A body that is not the one of its ETag, where that
// can be told, is read again: some servers mix two versions up once in a while.
func (b *bucket) Get(ctx context.Context, name string) (body []byte, version string, err error) {
	body, version, _, err = b.get(ctx, b.key(name))
	return body, version, err
}

// get reads a key with its metadata.
func (b *bucket) get(ctx context.Context, key string) (body []byte, version string, metadata map[string]string, err error) {
	for range 3 {
		out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.bucket, Key: &key})
		if err != nil {
			return nil, "", nil, readError(key, err)
		}
		body, err := io.ReadAll(io.LimitReader(out.Body, maxObjectBytes+1))
		out.Body.Close()
		if err != nil {
			return nil, "", nil, sdk.Errorf(sdk.NotApplied, "S3", "%s could not be read: %w", key, err)
		}
		etag := aws.ToString(out.ETag)
		switch {
		case len(body) > maxObjectBytes:
			return nil, "", nil, sdk.Errorf(sdk.Unsuitable, key, "more than %d bytes; it is not one of ours", maxObjectBytes)
		case out.ContentLength != nil && *out.ContentLength != int64(len(body)):
			continue
		case etag == "":
			return nil, "", nil, sdk.Errorf(sdk.Unsuitable, "S3", "the server gives no ETag")
		case b.md5.Load() == etagMD5 && !isMD5(etag, body):
			continue
		}
		return body, etag, out.Metadata, nil
	}
	return nil, "", nil, sdk.Errorf(sdk.NotApplied, "S3", "%s: the server gave a body that is not its ETag's, three times", key)
}

// PutIf implements cas.Objects.
func (b *bucket) PutIf(ctx context.Context, name string, body []byte, version string) (bool, string, error) {
	return b.put(ctx, &s3.PutObjectInput{Key: aws.String(b.key(name))}, body, version)
}

// put sends one conditional PUT.
func (b *bucket) put(ctx context.Context, in *s3.PutObjectInput, body []byte, version string) (bool, string, error) {
	if err := ctx.Err(); err != nil {
		return false, "", sdk.Errorf(sdk.NotApplied, "S3", "nothing was sent: %w", err)
	}
	in.Bucket, in.Body = &b.bucket, bytes.NewReader(body)
	if version == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = &version
	}
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	out, err := b.client.PutObject(traced, in, once)
	if err != nil {
		_, err := classify(err, sent.Load())
		return false, "", err
	}
	etag := aws.ToString(out.ETag)
	if etag == "" {
		return false, "", sdk.Errorf(sdk.MutationUnknown, "S3", "the server wrote and gave no ETag")
	}
	b.learn(etag, body)
	return true, etag, nil
}

// learn finds out once whether ETags are MD5 sums here.
func (b *bucket) learn(etag string, body []byte) {
	if b.md5.Load() != etagUnknown {
		return
	}
	if isMD5(etag, body) {
		b.md5.Store(etagMD5)
	} else {
		b.md5.Store(etagOther)
	}
}

// PutNew implements cas.Objects. The name is the attempt's own, so the client
// may send it again.
func (b *bucket) PutNew(ctx context.Context, name string, body []byte) error {
	_, err := b.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.bucket, Key: aws.String(b.key(name)), Body: bytes.NewReader(body)})
	if err == nil {
		return nil
	}
	if means, cerr := classify(err, true); means == unsuitable {
		return cerr
	}
	return sdk.Errorf(sdk.NotApplied, "S3", "a part could not be written: %w", err)
}

// List implements cas.Objects.
func (b *bucket) List(ctx context.Context, prefix string, each func(name string) error) error {
	pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{Bucket: &b.bucket, Prefix: aws.String(b.key(prefix))})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return readError(prefix, err)
		}
		for _, o := range page.Contents {
			if err := each(strings.TrimPrefix(aws.ToString(o.Key), b.prefix+"/")); err != nil {
				return err
			}
		}
	}
	return nil
}

// Remove implements cas.Remover.
func (b *bucket) Remove(ctx context.Context, name string) error {
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.bucket, Key: aws.String(b.key(name))})
	if err != nil {
		return sdk.Errorf(sdk.NotApplied, "S3", "%s could not be removed: %w", name, err)
	}
	return nil
}
