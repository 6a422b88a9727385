// Package fault wraps a FencedStore so that calls fail in chosen ways: before
// they reach it, after they succeeded, late, without an answer, by a panic.
// Faults compose and print themselves; the store behind stays real.
//
//	s := fault.Wrap(store, fault.On(fault.Apply, 3, fault.DropAnswer()))
//	fmt.Println(s) // mem: on apply 3: drop the answer
package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/fencedstore/fencedstore/sdk"
)

// Method is a method of a FencedStore.
type Method string

// The methods that can fail. Describe and Close are passed through.
const (
	Apply       Method = "apply"
	Inspect     Method = "inspect"
	Receipt     Method = "receipt"
	Read        Method = "read"
	Quarantined Method = "quarantined"
	Probe       Method = "probe"
)

// Call is one call on the wrapped store.
type Call struct {
	Method   Method
	N        int // the how-many-eth call of this method, from 1
	Resource sdk.ResourceID
	// OfResource is the how-many-eth call of this method for this resource,
	// from 1; 0 for a probe.
	OfResource int
	Mutation   *sdk.Mutation // of an apply; nil for the zero Admission and for others
}

// lost is the honest code for an answer that is not known: of a write that it
// may have been applied (O1), of a read that the store could not be asked.
func (c *Call) lost() sdk.Code {
	if c.Method == Apply {
		return sdk.MutationUnknown
	}
	return sdk.NotApplied
}

// Fault is one way in which calls go wrong. The zero Fault changes nothing.
type Fault struct {
	text  string
	match func(*Call) bool
	// around runs the rest of the call, next, or not. For an apply the error is
	// its answer; a nil error leaves the answer as next gave it.
	around func(ctx context.Context, c *Call, next func(context.Context) error) error
}

// String says which calls and what becomes of them.
func (f Fault) String() string {
	if f.text == "" {
		return "nothing"
	}
	return f.text
}

func always(*Call) bool { return true }

// FailBefore fails calls before they reach the store. An error without a code
// becomes NOT_APPLIED: nothing was sent. nil is one of the package's own.
func FailBefore(err error) Fault {
	err = coded(err, sdk.NotApplied, "a fault before the call")
	return Fault{"fail before: " + err.Error(), always, func(context.Context, *Call, func(context.Context) error) error { return err }}
}

// FailAfter lets calls through and then answers err, whatever the store said. An
// error without a code becomes MUTATION_UNKNOWN for a write and NOT_APPLIED (the
// store could not be asked) for a read. An error with a code is answered as it
// is, also where that is a lie: to see what a lie does is a use of this package.
func FailAfter(err error) Fault {
	text := "a fault after the call"
	if err != nil {
		text = err.Error()
	}
	return Fault{"fail after: " + text, always, func(ctx context.Context, c *Call, next func(context.Context) error) error {
		_ = next(ctx)
		return coded(err, c.lost(), text)
	}}
}

// DropAnswer lets calls through and loses what the store answered, as a cut
// connection would: a write is MUTATION_UNKNOWN, a read NOT_APPLIED.
func DropAnswer() Fault {
	f := FailAfter(errors.New("the answer was lost"))
	f.text = "drop the answer"
	return f
}

// Hold keeps calls back until gate is closed (or yields a value, one call each),
// or their context ends: then they are answered NOT_APPLIED.
func Hold(gate <-chan struct{}) Fault {
	return Fault{"hold", always, func(ctx context.Context, _ *Call, next func(context.Context) error) error {
		select {
		case <-gate:
			return next(ctx)
		case <-ctx.Done():
			return sdk.Errorf(sdk.NotApplied, "", "held until the context ended: %w", ctx.Err())
		}
	}}
}

// HoldAnswer lets calls through and keeps their answers back until gate is
// closed (or yields a value), or their context ends: then a write is
// MUTATION_UNKNOWN, a read NOT_APPLIED.
func HoldAnswer(gate <-chan struct{}) Fault {
	return Fault{"hold the answer", always, func(ctx context.Context, c *Call, next func(context.Context) error) error {
		err := next(ctx)
		select {
		case <-gate:
			return err
		case <-ctx.Done():
			return sdk.Errorf(c.lost(), "", "the answer was held until the context ended: %w", ctx.Err())
		}
	}}
}

// Panic panics with v before the call reaches the store.
func Panic(v any) Fault {
	return Fault{fmt.Sprintf("panic: %v", v), always, func(context.Context, *Call, func(context.Context) error) error { panic(v) }}
}

// PanicAfter lets calls through and panics with v in place of the answer.
func PanicAfter(v any) Fault {
	return Fault{fmt.Sprintf("panic after: %v", v), always, func(ctx context.Context, _ *Call, next func(context.Context) error) error {
		_ = next(ctx)
		panic(v)
	}}
}

// Do calls fn before the call goes on; an error of fn ends it as FailBefore
// does. A delay is a fn that waits for what the test decides.
func Do(text string, fn func(context.Context, *Call) error) Fault {
	return Fault{text, always, func(ctx context.Context, c *Call, next func(context.Context) error) error {
		if err := fn(ctx, c); err != nil {
			return coded(err, sdk.NotApplied, "")
		}
		return next(ctx)
	}}
}

// Of narrows a fault to one method.
func Of(m Method, f Fault) Fault {
	return When("of "+string(m), func(c *Call) bool { return c.Method == m }, f)
}

// On narrows a fault to the n-th call of a method, from 1.
func On(m Method, n int, f Fault) Fault {
	return When(fmt.Sprintf("on %s %d", m, n), func(c *Call) bool { return c.Method == m && c.N == n }, f)
}

// First narrows a fault to the first n calls of a method.
func First(m Method, n int, f Fault) Fault {
	return When(fmt.Sprintf("first %d of %s", n, m), func(c *Call) bool { return c.Method == m && c.N <= n }, f)
}

// Every narrows a fault to every n-th call of a method; none if n is below 1.
func Every(m Method, n int, f Fault) Fault {
	return When(fmt.Sprintf("every %d of %s", n, m), func(c *Call) bool { return c.Method == m && n > 0 && c.N%n == 0 }, f)
}

// At narrows a fault to one resource. Inside it On, First and Every go on
// counting the calls of all resources; Call.OfResource counts those of one.
func At(r sdk.ResourceID, f Fault) Fault {
	return When(fmt.Sprintf("at %s", r), func(c *Call) bool { return c.Resource == r }, f)
}

// When narrows a fault to calls for which match holds; text says which.
func When(text string, match func(*Call) bool, f Fault) Fault {
	inner := f.match
	if inner == nil { // the zero Fault
		return Fault{text: text + ": nothing"}
	}
	return Fault{text + ": " + f.text, func(c *Call) bool { return match(c) && inner(c) }, f.around}
}

func coded(err error, code sdk.Code, text string) error {
	switch {
	case err == nil:
		return sdk.Errorf(code, "", "%s", text)
	case sdk.CodeOf(err) != 0:
		return err
	}
	return sdk.Errorf(code, "", "%w", err)
}

// Store is a FencedStore with faults. It is safe for concurrent use.
type Store struct {
	inner  sdk.FencedStore
	faults []Fault

	mu         sync.Mutex
	calls      map[Method]int
	ofResource map[called]int
}

type called struct {
	m Method
	r sdk.ResourceID
}

// Wrap puts faults around a store; the first is the outermost. Where several
// match a call each does its part: a first that fails before keeps the call
// from the second. Closing it closes the store.
func Wrap(store sdk.FencedStore, faults ...Fault) *Store {
	return &Store{inner: store, faults: slices.Clone(faults), calls: map[Method]int{}, ofResource: map[called]int{}}
}

// String names the store and lists the faults, the outermost first.
func (s *Store) String() string {
	parts := make([]string, len(s.faults))
	for i, f := range s.faults {
		parts[i] = f.String()
	}
	if len(parts) == 0 {
		parts = append(parts, "no faults")
	}
	name := s.inner.Describe().Name
	if in, ok := s.inner.(*Store); ok {
		name = in.String()
	}
	return name + ": " + strings.Join(parts, "; ")
}

// Calls returns how many calls of a method came, whatever became of them.
func (s *Store) Calls(m Method) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[m]
}

func (s *Store) run(ctx context.Context, c *Call, last func(context.Context) error) error {
	s.mu.Lock()
	s.calls[c.Method]++
	c.N = s.calls[c.Method]
	if c.Resource != "" {
		s.ofResource[called{c.Method, c.Resource}]++
		c.OfResource = s.ofResource[called{c.Method, c.Resource}]
	}
	s.mu.Unlock()
	next := last
	for i := len(s.faults) - 1; i >= 0; i-- {
		f, rest := s.faults[i], next
		if f.match != nil && f.match(c) {
			next = func(ctx context.Context) error { return f.around(ctx, c, rest) }
		}
	}
	return next(ctx)
}

// Apply implements sdk.FencedStore.
func (s *Store) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	c := &Call{Method: Apply}
	if m, err := a.Mutation(); err == nil {
		c.Resource, c.Mutation = m.Resource, m
	}
	var out sdk.Outcome
	var answer *passed
	err := s.run(ctx, c, func(ctx context.Context) error {
		var err error
		if out, err = s.inner.Apply(ctx, a); err == nil {
			return nil
		}
		answer = &passed{err}
		return answer
	})
	switch {
	case err == nil:
		return out, nil
	case answer != nil && err == error(answer): // as the store gave it
		return out, answer.error
	}
	return sdk.Refusal(err), err
}

// passed marks an error as the store's own answer, which no fault has replaced.
// It is told apart by its address: the store's error may be of any type.
type passed struct{ error }

func (p *passed) Unwrap() error { return p.error }

// Inspect implements sdk.FencedStore.
func (s *Store) Inspect(ctx context.Context, r sdk.ResourceID) (out sdk.FenceState, err error) {
	err = s.run(ctx, &Call{Method: Inspect, Resource: r}, func(ctx context.Context) (err error) { out, err = s.inner.Inspect(ctx, r); return err })
	return orZero(out, err)
}

// Receipt implements sdk.FencedStore.
func (s *Store) Receipt(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (out sdk.Receipt, err error) {
	err = s.run(ctx, &Call{Method: Receipt, Resource: r}, func(ctx context.Context) (err error) { out, err = s.inner.Receipt(ctx, r, op); return err })
	return orZero(out, err)
}

// Read implements sdk.FencedStore.
func (s *Store) Read(ctx context.Context, r sdk.ResourceID, key string) (out []byte, err error) {
	err = s.run(ctx, &Call{Method: Read, Resource: r}, func(ctx context.Context) (err error) { out, err = s.inner.Read(ctx, r, key); return err })
	return orZero(out, err)
}

// Quarantined implements sdk.FencedStore.
func (s *Store) Quarantined(ctx context.Context, r sdk.ResourceID) (out []sdk.Quarantine, err error) {
	err = s.run(ctx, &Call{Method: Quarantined, Resource: r}, func(ctx context.Context) (err error) { out, err = s.inner.Quarantined(ctx, r); return err })
	return orZero(out, err)
}

func orZero[T any](v T, err error) (T, error) {
	if err != nil {
		var zero T
		return zero, err
	}
	return v, nil
}

// Probe implements sdk.FencedStore.
func (s *Store) Probe(ctx context.Context) error {
	return s.run(ctx, &Call{Method: Probe}, s.inner.Probe)
}

// Describe implements sdk.FencedStore.
func (s *Store) Describe() sdk.Description { return s.inner.Describe() }

// Close implements sdk.FencedStore.
func (s *Store) Close() error { return s.inner.Close() }
