package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/gate/gatetest"
)

// fencedSide is the story with a gate for each worker in front of one store.
type fencedSide struct {
	store        sdk.FencedStore
	registry     *gatetest.Authority
	gateA, gateB *gate.Gate
	frozen       time.Time // A's clock while its machine stands still
	base         sdk.Token // A's; B's is the next
	job          string

	leaseA, leaseB  *gatetest.Lease
	late            gate.Request // A's write, ready before the pause
	refused, intact bool
}

func newFencedSide(ctx context.Context, store sdk.FencedStore) (*fencedSide, error) {
	f := &fencedSide{store: store}
	state, err := store.Inspect(ctx, demoResource)
	if err != nil {
		return nil, err
	}
	f.base = max(state.Highest+1, 41)
	f.job = "demo " + f.base.String()
	if f.registry, err = gatetest.New("demo"); err != nil {
		return nil, err
	}
	clockA := func() time.Time {
		if !f.frozen.IsZero() {
			return f.frozen
		}
		return f.registry.Now()
	}
	if f.gateA, err = f.registry.Gate(store, "worker-a", &gate.Options{Now: clockA}); err != nil {
		return nil, err
	}
	f.gateB, err = f.registry.Gate(store, "worker-b", nil)
	return f, err
}

func (f *fencedSide) advance(d time.Duration) { f.registry.Advance(d) }

// op names an operation of this telling, so that the story can be told again on
// the same store.
func (f *fencedSide) op(name string) sdk.OperationID {
	return sdk.OperationID(fmt.Sprintf("demo-%s-%s", f.base, name))
}

// plainSide is the story with a lock that only the workers respect: a lock file
// with an owner and an end, and beside it the data.
type plainSide struct {
	dir    string
	now    time.Duration
	intact bool
}

type plainLock struct {
	Owner string
	Until time.Duration
}

func newPlainSide() (*plainSide, error) {
	dir, err := os.MkdirTemp("", "adaptercheck-demo-*")
	return &plainSide{dir: dir}, err
}

func (p *plainSide) remove() error { return os.RemoveAll(p.dir) }

func (p *plainSide) file(name string) string { return filepath.Join(p.dir, name) }

// take is a correct lock service: it gives the lock only when it is free or has
// run out.
func (p *plainSide) take(owner string) error {
	if l, err := p.holder(); err == nil && l.Until > p.now {
		return fmt.Errorf("%s holds the lock", l.Owner)
	}
	b, err := json.Marshal(plainLock{owner, p.now + leaseTTL})
	if err != nil {
		return err
	}
	return os.WriteFile(p.file("lock"), b, 0o600)
}

func (p *plainSide) holder() (l plainLock, err error) {
	b, err := os.ReadFile(p.file("lock"))
	if err != nil {
		return l, err
	}
	return l, json.Unmarshal(b, &l)
}

// mine is what a careful worker asks before it writes.
func (p *plainSide) mine(owner string) error {
	l, err := p.holder()
	if err == nil && (l.Owner != owner || l.Until <= p.now) {
		err = fmt.Errorf("%s does not hold the lock", owner)
	}
	return err
}

// write is a store that does not know of locks.
func (p *plainSide) write(key, value string) error {
	return os.WriteFile(p.file(key), []byte(value), 0o600)
}

func (p *plainSide) acquireA() ([]line, error) {
	p.now = 0
	return []line{{act, "A asks for the lock"}, {note, "locked for 10 s"}}, p.take("worker-a")
}

func (p *plainSide) startA() ([]line, error) {
	p.now = 1 * time.Second
	if err := p.mine("worker-a"); err != nil {
		return nil, err
	}
	return []line{{act, "A writes status = counting"}, {good, "written"}}, p.write("status", "A is counting")
}

func (p *plainSide) freezeA() ([]line, error) {
	p.now = 2 * time.Second
	return []line{{act, "A checks: the lock is its own"}, {act, "A is about to write total = " + totalA},
		{note, "its machine freezes, clock too"}}, p.mine("worker-a")
}

func (p *plainSide) expireA() ([]line, error) {
	p.now = 10 * time.Second
	return []line{{act, "the lock runs out"}}, nil
}

func (p *plainSide) acquireB() ([]line, error) {
	p.now = 12 * time.Second
	return []line{{act, "B asks for the lock"}, {note, "locked for 10 s"}}, p.take("worker-b")
}

func (p *plainSide) writeB() ([]line, error) {
	p.now = 14 * time.Second
	if err := p.mine("worker-b"); err != nil {
		return nil, err
	}
	return []line{{act, "B writes total = " + totalB}, {good, "written"}}, p.write(demoKey, totalB)
}

func (p *plainSide) wakeA() ([]line, error) {
	p.now = 122 * time.Second
	return []line{{act, "A wakes; by its clock it is " + clock(2*time.Second)}, {act, "A writes total = " + totalA},
		{bad, "written: nobody checked"}}, p.write(demoKey, totalA)
}

func (p *plainSide) againA() ([]line, error) {
	p.now = 125 * time.Second
	if err := p.mine("worker-a"); err == nil {
		return nil, fmt.Errorf("worker A holds the lock again, which it should not")
	}
	return []line{{act, "A's clock is put right; A checks"}, {note, "the lock is gone; too late"}}, nil
}

func (p *plainSide) read() ([]line, error) {
	p.now = 130 * time.Second
	b, err := os.ReadFile(p.file(demoKey))
	p.intact = string(b) == totalB
	last := line{bad, "B's result is lost, unnoticed"}
	if p.intact {
		last = line{good, "B's result is intact"}
	}
	return []line{{act, "who reads finds total = " + string(b)}, last}, err
}
