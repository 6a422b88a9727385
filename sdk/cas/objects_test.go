package cas_test

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/cas"
)

// bucket is an object store in memory. Its versions are never used twice.
type bucket struct {
	mu      sync.Mutex
	objects map[string]object
	last    int
	calls   map[string]int
	// before and after stand around PutIf: an error of before keeps it from
	// happening, one of after hides that it did.
	before, after func(name string) error
	// got is called after a Get, without the lock.
	got func(name string)
}

type object struct {
	body    []byte
	version string
}

func newBucket() *bucket { return &bucket{objects: map[string]object{}, calls: map[string]int{}} }

func (b *bucket) enter(ctx context.Context, method string) error {
	b.calls[method]++
	if err := ctx.Err(); err != nil {
		return sdk.Errorf(sdk.NotApplied, "", "%w", err)
	}
	return nil
}

func (b *bucket) Get(ctx context.Context, name string) ([]byte, string, error) {
	if b.got != nil {
		defer func() { b.got(name) }()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.enter(ctx, "get"); err != nil {
		return nil, "", err
	}
	o, ok := b.objects[name]
	if !ok {
		return nil, "", sdk.Errorf(sdk.NotFound, name, "no such object")
	}
	return append([]byte{}, o.body...), o.version, nil
}

func (b *bucket) PutIf(ctx context.Context, name string, body []byte, version string) (bool, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.enter(ctx, "putif"); err != nil {
		return false, "", err
	}
	if b.before != nil {
		if err := b.before(name); err != nil {
			return false, "", err
		}
	}
	if b.objects[name].version != version {
		return false, "", nil
	}
	b.last++
	next := strconv.Itoa(b.last)
	b.objects[name] = object{append([]byte{}, body...), next}
	if b.after != nil {
		if err := b.after(name); err != nil {
			return false, "", err
		}
	}
	return true, next, nil
}

func (b *bucket) PutNew(ctx context.Context, name string, body []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.enter(ctx, "putnew"); err != nil {
		return err
	}
	b.last++
	b.objects[name] = object{append([]byte{}, body...), strconv.Itoa(b.last)}
	return nil
}

func (b *bucket) List(ctx context.Context, prefix string, each func(string) error) error {
	b.mu.Lock()
	if err := b.enter(ctx, "list"); err != nil {
		b.mu.Unlock()
		return err
	}
	var names []string
	for name := range b.objects {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	b.mu.Unlock()
	for _, name := range names {
		if err := each(name); err != nil {
			return err
		}
	}
	return nil
}

func (b *bucket) Remove(_ context.Context, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.objects, name)
	return nil
}

func (b *bucket) names(part string) (out []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range b.objects {
		if strings.Contains(name, part) {
			out = append(out, name)
		}
	}
	return out
}

func (b *bucket) count(methods ...string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range methods {
		n += b.calls[m]
	}
	return n
}

func (b *bucket) open(ctx context.Context, o sdk.OpenOptions) (*cas.Store, error) {
	yes := sdk.Declared{Support: sdk.Supported}
	return cas.Open(ctx, cas.Adapter{Objects: b, Description: sdk.Description{Name: "bucket", Version: "1", Backend: "Go map", Environment: sdk.Embedded,
		Capabilities: map[sdk.Capability]sdk.Declared{sdk.CapDurable: yes, sdk.CapShared: yes,
			sdk.CapDial: {Support: sdk.NotSupported, Reason: "nothing goes over a wire"}},
		Limits: sdk.Limits{Quarantine: 20}}}, o)
}
