package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

const (
	demoResource sdk.ResourceID = "adaptercheck/demo"
	demoKey                     = "total"
	totalA                      = "1,180" // computed before the pause, without the last sales
	totalB                      = "1,240"
	leaseTTL                    = 10 * time.Second // gatetest.TTL; the plain lock has the same
)

// story is what happens, in the order of its time.
func story() []scene {
	return []scene{
		{at: 0, fenced: (*fencedSide).acquireA, plain: (*plainSide).acquireA},
		{at: 1 * time.Second, fenced: (*fencedSide).startA, plain: (*plainSide).startA},
		{at: 2 * time.Second, fenced: (*fencedSide).freezeA, plain: (*plainSide).freezeA},
		{at: 10 * time.Second, fenced: (*fencedSide).expireA, plain: (*plainSide).expireA},
		{at: 12 * time.Second, fenced: (*fencedSide).acquireB, plain: (*plainSide).acquireB},
		{at: 14 * time.Second, fenced: (*fencedSide).writeB, plain: (*plainSide).writeB},
		{at: 122 * time.Second, fenced: (*fencedSide).wakeA, plain: (*plainSide).wakeA},
		{at: 125 * time.Second, fenced: (*fencedSide).againA, plain: (*plainSide).againA},
		{at: 130 * time.Second, fenced: (*fencedSide).read, plain: (*plainSide).read},
	}
}

func put(total string) sdk.Effect { return sdk.Put(demoKey, []byte(total)) }

// verdict is a store's answer as a line; wanted says whether it is the right
// one.
func verdict(out sdk.Outcome, err error, wanted bool, why string) line {
	kind := bad
	if wanted {
		kind = good
	}
	text := out.Code.String()
	if err != nil {
		text = "refused: " + sdk.WriteCode(err).String()
	}
	return line{kind, text + why}
}

func (f *fencedSide) acquireA(context.Context) ([]line, error) {
	l, err := f.registry.Issue(demoResource, "worker-a", f.job, f.base)
	f.leaseA = l
	return []line{{act, "A asks for the lease"}, {note, fmt.Sprintf("signed grant, 10 s, token %s", f.base)}}, err
}

func (f *fencedSide) startA(ctx context.Context) ([]line, error) {
	f.advance(1 * time.Second)
	out, err := f.gateA.ApplyFencedMutation(ctx, f.leaseA.Request(1, f.op("begin"), sdk.Put("status", []byte("A is counting"))))
	if err != nil {
		return nil, err
	}
	return []line{{act, "A writes status = counting"},
		verdict(out, err, true, fmt.Sprintf(": the fence is %s", out.Observed.Highest))}, nil
}

func (f *fencedSide) freezeA(context.Context) ([]line, error) {
	f.advance(1 * time.Second)
	f.late = f.leaseA.Request(2, f.op("total"), put(totalA))
	f.frozen = f.registry.Now()
	return []line{{act, "A checks: the lease is its own"}, {act, "A is about to write total = " + totalA},
		{note, "its machine freezes, clock too"}}, nil
}

func (f *fencedSide) expireA(context.Context) ([]line, error) {
	f.advance(8 * time.Second)
	return []line{{act, "the lease runs out"}}, nil
}

func (f *fencedSide) acquireB(ctx context.Context) ([]line, error) {
	f.advance(2 * time.Second)
	l, err := f.registry.Issue(demoResource, "worker-b", f.job, f.base+1)
	if err != nil {
		return nil, err
	}
	f.leaseB = l
	state, err := f.gateB.Claim(ctx, l.Claim())
	if err != nil {
		return nil, err
	}
	lines := []line{{act, "B asks for the lease"}, {note, fmt.Sprintf("signed grant, 10 s, token %s", l.Grant.Fence)},
		{act, "B claims the resource"}, {good, fmt.Sprintf("the fence is %s: A is shut out", state.Highest)},
		{act, "B asks: has A's total arrived?"}}
	_, err = f.store.Receipt(ctx, demoResource, f.op("total"))
	if sdk.CodeOf(err) != sdk.NotFound {
		return nil, fmt.Errorf("a receipt of A's total was not expected: %w", err)
	}
	return append(lines, line{note, "no, and now it never can"}), nil
}

func (f *fencedSide) writeB(ctx context.Context) ([]line, error) {
	f.advance(2 * time.Second)
	out, err := f.gateB.ApplyFencedMutation(ctx, f.leaseB.Request(2, f.op("total"), put(totalB)))
	if err != nil {
		return nil, err
	}
	return []line{{act, "B writes total = " + totalB}, verdict(out, err, true, ", with a receipt")}, nil
}

// wakeA sends the write that was ready before the pause. A's clock stood still
// with its machine, so its proof looks fresh and its own gate lets it through:
// what stops it is the store.
func (f *fencedSide) wakeA(ctx context.Context) ([]line, error) {
	f.advance(108 * time.Second)
	out, err := f.gateA.ApplyFencedMutation(ctx, f.late)
	f.refused = sdk.WriteCode(err) == sdk.StaleOwner
	why := ""
	if f.refused {
		why = fmt.Sprintf(" (%s < %s)", f.base, out.Observed.Highest)
	}
	return []line{{act, "A wakes; by its clock it is " + clock(2*time.Second)}, {act, "A writes total = " + totalA},
		verdict(out, err, f.refused, why)}, nil
}

// againA is A with its clock set right.
func (f *fencedSide) againA(ctx context.Context) ([]line, error) {
	f.advance(3 * time.Second)
	f.frozen = time.Time{}
	out, err := f.gateA.ApplyFencedMutation(ctx, f.late)
	held := sdk.WriteCode(err) == sdk.NotHeld
	why := ""
	if held {
		why = ", by the gate"
	}
	return []line{{act, "A's clock is put right; A retries"}, verdict(out, err, held, why)}, nil
}

func (f *fencedSide) read(ctx context.Context) ([]line, error) {
	f.advance(5 * time.Second)
	v, err := f.store.Read(ctx, demoResource, demoKey)
	if err != nil {
		return nil, err
	}
	f.intact = string(v) == totalB
	last := line{bad, "B's result is gone"}
	if f.intact {
		last = line{good, "B's result is intact"}
	}
	return []line{{act, "who reads finds total = " + string(v)}, last}, nil
}
