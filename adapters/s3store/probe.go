package s3store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/fencedstore/fencedstore/sdk"
)

const (
	probeWriters = 16
	probeRounds  = 3
)

// probe proves that the bucket decides conditions, and decides them atomically,
// that a reader never sees half an object, that half an upload leaves none, and
// that nothing in it expires. It writes below probe/ and takes that away
// again if it may.
func (b *bucket) probe(ctx context.Context, prefixes ...string) error {
	if err := b.lifecycle(ctx, prefixes); err != nil {
		return err
	}
	var nonce [8]byte
	rand.Read(nonce[:])
	base := "probe/" + hex.EncodeToString(nonce[:]) + "/"
	defer func() {
		ctx := context.WithoutCancel(ctx)
		b.List(ctx, base, func(name string) error { b.Remove(ctx, name); return nil })
	}()
	if err := b.conditions(ctx, base+"conditions"); err != nil {
		return err
	}
	for round := range probeRounds {
		if err := b.race(ctx, fmt.Sprintf("%srace-%d", base, round)); err != nil {
			return err
		}
	}
	if err := b.torn(ctx, base+"torn"); err != nil {
		return err
	}
	return b.cut(ctx, base+"cut")
}

// conditions proves rejection, not just acceptance.
func (b *bucket) conditions(ctx context.Context, name string) error {
	put := func(text, version string) (bool, string, error) { return b.PutIf(ctx, name, []byte(text), version) }
	step := func(what string, want bool, got bool, err error) error {
		switch {
		case err != nil:
			return err
		case got != want && want:
			return sdk.Errorf(sdk.Unsuitable, "conditional PUT", "%s was refused", what)
		case got != want:
			return sdk.Errorf(sdk.Unsuitable, "conditional PUT", "%s was accepted: the server ignores the condition, so it cannot keep a fence", what)
		}
		return nil
	}
	made, first, err := put("1", "")
	if err := step("If-None-Match: * on a new key", true, made, err); err != nil {
		return err
	}
	made, _, err = put("2", "")
	if err := step("If-None-Match: * on a key that is there", false, made, err); err != nil {
		return err
	}
	swapped, second, err := put("3", first)
	if err := step("If-Match with the current ETag", true, swapped, err); err != nil {
		return err
	}
	swapped, _, err = put("4", first)
	if err := step("If-Match with a stale ETag", false, swapped, err); err != nil {
		return err
	}
	body, etag, err := b.Get(ctx, name)
	if err != nil {
		return err
	}
	if string(body) != "3" || etag != second {
		return sdk.Errorf(sdk.Unsuitable, "GET", "it gave %q with ETag %s after \"3\" was written with %s", body, etag, second)
	}
	swapped, _, err = b.PutIf(ctx, name+"-missing", []byte("5"), second)
	return step("If-Match on a key that is not there", false, swapped, err)
}

// race starts writers together, for a new key and for a swap: exactly one wins.
func (b *bucket) race(ctx context.Context, name string) error {
	version := ""
	for _, kind := range []string{"If-None-Match: *", "If-Match"} {
		start := make(chan struct{})
		won, errs := make([]string, probeWriters), make([]error, probeWriters)
		var wg sync.WaitGroup
		for i := range probeWriters {
			wg.Go(func() {
				<-start
				ok, etag, err := b.PutIf(ctx, name, fmt.Appendf(nil, "%s %d", kind, i), version)
				if ok {
					won[i] = etag
				}
				if sdk.CodeOf(err) != sdk.NotApplied { // 409: nobody was refused for good
					errs[i] = err
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
			return sdk.Errorf(sdk.Unsuitable, "conditional PUT", "%d of %d writers won one %s: the server does not decide it atomically", winners, probeWriters, kind)
		}
	}
	return nil
}

// lifecycle refuses a rule that expires objects under one of the prefixes.
func (b *bucket) lifecycle(ctx context.Context, prefixes []string) error {
	out, err := b.client.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &b.bucket})
	if err != nil {
		switch status, code := answered(err); {
		case code == "NoSuchLifecycleConfiguration", status == http.StatusNotFound && code != "NoSuchBucket",
			status == http.StatusNotImplemented, code == "NotImplemented", status == http.StatusMethodNotAllowed:
			return nil // there are none, or the server has no such thing
		case status == http.StatusForbidden:
			return sdk.Errorf(sdk.Unsuitable, "permission", "s3:GetLifecycleConfiguration is missing, so it cannot be told whether fences expire: %w", err)
		}
		return sdk.Errorf(sdk.NotApplied, "S3", "the lifecycle rules could not be read: %w", err)
	}
	for _, r := range out.Rules {
		for _, prefix := range prefixes {
			if !expires(&r) || !touches(&r, prefix) {
				continue
			}
			id := "without ID"
			if r.ID != nil {
				id = *r.ID
			}
			return sdk.Errorf(sdk.Unsuitable, "lifecycle rule", "%q expires objects under %q; a fence must never expire: give the rule another prefix or remove it", id, prefix)
		}
	}
	return nil
}

func expires(r *types.LifecycleRule) bool {
	return r.Status == types.ExpirationStatusEnabled && r.Expiration != nil &&
		(r.Expiration.Days != nil || r.Expiration.Date != nil)
}

// touches reports whether a rule's filter can hold for keys under prefix; tags
// and sizes are not looked at: they only narrow it.
func touches(r *types.LifecycleRule, prefix string) bool {
	rule := ""
	switch {
	case r.Filter != nil && r.Filter.Prefix != nil:
		rule = *r.Filter.Prefix
	case r.Filter != nil && r.Filter.And != nil && r.Filter.And.Prefix != nil:
		rule = *r.Filter.And.Prefix
	default:
		//lint:ignore SA1019 rules made before filters still have it
		if old := r.Prefix; old != nil {
			rule = *old
		}
	}
	return strings.HasPrefix(rule, prefix) || strings.HasPrefix(prefix, rule)
}
