package etcdstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/fencedstore/fencedstore/sdk"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// keys is a prefix of a cluster as cas.Objects. An object's version is its whole
// value behind a byte, so that an empty value has one too.
type keys struct {
	client *clientv3.Client
	prefix string
}

func (k *keys) key(name string) string { return k.prefix + "/" + name }

// refusals are the answers with which the server says that it has not begun a
// transaction and will not, each with what it means. Everything else is unknown.
var refusals = []struct {
	err    error
	code   sdk.Code
	advice string
}{
	{rpctypes.ErrRequestTooLarge, sdk.TooLarge, "the server's request limit is below what this store needs; raise --max-request-bytes"},
	{rpctypes.ErrNoSpace, sdk.NotApplied, "the database is full; compact it, defragment it and disarm the alarm"},
	{rpctypes.ErrTooManyRequests, sdk.NotApplied, "the server sheds load"},
	{rpctypes.ErrNoLeader, sdk.NotApplied, "the cluster has no leader"},
	{rpctypes.ErrPermissionDenied, sdk.Unsuitable, "the user's role lacks readwrite on the prefix"},
	{rpctypes.ErrAuthFailed, sdk.Unsuitable, "user or password are wrong"},
	{rpctypes.ErrInvalidAuthToken, sdk.NotApplied, "the session's token ran out"},
	{rpctypes.ErrUserEmpty, sdk.Unsuitable, "the cluster wants a user; set ETCDCTL_USER"},
	{rpctypes.ErrCorrupt, sdk.Unsuitable, "the cluster found its data corrupt"},
	{rpctypes.ErrNotCapable, sdk.Unsuitable, "the server is too old"},
}

// classify says what an error means. Before anything was sent, and for a read,
// otherwise is NOT_APPLIED; for a transaction it is MUTATION_UNKNOWN.
func classify(err error, otherwise sdk.Code) error {
	for _, r := range refusals {
		if errors.Is(rpctypes.Error(err), r.err) {
			return sdk.Errorf(r.code, "etcd", "%s: %w", r.advice, err)
		}
	}
	return sdk.Errorf(otherwise, "etcd", "%w", err)
}

func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return sdk.Errorf(sdk.NotApplied, "etcd", "nothing was sent: %w", err)
	}
	return nil
}

func versionOf(value []byte) string { return "=" + string(value) }

// Get implements cas.Objects.
func (k *keys) Get(ctx context.Context, name string) ([]byte, string, error) {
	if err := ended(ctx); err != nil {
		return nil, "", err
	}
	r, err := k.client.Get(ctx, k.key(name))
	if err != nil {
		return nil, "", classify(err, sdk.NotApplied)
	}
	if len(r.Kvs) == 0 {
		return nil, "", sdk.Errorf(sdk.NotFound, name, "no such key")
	}
	return r.Kvs[0].Value, versionOf(r.Kvs[0].Value), nil
}

// PutIf implements cas.Objects.
func (k *keys) PutIf(ctx context.Context, name string, body []byte, version string) (bool, string, error) {
	if err := ended(ctx); err != nil {
		return false, "", err
	}
	key := k.key(name)
	still := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	if version != "" {
		still = clientv3.Compare(clientv3.Value(key), "=", version[1:])
	}
	r, err := k.client.Txn(ctx).If(still).Then(clientv3.OpPut(key, string(body))).Commit()
	if err != nil {
		return false, "", classify(err, sdk.MutationUnknown)
	}
	if !r.Succeeded {
		return false, "", nil
	}
	return true, versionOf(body), nil
}

// PutNew implements cas.Objects.
func (k *keys) PutNew(ctx context.Context, name string, body []byte) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if _, err := k.client.Put(ctx, k.key(name), string(body)); err != nil {
		return classify(err, sdk.NotApplied) // a part that is written in vain is let go
	}
	return nil
}

// List implements cas.Objects.
func (k *keys) List(ctx context.Context, prefix string, each func(name string) error) error {
	if err := ended(ctx); err != nil {
		return err
	}
	r, err := k.client.Get(ctx, k.key(prefix), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return classify(err, sdk.NotApplied)
	}
	for _, kv := range r.Kvs {
		if err := each(strings.TrimPrefix(string(kv.Key), k.prefix+"/")); err != nil {
			return err
		}
	}
	return nil
}

// Remove implements cas.Remover.
func (k *keys) Remove(ctx context.Context, name string) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if _, err := k.client.Delete(ctx, k.key(name)); err != nil {
		return classify(err, sdk.NotApplied)
	}
	return nil
}

func (k *keys) serverVersion(ctx context.Context) (string, error) {
	if err := ended(ctx); err != nil {
		return "", err
	}
	r, err := k.client.Status(ctx, k.client.Endpoints()[0])
	if err != nil {
		return "", classify(err, sdk.NotApplied)
	}
	return r.Version, nil
}

// probe proves on the live cluster that a swap is refused where it must be, and
// that the user may read, write and list.
func (k *keys) probe(ctx context.Context) error {
	var nonce [8]byte
	rand.Read(nonce[:])
	name := "probe/" + hex.EncodeToString(nonce[:])
	defer k.Remove(context.WithoutCancel(ctx), name)
	for _, step := range []struct {
		what, version, body string
		want                bool
	}{
		{"a new key", "", "1", true},
		{"a new key where there is one", "", "2", false},
		{"a swap of the current value", versionOf([]byte("1")), "3", true},
		{"a swap of an old value", versionOf([]byte("1")), "4", false},
	} {
		got, _, err := k.PutIf(ctx, name, []byte(step.body), step.version)
		if err != nil {
			return err
		}
		if got != step.want {
			return sdk.Errorf(sdk.Unsuitable, "transaction", "%s: the server said %v", step.what, got)
		}
	}
	found := false
	if err := k.List(ctx, "probe/", func(n string) error { found = found || n == name; return nil }); err != nil {
		return err
	}
	if !found {
		return sdk.Errorf(sdk.Unsuitable, "range", "a key that was written is not listed")
	}
	return nil
}
