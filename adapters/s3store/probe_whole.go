package s3store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/fencedstore/fencedstore/sdk"
)

const (
	wholeBytes   = 128 << 10
	wholeSmall   = 1 << 10
	wholeRounds  = 32
	wholeReaders = 8
)

// wholeVersion is one version of the object: one letter, and of each another
// number, up and down.
func wholeVersion(letter byte) []byte {
	n := wholeSmall + int(letter)*16
	if letter%2 == 0 {
		n /= 2
	}
	return bytes.Repeat([]byte{letter}, n)
}

// torn reads an object while it is replaced: what is read is one version, whole.
func (b *bucket) torn(ctx context.Context, name string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, version, err := b.PutIf(ctx, name, wholeVersion('a'), "")
	if err != nil {
		return err
	}
	results := make(chan error, wholeReaders)
	for range wholeReaders {
		go func() { results <- b.readWhole(ctx, name) }()
	}
	err = b.replace(ctx, name, version)
	cancel()
	for range wholeReaders {
		// Where writes fail too, the server is away, and reads say nothing of it.
		if found := <-results; found != nil && err == nil {
			err = found
		}
	}
	return err
}

// readWhole reads until the context ends, or until something is not whole.
func (b *bucket) readWhole(ctx context.Context, name string) error {
	for {
		body, _, err := b.Get(ctx, name)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return sdk.Errorf(sdk.Unsuitable, "GET", "an object could not be read whole while it was replaced: %w", err)
		case len(body) == 0 || !bytes.Equal(body, wholeVersion(body[0])):
			return sdk.Errorf(sdk.Unsuitable, "GET", "it gave %d bytes of several versions while the object was replaced: the server writes in place", len(body))
		}
	}
}

// replace swaps an object again and again.
func (b *bucket) replace(ctx context.Context, name, version string) error {
	for i := range wholeRounds {
		swapped, next, err := b.PutIf(ctx, name, wholeVersion(byte('b'+i)), version)
		if err != nil {
			return err
		}
		if !swapped {
			return sdk.Errorf(sdk.Unsuitable, "conditional PUT", "If-Match with the current ETag was refused while the object was read")
		}
		version = next
	}
	return nil
}

// cut sends half an upload: the version before stays as it was.
func (b *bucket) cut(ctx context.Context, name string) error {
	first := bytes.Repeat([]byte{'a'}, wholeBytes)
	_, version, err := b.PutIf(ctx, name, first, "")
	if err != nil {
		return err
	}
	_, err = b.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.bucket, Key: aws.String(b.key(name)), IfMatch: &version,
		Body: bytes.NewReader(bytes.Repeat([]byte{'b'}, 2*wholeBytes))}, once, func(o *s3.Options) { o.HTTPClient = cutting{o.HTTPClient} })
	if err == nil {
		return sdk.Errorf(sdk.Unsuitable, "PUT", "half an upload was taken for a whole one")
	}
	// The server may take a while to notice that no more comes.
	for wait := time.Millisecond; wait < 200*time.Millisecond; wait *= 2 {
		body, _, err := b.Get(ctx, name)
		if err == nil && !bytes.Equal(body, first) {
			err = sdk.Errorf(sdk.Unsuitable, "PUT", "%d bytes are there", len(body))
		}
		if err != nil {
			return sdk.Errorf(sdk.Unsuitable, "PUT", "half an upload changed the object: %w", err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return sdk.Errorf(sdk.NotApplied, "S3", "the probe could not be finished: %w", ctx.Err())
		}
	}
	swapped, _, err := b.PutIf(ctx, name, []byte("c"), version)
	if err == nil && !swapped {
		err = sdk.Errorf(sdk.Unsuitable, "PUT", "half an upload made another version of the object")
	}
	return err
}

// cutting sends half of each body and then breaks the connection.
type cutting struct {
	next interface {
		Do(*http.Request) (*http.Response, error)
	}
}

var errCut = errors.New("cut on purpose")

func (c cutting) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = &halfBody{r.Body, r.ContentLength / 2}
	}
	return c.next.Do(r)
}

type halfBody struct {
	io.ReadCloser
	left int64
}

func (h *halfBody) Read(p []byte) (int, error) {
	if h.left <= 0 {
		return 0, errCut
	}
	if int64(len(p)) > h.left {
		p = p[:h.left]
	}
	n, err := h.ReadCloser.Read(p)
	h.left -= int64(n)
	return n, err
}
